//! Validates metadata.

use serde_json::{Value, json};

use super::{finalizers, is_deleting, name_of, text};
use crate::{builtin, name, resource::Resource, schema::FieldError};

const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// Validates the metadata of an object.
pub(crate) fn validate(resource: &Resource, object: &Value) -> Vec<FieldError> {
    let metadata = &object["metadata"];
    let mut errors = validate_name(resource, object);
    for (key, value) in entries(&metadata["labels"]) {
        let field = "metadata.labels";
        errors.extend(invalid(field, key, name::qualified(key)));
        errors.extend(invalid(field, value, name::label_value(value)));
    }
    errors.extend(validate_annotations(&metadata["annotations"]));
    for (index, finalizer) in finalizers(object).into_iter().enumerate() {
        let field = "metadata.finalizers";
        errors.extend(invalid(field, finalizer, name::qualified(finalizer)));
        if resource.schema.is_none() && !finalizer.contains('/') && !is_standard(finalizer) {
            let field = format!("{field}[{index}]");
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            errors.push(FieldError::invalid(&field, &json!(finalizer), why));
        }
    }
    errors.extend(validate_owners(&metadata["ownerReferences"]));
    errors
}

fn invalid<'a>(
    field: &'a str,
    value: &'a str,
    errors: impl IntoIterator<Item = impl AsRef<str>> + 'a,
) -> impl Iterator<Item = FieldError> + 'a {
    let errors = errors.into_iter();
    errors.map(move |error| FieldError::invalid(field, &json!(value), error.as_ref()))
}

fn validate_name(resource: &Resource, object: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let base = text(object, "/metadata/generateName");
    if !base.is_empty() {
        // The suffix comes after the base, so a base may end in a dash.
        let found = resource.names.validate(&base.replace('-', "a"));
        errors.extend(invalid("metadata.generateName", base, found));
    }
    match name_of(object) {
        "" => errors.push(FieldError::required(
            "metadata.name",
            "name or generateName is required",
        )),
        name => errors.extend(invalid(
            "metadata.name",
            name,
            resource.names.validate(name),
        )),
    }
    errors
}

fn validate_annotations(annotations: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let field = "metadata.annotations";
    let mut size = 0;
    for (key, value) in entries(annotations) {
        size += key.len() + value.len();
        errors.extend(invalid(field, key, name::qualified(&key.to_lowercase())));
    }
    if size > ANNOTATIONS_LIMIT {
        errors.push(FieldError {
            reason: "FieldValueTooLong",
            field: field.into(),
            message: format!("Too long: may not be more than {ANNOTATIONS_LIMIT} bytes"),
        });
    }
    errors
}

fn is_standard(finalizer: &str) -> bool {
    matches!(finalizer, "kubernetes" | "orphan" | "foregroundDeletion")
        || finalizer == builtin::CLEANUP_FINALIZER
}

fn entries(map: &Value) -> impl Iterator<Item = (&str, &str)> {
    let map = map.as_object().into_iter().flatten();
    map.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

fn validate_owners(owners: &Value) -> Vec<FieldError> {
    const FIELD: &str = "metadata.ownerReferences";
    let mut errors = Vec::new();
    let mut controller: Option<String> = None;
    for owner in owners.as_array().into_iter().flatten() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if text(owner, &format!("/{field}")).is_empty() {
                let what = if field == "apiVersion" {
                    "version must"
                } else {
                    "must"
                };
                let field = format!("{FIELD}.{field}");
                errors.push(FieldError::invalid(
                    &field,
                    &json!(""),
                    &format!("{what} not be empty"),
                ));
            }
        }
        if owner["controller"] != json!(true) {
            continue;
        }
        let this = format!("{}/{}", text(owner, "/kind"), text(owner, "/name"));
        match &controller {
            Some(first) => errors.push(FieldError::invalid(FIELD, owners, &format!(
                "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
            ))),
            None => controller = Some(this),
        }
    }
    errors
}

/// Validates a change of metadata.
pub(crate) fn validate_update(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if !is_deleting(old) {
        return errors;
    }
    let before = finalizers(old);
    let mut added: Vec<&str> = finalizers(new);
    added.retain(|finalizer| !before.contains(finalizer));
    if !added.is_empty() {
        added.sort_unstable();
        let added: Vec<String> = added.iter().map(|name| format!("{name:?}")).collect();
        errors.push(FieldError {
            reason: "FieldValueForbidden",
            field: "metadata.finalizers".into(),
            message: format!(
                "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                added.join(", ")
            ),
        });
    }
    errors
}

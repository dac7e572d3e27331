//! What can be wrong with metadata, in a real server's words.

use serde_json::{Value, json};

use super::{finalizers, is_deleting, name_of, text};
use crate::{builtin, name, resource::Resource, schema::FieldError};

const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// Everything wrong with an object's metadata.
pub(crate) fn faults(resource: &Resource, object: &Value) -> Vec<FieldError> {
    let metadata = &object["metadata"];
    let mut faults = name_faults(resource, object);
    for (key, value) in entries(&metadata["labels"]) {
        let field = "metadata.labels";
        faults.extend(invalid(field, key, name::qualified(key)));
        faults.extend(invalid(field, value, name::label_value(value)));
    }
    faults.extend(annotation_faults(&metadata["annotations"]));
    for (index, finalizer) in finalizers(object).into_iter().enumerate() {
        let field = "metadata.finalizers";
        faults.extend(invalid(field, finalizer, name::qualified(finalizer)));
        if resource.schema.is_none() && !finalizer.contains('/') && !is_standard(finalizer) {
            let field = format!("{field}[{index}]");
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            faults.push(FieldError::invalid(&field, &json!(finalizer), why));
        }
    }
    faults.extend(owner_faults(&metadata["ownerReferences"]));
    faults
}

fn invalid<'a>(
    field: &'a str,
    value: &'a str,
    faults: impl IntoIterator<Item = impl AsRef<str>> + 'a,
) -> impl Iterator<Item = FieldError> + 'a {
    let faults = faults.into_iter();
    faults.map(move |fault| FieldError::invalid(field, &json!(value), fault.as_ref()))
}

fn name_faults(resource: &Resource, object: &Value) -> Vec<FieldError> {
    let mut faults = Vec::new();
    let base = text(object, "/metadata/generateName");
    if !base.is_empty() {
        // The suffix comes after the base, so a base may end in a dash.
        let found = resource.names.faults(&base.replace('-', "a"));
        faults.extend(invalid("metadata.generateName", base, found));
    }
    match name_of(object) {
        "" => faults.push(FieldError::required(
            "metadata.name",
            "name or generateName is required",
        )),
        name => faults.extend(invalid("metadata.name", name, resource.names.faults(name))),
    }
    faults
}

fn annotation_faults(annotations: &Value) -> Vec<FieldError> {
    let mut faults = Vec::new();
    let field = "metadata.annotations";
    let mut size = 0;
    for (key, value) in entries(annotations) {
        size += key.len() + value.len();
        faults.extend(invalid(field, key, name::qualified(&key.to_lowercase())));
    }
    if size > ANNOTATIONS_LIMIT {
        faults.push(FieldError {
            reason: "FieldValueTooLong",
            field: field.into(),
            message: format!("Too long: may not be more than {ANNOTATIONS_LIMIT} bytes"),
        });
    }
    faults
}

fn is_standard(finalizer: &str) -> bool {
    matches!(finalizer, "kubernetes" | "orphan" | "foregroundDeletion")
        || finalizer == builtin::CLEANUP_FINALIZER
}

fn entries(map: &Value) -> impl Iterator<Item = (&str, &str)> {
    let map = map.as_object().into_iter().flatten();
    map.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

fn owner_faults(owners: &Value) -> Vec<FieldError> {
    const FIELD: &str = "metadata.ownerReferences";
    let mut faults = Vec::new();
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
                faults.push(FieldError::invalid(
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
            Some(first) => faults.push(FieldError::invalid(FIELD, owners, &format!(
                "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
            ))),
            None => controller = Some(this),
        }
    }
    faults
}

/// Everything wrong with a change of metadata.
pub(crate) fn update_faults(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut faults = Vec::new();
    if !is_deleting(old) {
        return faults;
    }
    let before = finalizers(old);
    let mut added: Vec<&str> = finalizers(new);
    added.retain(|finalizer| !before.contains(finalizer));
    if !added.is_empty() {
        added.sort_unstable();
        let added: Vec<String> = added.iter().map(|name| format!("{name:?}")).collect();
        faults.push(FieldError {
            reason: "FieldValueForbidden",
            field: "metadata.finalizers".into(),
            message: format!(
                "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                added.join(", ")
            ),
        });
    }
    faults
}

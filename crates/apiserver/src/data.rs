//! ConfigMaps and Secrets: types and keys are validated, and immutable ones do not change.

use base64::{DecodeError, Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    metadata::undecodable,
    name,
    resource::Resource,
    schema::FieldError,
    status::{ApiError, Result},
};

const SIZE_LIMIT: usize = 1024 * 1024;

/// The maps of a kind, and whether their values are base64.
fn maps(resource: &Resource) -> [(&'static str, bool); 2] {
    match resource.kind.as_str() {
        "Secret" => [("data", true), ("stringData", false)],
        _ => [("data", false), ("binaryData", true)],
    }
}

/// Refuses values of wrong types.
pub(crate) fn check_types(resource: &Resource, object: &Value) -> Result<()> {
    for (field, is_encoded) in maps(resource) {
        let path = format!("{}.{field}", resource.kind);
        let entries = match &object[field] {
            Value::Null => continue,
            Value::Object(entries) => entries,
            other => return Err(undecodable(resource, other, &path, "map[string]string")),
        };
        for value in entries.values() {
            let Some(text) = value.as_str().or(value.is_null().then_some("")) else {
                return Err(undecodable(resource, value, &path, "string"));
            };
            if let (true, Err(error)) = (is_encoded, STANDARD.decode(text)) {
                return Err(not_base64(resource, text, &error));
            }
        }
    }
    Ok(())
}

fn not_base64(resource: &Resource, text: &str, error: &DecodeError) -> ApiError {
    let at = match error {
        DecodeError::InvalidByte(at, _) | DecodeError::InvalidLastSymbol(at, _) => *at,
        DecodeError::InvalidLength(_) | DecodeError::InvalidPadding => text.len(),
    };
    ApiError::bad_request(format!(
        "{kind} in version \"v1\" cannot be handled as a {kind}: illegal base64 data at input byte {at}",
        kind = resource.kind,
    ))
}

/// Moves a Secret's `stringData` into `data` and fills in its type.
pub(crate) fn normalise(resource: &Resource, object: &mut Value) {
    if resource.kind != "Secret" {
        return;
    }
    let Some(secret) = object.as_object_mut() else {
        return;
    };
    if let Some(Value::Object(plain)) = secret.remove("stringData")
        && !plain.is_empty()
    {
        let data = secret.entry("data").or_insert_with(|| json!({}));
        if data.is_null() {
            *data = json!({});
        }
        for (key, value) in plain {
            data[key] = json!(STANDARD.encode(value.as_str().unwrap_or_default()));
        }
    }
    let kind = secret.entry("type").or_insert(Value::Null);
    if kind.as_str().is_none_or(str::is_empty) {
        *kind = json!("Opaque");
    }
}

/// Validates keys, sizes and changes.
pub(crate) fn validate(resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut size = 0;
    for (field, _) in maps(resource) {
        for (key, value) in new[field].as_object().into_iter().flatten() {
            size += value.as_str().map_or(0, str::len);
            let path = format!("{field}[{key}]");
            errors.extend(
                name::config_key(key)
                    .iter()
                    .map(|error| FieldError::invalid(&path, &json!(key), error)),
            );
            if field == "data" && new["binaryData"].get(key).is_some() {
                let why = "duplicate of key present in binaryData";
                errors.push(FieldError::invalid(&path, &json!(key), why));
            }
        }
    }
    if size > SIZE_LIMIT {
        errors.push(FieldError {
            reason: "FieldValueTooLong",
            field: if resource.kind == "Secret" {
                "data"
            } else {
                "[]"
            }
            .to_owned(),
            message: format!("Too long: may not be more than {SIZE_LIMIT} bytes"),
        });
    }
    if let Some(old) = old {
        errors.extend(validate_change(resource, new, old));
    }
    errors
}

fn validate_change(resource: &Resource, new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if resource.kind == "Secret" && new["type"] != old["type"] {
        errors.push(FieldError::invalid(
            "type",
            &new["type"],
            "field is immutable",
        ));
    }
    if old["immutable"] != json!(true) {
        return errors;
    }
    for field in ["immutable", "data", "binaryData"] {
        if new.get(field) != old.get(field) {
            errors.push(FieldError {
                reason: "FieldValueForbidden",
                field: field.to_owned(),
                message: "Forbidden: field is immutable when `immutable` is set".to_owned(),
            });
        }
    }
    errors
}

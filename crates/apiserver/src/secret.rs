//! Secrets: `stringData` moves into `data`, and `type` has a default.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{
    metadata::undecodable,
    resource::Resource,
    status::{ApiError, Result},
};

/// Moves `stringData` into `data` and fills in the type.
pub(crate) fn normalise(secret: &mut Value) {
    let Some(secret) = secret.as_object_mut() else {
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

/// Refuses values that are not base64, as decoding would on a real server.
pub(crate) fn check(resource: &Resource, secret: &Value) -> Result<()> {
    for (field, encoded) in [("data", true), ("stringData", false)] {
        let entries = match &secret[field] {
            Value::Null => continue,
            Value::Object(entries) => entries,
            other => return Err(undecodable(resource, other, field, "map[string]string")),
        };
        for (key, value) in entries {
            let Some(text) = value.as_str().or(value.is_null().then_some("")) else {
                let field = format!("Secret.{field}");
                return Err(undecodable(resource, value, &field, "string"));
            };
            if encoded && let Err(error) = STANDARD.decode(text) {
                return Err(ApiError::bad_request(format!(
                    "Secret in version \"v1\" cannot be handled as a Secret: {field}.{key}: illegal base64 data: {error}"
                )));
            }
        }
    }
    Ok(())
}

//! Request bodies: bounded, decoded by content type, checked to be the object the path is about.

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Value, json};

use crate::{
    metadata,
    resource::Resource,
    status::{ApiError, Result},
};

/// As much as a real server takes.
pub(crate) const LIMIT: usize = 3 * 1024 * 1024;

/// Reads a whole body of at most [`LIMIT`] bytes.
pub(crate) async fn read(body: Body) -> Result<Bytes> {
    match Limited::new(body, LIMIT).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(ApiError::too_large(LIMIT)),
        Err(error) => Err(ApiError::bad_request(format!("cannot read the body: {error}"))),
    }
}

/// The media type of a request, without its parameters.
pub(crate) fn media_type(headers: &HeaderMap) -> &str {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().split(';').next().unwrap_or_default().trim()
}

/// Decodes JSON or YAML, whichever the content type says.
pub(crate) fn decode(headers: &HeaderMap, bytes: &[u8]) -> Result<Value> {
    match media_type(headers) {
        "" | "application/json" | "*/*" => from_json(bytes),
        "application/yaml" => from_yaml(bytes),
        _ => Err(ApiError::unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml",
        )),
    }
}

/// Decodes JSON.
pub(crate) fn from_json(bytes: &[u8]) -> Result<Value> {
    serde_json::from_slice(bytes).map_err(|error| {
        ApiError::bad_request(format!("couldn't get version/kind; json parse error: {error}"))
    })
}

/// Decodes YAML into the JSON it stands for.
pub(crate) fn from_yaml(bytes: &[u8]) -> Result<Value> {
    let refuse = |error: &dyn std::fmt::Display| {
        ApiError::bad_request(format!("error converting YAML to JSON: {error}"))
    };
    let text = std::str::from_utf8(bytes).map_err(|error| refuse(&error))?;
    let options = serde_saphyr::options! { legacy_octal_numbers: true };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| refuse(&error))
}

/// Checks that a decoded body is an object of this kind and version.
pub(crate) fn check(resource: &Resource, mut object: Value) -> Result<Value> {
    if !object.is_object() {
        return Err(metadata::undecodable(resource, &object, "the body", &resource.kind));
    }
    if resource.schema.is_none() {
        check_builtin(resource, &mut object)?;
    } else {
        check_custom(resource, &object)?;
    }
    check_contents(resource, object)
}

/// Checks that a patched object is still of its kind and version.
pub(crate) fn check_patched(resource: &Resource, object: Value) -> Result<Value> {
    let kind = metadata::text(&object, "/kind");
    if kind.is_empty() {
        let text = object.to_string();
        let detail = format!("Object 'Kind' is missing in '{text}'");
        let fault = metadata::invalid("patch", &Value::String(text), &detail);
        return Err(ApiError::invalid_thing("", "", "", &[fault]));
    }
    let api_version = metadata::text(&object, "/apiVersion");
    let expected = resource.api_version();
    let name = metadata::name_of(&object);
    let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
    if api_version != expected {
        let fault = metadata::invalid("apiVersion", &json!(api_version), &format!("must be {expected}"));
        return Err(ApiError::invalid_thing(kind, group, name, &[fault]));
    }
    check_kind(resource, &object)?;
    check_contents(resource, object)
}

fn check_contents(resource: &Resource, object: Value) -> Result<Value> {
    metadata::check_types(resource, &object)?;
    if resource.kind == "Secret" && resource.group.is_empty() {
        crate::secret::check(resource, &object)?;
    }
    Ok(object)
}

/// The kind of a built-in object follows from the path; if it is given, it must fit.
fn check_builtin(resource: &Resource, object: &mut Value) -> Result<()> {
    let expected = resource.api_version();
    for (field, default) in [("kind", &resource.kind), ("apiVersion", &expected)] {
        let given = match &object[field] {
            Value::Null => "",
            Value::String(given) => given,
            other => return Err(metadata::undecodable(resource, other, field, "string")),
        };
        if given.is_empty() {
            object[field] = json!(default);
        } else if given != default {
            return Err(ApiError::bad_request(format!(
                "{} in version {:?} cannot be handled as a {}: the {field} {given:?} does not fit",
                metadata::text(object, "/kind"),
                resource.version,
                resource.kind,
            )));
        }
    }
    Ok(())
}

/// A custom object has to say what it is.
fn check_custom(resource: &Resource, object: &Value) -> Result<()> {
    let expected = resource.api_version();
    let given = metadata::text(object, "/apiVersion");
    if given != expected {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({given}) does not match the expected API version ({expected})"
        )));
    }
    if metadata::text(object, "/kind").is_empty() {
        return Err(ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type {}): Object 'Kind' is missing in '{object}'",
            resource.kind
        )));
    }
    check_kind(resource, object)
}

fn check_kind(resource: &Resource, object: &Value) -> Result<()> {
    let kind = metadata::text(object, "/kind");
    if kind == resource.kind {
        return Ok(());
    }
    let fault = metadata::invalid("kind", &json!(kind), &format!("must be {}", resource.kind));
    let name = metadata::name_of(object);
    Err(ApiError::invalid_thing(kind, &resource.group, name, &[fault]))
}

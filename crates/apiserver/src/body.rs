//! Request bodies: limited in size, decoded by content type, and checked against the kind of the path.

use axum::body::Body;
use bytes::Bytes;
use http::{HeaderMap, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use serde_json::{Value, json};
use serde_saphyr::options::DuplicateKeyPolicy;

use crate::{
    builtin, json, metadata, protobuf,
    resource::Resource,
    schema::FieldError,
    status::{ApiError, Result},
    types::Type,
};

/// The maximum size of a body, as in kube-apiserver.
pub(crate) const LIMIT: usize = 3 * 1024 * 1024;

/// Reads a whole body of at most [`LIMIT`] bytes.
pub(crate) async fn read(body: Body) -> Result<Bytes> {
    match Limited::new(body, LIMIT).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(ApiError::too_large(LIMIT)),
        Err(error) => Err(ApiError::bad_request(format!(
            "cannot read the body: {error}"
        ))),
    }
}

/// The media type of a request, without its parameters.
pub(crate) fn media_type(headers: &HeaderMap) -> &str {
    let value = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    value
        .unwrap_or_default()
        .split(';')
        .next()
        .unwrap_or_default()
        .trim()
}

/// Decodes an object of a kind.
pub(crate) fn decode_object(
    headers: &HeaderMap,
    bytes: &[u8],
    resource: &Resource,
) -> Result<Value> {
    let built_in = resource.schema.is_none().then_some(&*resource.object_type);
    decode(headers, bytes, &resource.kind, built_in)
}

/// Decodes JSON, YAML or, for a built-in type, protobuf, by content type. `kind` is its name in error
/// messages.
pub(crate) fn decode(
    headers: &HeaderMap,
    bytes: &[u8],
    kind: &str,
    built_in: Option<&Type>,
) -> Result<Value> {
    let media_type = media_type(headers);
    if let (Some(built_in), protobuf::MEDIA_TYPE) = (built_in, media_type) {
        let decoded = protobuf::decode(built_in, bytes);
        return decoded.ok_or_else(|| unrecognized(kind, "proto: it is cut off or malformed"));
    }
    let decoded = match media_type {
        "" | "application/json" => {
            json::parse(bytes).map_err(|error| format!("{UNREADABLE}{error}"))
        }
        "application/yaml" => from_yaml(bytes, true).map_err(|error| format!("yaml: {error}")),
        _ => {
            let binary = match built_in {
                Some(_) => ", application/vnd.kubernetes.protobuf",
                None => "",
            };
            return Err(ApiError::unsupported_media_type(format!(
                "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml{binary}",
            )));
        }
    };
    let object = decoded.and_then(|object| check_shape(&object).map(|()| object));
    object.map_err(|error| unrecognized(kind, &error))
}

const UNREADABLE: &str = "couldn't get version/kind; json parse error: ";

fn unrecognized(kind: &str, error: &str) -> ApiError {
    ApiError::bad_request(format!(
        "the object provided is unrecognized (must be of type {kind}): {error}"
    ))
}

/// Checks that a body is an object or null, and that its kind and apiVersion are strings.
fn check_shape(object: &Value) -> Result<(), String> {
    let misfit = |found: &Value, into: &str| {
        let found = metadata::type_name(found);
        Err(format!(
            "{UNREADABLE}json: cannot unmarshal {found} into {into}"
        ))
    };
    if !object.is_object() && !object.is_null() {
        return misfit(object, "Go value of type struct");
    }
    for field in ["apiVersion", "kind"] {
        if let Some(value) = object
            .get(field)
            .filter(|value| !value.is_string() && !value.is_null())
        {
            return misfit(value, &format!("Go struct field .{field} of type string"));
        }
    }
    Ok(())
}

/// Parses YAML or JSON. The last of duplicate keys counts; they are an error if `is_strict`.
pub(crate) fn from_yaml(bytes: &[u8], is_strict: bool) -> Result<Value, String> {
    // Most bodies are JSON, which is much faster to parse.
    if !is_strict
        && bytes.starts_with(b"{")
        && let Ok(object) = json::parse(bytes)
    {
        return Ok(object);
    }
    let policy = match is_strict {
        true => DuplicateKeyPolicy::Error,
        false => DuplicateKeyPolicy::LastWins,
    };
    let text = std::str::from_utf8(bytes).map_err(|error| error.to_string())?;
    // The parser is lenient about tabs where YAML allows only spaces.
    if text
        .lines()
        .find(|line| !line.trim().is_empty())
        .is_some_and(|line| line.starts_with('\t'))
    {
        return Err("found character that cannot start any token".to_owned());
    }
    let options = serde_saphyr::options! {
        legacy_octal_numbers: true,
        duplicate_keys: policy,
    };
    let value = serde_saphyr::from_str_with_options(text, options);
    match value.map_err(|error| error.to_string())? {
        value if json::is_deeper(&value, json::DEPTH_LIMIT) => Err("exceeded max depth".to_owned()),
        value => Ok(value),
    }
}

/// Checks that a decoded body is an object of this kind and version.
pub(crate) fn check(resource: &Resource, mut object: Value) -> Result<Value> {
    if object.is_null() {
        object = json!({});
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
        let error = FieldError::invalid("patch", &Value::String(text), &detail);
        return Err(ApiError::invalid_kind("", "", "", &[error]));
    }
    let api_version = metadata::text(&object, "/apiVersion");
    let expected = resource.api_version();
    let name = metadata::name_of(&object);
    let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
    if api_version != expected {
        let error = FieldError::invalid(
            "apiVersion",
            &json!(api_version),
            &format!("must be {expected}"),
        );
        return Err(ApiError::invalid_kind(kind, group, name, &[error]));
    }
    check_kind(resource, &object)?;
    check_contents(resource, object)
}

fn check_contents(resource: &Resource, object: Value) -> Result<Value> {
    metadata::check_types(resource, &object)?;
    builtin::check_types(resource, &object)?;
    Ok(object)
}

/// The kind of a built-in object is optional, but must match the path.
fn check_builtin(resource: &Resource, object: &mut Value) -> Result<()> {
    let expected = resource.api_version();
    for (field, default) in [("kind", &resource.kind), ("apiVersion", &expected)] {
        if metadata::text(object, &format!("/{field}")).is_empty() {
            object[field] = json!(default);
        }
    }
    let (kind, version) = (
        metadata::text(object, "/kind"),
        metadata::text(object, "/apiVersion"),
    );
    if kind != resource.kind || version != expected {
        return Err(ApiError::bad_request(format!(
            "{kind} in version {:?} cannot be handled as a {}: no kind {kind:?} is registered for version {version:?} here",
            resource.version, resource.kind,
        )));
    }
    Ok(())
}

/// A custom object must have kind and apiVersion.
fn check_custom(resource: &Resource, object: &Value) -> Result<()> {
    if metadata::text(object, "/kind").is_empty() {
        let error = format!("Object 'Kind' is missing in '{object}'");
        return Err(unrecognized(&resource.kind, &error));
    }
    let expected = resource.api_version();
    let given = metadata::text(object, "/apiVersion");
    if given != expected {
        return Err(ApiError::bad_request(format!(
            "the API version in the data ({given}) does not match the expected API version ({expected})"
        )));
    }
    check_kind(resource, object)
}

fn check_kind(resource: &Resource, object: &Value) -> Result<()> {
    let kind = metadata::text(object, "/kind");
    if kind == resource.kind {
        return Ok(());
    }
    let error = FieldError::invalid("kind", &json!(kind), &format!("must be {}", resource.kind));
    let name = metadata::name_of(object);
    Err(ApiError::invalid_kind(
        kind,
        &resource.group,
        name,
        &[error],
    ))
}

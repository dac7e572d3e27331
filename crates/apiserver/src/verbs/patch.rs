//! The verb patch: JSON patch, merge patch and strategic merge patch; apply patches are in `apply`.

mod operations;

use std::borrow::Cow;

use axum::{body::Body, response::Response};
use http::StatusCode;
use json_patch::PatchOperation;
use serde_json::{Map, Value};

use super::{ObjectRequest, WriteOptions, apply, update::change_object};
use crate::{
    admission,
    apply::LiveObject,
    blocking, body, json, metadata,
    resource::Resource,
    schema::FieldError,
    status::{ApiError, Result},
    strategic,
};

const JSON_PATCH: &str = "application/json-patch+json";
const MERGE_PATCH: &str = "application/merge-patch+json";
const STRATEGIC_PATCH: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

/// The maximum number of operations in a JSON patch, as in kube-apiserver.
const OPERATIONS_LIMIT: usize = 10_000;

/// More operations than this can take long on a large object.
const MANY_OPERATIONS: usize = 100;

/// A decoded patch.
pub(super) enum Patch {
    Merge(Value),
    Strategic(Value),
    Operations(Vec<PatchOperation>),
}

pub(super) async fn patch(request: &ObjectRequest<'_>, body: Body) -> Result<Response> {
    let resource = request.resource();
    let media_type = body::media_type(request.headers());
    check_media_type(resource, media_type)?;
    if media_type == APPLY {
        return apply::apply(request, body).await;
    }
    check_force(request)?;
    let mut options = WriteOptions::of(request, "PatchOptions")?;
    options.is_patch = true;
    let bytes = body::read(body).await?;
    let patch = parse(&bytes)?;
    options.find_duplicate_keys(&bytes, &patch);
    let patch = decode(media_type, patch)?;
    options.is_status_only = request.target.is_status
        && patch.has_only(&["apiVersion", "kind", "metadata", "status"])
        && !admission::applies_to(request.server, resource, true);
    let (object, warnings) = change_object(request.server, &request.target, &options, |live| {
        let patched = patched(&patch, resource, live)?;
        Ok(body::check_patched(resource, patched)?.into())
    })
    .await?;
    Ok(super::with_warnings(
        request.respond_with(&object),
        &warnings,
    ))
}

/// Reads a patch of a scale.
pub(super) async fn read_scale_patch(request: &ObjectRequest<'_>, body: Body) -> Result<Patch> {
    let media_type = body::media_type(request.headers());
    if media_type == APPLY {
        return Err(ApiError::not_supported("applying a scale"));
    }
    check_media_type(request.resource(), media_type)?;
    decode(media_type, parse(&body::read(body).await?)?)
}

/// Custom objects have no merge keys and so no strategic merge patch.
fn check_media_type(resource: &Resource, media_type: &str) -> Result<()> {
    let accepted: &[&str] = match resource.schema {
        Some(_) => &[JSON_PATCH, MERGE_PATCH, APPLY],
        None => &[JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY],
    };
    if accepted.contains(&media_type) {
        return Ok(());
    }
    Err(ApiError::unsupported_media_type(format!(
        "the body of the request was in an unknown format - accepted media types include: {}",
        accepted.join(", ")
    )))
}

fn check_force(request: &ObjectRequest<'_>) -> Result<()> {
    if request.query.force.is_none() {
        return Ok(());
    }
    let error = FieldError {
        reason: "FieldValueForbidden",
        field: "force".to_owned(),
        message: "Forbidden: may not be specified for non-apply patch".to_owned(),
    };
    Err(ApiError::invalid_options("PatchOptions", error))
}

fn refuse(why: impl std::fmt::Display) -> ApiError {
    ApiError::bad_request(format!("error decoding patch: {why}"))
}

fn parse(bytes: &[u8]) -> Result<Value> {
    json::parse(bytes).map_err(refuse)
}

fn decode(media_type: &str, value: Value) -> Result<Patch> {
    if media_type != JSON_PATCH {
        return match value {
            Value::Object(_) if media_type == STRATEGIC_PATCH => Ok(Patch::Strategic(value)),
            Value::Object(_) => Ok(Patch::Merge(value)),
            other => {
                let found = metadata::type_name(&other);
                Err(refuse(format_args!(
                    "json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
                )))
            }
        };
    }
    let Value::Array(operations) = value else {
        let found = metadata::type_name(&value);
        return Err(refuse(format_args!(
            "json: cannot unmarshal {found} into Go value of type []operation"
        )));
    };
    if operations.len() > OPERATIONS_LIMIT {
        return Err(ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            format!(
                "The allowed maximum operations in a JSON patch is {OPERATIONS_LIMIT}, got {}",
                operations.len()
            ),
        ));
    }
    let operations: Result<_, _> = operations.into_iter().map(serde_json::from_value).collect();
    Ok(Patch::Operations(
        operations.map_err(|_| ApiError::unprocessable())?,
    ))
}

impl Patch {
    /// Whether it is a merge patch of only these fields.
    fn has_only(&self, fields: &[&str]) -> bool {
        let Self::Merge(Value::Object(patch)) = self else {
            return false;
        };
        patch.keys().all(|name| fields.contains(&name.as_str()))
    }

    /// Whether it may read or change `managedFields`.
    fn touches_managed_fields(&self) -> bool {
        match self {
            Self::Merge(patch) | Self::Strategic(patch) => {
                patch.pointer("/metadata/managedFields").is_some()
            }
            Self::Operations(_) => true,
        }
    }
}

/// The object with a patch applied.
pub(super) fn patched(patch: &Patch, resource: &Resource, live: LiveObject<'_>) -> Result<Value> {
    let mut old = Cow::Borrowed(live.object);
    if patch.touches_managed_fields() && !live.managed_fields.is_empty() {
        let managed_fields = serde_json::from_slice(live.managed_fields).unwrap_or_default();
        old.to_mut()["metadata"]["managedFields"] = managed_fields;
    }
    match patch {
        Patch::Merge(patch) => Ok(merged(Some(&old), patch)),
        Patch::Strategic(patch) => {
            strategic::merged(&resource.object_type, &old, patch).map_err(ApiError::bad_request)
        }
        Patch::Operations(operations) => {
            let apply = || operations::applied(old.into_owned(), operations);
            match operations.len() > MANY_OPERATIONS {
                true => blocking::run(apply),
                false => apply(),
            }
        }
    }
}

/// The value with a merge patch applied; nothing that it replaces is copied.
fn merged(old: Option<&Value>, patch: &Value) -> Value {
    let Value::Object(patch) = patch else {
        return patch.clone();
    };
    let old = old.and_then(Value::as_object);
    let is_unchanged = |(name, _): &(&String, &Value)| !patch.contains_key(name.as_str());
    let unchanged = old.into_iter().flatten().filter(is_unchanged);
    let unchanged = unchanged.map(|(name, value)| (name.clone(), value.clone()));
    let changed = patch.iter().filter(|(_, patch)| !patch.is_null());
    let changed = changed.map(|(name, patch)| {
        let old = old.and_then(|old| old.get(name));
        (name.clone(), merged(old, patch))
    });
    unchanged.chain(changed).collect::<Map<_, _>>().into()
}

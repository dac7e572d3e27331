//! patch: JSON patch, merge patch and strategic merge patch; `apply` is apart.

mod operations;

use std::borrow::Cow;

use axum::{body::Body, response::Response};
use http::StatusCode;
use json_patch::PatchOperation;
use serde_json::{Map, Value};

use super::{Call, Manner, apply, update::change_object};
use crate::{
    admission,
    apply::Live,
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

/// As many operations as a real server takes in one JSON patch.
const OPERATIONS_LIMIT: usize = 10_000;

/// More operations than this may take long on a large object.
const MANY_OPERATIONS: usize = 100;

/// A decoded patch.
pub(super) enum Change {
    Merge(Value),
    Strategic(Value),
    Operations(Vec<PatchOperation>),
}

pub(super) async fn patch(call: &Call<'_>, body: Body) -> Result<Response> {
    let resource = call.resource();
    let media_type = body::media_type(call.headers());
    check_media_type(resource, media_type)?;
    if media_type == APPLY {
        return apply::apply(call, body).await;
    }
    check_force(call)?;
    let mut manner = Manner::of(call, "PatchOptions")?;
    manner.is_patch = true;
    let bytes = body::read(body).await?;
    let patch = parse(&bytes)?;
    manner.look_for_repetition(&bytes, &patch);
    let change = decode(media_type, patch)?;
    manner.spares_middle = call.target.is_status
        && change.is_about(&["apiVersion", "kind", "metadata", "status"])
        && !admission::applies_to(call.server, resource, true);
    let (object, warnings) = change_object(call.server, &call.target, &manner, |live| {
        let changed = changed(&change, resource, live)?;
        Ok(body::check_patched(resource, changed)?.into())
    })
    .await?;
    Ok(super::with_warnings(call.show(&object), &warnings))
}

/// Reads a patch that is none of a whole object.
pub(super) async fn read(call: &Call<'_>, body: Body) -> Result<Change> {
    let media_type = body::media_type(call.headers());
    if media_type == APPLY {
        return Err(ApiError::not_supported("applying a scale"));
    }
    check_media_type(call.resource(), media_type)?;
    decode(media_type, parse(&body::read(body).await?)?)
}

/// Custom objects have no merge keys, so no strategic merge patch.
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

fn check_force(call: &Call<'_>) -> Result<()> {
    if call.query.force.is_none() {
        return Ok(());
    }
    let fault = FieldError {
        reason: "FieldValueForbidden",
        field: "force".to_owned(),
        message: "Forbidden: may not be specified for non-apply patch".to_owned(),
    };
    Err(ApiError::invalid_options("PatchOptions", fault))
}

fn refuse(why: impl std::fmt::Display) -> ApiError {
    ApiError::bad_request(format!("error decoding patch: {why}"))
}

fn parse(bytes: &[u8]) -> Result<Value> {
    json::parse(bytes).map_err(refuse)
}

fn decode(media_type: &str, value: Value) -> Result<Change> {
    if media_type != JSON_PATCH {
        return match value {
            Value::Object(_) if media_type == STRATEGIC_PATCH => Ok(Change::Strategic(value)),
            Value::Object(_) => Ok(Change::Merge(value)),
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
    Ok(Change::Operations(
        operations.map_err(|_| ApiError::unprocessable())?,
    ))
}

impl Change {
    /// Whether it looks at none but these fields of an object.
    fn is_about(&self, fields: &[&str]) -> bool {
        let Self::Merge(Value::Object(patch)) = self else {
            return false;
        };
        patch.keys().all(|name| fields.contains(&name.as_str()))
    }

    /// Whether it may look at who owns what.
    fn sees_owners(&self) -> bool {
        match self {
            Self::Merge(patch) | Self::Strategic(patch) => {
                patch.pointer("/metadata/managedFields").is_some()
            }
            Self::Operations(_) => true,
        }
    }
}

/// What a patch makes of an object.
pub(super) fn changed(change: &Change, resource: &Resource, live: Live<'_>) -> Result<Value> {
    let mut old = Cow::Borrowed(live.object);
    if change.sees_owners() && !live.owners.is_empty() {
        let owners = serde_json::from_slice(live.owners).unwrap_or_default();
        old.to_mut()["metadata"]["managedFields"] = owners;
    }
    match change {
        Change::Merge(patch) => Ok(merged(Some(&old), patch)),
        Change::Strategic(patch) => {
            strategic::merged(&resource.shape, &old, patch).map_err(ApiError::bad_request)
        }
        Change::Operations(operations) => {
            let apply = || operations::applied(old.into_owned(), operations);
            match operations.len() > MANY_OPERATIONS {
                true => blocking::run(apply),
                false => apply(),
            }
        }
    }
}

/// What a merge patch makes of a value, copying nothing that it replaces.
fn merged(old: Option<&Value>, patch: &Value) -> Value {
    let Value::Object(patch) = patch else {
        return patch.clone();
    };
    let old = old.and_then(Value::as_object);
    let stays = |(name, _): &(&String, &Value)| !patch.contains_key(name.as_str());
    let staying = old.into_iter().flatten().filter(stays);
    let staying = staying.map(|(name, value)| (name.clone(), value.clone()));
    let changing = patch.iter().filter(|(_, change)| !change.is_null());
    let changing = changing.map(|(name, change)| {
        let old = old.and_then(|old| old.get(name));
        (name.clone(), merged(old, change))
    });
    staying.chain(changing).collect::<Map<_, _>>().into()
}

//! The options of the verbs delete and deletecollection.

use axum::body::Body;
use serde_json::{Value, json};

use super::ObjectRequest;
use crate::{
    access::Caller,
    body, metadata,
    query::unsupported,
    schema::FieldError,
    status::{ApiError, Result},
    types::Type,
};

/// How an object is to be deleted.
#[derive(Debug, Clone)]
pub(crate) struct DeleteOptions {
    pub(super) caller: Caller,
    pub(super) uid: Option<String>,
    pub(super) resource_version: Option<String>,
    pub(super) dry_run: bool,
    /// What happens to dependents; `None` leaves it to the object's finalizers.
    pub(super) policy: Option<PropagationPolicy>,
}

/// What happens to the dependents of a deleted object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PropagationPolicy {
    /// They are deleted after it.
    Background,
    /// They are deleted before it.
    Foreground,
    /// They are not deleted.
    Orphan,
}

/// On an object until its dependents are deleted.
pub(crate) const FOREGROUND_FINALIZER: &str = "foregroundDeletion";
/// On an object until its dependents no longer refer to it.
pub(crate) const ORPHAN_FINALIZER: &str = "orphan";

impl DeleteOptions {
    /// A deletion by the server itself.
    pub(crate) fn internal() -> Self {
        Self {
            caller: Caller::Server,
            uid: None,
            resource_version: None,
            dry_run: false,
            policy: None,
        }
    }

    /// A deletion by the server itself of exactly this object, not of a later one of its name.
    pub(crate) fn internal_of(object: &Value) -> Self {
        Self {
            uid: Some(metadata::text(object, "/metadata/uid").to_owned()),
            ..Self::internal()
        }
    }

    /// The same with this policy.
    pub(crate) fn with(self, policy: PropagationPolicy) -> Self {
        Self {
            policy: Some(policy),
            ..self
        }
    }

    /// The options of a request, in its query or body.
    pub(super) async fn of(request: &ObjectRequest<'_>, body: Body) -> Result<Self> {
        let options = decode(request, body).await?;
        let text = |pointer| {
            options
                .pointer(pointer)
                .and_then(Value::as_str)
                .map(str::to_owned)
        };
        Ok(Self {
            caller: request.caller(),
            policy: policy(request, &options)?,
            uid: text("/preconditions/uid"),
            resource_version: text("/preconditions/resourceVersion"),
            dry_run: is_dry_run(request, &options)?,
        })
    }
}

async fn decode(request: &ObjectRequest<'_>, body: Body) -> Result<Value> {
    let bytes = body::read(body).await?;
    let options = if bytes.is_empty() {
        json!({})
    } else {
        let kind = "DeleteOptions";
        body::decode(request.headers(), &bytes, kind, Some(&Type::named(kind)))?
    };
    match options["kind"].as_str() {
        _ if !options.is_object() => {
            return Err(ApiError::bad_request("expected DeleteOptions"));
        }
        Some(kind) if kind != "DeleteOptions" => {
            return Err(ApiError::bad_request(format!(
                "no kind {kind:?} is registered: expected DeleteOptions"
            )));
        }
        _ => {}
    }
    let grace = &options["gracePeriodSeconds"];
    if !grace.is_null() && !grace.is_i64() {
        let found = metadata::type_name(grace);
        return Err(ApiError::bad_request(format!(
            "json: cannot unmarshal {found} into Go struct field DeleteOptions.gracePeriodSeconds of type int64"
        )));
    }
    Ok(options)
}

fn is_dry_run(request: &ObjectRequest<'_>, options: &Value) -> Result<bool> {
    let mut query = request.query.clone();
    if let Some(values) = options["dryRun"].as_array() {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        query.dry_run = values.iter().map(text).collect();
    }
    Ok(query.write_parameters("DeleteOptions")?.dry_run)
}

/// The requested propagation policy.
fn policy(request: &ObjectRequest<'_>, options: &Value) -> Result<Option<PropagationPolicy>> {
    let given = options["propagationPolicy"].as_str();
    let policy = given.unwrap_or(&request.query.propagation_policy);
    let orphans = options["orphanDependents"].as_bool();
    if orphans.is_some() && !policy.is_empty() {
        let why = "orphanDependents and deletionPropagation cannot be both set";
        let error = FieldError::invalid("propagationPolicy", &json!(policy), why);
        return Err(ApiError::invalid_options("DeleteOptions", error));
    }
    match (policy, orphans) {
        ("", None) => Ok(None),
        ("", Some(false)) | ("Background", _) => Ok(Some(PropagationPolicy::Background)),
        ("", Some(true)) | ("Orphan", _) => Ok(Some(PropagationPolicy::Orphan)),
        ("Foreground", _) => Ok(Some(PropagationPolicy::Foreground)),
        _ => {
            let known = ["Foreground", "Background", "Orphan", "nil"];
            Err(unsupported(
                "DeleteOptions",
                "propagationPolicy",
                &json!(policy),
                &known,
            ))
        }
    }
}

//! API errors with the messages of kube-apiserver: a `Status` object with code, reason and details.

use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use serde_json::{Value, json};

use crate::{
    apply::{Conflict, conflict_message},
    resource::{Resource, qualify},
    schema::{FieldError, MALFORMED},
};

/// The reason of an error whose response is plain text and not a `Status`.
const PLAIN_TEXT: &str = "text/plain";

/// An error response.
#[derive(Debug, Clone)]
pub(crate) struct ApiError {
    code: StatusCode,
    /// Empty where kube-apiserver gives none.
    reason: &'static str,
    message: String,
    details: Value,
}

/// A result whose error is a response.
pub(crate) type Result<T, E = ApiError> = std::result::Result<T, E>;

impl ApiError {
    pub(crate) fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Value::Null,
        }
    }

    fn with_details(mut self, details: Value) -> Self {
        self.details = details;
        self
    }

    /// Whether the name is in use.
    pub(crate) fn is_already_exists(&self) -> bool {
        self.reason == "AlreadyExists"
    }

    /// Whether the object does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        self.reason == "NotFound"
    }

    /// Whether the object was changed or replaced meanwhile.
    pub(crate) fn is_conflict(&self) -> bool {
        self.reason == "Conflict"
    }

    /// Whether the server failed, not the request.
    pub(crate) fn is_server_error(&self) -> bool {
        self.code.is_server_error()
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Nothing is served in the group of this path.
    pub(crate) fn page_not_found() -> Self {
        Self::new(StatusCode::NOT_FOUND, PLAIN_TEXT, "404 page not found\n")
    }

    /// An error of the client that kube-apiserver reports as an internal error.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "", message)
    }

    /// The store failed; nothing was changed.
    pub(crate) fn not_stored(why: &str) -> Self {
        let message = format!("Internal error occurred: the change was not stored: {why}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", message)
    }

    /// A known group has no such resource.
    pub(crate) fn no_such_path() -> Self {
        Self::new(
            StatusCode::NOT_FOUND,
            "NotFound",
            "the server could not find the requested resource",
        )
        .with_details(json!({}))
    }

    pub(crate) fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{} {name:?} not found", resource.qualified());
        Self::new(StatusCode::NOT_FOUND, "NotFound", message)
            .with_details(details_of(resource, name))
    }

    pub(crate) fn already_exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} {name:?} already exists", resource.qualified());
        Self::new(StatusCode::CONFLICT, "AlreadyExists", message)
            .with_details(details_of(resource, name))
    }

    /// The name is in use by an object that waits for its finalizers.
    pub(crate) fn being_deleted(resource: &Resource, name: &str) -> Self {
        let mut error = Self::already_exists(resource, name);
        error.message = format!("object is being deleted: {}", error.message);
        error
    }

    pub(crate) fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} {name:?}: {why}",
            resource.qualified()
        );
        Self::new(StatusCode::CONFLICT, "Conflict", message)
            .with_details(details_of(resource, name))
    }

    /// The uid or resourceVersion of a deletion does not match.
    pub(crate) fn failed_precondition(resource: &Resource, name: &str, why: &str) -> Self {
        let kind = resource.qualified_kind();
        let mut details = details_of(resource, name);
        details["kind"] = json!(resource.kind);
        let message = format!("Operation cannot be fulfilled on {kind} {name:?}: {why}");
        Self::new(StatusCode::CONFLICT, "Conflict", message).with_details(details)
    }

    /// Other managers own fields of an applied configuration.
    pub(crate) fn apply_conflicts(conflicts: &[Conflict]) -> Self {
        let causes: Vec<Value> = conflicts
            .iter()
            .map(|conflict| {
                json!({
                    "reason": "FieldManagerConflict",
                    "message": format!("conflict with {}", conflict.manager),
                    "field": conflict.path,
                })
            })
            .collect();
        Self::new(
            StatusCode::CONFLICT,
            "Conflict",
            conflict_message(conflicts),
        )
        .with_details(json!({"causes": causes}))
    }

    pub(crate) fn modified(resource: &Resource, name: &str) -> Self {
        Self::conflict(
            resource,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    pub(crate) fn forbidden(resource: &Resource, name: &str, why: &str, causes: Value) -> Self {
        let message = format!("{} {name:?} is forbidden: {why}", resource.qualified());
        let mut details = details_of(resource, name);
        if !causes.is_null() {
            details["causes"] = causes;
        }
        Self::new(StatusCode::FORBIDDEN, "Forbidden", message).with_details(details)
    }

    /// The caller is not authorized.
    pub(crate) fn denied(group: &str, resource: &str, name: &str, why: &str) -> Self {
        let what = match (qualify(resource, group), name) {
            (_, _) if resource.is_empty() => "forbidden".to_owned(),
            (what, "") => format!("{what} is forbidden"),
            (what, name) => format!("{what} {name:?} is forbidden"),
        };
        let mut details = json!({});
        for (field, value) in [("name", name), ("group", group), ("kind", resource)] {
            set_unless_empty(&mut details, field, value);
        }
        Self::new(StatusCode::FORBIDDEN, "Forbidden", format!("{what}: {why}"))
            .with_details(details)
    }

    /// The token is not valid.
    pub(crate) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    /// Too many requests are running; the client should retry.
    pub(crate) fn too_many_requests() -> Self {
        Self::new(
            StatusCode::TOO_MANY_REQUESTS,
            "TooManyRequests",
            "Too many requests, please try again later.",
        )
        .with_details(json!({"retryAfterSeconds": 1}))
    }

    /// The request took too long.
    pub(crate) fn timeout() -> Self {
        Self::new(
            StatusCode::GATEWAY_TIMEOUT,
            "Timeout",
            "Timeout: request did not complete within the allotted timeout",
        )
        .with_details(json!({}))
    }

    /// The object is invalid; `errors` must not be empty.
    pub(crate) fn invalid(resource: &Resource, name: &str, errors: &[FieldError]) -> Self {
        if let Some(error) = errors.iter().find(|error| error.reason == MALFORMED) {
            return Self::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: {fault}",
                kind = resource.kind,
                version = resource.version,
                fault = error.sentence(),
            ));
        }
        let group = match resource.group.as_str() {
            "events.k8s.io" => "", // both groups show the same objects
            group => group,
        };
        Self::invalid_kind(&resource.kind, group, name, errors)
    }

    /// An object of a kind that need not be served is invalid; `errors` must not be empty.
    pub(crate) fn invalid_kind(kind: &str, group: &str, name: &str, errors: &[FieldError]) -> Self {
        let sentences: Vec<String> = errors.iter().map(FieldError::sentence).collect();
        let sentences = match sentences.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let causes: Vec<Value> = errors
            .iter()
            .map(|error| {
                json!({"reason": error.reason, "message": error.message, "field": error.field})
            })
            .collect();
        let mut details = json!({"causes": causes});
        for (field, value) in [("kind", kind), ("name", name), ("group", group)] {
            set_unless_empty(&mut details, field, value);
        }
        Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "Invalid",
            format!("{} {name:?} is invalid: {sentences}", qualify(kind, group)),
        )
        .with_details(details)
    }

    /// Invalid query parameters.
    pub(crate) fn invalid_options(kind: &str, error: FieldError) -> Self {
        Self::invalid_kind(kind, "meta.k8s.io", "", &[error])
    }

    /// A patch that cannot be applied to this object.
    pub(crate) fn unprocessable() -> Self {
        Self::new(
            StatusCode::UNPROCESSABLE_ENTITY,
            "Invalid",
            "the server rejected our request due to an error in our request",
        )
        .with_details(json!({}))
    }

    /// No objects can be created while their definition is being deleted.
    pub(crate) fn terminating_definition() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "MethodNotAllowed",
            "create not allowed while custom resource definition is terminating",
        )
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(StatusCode::GONE, "Expired", message)
    }

    pub(crate) fn method_not_allowed() -> Self {
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        )
        .with_details(json!({}))
    }

    /// A verb that custom resources do not support.
    pub(crate) fn verb_not_supported(resource: &Resource, verb: &str) -> Self {
        let qualified = resource.qualified();
        Self::new(
            StatusCode::METHOD_NOT_ALLOWED,
            "MethodNotAllowed",
            format!("{verb} is not supported on resources of kind {qualified:?}"),
        )
        .with_details(json!({"group": resource.group, "kind": resource.plural}))
    }

    pub(crate) fn unsupported_media_type(message: impl Into<String>) -> Self {
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "UnsupportedMediaType",
            message,
        )
    }

    pub(crate) fn too_large(limit: usize) -> Self {
        Self::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "RequestEntityTooLarge",
            format!("Request entity too large: limit is {limit}"),
        )
    }

    /// A revision that is not reached yet.
    pub(crate) fn revision_too_large(requested: u64, current: u64) -> Self {
        let message = format!("Too large resource version: {requested}, current: {current}");
        let cause =
            json!({"reason": "ResourceVersionTooLarge", "message": "Too large resource version"});
        Self::new(
            StatusCode::GATEWAY_TIMEOUT,
            "Timeout",
            format!("Timeout: {message}"),
        )
        .with_details(json!({"causes": [cause], "retryAfterSeconds": 1}))
    }

    /// The client accepts none of the supported media types.
    pub(crate) fn not_acceptable() -> Self {
        Self::new(
            StatusCode::NOT_ACCEPTABLE,
            "NotAcceptable",
            "only the following media types are accepted: application/json",
        )
    }

    /// A feature that this server does not support.
    pub(crate) fn not_supported(what: &str) -> Self {
        Self::new(
            StatusCode::NOT_IMPLEMENTED,
            "NotImplemented",
            format!("{what} is not supported by this server"),
        )
    }

    /// The `Status` object.
    pub(crate) fn status(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code.as_u16(),
        });
        set_unless_empty(&mut status, "reason", self.reason);
        if !self.details.is_null() {
            status["details"] = self.details.clone();
        }
        status
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        if self.reason == PLAIN_TEXT {
            return (self.code, self.message).into_response();
        }
        let mut response = (self.code, axum::Json(self.status())).into_response();
        if let Some(seconds) = self.details["retryAfterSeconds"].as_u64() {
            response
                .headers_mut()
                .insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        response
    }
}

fn details_of(resource: &Resource, name: &str) -> Value {
    let mut details = json!({"name": name, "kind": resource.plural});
    set_unless_empty(&mut details, "group", &resource.group);
    details
}

fn set_unless_empty(object: &mut Value, field: &str, value: &str) {
    if !value.is_empty() {
        object[field] = json!(value);
    }
}

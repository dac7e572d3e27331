//! TokenReview and SubjectAccessReview, answered by whoever set the server up; nobody is known and
//! nothing allowed without that.

use serde_json::{Value, json};

use crate::{
    Server,
    schema::FieldError,
    status::{ApiError, Result},
};

/// Answers reviews. Both methods get the `spec` and give the `status`.
pub trait Reviewer: Send + Sync + 'static {
    /// Says whose token this is.
    fn token(&self, spec: &Value) -> Value;
    /// Says whether a subject may do something.
    fn access(&self, spec: &Value) -> Value;
}

/// Group, plural and kind of what can be reviewed.
pub(crate) const KINDS: &[(&str, &str, &str)] = &[
    ("authentication.k8s.io", "tokenreviews", "TokenReview"),
    (
        "authorization.k8s.io",
        "subjectaccessreviews",
        "SubjectAccessReview",
    ),
];

/// Knows nobody and allows nothing.
struct Nobody;

impl Reviewer for Nobody {
    fn token(&self, _spec: &Value) -> Value {
        json!({"user": {}, "error": "this server knows no tokens"})
    }

    fn access(&self, _spec: &Value) -> Value {
        json!({"allowed": false, "reason": "this server grants no rights"})
    }
}

/// The kind that is reviewed at a path, if it is one for reviews.
pub(crate) fn kind_at(path: &str) -> Option<&'static str> {
    let path = path.trim_end_matches('/');
    let found = KINDS
        .iter()
        .find(|(group, plural, _)| path == format!("/apis/{group}/v1/{plural}"));
    found.map(|(_, _, kind)| *kind)
}

/// Answers one review.
pub(crate) fn answer(server: &Server, kind: &str, mut review: Value) -> Result<Value> {
    if !review.is_object() {
        return Err(ApiError::bad_request(format!("expected a {kind}")));
    }
    let reviewer = server.0.reviewer.as_deref().unwrap_or(&Nobody);
    let spec = &review["spec"];
    let (group, status) = match kind {
        "TokenReview" => {
            check_token(spec)?;
            ("authentication.k8s.io", reviewer.token(spec))
        }
        _ => {
            check_access(kind, spec)?;
            ("authorization.k8s.io", reviewer.access(spec))
        }
    };
    review["apiVersion"] = json!(format!("{group}/v1"));
    review["kind"] = json!(kind);
    review["status"] = status;
    Ok(review)
}

fn check_token(spec: &Value) -> Result<()> {
    match spec["token"].as_str() {
        None | Some("") => Err(ApiError::bad_request(
            "token is required for TokenReview in authentication",
        )),
        Some(_) => Ok(()),
    }
}

fn check_access(kind: &str, spec: &Value) -> Result<()> {
    let has = |field: &str| {
        spec.get(field)
            .is_some_and(|value| !value.is_null() && value != "")
    };
    let fault = if !has("resourceAttributes") && !has("nonResourceAttributes") {
        let why = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
        FieldError::invalid("spec.resourceAttributes", &Value::Null, why)
    } else if !has("user") && !has("groups") {
        FieldError::invalid(
            "spec.user",
            &json!(""),
            "at least one of user or group must be specified",
        )
    } else {
        return Ok(());
    };
    Err(ApiError::invalid_thing(
        kind,
        "authorization.k8s.io",
        "",
        &[fault],
    ))
}

//! TokenReview and SubjectAccessReview, answered by whoever set the server up.

use serde_json::{Value, json};

use crate::{
    Server,
    status::{ApiError, Result},
};

/// Answers reviews. Both methods get the `spec` and give the `status`.
pub trait Reviewer: Send + Sync + 'static {
    /// Says whose token this is.
    fn token(&self, spec: &Value) -> Value;
    /// Says whether a subject may do something.
    fn access(&self, spec: &Value) -> Value;
}

/// The kind that is reviewed at a path, if it is one for reviews.
pub(crate) fn kind_at(path: &str) -> Option<(&'static str, &'static str)> {
    match path.trim_end_matches('/') {
        "/apis/authentication.k8s.io/v1/tokenreviews" => {
            Some(("authentication.k8s.io/v1", "TokenReview"))
        }
        "/apis/authorization.k8s.io/v1/subjectaccessreviews" => {
            Some(("authorization.k8s.io/v1", "SubjectAccessReview"))
        }
        _ => None,
    }
}

/// Answers one review.
pub(crate) fn answer(server: &Server, kind: (&str, &str), mut review: Value) -> Result<Value> {
    let (api_version, kind) = kind;
    let Some(reviewer) = &server.0.reviewer else {
        return Err(ApiError::not_supported(&format!("{kind} without a reviewer")));
    };
    if !review.is_object() || !review["spec"].is_object() {
        return Err(ApiError::bad_request(format!("{kind}: expected an object with a spec")));
    }
    let spec = &review["spec"];
    let status = match kind {
        "TokenReview" => reviewer.token(spec),
        _ => reviewer.access(spec),
    };
    review["apiVersion"] = json!(api_version);
    review["kind"] = json!(kind);
    review["status"] = status;
    Ok(review)
}

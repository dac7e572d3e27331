//! What the API tells about the token: the rights of its user, and in a refusal its scopes.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::Json;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use serde_json::json;

use super::super::ForgeState;
use super::{OwnerAndName, authorize, error_response, into_response};

pub(super) async fn show_repository(
    State(state): State<Arc<ForgeState>>,
    Path((owner, name)): Path<OwnerAndName>,
    headers: HeaderMap,
) -> Response {
    let show = || {
        let project = authorize(&state, &headers, &owner, &name)?;
        let may_push = !state.forbids_push.load(Ordering::SeqCst);
        let permissions = json!({"admin": false, "push": may_push, "pull": true});
        let shown = json!({"full_name": project, "permissions": permissions});
        Ok(Json(shown).into_response())
    };
    into_response(show())
}

/// The notifications of the user, which the token has no scope for.
pub(in super::super) async fn notifications(State(state): State<Arc<ForgeState>>) -> Response {
    let scopes = match state.forbids_feedback.load(Ordering::SeqCst) {
        true => "write:repository",
        false => "write:issue,write:repository",
    };
    let message = format!(
        "token does not have at least one of required scope(s), required=[read:notification], token scope={scopes}"
    );
    into_response(Err(error_response(403, message)))
}

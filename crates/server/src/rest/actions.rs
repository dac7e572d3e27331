//! `POST` on pipelines and environments: reads the path and the body, calls [`crate::actions`], and
//! answers with what was recorded.

use std::sync::Arc;

use axum::{
    Json,
    extract::{FromRequest, Path, State},
};
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{body::read_json, path::PathKey};
use crate::{
    AppState,
    access::Caller,
    actions::{self, ActionBody, ActionResult, ActionVerb},
    problem::Problem,
};

/// An empty body is one without any field.
impl<S: Send + Sync> FromRequest<S> for ActionBody {
    type Rejection = Problem;

    async fn from_request(request: axum::extract::Request, state: &S) -> Result<Self, Problem> {
        let example = r#"{"revision": "1.2.3", "note": "why"}"#;
        let body = read_json(request, state, example).await?;
        Ok(body.unwrap_or_default())
    }
}

/// What the path names beside the pipeline.
#[derive(Deserialize)]
pub(super) struct ActionPath {
    environment: String,
    verb: String,
}

pub(super) async fn act_on_environment(
    State(app_state): State<Arc<AppState>>,
    caller: Caller,
    PathKey(key): PathKey,
    Path(path): Path<ActionPath>,
    body: ActionBody,
) -> Result<(StatusCode, Json<ActionResult>), Problem> {
    let verb = ActionVerb::parse(&path.verb)?;
    let environment = &path.environment;
    let done =
        actions::act_on_environment(&app_state, &caller, &key, environment, verb, &body).await?;
    let code = match done {
        ActionResult::Requested { .. } => StatusCode::ACCEPTED,
        ActionResult::Approved { .. }
        | ActionResult::Rejected { .. }
        | ActionResult::SuspendSet { .. } => StatusCode::OK,
    };
    Ok((code, Json(done)))
}

pub(super) async fn suspend(
    State(app_state): State<Arc<AppState>>,
    caller: Caller,
    PathKey(key): PathKey,
) -> Result<Json<Value>, Problem> {
    actions::suspend_pipeline(&app_state, &caller, &key, true).await?;
    Ok(Json(json!({"suspend": true})))
}

pub(super) async fn resume(
    State(app_state): State<Arc<AppState>>,
    caller: Caller,
    PathKey(key): PathKey,
) -> Result<Json<Value>, Problem> {
    actions::suspend_pipeline(&app_state, &caller, &key, false).await?;
    Ok(Json(json!({"suspend": false})))
}

//! The rollout into an environment: its waves, and the state of each target.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
};
use serde_json::Value;

use super::{path::PathKey, tree::EnvironmentPath};
use crate::{
    AppState,
    access::{AccessRequest, Caller},
    problem::Problem,
};

/// The rollout under way, else the last one.
pub(super) async fn rollout(
    State(app_state): State<Arc<AppState>>,
    caller: Caller,
    PathKey(key): PathKey,
    Path(EnvironmentPath { environment }): Path<EnvironmentPath>,
) -> Result<Json<Value>, Problem> {
    caller.authorize(AccessRequest::new("get", &key)).await?;
    let pipeline = app_state.stored_pipeline(&key).await?;
    let promotions = app_state.list_promotions(&key).await?;
    let now = app_state.clock.now();
    let view = planner::rollout_view(&pipeline, &promotions, &environment, now);
    let view =
        view.ok_or_else(|| Problem::not_found(&format!("a rollout into {environment} of {key}")))?;
    Ok(Json(view.document(&promotions)))
}

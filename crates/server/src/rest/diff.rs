//! What the next promotion into an environment brings.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
};
use planner::PromotionDiff;

use super::{path::PathKey, show::ListResponse, tree::EnvironmentPath};
use crate::{
    AppState,
    access::{AccessRequest, Caller},
    problem::Problem,
};

pub(super) async fn diff(
    State(app_state): State<Arc<AppState>>,
    caller: Caller,
    PathKey(key): PathKey,
    Path(EnvironmentPath { environment }): Path<EnvironmentPath>,
) -> Result<Json<ListResponse<PromotionDiff>>, Problem> {
    caller.authorize(AccessRequest::new("get", &key)).await?;
    let pipeline = app_state.stored_pipeline(&key).await?;
    let mut names = pipeline.spec.environments.iter().map(|it| &it.name);
    if !names.any(|name| *name == environment) {
        let what = format!("the environment {environment} of {key}");
        return Err(Problem::not_found(&what));
    }
    let promotions = app_state.list_promotions(&key).await?;
    let diffs = planner::promotion_diff(&pipeline, &environment, &promotions);
    Ok(Json(ListResponse::new(diffs, None)))
}

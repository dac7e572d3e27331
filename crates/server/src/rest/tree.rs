//! The objects of the targets of an environment: Flux objects, workloads and pods.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
};
use futures::future::join_all;

use super::{
    path::{PathKey, UrlQuery},
    show::{ListQuery, ListResponse},
};
use crate::{
    AppState,
    access::{AccessRequest, Caller},
    problem::Problem,
    target_objects::{TargetFilter, TargetObjects},
    view,
};

/// How many targets one response contains: each is read from its cluster.
const MAX_TARGETS: u32 = 20;

/// What the path names beside the pipeline.
#[derive(serde::Deserialize)]
pub(super) struct EnvironmentPath {
    pub(super) environment: String,
}

pub(super) async fn tree(
    State(app_state): State<Arc<AppState>>,
    caller: Caller,
    PathKey(key): PathKey,
    Path(EnvironmentPath { environment }): Path<EnvironmentPath>,
    UrlQuery(filter): UrlQuery<TargetFilter>,
    UrlQuery(query): UrlQuery<ListQuery>,
) -> Result<Json<ListResponse<TargetObjects>>, Problem> {
    caller.authorize(AccessRequest::new("get", &key)).await?;
    let pipeline = app_state.stored_pipeline(&key).await?;
    let mut names = pipeline.spec.environments.iter().map(|it| &it.name);
    if !names.any(|name| *name == environment) {
        let what = format!("the environment {environment} of {key}");
        return Err(Problem::not_found(&what));
    }
    let targets = view::status_of(&pipeline, &environment).map(|it| it.targets.as_slice());
    let targets = targets.unwrap_or_default().iter();
    let targets = targets.filter(|target| filter.matches(target)).collect();
    let listed = query.at_most(MAX_TARGETS).page_of(targets)?;
    let (targets, next) = listed.into_parts();
    let reads = targets
        .into_iter()
        .map(|it| app_state.target_objects(&pipeline, it));
    Ok(Json(ListResponse::new(join_all(reads).await, next)))
}

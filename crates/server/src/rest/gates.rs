//! `GET` of what the controller decides about a pipeline: the explanation, the answers of all gates, and
//! the forecast. All are computed from the stored objects, as the controller does.

use std::sync::Arc;

use axum::{Json, extract::State};
use http::StatusCode;
use planner::{GateAnswer, Timestamp};
use runtime::ObjectKey;
use serde::Deserialize;
use serde_json::{Value, json};

use super::path::{PathKey, UrlQuery};
use crate::{
    AppState,
    access::{AccessRequest, Caller},
    problem::Problem,
};

/// A pipeline with its promotions.
async fn read(
    app_state: &AppState,
    caller: &Caller,
    key: &ObjectKey,
) -> Result<(api::Pipeline, Vec<api::Promotion>), Problem> {
    caller.authorize(AccessRequest::new("get", key)).await?;
    let pipeline = app_state.stored_pipeline(key).await?;
    Ok((pipeline, app_state.list_promotions(key).await?))
}

/// The plan of the controller, as text.
pub(super) async fn explanation(
    State(app_state): State<Arc<AppState>>,
    caller: Caller,
    PathKey(key): PathKey,
) -> Result<String, Problem> {
    let (pipeline, promotions) = read(&app_state, &caller, &key).await?;
    let model = pipeline.status.clone().unwrap_or_default();
    let plan = planner::plan(&pipeline, &model, &promotions, app_state.clock.now());
    Ok(planner::explain(&pipeline, &model, &plan) + "\n")
}

/// The answer of every gate about the next revision of each environment, in the order of promotion.
pub(super) async fn gates(
    State(app_state): State<Arc<AppState>>,
    caller: Caller,
    PathKey(key): PathKey,
) -> Result<Json<Value>, Problem> {
    let (pipeline, promotions) = read(&app_state, &caller, &key).await?;
    let model = pipeline.status.clone().unwrap_or_default();
    let plan = planner::plan(&pipeline, &model, &promotions, app_state.clock.now());
    let names = pipeline.spec.environments.iter().map(|it| &it.name);
    let items = names.filter_map(|name| {
        let says = plan.environments.get(name)?;
        let gates: Vec<_> = says.gates.iter().map(GateAnswer::document).collect();
        Some(json!({"environment": name, "revision": says.next, "gates": gates}))
    });
    Ok(Json(json!({"items": items.collect::<Vec<_>>()})))
}

/// As of when the forecast is made.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct ForecastQuery {
    at: Option<String>,
}

/// When each environment gets its next revision.
pub(super) async fn forecast(
    State(app_state): State<Arc<AppState>>,
    caller: Caller,
    PathKey(key): PathKey,
    UrlQuery(query): UrlQuery<ForecastQuery>,
) -> Result<Json<Value>, Problem> {
    let at = query.at.map(|text| text.parse::<Timestamp>()).transpose();
    let at = at.map_err(|_| {
        let detail = "`at` must be a timestamp such as 2027-01-04T08:00:00Z";
        Problem::new(StatusCode::BAD_REQUEST, detail)
    })?;
    let (pipeline, promotions) = read(&app_state, &caller, &key).await?;
    let model = pipeline.status.clone().unwrap_or_default();
    let at = at.unwrap_or_else(|| app_state.clock.now());
    let items = planner::forecast(&pipeline, &model, &promotions, at);
    Ok(Json(json!({"items": items})))
}

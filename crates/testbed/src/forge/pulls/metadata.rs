//! Labels and reviewers of pull requests.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::super::ForgeState;
use super::{
    OwnerAndName, PullRequestPath, authorize, change, error_response, gitea_json, into_response,
    text,
};

pub(super) async fn request_reviewers(
    State(state): State<Arc<ForgeState>>,
    Path((owner, name, number)): Path<PullRequestPath>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let ask = || {
        let project = authorize(&state, &headers, &owner, &name)?;
        let named = ["reviewers", "team_reviewers"].map(|field| body[field].as_array().cloned());
        let named: Vec<Value> = named.into_iter().flatten().flatten().collect();
        // All users exist except `nobody`.
        if named.iter().any(|name| name == "nobody") {
            return Err(error_response(404, "user does not exist"));
        }
        change(&state, &project, number, |pull| {
            pull.reviewers.extend(
                named
                    .iter()
                    .filter_map(|name| name.as_str().map(str::to_owned)),
            );
            Ok(())
        })?;
        Ok((StatusCode::CREATED, Json(json!([]))).into_response())
    };
    into_response(ask())
}

pub(super) async fn label(
    State(state): State<Arc<ForgeState>>,
    Path((owner, name, number)): Path<PullRequestPath>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let label = || {
        let project = authorize(&state, &headers, &owner, &name)?;
        let known = state
            .pulls
            .lock()
            .labels
            .get(&project)
            .cloned()
            .unwrap_or_default();
        let ids = body["labels"].as_array().cloned().unwrap_or_default();
        let index = |id: &Value| {
            id.as_u64()
                .and_then(|id| usize::try_from(id).ok()?.checked_sub(1))
        };
        let names: Vec<String> = ids
            .iter()
            .filter_map(|id| known.get(index(id)?).cloned())
            .collect();
        change(&state, &project, number, |pull| {
            pull.labels.extend(names);
            pull.labels.sort();
            pull.labels.dedup();
            Ok(())
        })?;
        Ok(Json(json!([])).into_response())
    };
    into_response(label())
}

pub(super) async fn list_labels(
    State(state): State<Arc<ForgeState>>,
    Path((owner, name)): Path<OwnerAndName>,
    Query(query): Query<BTreeMap<String, String>>,
    headers: HeaderMap,
) -> Response {
    into_response(authorize(&state, &headers, &owner, &name).map(|project| {
        let known = state
            .pulls
            .lock()
            .labels
            .get(&project)
            .cloned()
            .unwrap_or_default();
        let shown = known
            .iter()
            .enumerate()
            .map(|(index, name)| json!({"id": index + 1, "name": name}));
        gitea_json::page(shown.collect(), &query)
    }))
}

pub(super) async fn make_label(
    State(state): State<Arc<ForgeState>>,
    Path((owner, name)): Path<OwnerAndName>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let make = || {
        let project = authorize(&state, &headers, &owner, &name)?;
        let (Some(label), Some(_)) = (text(&body, "name"), text(&body, "color")) else {
            return Err(error_response(422, "[Name]: Required"));
        };
        let mut store = state.pulls.lock();
        let labels = store.labels.entry(project).or_default();
        labels.push(label.clone());
        Ok((
            StatusCode::CREATED,
            Json(json!({"id": labels.len(), "name": label})),
        )
            .into_response())
    };
    into_response(make())
}

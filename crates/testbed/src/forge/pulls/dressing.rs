//! What is put on a pull request beside its text: labels, reviewers, comments.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Json;
use axum::extract::{Path, Query, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderMap, StatusCode};
use serde_json::{Value, json};

use super::super::Shared;
use super::{Numbered, Place, answered, change, enter, refuse, show, text};

pub(super) async fn ask_reviewers(
    State(shared): State<Arc<Shared>>,
    Path((owner, name, number)): Path<Numbered>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let ask = || {
        let project = enter(&shared, &headers, &owner, &name)?;
        let named = ["reviewers", "team_reviewers"].map(|field| body[field].as_array().cloned());
        let named: Vec<Value> = named.into_iter().flatten().flatten().collect();
        // It knows everybody but `nobody`.
        if named.iter().any(|name| name == "nobody") {
            return Err(refuse(404, "user does not exist"));
        }
        change(&shared, &project, number, |pull| {
            pull.reviewers.extend(
                named
                    .iter()
                    .filter_map(|name| name.as_str().map(str::to_owned)),
            );
            Ok(())
        })?;
        Ok((StatusCode::CREATED, Json(json!([]))).into_response())
    };
    answered(ask())
}

pub(super) async fn comment(
    State(shared): State<Arc<Shared>>,
    Path((owner, name, number)): Path<Numbered>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let comment = || {
        let project = enter(&shared, &headers, &owner, &name)?;
        let said = text(&body, "body").filter(|said| !said.is_empty());
        let said = said.ok_or_else(|| refuse(422, "[Body]: Required"))?;
        change(&shared, &project, number, |pull| {
            pull.comments.push(said.clone());
            Ok(())
        })?;
        Ok((StatusCode::CREATED, Json(json!({"id": 1, "body": said}))).into_response())
    };
    answered(comment())
}

pub(super) async fn label(
    State(shared): State<Arc<Shared>>,
    Path((owner, name, number)): Path<Numbered>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let label = || {
        let project = enter(&shared, &headers, &owner, &name)?;
        let known = shared
            .pulls
            .lock()
            .labels
            .get(&project)
            .cloned()
            .unwrap_or_default();
        let ids = body["labels"].as_array().cloned().unwrap_or_default();
        let place = |id: &Value| {
            id.as_u64()
                .and_then(|id| usize::try_from(id).ok()?.checked_sub(1))
        };
        let names: Vec<String> = ids
            .iter()
            .filter_map(|id| known.get(place(id)?).cloned())
            .collect();
        change(&shared, &project, number, |pull| {
            pull.labels.extend(names);
            pull.labels.sort();
            pull.labels.dedup();
            Ok(())
        })?;
        Ok(Json(json!([])).into_response())
    };
    answered(label())
}

pub(super) async fn list_labels(
    State(shared): State<Arc<Shared>>,
    Path((owner, name)): Path<Place>,
    Query(query): Query<BTreeMap<String, String>>,
    headers: HeaderMap,
) -> Response {
    answered(enter(&shared, &headers, &owner, &name).map(|project| {
        let known = shared
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
        show::page(shown.collect(), &query)
    }))
}

pub(super) async fn make_label(
    State(shared): State<Arc<Shared>>,
    Path((owner, name)): Path<Place>,
    headers: HeaderMap,
    Json(body): Json<Value>,
) -> Response {
    let make = || {
        let project = enter(&shared, &headers, &owner, &name)?;
        let (Some(label), Some(_)) = (text(&body, "name"), text(&body, "color")) else {
            return Err(refuse(422, "[Name]: Required"));
        };
        let mut store = shared.pulls.lock();
        let labels = store.labels.entry(project).or_default();
        labels.push(label.clone());
        Ok((
            StatusCode::CREATED,
            Json(json!({"id": labels.len(), "name": label})),
        )
            .into_response())
    };
    answered(make())
}

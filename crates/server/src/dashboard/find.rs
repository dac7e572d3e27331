//! What the command palette finds: pipelines and clusters by name, as far as the viewer may see them.

use std::sync::Arc;

use api::GitopsCluster;
use axum::{
    Json,
    extract::{Query, State},
};
use kube::ResourceExt;
use serde::{Deserialize, Serialize};

use super::{ErrorPage, clusters::apps_on, components::address, list, sign_in::Viewer};
use crate::{AppState, access::CLUSTERS};

/// How many results of each kind are returned.
const MAX_RESULTS: usize = 10;

#[derive(Deserialize)]
pub(super) struct FindQuery {
    #[serde(default)]
    q: String,
}

/// A page that matches.
#[derive(Serialize)]
pub(super) struct FoundPage {
    title: String,
    hint: String,
    address: String,
}

pub(super) async fn show(
    State(app_state): State<Arc<AppState>>,
    viewer: Viewer,
    Query(query): Query<FindQuery>,
) -> Result<Json<Vec<FoundPage>>, ErrorPage> {
    let words: Vec<String> = query.q.split_whitespace().map(str::to_lowercase).collect();
    let matches = |text: &str| words.iter().all(|word| text.contains(word.as_str()));
    let mut keys: Vec<_> = list::visible(&app_state, &viewer).await?;
    keys.retain(|row| matches(row.searched_text()));
    keys.sort_by_cached_key(|row| (row.key.name.clone(), row.key.namespace.clone()));
    let pipelines = keys.iter().take(MAX_RESULTS).map(|row| FoundPage {
        title: row.key.name.clone(),
        hint: format!("pipeline in {}", row.key.namespace),
        address: address(&row.key),
    });
    let namespace_of = |it: &Arc<GitopsCluster>| it.namespace().unwrap_or_default();
    let clusters = app_state.objects.clusters();
    let mut clusters = viewer
        .caller
        .visible(CLUSTERS, clusters, namespace_of)
        .await?;
    clusters.retain(|it| matches(&it.name_any().to_lowercase()));
    clusters.sort_by_key(|it| it.name_any());
    let clusters = clusters.iter().take(MAX_RESULTS).map(|it| FoundPage {
        title: it.name_any(),
        hint: format!("apps on this cluster, registered in {}", namespace_of(it)),
        address: apps_on(&it.name_any()),
    });
    Ok(Json(pipelines.chain(clusters).collect()))
}

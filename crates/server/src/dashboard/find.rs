//! What the command palette finds: pipelines, clusters, decisions and pages by their words, as far as the
//! viewer may see them.

use std::sync::Arc;

use api::GitopsCluster;
use axum::{
    Json,
    extract::{Query, State},
};
use kube::ResourceExt;
use serde::{Deserialize, Serialize};

use super::{
    ErrorPage, approvals, clusters::apps_on, components::address, decision::decision_id, list,
    sign_in::Viewer, version::shortened,
};
use crate::{AppState, access::CLUSTERS, caches::pipeline_of, problem::Problem};

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
    let decisions = decisions(&app_state, &viewer, &words).await?;
    let pages = other_pages(&words);
    let all = pages.chain(decisions).chain(pipelines).chain(clusters);
    Ok(Json(all.collect()))
}

/// Pages that the navigation does not have.
fn other_pages(words: &[String]) -> impl Iterator<Item = FoundPage> {
    let pages = [
        ("Create a pipeline", "new pipeline add propose", "/create"),
        ("Proposals", "changes files pull requests", "/changes"),
    ];
    let found = pages.into_iter().filter(move |(title, synonyms, _)| {
        let text = format!("{} {synonyms}", title.to_lowercase());
        !words.is_empty() && words.iter().all(|word| text.contains(word.as_str()))
    });
    found.map(|(title, _, address)| FoundPage {
        title: title.to_owned(),
        hint: "page".to_owned(),
        address: address.to_owned(),
    })
}

/// Promotions that the viewer may be asked to decide about.
async fn decisions(
    app_state: &Arc<AppState>,
    viewer: &Viewer,
    words: &[String],
) -> Result<Vec<FoundPage>, Problem> {
    let waiting = approvals::visible(app_state, viewer).await?;
    let found = waiting.iter().filter_map(|promotion| {
        let (key, spec) = (pipeline_of(promotion), &promotion.spec);
        let revision = shortened(&spec.shown_revision());
        let title = format!(
            "Approve or reject {revision} for {} {}",
            key.name, spec.environment
        );
        let text = title.to_lowercase();
        let is_found = !words.is_empty() && words.iter().all(|it| text.contains(it.as_str()));
        is_found.then(|| FoundPage {
            title,
            hint: "awaits approval".to_owned(),
            address: format!("{}#{}", address(&key), decision_id(promotion)),
        })
    });
    Ok(found.take(MAX_RESULTS).collect())
}

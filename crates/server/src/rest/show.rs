//! What is: pipelines, their promotions, and why they wait.

use std::sync::Arc;

use api::{Pipeline, Promotion};
use axum::{
    Json,
    extract::{Path, Query, State},
};
use http::StatusCode;
use kube::{Api, Resource, api::ListParams};
use serde::{Deserialize, Serialize};

use super::{
    Problem,
    access::{Caller, PIPELINES, Wish},
};
use crate::{Door, watched::ObjectKey};

/// How many objects one answer holds at most.
const PAGE: u32 = 500;

/// Where in a list to go on.
#[derive(Deserialize)]
pub(super) struct Page {
    limit: Option<u32>,
    r#continue: Option<String>,
}

/// Objects, and where to go on if there are more.
#[derive(Serialize)]
pub(super) struct Listed<K> {
    items: Vec<K>,
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

pub(super) async fn all_pipelines(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Query(page): Query<Page>,
) -> Result<Json<Listed<Pipeline>>, Problem> {
    let everywhere = Wish::list(PIPELINES, door.settings.namespace.as_deref());
    caller.must(everywhere).await?;
    let pipelines = match &door.settings.namespace {
        Some(namespace) => Api::namespaced(door.client.clone(), namespace),
        None => Api::all(door.client.clone()),
    };
    list(&pipelines, page).await
}

pub(super) async fn pipelines(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path(namespace): Path<String>,
    Query(page): Query<Page>,
) -> Result<Json<Listed<Pipeline>>, Problem> {
    caller
        .must(Wish::list(PIPELINES, Some(&namespace)))
        .await?;
    list(&Api::namespaced(door.client.clone(), &namespace), page).await
}

async fn list(api: &Api<Pipeline>, page: Page) -> Result<Json<Listed<Pipeline>>, Problem> {
    let parameters = ListParams {
        limit: Some(page.limit.unwrap_or(PAGE).clamp(1, PAGE)),
        continue_token: page.r#continue,
        ..ListParams::default()
    };
    let listed = api.list(&parameters).await?;
    let next = listed.metadata.continue_.filter(|next| !next.is_empty());
    let items = listed.items.into_iter().map(plain).collect();
    Ok(Json(Listed { items, next }))
}

pub(super) async fn pipeline(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path((namespace, name)): Path<(String, String)>,
) -> Result<Json<Pipeline>, Problem> {
    let key = ObjectKey::new(&namespace, &name);
    caller.must(Wish::new("get", &key)).await?;
    Ok(Json(plain(door.stored(&key).await?)))
}

pub(super) async fn promotions(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path((namespace, name)): Path<(String, String)>,
) -> Result<Json<Listed<Promotion>>, Problem> {
    let key = ObjectKey::new(&namespace, &name);
    caller.must(Wish::new("get", &key)).await?;
    let all = door.promotions(&key).await?;
    let own = all.into_iter().filter(|it| it.spec.pipeline == name);
    let items = own.map(plain).collect();
    Ok(Json(Listed { items, next: None }))
}

/// The same plan that the controller carries out, as text.
pub(super) async fn explanation(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Path((namespace, name)): Path<(String, String)>,
) -> Result<String, Problem> {
    let key = ObjectKey::new(&namespace, &name);
    caller.must(Wish::new("get", &key)).await?;
    let pipeline = door.stored(&key).await?;
    let promotions = door.promotions(&key).await?;
    let model = pipeline.status.clone().unwrap_or_default();
    let plan = planner::plan(&pipeline, &model, &promotions, jiff::Timestamp::now());
    Ok(planner::explain(&pipeline, &model, &plan) + "\n")
}

/// An object without the notes of who wrote which field.
fn plain<K: Resource>(mut object: K) -> K {
    object.meta_mut().managed_fields = None;
    object
}

impl Door {
    /// A pipeline as the API server has it, whole.
    pub(crate) async fn stored(&self, key: &ObjectKey) -> Result<Pipeline, Problem> {
        let namespace = self.settings.namespace.as_ref();
        if namespace.is_some_and(|only| *only != key.namespace) {
            let detail = "pipelines of that namespace are not served here";
            return Err(Problem::new(StatusCode::NOT_FOUND, detail));
        }
        let pipelines: Api<Pipeline> = Api::namespaced(self.client.clone(), &key.namespace);
        let found = pipelines.get_opt(&key.name).await?;
        found.ok_or_else(|| Problem::not_found(&format!("the pipeline {key}")))
    }
}

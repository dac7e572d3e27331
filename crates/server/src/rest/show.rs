//! What is: pipelines, their promotions, and why they wait.

use std::{cmp::Reverse, fmt, sync::Arc};

use api::{GitopsCluster, Pipeline, PipelineTrigger, Promotion, pipeline::EnvironmentStatus};
use axum::{
    Json,
    extract::{Query, State},
};
use http::StatusCode;
use kube::{Api, Resource, ResourceExt, api::ListParams, core::NamespaceResourceScope};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::{
    Problem,
    access::{CLUSTERS, Caller, Kind, PIPELINES, TRIGGERS, Wish},
    path::Namespace,
};
use crate::{
    Door,
    fleet::Unread,
    read::read,
    triggers::{self, Trigger},
    view,
    watched::ObjectKey,
};

/// How many objects one answer holds at most.
const PAGE: u32 = 500;

/// Where in a list to go on.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct Page {
    /// Of objects that are in namespaces, only those in this one.
    pub(super) namespace: Option<String>,
    limit: Option<u32>,
    r#continue: Option<String>,
}

impl Page {
    /// The same, with smaller pages.
    pub(super) fn at_most(self, most: u32) -> Self {
        let limit = Some(self.limit.unwrap_or(most).min(most));
        Self { limit, ..self }
    }

    /// The part of a list that is asked for; `continue` is how many come before it.
    pub(super) fn of<T>(&self, all: Vec<T>) -> Result<Listed<T>, Problem> {
        let limit = self.limit.unwrap_or(PAGE).clamp(1, PAGE) as usize;
        let first = self.r#continue.as_deref().unwrap_or("0").parse::<usize>();
        let first = first.map_err(|_| {
            let detail = "`continue` is not what the page before said";
            Problem::new(StatusCode::BAD_REQUEST, detail)
        })?;
        let has_more = all.len() > first.saturating_add(limit);
        let items = all.into_iter().skip(first).take(limit).collect();
        let next = has_more.then(|| (first + limit).to_string());
        Ok(Listed::new(items, next))
    }
}

/// Objects, and where to go on if there are more.
#[derive(Serialize)]
pub(super) struct Listed<K> {
    items: Vec<K>,
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    /// What could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unread: Vec<Unread>,
}

impl<K> Listed<K> {
    pub(super) fn new(items: Vec<K>, next: Option<String>) -> Self {
        Self {
            items,
            next,
            unread: Vec::new(),
        }
    }

    /// The same, without what could not be read.
    pub(super) fn lacking(self, unread: Vec<Unread>) -> Self {
        Self { unread, ..self }
    }

    pub(super) fn into_parts(self) -> (Vec<K>, Option<String>) {
        (self.items, self.next)
    }
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
    Namespace(namespace): Namespace,
    Query(page): Query<Page>,
) -> Result<Json<Listed<Pipeline>>, Problem> {
    caller.must(Wish::list(PIPELINES, Some(&namespace))).await?;
    list(&Api::namespaced(door.client.clone(), &namespace), page).await
}

/// A page of what the API server has.
pub(super) async fn list<K>(api: &Api<K>, page: Page) -> Result<Json<Listed<K>>, Problem>
where
    K: Resource + Clone + DeserializeOwned + fmt::Debug,
{
    let parameters = ListParams {
        limit: Some(page.limit.unwrap_or(PAGE).clamp(1, PAGE)),
        continue_token: page.r#continue,
        ..ListParams::default()
    };
    let listed = api.list(&parameters).await?;
    let next = listed.metadata.continue_.filter(|next| !next.is_empty());
    let items = listed.items.into_iter().map(plain).collect();
    Ok(Json(Listed::new(items, next)))
}

pub(super) async fn clusters(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Query(page): Query<Page>,
) -> Result<Json<Listed<GitopsCluster>>, Problem> {
    list_in(&door, &caller, CLUSTERS, page).await
}

pub(super) async fn all_triggers(
    State(door): State<Arc<Door>>,
    caller: Caller,
    Query(page): Query<Page>,
) -> Result<Json<Listed<PipelineTrigger>>, Problem> {
    list_in(&door, &caller, TRIGGERS, page).await
}

/// A page of the objects of a kind, in the namespace that is asked for or everywhere.
async fn list_in<K>(
    door: &Door,
    caller: &Caller,
    kind: Kind,
    page: Page,
) -> Result<Json<Listed<K>>, Problem>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + fmt::Debug,
{
    let only = door.settings.namespace.clone();
    let asked = page.namespace.as_deref().map(Namespace::parse);
    let asked = asked.transpose()?.map(|Namespace(namespace)| namespace);
    let namespace = only.or(asked);
    caller.must(Wish::list(kind, namespace.as_deref())).await?;
    let api = match &namespace {
        Some(namespace) => Api::namespaced(door.client.clone(), namespace),
        None => Api::all(door.client.clone()),
    };
    list(&api, page).await
}

pub(super) async fn pipeline(
    State(door): State<Arc<Door>>,
    caller: Caller,
    key: ObjectKey,
) -> Result<Json<Pipeline>, Problem> {
    caller.must(Wish::new("get", &key)).await?;
    Ok(Json(plain(door.stored(&key).await?)))
}

pub(super) async fn promotions(
    State(door): State<Arc<Door>>,
    caller: Caller,
    key: ObjectKey,
    Query(page): Query<Page>,
) -> Result<Json<Listed<Promotion>>, Problem> {
    caller.must(Wish::new("get", &key)).await?;
    let all = door.promotions(&key).await?;
    let own = all.into_iter().filter(|it| it.spec.pipeline == key.name);
    let mut own: Vec<_> = own.map(plain).collect();
    own.sort_by_key(|it| Reverse((it.creation_timestamp(), it.name_any())));
    Ok(Json(page.of(own)?))
}

/// Where each environment is, in the order of promotion.
pub(super) async fn environments(
    State(door): State<Arc<Door>>,
    caller: Caller,
    key: ObjectKey,
) -> Result<Json<Value>, Problem> {
    caller.must(Wish::new("get", &key)).await?;
    let pipeline = door.stored(&key).await?;
    let environments = pipeline.spec.environments.iter().map(|environment| {
        let status = view::status_of(&pipeline, &environment.name);
        json!({
            "name": environment.name,
            "state": view::environment_state(&pipeline, &environment.name).id(),
            "revisions": view::revisions(status),
            "failed": failed(status),
            "suspend": pipeline.spec.suspend || environment.suspend,
            "status": status,
        })
    });
    Ok(Json(json!({"items": environments.collect::<Vec<_>>()})))
}

/// The releases that failed and have not been replaced yet, by target.
fn failed(status: Option<&EnvironmentStatus>) -> Vec<Value> {
    let targets = status.map(|it| it.targets.as_slice()).unwrap_or_default();
    let failed = targets.iter().filter_map(|target| {
        let revision = planner::failed_revision(target)?;
        let message = planner::failure_message(target);
        let target = planner::target_name(target);
        Some(json!({"revision": revision, "target": target, "message": message}))
    });
    failed.collect()
}

/// What can set it in motion.
pub(super) async fn triggers_of(
    State(door): State<Arc<Door>>,
    caller: Caller,
    key: ObjectKey,
) -> Result<Json<Listed<Trigger>>, Problem> {
    caller.must(Wish::new("get", &key)).await?;
    let pipeline = door.stored(&key).await?;
    let found = triggers::of(&door, &caller, &pipeline).await?;
    Ok(Json(Listed::new(found, None)))
}

/// The same plan that the controller carries out, as text.
pub(super) async fn explanation(
    State(door): State<Arc<Door>>,
    caller: Caller,
    key: ObjectKey,
) -> Result<String, Problem> {
    caller.must(Wish::new("get", &key)).await?;
    let pipeline = door.stored(&key).await?;
    let promotions = door.promotions(&key).await?;
    let model = pipeline.status.clone().unwrap_or_default();
    let plan = planner::plan(&pipeline, &model, &promotions, jiff::Timestamp::now());
    Ok(planner::explain(&pipeline, &model, &plan) + "\n")
}

/// An object without the notes of who wrote which field.
pub(super) fn plain<K: Resource>(mut object: K) -> K {
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
        let found: Option<Pipeline> = read(&self.client, key).await?;
        found.ok_or_else(|| Problem::not_found(&format!("the pipeline {key}")))
    }
}

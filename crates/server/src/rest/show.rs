//! `GET` of pipelines, their environments, promotions and triggers, and of clusters.

use std::{cmp::Reverse, fmt, sync::Arc};

use api::{GitopsCluster, Pipeline, PipelineTrigger, Promotion, pipeline::EnvironmentStatus};
use axum::{
    Json,
    extract::State,
    response::{IntoResponse, Response},
};
use http::{StatusCode, header};
use kube::{Api, Resource, ResourceExt, api::ListParams, core::NamespaceResourceScope};
use runtime::ObjectKey;
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};

use super::path::{NamespacePath, PathKey, UrlQuery};
use crate::{
    AppState,
    access::{AccessRequest, CLUSTERS, Caller, PIPELINES, ResourceType, TRIGGERS},
    fleet::UnreadCluster,
    get_object::get_object,
    problem::Problem,
    triggers::{ShownTrigger, visible_triggers},
    view,
};

/// How many objects one response contains.
const PAGE_SIZE: u32 = 500;

/// The part of a list that a request asks for.
#[derive(Deserialize, Default)]
#[serde(default)]
pub(super) struct ListQuery {
    /// Only objects in this namespace.
    pub(super) namespace: Option<String>,
    limit: Option<u32>,
    r#continue: Option<String>,
}

impl ListQuery {
    /// The same with smaller pages.
    pub(super) fn at_most(self, most: u32) -> Self {
        let limit = Some(self.limit.unwrap_or(most).min(most));
        Self { limit, ..self }
    }

    /// The requested page of a list; `continue` is how many items come before it.
    pub(super) fn page_of<T>(&self, all: Vec<T>) -> Result<ListResponse<T>, Problem> {
        let limit = self.limit.unwrap_or(PAGE_SIZE).clamp(1, PAGE_SIZE) as usize;
        let first = self.r#continue.as_deref().unwrap_or("0").parse::<usize>();
        let first = first.map_err(|_| {
            let detail = "`continue` must be the value of the previous page";
            Problem::new(StatusCode::BAD_REQUEST, detail)
        })?;
        let has_more = all.len() > first.saturating_add(limit);
        let items = all.into_iter().skip(first).take(limit).collect();
        let next = has_more.then(|| (first + limit).to_string());
        Ok(ListResponse::new(items, next))
    }
}

/// A page of a list, and how to get the next one.
#[derive(Serialize)]
pub(super) struct ListResponse<K> {
    items: Vec<K>,
    #[serde(rename = "continue", skip_serializing_if = "Option::is_none")]
    next: Option<String>,
    /// The clusters that could not be read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    unread: Vec<UnreadCluster>,
}

impl<K> ListResponse<K> {
    pub(super) fn new(items: Vec<K>, next: Option<String>) -> Self {
        Self {
            items,
            next,
            unread: Vec::new(),
        }
    }

    /// The same with the clusters that could not be read.
    pub(super) fn with_unread(self, unread: Vec<UnreadCluster>) -> Self {
        Self { unread, ..self }
    }

    pub(super) fn into_parts(self) -> (Vec<K>, Option<String>) {
        (self.items, self.next)
    }
}

pub(super) async fn all_pipelines(
    State(app_state): State<Arc<AppState>>,
    caller: Caller,
    UrlQuery(query): UrlQuery<ListQuery>,
) -> Result<Json<ListResponse<Pipeline>>, Problem> {
    let access = AccessRequest::list(PIPELINES, app_state.settings.namespace.as_deref());
    caller.authorize(access).await?;
    let pipelines = match &app_state.settings.namespace {
        Some(namespace) => Api::namespaced(app_state.client.clone(), namespace),
        None => Api::all(app_state.client.clone()),
    };
    list(&pipelines, query).await
}

pub(super) async fn pipelines(
    State(app_state): State<Arc<AppState>>,
    caller: Caller,
    NamespacePath(namespace): NamespacePath,
    UrlQuery(query): UrlQuery<ListQuery>,
) -> Result<Json<ListResponse<Pipeline>>, Problem> {
    list_of_namespace(&app_state, &caller, PIPELINES, (&namespace, query)).await
}

/// A page of the objects of a resource in a namespace.
pub(super) async fn list_of_namespace<K>(
    app_state: &AppState,
    caller: &Caller,
    resource_type: ResourceType,
    (namespace, query): (&str, ListQuery),
) -> Result<Json<ListResponse<K>>, Problem>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + fmt::Debug,
{
    let access = AccessRequest::list(resource_type, Some(namespace));
    caller.authorize(access).await?;
    let api = Api::namespaced(app_state.client.clone(), namespace);
    list(&api, query).await
}

/// A page of objects, read from the API server.
pub(super) async fn list<K>(
    api: &Api<K>,
    query: ListQuery,
) -> Result<Json<ListResponse<K>>, Problem>
where
    K: Resource + Clone + DeserializeOwned + fmt::Debug,
{
    let parameters = ListParams {
        limit: Some(query.limit.unwrap_or(PAGE_SIZE).clamp(1, PAGE_SIZE)),
        continue_token: query.r#continue,
        ..ListParams::default()
    };
    let listed = api.list(&parameters).await?;
    let next = listed.metadata.continue_.filter(|next| !next.is_empty());
    let items = listed
        .items
        .into_iter()
        .map(without_managed_fields)
        .collect();
    Ok(Json(ListResponse::new(items, next)))
}

pub(super) async fn clusters(
    State(app_state): State<Arc<AppState>>,
    caller: Caller,
    UrlQuery(query): UrlQuery<ListQuery>,
) -> Result<Json<ListResponse<GitopsCluster>>, Problem> {
    list_in(&app_state, &caller, CLUSTERS, query).await
}

pub(super) async fn all_triggers(
    State(app_state): State<Arc<AppState>>,
    caller: Caller,
    UrlQuery(query): UrlQuery<ListQuery>,
) -> Result<Json<ListResponse<PipelineTrigger>>, Problem> {
    list_in(&app_state, &caller, TRIGGERS, query).await
}

/// A page of the objects of a resource, in the requested namespace or everywhere.
async fn list_in<K>(
    app_state: &AppState,
    caller: &Caller,
    resource_type: ResourceType,
    query: ListQuery,
) -> Result<Json<ListResponse<K>>, Problem>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + fmt::Debug,
{
    let only = app_state.settings.namespace.clone();
    let asked = query.namespace.as_deref().map(NamespacePath::parse);
    let asked = asked.transpose()?.map(|NamespacePath(namespace)| namespace);
    let namespace = only.or(asked);
    let access = AccessRequest::list(resource_type, namespace.as_deref());
    caller.authorize(access).await?;
    let api = match &namespace {
        Some(namespace) => Api::namespaced(app_state.client.clone(), namespace),
        None => Api::all(app_state.client.clone()),
    };
    list(&api, query).await
}

pub(super) async fn pipeline(
    State(app_state): State<Arc<AppState>>,
    caller: Caller,
    PathKey(key): PathKey,
) -> Result<Json<Pipeline>, Problem> {
    caller.authorize(AccessRequest::new("get", &key)).await?;
    Ok(Json(without_managed_fields(
        app_state.stored_pipeline(&key).await?,
    )))
}

pub(super) async fn promotions(
    State(app_state): State<Arc<AppState>>,
    caller: Caller,
    PathKey(key): PathKey,
    UrlQuery(query): UrlQuery<ListQuery>,
) -> Result<Json<ListResponse<Promotion>>, Problem> {
    caller.authorize(AccessRequest::new("get", &key)).await?;
    let all = app_state.list_promotions(&key).await?;
    let own = all.into_iter().filter(|it| it.spec.pipeline == key.name);
    let mut own: Vec<_> = own.map(without_managed_fields).collect();
    own.sort_by_key(|it| Reverse((it.creation_timestamp(), it.name_any())));
    Ok(Json(query.page_of(own)?))
}

/// The state of each environment, in the order of promotion.
pub(super) async fn environments(
    State(app_state): State<Arc<AppState>>,
    caller: Caller,
    PathKey(key): PathKey,
) -> Result<Json<Value>, Problem> {
    caller.authorize(AccessRequest::new("get", &key)).await?;
    let pipeline = app_state.stored_pipeline(&key).await?;
    let environments = pipeline.spec.environments.iter().map(|environment| {
        let status = view::status_of(&pipeline, &environment.name);
        let sources = planner::sources(&pipeline.spec, &environment.name);
        let sources: Vec<_> = sources.iter().map(|it| &it.name).collect();
        json!({
            "name": environment.name,
            "after": sources,
            "state": view::environment_state_id(&pipeline, &environment.name),
            "revisions": view::revisions(status),
            "failed": failed_releases(status),
            "suspend": pipeline.spec.suspend || environment.suspend,
            "status": status,
        })
    });
    Ok(Json(json!({"items": environments.collect::<Vec<_>>()})))
}

/// The releases that failed and have not been replaced yet, by target.
fn failed_releases(status: Option<&EnvironmentStatus>) -> Vec<Value> {
    let targets = status.map(|it| it.targets.as_slice()).unwrap_or_default();
    let failed = targets.iter().filter_map(|target| {
        let revision = planner::failed_revision(target)?;
        let message = planner::failure_message(target);
        let target = planner::target_name(target);
        Some(json!({"revision": revision, "target": target, "message": message}))
    });
    failed.collect()
}

/// The triggers of a pipeline.
pub(super) async fn triggers_of(
    State(app_state): State<Arc<AppState>>,
    caller: Caller,
    PathKey(key): PathKey,
) -> Result<Json<ListResponse<ShownTrigger>>, Problem> {
    caller.authorize(AccessRequest::new("get", &key)).await?;
    let pipeline = app_state.stored_pipeline(&key).await?;
    let found = visible_triggers(&app_state, &caller, &pipeline).await?;
    Ok(Json(ListResponse::new(found, None)))
}

/// The response about an object of a resource that was created.
pub(super) fn created<K: Resource + Serialize>((_, plural): ResourceType, object: K) -> Response {
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let location = format!("/api/v1/{plural}/{namespace}/{name}");
    let location = [(header::LOCATION, location)];
    let body = Json(without_managed_fields(object));
    (StatusCode::CREATED, location, body).into_response()
}

/// An object without `managedFields`.
pub(super) fn without_managed_fields<K: Resource>(mut object: K) -> K {
    object.meta_mut().managed_fields = None;
    object
}

impl AppState {
    /// A pipeline as the API server has it.
    pub(crate) async fn stored_pipeline(&self, key: &ObjectKey) -> Result<Pipeline, Problem> {
        let namespace = self.settings.namespace.as_ref();
        if namespace.is_some_and(|only| *only != key.namespace) {
            let detail = "pipelines of that namespace are not served here";
            return Err(Problem::new(StatusCode::NOT_FOUND, detail));
        }
        let found: Option<Pipeline> = get_object(&self.client, key).await?;
        found.ok_or_else(|| Problem::not_found(&format!("the pipeline {key}")))
    }
}

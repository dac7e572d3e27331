//! `/api/v1/freezes`: when nothing is promoted, and the button that stops promotions.

use std::sync::Arc;

use api::Freeze;
use axum::{
    Json,
    extract::{FromRequest, Query, State},
    response::{IntoResponse, Response},
};
use http::{StatusCode, header};
use kube::{Api, ResourceExt};

use super::{
    body::read_json,
    path::{NamespacePath, PathKey},
    show::{ListQuery, ListResponse, list, without_managed_fields},
};
use crate::{
    AppState,
    access::{AccessRequest, Caller, FREEZES},
    actions::{FreezeBody, freeze, thaw},
    problem::Problem,
};

/// An empty body stops every pipeline of the namespace.
impl<S: Send + Sync> FromRequest<S> for FreezeBody {
    type Rejection = Problem;

    async fn from_request(request: axum::extract::Request, state: &S) -> Result<Self, Problem> {
        let example =
            r#"{"pipeline": "podinfo", "environments": ["prod"], "reason": "incident 7"}"#;
        let body = read_json(request, state, example).await?;
        Ok(body.unwrap_or_default())
    }
}

pub(super) async fn create(
    State(app_state): State<Arc<AppState>>,
    caller: Caller,
    NamespacePath(namespace): NamespacePath,
    body: FreezeBody,
) -> Result<Response, Problem> {
    let freeze = freeze(&app_state, &caller, &namespace, &body).await?;
    let location = format!("/api/v1/freezes/{namespace}/{}", freeze.name_any());
    let location = [(header::LOCATION, location)];
    let body = Json(without_managed_fields(freeze));
    Ok((StatusCode::CREATED, location, body).into_response())
}

pub(super) async fn all(
    State(app_state): State<Arc<AppState>>,
    caller: Caller,
    NamespacePath(namespace): NamespacePath,
    Query(query): Query<ListQuery>,
) -> Result<Json<ListResponse<Freeze>>, Problem> {
    let access = AccessRequest::list(FREEZES, Some(&namespace));
    caller.authorize(access).await?;
    let freezes = Api::namespaced(app_state.client.clone(), &namespace);
    list(&freezes, query).await
}

pub(super) async fn delete(
    State(app_state): State<Arc<AppState>>,
    caller: Caller,
    PathKey(key): PathKey,
) -> Result<StatusCode, Problem> {
    thaw(&app_state, &caller, &key).await?;
    Ok(StatusCode::NO_CONTENT)
}

//! `/api/v1/freezes`: when nothing is promoted, and the button that stops promotions.

use std::sync::Arc;

use api::Freeze;
use axum::{
    Json,
    extract::{FromRequest, State},
    response::Response,
};
use http::StatusCode;

use super::{
    body::read_json,
    path::{NamespacePath, PathKey, UrlQuery},
    show::{ListQuery, ListResponse, created, list_of_namespace},
};
use crate::{
    AppState,
    access::{Caller, FREEZES},
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
    Ok(created(FREEZES, freeze))
}

pub(super) async fn all(
    State(app_state): State<Arc<AppState>>,
    caller: Caller,
    NamespacePath(namespace): NamespacePath,
    UrlQuery(query): UrlQuery<ListQuery>,
) -> Result<Json<ListResponse<Freeze>>, Problem> {
    list_of_namespace(&app_state, &caller, FREEZES, (&namespace, query)).await
}

pub(super) async fn delete(
    State(app_state): State<Arc<AppState>>,
    caller: Caller,
    PathKey(key): PathKey,
) -> Result<StatusCode, Problem> {
    thaw(&app_state, &caller, &key).await?;
    Ok(StatusCode::NO_CONTENT)
}

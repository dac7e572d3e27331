//! `/api/v1/changes`: files to propose in git, and what became of them.

use std::sync::Arc;

use api::Change;
use axum::{
    Json,
    extract::{FromRequest, State},
    response::Response,
};

use super::{
    body::read_json,
    path::{NamespacePath, PathKey, UrlQuery},
    show::{ListQuery, ListResponse, created, list_of_namespace, without_managed_fields},
};
use crate::{
    AppState,
    access::{AccessRequest, CHANGES, Caller},
    actions::{ProposedFile, propose, stored_change},
    problem::Problem,
};

/// The longest body that is read: the longest file, and what JSON adds to it.
pub(super) const MAX_BODY: usize = 512 << 10;

impl<S: Send + Sync> FromRequest<S> for ProposedFile {
    type Rejection = Problem;

    async fn from_request(request: axum::extract::Request, state: &S) -> Result<Self, Problem> {
        let example = r#"{"path": "a/b.yaml", "content": "…", "title": "Add b"}"#;
        let file = read_json(request, state, example).await?;
        file.ok_or_else(|| {
            Problem::unprocessable(format!("the body is empty; send JSON such as {example}"))
        })
    }
}

pub(super) async fn create(
    State(app_state): State<Arc<AppState>>,
    caller: Caller,
    NamespacePath(namespace): NamespacePath,
    file: ProposedFile,
) -> Result<Response, Problem> {
    let change = propose(&app_state, &caller, &namespace, file).await?;
    Ok(created(CHANGES, change))
}

pub(super) async fn all(
    State(app_state): State<Arc<AppState>>,
    caller: Caller,
    NamespacePath(namespace): NamespacePath,
    UrlQuery(query): UrlQuery<ListQuery>,
) -> Result<Json<ListResponse<Change>>, Problem> {
    list_of_namespace(&app_state, &caller, CHANGES, (&namespace, query)).await
}

pub(super) async fn one(
    State(app_state): State<Arc<AppState>>,
    caller: Caller,
    PathKey(key): PathKey,
) -> Result<Json<Change>, Problem> {
    let access = AccessRequest::new("get", &key).of(CHANGES);
    caller.authorize(access).await?;
    let change = stored_change(&app_state, &key).await?;
    Ok(Json(without_managed_fields(change)))
}

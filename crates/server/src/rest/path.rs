//! Names in the path and the query of a request, validated before they are used.

use std::sync::Arc;

use api::names::is_dns_label;
use axum::extract::{FromRequestParts, Query, RawPathParams};
use http::{StatusCode, request::Parts};
use runtime::ObjectKey;
use serde::de::DeserializeOwned;

use crate::{AppState, object_names::parse_key, problem::Problem};

/// The `{namespace}` of a path.
pub(super) struct NamespacePath(pub(super) String);

impl NamespacePath {
    /// A namespace from a request.
    pub(super) fn parse(text: &str) -> Result<Self, Problem> {
        match is_dns_label(text) {
            true => Ok(Self(text.to_owned())),
            false => Err(Problem::not_found("a namespace of that name")),
        }
    }
}

impl FromRequestParts<Arc<AppState>> for NamespacePath {
    type Rejection = Problem;

    async fn from_request_parts(
        parts: &mut Parts,
        app_state: &Arc<AppState>,
    ) -> Result<Self, Problem> {
        let [namespace] = path_parameters(parts, app_state, ["namespace"]).await?;
        Self::parse(&namespace)
    }
}

/// The `{namespace}` and `{name}` of a path.
pub(super) struct PathKey(pub(super) ObjectKey);

impl FromRequestParts<Arc<AppState>> for PathKey {
    type Rejection = Problem;

    async fn from_request_parts(
        parts: &mut Parts,
        app_state: &Arc<AppState>,
    ) -> Result<Self, Problem> {
        let [namespace, name] = path_parameters(parts, app_state, ["namespace", "name"]).await?;
        let key = parse_key(&namespace, &name).map(Self);
        key.ok_or_else(|| Problem::not_found("an object of that name"))
    }
}

/// The parameters after the `?`; what is wrong with them is a problem like any other.
pub(super) struct UrlQuery<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for UrlQuery<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let query = Query::<T>::from_request_parts(parts, state).await;
        let query = query.map(|Query(query)| Self(query));
        query.map_err(|error| Problem::new(StatusCode::BAD_REQUEST, error.body_text()))
    }
}

/// The parameters of a path, by the names in the route.
async fn path_parameters<const N: usize>(
    parts: &mut Parts,
    app_state: &Arc<AppState>,
    names: [&str; N],
) -> Result<[String; N], Problem> {
    let found = RawPathParams::from_request_parts(parts, app_state).await;
    let found = found.map_err(|_| Problem::not_found("an object of that name"))?;
    Ok(names.map(|name| {
        let mut found = found.iter().filter(|(it, _)| *it == name);
        found
            .next()
            .map(|(_, text)| text.to_owned())
            .unwrap_or_default()
    }))
}

//! What the path of a request names, checked before anything is done with it.

use std::sync::Arc;

use api::names::is_dns_label;
use axum::extract::{FromRequestParts, RawPathParams};
use http::request::Parts;

use super::Problem;
use crate::{Door, watched::ObjectKey};

/// The `{namespace}` of a path.
pub(super) struct Namespace(pub(super) String);

impl Namespace {
    /// A namespace that a caller names.
    pub(super) fn parse(text: &str) -> Result<Self, Problem> {
        match is_dns_label(text) {
            true => Ok(Self(text.to_owned())),
            false => Err(Problem::not_found("a namespace of that name")),
        }
    }
}

impl FromRequestParts<Arc<Door>> for Namespace {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, door: &Arc<Door>) -> Result<Self, Problem> {
        let [namespace] = named(parts, door, ["namespace"]).await?;
        Self::parse(&namespace)
    }
}

/// The `{namespace}` and `{name}` of a path.
impl FromRequestParts<Arc<Door>> for ObjectKey {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, door: &Arc<Door>) -> Result<Self, Problem> {
        let [namespace, name] = named(parts, door, ["namespace", "name"]).await?;
        let key = Self::parse(&namespace, &name);
        key.ok_or_else(|| Problem::not_found("an object of that name"))
    }
}

/// The parts of a path by the names that the route gives them.
async fn named<const N: usize>(
    parts: &mut Parts,
    door: &Arc<Door>,
    names: [&str; N],
) -> Result<[String; N], Problem> {
    let found = RawPathParams::from_request_parts(parts, door).await;
    let found = found.map_err(|_| Problem::not_found("an object of that name"))?;
    Ok(names.map(|name| {
        let mut found = found.iter().filter(|(it, _)| *it == name);
        found
            .next()
            .map(|(_, text)| text.to_owned())
            .unwrap_or_default()
    }))
}

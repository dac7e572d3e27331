//! The page of an address, and its parts.
//!
//! A part is an element with an id. When something changes, the parts that differ are sent.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use axum::extract::Query;
use http::Uri;
use percent_encoding::percent_decode_str;
use runtime::ObjectKey;

use super::{
    approvals, changes,
    checks::{self, CheckFilter},
    clusters, freezes,
    html::Html,
    layout::{self, Tab},
    list::{self, PipelineFilter},
    objects::{self, ObjectsQuery},
    pipeline,
    sign_in::Viewer,
    triggers,
};
use crate::{AppState, object_names::parse_key, problem::Problem};

/// A page that is kept up to date.
pub(super) enum DashboardPage {
    Pipelines(PipelineFilter),
    Pipeline(ObjectKey),
    Objects(ObjectKey, ObjectsQuery),
    Approvals,
    Freezes,
    Checks(CheckFilter),
    Clusters,
    Triggers,
    Changes,
    Change(ObjectKey),
}

/// An element of a page, and the hash of its content.
pub(super) struct PagePart {
    pub(super) html: Html,
    pub(super) version: u64,
}

impl From<Html> for PagePart {
    fn from(html: Html) -> Self {
        let mut hasher = DefaultHasher::new();
        html.as_str().hash(&mut hasher);
        let version = hasher.finish();
        Self { html, version }
    }
}

/// The parts of a page: fixed parts, and rows that are added and removed.
#[derive(Default)]
pub(super) struct PageParts {
    pub(super) fixed: Vec<(Arc<str>, PagePart)>,
    pub(super) rows: Vec<(Arc<str>, Arc<PagePart>)>,
}

impl PageParts {
    pub(super) fn push(&mut self, id: &str, html: impl Into<Html>) {
        self.fixed.push((id.into(), PagePart::from(html.into())));
    }

    /// The HTML of a fixed part.
    pub(super) fn html(&self, id: &str) -> Html {
        let part = self.fixed.iter().find(|(name, _)| **name == *id);
        part.map(|(_, part)| part.html.clone()).unwrap_or_default()
    }

    pub(super) fn all_rows(&self) -> Html {
        Html::joined(self.rows.iter().map(|(_, part)| &part.html))
    }

    /// The hash of all parts.
    pub(super) fn digest(&self) -> String {
        let mut hasher = DefaultHasher::new();
        for (id, part) in &self.fixed {
            (id, part.version).hash(&mut hasher);
        }
        for (id, part) in &self.rows {
            (id, part.version).hash(&mut hasher);
        }
        format!("{:016x}", hasher.finish())
    }
}

impl DashboardPage {
    /// The page of an address, if it is one that is kept up to date.
    pub(super) fn parse(address: &Uri) -> Option<Self> {
        let path: Vec<_> = address.path().trim_matches('/').split('/').collect();
        match path.as_slice() {
            ["pipelines"] => {
                let filter = Query::<PipelineFilter>::try_from_uri(address).ok()?;
                Some(Self::Pipelines(filter.0))
            }
            ["pipelines", namespace, name] => key(namespace, name).map(Self::Pipeline),
            ["pipelines", namespace, name, "objects"] => {
                let query = Query::<ObjectsQuery>::try_from_uri(address).ok()?;
                Some(Self::Objects(key(namespace, name)?, query.0))
            }
            ["changes"] => Some(Self::Changes),
            ["changes", namespace, name] => key(namespace, name).map(Self::Change),
            ["approvals"] => Some(Self::Approvals),
            ["freezes"] => Some(Self::Freezes),
            ["checks"] => {
                let filter = Query::<CheckFilter>::try_from_uri(address).ok()?;
                Some(Self::Checks(filter.0))
            }
            ["clusters"] => Some(Self::Clusters),
            ["triggers"] => Some(Self::Triggers),
            _ => None,
        }
    }

    pub(super) fn tab(&self) -> Option<Tab> {
        Some(match self {
            Self::Approvals => Tab::Approvals,
            Self::Freezes => Tab::Freezes,
            Self::Checks(_) => Tab::Checks,
            Self::Clusters => Tab::Clusters,
            Self::Triggers => Tab::Triggers,
            _ => Tab::Pipelines,
        })
    }

    pub(super) fn title(&self) -> String {
        match self {
            Self::Pipelines(_) => "Pipelines".to_owned(),
            Self::Pipeline(key) => key.name.clone(),
            Self::Objects(key, _) => format!("Objects of {}", key.name),
            Self::Approvals => "Approvals".to_owned(),
            Self::Freezes => "Freezes".to_owned(),
            Self::Checks(_) => "Checks".to_owned(),
            Self::Clusters => "Clusters".to_owned(),
            Self::Triggers => "Triggers".to_owned(),
            Self::Changes => "Proposals".to_owned(),
            Self::Change(key) => key.name.clone(),
        }
    }

    pub(super) async fn parts(
        &self,
        app_state: &Arc<AppState>,
        viewer: &Viewer,
    ) -> Result<PageParts, Problem> {
        let mut parts = self.content(app_state, viewer).await?;
        let waiting = layout::waiting(app_state, viewer).await?;
        parts.push(layout::WAITING, waiting);
        Ok(parts)
    }

    async fn content(
        &self,
        app_state: &Arc<AppState>,
        viewer: &Viewer,
    ) -> Result<PageParts, Problem> {
        match self {
            Self::Pipelines(filter) => list::parts(app_state, viewer, filter).await,
            Self::Pipeline(key) => pipeline::parts(app_state, viewer, key).await,
            Self::Objects(key, query) => objects::parts(app_state, viewer, key, query).await,
            Self::Approvals => approvals::parts(app_state, viewer).await,
            Self::Freezes => freezes::parts(app_state, viewer).await,
            Self::Checks(filter) => checks::parts(app_state, viewer, filter).await,
            Self::Clusters => clusters::parts(app_state, viewer).await,
            Self::Triggers => triggers::parts(app_state, viewer).await,
            Self::Changes => changes::parts(app_state, viewer).await,
            Self::Change(key) => changes::parts_of_one(app_state, viewer, key).await,
        }
    }

    /// The page around the parts.
    pub(super) fn frame(&self, parts: &PageParts) -> Html {
        match self {
            Self::Pipelines(filter) => list::frame(filter, parts),
            Self::Pipeline(key) => pipeline::frame(key, parts),
            Self::Objects(key, query) => objects::frame(key, query, parts),
            Self::Approvals => approvals::frame(parts),
            Self::Freezes => freezes::frame(parts),
            Self::Checks(filter) => checks::frame(filter, parts),
            Self::Clusters => clusters::frame(parts),
            Self::Triggers => triggers::frame(parts),
            Self::Changes => changes::frame(parts),
            Self::Change(_) => changes::frame_of_one(parts),
        }
    }
}

/// The key in two segments of an address.
fn key(namespace: &str, name: &str) -> Option<ObjectKey> {
    let decode = |text: &str| percent_decode_str(text).decode_utf8().map(String::from);
    let (namespace, name) = (decode(namespace).ok()?, decode(name).ok()?);
    parse_key(&namespace, &name)
}

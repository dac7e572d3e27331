//! Which page an address names, and the parts it is made of.
//!
//! A part has an id in the page. Parts are what is compared and sent when something changes.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::Arc,
};

use axum::extract::Query;
use http::Uri;
use percent_encoding::percent_decode_str;

use super::{
    approvals, changes, clusters,
    html::Html,
    layout::Tab,
    list::{self, Filter},
    objects::{self, Asked},
    pipeline,
    sign_in::Viewer,
};
use crate::{Door, rest::Problem, watched::ObjectKey};

/// A page that can be kept up to date.
pub(super) enum Page {
    Pipelines(Filter),
    Pipeline(ObjectKey),
    Objects(ObjectKey, Asked),
    Approvals,
    Clusters,
    Changes,
    Change(ObjectKey),
}

/// A piece of a page, and a number that tells its versions apart.
pub(super) struct Part {
    pub(super) html: Html,
    pub(super) version: u64,
}

impl From<Html> for Part {
    fn from(html: Html) -> Self {
        let mut hasher = DefaultHasher::new();
        html.as_str().hash(&mut hasher);
        let version = hasher.finish();
        Self { html, version }
    }
}

/// What a page is made of: parts that are always there, and rows that come and go.
#[derive(Default)]
pub(super) struct Parts {
    pub(super) fixed: Vec<(Arc<str>, Part)>,
    pub(super) rows: Vec<(Arc<str>, Arc<Part>)>,
}

impl Parts {
    pub(super) fn push(&mut self, id: &str, html: impl Into<Html>) {
        self.fixed.push((id.into(), Part::from(html.into())));
    }

    /// The markup of a fixed part.
    pub(super) fn html(&self, id: &str) -> Html {
        let part = self.fixed.iter().find(|(name, _)| **name == *id);
        part.map(|(_, part)| part.html.clone()).unwrap_or_default()
    }

    pub(super) fn all_rows(&self) -> Html {
        Html::joined(self.rows.iter().map(|(_, part)| &part.html))
    }

    /// Tells whether somebody has seen exactly this.
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

impl Page {
    /// The page of an address, if it is one of those that can be kept up to date.
    pub(super) fn parse(address: &Uri) -> Option<Self> {
        let path: Vec<_> = address.path().trim_matches('/').split('/').collect();
        match path.as_slice() {
            ["pipelines"] => {
                let filter = Query::<Filter>::try_from_uri(address).ok()?;
                Some(Self::Pipelines(filter.0))
            }
            ["pipelines", namespace, name] => key(namespace, name).map(Self::Pipeline),
            ["pipelines", namespace, name, "objects"] => {
                let asked = Query::<Asked>::try_from_uri(address).ok()?;
                Some(Self::Objects(key(namespace, name)?, asked.0))
            }
            ["changes"] => Some(Self::Changes),
            ["changes", namespace, name] => key(namespace, name).map(Self::Change),
            ["approvals"] => Some(Self::Approvals),
            ["clusters"] => Some(Self::Clusters),
            _ => None,
        }
    }

    pub(super) fn tab(&self) -> Tab {
        match self {
            Self::Approvals => Tab::Approvals,
            Self::Clusters => Tab::Clusters,
            _ => Tab::Pipelines,
        }
    }

    pub(super) fn title(&self) -> String {
        match self {
            Self::Pipelines(_) => "Pipelines".to_owned(),
            Self::Pipeline(key) => key.name.clone(),
            Self::Objects(key, _) => format!("Objects of {}", key.name),
            Self::Approvals => "Approvals".to_owned(),
            Self::Clusters => "Clusters".to_owned(),
            Self::Changes => "Proposals".to_owned(),
            Self::Change(key) => key.name.clone(),
        }
    }

    pub(super) async fn parts(&self, door: &Arc<Door>, viewer: &Viewer) -> Result<Parts, Problem> {
        match self {
            Self::Pipelines(filter) => list::parts(door, viewer, filter).await,
            Self::Pipeline(key) => pipeline::parts(door, viewer, key).await,
            Self::Objects(key, asked) => objects::parts(door, viewer, key, asked).await,
            Self::Approvals => approvals::parts(door, viewer).await,
            Self::Clusters => clusters::parts(door, viewer).await,
            Self::Changes => changes::parts(door, viewer).await,
            Self::Change(key) => changes::parts_of_one(door, viewer, key).await,
        }
    }

    /// The page around the parts.
    pub(super) fn frame(&self, parts: &Parts) -> Html {
        match self {
            Self::Pipelines(filter) => list::frame(filter, parts),
            Self::Pipeline(key) => pipeline::frame(key, parts),
            Self::Objects(key, asked) => objects::frame(key, asked, parts),
            Self::Approvals => approvals::frame(parts),
            Self::Clusters => clusters::frame(parts),
            Self::Changes => changes::frame(parts),
            Self::Change(_) => changes::frame_of_one(parts),
        }
    }
}

/// What two parts of an address name.
fn key(namespace: &str, name: &str) -> Option<ObjectKey> {
    let plain = |text: &str| percent_decode_str(text).decode_utf8().map(String::from);
    let (namespace, name) = (plain(namespace).ok()?, plain(name).ok()?);
    ObjectKey::parse(&namespace, &name)
}

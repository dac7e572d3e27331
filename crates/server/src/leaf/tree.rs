//! An app with what it comes from and what it is made of: source, app, inventory, workloads, pods.
//!
//! Tells kind, name, state, message and images, never data. Objects of Flux, workloads and pods are
//! read; everything else in an inventory is only named, so no right to read it is needed.

mod describe;
mod look;
mod pods;

use std::sync::atomic::{AtomicUsize, Ordering};

use api::{
    flux::{HELM_GROUP, KUSTOMIZE_GROUP},
    pipeline::TargetStatus,
};
use futures::future::{BoxFuture, join_all};
use kube::{Client, api::DynamicObject};
use serde::Serialize;
use tokio::sync::Semaphore;

use super::kinds::{APPS, BATCH, Kinds, is_read};
use describe::{holds, sources};
use look::Found;

pub(super) use describe::images;

/// How many objects one look reads at most.
const MOST: usize = 300;
/// How many requests to one cluster go on at once.
const AT_ONCE: usize = 8;

/// An app on a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct App {
    /// Its API group.
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl App {
    /// The apps that were seen in a target, else the one that the pipeline names. Never objects of
    /// Kubernetes' core, which a pipeline must not be a way to read.
    pub fn in_target(target: &TargetStatus) -> Vec<Self> {
        let namespace = target.namespace.as_deref().unwrap_or_default();
        let app = |api_version: &str, kind: &str, name: &str| {
            let group = api_version.split_once('/').map_or("", |(group, _)| group);
            planner::refuse_group(group).is_none().then(|| Self {
                group: group.to_owned(),
                kind: kind.to_owned(),
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            })
        };
        let seen = target.apps.iter();
        let seen = seen.filter_map(|it| app(&it.api_version, &it.kind, &it.name));
        let named = target.cluster_app_ref.iter();
        let named = named.filter_map(|it| app(&it.api_version, &it.kind, &it.name));
        match target.apps.is_empty() {
            true => named.collect(),
            false => seen.collect(),
        }
    }
}

/// How an object is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum State {
    /// As it should be.
    Ready,
    /// Not yet, or not any more.
    NotReady,
    /// Its controller gave up.
    Failed,
    /// Its controller was told to leave it alone.
    Suspended,
    /// It is not there.
    Missing,
    /// It was not looked at, or says nothing.
    #[default]
    Unknown,
}

/// An object, and what belongs to it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Its API group; that of Kubernetes' core is empty.
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace, unless it belongs to the whole cluster.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// How it is.
    pub state: State,
    /// What it runs or has fetched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// What it says about itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The images it runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// What is left out, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// What belongs to it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<Node>,
}

impl Node {
    /// An object of which nothing but its name is known.
    fn named(group: &str, kind: &str, namespace: &str, name: &str) -> Self {
        Self {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..Self::default()
        }
    }

    fn noting(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }
}

/// Reads an app, what it comes from and what it is made of. The result is the source it comes from,
/// with the app below.
pub async fn read(client: &Client, app: &App) -> Node {
    let look = Look {
        client,
        kinds: Kinds::default(),
        left: AtomicUsize::new(MOST),
        turns: Semaphore::new(AT_ONCE),
    };
    let named = Node::named(&app.group, &app.kind, &app.namespace, &app.name);
    let found = look.get(&named).await;
    let above = match &found {
        Found::Object(object) => sources(&named, object),
        Found::Nothing(_) => Vec::new(),
    };
    let mut tree = look.describe(named, found, &Way::new()).await;
    for source in look.above(above).await {
        tree = Node {
            below: vec![tree],
            ..source
        };
    }
    if look.left.load(Ordering::Relaxed) == 0 {
        tree = tree.noting(format!("only {MOST} objects were read"));
    }
    tree
}

/// One look at an app.
struct Look<'a> {
    client: &'a Client,
    kinds: Kinds,
    /// How many more objects may be read.
    left: AtomicUsize,
    turns: Semaphore,
}

/// The Kustomizations and releases that lead to an object, by kind, namespace and name: they may
/// hold each other, and some hold themselves.
type Way = Vec<[String; 3]>;

impl Look<'_> {
    /// The sources of an app, nearest first, and what those come from.
    async fn above(&self, mut wanted: Vec<Node>) -> Vec<Node> {
        let mut chain = Vec::new();
        while let Some(named) = wanted.pop() {
            let found = self.get(&named).await;
            if let (Found::Object(chart), "HelmChart") = (&found, named.kind.as_str())
                && wanted.is_empty()
            {
                wanted = sources(&named, chart);
            }
            chain.push(self.describe(named, found, &Way::new()).await);
        }
        chain
    }

    /// An object of an inventory.
    fn object<'b>(&'b self, named: Node, way: &'b Way) -> BoxFuture<'b, Node> {
        Box::pin(async move {
            if !is_read(&named.group, &named.kind) {
                return named;
            }
            let found = self.get(&named).await;
            self.describe(named, found, way).await
        })
    }

    async fn describe(&self, named: Node, found: Found, way: &Way) -> Node {
        let object = match found {
            Found::Object(object) => object,
            Found::Nothing(nothing) => return nothing.about(named),
        };
        let node = describe::state_of(named, &object);
        match (node.group.as_str(), node.kind.as_str()) {
            (HELM_GROUP | KUSTOMIZE_GROUP, _) => self.app(node, &object, way).await,
            (APPS | BATCH, kind) if kind != "CronJob" => self.pods(node, &object).await,
            _ => node,
        }
    }

    /// A Kustomization or a release, with what it holds.
    async fn app(&self, node: Node, object: &DynamicObject, way: &Way) -> Node {
        let step = [&node.kind, &node.namespace, &node.name].map(Clone::clone);
        if way.contains(&step) {
            return node;
        }
        let way = [way.as_slice(), &[step]].concat();
        if !object.data["spec"]["kubeConfig"].is_null() {
            return node.noting(
                "it deploys to another cluster, by a kubeConfig of its own, which is not read",
            );
        }
        match holds(object) {
            entries if !entries.is_empty() => {
                let below = entries.into_iter().map(|named| self.object(named, &way));
                let below = join_all(below).await;
                Node { below, ..node }
            }
            _ if node.group == HELM_GROUP => self.labelled(node, object).await,
            _ => node,
        }
    }
}

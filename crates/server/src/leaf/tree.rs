//! The tree of an app: its source, the app, its inventory, workloads and pods.
//!
//! A node has kind, name, state, message and images, never data. Flux objects, workloads and pods are
//! read; other objects of an inventory are only named, so that no right to read them is needed.

mod describe;
mod objects;
mod pods;

use std::sync::atomic::{AtomicUsize, Ordering};

use api::{
    app::RESOURCE_SET_GROUP,
    flux::{HELM_GROUP, KUSTOMIZE_GROUP},
    pipeline::TargetStatus,
};
use futures::future::{BoxFuture, join_all};
use kube::{Client, api::DynamicObject};
use serde::Serialize;
use tokio::sync::Semaphore;

use super::kinds::{APPS, BATCH, DiscoveredKinds, is_read};
use describe::{inventory_of, sources_of};
use objects::ObjectLookup;

pub(super) use describe::images;

/// How many objects are read for one tree.
const MAX_OBJECTS: usize = 300;
/// How many requests to a cluster run at once.
const CONCURRENT_REQUESTS: usize = 8;

/// An app on a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AppOnCluster {
    /// Its API group.
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

impl AppOnCluster {
    /// The apps that were observed in a target, else the one in the pipeline's spec. Never objects of
    /// the core group: a pipeline must not give access to them.
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
        let observed = target.apps.iter();
        let observed = observed.filter_map(|it| app(&it.api_version, &it.kind, &it.name));
        let declared = target.cluster_app_ref.iter();
        let declared = declared.filter_map(|it| app(&it.api_version, &it.kind, &it.name));
        match target.apps.is_empty() {
            true => declared.collect(),
            false => observed.collect(),
        }
    }
}

/// The state of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ObjectState {
    /// It is ready.
    Ready,
    /// It is not ready.
    NotReady,
    /// Its controller has given up.
    Failed,
    /// Its controller ignores it.
    Suspended,
    /// It does not exist.
    Missing,
    /// It was not read, or has no status.
    #[default]
    Unknown,
}

/// An object, and the objects below it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// Its API group; empty for the core group.
    pub group: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace; empty if it is cluster-scoped.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its state.
    pub state: ObjectState,
    /// The revision that it runs or has fetched.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub revision: Option<String>,
    /// The message of its status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The images it runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<String>,
    /// What could not be read, and why.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The objects below it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub below: Vec<Node>,
}

impl Node {
    /// An object of which only the name is known.
    fn named(group: &str, kind: &str, namespace: &str, name: &str) -> Self {
        Self {
            group: group.to_owned(),
            kind: kind.to_owned(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            ..Self::default()
        }
    }

    fn with_note(mut self, note: impl Into<String>) -> Self {
        self.note = Some(note.into());
        self
    }
}

/// Reads the tree of an app. Its root is the source of the app.
pub async fn read(client: &Client, app: &AppOnCluster) -> Node {
    let reader = TreeReader {
        client,
        kinds: DiscoveredKinds::default(),
        objects_left: AtomicUsize::new(MAX_OBJECTS),
        request_permits: Semaphore::new(CONCURRENT_REQUESTS),
    };
    let named = Node::named(&app.group, &app.kind, &app.namespace, &app.name);
    let found = reader.get(&named).await;
    let sources = match &found {
        ObjectLookup::Found(object) => sources_of(&named, object),
        ObjectLookup::Absent(_) => Vec::new(),
    };
    let mut tree = reader.describe(named, found, &AncestorChain::new()).await;
    for source in reader.source_chain(sources).await {
        tree = Node {
            below: vec![tree],
            ..source
        };
    }
    if reader.objects_left.load(Ordering::Relaxed) == 0 {
        tree = tree.with_note(format!("only {MAX_OBJECTS} objects were read"));
    }
    tree
}

/// Reads one tree.
struct TreeReader<'a> {
    client: &'a Client,
    kinds: DiscoveredKinds,
    /// How many more objects may be read.
    objects_left: AtomicUsize,
    request_permits: Semaphore,
}

/// The Kustomizations and HelmReleases above an object, by kind, namespace and name. They may contain
/// each other, and some contain themselves.
type AncestorChain = Vec<[String; 3]>;

impl TreeReader<'_> {
    /// The sources of an app and their sources, nearest first.
    async fn source_chain(&self, mut wanted: Vec<Node>) -> Vec<Node> {
        let mut chain = Vec::new();
        while let Some(named) = wanted.pop() {
            let found = self.get(&named).await;
            if let (ObjectLookup::Found(chart), "HelmChart") = (&found, named.kind.as_str())
                && wanted.is_empty()
            {
                wanted = sources_of(&named, chart);
            }
            chain.push(self.describe(named, found, &AncestorChain::new()).await);
        }
        chain
    }

    /// An object of an inventory.
    fn object<'b>(&'b self, named: Node, ancestors: &'b AncestorChain) -> BoxFuture<'b, Node> {
        Box::pin(async move {
            if !is_read(&named.group, &named.kind) {
                return named;
            }
            let found = self.get(&named).await;
            self.describe(named, found, ancestors).await
        })
    }

    async fn describe(&self, named: Node, found: ObjectLookup, ancestors: &AncestorChain) -> Node {
        let object = match found {
            ObjectLookup::Found(object) => object,
            ObjectLookup::Absent(absence) => return absence.into_node(named),
        };
        let node = describe::state_of(named, &object);
        match (node.group.as_str(), node.kind.as_str()) {
            (HELM_GROUP | KUSTOMIZE_GROUP | RESOURCE_SET_GROUP, _) => {
                self.app(node, &object, ancestors).await
            }
            (APPS | BATCH, kind) if kind != "CronJob" => self.pods(node, &object).await,
            _ => node,
        }
    }

    /// A Kustomization, HelmRelease or ResourceSet with its inventory.
    async fn app(&self, node: Node, object: &DynamicObject, ancestors: &AncestorChain) -> Node {
        let own = [&node.kind, &node.namespace, &node.name].map(Clone::clone);
        if ancestors.contains(&own) {
            return node;
        }
        let ancestors = [ancestors.as_slice(), &[own]].concat();
        if !object.data["spec"]["kubeConfig"].is_null() {
            return node
                .with_note("it deploys to another cluster by spec.kubeConfig, which is not read");
        }
        match inventory_of(object) {
            entries if !entries.is_empty() => {
                let below = entries
                    .into_iter()
                    .map(|named| self.object(named, &ancestors));
                let below = join_all(below).await;
                Node { below, ..node }
            }
            _ if node.group == HELM_GROUP => self.labelled_workloads(node, object).await,
            _ => node,
        }
    }
}

//! What apps come from: the sources that Kustomizations follow, and the folder Flux applied an app from.
//!
//! Such an object is read when an app that leads to it is looked at, and its gist remembered for a
//! while: they are few and seldom edited. When the app or the object itself is seen to change, it is
//! read again. What cannot be read is left out.

use std::{collections::HashMap, time::Duration};

use api::{
    flux::{KUSTOMIZE_GROUP, Kustomization, ObjectReference, SOURCE_GROUP},
    pipeline::Origin,
};
use kube::{Api, Client, api::DynamicObject, core::ApiResource};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use super::{Record, feed::discover};
use crate::keys::{AppKind, ClusterKey};

/// How long an answer holds.
const HOLDS: Duration = Duration::from_secs(300);
/// The same if there was nothing to see: it may be on its way.
const NOTHING_HOLDS: Duration = Duration::from_secs(15);
/// How long reading an object may take.
const WITHIN: Duration = Duration::from_secs(3);
/// How long a folder's name may be.
const LONGEST_PATH: usize = 1024;
/// And a branch's.
const LONGEST_BRANCH: usize = 256;

type Key = (ClusterKey, AppKind, String, String);
/// Namespace and name.
type Place<'a> = (&'a str, &'a str);

/// What is remembered of an object.
#[derive(Clone, Default)]
struct Gist {
    /// What a source follows.
    follows: Option<String>,
    /// Where a git repository is.
    address: Option<String>,
    /// The branch of it, where that and nothing else is followed.
    branch: Option<String>,
    /// The folder that a Kustomization applies, and the source the folder is in.
    applies: Option<(String, ObjectReference)>,
}

impl Gist {
    fn of(kind: &str, object: &DynamicObject) -> Self {
        let spec = &object.data["spec"];
        Self {
            follows: api::flux::followed(kind, spec),
            address: api::flux::git_address(kind, spec),
            branch: branch(&spec["ref"]),
            applies: (kind == "Kustomization").then(|| applies(&object.data)),
        }
    }
}

fn branch(reference: &Value) -> Option<String> {
    let others = ["tag", "semver", "commit", "name"];
    let is_pinned = others.iter().any(|field| !reference[field].is_null());
    let branch = reference["branch"].as_str().filter(|_| !is_pinned)?;
    (branch.len() <= LONGEST_BRANCH).then(|| branch.to_owned())
}

fn applies(fields: &Value) -> (String, ObjectReference) {
    let object: Kustomization = serde_json::from_value(fields.clone()).unwrap_or_default();
    let path = object.spec.path.filter(|path| path.len() <= LONGEST_PATH);
    (path.unwrap_or("./".to_owned()), object.spec.source_ref)
}

/// Where an app is.
#[derive(Clone, Copy)]
pub(crate) struct Leaf<'a> {
    pub(crate) client: &'a Client,
    pub(crate) cluster: &'a ClusterKey,
    pub(crate) namespace: &'a str,
}

/// What was read.
#[derive(Default)]
pub(crate) struct Sources {
    /// What was seen, and until when that holds.
    known: Mutex<HashMap<Key, (Instant, Gist)>>,
    /// When an object was lately said to have changed.
    changed: Mutex<HashMap<Key, Instant>>,
    served: Mutex<HashMap<(ClusterKey, AppKind), ApiResource>>,
}

impl Sources {
    /// What the source follows that an app refers to.
    pub(crate) async fn follows(&self, leaf: Leaf<'_>, source: &ObjectReference) -> Option<String> {
        self.source(leaf, source).await?.follows
    }

    /// The folder Flux applied an app from: that of the Kustomization its labels name, else, for a
    /// Kustomization, its own.
    pub(crate) async fn origin(&self, leaf: Leaf<'_>, app: &Record, own: &str) -> Option<Origin> {
        let (namespace, name) = match (&app.applier, &app.source) {
            (Some((namespace, name)), _) => (namespace.as_str(), name.as_str()),
            (None, Some(_)) => (leaf.namespace, own),
            (None, None) => return None,
        };
        let kind = AppKind::new(KUSTOMIZE_GROUP, "Kustomization");
        let key = (
            leaf.cluster.clone(),
            kind,
            namespace.to_owned(),
            name.to_owned(),
        );
        let (path, source) = self.gist(leaf.client, key).await.applies?;
        let source = self.source(Leaf { namespace, ..leaf }, &source).await?;
        Some(Origin {
            url: source.address?,
            path,
            branch: source.branch,
        })
    }

    async fn source(&self, leaf: Leaf<'_>, reference: &ObjectReference) -> Option<Gist> {
        let (kind, namespace, name) = named(reference, leaf.namespace)?;
        let key = (leaf.cluster.clone(), kind, namespace, name);
        Some(self.gist(leaf.client, key).await)
    }

    async fn gist(&self, client: &Client, key: Key) -> Gist {
        if let Some((until, gist)) = self.known.lock().get(&key)
            && Instant::now() < *until
        {
            return gist.clone();
        }
        let began = Instant::now();
        let read = tokio::time::timeout(WITHIN, self.read(client, &key)).await;
        let gist = match read {
            Ok(Ok(gist)) => gist,
            Ok(Err(error)) => {
                tracing::debug!(cluster = %key.0, object = key.3, %error, "source not read");
                self.served.lock().remove(&(key.0.clone(), key.1.clone()));
                None
            }
            Err(_) => None,
        };
        let holds = gist.as_ref().map_or(NOTHING_HOLDS, |_| HOLDS);
        let gist = gist.unwrap_or_default();
        let mut known = self.known.lock();
        // What was read before a change may not be kept after it.
        let changed = self.changed.lock().get(&key).copied();
        if changed.is_none_or(|changed| changed < began) {
            known.insert(key, (Instant::now() + holds, gist.clone()));
        }
        gist
    }

    /// Has an object read again the next time it matters.
    pub(crate) fn forget(
        &self,
        cluster: &ClusterKey,
        kind: &AppKind,
        (namespace, name): Place<'_>,
    ) {
        let key = (
            cluster.clone(),
            kind.clone(),
            namespace.to_owned(),
            name.to_owned(),
        );
        let mut known = self.known.lock();
        known.remove(&key);
        let mut changed = self.changed.lock();
        // No read that is under way is older than that.
        changed.retain(|_, at| at.elapsed() <= WITHIN * 2);
        changed.insert(key, Instant::now());
    }

    /// The same for the source that an app in a namespace refers to.
    pub(crate) fn forget_source_of(
        &self,
        cluster: &ClusterKey,
        namespace: &str,
        source: &ObjectReference,
    ) {
        if let Some((kind, namespace, name)) = named(source, namespace) {
            self.forget(cluster, &kind, (&namespace, &name));
        }
    }

    async fn read(&self, client: &Client, key: &Key) -> Result<Option<Gist>, kube::Error> {
        let (cluster, kind, namespace, name) = key;
        let of_kind = (cluster.clone(), kind.clone());
        let known = self.served.lock().get(&of_kind).cloned();
        let resource = match known {
            Some(resource) => resource,
            None => match discover(client, kind).await? {
                Some(resource) => resource,
                None => return Ok(None),
            },
        };
        self.served.lock().insert(of_kind, resource.clone());
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        let object = api.get_opt(name).await?;
        Ok(object.map(|object| Gist::of(&kind.kind, &object)))
    }

    /// Forgets everything about a cluster.
    pub(crate) fn forget_cluster(&self, cluster: &ClusterKey) {
        self.known.lock().retain(|(of, ..), _| of != cluster);
        self.changed.lock().retain(|(of, ..), _| of != cluster);
        self.served.lock().retain(|(of, _), _| of != cluster);
    }
}

/// Kind, namespace and name of a source that something in a namespace refers to.
pub(crate) fn named(
    source: &ObjectReference,
    namespace: &str,
) -> Option<(AppKind, String, String)> {
    let kind = AppKind::new(SOURCE_GROUP, source.kind.as_deref()?);
    let namespace = source.namespace.as_deref().unwrap_or(namespace);
    Some((kind, namespace.to_owned(), source.name.clone()?))
}

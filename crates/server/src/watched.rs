//! What is known of Pipelines, Promotions, Changes, GitopsClusters and PipelineTriggers by watching
//! them.
//!
//! Promises that what a caller was told is at least as new as what this process itself wrote, and
//! that who follows a pipeline is woken by every change of it, of its promotions and of triggers in
//! its namespace.

use std::{
    collections::{HashMap, HashSet},
    fmt,
    sync::Arc,
};

use api::{
    Change, GitopsCluster, Pipeline, PipelineTrigger, Promotion,
    names::{is_dns_label, is_dns_subdomain},
};
use futures::StreamExt;
use kube::{
    Api, Client, Resource, ResourceExt,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};
use parking_lot::{Mutex, RwLock};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::get_object::get_object;

/// A namespace and a name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ObjectKey {
    pub(crate) namespace: String,
    pub(crate) name: String,
}

impl ObjectKey {
    pub(crate) fn new(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        }
    }

    /// What a caller names; nothing where no object can have such a name. Names become parts of API
    /// paths, so that other text must not get into them.
    pub(crate) fn parse(namespace: &str, name: &str) -> Option<Self> {
        let key = Self::new(namespace, name);
        key.is_valid().then_some(key)
    }

    /// Whether an object can have this name.
    pub(crate) fn is_valid(&self) -> bool {
        is_dns_label(&self.namespace) && is_dns_subdomain(&self.name)
    }

    pub(crate) fn of(object: &impl Resource) -> Self {
        Self::new(&object.namespace().unwrap_or_default(), &object.name_any())
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(text, "{}/{}", self.namespace, self.name)
    }
}

pub(crate) struct Watched {
    client: Client,
    namespace: Option<String>,
    pipelines: Shelf<Pipeline>,
    promotions: Shelf<Promotion>,
    clusters: Shelf<GitopsCluster>,
    triggers: Shelf<PipelineTrigger>,
    changes_to_git: Shelf<Change>,
    /// Counts changes of anything.
    changes: watch::Sender<u64>,
    followers: Mutex<HashMap<ObjectKey, watch::Sender<()>>>,
}

impl Watched {
    /// Watches in the background until `stop`.
    pub(crate) fn start(
        client: Client,
        namespace: Option<String>,
        stop: &CancellationToken,
    ) -> Arc<Self> {
        let watched = Arc::new(Self {
            client,
            namespace,
            pipelines: Shelf::default(),
            promotions: Shelf::default(),
            clusters: Shelf::default(),
            triggers: Shelf::default(),
            changes_to_git: Shelf::default(),
            changes: watch::channel(0).0,
            followers: Mutex::default(),
        });
        watched.spawn(stop, |it| &it.pipelines, slim, ObjectKey::of);
        let of = |it: &Promotion| ObjectKey::new(&namespace_of(it), &it.spec.pipeline);
        watched.spawn(stop, |it| &it.promotions, whole, of);
        watched.spawn(stop, |it| &it.clusters, whole, ObjectKey::of);
        // Which pipelines a trigger feeds depends on both, so all of its namespace are looked at.
        let of = |it: &PipelineTrigger| ObjectKey::new(&namespace_of(it), "");
        watched.spawn(stop, |it| &it.triggers, whole, of);
        watched.spawn(
            stop,
            |it| &it.changes_to_git,
            without_content,
            ObjectKey::of,
        );
        watched
    }

    /// A pipeline as it is known, else as the API server says.
    pub(crate) async fn pipeline(
        &self,
        key: &ObjectKey,
    ) -> Result<Option<Arc<Pipeline>>, kube::Error> {
        match self.known(key) {
            Some(known) => Ok(Some(known)),
            None => self.newest(key).await,
        }
    }

    /// A pipeline as it is known.
    pub(crate) fn known(&self, key: &ObjectKey) -> Option<Arc<Pipeline>> {
        self.pipelines.get(key)
    }

    /// A pipeline as the API server says.
    pub(crate) async fn newest(
        &self,
        key: &ObjectKey,
    ) -> Result<Option<Arc<Pipeline>>, kube::Error> {
        let only = self.namespace.as_ref();
        if only.is_some_and(|only| *only != key.namespace) {
            return Ok(None);
        }
        let found: Option<Pipeline> = get_object(&self.client, key).await?;
        Ok(found.map(|pipeline| self.pipelines.update(slim(pipeline))))
    }

    /// A promotion as it is known.
    pub(crate) fn promotion(&self, namespace: &str, name: &str) -> Option<Arc<Promotion>> {
        self.promotions.get(&ObjectKey::new(namespace, name))
    }

    /// All pipelines.
    pub(crate) fn pipelines(&self) -> Vec<Arc<Pipeline>> {
        self.pipelines.all(|_| true)
    }

    /// All clusters.
    pub(crate) fn clusters(&self) -> Vec<Arc<GitopsCluster>> {
        self.clusters.all(|_| true)
    }

    /// A cluster as it is known.
    pub(crate) fn cluster(&self, key: &ObjectKey) -> Option<Arc<GitopsCluster>> {
        self.clusters.get(key)
    }

    /// The triggers in a namespace.
    pub(crate) fn triggers(&self, namespace: &str) -> Vec<Arc<PipelineTrigger>> {
        let mut triggers = self
            .triggers
            .all(|it| it.namespace().as_deref() == Some(namespace));
        triggers.sort_by_key(|it| it.name_any());
        triggers
    }

    /// All changes, without what the files hold.
    pub(crate) fn changes_to_git(&self) -> Vec<Arc<Change>> {
        self.changes_to_git.all(|_| true)
    }

    /// Takes note of what this process wrote, before the watch tells.
    pub(crate) fn wrote_change(&self, change: Change) {
        self.changes_to_git.keep(without_content(change));
    }

    /// The promotions that somebody is interested in.
    pub(crate) fn promotions(&self, is_wanted: impl Fn(&Promotion) -> bool) -> Vec<Arc<Promotion>> {
        self.promotions.all(is_wanted)
    }

    /// How often anything has changed.
    pub(crate) fn change_count(&self) -> u64 {
        *self.changes.borrow()
    }

    /// Is changed whenever anything changes.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Takes note of what this process wrote, before the watch tells.
    pub(crate) fn wrote_pipeline(&self, pipeline: Pipeline) -> Arc<Pipeline> {
        let pipeline = self.pipelines.update(slim(pipeline));
        self.changes.send_modify(|count| *count += 1);
        pipeline
    }

    /// Takes note of what this process wrote, before the watch tells.
    pub(crate) fn wrote_promotion(&self, promotion: Promotion) {
        self.promotions.keep(promotion);
    }

    /// Is changed whenever something about the pipeline changes.
    pub(crate) fn follow(&self, key: &ObjectKey) -> watch::Receiver<()> {
        let mut followers = self.followers.lock();
        let sender = followers.entry(key.clone());
        sender.or_insert_with(|| watch::channel(()).0).subscribe()
    }

    /// Wakes who follows a pipeline; without a name, any of its namespace.
    fn wake(&self, key: &ObjectKey) {
        self.changes.send_modify(|count| *count += 1);
        let mut followers = self.followers.lock();
        if key.name.is_empty() {
            let is_left = |followed: &ObjectKey, follower: &watch::Sender<()>| {
                followed.namespace == key.namespace && follower.send(()).is_err()
            };
            followers.retain(|followed, follower| !is_left(followed, follower));
            return;
        }
        let is_left = followers
            .get(key)
            .is_some_and(|follower| follower.send(()).is_err());
        if is_left {
            followers.remove(key);
        }
    }

    /// Watches a kind in the background until `stop`.
    fn spawn<K: Watchable>(
        self: &Arc<Self>,
        stop: &CancellationToken,
        shelf: fn(&Self) -> &Shelf<K>,
        slim: fn(K) -> K,
        pipeline_of: fn(&K) -> ObjectKey,
    ) {
        let watched = self.clone();
        tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
            watched.watch(shelf, slim, pipeline_of).await;
        }));
    }

    async fn watch<K: Watchable>(
        &self,
        shelf: fn(&Self) -> &Shelf<K>,
        slim: fn(K) -> K,
        pipeline_of: fn(&K) -> ObjectKey,
    ) {
        let api: Api<K> = match &self.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        };
        let events = watcher::watcher(api, watcher::Config::default()).default_backoff();
        let mut events = std::pin::pin!(events);
        let shelf = shelf(self);
        let mut listed = HashSet::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitDone) => {
                    shelf.retain(&std::mem::take(&mut listed));
                    self.changes.send_modify(|count| *count += 1);
                }
                Ok(Event::InitApply(object) | Event::Apply(object)) => {
                    listed.insert(ObjectKey::of(&object));
                    let pipeline = pipeline_of(&object);
                    shelf.keep(slim(object));
                    self.wake(&pipeline);
                }
                Ok(Event::Delete(object)) => {
                    shelf.remove(&object);
                    self.wake(&pipeline_of(&object));
                }
                Err(error) => warn!(kind = %K::kind(&()), %error, "the watch is interrupted"),
            }
        }
    }
}

/// What can be watched here.
trait Watchable:
    Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
    + Clone
    + DeserializeOwned
    + fmt::Debug
    + Send
    + Sync
    + 'static
{
}

impl<K> Watchable for K where
    K: Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + fmt::Debug
        + Send
        + Sync
        + 'static
{
}

fn namespace_of(object: &impl Resource) -> String {
    object.namespace().unwrap_or_default()
}

fn whole<K>(object: K) -> K {
    object
}

/// A pipeline without what no handler looks at.
fn slim(mut pipeline: Pipeline) -> Pipeline {
    pipeline.metadata.managed_fields = None;
    pipeline
}

/// A change without what its file holds, which may be much.
fn without_content(mut change: Change) -> Change {
    change.metadata.managed_fields = None;
    change.spec.content = String::new();
    change
}

/// The newest known state of objects of one kind.
struct Shelf<K>(RwLock<HashMap<ObjectKey, Arc<K>>>);

impl<K> Default for Shelf<K> {
    fn default() -> Self {
        Self(RwLock::default())
    }
}

impl<K: Resource> Shelf<K> {
    fn get(&self, key: &ObjectKey) -> Option<Arc<K>> {
        self.0.read().get(key).cloned()
    }

    fn all(&self, is_wanted: impl Fn(&K) -> bool) -> Vec<Arc<K>> {
        let objects = self.0.read();
        let wanted = objects.values().filter(|object| is_wanted(object));
        wanted.cloned().collect()
    }

    /// Keeps an object unless a newer state of it is known. Gives the newer one.
    fn keep(&self, object: K) -> Arc<K> {
        let key = ObjectKey::of(&object);
        let mut objects = self.0.write();
        match objects.get(&key) {
            Some(known) if !is_newer(&object, &**known) => known.clone(),
            _ => {
                let object = Arc::new(object);
                objects.insert(key, object.clone());
                object
            }
        }
    }

    /// Like `keep`, for objects that a watch told about: nothing else would keep others up to date.
    fn update(&self, object: K) -> Arc<K> {
        match self.get(&ObjectKey::of(&object)) {
            Some(_) => self.keep(object),
            None => Arc::new(object),
        }
    }

    fn remove(&self, object: &K) {
        let key = ObjectKey::of(object);
        let mut objects = self.0.write();
        let is_same = objects.get(&key).is_some_and(|it| it.uid() == object.uid());
        if is_same {
            objects.remove(&key);
        }
    }

    fn retain(&self, listed: &HashSet<ObjectKey>) {
        self.0.write().retain(|key, _| listed.contains(key));
    }
}

fn is_newer<K: Resource>(object: &K, known: &K) -> bool {
    let version = |object: &K| -> u64 {
        let version = object.resource_version();
        version.and_then(|it| it.parse().ok()).unwrap_or_default()
    };
    object.uid() != known.uid() || version(object) > version(known)
}

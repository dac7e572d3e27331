//! Follows the cache of triggers, and watches the kinds that they depend on, in whichever API version is
//! served.
//!
//! One task discovers which kinds are served; one task per kind watches it. A kind that is not
//! installed is waited for, one that is uninstalled is removed from the cache, and one that is served
//! in another version is watched again.

use std::{collections::HashMap, sync::Arc, time::Duration};

use api::trigger::TriggerSourceKind;
use futures::StreamExt;
use kube::{
    Api, Client,
    core::{ApiResource, DynamicObject, GroupVersion},
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use runtime::{CacheEvent, ObjectKey};
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
};

use super::{
    NAME, TriggerContext,
    dependency_cache::{DependencyCache, KindAvailability, WatchedKind},
    reconciler::TriggerReconciler,
};
use crate::plan::group_and_plural;

/// How often discovery is repeated.
const DISCOVERY_INTERVAL: Duration = Duration::from_secs(10);
/// The least time between two discoveries: watches fail in bursts when a server goes away.
const DISCOVERY_PAUSE: Duration = Duration::from_millis(200);

const WATCHED_KINDS: [WatchedKind; 8] = [
    WatchedKind::Source(TriggerSourceKind::GitRepository),
    WatchedKind::Source(TriggerSourceKind::ImagePolicy),
    WatchedKind::Source(TriggerSourceKind::PullRequest),
    WatchedKind::Source(TriggerSourceKind::OCIRepository),
    WatchedKind::Source(TriggerSourceKind::Bucket),
    WatchedKind::Source(TriggerSourceKind::HelmChart),
    WatchedKind::Pipelines,
    WatchedKind::Runs,
];

/// The kinds that are served; `None` before the first discovery.
type ServedKinds = Option<HashMap<WatchedKind, ApiResource>>;

fn group_and_plural_of(kind: WatchedKind) -> (&'static str, &'static str) {
    match kind {
        WatchedKind::Source(kind) => group_and_plural(kind),
        WatchedKind::Pipelines => (api::tekton::GROUP, "pipelines"),
        WatchedKind::Runs => (api::tekton::GROUP, "pipelineruns"),
    }
}

/// Starts discovery and all watches.
pub(super) fn spawn_all(
    tasks: &mut JoinSet<()>,
    context: &TriggerContext,
    reconciler: &Arc<TriggerReconciler>,
) {
    let (served_kinds, receiver) = watch::channel(None);
    let rediscover = Arc::new(Notify::new());
    let client = context.client.clone();
    tasks.spawn(discover(client, served_kinds, rediscover.clone()));
    for kind in WATCHED_KINDS {
        let watch = KindWatch {
            kind,
            client: context.client.clone(),
            namespace: context.settings.namespace.clone(),
            cache: reconciler.dependencies.clone(),
            rediscover: rediscover.clone(),
        };
        tasks.spawn(watch.run(receiver.clone()));
    }
    tasks.spawn(follow_triggers(context.clone(), reconciler.clone()));
}

/// Enqueues each trigger, and then each that changes.
async fn follow_triggers(context: TriggerContext, reconciler: Arc<TriggerReconciler>) {
    let workers = reconciler.workers.clone();
    let _subscription = context.triggers.subscribe(NAME, move |event| match event {
        CacheEvent::Applied { key, .. } | CacheEvent::Deleted { key, .. } => {
            workers.enqueue(key.clone());
        }
    });
    for key in context.triggers.keys() {
        reconciler.workers.enqueue(key);
    }
    std::future::pending().await
}

/// Discovers which kinds are served: regularly, and soon after a watch failed.
async fn discover(client: Client, sender: watch::Sender<ServedKinds>, rediscover: Arc<Notify>) {
    loop {
        match served_kinds(&client).await {
            Ok(kinds) => {
                sender.send_if_modified(|before| {
                    let is_changed = before.as_ref() != Some(&kinds);
                    *before = Some(kinds);
                    is_changed
                });
            }
            Err(error) => tracing::warn!(%error, "could not discover which kinds are served"),
        }
        let _ = tokio::time::timeout(DISCOVERY_INTERVAL, rediscover.notified()).await;
        tokio::time::sleep(DISCOVERY_PAUSE).await;
    }
}

/// The newest served version of each watched kind.
async fn served_kinds(client: &Client) -> Result<HashMap<WatchedKind, ApiResource>, kube::Error> {
    let mut kinds = HashMap::new();
    let groups = client.list_api_groups().await?.groups;
    for group in groups {
        let is_in_group = |kind: &&WatchedKind| group_and_plural_of(**kind).0 == group.name;
        if !WATCHED_KINDS.iter().any(|kind| is_in_group(&kind)) {
            continue;
        }
        // The server lists versions in order of preference, so the first that has a kind wins.
        for version in &group.versions {
            let version = &version.group_version;
            let resources = client.list_api_group_resources(version).await?.resources;
            for kind in WATCHED_KINDS.iter().filter(is_in_group) {
                let plural = group_and_plural_of(*kind).1;
                let resource = resources.iter().find(|resource| resource.name == plural);
                let resource = resource.and_then(|it| api_resource(version, &it.kind, plural));
                if let Some(resource) = resource {
                    kinds.entry(*kind).or_insert(resource);
                }
            }
        }
    }
    Ok(kinds)
}

fn api_resource(group_version: &str, kind: &str, plural: &str) -> Option<ApiResource> {
    let group_version: GroupVersion = group_version.parse().ok()?;
    let kind = group_version.with_kind(kind);
    Some(ApiResource::from_gvk_with_plural(&kind, plural))
}

/// Watches one kind into the cache.
struct KindWatch {
    kind: WatchedKind,
    client: Client,
    namespace: Option<String>,
    cache: Arc<DependencyCache>,
    rediscover: Arc<Notify>,
}

impl KindWatch {
    async fn run(self, mut served_kinds: watch::Receiver<ServedKinds>) {
        loop {
            let kinds = served_kinds.borrow_and_update().clone();
            match kinds.as_ref().map(|kinds| kinds.get(&self.kind)) {
                None => {}
                Some(None) => self.set_availability(KindAvailability::NotServed),
                Some(Some(resource)) => {
                    self.watch_version(resource, &mut served_kinds).await;
                    continue;
                }
            }
            if served_kinds.changed().await.is_err() {
                return;
            }
        }
    }

    /// Returns when the kind is no longer served or served in another version.
    async fn watch_version(
        &self,
        resource: &ApiResource,
        served_kinds: &mut watch::Receiver<ServedKinds>,
    ) {
        let api: Api<DynamicObject> = match &self.namespace {
            Some(namespace) => Api::namespaced_with(self.client.clone(), namespace, resource),
            None => Api::all_with(self.client.clone(), resource),
        };
        let mut events = watcher(api, watcher::Config::default())
            .default_backoff()
            .boxed();
        let mut listed = Vec::new();
        loop {
            tokio::select! {
                event = events.next() => match event {
                    Some(Ok(event)) => self.handle(event, resource, &mut listed),
                    Some(Err(error)) => self.handle_error(&error),
                    None => return,
                },
                changed = served_kinds.changed() => {
                    let kinds = served_kinds.borrow_and_update().clone().unwrap_or_default();
                    if changed.is_err() || kinds.get(&self.kind) != Some(resource) {
                        return;
                    }
                }
            }
        }
    }

    fn handle(
        &self,
        event: Event<DynamicObject>,
        resource: &ApiResource,
        listed: &mut Vec<ObjectKey>,
    ) {
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(object) => {
                listed.push(ObjectKey::of(&object.metadata));
                self.apply(object);
            }
            Event::Apply(object) => self.apply(object),
            Event::Delete(object) => {
                let key = ObjectKey::of(&object.metadata);
                self.cache.remove(self.kind, &key);
            }
            Event::InitDone => {
                self.cache.retain(self.kind, listed);
                listed.clear();
                self.set_availability(KindAvailability::Served(resource.clone()));
            }
        }
    }

    fn set_availability(&self, availability: KindAvailability) {
        self.cache.set_availability(self.kind, availability);
    }

    /// The watcher retries by itself; a kind that may not be listed is reported on the triggers.
    fn handle_error(&self, error: &watcher::Error) {
        tracing::warn!(kind = ?self.kind, %error, "the watch was interrupted");
        if let watcher::Error::InitialListFailed(kube::Error::Api(status)) = error
            && status.is_forbidden()
        {
            self.set_availability(KindAvailability::Forbidden(status.message.clone()));
        }
        self.rediscover.notify_one();
    }

    fn apply(&self, mut object: DynamicObject) {
        let key = ObjectKey::of(&object.metadata);
        object.metadata.managed_fields = None;
        if let Ok(value) = serde_json::to_value(&object) {
            self.cache.apply(self.kind, &key, &value);
        }
    }
}

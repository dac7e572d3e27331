//! Following the kinds that are served, in whichever version, for as long as they are.
//!
//! One task finds out what is served; one task per kind watches it. A kind that is not installed
//! is waited for, one that is removed is forgotten, one that changes its version is watched anew.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use ::trigger::plan::group_and_plural;
use api::{PipelineTrigger, trigger::TriggerSourceKind};
use futures::StreamExt;
use kube::{
    Api, Client, Resource,
    core::{ApiResource, DeserializeGuard, DynamicObject, GroupVersion},
    runtime::{
        WatchStreamExt,
        watcher::{self, Event, watcher},
    },
};
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
};

use super::{
    Shared,
    world::{Served, Watched, World},
};
use runtime::ObjectKey;

/// How often kinds that are not installed are looked for.
const DISCOVER_EVERY: Duration = Duration::from_secs(10);

const WATCHED: [Watched; 8] = [
    Watched::Source(TriggerSourceKind::GitRepository),
    Watched::Source(TriggerSourceKind::ImagePolicy),
    Watched::Source(TriggerSourceKind::PullRequest),
    Watched::Source(TriggerSourceKind::OCIRepository),
    Watched::Source(TriggerSourceKind::Bucket),
    Watched::Source(TriggerSourceKind::HelmChart),
    Watched::Pipelines,
    Watched::Runs,
];

type ServedKinds = HashMap<Watched, ApiResource>;

/// Where a kind is found: group and plural name.
fn place(watched: Watched) -> (&'static str, &'static str) {
    match watched {
        Watched::Source(kind) => group_and_plural(kind),
        Watched::Pipelines => (api::tekton::GROUP, "pipelines"),
        Watched::Runs => (api::tekton::GROUP, "pipelineruns"),
    }
}

/// Starts the tasks.
pub(super) fn spawn_all(tasks: &mut JoinSet<()>, shared: &Arc<Shared>) {
    let (tell, told) = watch::channel(None);
    let doubt = Arc::new(Notify::new());
    tasks.spawn(discover(shared.client.clone(), tell, doubt.clone()));
    for watched in WATCHED {
        let follower = Follower {
            watched,
            client: shared.client.clone(),
            namespace: shared.settings.namespace.clone(),
            world: shared.world.clone(),
            doubt: doubt.clone(),
        };
        tasks.spawn(follower.follow(told.clone()));
    }
    tasks.spawn(follow_triggers(shared.clone()));
}

/// Follows the triggers that this process looks after.
async fn follow_triggers(shared: Arc<Shared>) {
    let api: Api<DeserializeGuard<PipelineTrigger>> = match &shared.settings.namespace {
        Some(namespace) => Api::namespaced(shared.client.clone(), namespace),
        None => Api::all(shared.client.clone()),
    };
    let mut config = watcher::Config::default();
    if let Some(labels) = &shared.settings.label_selector {
        config = config.labels(labels);
    }
    let mut events = watcher(api, config).default_backoff().boxed();
    let mut listed = HashSet::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(trigger)) => drop(take(&shared, trigger)),
            Ok(Event::Delete(trigger)) => shared.forget(&ObjectKey::of(trigger.meta())),
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(trigger)) => drop(listed.insert(take(&shared, trigger))),
            Ok(Event::InitDone) => shared.retain(&listed),
            Err(error) => tracing::warn!(%error, "watch on triggers interrupted"),
        }
    }
}

fn take(shared: &Shared, trigger: DeserializeGuard<PipelineTrigger>) -> ObjectKey {
    let key = ObjectKey::of(trigger.meta());
    match trigger.0 {
        Ok(trigger) => shared.note(trigger),
        Err(error) => tracing::warn!(trigger = %key, %error, "cannot be read"),
    }
    key
}

/// Keeps finding out what is served: regularly, and at once when somebody doubts it.
async fn discover(client: Client, tell: watch::Sender<Option<ServedKinds>>, doubt: Arc<Notify>) {
    loop {
        match served(&client).await {
            Ok(kinds) => {
                tell.send_if_modified(|known| {
                    let is_news = known.as_ref() != Some(&kinds);
                    if is_news {
                        *known = Some(kinds);
                    }
                    is_news
                });
            }
            Err(error) => tracing::warn!(%error, "cannot find out which kinds are served"),
        }
        let _ = tokio::time::timeout(DISCOVER_EVERY, doubt.notified()).await;
        // Doubt comes in bursts when a server goes away.
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

/// The newest served version of each kind that is watched.
async fn served(client: &Client) -> Result<ServedKinds, kube::Error> {
    let mut kinds = ServedKinds::new();
    let groups = client.list_api_groups().await?.groups;
    for group in groups {
        let is_ours = |watched: &&Watched| place(**watched).0 == group.name;
        if !WATCHED.iter().any(|watched| is_ours(&watched)) {
            continue;
        }
        // Listed by the server in order of preference, so the first that has a kind wins.
        for version in &group.versions {
            let listed = client
                .list_api_group_resources(&version.group_version)
                .await?;
            for watched in WATCHED.iter().filter(is_ours) {
                let resource = listed
                    .resources
                    .iter()
                    .find(|r| r.name == place(*watched).1);
                let Some(resource) = resource else { continue };
                let found = api_resource(&version.group_version, &resource.kind, &resource.name);
                if let Some(found) = found {
                    kinds.entry(*watched).or_insert(found);
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

/// Watches one kind.
struct Follower {
    watched: Watched,
    client: Client,
    namespace: Option<String>,
    world: Arc<World>,
    doubt: Arc<Notify>,
}

impl Follower {
    async fn follow(self, mut told: watch::Receiver<Option<ServedKinds>>) {
        loop {
            let kinds = told.borrow_and_update().clone();
            let resource = kinds.as_ref().map(|kinds| kinds.get(&self.watched));
            match resource {
                None => {}
                Some(None) => self.world.note_served(self.watched, Served::No),
                Some(Some(resource)) => {
                    self.follow_version(resource, &mut told).await;
                    continue;
                }
            }
            if told.changed().await.is_err() {
                return;
            }
        }
    }

    /// Returns when the kind is gone or served in another version.
    async fn follow_version(
        &self,
        resource: &ApiResource,
        told: &mut watch::Receiver<Option<ServedKinds>>,
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
                    Some(Ok(event)) => self.take(event, resource, &mut listed),
                    Some(Err(error)) => self.note_interruption(&error),
                    None => return,
                },
                changed = told.changed() => {
                    let kinds = told.borrow_and_update().clone().unwrap_or_default();
                    if changed.is_err() || kinds.get(&self.watched) != Some(resource) {
                        return;
                    }
                }
            }
        }
    }

    fn take(
        &self,
        event: Event<DynamicObject>,
        resource: &ApiResource,
        listed: &mut Vec<ObjectKey>,
    ) {
        match event {
            Event::Init => listed.clear(),
            Event::InitApply(object) => {
                listed.push(ObjectKey::of(&object.metadata));
                self.note(object);
            }
            Event::Apply(object) => self.note(object),
            Event::Delete(object) => {
                self.world
                    .forget(self.watched, &ObjectKey::of(&object.metadata));
            }
            Event::InitDone => {
                self.world.replace(self.watched, listed);
                listed.clear();
                let served = Served::Yes(resource.clone());
                self.world.note_served(self.watched, served);
            }
        }
    }

    /// Nothing is known about a kind that may not be listed; after a list, the watch is tried again.
    fn note_interruption(&self, error: &watcher::Error) {
        tracing::warn!(kind = ?self.watched, %error, "watch interrupted");
        if let watcher::Error::InitialListFailed(kube::Error::Api(status)) = error
            && status.is_forbidden()
        {
            let because = Served::Forbidden(status.message.clone());
            self.world.note_served(self.watched, because);
        }
        self.doubt.notify_one();
    }

    fn note(&self, mut object: DynamicObject) {
        let key = ObjectKey::of(&object.metadata);
        object.metadata.managed_fields = None;
        if let Ok(value) = serde_json::to_value(&object) {
            self.world.note(self.watched, &key, &value);
        }
    }
}

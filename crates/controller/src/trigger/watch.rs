//! Following the kinds that are served, in whichever version, for as long as they are.
//!
//! One task finds out what is served; one task per kind watches it. A kind that is not installed
//! is waited for, one that is removed is forgotten, one that changes its version is watched anew.

use std::{collections::HashMap, sync::Arc, time::Duration};

use api::trigger::TriggerSourceKind;
use futures::StreamExt;
use kube::{
    Api, Client,
    core::{ApiResource, DynamicObject, GroupVersion},
    runtime::{WatchStreamExt, watcher},
};
use planner::trigger::group_and_plural;
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
};

use super::{
    Settings,
    world::{Key, Served, Watched, World},
};

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
pub(super) fn spawn_all(
    tasks: &mut JoinSet<()>,
    client: &Client,
    settings: &Settings,
    world: &Arc<World>,
) {
    let (tell, told) = watch::channel(None);
    let doubt = Arc::new(Notify::new());
    let interval = settings.discovery_interval;
    tasks.spawn(discover(client.clone(), tell, doubt.clone(), interval));
    for watched in WATCHED {
        let follower = Follower {
            watched,
            client: client.clone(),
            namespace: settings.namespace.clone(),
            world: world.clone(),
            doubt: doubt.clone(),
        };
        tasks.spawn(follower.follow(told.clone()));
    }
}

/// Keeps finding out what is served: regularly, and at once when somebody doubts it.
async fn discover(
    client: Client,
    tell: watch::Sender<Option<ServedKinds>>,
    doubt: Arc<Notify>,
    interval: Duration,
) {
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
        let _ = tokio::time::timeout(interval, doubt.notified()).await;
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
                    Some(Err(_)) => self.doubt.notify_one(),
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
        event: watcher::Event<DynamicObject>,
        resource: &ApiResource,
        listed: &mut Vec<Key>,
    ) {
        match event {
            watcher::Event::Init => listed.clear(),
            watcher::Event::InitApply(object) => {
                listed.push(Key::of_dynamic(&object));
                self.note(object);
            }
            watcher::Event::Apply(object) => self.note(object),
            watcher::Event::Delete(object) => {
                self.world.forget(self.watched, &Key::of_dynamic(&object));
            }
            watcher::Event::InitDone => {
                self.world.replace(self.watched, listed);
                listed.clear();
                let served = Served::Yes(resource.clone());
                self.world.note_served(self.watched, served);
            }
        }
    }

    fn note(&self, mut object: DynamicObject) {
        let key = Key::of_dynamic(&object);
        object.metadata.managed_fields = None;
        if let Ok(value) = serde_json::to_value(&object) {
            self.world.note(self.watched, &key, &value);
        }
    }
}

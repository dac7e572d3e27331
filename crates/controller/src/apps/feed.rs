//! Follows one kind of app on one cluster and keeps its records.
//!
//! One watch for all namespaces where that is allowed, else one per namespace that is needed. The
//! served version of the kind is found out here. Nothing is ever written to the cluster.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use api::{
    flagger::Canary,
    flux::{
        KUSTOMIZATION_NAME_LABEL, KUSTOMIZATION_NAMESPACE_LABEL, KUSTOMIZE_GROUP, ObjectReference,
        RELEASE_NAME_LABEL, RELEASE_NAMESPACE_LABEL, SOURCE_GROUP,
    },
};
use futures::{Stream, StreamExt, TryStreamExt};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
    core::Status,
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};
use tokio::{sync::watch, task::JoinSet};

use super::{FeedState, Record, Workload, images};
use crate::{
    Shared,
    index::Namespaces,
    keys::{AppKind, ClusterKey},
};

/// How long until a missing kind or a refused read is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(30);
/// The same for Flagger, which most clusters do not have and seldom get.
const LOOK_FOR_FLAGGER: Duration = Duration::from_secs(120);
/// How long a feed may take until it is complete before it is given up and started anew.
const SYNC_WITHIN: Duration = Duration::from_secs(60);
/// How many objects are read at a time where a server cannot stream its lists.
const PAGE: u32 = 100;

/// One feed.
pub(crate) struct Feed {
    pub(crate) shared: Arc<Shared>,
    pub(crate) cluster: ClusterKey,
    pub(crate) kind: AppKind,
    pub(crate) client: Client,
}

/// Why a watch ended.
enum End {
    Forbidden(String),
    /// The kind is not served (any more).
    KindGone,
    /// The server cannot stream lists.
    NoStreaming,
    Failed(String),
}

impl Feed {
    /// Follows until dropped. `namespaces` are those that some pipeline needs.
    pub(crate) async fn run(self, mut namespaces: watch::Receiver<Namespaces>) {
        let mut streams = true;
        let look_again = match self.is_of_canaries() {
            true => LOOK_FOR_FLAGGER,
            false => LOOK_AGAIN,
        };
        loop {
            let Some(resource) = self.served().await else {
                tokio::time::sleep(look_again).await;
                continue;
            };
            match self.follow(&resource, "", streams).await {
                End::NoStreaming => streams = false,
                End::KindGone => tokio::time::sleep(Duration::from_secs(1)).await,
                End::Failed(because) => self.pause(&because, "").await,
                End::Forbidden(_) => {
                    self.follow_each(&resource, &mut namespaces, streams).await;
                }
            }
        }
    }

    /// How the cluster serves the kind; says so if it does not.
    async fn served(&self) -> Option<ApiResource> {
        let found = tokio::time::timeout(
            crate::clusters::CALL_TIMEOUT,
            discover(&self.client, &self.kind),
        )
        .await;
        let state = match found {
            Ok(Ok(Some(resource))) => return Some(resource),
            Ok(Ok(None)) => FeedState::KindMissing,
            Ok(Err(error)) => FeedState::Failing(crate::clusters::told(&error)),
            Err(_) => FeedState::Failing("it does not answer".to_owned()),
        };
        self.set_state("", state);
        None
    }

    /// Where not everything may be read: each namespace that is needed, on its own.
    async fn follow_each(
        &self,
        resource: &ApiResource,
        namespaces: &mut watch::Receiver<Namespaces>,
        streams: bool,
    ) {
        let needed = namespaces.borrow_and_update().clone();
        let mut watches = JoinSet::new();
        for namespace in needed.iter() {
            let (feed, resource) = (self.another(), resource.clone());
            let namespace = namespace.clone();
            watches.spawn(async move {
                loop {
                    match feed.follow(&resource, &namespace, streams).await {
                        End::Forbidden(because) => {
                            feed.set_state(&namespace, FeedState::Forbidden(because));
                            tokio::time::sleep(LOOK_AGAIN).await;
                        }
                        End::Failed(because) => feed.pause(&because, &namespace).await,
                        End::NoStreaming | End::KindGone => return,
                    }
                }
            });
        }
        tokio::select! {
            _ = namespaces.changed() => {}
            _ = watches.join_next(), if !watches.is_empty() => {}
        }
    }

    fn another(&self) -> Self {
        Self {
            shared: self.shared.clone(),
            cluster: self.cluster.clone(),
            kind: self.kind.clone(),
            client: self.client.clone(),
        }
    }

    async fn pause(&self, because: &str, scope: &str) {
        self.set_state(scope, FeedState::Failing(because.to_owned()));
        tokio::time::sleep(self.shared.jittered(Duration::from_secs(5))).await;
    }

    /// Follows all namespaces (`scope` empty) or one, until it cannot.
    async fn follow(&self, resource: &ApiResource, scope: &str, streams: bool) -> End {
        let api: Api<DynamicObject> = match scope {
            "" => Api::all_with(self.client.clone(), resource),
            namespace => Api::namespaced_with(self.client.clone(), namespace, resource),
        };
        let mut config = watcher::Config::default().page_size(PAGE);
        if streams {
            config = config.streaming_lists();
        }
        if let Some(label) = self.kind.label {
            config = config.labels(label);
        }
        let events = watcher::watcher(api, config).default_backoff();
        let mut events = std::pin::pin!(events);
        match tokio::time::timeout(SYNC_WITHIN, self.sync(scope, &mut events)).await {
            Ok(Ok(())) => {}
            Ok(Err(end)) => return end,
            Err(_) => return End::Failed("it does not send its apps".to_owned()),
        }
        self.follow_changes(scope, &mut events).await
    }

    /// Reads until the first complete state.
    async fn sync(
        &self,
        scope: &str,
        events: &mut (impl Stream<Item = watcher::Result<Event<DynamicObject>>> + Unpin),
    ) -> Result<(), End> {
        let mut seen = BTreeSet::new();
        while let Some(event) = events.try_next().await.map_err(|error| end_of(&error))? {
            match event {
                Event::Init => seen.clear(),
                Event::InitApply(app) | Event::Apply(app) => {
                    seen.insert(self.record(&app).0);
                }
                Event::Delete(app) => self.forget(&app),
                Event::InitDone => {
                    self.complete(scope, &seen).await;
                    return Ok(());
                }
            }
        }
        Err(End::Failed("its watch ended".to_owned()))
    }

    async fn follow_changes(
        &self,
        scope: &str,
        events: &mut (impl Stream<Item = watcher::Result<Event<DynamicObject>>> + Unpin),
    ) -> End {
        let mut seen = BTreeSet::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Apply(app)) => self.apply(&app),
                Ok(Event::Delete(app)) => self.forget(&app),
                Ok(Event::Init) => seen.clear(),
                Ok(Event::InitApply(app)) => {
                    self.apply(&app);
                    seen.insert(place(&app));
                }
                Ok(Event::InitDone) => self.complete(scope, &seen).await,
                Err(error) => match end_of(&error) {
                    // The watcher starts over by itself; what was seen still holds for now.
                    End::Failed(because) => {
                        tracing::debug!(cluster = %self.cluster, kind = %self.kind, because, "watch interrupted");
                    }
                    end => return end,
                },
            }
        }
        End::Failed("its watch ended".to_owned())
    }

    /// The state is complete: what was not in it is gone.
    async fn complete(&self, scope: &str, seen: &BTreeSet<(String, String)>) {
        let apps = &self.shared.apps;
        apps.retain(&self.cluster, &self.kind, scope, seen);
        images::fill(self, scope).await;
        self.set_state(scope, FeedState::Synced);
        // Everything on this cluster may look different now.
        self.shared.wake_cluster(&self.cluster);
    }

    fn apply(&self, app: &DynamicObject) {
        if let ((namespace, name), true) = self.record(app) {
            self.wake(app, &namespace, &name);
        }
    }

    /// Wakes the pipelines that look at an app, or at the app that a Canary is about.
    fn wake(&self, app: &DynamicObject, namespace: &str, name: &str) {
        if self.is_of_canaries() {
            let canary = Canary::read(app);
            let workload = Workload::target_of(&canary, namespace);
            return self.shared.wake_canary(&self.cluster, &workload);
        }
        self.shared
            .wake_app(&self.cluster, &self.kind, namespace, name);
    }

    fn is_of_canaries(&self) -> bool {
        self.kind == AppKind::canary()
    }

    fn record(&self, app: &DynamicObject) -> ((String, String), bool) {
        let (namespace, name) = place(app);
        let record = match self.is_of_canaries() {
            true => Record {
                canary: Some(Box::new(Canary::read(app))),
                ..Record::default()
            },
            false => self.record_of_app(app),
        };
        let place = (namespace.as_str(), name.as_str());
        let source = record.source.clone();
        let is_news = self
            .shared
            .apps
            .put(&self.cluster, &self.kind, place, record);
        if is_news {
            self.renew_sources(place, source.as_ref());
        }
        ((namespace, name), is_news)
    }

    fn record_of_app(&self, app: &DynamicObject) -> Record {
        let kind = api::app::AppType::of(&format!("{}/", self.kind.group), &self.kind.kind);
        let is_workload = matches!(kind, api::app::AppType::Workload(_));
        let labels = app.metadata.labels.as_ref();
        let label = |key| labels.and_then(|labels| labels.get(key)).cloned();
        let release = label(RELEASE_NAMESPACE_LABEL).zip(label(RELEASE_NAME_LABEL));
        Record {
            api_version: app
                .types
                .as_ref()
                .map(|types| types.api_version.clone())
                .unwrap_or_default(),
            reading: api::app::read_as(kind, app, None),
            pipeline: label(api::names::PIPELINE_LABEL)
                .or_else(|| label(api::names::PIPELINE_LABEL_WEGO)),
            images: is_workload.then(|| images::of_workload(app)),
            release: release.filter(|_| is_workload).map(Box::new),
            source: api::app::source_of(kind, app),
            applier: label(KUSTOMIZATION_NAMESPACE_LABEL).zip(label(KUSTOMIZATION_NAME_LABEL)),
            workloads: None,
            canary: None,
        }
    }

    /// What is remembered about an object that changed, and about the source it follows, may be out
    /// of date.
    fn renew_sources(&self, place: (&str, &str), source: Option<&ObjectReference>) {
        let sources = &self.shared.sources;
        if [KUSTOMIZE_GROUP, SOURCE_GROUP].contains(&self.kind.group.as_str()) {
            sources.forget(&self.cluster, &self.kind, place);
        }
        if let Some(source) = source {
            sources.forget_source_of(&self.cluster, place.0, source);
        }
    }

    fn forget(&self, app: &DynamicObject) {
        let (namespace, name) = place(app);
        if self
            .shared
            .apps
            .remove(&self.cluster, &self.kind, &namespace, &name)
        {
            self.renew_sources((&namespace, &name), None);
            self.wake(app, &namespace, &name);
        }
    }

    fn set_state(&self, scope: &str, state: FeedState) {
        if self
            .shared
            .apps
            .set_state(&self.cluster, &self.kind, scope, state.clone())
        {
            tracing::info!(cluster = %self.cluster, kind = %self.kind, namespace = scope, ?state, "feed");
            self.shared.wake_cluster(&self.cluster);
        }
    }
}

/// How a cluster serves a kind, in whichever version it prefers.
pub(super) async fn discover(
    client: &Client,
    kind: &AppKind,
) -> Result<Option<ApiResource>, kube::Error> {
    let group = match kube::discovery::group(client, &kind.group).await {
        Ok(group) => group,
        Err(kube::Error::Discovery(_)) => return Ok(None),
        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(None),
        Err(error) => return Err(error),
    };
    let found = group.recommended_kind(&kind.kind).or_else(|| {
        group.versions().find_map(|version| {
            let kinds = group.versioned_resources(version);
            kinds
                .into_iter()
                .find(|(resource, _)| resource.kind == kind.kind)
        })
    });
    Ok(found.map(|(resource, _)| resource))
}

fn place(app: &DynamicObject) -> (String, String) {
    let metadata = &app.metadata;
    (
        metadata.namespace.clone().unwrap_or_default(),
        metadata.name.clone().unwrap_or_default(),
    )
}

fn end_of(error: &watcher::Error) -> End {
    let status = match error {
        watcher::Error::WatchError(status) => Some(&**status),
        watcher::Error::InitialListFailed(kube::Error::Api(status))
        | watcher::Error::WatchStartFailed(kube::Error::Api(status))
        | watcher::Error::WatchFailed(kube::Error::Api(status)) => Some(&**status),
        _ => None,
    };
    match status {
        Some(Status {
            code: 403, message, ..
        }) => End::Forbidden(message.clone()),
        Some(Status {
            code: 404 | 405, ..
        }) => End::KindGone,
        Some(status) if cannot_stream(status) => End::NoStreaming,
        _ => End::Failed(why(error)),
    }
}

fn why(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => crate::clusters::told(error),
        error => error.to_string(),
    }
}

/// Servers before streaming lists refuse the option, each in its own words.
fn cannot_stream(status: &Status) -> bool {
    matches!(status.code, 400 | 422) && status.message.contains("sendInitialEvents")
        || status.code == 422 && status.message.contains("resourceVersionMatch")
}

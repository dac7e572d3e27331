//! Watches one kind of app on one cluster and stores its records in the cache.
//!
//! One watch of all namespaces where RBAC allows that, else one per namespace that is needed. The served
//! version of the kind is discovered. Nothing is ever written to the cluster.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use api::{
    app::{AppType, applied_apps},
    flagger::Canary,
    flux::{
        ArtifactSignature, KUSTOMIZATION_NAME_LABEL, KUSTOMIZATION_NAMESPACE_LABEL,
        KUSTOMIZE_GROUP, ObjectReference, RELEASE_NAME_LABEL, RELEASE_NAMESPACE_LABEL,
        SOURCE_GROUP,
    },
};
use futures::{Stream, StreamExt, TryStreamExt};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject},
    runtime::{
        WatchStreamExt,
        watcher::{self, Event},
    },
};
use tokio::{sync::watch, task::JoinSet};

use super::{
    AppRecord, WatchState, Workload, images,
    watch_end::{WatchEnd, end_of},
};
use crate::{
    PipelineReconciler,
    index::RequiredNamespaces,
    keys::{AppKind, ClusterKey},
};

/// When a missing kind or a forbidden watch is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(30);
/// The same for Flagger, which most clusters do not have.
const RETRY_FLAGGER_AFTER: Duration = Duration::from_secs(120);
/// How long the initial list may take before the watch is restarted.
const SYNC_TIMEOUT: Duration = Duration::from_secs(60);
/// The page size of lists where a server does not support streaming lists.
const PAGE_SIZE: u32 = 100;

/// The watch of one kind on one cluster.
pub(crate) struct AppWatch {
    pub(crate) shared: Arc<PipelineReconciler>,
    pub(crate) cluster: ClusterKey,
    pub(crate) kind: AppKind,
    pub(crate) client: Client,
}

impl AppWatch {
    /// Watches until dropped. `namespaces` are those that some pipeline needs.
    pub(crate) async fn run(self, mut namespaces: watch::Receiver<RequiredNamespaces>) {
        let mut streams = true;
        let retry_after = match self.is_of_canaries() {
            true => RETRY_FLAGGER_AFTER,
            false => RETRY_AFTER,
        };
        loop {
            let Some(resource) = self.served().await else {
                tokio::time::sleep(retry_after).await;
                continue;
            };
            match self.watch(&resource, "", streams).await {
                WatchEnd::NoStreaming => streams = false,
                WatchEnd::KindGone => tokio::time::sleep(Duration::from_secs(1)).await,
                WatchEnd::Failed(because) => self.pause(&because, "").await,
                WatchEnd::Forbidden(_) => {
                    self.watch_each_namespace(&resource, &mut namespaces, streams)
                        .await;
                }
            }
        }
    }

    /// How the cluster serves the kind; sets the state if it does not.
    async fn served(&self) -> Option<ApiResource> {
        let found = tokio::time::timeout(
            crate::clusters::CALL_TIMEOUT,
            discover(&self.client, &self.kind),
        )
        .await;
        let state = match found {
            Ok(Ok(Some(resource))) => return Some(resource),
            Ok(Ok(None)) => WatchState::KindMissing,
            Ok(Err(error)) => WatchState::Failing(crate::clusters::describe(&error)),
            Err(_) => WatchState::Failing("it does not answer".to_owned()),
        };
        self.set_state("", state);
        None
    }

    /// Watches each namespace that is needed on its own, because watching all is forbidden.
    async fn watch_each_namespace(
        &self,
        resource: &ApiResource,
        namespaces: &mut watch::Receiver<RequiredNamespaces>,
        streams: bool,
    ) {
        let needed = namespaces.borrow_and_update().clone();
        let mut watches = JoinSet::new();
        for namespace in needed.iter() {
            let (watch, resource) = (self.another(), resource.clone());
            let namespace = namespace.clone();
            watches.spawn(async move {
                loop {
                    match watch.watch(&resource, &namespace, streams).await {
                        WatchEnd::Forbidden(because) => {
                            watch.set_state(&namespace, WatchState::Forbidden(because));
                            tokio::time::sleep(RETRY_AFTER).await;
                        }
                        WatchEnd::Failed(because) => watch.pause(&because, &namespace).await,
                        WatchEnd::NoStreaming | WatchEnd::KindGone => return,
                    }
                }
            });
        }
        tokio::select! {
            biased;
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
        self.set_state(scope, WatchState::Failing(because.to_owned()));
        tokio::time::sleep(self.shared.jittered(Duration::from_secs(5))).await;
    }

    /// Watches all namespaces (empty `scope`) or one, until that fails.
    async fn watch(&self, resource: &ApiResource, scope: &str, streams: bool) -> WatchEnd {
        let api: Api<DynamicObject> = match scope {
            "" => Api::all_with(self.client.clone(), resource),
            namespace => Api::namespaced_with(self.client.clone(), namespace, resource),
        };
        let mut config = watcher::Config::default().page_size(PAGE_SIZE);
        if streams {
            config = config.streaming_lists();
        }
        if let Some(label) = self.kind.label {
            config = config.labels(label);
        }
        let events = watcher::watcher(api, config).default_backoff();
        let mut events = std::pin::pin!(events);
        match tokio::time::timeout(SYNC_TIMEOUT, self.sync(scope, &mut events)).await {
            Ok(Ok(())) => {}
            Ok(Err(end)) => return end,
            Err(_) => return WatchEnd::Failed("it does not send its apps".to_owned()),
        }
        self.apply_changes(scope, &mut events).await
    }

    /// Reads the initial list.
    async fn sync(
        &self,
        scope: &str,
        events: &mut (impl Stream<Item = watcher::Result<Event<DynamicObject>>> + Unpin),
    ) -> Result<(), WatchEnd> {
        let mut listed = BTreeSet::new();
        while let Some(event) = events.try_next().await.map_err(|error| end_of(&error))? {
            match event {
                Event::Init => listed.clear(),
                Event::InitApply(app) | Event::Apply(app) => {
                    listed.insert(self.record(&app).0);
                }
                Event::Delete(app) => self.remove(&app),
                Event::InitDone => {
                    self.complete(scope, &listed).await;
                    return Ok(());
                }
            }
        }
        Err(WatchEnd::Failed("its watch ended".to_owned()))
    }

    async fn apply_changes(
        &self,
        scope: &str,
        events: &mut (impl Stream<Item = watcher::Result<Event<DynamicObject>>> + Unpin),
    ) -> WatchEnd {
        let mut listed = BTreeSet::new();
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Apply(app)) => self.apply(&app),
                Ok(Event::Delete(app)) => self.remove(&app),
                Ok(Event::Init) => listed.clear(),
                Ok(Event::InitApply(app)) => {
                    self.apply(&app);
                    listed.insert(namespace_and_name(&app));
                }
                Ok(Event::InitDone) => self.complete(scope, &listed).await,
                Err(error) => match end_of(&error) {
                    // The watcher restarts by itself; the cached records stay until then.
                    WatchEnd::Failed(because) => {
                        tracing::debug!(cluster = %self.cluster, kind = %self.kind, because, "watch interrupted");
                    }
                    end => return end,
                },
            }
        }
        WatchEnd::Failed("its watch ended".to_owned())
    }

    /// The list is complete: apps that are not in it were deleted.
    async fn complete(&self, scope: &str, listed: &BTreeSet<(String, String)>) {
        let apps = &self.shared.apps;
        apps.retain(&self.cluster, &self.kind, scope, listed);
        images::fill(self, scope).await;
        self.set_state(scope, WatchState::Synced);
        self.shared.enqueue_cluster(&self.cluster);
    }

    fn apply(&self, app: &DynamicObject) {
        if let ((namespace, name), true) = self.record(app) {
            self.enqueue_pipelines(app, &namespace, &name);
        }
    }

    /// Enqueues the pipelines of an app, or of the app of a Canary.
    fn enqueue_pipelines(&self, app: &DynamicObject, namespace: &str, name: &str) {
        if self.is_of_canaries() {
            let canary = Canary::read(app);
            let workload = Workload::target_of(&canary, namespace);
            return self.shared.enqueue_canary(&self.cluster, &workload);
        }
        self.shared
            .enqueue_app(&self.cluster, &self.kind, namespace, name);
    }

    fn is_of_canaries(&self) -> bool {
        self.kind == AppKind::canary()
    }

    /// Stores the record of an app; returns its namespace and name, and whether the record changed.
    fn record(&self, app: &DynamicObject) -> ((String, String), bool) {
        let (namespace, name) = namespace_and_name(app);
        let record = match self.is_of_canaries() {
            true => AppRecord {
                canary: Some(Box::new(Canary::read(app))),
                ..AppRecord::default()
            },
            false => self.record_of_app(app),
        };
        let key = (namespace.as_str(), name.as_str());
        let source = record.source.clone();
        let apps = &self.shared.apps;
        let has_changed = apps.put(&self.cluster, &self.kind, key, record);
        if has_changed {
            self.invalidate_sources(key, source.as_ref());
        }
        ((namespace, name), has_changed)
    }

    fn record_of_app(&self, app: &DynamicObject) -> AppRecord {
        let kind = AppType::of(&format!("{}/", self.kind.group), &self.kind.kind);
        let is_workload = matches!(kind, AppType::Workload(_));
        let labels = app.metadata.labels.as_ref();
        let label = |key| labels.and_then(|labels| labels.get(key)).cloned();
        let release = label(RELEASE_NAMESPACE_LABEL).zip(label(RELEASE_NAME_LABEL));
        let applier = label(KUSTOMIZATION_NAMESPACE_LABEL).zip(label(KUSTOMIZATION_NAME_LABEL));
        AppRecord {
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
            signature: match self.kind.group == SOURCE_GROUP {
                true => ArtifactSignature::of(app).map(Box::new),
                false => None,
            },
            applied: match kind {
                AppType::ResourceSet => applied_apps(app).into(),
                _ => Box::default(),
            },
            generation: app.metadata.generation.filter(|_| !self.kind.is_app()),
            source: api::app::source_of(kind, app),
            applier: applier.map(Box::new),
            ..AppRecord::default()
        }
    }

    /// Removes an object that changed, and the source of an app that changed, from the cache of sources.
    fn invalidate_sources(&self, key: (&str, &str), source: Option<&ObjectReference>) {
        let sources = &self.shared.sources;
        if [KUSTOMIZE_GROUP, SOURCE_GROUP].contains(&self.kind.group.as_str()) {
            sources.invalidate(&self.cluster, &self.kind, key);
        }
        if let Some(source) = source {
            sources.invalidate_source_of(&self.cluster, key.0, source);
        }
    }

    fn remove(&self, app: &DynamicObject) {
        let (namespace, name) = namespace_and_name(app);
        if self
            .shared
            .apps
            .remove(&self.cluster, &self.kind, &namespace, &name)
        {
            self.invalidate_sources((&namespace, &name), None);
            self.enqueue_pipelines(app, &namespace, &name);
        }
    }

    fn set_state(&self, scope: &str, state: WatchState) {
        if self
            .shared
            .apps
            .set_state(&self.cluster, &self.kind, scope, state.clone())
        {
            tracing::info!(cluster = %self.cluster, kind = %self.kind, namespace = scope, ?state, "the state of a watch changed");
            self.shared.enqueue_cluster(&self.cluster);
        }
    }
}

/// How a cluster serves a kind, in the version that it prefers.
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

fn namespace_and_name(app: &DynamicObject) -> (String, String) {
    let metadata = &app.metadata;
    (
        metadata.namespace.clone().unwrap_or_default(),
        metadata.name.clone().unwrap_or_default(),
    )
}

//! Cache of the apps on all clusters, as far as pipelines need them: one slim record per app.
//!
//! Filled by the watches on the clusters, read by the pipeline reconciler. It holds no whole objects, so
//! that memory does not grow with what people put into them, and sends no requests.

pub(crate) mod app_watch;
mod canaries;
pub(crate) mod images;
mod record;
pub(crate) mod sources;
mod watch_end;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use api::app::AppReading;
use parking_lot::RwLock;

pub(crate) use canaries::{Workload, Workloads};
pub(crate) use images::WantedWorkloads;
pub(crate) use record::AppRecord;

use crate::keys::{AppKind, ClusterKey};
use record::is_same_state;

/// The state of a watch.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) enum WatchState {
    /// The initial list is not complete yet.
    #[default]
    Starting,
    /// It is complete and receives changes.
    Synced,
    /// The cluster has no such kind.
    KindMissing,
    /// RBAC does not allow it.
    Forbidden(String),
    /// The cluster does not answer, or with errors.
    Failing(String),
}

/// The answer to a lookup of apps in one namespace.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum AppLookup {
    /// The watch is not synced.
    Unknown(WatchState),
    /// The apps that match.
    Found(Vec<(String, Arc<AppRecord>)>),
}

/// The apps of all clusters.
#[derive(Default)]
pub(crate) struct AppCache {
    clusters: RwLock<HashMap<ClusterKey, ClusterApps>>,
}

#[derive(Default)]
struct ClusterApps {
    /// Why the cluster cannot be reached.
    unreachable: Option<String>,
    kinds: HashMap<AppKind, KindApps>,
}

/// The records of the apps of a kind in one namespace, by name. Readers share them.
type AppRecords = HashMap<String, Arc<AppRecord>>;

#[derive(Default)]
struct KindApps {
    /// The state of the watch of each namespace; that of a watch of all under the empty name.
    states: HashMap<String, WatchState>,
    records: HashMap<String, AppRecords>,
    /// Why images are left out.
    images_note: Option<String>,
    workload_lookups: Arc<images::WorkloadLookups>,
}

impl KindApps {
    fn state(&self, namespace: &str) -> WatchState {
        let state = self.states.get("").or_else(|| self.states.get(namespace));
        state.cloned().unwrap_or_default()
    }
}

impl AppCache {
    /// Sets why a cluster cannot be reached, or that it can; returns whether that changed.
    pub(crate) fn set_reachable(&self, cluster: &ClusterKey, unreachable: Option<String>) -> bool {
        let mut clusters = self.clusters.write();
        let apps = clusters.entry(cluster.clone()).or_default();
        let has_changed = apps.unreachable != unreachable;
        apps.unreachable = unreachable;
        has_changed
    }

    /// Forgets everything about a cluster.
    pub(crate) fn forget_cluster(&self, cluster: &ClusterKey) {
        self.clusters.write().remove(cluster);
    }

    /// Forgets a kind on a cluster.
    pub(crate) fn forget_kind(&self, cluster: &ClusterKey, kind: &AppKind) {
        if let Some(apps) = self.clusters.write().get_mut(cluster) {
            apps.kinds.remove(kind);
        }
    }

    /// Sets the state of a watch (empty `namespace`: of the one for all); returns whether it changed.
    pub(crate) fn set_state(
        &self,
        cluster: &ClusterKey,
        kind: &AppKind,
        namespace: &str,
        state: WatchState,
    ) -> bool {
        self.with_kind(cluster, kind, |apps| {
            if !namespace.is_empty() {
                apps.states.remove("");
            }
            let before = apps.states.insert(namespace.to_owned(), state.clone());
            before != Some(state)
        })
    }

    /// Stores an app; returns whether its record changed. Images that were read for the same state are
    /// kept.
    pub(crate) fn put(
        &self,
        cluster: &ClusterKey,
        kind: &AppKind,
        (namespace, name): (&str, &str),
        mut record: AppRecord,
    ) -> bool {
        self.with_kind(cluster, kind, |apps| {
            let names = apps.records.entry(namespace.to_owned()).or_default();
            if let Some(known) = names.get(name) {
                if record.images.is_none() && is_same_state(&known.reading, &record.reading) {
                    record.images.clone_from(&known.images);
                    record.has_provisional_images = known.has_provisional_images;
                }
                record.workloads.clone_from(&known.workloads);
                if **known == record {
                    return false;
                }
            }
            names.insert(name.to_owned(), Arc::new(record));
            true
        })
    }

    /// Stores the workloads that were read for an app, unless its state has changed since.
    pub(crate) fn put_workloads(
        &self,
        cluster: &ClusterKey,
        kind: &AppKind,
        (namespace, name): (&str, &str),
        of: &AppReading,
        workloads: images::AppWorkloads,
    ) {
        let mut clusters = self.clusters.write();
        let apps = clusters.entry(cluster.clone()).or_default();
        let apps = apps.kinds.entry(kind.clone()).or_default();
        let names = apps.records.get_mut(namespace);
        if let Some(record) = names.and_then(|names| names.get_mut(name))
            && is_same_state(&record.reading, of)
        {
            Arc::make_mut(record).set_workloads(workloads);
        }
    }

    /// Removes the images of an app, so that its next reconcile reads them again.
    pub(crate) fn forget_images(
        &self,
        cluster: &ClusterKey,
        kind: &AppKind,
        (namespace, name): (&str, &str),
    ) {
        self.with_kind(cluster, kind, |apps| {
            let names = apps.records.get_mut(namespace);
            if let Some(record) = names.and_then(|names| names.get_mut(name)) {
                Arc::make_mut(record).images = None;
            }
        });
    }

    /// Stores the workloads that were read for all apps of a kind, in one namespace or (empty `scope`)
    /// in all.
    pub(crate) fn fill_workloads(
        &self,
        cluster: &ClusterKey,
        kind: &AppKind,
        scope: &str,
        mut workloads: HashMap<(String, String), images::AppWorkloads>,
    ) {
        let mut clusters = self.clusters.write();
        let apps = clusters.entry(cluster.clone()).or_default();
        let apps = apps.kinds.entry(kind.clone()).or_default();
        for (namespace, names) in &mut apps.records {
            for (name, record) in names
                .iter_mut()
                .filter(|_| scope.is_empty() || scope == namespace)
            {
                let own = workloads.remove(&(namespace.clone(), name.clone()));
                let own = own.unwrap_or_else(images::AppWorkloads::none);
                Arc::make_mut(record).set_workloads(own);
            }
        }
    }

    /// Removes an app; returns whether it was there.
    pub(crate) fn remove(
        &self,
        cluster: &ClusterKey,
        kind: &AppKind,
        namespace: &str,
        name: &str,
    ) -> bool {
        self.with_kind(cluster, kind, |apps| {
            let Some(names) = apps.records.get_mut(namespace) else {
                return false;
            };
            let was_there = names.remove(name).is_some();
            if names.is_empty() {
                apps.records.remove(namespace);
            }
            was_there
        })
    }

    /// Removes the apps that a complete list did not have, in one namespace or (empty `scope`) in all.
    pub(crate) fn retain(
        &self,
        cluster: &ClusterKey,
        kind: &AppKind,
        scope: &str,
        listed: &BTreeSet<(String, String)>,
    ) {
        self.with_kind(cluster, kind, |apps| {
            for (namespace, names) in &mut apps.records {
                if scope.is_empty() || scope == namespace {
                    names.retain(|name, _| listed.contains(&(namespace.clone(), name.clone())));
                }
            }
            apps.records.retain(|_, names| !names.is_empty());
        });
    }

    /// Sets why images of this kind's apps are left out.
    pub(crate) fn set_images_note(
        &self,
        cluster: &ClusterKey,
        kind: &AppKind,
        note: Option<String>,
    ) {
        self.with_kind(cluster, kind, |apps| apps.images_note = note);
    }

    /// Why images of this kind's apps are left out.
    pub(crate) fn images_note(&self, cluster: &ClusterKey, kind: &AppKind) -> Option<String> {
        let clusters = self.clusters.read();
        clusters.get(cluster)?.kinds.get(kind)?.images_note.clone()
    }

    /// The batched lookups of the workloads of this kind's apps.
    pub(crate) fn workload_lookups(
        &self,
        cluster: &ClusterKey,
        kind: &AppKind,
    ) -> Arc<images::WorkloadLookups> {
        self.with_kind(cluster, kind, |apps| apps.workload_lookups.clone())
    }

    /// The state of the watch of a kind in a namespace.
    pub(crate) fn watch_state(
        &self,
        cluster: &ClusterKey,
        kind: &AppKind,
        namespace: &str,
    ) -> WatchState {
        let clusters = self.clusters.read();
        let apps = clusters.get(cluster).and_then(|apps| apps.kinds.get(kind));
        apps.map_or(WatchState::Starting, |apps| apps.state(namespace))
    }

    /// The record of an app, whatever the state of the watch.
    pub(crate) fn record(
        &self,
        cluster: &ClusterKey,
        kind: &AppKind,
        (namespace, name): (&str, &str),
    ) -> Option<Arc<AppRecord>> {
        let clusters = self.clusters.read();
        let apps = clusters.get(cluster)?.kinds.get(kind)?;
        apps.records.get(namespace)?.get(name).cloned()
    }

    /// The app of that name.
    pub(crate) fn find(
        &self,
        cluster: &ClusterKey,
        kind: &AppKind,
        namespace: &str,
        name: &str,
    ) -> AppLookup {
        self.lookup(cluster, kind, namespace, |names| {
            let found = names
                .get(name)
                .map(|record| (name.to_owned(), record.clone()));
            found.into_iter().collect()
        })
    }

    /// The apps that carry a pipeline's label.
    pub(crate) fn find_labelled(
        &self,
        cluster: &ClusterKey,
        kind: &AppKind,
        namespace: &str,
        pipeline: &str,
    ) -> AppLookup {
        self.lookup(cluster, kind, namespace, |names| {
            let carries = |record: &AppRecord| record.pipeline.as_deref() == Some(pipeline);
            let mut found: Vec<_> = names
                .iter()
                .filter(|(_, record)| carries(record))
                .map(|(name, record)| (name.clone(), record.clone()))
                .collect();
            found.sort_by(|(left, _), (right, _)| left.cmp(right));
            found
        })
    }

    fn lookup(
        &self,
        cluster: &ClusterKey,
        kind: &AppKind,
        namespace: &str,
        find: impl Fn(&AppRecords) -> Vec<(String, Arc<AppRecord>)>,
    ) -> AppLookup {
        let clusters = self.clusters.read();
        let Some(apps) = clusters.get(cluster) else {
            return AppLookup::Unknown(WatchState::Starting);
        };
        if let Some(because) = &apps.unreachable {
            return AppLookup::Unknown(WatchState::Failing(because.clone()));
        }
        let Some(apps) = apps.kinds.get(kind) else {
            return AppLookup::Unknown(WatchState::Starting);
        };
        match apps.state(namespace) {
            WatchState::Synced => {
                AppLookup::Found(apps.records.get(namespace).map(find).unwrap_or_default())
            }
            state => AppLookup::Unknown(state),
        }
    }

    fn with_kind<T>(
        &self,
        cluster: &ClusterKey,
        kind: &AppKind,
        change: impl FnOnce(&mut KindApps) -> T,
    ) -> T {
        let mut clusters = self.clusters.write();
        let apps = clusters.entry(cluster.clone()).or_default();
        change(apps.kinds.entry(kind.clone()).or_default())
    }
}

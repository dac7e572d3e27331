//! What runs on every cluster, as far as pipelines ask: one slim record per app.
//!
//! Filled by the feeds, read by the pipeline loop. Holds no objects, so that memory does not grow
//! with what people put into them, and never talks to a cluster.

mod canaries;
pub(crate) mod feed;
pub(crate) mod images;
pub(crate) mod sources;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use api::{app::AppReading, flagger::Canary, flux::ObjectReference};
use parking_lot::RwLock;

pub(crate) use canaries::{Workload, Workloads};

use crate::keys::{AppKind, ClusterKey};

/// What is kept of one app.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Record {
    pub(crate) api_version: String,
    pub(crate) reading: AppReading,
    /// The pipeline whose label it carries.
    pub(crate) pipeline: Option<String>,
    /// The images it runs, once they have been read for this state.
    pub(crate) images: Option<Vec<String>>,
    /// The source its revision is one of.
    pub(crate) source: Option<ObjectReference>,
    /// Namespace and name of the Kustomization that applied it.
    pub(crate) applier: Option<(String, String)>,
    /// Namespace and name of the HelmRelease that made it, if it is a workload.
    pub(crate) release: Option<Box<(String, String)>>,
    /// The workloads Flux made for it, if they were read.
    pub(crate) workloads: Option<Workloads>,
    /// What it says, if it is a Canary and no app.
    pub(crate) canary: Option<Box<Canary>>,
}

/// Whether a feed can be relied on.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) enum FeedState {
    /// It has not been read to the end yet.
    #[default]
    Starting,
    /// It is complete and follows changes.
    Synced,
    /// The cluster has no such kind.
    KindMissing,
    /// Reading is not allowed.
    Forbidden(String),
    /// The cluster does not answer as it should.
    Failing(String),
}

/// What a look at one place gives.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Look {
    /// The feed cannot tell.
    Unknown(FeedState),
    /// The apps that were asked for and are there.
    Found(Vec<(String, Record)>),
}

/// The apps of all clusters.
#[derive(Default)]
pub(crate) struct Apps {
    clusters: RwLock<HashMap<ClusterKey, ClusterApps>>,
}

#[derive(Default)]
struct ClusterApps {
    /// Why nothing on the cluster can be read.
    unreachable: Option<String>,
    kinds: HashMap<AppKind, KindApps>,
}

#[derive(Default)]
struct KindApps {
    /// The state of the feed for a namespace, or of the one for all under the empty name.
    states: HashMap<String, FeedState>,
    records: HashMap<String, HashMap<String, Record>>,
    /// Why images are left out.
    images_note: Option<String>,
    asked: Arc<images::Line>,
}

impl KindApps {
    fn state(&self, namespace: &str) -> FeedState {
        let state = self.states.get("").or_else(|| self.states.get(namespace));
        state.cloned().unwrap_or_default()
    }
}

impl Apps {
    /// Says that a cluster cannot be reached, or that it can; answers whether that is news.
    pub(crate) fn set_reachable(&self, cluster: &ClusterKey, unreachable: Option<String>) -> bool {
        let mut clusters = self.clusters.write();
        let apps = clusters.entry(cluster.clone()).or_default();
        let is_news = apps.unreachable != unreachable;
        apps.unreachable = unreachable;
        is_news
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

    /// Sets the state of a feed (`namespace` empty: of the one for all); answers whether it is news.
    pub(crate) fn set_state(
        &self,
        cluster: &ClusterKey,
        kind: &AppKind,
        namespace: &str,
        state: FeedState,
    ) -> bool {
        self.with_kind(cluster, kind, |apps| {
            if !namespace.is_empty() {
                apps.states.remove("");
            }
            let before = apps.states.insert(namespace.to_owned(), state.clone());
            before != Some(state)
        })
    }

    /// Records an app; answers whether anything about it changed. Images that were read for the
    /// same state stay.
    pub(crate) fn put(
        &self,
        cluster: &ClusterKey,
        kind: &AppKind,
        place: (&str, &str),
        mut record: Record,
    ) -> bool {
        let (namespace, name) = place;
        self.with_kind(cluster, kind, |apps| {
            let names = apps.records.entry(namespace.to_owned()).or_default();
            if let Some(known) = names.get(name) {
                if record.images.is_none() && is_same_state(&known.reading, &record.reading) {
                    record.images.clone_from(&known.images);
                }
                record.workloads.clone_from(&known.workloads);
                if *known == record {
                    return false;
                }
            }
            names.insert(name.to_owned(), record);
            true
        })
    }

    /// Keeps what was read of an app's workloads, unless it has moved on since.
    pub(crate) fn put_deployed(
        &self,
        cluster: &ClusterKey,
        kind: &AppKind,
        place: (&str, &str),
        of: &AppReading,
        deployed: images::Deployed,
    ) {
        let (namespace, name) = place;
        let mut clusters = self.clusters.write();
        let apps = clusters.entry(cluster.clone()).or_default();
        let follows_canaries = apps.follows_canaries();
        let apps = apps.kinds.entry(kind.clone()).or_default();
        let names = apps.records.get_mut(namespace);
        if let Some(record) = names.and_then(|names| names.get_mut(name))
            && is_same_state(&record.reading, of)
        {
            record.keep(deployed, follows_canaries);
        }
    }

    /// Has the images of an app read again the next time it is looked at.
    pub(crate) fn forget_images(
        &self,
        cluster: &ClusterKey,
        kind: &AppKind,
        (namespace, name): (&str, &str),
    ) {
        self.with_kind(cluster, kind, |apps| {
            let names = apps.records.get_mut(namespace);
            if let Some(record) = names.and_then(|names| names.get_mut(name)) {
                record.images = None;
            }
        });
    }

    /// Keeps what was read of the workloads of all apps of a kind, in one namespace or (`scope`
    /// empty) in all.
    pub(crate) fn fill_deployed(
        &self,
        cluster: &ClusterKey,
        kind: &AppKind,
        scope: &str,
        mut deployed: HashMap<(String, String), images::Deployed>,
    ) {
        let mut clusters = self.clusters.write();
        let apps = clusters.entry(cluster.clone()).or_default();
        let follows_canaries = apps.follows_canaries();
        let apps = apps.kinds.entry(kind.clone()).or_default();
        for (namespace, names) in &mut apps.records {
            for (name, record) in names
                .iter_mut()
                .filter(|_| scope.is_empty() || scope == namespace)
            {
                let found = deployed.remove(&(namespace.clone(), name.clone()));
                record.keep(found.unwrap_or_default(), follows_canaries);
            }
        }
    }

    /// Removes an app; answers whether it was there.
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

    /// Removes what a complete list did not show. With a namespace, only what is in it.
    pub(crate) fn retain(
        &self,
        cluster: &ClusterKey,
        kind: &AppKind,
        scope: &str,
        seen: &BTreeSet<(String, String)>,
    ) {
        self.with_kind(cluster, kind, |apps| {
            for (namespace, names) in &mut apps.records {
                if scope.is_empty() || scope == namespace {
                    names.retain(|name, _| seen.contains(&(namespace.clone(), name.clone())));
                }
            }
            apps.records.retain(|_, names| !names.is_empty());
        });
    }

    /// Says why images of this kind's apps are left out.
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

    /// Where those who ask for the images of this kind's apps wait.
    pub(crate) fn line(&self, cluster: &ClusterKey, kind: &AppKind) -> Arc<images::Line> {
        self.with_kind(cluster, kind, |apps| apps.asked.clone())
    }

    /// Whether what is known of a kind in a namespace can be relied on.
    pub(crate) fn feed_state(
        &self,
        cluster: &ClusterKey,
        kind: &AppKind,
        namespace: &str,
    ) -> FeedState {
        let clusters = self.clusters.read();
        let apps = clusters.get(cluster).and_then(|apps| apps.kinds.get(kind));
        apps.map_or(FeedState::Starting, |apps| apps.state(namespace))
    }

    /// What is kept of an app.
    pub(crate) fn record(
        &self,
        cluster: &ClusterKey,
        kind: &AppKind,
        (namespace, name): (&str, &str),
    ) -> Option<Record> {
        let clusters = self.clusters.read();
        let apps = clusters.get(cluster)?.kinds.get(kind)?;
        apps.records.get(namespace)?.get(name).cloned()
    }

    /// The app of that name.
    pub(crate) fn look_for(
        &self,
        cluster: &ClusterKey,
        kind: &AppKind,
        namespace: &str,
        name: &str,
    ) -> Look {
        self.look(cluster, kind, namespace, |names| {
            let found = names
                .get(name)
                .map(|record| (name.to_owned(), record.clone()));
            found.into_iter().collect()
        })
    }

    /// The apps that carry a pipeline's label.
    pub(crate) fn look_for_labelled(
        &self,
        cluster: &ClusterKey,
        kind: &AppKind,
        namespace: &str,
        pipeline: &str,
    ) -> Look {
        self.look(cluster, kind, namespace, |names| {
            let carries = |record: &&Record| record.pipeline.as_deref() == Some(pipeline);
            let mut found: Vec<_> = names
                .iter()
                .filter(|(_, record)| carries(record))
                .map(|(name, record)| (name.clone(), record.clone()))
                .collect();
            found.sort_by(|(left, _), (right, _)| left.cmp(right));
            found
        })
    }

    fn look(
        &self,
        cluster: &ClusterKey,
        kind: &AppKind,
        namespace: &str,
        find: impl Fn(&HashMap<String, Record>) -> Vec<(String, Record)>,
    ) -> Look {
        let clusters = self.clusters.read();
        let Some(apps) = clusters.get(cluster) else {
            return Look::Unknown(FeedState::Starting);
        };
        if let Some(because) = &apps.unreachable {
            return Look::Unknown(FeedState::Failing(because.clone()));
        }
        let Some(apps) = apps.kinds.get(kind) else {
            return Look::Unknown(FeedState::Starting);
        };
        match apps.state(namespace) {
            FeedState::Synced => {
                Look::Found(apps.records.get(namespace).map(find).unwrap_or_default())
            }
            state => Look::Unknown(state),
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

impl Record {
    fn keep(&mut self, deployed: images::Deployed, follows_canaries: bool) {
        self.images = Some(deployed.images);
        self.workloads = follows_canaries.then(|| deployed.workloads.into());
    }
}

/// Whether images read for one record hold for the other.
fn is_same_state(left: &AppReading, right: &AppReading) -> bool {
    left.revision == right.revision && left.ready == right.ready
}

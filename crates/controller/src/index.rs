//! Index of what pipelines depend on: which pipelines an app, a cluster or a selector concerns, and which
//! kinds have to be watched in which namespaces of each cluster.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use crate::keys::{AppKind, ClusterKey};
use runtime::ObjectKey;

/// An app, or the labelled apps of a namespace, that a pipeline depends on.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct RequiredApp {
    /// On which cluster.
    pub cluster: ClusterKey,
    /// What kind of app.
    pub kind: AppKind,
    /// In which namespace.
    pub namespace: String,
    /// Which one; without a name, those that carry the pipeline's label.
    pub name: Option<String>,
}

/// The kinds and namespaces that are needed on one cluster.
pub(crate) type RequiredKinds = BTreeMap<AppKind, RequiredNamespaces>;
/// The namespaces in which objects of a kind are needed.
pub(crate) type RequiredNamespaces = Arc<BTreeSet<String>>;

/// Where apps of a kind are required. Each is stored once.
#[derive(Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct KindInNamespace {
    cluster: ClusterKey,
    kind: AppKind,
    namespace: String,
}

/// A [`RequiredApp`] as it is stored: with ten thousand pipelines these are much of the memory.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct StoredApp {
    kind: Arc<KindInNamespace>,
    name: Option<Arc<str>>,
}

impl StoredApp {
    fn is(&self, app: &RequiredApp) -> bool {
        self.name.as_deref() == app.name.as_deref()
            && self.kind.namespace == app.namespace
            && self.kind.cluster == app.cluster
            && self.kind.kind == app.kind
    }
}

/// A kind that is required in a namespace, and by how many pipelines.
#[derive(Debug)]
struct KindUse {
    kind: Arc<KindInNamespace>,
    count: usize,
}

/// Everything that pipelines need, kept up to date one pipeline at a time.
#[derive(Debug, Default)]
pub(crate) struct Index {
    required: HashMap<Arc<ObjectKey>, Box<[StoredApp]>>,
    /// The pipelines that need an app. Mostly one.
    watchers: HashMap<StoredApp, Vec<Arc<ObjectKey>>>,
    /// What is required per cluster, kind and namespace.
    required_kinds: HashMap<ClusterKey, BTreeMap<AppKind, BTreeMap<String, KindUse>>>,
    /// The pipelines that name a cluster, even one that does not exist.
    clusters: HashMap<ClusterKey, HashSet<Arc<ObjectKey>>>,
    /// The pipelines that select clusters by label.
    selecting: HashSet<Arc<ObjectKey>>,
}

impl Index {
    /// Sets what a pipeline needs; answers with the clusters on which other kinds are required now.
    pub(crate) fn set(
        &mut self,
        pipeline: &ObjectKey,
        required: BTreeSet<RequiredApp>,
        selects: bool,
    ) -> BTreeSet<ClusterKey> {
        let known = self.required.remove_entry(pipeline);
        let (pipeline, before) =
            known.unwrap_or_else(|| (Arc::new(pipeline.clone()), Box::default()));
        match selects {
            true => self.selecting.insert(pipeline.clone()),
            false => self.selecting.remove(&pipeline),
        };
        let mut changed = BTreeSet::new();
        let is_same = before.len() == required.len();
        let now = match is_same
            && before
                .iter()
                .zip(&required)
                .all(|(one, other)| one.is(other))
        {
            true => before,
            false => self.replace(&pipeline, &before, &required, &mut changed),
        };
        if !now.is_empty() {
            self.required.insert(pipeline, now);
        }
        changed
    }

    /// Replaces what a pipeline needs.
    fn replace(
        &mut self,
        pipeline: &Arc<ObjectKey>,
        before: &[StoredApp],
        required: &BTreeSet<RequiredApp>,
        changed: &mut BTreeSet<ClusterKey>,
    ) -> Box<[StoredApp]> {
        self.name_clusters(
            pipeline,
            &before.iter().map(|app| &app.kind.cluster).collect(),
            &required.iter().map(|app| &app.cluster).collect(),
        );
        let now = required
            .iter()
            .map(|app| self.insert(pipeline, app, changed));
        let now = now.collect();
        // Afterwards, so that what stays is not seen to go away.
        for app in before {
            self.remove(pipeline, app, changed);
        }
        now
    }

    fn name_clusters(
        &mut self,
        pipeline: &Arc<ObjectKey>,
        before: &BTreeSet<&ClusterKey>,
        now: &BTreeSet<&ClusterKey>,
    ) {
        for &cluster in before.difference(now) {
            if let Some(pipelines) = self.clusters.get_mut(cluster) {
                pipelines.remove(pipeline);
                if pipelines.is_empty() {
                    self.clusters.remove(cluster);
                }
            }
        }
        for &cluster in now.difference(before) {
            let pipelines = self.clusters.entry(cluster.clone()).or_default();
            pipelines.insert(pipeline.clone());
        }
    }

    /// Forgets a pipeline; answers with the clusters on which other kinds are required now.
    pub(crate) fn forget(&mut self, pipeline: &ObjectKey) -> BTreeSet<ClusterKey> {
        self.set(pipeline, BTreeSet::new(), false)
    }

    /// The pipelines that look at an app, by its name or by its labels.
    pub(crate) fn concerned(
        &self,
        cluster: &ClusterKey,
        kind: &AppKind,
        namespace: &str,
        name: &str,
    ) -> Vec<ObjectKey> {
        let kinds = self.required_kinds.get(cluster);
        let namespaces = kinds.and_then(|kinds| kinds.get(kind));
        let Some(used) = namespaces.and_then(|namespaces| namespaces.get(namespace)) else {
            return Vec::new();
        };
        let watchers = |name: Option<&str>| {
            let (kind, name) = (used.kind.clone(), name.map(Arc::from));
            self.watchers.get(&StoredApp { kind, name })
        };
        let (by_name, by_label) = (watchers(Some(name)), watchers(None));
        let concerned = by_name.into_iter().chain(by_label).flatten();
        concerned.map(|pipeline| (**pipeline).clone()).collect()
    }

    /// The pipelines that have a target on a cluster, or might get one.
    pub(crate) fn on_cluster(&self, cluster: &ClusterKey) -> HashSet<ObjectKey> {
        let named = self.clusters.get(cluster).into_iter().flatten();
        let selecting = self
            .selecting
            .iter()
            .filter(|_| *cluster != ClusterKey::Hub);
        let all = named.chain(selecting);
        all.map(|pipeline| (**pipeline).clone()).collect()
    }

    /// What is needed on a cluster; empty if nothing is. Where apps are, their Canaries are too.
    pub(crate) fn required_kinds(&self, cluster: &ClusterKey) -> RequiredKinds {
        let kinds = self.required_kinds.get(cluster).into_iter().flatten();
        let mut required_kinds: RequiredKinds = kinds
            .map(|(kind, namespaces)| {
                (kind.clone(), Arc::new(namespaces.keys().cloned().collect()))
            })
            .collect();
        let apps = required_kinds.iter().filter(|(kind, _)| kind.is_app());
        let mut apps = apps.map(|(_, namespaces)| namespaces.clone());
        if let Some(first) = apps.next() {
            let all = apps.fold(first, |all, more| match more.is_subset(&all) {
                true => all,
                false => Arc::new(&*all | &*more),
            });
            required_kinds.insert(AppKind::canary(), all);
        }
        required_kinds
    }

    fn insert(
        &mut self,
        pipeline: &Arc<ObjectKey>,
        app: &RequiredApp,
        changed: &mut BTreeSet<ClusterKey>,
    ) -> StoredApp {
        let kinds = self.required_kinds.entry(app.cluster.clone()).or_default();
        let namespaces = kinds.entry(app.kind.clone()).or_default();
        let used = namespaces.entry(app.namespace.clone()).or_insert_with(|| {
            changed.insert(app.cluster.clone());
            let kind = KindInNamespace {
                cluster: app.cluster.clone(),
                kind: app.kind.clone(),
                namespace: app.namespace.clone(),
            };
            let (kind, count) = (Arc::new(kind), 0);
            KindUse { kind, count }
        });
        used.count += 1;
        let stored = StoredApp {
            kind: used.kind.clone(),
            name: app.name.as_deref().map(Arc::from),
        };
        let known = self.watchers.get_key_value(&stored);
        let stored = known.map_or(stored.clone(), |(known, _)| known.clone());
        let watchers = self.watchers.entry(stored.clone());
        let watchers = watchers.or_insert_with(|| Vec::with_capacity(1));
        watchers.push(pipeline.clone());
        stored
    }

    fn remove(
        &mut self,
        pipeline: &Arc<ObjectKey>,
        app: &StoredApp,
        changed: &mut BTreeSet<ClusterKey>,
    ) {
        if let Some(watchers) = self.watchers.get_mut(app) {
            // Once: it may be needed again already.
            if let Some(at) = watchers.iter().position(|watcher| watcher == pipeline) {
                watchers.swap_remove(at);
            }
            if watchers.is_empty() {
                self.watchers.remove(app);
            }
        }
        self.remove_required_kind(&app.kind, changed);
    }

    fn remove_required_kind(&mut self, gone: &KindInNamespace, changed: &mut BTreeSet<ClusterKey>) {
        let Some(kinds) = self.required_kinds.get_mut(&gone.cluster) else {
            return;
        };
        let Some(namespaces) = kinds.get_mut(&gone.kind) else {
            return;
        };
        let Some(used) = namespaces.get_mut(&gone.namespace) else {
            return;
        };
        used.count -= 1;
        if used.count > 0 {
            return;
        }
        namespaces.remove(&gone.namespace);
        if namespaces.is_empty() {
            kinds.remove(&gone.kind);
        }
        if kinds.is_empty() {
            self.required_kinds.remove(&gone.cluster);
        }
        changed.insert(gone.cluster.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn app(cluster: &str, namespace: &str, name: Option<&str>) -> RequiredApp {
        RequiredApp {
            cluster: ClusterKey::Leaf(ObjectKey::new("flux", cluster)),
            kind: AppKind::labelled()[0].clone(),
            namespace: namespace.to_owned(),
            name: name.map(str::to_owned),
        }
    }

    fn key(name: &str) -> ObjectKey {
        ObjectKey::new("default", name)
    }

    #[test]
    fn an_app_concerns_exactly_its_pipelines() {
        let mut index = Index::default();
        index.set(&key("p"), [app("dev", "a", Some("app"))].into(), false);
        index.set(&key("q"), [app("dev", "a", Some("other"))].into(), false);
        index.set(&key("labelled"), [app("dev", "a", None)].into(), false);
        let RequiredApp { cluster, kind, .. } = app("dev", "a", None);
        let mut concerned = index.concerned(&cluster, &kind, "a", "app");
        concerned.sort();
        assert_eq!(concerned, [key("labelled"), key("p")]);
        assert!(index.concerned(&cluster, &kind, "b", "app").is_empty());
    }

    #[test]
    fn a_pipeline_that_is_edited_leaves_nothing_behind() {
        let mut index = Index::default();
        let (one, two) = (app("dev", "a", Some("one")), app("prod", "a", Some("two")));
        let concerned = |index: &Index, app: &RequiredApp| {
            let name = app.name.as_deref().unwrap_or_default();
            let mut all = index.concerned(&app.cluster, &app.kind, &app.namespace, name);
            all.sort();
            all
        };
        index.set(&key("p"), [one.clone(), two.clone()].into(), true);
        index.set(&key("q"), [two.clone()].into(), false);
        assert_eq!(concerned(&index, &two), [key("p"), key("q")]);
        let changed = index.set(&key("p"), [two.clone()].into(), true);
        assert_eq!(changed, [one.cluster.clone()].into());
        assert!(concerned(&index, &one).is_empty());
        assert_eq!(concerned(&index, &two), [key("p"), key("q")]);
        assert_eq!(index.on_cluster(&one.cluster), [key("p")].into());
        assert!(index.set(&key("p"), [two.clone()].into(), false).is_empty());
        assert!(index.on_cluster(&one.cluster).is_empty());
        for name in ["p", "q", "q"] {
            index.forget(&key(name));
        }
        assert!(index.required.is_empty() && index.watchers.is_empty());
        assert!(index.clusters.is_empty() && index.required_kinds.is_empty());
    }

    #[test]
    fn required_kinds_grow_and_shrink_with_pipelines() {
        let mut index = Index::default();
        let cluster = app("dev", "a", None).cluster;
        let one = BTreeSet::from([app("dev", "a", Some("x"))]);
        assert_eq!(index.set(&key("p"), one.clone(), false).len(), 1);
        assert!(
            index.set(&key("q"), one, false).is_empty(),
            "nothing new is needed"
        );
        assert!(index.forget(&key("p")).is_empty(), "it is still needed");
        let namespaces = Arc::new(BTreeSet::from(["a".to_owned()]));
        let app = AppKind::labelled()[0].clone();
        let expected = RequiredKinds::from([
            (app, namespaces.clone()),
            // Their Canaries, in the same namespaces.
            (AppKind::canary(), namespaces),
        ]);
        assert_eq!(index.required_kinds(&cluster), expected);
        assert_eq!(index.forget(&key("q")).len(), 1);
        assert!(index.required_kinds(&cluster).is_empty());
        assert!(index.on_cluster(&cluster).is_empty());
    }
}

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
pub(crate) type RequiredKinds = BTreeMap<AppKind, Namespaces>;
/// The namespaces in which objects of a kind are needed.
pub(crate) type Namespaces = Arc<BTreeSet<String>>;

/// Everything that pipelines need, kept up to date one pipeline at a time.
#[derive(Debug, Default)]
pub(crate) struct Index {
    required: HashMap<ObjectKey, BTreeSet<RequiredApp>>,
    watchers: HashMap<RequiredApp, HashSet<ObjectKey>>,
    /// How many apps are required per cluster, kind and namespace.
    required_kinds: HashMap<ClusterKey, BTreeMap<AppKind, BTreeMap<String, usize>>>,
    /// The pipelines that name a cluster, even one that does not exist.
    clusters: HashMap<ClusterKey, HashSet<ObjectKey>>,
    /// The pipelines that select clusters by label.
    selecting: HashSet<ObjectKey>,
}

impl Index {
    /// Sets what a pipeline needs; answers with the clusters on which other kinds are required now.
    pub(crate) fn set(
        &mut self,
        pipeline: &ObjectKey,
        required: BTreeSet<RequiredApp>,
        selects: bool,
    ) -> BTreeSet<ClusterKey> {
        let before = self.required.remove(pipeline).unwrap_or_default();
        let mut changed = BTreeSet::new();
        for gone in before.difference(&required) {
            self.remove(pipeline, gone, &mut changed);
        }
        for new in required.difference(&before) {
            self.insert(pipeline, new, &mut changed);
        }
        self.name_clusters(pipeline, &clusters_of(&before), &clusters_of(&required));
        match selects {
            true => self.selecting.insert(pipeline.clone()),
            false => self.selecting.remove(pipeline),
        };
        if !required.is_empty() {
            self.required.insert(pipeline.clone(), required);
        }
        changed
    }

    fn name_clusters(
        &mut self,
        pipeline: &ObjectKey,
        before: &BTreeSet<ClusterKey>,
        now: &BTreeSet<ClusterKey>,
    ) {
        for cluster in before.difference(now) {
            if let Some(pipelines) = self.clusters.get_mut(cluster) {
                pipelines.remove(pipeline);
                if pipelines.is_empty() {
                    self.clusters.remove(cluster);
                }
            }
        }
        for cluster in now.difference(before) {
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
        let app = |name: Option<&str>| RequiredApp {
            cluster: cluster.clone(),
            kind: kind.clone(),
            namespace: namespace.to_owned(),
            name: name.map(str::to_owned),
        };
        let by_name = self.watchers.get(&app(Some(name)));
        let by_label = self.watchers.get(&app(None));
        by_name
            .into_iter()
            .chain(by_label)
            .flatten()
            .cloned()
            .collect()
    }

    /// The pipelines that have a target on a cluster, or might get one.
    pub(crate) fn on_cluster(&self, cluster: &ClusterKey) -> HashSet<ObjectKey> {
        let named = self.clusters.get(cluster).into_iter().flatten();
        let selecting = self
            .selecting
            .iter()
            .filter(|_| *cluster != ClusterKey::Hub);
        named.chain(selecting).cloned().collect()
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
        pipeline: &ObjectKey,
        app: &RequiredApp,
        changed: &mut BTreeSet<ClusterKey>,
    ) {
        self.watchers
            .entry(app.clone())
            .or_default()
            .insert(pipeline.clone());
        let kinds = self.required_kinds.entry(app.cluster.clone()).or_default();
        let count = kinds
            .entry(app.kind.clone())
            .or_default()
            .entry(app.namespace.clone())
            .or_default();
        *count += 1;
        if *count == 1 {
            changed.insert(app.cluster.clone());
        }
    }

    fn remove(
        &mut self,
        pipeline: &ObjectKey,
        app: &RequiredApp,
        changed: &mut BTreeSet<ClusterKey>,
    ) {
        if let Some(watchers) = self.watchers.get_mut(app) {
            watchers.remove(pipeline);
            if watchers.is_empty() {
                self.watchers.remove(app);
            }
        }
        self.remove_required_kind(app, changed);
    }

    fn remove_required_kind(&mut self, app: &RequiredApp, changed: &mut BTreeSet<ClusterKey>) {
        let Some(kinds) = self.required_kinds.get_mut(&app.cluster) else {
            return;
        };
        let Some(namespaces) = kinds.get_mut(&app.kind) else {
            return;
        };
        let Some(count) = namespaces.get_mut(&app.namespace) else {
            return;
        };
        *count -= 1;
        if *count > 0 {
            return;
        }
        namespaces.remove(&app.namespace);
        if namespaces.is_empty() {
            kinds.remove(&app.kind);
        }
        if kinds.is_empty() {
            self.required_kinds.remove(&app.cluster);
        }
        changed.insert(app.cluster.clone());
    }
}

fn clusters_of(required: &BTreeSet<RequiredApp>) -> BTreeSet<ClusterKey> {
    required.iter().map(|app| app.cluster.clone()).collect()
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

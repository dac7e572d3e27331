//! Which Freezes cover which environments of a pipeline.
//!
//! Every selector that a Freeze sets must match. A Freeze in the freeze namespace covers all namespaces
//! and ignores labels of Pipelines, which those whom it binds can edit. What cannot be decided, such as
//! the labels of a namespace that may not be read, counts as covered and is said.

use std::collections::{BTreeMap, BTreeSet};

use api::{
    Freeze, LabelSelector, Pipeline,
    pipeline::{CoveringFreeze, Environment, PipelineStatus},
};
use jiff::Timestamp;
use kube::core::{Selector, SelectorExt};

use super::{invalid_times, is_closed};
use crate::{
    conditions::cut,
    site::{cluster_key, cluster_of_status},
};

/// How many Freezes a status lists.
const MAX_FREEZES: usize = 16;
/// How many clusters of a Freeze a status lists.
const MAX_CLUSTERS: usize = 128;
/// The longest text of a reason or error, in bytes.
const LONGEST_TEXT: usize = 512;

type Labels = BTreeMap<String, String>;

/// What is known about where a pipeline is.
pub struct FreezeScope<'a> {
    /// The namespace whose Freezes cover all namespaces.
    pub freeze_namespace: Option<&'a str>,
    /// The labels of the pipeline's namespace; none where they may not be read.
    pub namespace_labels: Option<&'a Labels>,
    /// The labels of a GitopsCluster, by namespace and name.
    pub cluster_labels: &'a dyn Fn(&str, &str) -> Option<Labels>,
}

/// The Freezes that cover an environment of a pipeline whose status is `model`, those that are closed
/// first.
pub fn covering_freezes<'a>(
    pipeline: &Pipeline,
    model: &PipelineStatus,
    freezes: impl IntoIterator<Item = &'a Freeze>,
    scope: &FreezeScope<'_>,
    now: Timestamp,
) -> Vec<CoveringFreeze> {
    let question = CoverageQuestion {
        pipeline,
        model,
        scope,
    };
    let freezes = freezes.into_iter();
    let mut covering: Vec<_> = freezes.filter_map(|it| question.covering(it)).collect();
    covering.sort_by_cached_key(|freeze| {
        let is_open = !is_closed(freeze, now);
        (is_open, freeze.namespace.clone(), freeze.name.clone())
    });
    covering.truncate(MAX_FREEZES);
    covering
}

/// The first of these environments that none of the pipelines has: a Freeze of it would stop nothing.
pub fn unknown_environment<'a, 'p>(
    environments: &'a [String],
    pipelines: impl IntoIterator<Item = &'p Pipeline>,
) -> Option<&'a str> {
    let all = pipelines.into_iter().flat_map(|it| &it.spec.environments);
    let known: BTreeSet<&str> = all.map(|it| it.name.as_str()).collect();
    let mut names = environments.iter().map(String::as_str);
    names.find(|name| !known.contains(name))
}

struct CoverageQuestion<'a> {
    pipeline: &'a Pipeline,
    model: &'a PipelineStatus,
    scope: &'a FreezeScope<'a>,
}

impl CoverageQuestion<'_> {
    fn covering(&self, freeze: &Freeze) -> Option<CoveringFreeze> {
        let mut errors = freeze.spec.unreadable.iter().cloned().collect();
        if !self.is_in_reach(freeze, &mut errors) {
            return None;
        }
        errors.extend(invalid_times(&freeze.spec.times()));
        let (environments, clusters) = self.environments(freeze, &mut errors);
        let namespace = freeze.metadata.namespace.clone();
        let covering = CoveringFreeze {
            namespace: namespace.filter(|it| it != self.namespace()),
            name: freeze.metadata.name.clone().unwrap_or_default(),
            reason: cut(&freeze.spec.reason, LONGEST_TEXT),
            environments,
            clusters,
            times: freeze.spec.times(),
            invalid: (!errors.is_empty()).then(|| cut(&errors.join("; "), LONGEST_TEXT)),
        };
        (!covering.environments.is_empty()).then_some(covering)
    }

    fn namespace(&self) -> &str {
        let namespace = self.pipeline.metadata.namespace.as_deref();
        namespace.unwrap_or_default()
    }

    /// Whether it selects the pipeline. The freeze namespace ignores labels: people can edit those of their pipelines.
    fn is_in_reach(&self, freeze: &Freeze, errors: &mut Vec<String>) -> bool {
        let (own, spec) = (freeze.metadata.namespace.as_deref(), &freeze.spec);
        let name = self.pipeline.metadata.name.clone().unwrap_or_default();
        if !spec.pipelines.is_empty() && !spec.pipelines.contains(&name) {
            return false;
        }
        if own.is_some() && own == self.scope.freeze_namespace {
            let Some(selector) = &spec.namespace_selector else {
                return true;
            };
            let Some(labels) = self.scope.namespace_labels else {
                errors.push("the labels of the namespace are not known".to_owned());
                return true;
            };
            return selects("namespaceSelector", selector, labels, errors);
        }
        if own != Some(self.namespace()) {
            return false;
        }
        let none = Labels::new();
        let labels = self.pipeline.metadata.labels.as_ref().unwrap_or(&none);
        let selector = spec.selector.as_ref();
        selector.is_none_or(|selector| selects("selector", selector, labels, errors))
    }

    /// The environments that it covers, and the clusters if it covers only some.
    fn environments(
        &self,
        freeze: &Freeze,
        errors: &mut Vec<String>,
    ) -> (Vec<String>, Option<Vec<String>>) {
        let names = &freeze.spec.environments;
        let is_named = |it: &&Environment| names.is_empty() || names.contains(&it.name);
        let environments = self.pipeline.spec.environments.iter().filter(is_named);
        let Some(selector) = &freeze.spec.cluster_selector else {
            return (environments.map(|it| it.name.clone()).collect(), None);
        };
        let (mut covered, mut clusters) = (Vec::new(), Vec::new());
        for environment in environments {
            let found = self.clusters(&environment.name, selector, errors);
            if !found.is_empty() {
                covered.push(environment.name.clone());
            }
            clusters.extend(found);
        }
        clusters.sort();
        clusters.dedup();
        let clusters = (clusters.len() <= MAX_CLUSTERS).then_some(clusters);
        (covered, clusters)
    }

    /// The keys of the selected clusters that an environment has targets on.
    fn clusters(
        &self,
        environment: &str,
        selector: &LabelSelector,
        errors: &mut Vec<String>,
    ) -> Vec<String> {
        let status = self.model.environments.get(environment);
        let targets = status.into_iter().flat_map(|it| &it.targets);
        let mut found = Vec::new();
        for cluster in targets.filter_map(cluster_of_status) {
            let namespace = cluster.namespace.as_deref().unwrap_or(self.namespace());
            let labels = (self.scope.cluster_labels)(namespace, &cluster.name);
            let labels = labels.unwrap_or_default();
            if selects("clusterSelector", selector, &labels, errors) {
                found.push(cluster_key(cluster, self.namespace()));
            }
        }
        found
    }
}

/// Whether a selector matches; one that cannot be parsed does.
fn selects(
    field: &str,
    selector: &LabelSelector,
    labels: &Labels,
    errors: &mut Vec<String>,
) -> bool {
    match Selector::try_from(selector.clone()) {
        Ok(selector) => selector.matches(labels),
        Err(error) => {
            let error = format!("{field}: {error}");
            if !errors.contains(&error) {
                errors.push(error);
            }
            true
        }
    }
}

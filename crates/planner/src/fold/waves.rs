//! Which waves of an environment's rollout select a target by the labels of its cluster.

use api::{
    Pipeline,
    pipeline::{ClusterReference, Wave},
};
use kube::core::{Selector, SelectorExt};

use crate::{observation::ClusterLabels, site::cluster_key};

/// The selectors of an environment's waves, parsed once for all its targets.
pub(super) struct WaveSelectors<'a> {
    namespace: &'a str,
    cluster_labels: &'a ClusterLabels,
    selectors: Vec<(i64, Selector)>,
}

impl<'a> WaveSelectors<'a> {
    /// Those of the settings for an environment. A selector that cannot be parsed selects nothing; the
    /// pipeline is then invalid.
    pub(super) fn of(
        pipeline: &'a Pipeline,
        environment: &str,
        cluster_labels: &'a ClusterLabels,
    ) -> Self {
        let settings = pipeline.spec.promotion_into(environment);
        let rollout = settings.and_then(|settings| settings.rollout.as_ref());
        let waves = rollout.into_iter().flat_map(|rollout| &rollout.waves);
        let parsed = |(number, wave): (i64, &Wave)| {
            let selector = Selector::try_from(wave.selector.clone()?).ok()?;
            Some((number, selector))
        };
        let namespace = pipeline.metadata.namespace.as_deref();
        Self {
            namespace: namespace.unwrap_or_default(),
            cluster_labels,
            selectors: (0..).zip(waves).filter_map(parsed).collect(),
        }
    }

    /// The numbers of the waves that select a target on this cluster. Without a cluster it is on the
    /// hub, which no selector matches.
    pub(super) fn matching(&self, cluster: Option<&ClusterReference>) -> Vec<i64> {
        let Some(cluster) = cluster.filter(|_| !self.selectors.is_empty()) else {
            return Vec::new();
        };
        let key = cluster_key(cluster, self.namespace);
        let Some(labels) = self.cluster_labels.get(&key) else {
            return Vec::new();
        };
        let selects = |(_, selector): &&(i64, Selector)| selector.matches(labels);
        let matching = self.selectors.iter().filter(selects);
        matching.map(|(number, _)| *number).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use api::pipeline::{Environment, PipelineSpec, PromotionSettings, Rollout};
    use serde_json::json;

    use super::*;

    /// The waves that select a cluster with this value of the label `ring`; without it, one that is not
    /// known, and without a name, the hub.
    fn matching(waves: serde_json::Value, cluster: Option<&str>, ring: Option<&str>) -> Vec<i64> {
        let rollout: Rollout = serde_json::from_value(json!({ "waves": waves })).expect("waves");
        let promotion = PromotionSettings {
            rollout: Some(rollout),
            ..PromotionSettings::default()
        };
        let environment = Environment {
            name: "prod".to_owned(),
            promotion: Some(promotion),
            ..Environment::default()
        };
        let spec = PipelineSpec {
            environments: vec![environment],
            ..PipelineSpec::default()
        };
        let mut pipeline = Pipeline::new("shop", spec);
        pipeline.metadata.namespace = Some("team".to_owned());
        let labels = ring.map(|ring| {
            let labels = BTreeMap::from([("ring".to_owned(), ring.to_owned())]);
            ("fleet.eu".to_owned(), labels)
        });
        let labels: ClusterLabels = labels.into_iter().collect();
        let cluster = cluster.map(|name| ClusterReference {
            name: name.to_owned(),
            namespace: Some("fleet".to_owned()),
            ..ClusterReference::default()
        });
        WaveSelectors::of(&pipeline, "prod", &labels).matching(cluster.as_ref())
    }

    #[test]
    fn waves_select_by_the_labels_of_the_cluster() {
        let waves = json!([
            {"selector": {"matchLabels": {"ring": "canary"}}},
            {"percent": 10},
            {"selector": {"matchExpressions": [
                {"key": "ring", "operator": "In", "values": ["canary", "early"]}]}},
            {"selector": {"matchExpressions": [{"key": "ring", "operator": "Odd"}]}},
            {"selector": {}},
        ]);
        for (cluster, ring, expected) in [
            (Some("eu"), Some("canary"), vec![0, 2, 4]),
            (Some("eu"), Some("early"), vec![2, 4]),
            (Some("eu"), Some("late"), vec![4]),
            (Some("us"), Some("canary"), vec![]),
            (Some("eu"), None, vec![]),
            (None, Some("canary"), vec![]),
        ] {
            let found = matching(waves.clone(), cluster, ring);
            assert_eq!(found, expected, "{cluster:?} {ring:?}");
        }
        assert!(matching(json!([{"percent": 10}]), Some("eu"), Some("canary")).is_empty());
    }
}

//! Targets that several pipelines promote into.
//!
//! Two pipelines that promote the same app in the same target undo each other's work: a revision that one of
//! them holds back can enter by the other. A target that one pipeline promotes into and another one only
//! observes, as in a chain of pipelines, is shared with good reason.

use std::collections::HashSet;

use api::{
    Pipeline,
    pipeline::{ClusterReference, TargetStatus, Track},
};

use crate::{hold::list, site::cluster_of_status, sources::receives_nothing};

/// An app in a target that a pipeline promotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromotedApp {
    /// The environment of the pipeline.
    pub environment: String,
    /// The namespace of the cluster, the cluster, the namespace, the kind and the name of the app, separated by
    /// slashes; the first two are empty on the hub.
    address: String,
    /// What the pipeline tracks of it, if not the whole app.
    track: Option<Track>,
}

impl PromotedApp {
    /// Names the app in its target.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Whether both change the same thing. Two images of one app are two things to promote.
    fn is_shared_with(&self, other: &Self) -> bool {
        let tracks = self.track.as_ref().zip(other.track.as_ref());
        self.address == other.address && tracks.is_none_or(|(own, other)| own == other)
    }

    /// The target, as people read it.
    fn target(&self) -> String {
        let parts: Vec<&str> = self.address.split('/').collect();
        match parts.as_slice() {
            [_, "", namespace, ..] => format!("namespace {namespace}"),
            [_, cluster, namespace, ..] => format!("{cluster}/{namespace}"),
            _ => self.address.clone(),
        }
    }
}

/// The apps that promotions of a pipeline change. Targets of a `clusterSelector` are known once the pipeline was
/// observed.
pub fn promoted_apps(pipeline: &Pipeline) -> Vec<PromotedApp> {
    let spec = &pipeline.spec;
    let Some(app) = &spec.app_ref else {
        return Vec::new();
    };
    let home = pipeline.metadata.namespace.as_deref().unwrap_or_default();
    let status = pipeline.status.as_ref();
    let environments = spec.environments.iter();
    let promoted = environments
        .filter(|it| !receives_nothing(spec, &it.name) && spec.promotion_into(&it.name).is_some());
    let (mut seen, mut all) = (HashSet::new(), Vec::new());
    for environment in promoted {
        let named = environment.targets.iter();
        let named = named.filter(|it| it.cluster_selector.is_none());
        let named = named.map(|it| (it.cluster_ref.as_ref(), it.namespace.as_str()));
        let observed = status.and_then(|it| it.environments.get(&environment.name));
        let observed = observed.into_iter().flat_map(|it| &it.targets);
        let observed = observed.filter_map(cluster_and_namespace);
        for (cluster, namespace) in named.chain(observed) {
            let cluster = cluster_address(cluster, home);
            let address = format!("{cluster}/{namespace}/{}/{}", app.kind, app.name);
            if seen.insert(address.clone()) {
                all.push(PromotedApp {
                    environment: environment.name.clone(),
                    address,
                    track: spec.track.clone(),
                });
            }
        }
    }
    all
}

fn cluster_and_namespace(target: &TargetStatus) -> Option<(Option<&ClusterReference>, &str)> {
    Some((cluster_of_status(target), target.namespace.as_deref()?))
}

fn cluster_address(cluster: Option<&ClusterReference>, home: &str) -> String {
    let Some(cluster) = cluster else {
        return "/".to_owned();
    };
    let namespace = cluster.namespace.as_deref().filter(|it| !it.is_empty());
    format!("{}/{}", namespace.unwrap_or(home), cluster.name)
}

/// What is said where another pipeline promotes apps of this one; nothing if it does not.
pub fn shared_target_warning(
    own: &[PromotedApp],
    other: &[PromotedApp],
    other_name: &str,
) -> Option<String> {
    let is_shared = |it: &&PromotedApp| other.iter().any(|other| it.is_shared_with(other));
    let shared: Vec<&PromotedApp> = own.iter().filter(is_shared).collect();
    let mut environments: Vec<&str> = shared.iter().map(|it| it.environment.as_str()).collect();
    environments.dedup();
    let targets: Vec<String> = shared.iter().map(|it| it.target()).collect();
    (!shared.is_empty()).then(|| {
        format!(
            "{}: {other_name} promotes the same app in {}; either can bring in a revision that the other one \
             holds back. Leave the target to one of them",
            list(&environments),
            list(&targets)
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// `dev - a > prod east b` has a target in namespace a on the hub, and one in b of the cluster east; nothing
    /// is promoted into the first environment.
    fn pipeline(namespace: &str, text: &str) -> Pipeline {
        let environments = text.split(" > ").map(|environment| {
            let [name, cluster, target] = environment.split(' ').collect::<Vec<_>>()[..] else {
                panic!("{environment}");
            };
            let mut target = json!({"namespace": target});
            if let Some((home, cluster)) = cluster.split_once('.') {
                target["clusterRef"] =
                    json!({"kind": "GitopsCluster", "name": cluster, "namespace": home});
            } else if cluster != "-" {
                target["clusterRef"] = json!({"kind": "GitopsCluster", "name": cluster});
            }
            json!({"name": name, "targets": [target]})
        });
        let strategy = json!({"pull-request": {
            "type": "github", "url": "https://forge.example/shop.git", "baseBranch": "main",
            "secretRef": {"name": "forge"},
        }});
        serde_json::from_value(json!({
            "metadata": {"name": "app", "namespace": namespace},
            "spec": {
                "appRef": {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "web"},
                "environments": environments.collect::<Vec<_>>(),
                "promotion": {"strategy": strategy},
            },
        }))
        .unwrap()
    }

    fn check(own: &str, other: (&str, &str), expected: Option<&str>) {
        let own = promoted_apps(&pipeline("shop", own));
        let other = promoted_apps(&pipeline(other.0, other.1));
        let warning = shared_target_warning(&own, &other, "the pipeline shop/other");
        let warning = warning.map(|it| it.split(';').next().unwrap().to_owned());
        assert_eq!(warning.as_deref(), expected);
    }

    #[test]
    fn two_pipelines_that_promote_into_a_target_are_told() {
        let own = "dev - a > prod east b";
        let expected = "prod: the pipeline shop/other promotes the same app in east/b";
        check(own, ("shop", "qa - x > live east b"), Some(expected));
        check(own, ("infra", "qa - x > live shop.east b"), Some(expected));
        check(own, ("infra", "qa - x > live east b"), None);
        check(own, ("shop", "qa - x > live west b"), None);
        check(own, ("shop", "qa - x > live east c"), None);
        let hub = "prod: the pipeline shop/other promotes the same app in namespace b";
        check(
            "dev - a > prod - b",
            ("shop", "qa - x > live - b"),
            Some(hub),
        );
    }

    #[test]
    fn a_target_that_the_other_one_only_observes_is_no_mistake() {
        let own = "dev - a > prod east b";
        check(own, ("shop", "dev - a > live east c"), None);
        check(own, ("shop", "first east b > second east c"), None);
    }

    #[test]
    fn targets_of_a_selector_count_once_they_were_observed() {
        let mut fleet = pipeline("shop", "dev - a > prod east b");
        fleet.spec.environments[1].targets[0].cluster_ref = None;
        fleet.spec.environments[1].targets[0].cluster_selector = Some(Default::default());
        assert_eq!(promoted_apps(&fleet), []);
        let target = json!({"namespace": "b", "clusterAppRef": {
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "web",
            "clusterRef": {"kind": "GitopsCluster", "name": "east"},
        }});
        let status = json!({"environments": {"prod": {"targets": [target]}}});
        fleet.status = serde_json::from_value(status).unwrap();
        let own = pipeline("shop", "dev - a > prod east b");
        assert_eq!(promoted_apps(&fleet), promoted_apps(&own));
    }
}

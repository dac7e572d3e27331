//! Objects that the spec of a pipeline names: whether they exist is looked up elsewhere, what that means is said
//! here.

use api::{Pipeline, pipeline::ClusterReference};

use crate::lint::{LintFinding, secrets_of, strategies_in_use};

/// An object that a spec names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedObject {
    /// A GitopsCluster.
    Cluster {
        /// Its namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
    /// The app in a target.
    App {
        /// Namespace and name of the GitopsCluster; nothing for the hub.
        cluster: Option<(String, String)>,
        /// Its namespace.
        namespace: String,
    },
    /// A Secret of a strategy.
    Secret {
        /// Its namespace, which is the pipeline's.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// What a look at an object found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Existence {
    /// It exists.
    Exists,
    /// It does not.
    Missing,
    /// The person who asks may not know; with the verb and resource that they need.
    NotAllowed(&'static str),
    /// It could not be read, and why.
    Unreadable(String),
}

/// The objects that a spec names, each once, with the first environment that names it. Targets of a
/// `clusterSelector` name no cluster.
pub fn named_objects(pipeline: &Pipeline) -> Vec<(Option<String>, NamedObject)> {
    let spec = &pipeline.spec;
    let home = pipeline.metadata.namespace.clone().unwrap_or_default();
    let mut all: Vec<(Option<String>, NamedObject)> = Vec::new();
    let mut add = |environment: &str, object: NamedObject| {
        if !all.iter().any(|(_, known)| *known == object) {
            all.push((Some(environment.to_owned()), object));
        }
    };
    for environment in &spec.environments {
        let targets = environment.targets.iter();
        for target in targets.filter(|it| it.cluster_selector.is_none()) {
            let cluster = target.cluster_ref.as_ref().map(|it| cluster_of(it, &home));
            if let Some((namespace, name)) = cluster.clone() {
                add(&environment.name, NamedObject::Cluster { namespace, name });
            }
            let namespace = target.namespace.clone();
            add(&environment.name, NamedObject::App { cluster, namespace });
        }
    }
    for (environment, strategy) in strategies_in_use(spec) {
        for name in secrets_of(strategy).into_iter().filter(|it| !it.is_empty()) {
            let secret = NamedObject::Secret {
                namespace: home.clone(),
                name: name.to_owned(),
            };
            add(environment, secret);
        }
    }
    all
}

fn cluster_of(cluster: &ClusterReference, home: &str) -> (String, String) {
    let namespace = cluster.namespace.as_deref().filter(|it| !it.is_empty());
    (namespace.unwrap_or(home).to_owned(), cluster.name.clone())
}

/// What to say about an object; nothing if it exists.
pub fn existence_finding(
    pipeline: &Pipeline,
    (environment, object): &(Option<String>, NamedObject),
    existence: &Existence,
) -> Option<LintFinding> {
    let name = name_of(pipeline, object);
    let text = match existence {
        Existence::Exists => return None,
        Existence::Missing => match object {
            NamedObject::Cluster { .. } => {
                format!("{name} does not exist: its targets cannot be read")
            }
            NamedObject::App { .. } => {
                format!("{name} does not exist: the target has nothing to promote")
            }
            NamedObject::Secret { .. } => {
                format!("{name} does not exist: promotions fail until it does")
            }
        },
        Existence::NotAllowed(right) => {
            format!("whether {name} exists was not checked: you may not {right}")
        }
        Existence::Unreadable(because) => {
            format!("whether {name} exists could not be checked: {because}")
        }
    };
    Some(LintFinding {
        is_error: false,
        text,
        environment: environment.clone(),
        field: String::new(),
    })
}

fn name_of(pipeline: &Pipeline, object: &NamedObject) -> String {
    match object {
        NamedObject::Cluster { namespace, name } => format!("the GitopsCluster {namespace}/{name}"),
        NamedObject::Secret { namespace, name } => format!("the Secret {namespace}/{name}"),
        NamedObject::App { cluster, namespace } => {
            let app = pipeline.spec.app_ref.as_ref();
            let app = app.map_or("the app".to_owned(), |app| {
                format!("the {} {namespace}/{}", app.kind, app.name)
            });
            match cluster {
                Some((_, cluster)) => format!("{app} on {cluster}"),
                None => format!("{app} on the hub"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pipeline() -> Pipeline {
        let east = json!({"kind": "GitopsCluster", "name": "east", "namespace": "infra"});
        let strategy = json!({"pull-request": {
            "type": "github", "url": "https://forge.example/shop.git", "baseBranch": "main",
            "secretRef": {"name": "forge"},
        }});
        serde_json::from_value(json!({
            "metadata": {"name": "app", "namespace": "shop"},
            "spec": {
                "appRef": {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "web"},
                "environments": [
                    {"name": "dev", "targets": [{"namespace": "dev"}, {"namespace": "x", "clusterSelector": {}}]},
                    {"name": "prod", "targets": [
                        {"namespace": "a", "clusterRef": east}, {"namespace": "b", "clusterRef": east},
                    ]},
                ],
                "promotion": {"strategy": strategy},
            },
        }))
        .unwrap()
    }

    #[test]
    fn what_a_spec_names_is_found_once() {
        let pipeline = pipeline();
        let all = named_objects(&pipeline);
        let told = all.iter().map(|(environment, object)| {
            let environment = environment.as_deref().unwrap_or("-");
            format!("{environment}: {}", name_of(&pipeline, object))
        });
        assert_eq!(
            told.collect::<Vec<_>>(),
            [
                "dev: the HelmRelease dev/web on the hub",
                "prod: the GitopsCluster infra/east",
                "prod: the HelmRelease a/web on east",
                "prod: the HelmRelease b/web on east",
                "prod: the Secret shop/forge",
            ]
        );
    }

    #[test]
    fn what_exists_is_not_mentioned() {
        let pipeline = pipeline();
        let all = named_objects(&pipeline);
        let said = |existence: Existence| {
            let found = existence_finding(&pipeline, &all[1], &existence);
            found.map(|it| it.text)
        };
        assert_eq!(said(Existence::Exists), None);
        for (existence, expected) in [
            (Existence::Missing, "infra/east does not exist: its targets"),
            (
                Existence::NotAllowed("list clusters"),
                "may not list clusters",
            ),
            (
                Existence::Unreadable("timed out".to_owned()),
                "checked: timed out",
            ),
        ] {
            let text = said(existence).unwrap();
            assert!(text.contains(expected), "{text}");
        }
    }
}

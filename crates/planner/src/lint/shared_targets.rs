//! Finds targets that two environments of a pipeline have, or that two pipelines promote into.

use std::collections::{BTreeMap, HashSet};

use api::{
    Pipeline,
    pipeline::{PipelineSpec, Target},
};

use super::LintFinding;
use crate::{
    hold::list,
    shared_targets::{PromotedApp, promoted_apps, shared_target_warning},
};

/// What is wrong with pipelines beside each other: the number of the pipeline that it is about, and the warning. Of
/// two that promote into one target it is the later one. Two of the same name are one object in two variants.
pub fn lint_together(pipelines: &[&Pipeline]) -> Vec<(usize, LintFinding)> {
    let all: Vec<_> = pipelines.iter().map(|it| promoted_apps(it)).collect();
    let mut found = Vec::new();
    for (number, pipeline) in pipelines.iter().enumerate() {
        for earlier in 0..number {
            let other = pipelines[earlier];
            if name_of(pipeline) == name_of(other) {
                continue;
            }
            let warning = conflict(&pipeline.spec, &all[number], other, &all[earlier]);
            found.extend(warning.map(|it| (number, it)));
        }
    }
    found
}

fn conflict(
    spec: &PipelineSpec,
    own: &[PromotedApp],
    other: &Pipeline,
    others: &[PromotedApp],
) -> Option<LintFinding> {
    let addresses: HashSet<&str> = others.iter().map(PromotedApp::address).collect();
    let first = own.iter().find(|it| addresses.contains(it.address()))?;
    let name = other.metadata.name.as_deref().unwrap_or_default();
    let namespace = other.metadata.namespace.as_deref().unwrap_or_default();
    let text = shared_target_warning(own, others, &format!("the pipeline {namespace}/{name}"))?;
    let mut environments = spec.environments.iter();
    let index = environments.position(|it| it.name == first.environment);
    Some(LintFinding {
        is_error: false,
        text,
        environment: Some(first.environment.clone()),
        field: format!("spec.environments[{}].targets", index.unwrap_or_default()),
    })
}

/// Two environments with the same target always run the same, so nothing moves between them.
pub(super) fn within(spec: &PipelineSpec) -> Vec<LintFinding> {
    let mut owners: BTreeMap<String, Vec<(&str, String)>> = BTreeMap::new();
    for (nth, environment) in spec.environments.iter().enumerate() {
        for (number, target) in environment.targets.iter().enumerate() {
            if let Some(target) = name_of_target(target) {
                let field = format!("spec.environments[{nth}].targets[{number}]");
                let owner = (environment.name.as_str(), field);
                owners.entry(target).or_default().push(owner);
            }
        }
    }
    let shared = owners.into_iter().filter(|(_, owners)| owners.len() > 1);
    shared
        .map(|(target, owners)| {
            let mut names: Vec<&str> = owners.iter().map(|(name, _)| *name).collect();
            names.dedup();
            LintFinding {
                is_error: names.len() > 1,
                environment: names.last().map(|name| (*name).to_owned()),
                text: match names.as_slice() {
                    [one] => format!("{one} has the target {target} twice"),
                    several => format!("{} have the same target {target}", list(several)),
                },
                field: owners
                    .into_iter()
                    .next_back()
                    .map(|it| it.1)
                    .unwrap_or_default(),
            }
        })
        .collect()
}

fn name_of(pipeline: &Pipeline) -> (Option<&String>, Option<&String>) {
    let metadata = &pipeline.metadata;
    (metadata.namespace.as_ref(), metadata.name.as_ref())
}

/// `CLUSTER/NAMESPACE`; nothing where labels choose the clusters.
fn name_of_target(target: &Target) -> Option<String> {
    if target.cluster_selector.is_some() {
        return None;
    }
    let Some(cluster) = &target.cluster_ref else {
        return Some(target.namespace.clone());
    };
    let home = cluster.namespace.as_deref().filter(|it| !it.is_empty());
    let home = home.map(|home| format!("{home}."));
    let cluster = format!("{}{}", home.unwrap_or_default(), cluster.name);
    Some(format!("{cluster}/{}", target.namespace))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A pipeline dev > prod; both targets are `CLUSTER/NAMESPACE` or `NAMESPACE`.
    fn pipeline(name: &str, dev: &str, prod: &str, more: &str) -> Pipeline {
        let (app, image) = more.split_once(' ').unwrap_or((more, ""));
        let target = |text: &str| match text.split_once('/') {
            Some((cluster, namespace)) => json!({
                "namespace": namespace, "clusterRef": {"kind": "GitopsCluster", "name": cluster},
            }),
            None => json!({"namespace": text}),
        };
        let commit = json!({"url": "https://git.example.com/a.git", "secretRef": {"name": "git"}});
        let mut pipeline = json!({
            "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Pipeline",
            "metadata": {"name": name, "namespace": "a"},
            "spec": {
                "appRef": {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": app},
                "environments": [
                    {"name": "dev", "targets": [target(dev)]},
                    {"name": "prod", "targets": [target(prod)], "promotion": {"strategy": {"commit": commit}}},
                ],
            },
        });
        if !image.is_empty() {
            pipeline["spec"]["track"] = json!({"image": image});
        }
        serde_json::from_value(pipeline).unwrap()
    }

    #[test]
    fn the_environment_with_the_shared_target_is_named() {
        let mut web = pipeline("web", "dev", "us/web", "web");
        let mut live = web.spec.environments[1].clone();
        live.name = "live".to_owned();
        live.targets = pipeline("b", "dev", "eu/web", "web").spec.environments[1]
            .targets
            .clone();
        web.spec.environments.push(live);
        let other = pipeline("b", "dev", "eu/web", "web");
        let found = lint_together(&[&other, &web]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].1.field, "spec.environments[2].targets");
        assert_eq!(found[0].1.environment.as_deref(), Some("live"));
    }

    #[test]
    fn targets_that_two_pipelines_promote_into_are_found() {
        let web = pipeline("web", "dev", "eu/web", "web");
        for (other, is_shared) in [
            (pipeline("b", "dev", "eu/web", "web"), true),
            (pipeline("b", "dev", "us/web", "web"), false),
            (pipeline("b", "dev", "eu/api", "web"), false),
            (pipeline("b", "dev", "eu/web", "api"), false),
            // The one goes on where the other ends.
            (pipeline("b", "eu/web", "us/web", "web"), false),
        ] {
            let found = lint_together(&[&web, &other]);
            assert_eq!(!found.is_empty(), is_shared, "{found:?}");
            for (number, finding) in found {
                assert_eq!((number, finding.is_error), (1, false));
                assert_eq!(finding.field, "spec.environments[1].targets");
            }
        }
        let image =
            |name: &str| pipeline(name, "dev", "eu/web", &format!("web example.com/{name}"));
        assert_eq!(lint_together(&[&image("one"), &image("other")]), []);
        let other = |name: &str| pipeline(name, "dev", "eu/web", "web");
        let all = lint_together(&[&web, &other("b"), &other("c")]);
        let numbers: Vec<usize> = all.into_iter().map(|(number, _)| number).collect();
        assert_eq!(numbers, [1, 2, 2]);
        assert_eq!(lint_together(&[&web, &web]), [], "variants of one pipeline");
    }
}

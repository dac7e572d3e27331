//! Compares pipelines with a cluster: whether the Secrets and GitopsClusters that they name exist, and what the
//! controller found out about their strategies, such as a token that may do too little.

use std::collections::{BTreeMap, BTreeSet};

use api::{GitopsCluster, Pipeline, pipeline::PreflightProblem};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, api::ListParams};
use planner::{CheckUrl, SECRET_MISSING, is_about_checks};
use serde_json::Value;

use super::{
    super::{cluster::key, cluster_error::cluster_error, yaml::YamlDocument},
    findings::Finding,
    lines::line_of,
};

/// Kinds that create a Secret of their own name.
const SECRET_KINDS: [&str; 3] = ["Secret", "SealedSecret", "ExternalSecret"];

/// Objects that a pipeline may name, by kind, namespace and name.
#[derive(Default)]
pub(super) struct ExistingObjects {
    known: BTreeSet<(&'static str, String, String)>,
    /// The pipelines of the cluster.
    pipelines: Vec<Pipeline>,
    /// Kinds that the caller may not list.
    pub(super) unreadable: Vec<String>,
}

impl ExistingObjects {
    /// The Secrets, GitopsClusters and Pipelines of the cluster that the caller may list.
    pub(super) async fn read(client: &Client) -> anyhow::Result<Self> {
        let mut existing = Self::default();
        let secrets: Api<Secret> = Api::all(client.clone());
        existing.extend(
            "Secret",
            secrets.list_metadata(&ListParams::default()).await,
        )?;
        let clusters: Api<GitopsCluster> = Api::all(client.clone());
        existing.extend(
            "GitopsCluster",
            clusters.list_metadata(&ListParams::default()).await,
        )?;
        let pipelines: Api<Pipeline> = Api::all(client.clone());
        match pipelines.list(&ListParams::default()).await {
            Ok(listed) => existing.pipelines = listed.items,
            // Without the CRDs there are none.
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            Err(kube::Error::Api(status)) if status.code == 403 => {
                let text = "which Pipelines share a target, and what the controller found out about each: you may not list them";
                existing.unreadable.push(text.to_owned());
            }
            Err(error) => return Err(cluster_error("list the Pipelines", error)),
        }
        Ok(existing)
    }

    fn extend<K: Clone>(
        &mut self,
        kind: &'static str,
        listed: kube::Result<kube::core::ObjectList<kube::core::PartialObjectMeta<K>>>,
    ) -> anyhow::Result<()> {
        match listed {
            Ok(listed) => self.known.extend(listed.items.into_iter().map(|object| {
                let metadata = object.metadata;
                let namespace = metadata.namespace.unwrap_or_default();
                (kind, namespace, metadata.name.unwrap_or_default())
            })),
            Err(kube::Error::Api(status)) if status.code == 403 => {
                let text = format!("whether each {kind} exists: you may not list them");
                self.unreadable.push(text);
            }
            Err(error) => return Err(cluster_error(&format!("list the {kind}s"), error)),
        }
        Ok(())
    }

    /// Adds an object of a manifest that is being checked.
    pub(super) fn add(&mut self, value: &Value, default_namespace: &str) {
        let kind = match value["kind"].as_str() {
            Some("GitopsCluster") => "GitopsCluster",
            Some(kind) if SECRET_KINDS.contains(&kind) => "Secret",
            _ => return,
        };
        let metadata = &value["metadata"];
        let namespace = metadata["namespace"].as_str().unwrap_or(default_namespace);
        let name = metadata["name"].as_str().unwrap_or_default();
        self.known
            .insert((kind, namespace.to_owned(), name.to_owned()));
    }

    /// The pipelines of the cluster that are not among those that are checked.
    pub(super) fn other_pipelines(&self, checked: &[&Pipeline]) -> Vec<&Pipeline> {
        let is_checked = |it: &&Pipeline| checked.iter().any(|other| key(other) == key(it));
        let pipelines = self.pipelines.iter();
        pipelines.filter(|it| !is_checked(it)).collect()
    }

    fn lacks(&self, kind: &'static str, namespace: &str, name: &str) -> bool {
        let is_readable = !self.unreadable.iter().any(|it| it.contains(kind));
        is_readable
            && !self
                .known
                .contains(&(kind, namespace.to_owned(), name.to_owned()))
    }
}

/// The Secrets and GitopsClusters that a pipeline names and that do not exist.
pub(super) fn check(
    pipeline: &Pipeline,
    document: &YamlDocument,
    existing: &ExistingObjects,
) -> Vec<Finding> {
    let (namespace, _) = key(pipeline);
    let mut findings = missing_secrets(pipeline, namespace, document, existing);
    findings.extend(found_by_controller(pipeline, document, existing));
    for (index, environment) in pipeline.spec.environments.iter().enumerate() {
        for (target_index, target) in environment.targets.iter().enumerate() {
            let Some(cluster) = &target.cluster_ref else {
                continue;
            };
            let home = cluster.namespace.as_deref().filter(|it| !it.is_empty());
            let home = home.unwrap_or(namespace);
            if existing.lacks("GitopsCluster", home, &cluster.name) {
                let field =
                    format!("spec.environments[{index}].targets[{target_index}].clusterRef");
                let name = &cluster.name;
                let text = format!("there is no GitopsCluster {home}/{name}");
                findings.push(Finding::of_field(document, &field, (false, text)));
            }
        }
    }
    findings
}

/// What the controller found out about strategies and checks that are the same on the cluster.
fn found_by_controller(
    pipeline: &Pipeline,
    document: &YamlDocument,
    existing: &ExistingObjects,
) -> Vec<Finding> {
    let mut live = existing.pipelines.iter();
    let Some(live) = live.find(|it| key(it) == key(pipeline)) else {
        return Vec::new();
    };
    let status = live.status.clone().unwrap_or_default();
    let in_use = planner::strategies_in_use(&live.spec);
    let mut strategies = planner::strategies_in_use(&pipeline.spec);
    strategies.retain(|it| in_use.contains(it));
    let name = &key(pipeline).1;
    let [in_file, on_cluster] =
        [&pipeline.spec, &live.spec].map(|spec| planner::check_urls(name, spec));
    let has_same_checks = |environment: &str| {
        let is_own = |it: &&CheckUrl<'_>| it.environment == environment;
        let in_file = in_file.iter().filter(is_own);
        in_file.eq(on_cluster.iter().filter(is_own))
    };
    let is_same = |environment: &str, problem: &PreflightProblem| match problem.reason.as_str() {
        // Missing Secrets are reported already.
        SECRET_MISSING => false,
        _ if is_about_checks(problem) => has_same_checks(environment),
        _ => strategies.iter().any(|(name, _)| *name == environment),
    };
    let found = status.preflight.iter();
    let found = found.filter(|(environment, it)| is_same(environment, it));
    let finding = |(environment, problem): (&String, &PreflightProblem)| {
        let message = &problem.message;
        let text = format!("the controller found for {environment}: {message}");
        Finding::warning(line_of(document, "spec"), text)
    };
    found.map(finding).collect()
}

fn missing_secrets(
    pipeline: &Pipeline,
    namespace: &str,
    document: &YamlDocument,
    existing: &ExistingObjects,
) -> Vec<Finding> {
    let mut missing: BTreeMap<&str, String> = BTreeMap::new();
    for (environment, strategy) in planner::strategies_in_use(&pipeline.spec) {
        for name in planner::secrets_of(strategy) {
            let field = || strategy_field(pipeline, environment);
            missing.entry(name).or_insert_with(field);
        }
    }
    let missing = missing.into_iter();
    let missing = missing.filter(|(name, _)| existing.lacks("Secret", namespace, name));
    missing
        .map(|(name, field)| {
            let text = format!("there is no Secret {namespace}/{name}");
            Finding::of_field(document, &field, (false, text))
        })
        .collect()
}

/// The field with the strategy of an environment: its own, or the pipeline's.
fn strategy_field(pipeline: &Pipeline, environment: &str) -> String {
    let mut environments = pipeline.spec.environments.iter();
    let own = environments.position(|it| it.name == environment && it.promotion.is_some());
    match own {
        Some(index) => format!("spec.environments[{index}].promotion.strategy"),
        None => "spec.promotion.strategy".to_owned(),
    }
}

//! What the promotions of a pipeline need: its settings, Secrets, repositories and clusters.

use std::collections::{BTreeMap, BTreeSet};

use api::{
    GitopsCluster, Pipeline, conditions,
    pipeline::{PipelineStatus, STRATEGY_READY, TargetProblem},
};
use k8s_openapi::api::core::v1::Secret;
use planner::is_about_checks;

use super::{
    super::{
        cluster::{Cluster, key},
        cluster_error::cluster_error,
    },
    Check,
};

pub(super) async fn check(cluster: &Cluster, pipeline: &Pipeline) -> anyhow::Result<Vec<Check>> {
    let (namespace, name) = key(pipeline);
    let subject = format!("pipeline {namespace}/{name}");
    let mut checks = settings(pipeline, &subject);
    checks.extend(observed(pipeline, &subject));
    checks.extend(strategies(cluster, pipeline, &subject).await?);
    checks.extend(clusters(cluster, pipeline).await?);
    if checks.is_empty() {
        checks.push(Check::passed(
            subject,
            "settings, credentials and clusters are usable",
        ));
    }
    Ok(checks)
}

/// Settings that cannot work.
fn settings(pipeline: &Pipeline, subject: &str) -> Vec<Check> {
    let findings = planner::lint(&pipeline.spec).into_iter();
    findings
        .map(|finding| match finding.is_error {
            true => Check::failed(subject, finding.text),
            false => Check::warning(subject, finding.text),
        })
        .collect()
}

/// Whether the controller reads the pipeline and its targets.
fn observed(pipeline: &Pipeline, subject: &str) -> Vec<Check> {
    let status = pipeline.status.clone().unwrap_or_default();
    let generation = pipeline.metadata.generation;
    if status.observed_generation.is_none() || status.observed_generation < generation {
        let text = "the controller has not reconciled it; is it running, and does it watch this namespace?";
        return vec![Check::failed(subject, text)];
    }
    let environments = status.environments.iter();
    let targets = environments.flat_map(|(name, it)| it.targets.iter().map(move |it| (name, it)));
    let unreadable = targets.filter(|(_, target)| {
        // Clusters are checked by themselves; what is read later is no problem.
        !matches!(
            target.problem,
            None | Some(TargetProblem::NotSynced | TargetProblem::ClusterMissing)
        )
    });
    unreadable
        .map(|(name, target)| {
            let error = target.error.as_deref().unwrap_or("cannot be read");
            let target = planner::target_name(target);
            Check::failed(format!("{subject}, target {target} of {name}"), error)
        })
        .collect()
}

/// The Secrets, repositories and forges: what the controller found, and Secrets that do not exist yet.
async fn strategies(
    cluster: &Cluster,
    pipeline: &Pipeline,
    subject: &str,
) -> anyhow::Result<Vec<Check>> {
    let status = pipeline.status.clone().unwrap_or_default();
    let mut checks = Vec::new();
    for (environment, problem) in &status.preflight {
        let what = match is_about_checks(problem) {
            true => "checks of",
            false => "promotions into",
        };
        let subject = format!("{subject}, {what} {environment}");
        let text = format!("{} [{}]", problem.message, problem.reason);
        let is_over = problem.reason == planner::SECRET_MISSING
            && has_secrets(cluster, pipeline, environment).await;
        checks.push(match is_over {
            true => Check::warning(subject, format!("{LOOKS_AGAIN}: {text}")),
            false => Check::failed(subject, text),
        });
    }
    if !status.preflight.values().all(is_about_checks) {
        return Ok(checks);
    }
    let condition = conditions::find(&status.conditions, STRATEGY_READY);
    if let Some(condition) = condition.filter(|_| checks.is_empty()) {
        return Ok(vec![Check::failed(subject, condition.message.clone())]);
    }
    checks.extend(not_checked(&status, subject));
    for (secret, environments) in secrets(pipeline) {
        checks.extend(missing_secret(cluster, pipeline, secret, &environments).await?);
    }
    Ok(checks)
}

/// What is said about a Secret that was created since the controller looked for it.
const LOOKS_AGAIN: &str =
    "the Secret exists by now, and the controller looks again within a minute";

/// Whether all Secrets of promotions into an environment exist.
async fn has_secrets(cluster: &Cluster, pipeline: &Pipeline, environment: &str) -> bool {
    let api = cluster.api::<Secret>(key(pipeline).0);
    for (secret, environments) in secrets(pipeline) {
        let is_needed = environments.contains(&environment);
        if is_needed && !matches!(api.get_metadata_opt(secret).await, Ok(Some(_))) {
            return false;
        }
    }
    true
}

/// What the controller could not find out, where a forge does not tell what a token may do, and what
/// promotions do without.
fn not_checked(status: &PipelineStatus, subject: &str) -> impl Iterator<Item = Check> {
    let findings = status.not_checked.iter();
    findings.map(move |(environment, finding)| {
        let text = format!("{} [{}]", finding.message, finding.reason);
        Check::warning(format!("{subject}, promotions into {environment}"), text)
    })
}

/// The Secrets of the strategies in use, and the environments that need each.
fn secrets(pipeline: &Pipeline) -> BTreeMap<&str, Vec<&str>> {
    let mut secrets: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (environment, strategy) in planner::strategies_in_use(&pipeline.spec) {
        for secret in planner::secrets_of(strategy) {
            secrets.entry(secret).or_default().push(environment);
        }
    }
    secrets
}

async fn missing_secret(
    cluster: &Cluster,
    pipeline: &Pipeline,
    secret: &str,
    environments: &[&str],
) -> anyhow::Result<Option<Check>> {
    let (namespace, name) = key(pipeline);
    let subject = format!("Secret {namespace}/{secret}");
    match cluster
        .api::<Secret>(namespace)
        .get_metadata_opt(secret)
        .await
    {
        Ok(Some(_)) => Ok(None),
        Ok(None) => {
            let environments = environments.join(", ");
            let text = format!("does not exist; promotions of {name} into {environments} need it");
            Ok(Some(Check::failed(subject, text)))
        }
        Err(kube::Error::Api(status)) if status.code == 403 => {
            let text = "not checked: you may not read it; the controller reports what it finds";
            Ok(Some(Check::warning(subject, text)))
        }
        Err(error) => Err(cluster_error(&format!("read {subject}"), error)),
    }
}

/// The GitopsClusters that the pipeline names.
async fn clusters(cluster: &Cluster, pipeline: &Pipeline) -> anyhow::Result<Vec<Check>> {
    let (own, _) = key(pipeline);
    let targets = pipeline.spec.environments.iter().flat_map(|it| &it.targets);
    let named: BTreeSet<(&str, &str)> = targets
        .filter_map(|target| {
            let reference = target.cluster_ref.as_ref()?;
            let home = reference.namespace.as_deref().filter(|it| !it.is_empty());
            Some((home.unwrap_or(own), reference.name.as_str()))
        })
        .collect();
    let mut checks = Vec::new();
    for (namespace, name) in named {
        let subject = format!("GitopsCluster {namespace}/{name}");
        let found = cluster.api::<GitopsCluster>(namespace).get_opt(name).await;
        match found {
            Ok(None) => {
                let text = "does not exist; create it, or correct the clusterRef of the pipeline";
                checks.push(Check::failed(subject, text));
            }
            Ok(Some(found)) => checks.extend(unready(&found, &subject)),
            Err(kube::Error::Api(status)) if status.code == 403 => {
                checks.push(Check::warning(subject, "not checked: you may not read it"));
            }
            Err(error) => return Err(cluster_error(&format!("read {subject}"), error)),
        }
    }
    Ok(checks)
}

fn unready(cluster: &GitopsCluster, subject: &str) -> Option<Check> {
    let status = cluster.status.clone().unwrap_or_default();
    let types = [conditions::READY, api::cluster::CONNECTIVITY];
    let mut found = types
        .iter()
        .filter_map(|it| conditions::find(&status.conditions, it));
    let wrong = found.find(|condition| condition.status == "False")?;
    Some(Check::failed(subject, wrong.message.clone()))
}

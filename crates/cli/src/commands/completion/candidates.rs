//! The candidates for the last word of a command line: commands, flags, fixed values, and names of objects on
//! the cluster.
//!
//! A cluster that does not respond in time has no candidates.

use std::{collections::BTreeSet, time::Duration};

use api::{Pipeline, pipeline::EnvironmentStatus};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, ResourceExt,
    api::{DynamicObject, ListParams},
    config::Kubeconfig,
};

use super::{
    super::{
        cluster::{Cluster, ClusterFlags},
        get::{kind_names, resource_named},
        rollout::skippable,
    },
    command_line::{CommandLine, Expected},
};

/// How long the cluster may take to answer.
const TIMEOUT: Duration = Duration::from_secs(2);

/// The candidates that begin with the current word.
pub(super) async fn of(line: &CommandLine<'_>) -> BTreeSet<String> {
    let all = match line.expected() {
        Expected::Nothing => BTreeSet::new(),
        Expected::Subcommand => subcommands(line),
        Expected::Flag => flags(line),
        Expected::Value(arg) => values(line, arg).await,
    };
    let begins = |candidate: &String| candidate.starts_with(&line.current);
    all.into_iter().filter(begins).collect()
}

fn subcommands(line: &CommandLine<'_>) -> BTreeSet<String> {
    let commands = line.command.get_subcommands();
    let shown = commands.filter(|it| !it.is_hide_set() && it.get_name() != "help");
    shown.map(|command| command.get_name().to_owned()).collect()
}

fn flags(line: &CommandLine<'_>) -> BTreeSet<String> {
    let flags = line.arguments().filter(|arg| !arg.is_hide_set());
    let long = flags.filter_map(|arg| arg.get_long());
    long.map(|name| format!("--{name}")).collect()
}

async fn values(line: &CommandLine<'_>, arg: &clap::Arg) -> BTreeSet<String> {
    let fixed: BTreeSet<String> = arg
        .get_possible_values()
        .iter()
        .filter(|value| !value.is_hide_set())
        .map(|value| value.get_name().to_owned())
        .collect();
    if !fixed.is_empty() {
        return fixed;
    }
    let id = arg.get_id().as_str();
    if id == "context" {
        return contexts(line);
    }
    if id == "objects" && line.positionals.is_empty() && !line.current.contains('/') {
        return kind_names().into_iter().map(str::to_owned).collect();
    }
    let found = tokio::time::timeout(TIMEOUT, on_cluster(line, id)).await;
    found.ok().flatten().unwrap_or_default()
}

/// Names of objects on the cluster, by the name of the argument.
async fn on_cluster(line: &CommandLine<'_>, id: &str) -> Option<BTreeSet<String>> {
    let cluster = connect(line).await?;
    match id {
        "pipeline" => pipelines(&cluster, &line.current).await,
        "namespace" => namespaces(&cluster).await,
        "objects" => objects(&cluster, line).await,
        "skip" => skippable_targets(&cluster, line).await,
        "environment" | "environments" | "named_environments" | "revision" | "named_revision" => {
            let pipeline = line.positionals.first()?;
            let pipeline = cluster.pipeline(pipeline).await.ok()?;
            Some(match id {
                "revision" | "named_revision" => revisions(&pipeline),
                _ => environments(&pipeline),
            })
        }
        _ => None,
    }
}

async fn connect(line: &CommandLine<'_>) -> Option<Cluster> {
    let flag = |name: &str| line.flags.get(name).cloned();
    let flags = ClusterFlags {
        kubeconfig: flag("kubeconfig").map(Into::into),
        context: flag("context"),
        as_user: flag("as_user"),
        as_group: flag("as_group").into_iter().collect(),
        namespace: flag("namespace"),
    };
    flags.connect().await.ok()
}

/// The pipelines of the namespace, or of the one before the slash.
async fn pipelines(cluster: &Cluster, current: &str) -> Option<BTreeSet<String>> {
    let (namespace, prefix) = match current.split_once('/') {
        Some((namespace, _)) => (namespace, format!("{namespace}/")),
        None => (cluster.namespace.as_str(), String::new()),
    };
    let pipelines = cluster.api::<Pipeline>(namespace);
    let list = pipelines.list_metadata(&ListParams::default()).await.ok()?;
    let names = list
        .items
        .iter()
        .map(|it| format!("{prefix}{}", it.name_any()));
    Some(names.collect())
}

async fn namespaces(cluster: &Cluster) -> Option<BTreeSet<String>> {
    let namespaces: Api<Namespace> = Api::all(cluster.client.clone());
    let list = namespaces
        .list_metadata(&ListParams::default())
        .await
        .ok()?;
    Some(list.items.iter().map(ResourceExt::name_any).collect())
}

/// The objects of the kind that `get` was told: `pipelines web` or `pipeline/web`.
async fn objects(cluster: &Cluster, line: &CommandLine<'_>) -> Option<BTreeSet<String>> {
    let (kind, prefix) = match line.current.split_once('/') {
        Some((kind, _)) => (kind, format!("{kind}/")),
        None => (line.positionals.first()?.as_str(), String::new()),
    };
    let resource = resource_named(kind)?;
    let client = cluster.client.clone();
    let api: Api<DynamicObject> = Api::namespaced_with(client, &cluster.namespace, &resource);
    let list = api.list_metadata(&ListParams::default()).await.ok()?;
    let names = list
        .items
        .iter()
        .map(|it| format!("{prefix}{}", it.name_any()));
    Some(names.collect())
}

/// The targets that the rollout into the environment can go on without.
async fn skippable_targets(cluster: &Cluster, line: &CommandLine<'_>) -> Option<BTreeSet<String>> {
    let [pipeline, environment, ..] = line.positionals.as_slice() else {
        return None;
    };
    let pipeline = cluster.pipeline(pipeline).await.ok()?;
    let promotions = cluster.promotions(&pipeline).await.ok()?;
    let now = jiff::Timestamp::now();
    let view = planner::rollout_view(&pipeline, &promotions, environment, now)?;
    Some(skippable(&view).map(|it| it.target.clone()).collect())
}

fn environments(pipeline: &Pipeline) -> BTreeSet<String> {
    let environments = pipeline.spec.environments.iter();
    environments.map(|it| it.name.clone()).collect()
}

/// The revisions that are known of a pipeline: what runs, what ran, and what its source proposes.
fn revisions(pipeline: &Pipeline) -> BTreeSet<String> {
    let Some(status) = &pipeline.status else {
        return BTreeSet::new();
    };
    let proposal = status.proposal.as_ref();
    let proposed = proposal.and_then(|it| it.version.clone().or(it.revision.clone()));
    let seen = status.environments.values().flat_map(revisions_of);
    proposed.into_iter().chain(seen).collect()
}

fn revisions_of(status: &EnvironmentStatus) -> Vec<String> {
    let running = status.targets.iter();
    let running = running.filter_map(|it| it.version.clone().or(it.revision.clone()));
    running
        .chain(status.ran_revisions().map(str::to_owned))
        .collect()
}

fn contexts(line: &CommandLine<'_>) -> BTreeSet<String> {
    let kubeconfig = match line.flags.get("kubeconfig") {
        Some(file) => Kubeconfig::read_from(file),
        None => Kubeconfig::read(),
    };
    let contexts = kubeconfig.map(|it| it.contexts).unwrap_or_default();
    contexts.into_iter().map(|context| context.name).collect()
}

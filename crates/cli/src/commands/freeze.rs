//! `sluice freeze` and `sluice thaw`: stop promotions with a Freeze, and let them go on.

use std::io::Write;

use anyhow::{Context, bail};
use api::{
    Freeze, Pipeline, Time,
    freeze::FreezeSpec,
    names::{AUTHOR_ANNOTATION, STOP_LABEL, stop_name},
    pipeline::CoveringFreeze,
};
use jiff::Timestamp;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use planner::FreezeScope;
use serde_json::json;

use super::{
    cluster::{Cluster, ClusterFlags, FIELD_MANAGER, key, require_environment},
    cluster_error::cluster_error,
    format::closest_name,
    point_in_time::PointInTime,
    terminal::clean,
};

#[derive(Debug, clap::Args)]
pub(crate) struct FreezeScopeArguments {
    /// Pipeline, as NAME or NAMESPACE/NAME
    #[arg(required_unless_present = "all", conflicts_with = "all")]
    pipeline: Option<String>,
    /// Only these environments [default: all]
    #[arg(value_name = "ENVIRONMENT")]
    environments: Vec<String>,
    /// All pipelines of the namespace; in the controller's own namespace, those of all namespaces
    #[arg(long)]
    all: bool,
    /// Only this environment, also with --all; can be repeated
    #[arg(long = "environment", short = 'e', value_name = "NAME")]
    named_environments: Vec<String>,
    #[command(flatten)]
    connection: ClusterFlags,
}

#[derive(Debug, clap::Args)]
pub(crate) struct FreezeArguments {
    /// The reason that is shown wherever a promotion waits for it
    #[arg(long, alias = "note", default_value = "stopped with sluice freeze")]
    reason: String,
    /// When it ends: a time such as 2026-12-24T18:00:00Z, or a duration such as 2h [default: when
    /// `sluice thaw` ends it]
    #[arg(long, alias = "for", value_name = "TIME")]
    until: Option<PointInTime>,
    #[command(flatten)]
    scope: FreezeScopeArguments,
}

/// When a freeze ends, which is in the future.
fn end_of(until: PointInTime, now: Timestamp) -> anyhow::Result<Time> {
    let time = until.time(now).context("--until is too far away")?;
    if time <= now {
        bail!("--until is in the past");
    }
    Ok(Time(Timestamp::from_second(time.as_second())?))
}

/// What a command is about, read from the cluster.
struct Stop {
    cluster: Cluster,
    namespace: String,
    pipeline: Option<Pipeline>,
    environments: Vec<String>,
}

impl Stop {
    async fn of(scope: &FreezeScopeArguments) -> anyhow::Result<Self> {
        let cluster = scope.connection.connect().await?;
        let (mut namespace, mut found) = (cluster.namespace.clone(), None);
        let mut environments = [scope.environments.as_slice(), &scope.named_environments].concat();
        if let Some(typed) = &scope.pipeline {
            let pipeline = cluster.pipeline(typed).await?;
            for environment in &environments {
                require_environment(&pipeline, environment)?;
            }
            // In whatever order they are typed, it is the same Freeze.
            let known = pipeline.spec.environments.iter().map(|it| it.name.clone());
            environments = known.filter(|it| environments.contains(it)).collect();
            key(&pipeline).0.clone_into(&mut namespace);
            found = Some(pipeline);
        }
        Ok(Self {
            cluster,
            namespace,
            pipeline: found,
            environments,
        })
    }

    fn pipeline_name(&self) -> Option<&str> {
        self.pipeline.as_ref().map(|pipeline| key(pipeline).1)
    }

    fn api(&self) -> Api<Freeze> {
        self.cluster.api(&self.namespace)
    }

    /// Fails if no pipeline has one of the environments: the Freeze would stop nothing.
    async fn check_environments(&self) -> anyhow::Result<()> {
        if self.environments.is_empty() || self.pipeline.is_some() {
            return Ok(());
        }
        let list = async |everywhere: bool| {
            let api = self.cluster.api_in::<Pipeline>(everywhere);
            api.list(&ListParams::default()).await
        };
        let own = list(false).await;
        let own = own.map_err(|error| cluster_error("list the pipelines", error))?;
        if planner::unknown_environment(&self.environments, &own.items).is_none() {
            return Ok(());
        }
        // In the namespace of the controller a Freeze covers all namespaces. Without the right to list
        // these, nothing can be checked.
        let Ok(all) = list(true).await else {
            return Ok(());
        };
        let Some(unknown) = planner::unknown_environment(&self.environments, &all.items) else {
            return Ok(());
        };
        let close = closest_name(unknown, environment_names(&all.items));
        let hint = close.map(|close| format!(": did you mean {}?", clean(close)));
        bail!(
            "no pipeline has an environment {unknown}{}",
            hint.unwrap_or_default()
        )
    }

    /// `prod of podinfo`, `podinfo`, `prod of all pipelines of default`.
    fn description(&self) -> String {
        let pipelines = match self.pipeline_name() {
            Some(pipeline) => pipeline.to_owned(),
            None => format!("all pipelines of namespace {}", self.namespace),
        };
        match self.environments.as_slice() {
            [] => pipelines,
            environments => format!("{} of {pipelines}", environments.join(", ")),
        }
    }

    /// Whether `sluice thaw` for this scope ends a Freeze.
    fn ends(&self, freeze: &Freeze) -> bool {
        let spec = &freeze.spec;
        let names = spec.pipelines.iter().map(String::as_str);
        let is_same = names.eq(self.pipeline_name());
        let is_in = |name: &String| self.environments.contains(name);
        let is_named = self.environments.is_empty() || !spec.environments.is_empty();
        is_same && is_named && (self.environments.is_empty() || spec.environments.iter().all(is_in))
    }
}

impl Stop {
    /// By which other Freezes than the deleted ones the pipeline is frozen, and what ends that, as a clause. Without
    /// the right to list them, nothing is said.
    async fn frozen_otherwise(&self, deleted: &[String]) -> Option<String> {
        let (pipeline, now) = (self.pipeline.as_ref()?, Timestamp::now());
        let model = pipeline.status.clone().unwrap_or_default();
        let mut listed = self.api().list(&ListParams::default()).await.ok()?.items;
        listed.retain(|it| !deleted.contains(&it.name_any()));
        let scope = FreezeScope {
            freeze_namespace: None,
            namespace_labels: None,
            cluster_labels: &|_, _| None,
        };
        let mut covering = planner::covering_freezes(pipeline, &model, &listed, &scope, now);
        // The status knows those of the controller's namespace, and which clusters the others select.
        let own: Vec<String> = covering.iter().map(|it| it.name.clone()).collect();
        let is_missed = |it: &CoveringFreeze| match it.namespace {
            Some(_) => true,
            None => !own.contains(&it.name) && listed.iter().any(|one| one.name_any() == it.name),
        };
        covering.extend(model.freezes.into_iter().filter(is_missed));
        planner::frozen_and_removal(pipeline, &covering, &self.environments, now)
    }
}

fn environment_names(pipelines: &[Pipeline]) -> impl Iterator<Item = &str> {
    let environments = pipelines.iter().flat_map(|it| &it.spec.environments);
    environments.map(|it| it.name.as_str())
}

/// `until 2026-12-24T18:00:00Z`.
fn end(until: Option<&Time>) -> String {
    match until {
        Some(until) => format!("until {}", until.0),
        None => "until `sluice thaw`".to_owned(),
    }
}

pub(super) async fn freeze(arguments: &FreezeArguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let stop = Stop::of(&arguments.scope).await?;
    stop.check_environments().await?;
    let until = arguments.until.map(|it| end_of(it, Timestamp::now()));
    let until = until.transpose()?;
    let spec = FreezeSpec {
        reason: arguments.reason.clone(),
        pipelines: stop
            .pipeline_name()
            .map(str::to_owned)
            .into_iter()
            .collect(),
        environments: stop.environments.clone(),
        not_after: until.clone(),
        ..FreezeSpec::default()
    };
    let name = stop_name(stop.pipeline_name(), &stop.environments);
    let mut freeze = Freeze::new(&name, spec);
    freeze.metadata.labels = Some([(STOP_LABEL.to_owned(), "true".to_owned())].into());
    // Without the right to ask, the freeze is more important than its author.
    let author = stop.cluster.caller().await.ok();
    let author = author.map(|name| (AUTHOR_ANNOTATION.to_owned(), name));
    freeze.metadata.annotations = author.map(|author| [author].into());
    let what = stop.description();
    let freezes = stop.api();
    let failed = |error| cluster_error(&format!("freeze {what}"), error);
    let before = freezes.get_opt(&name).await.map_err(failed)?;
    if let Some(before) = before.filter(|it| planner::weakens_freeze(&it.spec, &freeze.spec)) {
        let FreezeSpec {
            reason, not_after, ..
        } = &before.spec;
        bail!(
            "{what} is frozen already {}: {}; end that with `sluice thaw` first",
            end(not_after.as_ref()),
            clean(reason)
        );
    }
    let replaced = write(&freezes, &freeze).await.map_err(failed)?;
    writeln!(
        out,
        "froze {what} {}: nothing is pushed, opened, merged or sent, except rollbacks",
        end(until.as_ref())
    )?;
    if let Some(FreezeSpec {
        reason, not_after, ..
    }) = replaced
    {
        let before = end(not_after.as_ref());
        writeln!(out, "this replaces the freeze {before}: {}", clean(&reason))?;
    }
    writeln!(out, "freeze {name} in namespace {}", stop.namespace)?;
    Ok(())
}

/// Creates the Freeze, or updates the one there is; returns the spec that it replaced.
async fn write(freezes: &Api<Freeze>, freeze: &Freeze) -> kube::Result<Option<FreezeSpec>> {
    let parameters = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    match freezes.create(&parameters, freeze).await {
        Err(kube::Error::Api(refusal)) if refusal.is_already_exists() => {}
        created => return created.map(|_| None),
    }
    let name = freeze.name_any();
    let before = freezes.get(&name).await?;
    let spec = json!({"reason": freeze.spec.reason, "notAfter": freeze.spec.not_after});
    let metadata = json!({"annotations": freeze.metadata.annotations});
    let patch = Patch::Merge(json!({"metadata": metadata, "spec": spec}));
    let parameters = PatchParams::apply(FIELD_MANAGER);
    freezes.patch(&name, &parameters, &patch).await?;
    Ok(Some(before.spec))
}

pub(super) async fn thaw(scope: &FreezeScopeArguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let stop = Stop::of(scope).await?;
    let what = stop.description();
    let parameters = ListParams::default().labels(&format!("{STOP_LABEL}=true"));
    let list = stop.api().list(&parameters).await;
    let list = list.map_err(|error| cluster_error("list the freezes", error))?;
    let ended: Vec<_> = list.items.into_iter().filter(|it| stop.ends(it)).collect();
    if ended.is_empty() {
        match stop.frozen_otherwise(&[]).await {
            Some(frozen) => bail!(
                "{what} has no freeze made by `sluice freeze`; it is {}",
                clean(&frozen)
            ),
            None => bail!(
                "{what} has no freeze made by `sluice freeze`; see `sluice get freezes -n {}`",
                stop.namespace
            ),
        }
    }
    let mut names = Vec::new();
    for freeze in ended {
        let name = freeze.name_any();
        let deleted = stop.api().delete(&name, &DeleteParams::default()).await;
        deleted.map_err(|error| cluster_error(&format!("delete the freeze {name}"), error))?;
        writeln!(out, "deleted freeze {name}: {}", freeze.spec.reason)?;
        names.push(name);
    }
    if let Some(frozen) = stop.frozen_otherwise(&names).await {
        writeln!(out, "{what} is still {}", clean(&frozen))?;
    }
    Ok(())
}

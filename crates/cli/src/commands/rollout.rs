//! `sluice rollout`: shows the waves and targets of a rollout, stops it, resumes it, or skips a target.

mod text;

use std::io::Write;

use anyhow::bail;
use api::{
    Pipeline, Promotion,
    pipeline::{RequestKind, Rollout},
};
use jiff::Timestamp;
use planner::{RolloutView, TargetView};
use serde_json::{Value, json};

use super::{
    UsageError,
    cluster::{Cluster, key, require_environment},
    format::closest_name,
    output::OutputFormat,
    request::{GateFlags, RequestFlags, RequestedRevision, send_request},
    terminal::{self, clean},
};

#[derive(Debug, clap::Args)]
#[group(id = "order", multiple = false, args = ["stop", "resume", "skip"])]
pub(crate) struct Arguments {
    /// Pipeline, as NAME or NAMESPACE/NAME
    pipeline: String,
    /// Environment
    environment: String,
    /// Start no further target; say why with --note
    #[arg(long)]
    stop: bool,
    /// Go on after a stop; targets that failed before do not count towards maxFailures any more
    #[arg(long)]
    resume: bool,
    /// Go on without a target, as CLUSTER/NAMESPACE, or CLUSTER if it has only one
    #[arg(long, value_name = "TARGET")]
    skip: Option<String>,
    /// Output format
    #[arg(
        long,
        short,
        value_enum,
        default_value = "text",
        conflicts_with = "order"
    )]
    output: OutputFormat,
    #[command(flatten)]
    flags: RequestFlags,
}

impl Arguments {
    /// Whether the output is for people.
    pub(super) fn is_text(&self) -> bool {
        self.output == OutputFormat::Text
    }

    /// What is asked for; nothing where the rollout is only shown.
    fn order(&self) -> Option<RequestKind> {
        match (self.stop, self.resume, &self.skip) {
            (true, _, _) => Some(RequestKind::StopRollout),
            (_, true, _) => Some(RequestKind::ResumeRollout),
            (_, _, Some(_)) => Some(RequestKind::SkipTarget),
            (false, false, None) => None,
        }
    }
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let order = arguments.order();
    if order.is_none() && arguments.flags.note.is_some() {
        return Err(UsageError("--note needs --stop, --resume or --skip".to_owned()).into());
    }
    let cluster = arguments.flags.connection.connect().await?;
    let pipeline = cluster.pipeline(&arguments.pipeline).await?;
    let environment = arguments.environment.as_str();
    require_environment(&pipeline, environment)?;
    let promotions = cluster.promotions(&pipeline).await?;
    let view = planner::rollout_view(&pipeline, &promotions, environment, Timestamp::now());
    let settings = settings(&pipeline, environment);
    if view.is_none() && settings.is_none() {
        bail!("promotions into {environment} do not go in waves: they have no promotion.rollout");
    }
    let shown = ShownRollout {
        pipeline: &pipeline,
        environment,
        promotions: &promotions,
        view: view.as_ref(),
        settings,
    };
    match order {
        Some(kind) => send(arguments, kind, &cluster, &shown, out).await,
        None => arguments.output.write(
            out,
            || shown.document(),
            |out| Ok(out.write_all(shown.text(terminal::width(), Timestamp::now()).as_bytes())?),
        ),
    }
}

/// How promotions into an environment go in waves.
fn settings<'a>(pipeline: &'a Pipeline, environment: &str) -> Option<&'a Rollout> {
    let settings = pipeline.spec.promotion_into(environment)?;
    settings.rollout.as_ref()
}

async fn send(
    arguments: &Arguments,
    kind: RequestKind,
    cluster: &Cluster,
    shown: &ShownRollout<'_>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let target = arguments.skip.as_deref();
    if let (Some(view), Some(target)) = (shown.view, target) {
        require_target(view, target)?;
    }
    let requested = RequestedRevision {
        environment: shown.environment,
        revision: "",
        kind,
        target,
        gates: &GateFlags::default(),
    };
    send_request(cluster, shown.pipeline, requested, &arguments.flags, out).await
}

/// Fails if the rollout has no such target, with a similar name if there is one. What a name that several
/// targets have in common means is left to the controller.
fn require_target(view: &RolloutView, typed: &str) -> anyhow::Result<()> {
    let names = || view.targets().map(|it| it.target.as_str());
    let clusters = || names().filter_map(|name| Some(name.rsplit_once('/')?.0));
    if names().chain(clusters()).any(|name| name == typed) {
        return Ok(());
    }
    let close = match typed.contains('/') {
        true => closest_name(typed, names()),
        false => closest_name(typed, clusters()),
    };
    let hint = match close {
        Some(close) => format!("did you mean {}?", clean(close)),
        None => "`sluice rollout` lists those that are not ready".to_owned(),
    };
    bail!("the rollout has no target {typed}: {hint}")
}

/// The targets that can be skipped, for completion.
pub(super) fn skippable(view: &RolloutView) -> impl Iterator<Item = &TargetView> {
    view.targets().filter(|it| it.state.can_be_skipped())
}

/// The rollout into an environment, or that there has not been one.
struct ShownRollout<'a> {
    pipeline: &'a Pipeline,
    environment: &'a str,
    promotions: &'a [Promotion],
    view: Option<&'a RolloutView>,
    settings: Option<&'a Rollout>,
}

impl ShownRollout<'_> {
    fn document(&self) -> Value {
        let (namespace, name) = key(self.pipeline);
        json!({
            "namespace": namespace,
            "pipeline": name,
            "environment": self.environment,
            "settings": self.settings,
            "rollout": self.view.map(|it| it.document(self.promotions)),
        })
    }
}

#[cfg(test)]
mod tests;

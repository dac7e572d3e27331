//! `sluice status`: draws a diagram of a pipeline, or lists all pipelines and what they wait for.

mod diagram;
mod document;
mod overview;
mod suggestion;

use std::{io::Write, time::Duration};

use planner::Completion;
use serde_json::json;

use super::{
    StillHeld, UsageError, WaitTimeout,
    cluster::{Cluster, ClusterFlags, key, require_environment},
    output::OutputFormat,
    short_revision::whole_revision,
    terminal::{self, clean},
    wait::{WaitState, wait_until},
};

pub(super) use suggestion::{WaitingPromotions, suggested_command};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Pipeline, as NAME or NAMESPACE/NAME [default: all of the namespace]
    pipeline: Option<String>,
    /// Only this environment
    environment: Option<String>,
    /// All namespaces
    #[arg(long, short = 'A', conflicts_with_all = ["pipeline", "namespace"])]
    all_namespaces: bool,
    /// Output format
    #[arg(long, short, value_enum, default_value = "text")]
    output: OutputFormat,
    /// Wait until all environments are ready and nothing is in progress or held. Exits at once with code 3 if only a
    /// person or a newer revision can change what is held: after a rollback, a failed check or a rejection
    #[arg(long)]
    wait: bool,
    /// Wait until the environment also runs this revision
    #[arg(long, value_name = "REVISION", requires = "wait")]
    revision: Option<String>,
    /// How long to wait, such as 90s or 10m
    #[arg(long, value_name = "TIME", default_value = "5m")]
    timeout: api::Duration,
    #[command(flatten)]
    connection: ClusterFlags,
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let Some(name) = &arguments.pipeline else {
        if arguments.wait {
            return Err(UsageError("--wait needs the name of a pipeline".to_owned()).into());
        }
        return list(arguments, out).await;
    };
    let only = arguments.environment.as_deref();
    let cluster = arguments.connection.connect().await?;
    let mut pipeline = cluster.pipeline(name).await?;
    if let Some(only) = only {
        require_environment(&pipeline, only)?;
    }
    let mut outcome = Ok(());
    if arguments.wait {
        let state;
        (pipeline, state) = wait(arguments, &cluster, &pipeline).await?;
        outcome = match state {
            WaitState::Done => still_held(arguments, &pipeline),
            WaitState::Waiting(text) => Err(WaitTimeout(text).into()),
            WaitState::Failed(text) => Err(anyhow::anyhow!("{}: {text}", key(&pipeline).1)),
        };
    }
    let waiting = WaitingPromotions::of(&cluster, &pipeline).await;
    let diagram = |out: &mut dyn Write| {
        let now = jiff::Timestamp::now();
        let shown = (&pipeline, only);
        let diagram = diagram::draw(shown, &waiting, terminal::width(), now);
        Ok(out.write_all(diagram.as_bytes())?)
    };
    let document = || document::document(&pipeline, only);
    arguments.output.write(out, document, diagram)?;
    outcome
}

/// Waiting ends where something is held that does not come by itself, unless the revision that was waited for runs.
fn still_held(arguments: &Arguments, pipeline: &api::Pipeline) -> anyhow::Result<()> {
    let model = pipeline.status.clone().unwrap_or_default();
    let only = arguments.environment.as_deref();
    match planner::completion(pipeline, &model, only, None) {
        Completion::Held(text) if arguments.revision.is_none() => {
            Err(StillHeld(clean(&text)).into())
        }
        _ => Ok(()),
    }
}

/// Waits until the pipeline has what it should, or the timeout.
async fn wait(
    arguments: &Arguments,
    cluster: &Cluster,
    pipeline: &api::Pipeline,
) -> anyhow::Result<(api::Pipeline, WaitState)> {
    let timeout = Duration::from(&arguments.timeout);
    let only = arguments.environment.as_deref();
    let typed = arguments.revision.as_deref();
    wait_until(cluster, timeout, pipeline, |pipeline, promotions| {
        let model = pipeline.status.clone().unwrap_or_default();
        let revision = typed.map(|it| whole_revision(pipeline, promotions, it));
        match planner::completion(pipeline, &model, only, revision.as_deref()) {
            Completion::Complete | Completion::Held(_) => WaitState::Done,
            Completion::InProgress(text) => WaitState::Waiting(text),
            Completion::Failed(text) => WaitState::Failed(text),
        }
    })
    .await
}

/// All pipelines of the namespace, or of all.
async fn list(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let cluster = arguments.connection.connect().await?;
    let pipelines = cluster.pipelines(arguments.all_namespaces).await?;
    let documents = || {
        let items = pipelines.iter().map(|it| document::document(it, None));
        json!({"items": items.collect::<Vec<_>>()})
    };
    arguments.output.write(out, documents, |out| {
        Ok(overview::write(&pipelines, terminal::width(), out)?)
    })
}

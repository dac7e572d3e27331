//! `sluice status`: draws a diagram of a pipeline.

mod diagram;

use std::{io::Write, time::Duration};

use planner::Completion;

use super::{
    WaitTimeout,
    cluster::{ClusterFlags, key, require_environment},
    terminal,
    wait::{WaitState, wait_until},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Pipeline, as NAME or NAMESPACE/NAME
    pipeline: String,
    /// Wait until all environments are ready and nothing is held or in progress
    #[arg(long)]
    wait: bool,
    /// Wait for this environment only
    #[arg(long, value_name = "NAME", requires = "wait")]
    environment: Option<String>,
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
    let cluster = arguments.connection.connect().await?;
    let mut pipeline = cluster.pipeline(&arguments.pipeline).await?;
    let only = arguments.environment.as_deref();
    let revision = arguments.revision.as_deref();
    if let Some(only) = only {
        require_environment(&pipeline, only)?;
    }
    let mut outcome = Ok(());
    if arguments.wait {
        let timeout = Duration::from(&arguments.timeout);
        let (last, state) = wait_until(&cluster, timeout, &pipeline, |pipeline, _| {
            let model = pipeline.status.clone().unwrap_or_default();
            match planner::completion(pipeline, &model, only, revision) {
                Completion::Complete => WaitState::Done,
                Completion::InProgress(text) => WaitState::Waiting(text),
                Completion::Failed(text) => WaitState::Failed(text),
            }
        })
        .await?;
        pipeline = last;
        outcome = match state {
            WaitState::Done => Ok(()),
            WaitState::Waiting(text) => Err(WaitTimeout(text).into()),
            WaitState::Failed(text) => Err(anyhow::anyhow!("{}: {text}", key(&pipeline).1)),
        };
    }
    let diagram = diagram::draw(&pipeline, terminal::width(), jiff::Timestamp::now());
    out.write_all(diagram.as_bytes())?;
    outcome
}

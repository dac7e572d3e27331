//! `sluice status`: a pipeline as a picture.

mod picture;

use std::{io::Write, time::Duration};

use planner::Completion;

use super::{
    StillWaiting,
    cluster::{Connection, key, must_have},
    follow::{Progress, Until, follow},
    terminal,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The pipeline, or namespace/pipeline
    pipeline: String,
    /// Wait until every environment is ready and nothing is held or under way
    #[arg(long)]
    wait: bool,
    /// Wait for this environment only
    #[arg(long, value_name = "NAME", requires = "wait")]
    environment: Option<String>,
    /// Wait for this revision to be there, too
    #[arg(long, value_name = "REVISION", requires = "wait")]
    revision: Option<String>,
    /// How long to wait, such as 90s or 10m
    #[arg(long, value_name = "TIME", default_value = "5m")]
    timeout: api::Duration,
    #[command(flatten)]
    connection: Connection,
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let cluster = arguments.connection.connect().await?;
    let mut pipeline = cluster.pipeline(&arguments.pipeline).await?;
    let only = arguments.environment.as_deref();
    let revision = arguments.revision.as_deref();
    if let Some(only) = only {
        must_have(&pipeline, only)?;
    }
    let mut outcome = Ok(());
    if arguments.wait {
        let until = Until {
            cluster: &cluster,
            timeout: Duration::from(&arguments.timeout),
        };
        let (last, progress) = follow(until, &pipeline, |pipeline, _| {
            let model = pipeline.status.clone().unwrap_or_default();
            match planner::completion(pipeline, &model, only, revision) {
                Completion::Complete => Progress::Done,
                Completion::InProgress(text) => Progress::Waiting(text),
                Completion::Failed(text) => Progress::Failed(text),
            }
        })
        .await?;
        pipeline = last;
        outcome = match progress {
            Progress::Done => Ok(()),
            Progress::Waiting(text) => Err(StillWaiting(text).into()),
            Progress::Failed(text) => Err(anyhow::anyhow!("{}: {text}", key(&pipeline).1)),
        };
    }
    let picture = picture::draw(&pipeline, terminal::width(), jiff::Timestamp::now());
    out.write_all(picture.as_bytes())?;
    outcome
}

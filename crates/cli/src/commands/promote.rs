//! `sluice promote` and `sluice rollback`: request a revision in an environment.

use std::io::Write;

use anyhow::Context;
use api::pipeline::RequestKind;

use super::{
    UsageError,
    cluster::require_environment,
    request::{GateFlags, RequestFlags, RequestedRevision, send_request},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Pipeline, as NAME or NAMESPACE/NAME
    pipeline: String,
    /// Environment that gets the revision
    environment: String,
    #[command(flatten)]
    revision: RevisionArgument,
    #[command(flatten)]
    gates: GateFlags,
    #[command(flatten)]
    flags: RequestFlags,
}

/// A revision, which people name after the environment or with a flag.
#[derive(Debug, clap::Args)]
pub(super) struct RevisionArgument {
    /// Revision to promote
    revision: Option<String>,
    /// The same as REVISION
    #[arg(
        long = "revision",
        short = 'r',
        value_name = "REVISION",
        conflicts_with = "revision"
    )]
    named_revision: Option<String>,
}

impl RevisionArgument {
    /// The revision that was named, in either way.
    pub(super) fn named(&self) -> Option<&str> {
        let named = self.named_revision.as_ref();
        self.revision.as_ref().or(named).map(String::as_str)
    }

    /// The revision, where the command cannot do without.
    pub(super) fn required(&self) -> anyhow::Result<&str> {
        let missing = || {
            let text = "which revision? Name it after the environment; `sluice history PIPELINE` lists those that ran";
            UsageError(text.to_owned())
        };
        Ok(self.named().ok_or_else(missing)?)
    }
}

pub(super) async fn promote(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let revision = arguments.revision.required()?;
    let cluster = arguments.flags.connection.connect().await?;
    let pipeline = cluster.pipeline(&arguments.pipeline).await?;
    let requested = arguments.requested(RequestKind::Promote, revision);
    send_request(&cluster, &pipeline, requested, &arguments.flags, out).await
}

pub(super) async fn rollback(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let cluster = arguments.flags.connection.connect().await?;
    let pipeline = cluster.pipeline(&arguments.pipeline).await?;
    let environment = arguments.environment.as_str();
    require_environment(&pipeline, environment)?;
    let status = pipeline.status.as_ref();
    let previous = status.and_then(|it| planner::previous_revision(it, environment));
    let revision = arguments.revision.named().or(previous);
    let revision = revision.with_context(|| {
        format!("no previous revision of {environment} is known; name the revision to roll back to")
    })?;
    let requested = arguments.requested(RequestKind::Rollback, revision);
    send_request(&cluster, &pipeline, requested, &arguments.flags, out).await
}

impl Arguments {
    fn requested<'a>(&'a self, kind: RequestKind, revision: &'a str) -> RequestedRevision<'a> {
        RequestedRevision {
            environment: &self.environment,
            revision,
            kind,
            target: None,
            gates: &self.gates,
        }
    }
}

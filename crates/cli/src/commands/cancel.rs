//! `sluice cancel` and `sluice retry`: take back what is under way, or start what failed again.

use std::io::Write;

use api::pipeline::RequestKind;

use super::{
    promote::RevisionArgument,
    request::{GateFlags, RequestFlags, RequestedRevision, send_request},
};

#[derive(Debug, clap::Args)]
#[command(mut_arg("revision", |it| it.help("Only this revision [default: any]")))]
pub(crate) struct Arguments {
    /// Pipeline, as NAME or NAMESPACE/NAME
    pipeline: String,
    /// Environment
    environment: String,
    #[command(flatten)]
    revision: RevisionArgument,
    #[command(flatten)]
    flags: RequestFlags,
}

/// Requests to cancel or to retry.
pub(super) async fn run(
    arguments: &Arguments,
    kind: RequestKind,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let cluster = arguments.flags.connection.connect().await?;
    let pipeline = cluster.pipeline(&arguments.pipeline).await?;
    let requested = RequestedRevision {
        environment: &arguments.environment,
        revision: arguments.revision.named().unwrap_or_default(),
        kind,
        target: None,
        gates: &GateFlags::default(),
    };
    send_request(&cluster, &pipeline, requested, &arguments.flags, out).await
}

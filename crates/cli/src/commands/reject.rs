//! `sluice reject`: rejects what is on its way into an environment.

use std::io::Write;

use anyhow::bail;
use api::{Time, promotion::Rejection};
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::json;

use super::{
    approve::{patch_spec, whole_seconds},
    cluster::{ClusterFlags, key, require_environment},
    terminal::clean,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Pipeline, as NAME or NAMESPACE/NAME
    pipeline: String,
    /// Environment that the revision must not enter
    environment: String,
    /// Reject only this revision
    #[arg(long, value_name = "REVISION")]
    revision: Option<String>,
    /// Why; stored with the rejection and commented on the pull request
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    #[command(flatten)]
    connection: ClusterFlags,
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let cluster = arguments.connection.connect().await?;
    let pipeline = cluster.pipeline(&arguments.pipeline).await?;
    let environment = arguments.environment.as_str();
    require_environment(&pipeline, environment)?;
    let promotions = cluster.promotions(&pipeline).await?;
    let (_, name) = key(&pipeline);
    let revision = arguments.revision.as_deref();
    let open = planner::rejectable(&promotions, name, environment, revision);
    if open.is_empty() {
        let what = revision.map_or("no promotion".to_owned(), clean);
        bail!("{what} is on its way into {environment}, or its change is merged already");
    }
    let rejection = Rejection {
        by: cluster.caller().await?,
        at: Some(Time(whole_seconds(Timestamp::now()))),
        note: arguments.note.clone(),
    };
    for promotion in open {
        patch_spec(
            &cluster,
            promotion,
            json!({"rejection": rejection}),
            "reject",
        )
        .await?;
        let revision = clean(&promotion.spec.shown_revision());
        let (name, by) = (promotion.name_any(), clean(&rejection.by));
        writeln!(
            out,
            "rejected {revision} into {environment} as {by} ({name})"
        )?;
    }
    out.flush()?;
    Ok(())
}

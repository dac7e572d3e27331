//! `sluice reject`: rejects what is on its way into an environment.

use std::io::Write;

use anyhow::bail;
use api::{Promotion, Time, promotion::Rejection};
use jiff::Timestamp;
use kube::ResourceExt;
use serde_json::json;

use super::{
    approve::{DecisionFlags, patch_spec, whole_seconds},
    cluster::key,
    short_revision::whole_revision,
    terminal::clean,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    decision: DecisionFlags,
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let decision = &arguments.decision;
    let (cluster, pipeline) = decision.pipeline().await?;
    let environment = decision.environment.as_str();
    let promotions = cluster.promotions(&pipeline).await?;
    let (_, name) = key(&pipeline);
    let revision = decision.revision.named();
    let revision = revision.map(|it| whole_revision(&pipeline, &promotions, it));
    let revision = revision.as_deref();
    let open = planner::rejectable(&promotions, name, environment, revision);
    if open.is_empty() {
        let what = revision.map_or("nothing is".to_owned(), |it| {
            format!("{} is not", clean(it))
        });
        bail!("{what} being promoted into {environment}, or its change is merged already");
    }
    let rejection = Rejection {
        by: cluster.caller().await?,
        at: Some(Time(whole_seconds(Timestamp::now()))),
        note: decision.note.clone(),
    };
    for promotion in open {
        let reject = |newest: &Promotion| match &newest.spec.rejection {
            None => Ok(json!({"rejection": rejection})),
            Some(other) => bail!("{} has rejected it already", clean(&other.by)),
        };
        patch_spec(&cluster, promotion, "reject", reject).await?;
        let revision = clean(&promotion.spec.shown_revision());
        let (name, by) = (promotion.name_any(), clean(&rejection.by));
        let effect = clean(&planner::rejection_effect(&pipeline, promotion));
        writeln!(
            out,
            "rejected {revision} into {environment} as {by} ({name}); {effect}"
        )?;
    }
    out.flush()?;
    Ok(())
}

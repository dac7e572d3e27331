//! `sluice approve`: records an approval for the promotions that wait for it.

use std::io::Write;

use anyhow::bail;
use api::{Pipeline, Promotion, Time, promotion::Approval, revision::identity};
use jiff::Timestamp;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::{
    cluster::{Cluster, ClusterFlags, FIELD_MANAGER, key, require_environment},
    cluster_error::cluster_error,
    terminal::clean,
    wait::{WaitFlags, promotions_state},
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Pipeline, as NAME or NAMESPACE/NAME
    pipeline: String,
    /// Environment to approve the revision for
    environment: String,
    /// Approve only if this revision is waiting
    #[arg(long, value_name = "REVISION")]
    revision: Option<String>,
    /// Note to store with the approval
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    #[command(flatten)]
    wait: WaitFlags,
    #[command(flatten)]
    connection: ClusterFlags,
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let cluster = arguments.connection.connect().await?;
    let pipeline = cluster.pipeline(&arguments.pipeline).await?;
    let environment = arguments.environment.as_str();
    require_environment(&pipeline, environment)?;
    let promotions = cluster.promotions(&pipeline).await?;
    let chosen = choose(arguments, &pipeline, &promotions)?;
    let approval = Approval {
        by: cluster.caller().await?,
        at: Some(Time(whole_seconds(Timestamp::now()))),
        note: arguments.note.clone(),
        ..Approval::default()
    };
    for promotion in &chosen {
        store_approval(&cluster, promotion, &approval).await?;
        let revision = clean(&promotion.spec.shown_revision());
        let (name, by) = (promotion.name_any(), clean(&approval.by));
        writeln!(
            out,
            "approved {revision} into {environment} as {by} ({name})"
        )?;
    }
    out.flush()?;
    let names: Vec<String> = chosen
        .iter()
        .map(|promotion| promotion.name_any())
        .collect();
    arguments
        .wait
        .wait(&cluster, &pipeline, |_, all| promotions_state(&names, all))
        .await
}

/// The promotions to approve: all that wait with one revision.
fn choose<'a>(
    arguments: &Arguments,
    pipeline: &Pipeline,
    promotions: &'a [Promotion],
) -> anyhow::Result<Vec<&'a Promotion>> {
    let environment = arguments.environment.as_str();
    let (_, name) = key(pipeline);
    let waiting = planner::approvable(promotions, name, environment);
    let mut revisions: Vec<&str> = waiting.iter().map(|it| it.spec.revision.as_str()).collect();
    revisions.sort_unstable();
    revisions.dedup();
    let asked = arguments.revision.as_deref().map(identity);
    let revision = match (asked, revisions.as_slice()) {
        (_, []) => bail!(
            "no promotion waits for approval in {environment}{}",
            hold(pipeline, environment)
        ),
        (Some(asked), waiting) if waiting.contains(&asked) => asked,
        (Some(asked), waiting) => {
            bail!(
                "{asked} does not wait for approval in {environment}; {} does",
                waiting.join(", ")
            )
        }
        (None, [one]) => one,
        (None, several) => bail!(
            "several revisions wait for approval in {environment}; choose one with --revision: {}",
            several.join(", ")
        ),
    };
    Ok(waiting
        .into_iter()
        .filter(|it| it.spec.revision == revision)
        .collect())
}

fn hold(pipeline: &Pipeline, environment: &str) -> String {
    let status = pipeline.status.as_ref();
    let status = status.and_then(|status| status.environments.get(environment));
    let hold = status.and_then(|status| status.hold.as_ref());
    hold.map(|hold| format!(": {}", clean(&hold.message)))
        .unwrap_or_default()
}

async fn store_approval(
    cluster: &Cluster,
    promotion: &Promotion,
    approval: &Approval,
) -> anyhow::Result<()> {
    let namespace = promotion.namespace().unwrap_or_default();
    let patch = json!({"spec": {"approval": approval}});
    let parameters = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let promotions = cluster.api::<Promotion>(&namespace);
    let name = promotion.name_any();
    let patched = promotions
        .patch(&name, &parameters, &Patch::Merge(patch))
        .await;
    patched.map_err(|error| cluster_error(&format!("approve promotion {name}"), error))?;
    Ok(())
}

/// The time without its fraction, as the API stores it.
pub(super) fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

//! `sluice approve`: records an approval for the promotions that wait for it.

use std::{io::Write, time::Duration};

use anyhow::{anyhow, bail};
use api::{Pipeline, Promotion, Time, promotion::Approval, revision::identity};
use jiff::Timestamp;
use k8s_openapi::api::authentication::v1::UserInfo;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{
    cluster::{Cluster, ClusterFlags, FIELD_MANAGER, key, require_environment},
    cluster_error::cluster_error,
    terminal::clean,
    wait::{WaitFlags, promotions_state},
};

/// How often, and how many times, a promotion that the controller has not looked at yet is read again.
const PREPARED_RETRY: Duration = Duration::from_millis(250);
const PREPARED_ATTEMPTS: usize = 20;

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
    let promotions = prepared_promotions(&cluster, &pipeline, environment).await?;
    let chosen = choose(arguments, &pipeline, &promotions)?;
    let user = cluster.user().await?;
    for promotion in &chosen {
        let state = store_approval(&cluster, promotion, &user, arguments).await?;
        let revision = clean(&promotion.spec.shown_revision());
        let name = promotion.name_any();
        let by = clean(user.username.as_deref().unwrap_or_default());
        writeln!(
            out,
            "approved {revision} into {environment} as {by} ({name}){state}"
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

/// The promotions, once the controller has computed what new ones into an environment change: an approval is for that change.
async fn prepared_promotions(
    cluster: &Cluster,
    pipeline: &Pipeline,
    environment: &str,
) -> anyhow::Result<Vec<Promotion>> {
    let is_pending =
        |it: &Promotion| it.spec.environment == environment && planner::is_change_pending(it);
    let mut promotions = cluster.promotions(pipeline).await?;
    for _ in 0..PREPARED_ATTEMPTS {
        if !promotions.iter().any(is_pending) {
            break;
        }
        tokio::time::sleep(PREPARED_RETRY).await;
        promotions = cluster.promotions(pipeline).await?;
    }
    Ok(promotions)
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

/// Adds the approval, or replaces the caller's earlier one. Returns how many more are needed, as the end
/// of a sentence.
async fn store_approval(
    cluster: &Cluster,
    promotion: &Promotion,
    user: &UserInfo,
    arguments: &Arguments,
) -> anyhow::Result<String> {
    let approval = approval(promotion, user, arguments.note.as_deref())?;
    let mut approvals = promotion.spec.approvals.clone();
    approvals.retain(|it| it.by != approval.by);
    approvals.push(approval);
    let written = patch_spec(
        cluster,
        promotion,
        json!({"approvals": approvals}),
        "approve",
    )
    .await?;
    let missing = planner::approval_state(&written, None, Timestamp::now())
        .map_or(0, |state| state.missing());
    Ok(match missing {
        0 => String::new(),
        1 => "; 1 more approval is needed".to_owned(),
        missing => format!("; {missing} more approvals are needed"),
    })
}

/// The approval of the change that the promotion would make now.
fn approval(
    promotion: &Promotion,
    user: &UserInfo,
    note: Option<&str>,
) -> anyhow::Result<Approval> {
    let by = user.username.clone().unwrap_or_default();
    let groups = user.groups.as_deref().unwrap_or_default();
    let group =
        planner::approving_group(&promotion.spec, &by, groups).map_err(|text| anyhow!(text))?;
    let status = promotion.status.as_ref();
    let change = status.and_then(|status| status.change.as_ref());
    Ok(Approval {
        by,
        group,
        at: Some(Time(whole_seconds(Timestamp::now()))),
        note: note.map(str::to_owned),
        change_digest: change.map(|change| change.digest.clone()),
        signature: None,
    })
}

/// Patches the spec of a promotion, which fails if somebody else has written to it since it was read.
pub(super) async fn patch_spec(
    cluster: &Cluster,
    promotion: &Promotion,
    spec: Value,
    verb: &str,
) -> anyhow::Result<Promotion> {
    let namespace = promotion.namespace().unwrap_or_default();
    let version = promotion.resource_version();
    let patch = json!({"metadata": {"resourceVersion": version}, "spec": spec});
    let parameters = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let promotions = cluster.api::<Promotion>(&namespace);
    let name = promotion.name_any();
    let patched = promotions
        .patch(&name, &parameters, &Patch::Merge(patch))
        .await;
    patched.map_err(|error| cluster_error(&format!("{verb} promotion {name}"), error))
}

/// The time without its fraction, as the API stores it.
pub(super) fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

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
    promote::RevisionArgument,
    short_revision::whole_revision,
    terminal::clean,
    wait::{WaitFlags, promotions_state},
};

/// How often, and how many times, a promotion that the controller has not looked at yet is read again.
const PREPARED_RETRY: Duration = Duration::from_millis(250);
const PREPARED_ATTEMPTS: usize = 20;
/// How often a patch is tried that another write came before.
pub(super) const PATCH_RETRIES: usize = 5;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    decision: DecisionFlags,
    #[command(flatten)]
    wait: WaitFlags,
}

/// What a person decides about.
#[derive(Debug, clap::Args)]
#[command(mut_arg("revision", |it| it.help("Decide only about this revision [default: the one that waits]")))]
pub(super) struct DecisionFlags {
    /// Pipeline, as NAME or NAMESPACE/NAME
    pipeline: String,
    /// Environment that the revision is to be promoted into
    pub(super) environment: String,
    #[command(flatten)]
    pub(super) revision: RevisionArgument,
    /// Note to store with the decision; `reject` also adds it to the pull request as a comment
    #[arg(long, value_name = "TEXT", alias = "reason")]
    pub(super) note: Option<String>,
    #[command(flatten)]
    connection: ClusterFlags,
}

impl DecisionFlags {
    /// The cluster and the pipeline, which has the environment.
    pub(super) async fn pipeline(&self) -> anyhow::Result<(Cluster, Pipeline)> {
        let cluster = self.connection.connect().await?;
        let pipeline = cluster.pipeline(&self.pipeline).await?;
        require_environment(&pipeline, &self.environment)?;
        Ok((cluster, pipeline))
    }
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let decision = &arguments.decision;
    let (cluster, pipeline) = decision.pipeline().await?;
    let environment = decision.environment.as_str();
    let promotions = prepared_promotions(&cluster, &pipeline, environment).await?;
    let mut chosen = choose(decision, &pipeline, &promotions)?;
    if let Some(text) = chosen.iter().find_map(|it| planner::unknown_change(it)) {
        bail!("{}", clean(&text));
    }
    let user = cluster.user().await?;
    for promotion in &chosen {
        let missing = store_approval(&cluster, promotion, &user, decision).await?;
        write_answer(out, (&pipeline, promotion), &user, missing)?;
    }
    // All are of one revision.
    let caution = chosen.first();
    let caution = caution.and_then(|it| planner::promotion_caution(it, &pipeline, &promotions));
    write_caution(out, caution.as_deref())?;
    if chosen.is_empty() {
        let approved = approved_by_caller(decision, &pipeline, &promotions, &user)?;
        write_answer(out, (&pipeline, approved), &user, 0)?;
        chosen.push(approved);
    }
    out.flush()?;
    let names: Vec<String> = chosen
        .iter()
        .map(|promotion| promotion.name_any())
        .collect();
    arguments
        .wait
        .wait(&cluster, (&pipeline, environment), |_, all| {
            promotions_state(&names, all)
        })
        .await
}

/// Writes what people should know before they approve.
pub(super) fn write_caution(out: &mut dyn Write, caution: Option<&str>) -> anyhow::Result<()> {
    match caution {
        Some(caution) => Ok(writeln!(out, "caution: {}", clean(caution))?),
        None => Ok(()),
    }
}

/// Says that the caller's approval of a promotion is stored, or was before, and what that waits for.
fn write_answer(
    out: &mut dyn Write,
    (pipeline, promotion): (&Pipeline, &Promotion),
    user: &UserInfo,
    missing: usize,
) -> anyhow::Result<()> {
    let (revision, name) = (promotion.spec.shown_revision(), promotion.name_any());
    let environment = &promotion.spec.environment;
    let by = user.username.as_deref().unwrap_or_default();
    let is_repeated = has_approved(promotion, by);
    let waits = match missing {
        0 => waits_for(pipeline, promotion),
        _ => needed(missing, is_repeated),
    };
    let done = match is_repeated {
        true => format!("you have approved {revision} into {environment} already, as {by}"),
        false => format!("approved {revision} into {environment} as {by}"),
    };
    Ok(writeln!(out, "{} ({name}){waits}", clean(&done))?)
}

/// The promotion that needs no more approvals and has the caller's; else the error says what there is.
fn approved_by_caller<'a>(
    decision: &DecisionFlags,
    pipeline: &Pipeline,
    promotions: &'a [Promotion],
    user: &UserInfo,
) -> anyhow::Result<&'a Promotion> {
    let (environment, now) = (decision.environment.as_str(), Timestamp::now());
    let asked = decision.revision.named();
    let asked = asked.map(|it| whole_revision(pipeline, promotions, it));
    let asked = asked.as_deref();
    match planner::approved_promotion(promotions, pipeline, environment, asked, now) {
        Some(it) if has_approved(it, user.username.as_deref().unwrap_or_default()) => Ok(it),
        Some(it) => bail!("{}", clean(&planner::approved_already(it, pipeline, now))),
        None => bail!(
            "no promotion waits for approval in {environment}{}",
            hold(pipeline, environment)
        ),
    }
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

/// The promotions to approve: all that wait with one revision; none if none waits.
fn choose<'a>(
    decision: &DecisionFlags,
    pipeline: &Pipeline,
    promotions: &'a [Promotion],
) -> anyhow::Result<Vec<&'a Promotion>> {
    let environment = decision.environment.as_str();
    let (_, name) = key(pipeline);
    let waiting = planner::approvable(promotions, name, environment);
    let mut revisions: Vec<&str> = waiting.iter().map(|it| it.spec.revision.as_str()).collect();
    revisions.sort_unstable();
    revisions.dedup();
    let asked = decision.revision.named();
    let asked = asked.map(|it| named_revision(pipeline, &waiting, it));
    let revision = match (asked, revisions.as_slice()) {
        (_, []) => return Ok(Vec::new()),
        (Some(asked), waiting) if waiting.contains(&asked.as_str()) => asked,
        (Some(asked), waiting) => {
            bail!(
                "{asked} does not wait for approval in {environment}; {} does",
                waiting.join(", ")
            )
        }
        (None, [one]) => (*one).to_owned(),
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

/// The revision that a person named: by its version, its digest, or the first digits of that.
fn named_revision(pipeline: &Pipeline, waiting: &[&Promotion], typed: &str) -> String {
    let by_version = waiting.iter().find(|it| it.spec.version == typed);
    match by_version {
        Some(promotion) => promotion.spec.revision.clone(),
        None => {
            let promotions: Vec<_> = waiting.iter().map(|it| (*it).clone()).collect();
            let whole = whole_revision(pipeline, &promotions, typed);
            identity(&whole).to_owned()
        }
    }
}

/// Whether a person has approved what the promotion would change now.
fn has_approved(promotion: &Promotion, by: &str) -> bool {
    let digest = change_digest(promotion);
    let mut approvals = promotion.spec.approvals.iter();
    approvals.any(|it| it.by == by && it.change_digest.as_deref() == digest)
}

/// What a promotion with all its approvals waits for, as the end of a sentence.
fn waits_for(pipeline: &Pipeline, promotion: &Promotion) -> String {
    let waits = planner::waits_after_approval(promotion, pipeline, Timestamp::now());
    let text = waits.map(|it| format!("; {}", clean(&it)));
    text.unwrap_or_default()
}

/// How many more approvals are needed, as the end of a sentence.
fn needed(missing: usize, is_repeated: bool) -> String {
    let approvals = match missing {
        0 => return String::new(),
        1 => "; 1 more approval is needed".to_owned(),
        missing => format!("; {missing} more approvals are needed"),
    };
    match (is_repeated, missing) {
        (true, 1) => format!("{approvals}, by another person"),
        (true, _) => format!("{approvals}, by other people"),
        _ => approvals,
    }
}

fn hold(pipeline: &Pipeline, environment: &str) -> String {
    let status = pipeline.status.as_ref();
    let status = status.and_then(|status| status.environments.get(environment));
    let hold = status.and_then(|status| status.hold.as_ref());
    hold.map(|hold| format!(": {}", clean(&hold.message)))
        .unwrap_or_default()
}

/// Adds the approval, or replaces the caller's earlier one: it may expire. Returns how many more are needed.
async fn store_approval(
    cluster: &Cluster,
    promotion: &Promotion,
    user: &UserInfo,
    decision: &DecisionFlags,
) -> anyhow::Result<usize> {
    let approval = approval(promotion, user, decision.note.as_deref())?;
    let add = |newest: &Promotion| {
        if change_digest(newest) != approval.change_digest.as_deref() {
            bail!(
                "what {} changes in {} was edited in the meantime; read it with `sluice diff` and \
                 approve it again",
                clean(&newest.spec.shown_revision()),
                clean(&newest.spec.environment)
            );
        }
        let others = newest.spec.approvals.iter();
        let others = others.filter(|it| it.by != approval.by);
        let all: Vec<_> = others.chain([&approval]).collect();
        Ok(json!({"approvals": all}))
    };
    let written = patch_spec(cluster, promotion, "approve", add).await?;
    let state = planner::approval_state(&written, None, Timestamp::now());
    Ok(state.map_or(0, |state| state.missing_once_recorded()))
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
    Ok(Approval {
        by,
        group,
        at: Some(Time(whole_seconds(Timestamp::now()))),
        note: note.map(str::to_owned),
        change_digest: change_digest(promotion).map(str::to_owned),
        signature: None,
    })
}

fn change_digest(promotion: &Promotion) -> Option<&str> {
    let change = promotion.status.as_ref()?.change.as_ref()?;
    Some(&change.digest)
}

/// Patches the spec of a promotion as `make_patch` says for its newest state: the controller may write its
/// status at the same time.
pub(super) async fn patch_spec(
    cluster: &Cluster,
    promotion: &Promotion,
    verb: &str,
    make_patch: impl Fn(&Promotion) -> anyhow::Result<Value>,
) -> anyhow::Result<Promotion> {
    let namespace = promotion.namespace().unwrap_or_default();
    let promotions = cluster.api::<Promotion>(&namespace);
    let name = promotion.name_any();
    let failed = |error| cluster_error(&format!("{verb} promotion {name}"), error);
    let parameters = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let mut newest = promotion.clone();
    for _ in 0..PATCH_RETRIES {
        let (version, spec) = (newest.resource_version(), make_patch(&newest)?);
        let patch = json!({"metadata": {"resourceVersion": version}, "spec": spec});
        let patch = Patch::Merge(patch);
        match promotions.patch(&name, &parameters, &patch).await {
            Err(kube::Error::Api(refusal)) if refusal.code == 409 => {
                newest = promotions.get(&name).await.map_err(failed)?;
            }
            patched => return patched.map_err(failed),
        }
    }
    bail!("cannot {verb} promotion {name}: it changes all the time; try again")
}

/// The time without its fraction, as the API stores it.
pub(super) fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_approval_of_the_same_person_and_change_is_noticed() {
        let promotion = |digest: &str| -> Promotion {
            serde_json::from_value(json!({
                "metadata": {"name": "web-prod-1"},
                "spec": {
                    "pipeline": "web", "environment": "prod", "revision": "2", "version": "2",
                    "approvals": [{"by": "jane", "changeDigest": "sha256:1"}],
                },
                "status": {"change": {"digest": digest, "edits": []}},
            }))
            .unwrap()
        };
        assert!(has_approved(&promotion("sha256:1"), "jane"));
        assert!(!has_approved(&promotion("sha256:1"), "ann"));
        assert!(
            !has_approved(&promotion("sha256:2"), "jane"),
            "another change"
        );
        assert_eq!(
            needed(1, true),
            "; 1 more approval is needed, by another person"
        );
        assert_eq!(needed(2, false), "; 2 more approvals are needed");
        assert_eq!(needed(0, true), "");
    }
}

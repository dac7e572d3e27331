//! `sluice approve`: a person says yes to the revision that waits.

use std::{io::Write, time::Duration};

use anyhow::bail;
use api::{
    Pipeline, Promotion, Time,
    promotion::{Approval, Phase},
    revision::identity,
};
use jiff::Timestamp;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams},
};
use serde_json::json;

use super::{
    StillWaiting,
    cluster::{Cluster, Connection, FIELD_MANAGER, key, must_have},
    follow::{Progress, Until, follow},
    terminal::clean,
    trouble::trouble,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The pipeline, or namespace/pipeline
    pipeline: String,
    /// The environment that the revision is to enter
    environment: String,
    /// Approve only if this is the revision that waits
    #[arg(long, value_name = "REVISION")]
    revision: Option<String>,
    /// What to remember about it
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    #[command(flatten)]
    waiting: Waiting,
    #[command(flatten)]
    connection: Connection,
}

/// Whether and how long to wait for the outcome.
#[derive(Debug, clap::Args)]
pub(super) struct Waiting {
    /// Wait until the environment runs the revision
    #[arg(long)]
    pub(super) wait: bool,
    /// How long to wait, such as 90s or 10m
    #[arg(long, value_name = "TIME", default_value = "15m")]
    timeout: api::Duration,
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let cluster = arguments.connection.connect().await?;
    let pipeline = cluster.pipeline(&arguments.pipeline).await?;
    let environment = arguments.environment.as_str();
    must_have(&pipeline, environment)?;
    let promotions = cluster.promotions(&pipeline).await?;
    let chosen = choose(arguments, &pipeline, &promotions)?;
    let approval = Approval {
        by: cluster.caller().await?,
        at: Some(Time(whole_seconds(Timestamp::now()))),
        note: arguments.note.clone(),
        signature: None,
    };
    for promotion in &chosen {
        give(&cluster, promotion, &approval).await?;
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
        .waiting
        .outcome(&cluster, &pipeline, |_, all| arrival(&names, all))
        .await
}

/// The promotions to approve: all of one revision.
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
            "nothing waits for approval to enter {environment}{}",
            hold(pipeline, environment)
        ),
        (Some(asked), known) if known.contains(&asked) => asked,
        (Some(asked), known) => {
            bail!(
                "{asked} does not wait to enter {environment}; {} does",
                known.join(", ")
            )
        }
        (None, [one]) => one,
        (None, several) => bail!(
            "several revisions wait to enter {environment}; choose one with --revision: {}",
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

async fn give(cluster: &Cluster, promotion: &Promotion, approval: &Approval) -> anyhow::Result<()> {
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
    patched.map_err(|error| trouble(&format!("approve promotion {name}"), error))?;
    Ok(())
}

/// The moment as it is stored.
pub(super) fn whole_seconds(moment: Timestamp) -> Timestamp {
    Timestamp::from_second(moment.as_second()).unwrap_or(moment)
}

impl Waiting {
    /// Waits, if asked to, until the judge is satisfied.
    pub(super) async fn outcome(
        &self,
        cluster: &Cluster,
        pipeline: &Pipeline,
        judge: impl Fn(&Pipeline, &[Promotion]) -> Progress,
    ) -> anyhow::Result<()> {
        if !self.wait {
            return Ok(());
        }
        let until = Until {
            cluster,
            timeout: Duration::from(&self.timeout),
        };
        match follow(until, pipeline, judge).await?.1 {
            Progress::Done => Ok(()),
            Progress::Waiting(text) => Err(StillWaiting(clean(&text)).into()),
            Progress::Failed(text) => bail!("{}", clean(&text)),
        }
    }
}

/// Whether promotions have brought what they should.
pub(super) fn arrival(names: &[String], promotions: &[Promotion]) -> Progress {
    for name in names {
        let Some(promotion) = promotions.iter().find(|it| it.name_any() == *name) else {
            return Progress::Failed(format!("promotion {name} is gone"));
        };
        let status = promotion.status.clone().unwrap_or_default();
        let (phase, revision) = (status.phase, promotion.spec.shown_revision());
        let why = status.message.or(status.url);
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        let text = match phase {
            Some(Phase::Succeeded) => continue,
            Some(phase) => format!("{revision} is {phase:?}{why}"),
            None => format!("{revision} has not been taken up yet"),
        };
        return match phase.is_some_and(Phase::is_terminal) {
            true => Progress::Failed(text),
            false => Progress::Waiting(text),
        };
    }
    Progress::Done
}

//! The terminal output of the demo: the changes of the pipeline, and commands to try.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, bail};
use api::{
    Pipeline, Promotion,
    check_run::CheckVerdict,
    pipeline::{CheckStatus, EnvironmentStatus, PipelineStatus},
    promotion::{Approval, Phase},
};
use kube::api::{ListParams, Patch, PatchParams};
use planner::SummaryState;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::{
    own_folder,
    setup::{DemoSetup, ENVIRONMENTS, PIPELINE, SECOND_APPROVER},
};
use crate::standalone::OWNER;

/// How often the pipeline is read.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// How often a promotion that waits for approval is looked for.
const APPROVAL_ATTEMPTS: usize = 100;
/// Time limit of the scripted run.
const TIMEOUT: Duration = Duration::from_secs(300);

/// Prints what happens, and drives the scripted run.
pub(super) struct Walkthrough<'a> {
    setup: &'a DemoSetup,
    pub(super) is_script: bool,
    started: Instant,
    /// The last line printed about each environment.
    printed: BTreeMap<String, String>,
}

impl<'a> Walkthrough<'a> {
    pub(super) fn new(setup: &'a DemoSetup, is_script: bool) -> Self {
        Self {
            setup,
            is_script,
            started: Instant::now(),
            printed: BTreeMap::new(),
        }
    }

    /// Waits until all three environments run the first release.
    pub(super) async fn wait_for_first_release(&mut self) -> anyhow::Result<()> {
        anstream::println!("{}", self.setup.releases.introduction());
        self.until(|status| ENVIRONMENTS.iter().all(|name| runs(status, name).is_some()))
            .await
    }

    pub(super) fn print_suggestions(&self, next: &str, faulty: &str) {
        let (rest, standalone) = (self.setup.rest(), &self.setup.standalone);
        let binary = std::env::args().next().unwrap_or("sluice".to_owned());
        // `demo env` adds the folder of the binary to PATH.
        let sluice = match own_folder() {
            Some(_) => "sluice",
            None => &binary,
        };
        anstream::println!(
            "\nDashboard  {rest}   token {token}   (as {SECOND_APPROVER}: {second_token})\n\
             A release is being promoted. In another terminal, make kubectl and sluice use the demo:\n  \
             eval \"$({binary} demo env --demo {port})\"\n\
             Then try:\n\
             {commands}\
             \"Create a pipeline\" in the dashboard opens a pull request, which the demo merges.\n\
             Ctrl-C stops the demo and removes everything.\n",
            commands = suggestions(sluice, next, faulty),
            port = self.setup.port(),
            token = standalone.token,
            second_token = self.setup.second_token,
        );
    }

    /// Prints changes until the demo ends.
    pub(super) async fn print_changes(&mut self) -> anyhow::Result<()> {
        loop {
            self.print_update().await?;
            sleep(POLL_INTERVAL).await;
        }
    }

    /// The scripted run: a release is promoted to prod with two approvals, then another one fails its check
    /// in staging and is rolled back.
    pub(super) async fn run_script(&mut self, release: &str, faulty: &str) -> anyhow::Result<()> {
        let revision = self.push(release).await?;
        let revision = revision.as_str();
        self.until(|status| runs(status, "staging") == Some(revision))
            .await?;
        self.until(|status| waits_for_approval(status, "prod") == Some(revision))
            .await?;
        for (who, by) in [("you", OWNER), (SECOND_APPROVER, SECOND_APPROVER)] {
            self.print_line(who, &format!("approve {release} for prod"));
            self.approve(by, "prod", revision).await?;
        }
        self.until(|status| runs(status, "prod") == Some(revision))
            .await?;
        let rejected = self.push(faulty).await?;
        self.until(|status| is_rolled_back(status, "staging", &rejected, revision))
            .await?;
        let took = self.started.elapsed().as_secs();
        anstream::println!(
            "\n{release} runs in prod; {faulty} failed its check in staging, which runs {release} again. \
             That took {took} s. The demo removed everything."
        );
        Ok(())
    }

    /// Pushes a release to dev; returns its revision.
    async fn push(&self, release: &str) -> anyhow::Result<String> {
        self.print_line("you", &format!("push {release} to dev"));
        self.setup.releases.push(release).await?;
        Ok(self.setup.releases.revision(release))
    }

    /// Prints changes until a condition holds.
    async fn until(&mut self, condition: impl Fn(&PipelineStatus) -> bool) -> anyhow::Result<()> {
        while self.started.elapsed() < TIMEOUT {
            let status = self.print_update().await?;
            if condition(&status) {
                return Ok(());
            }
            sleep(POLL_INTERVAL).await;
        }
        let printed: Vec<_> = self.printed.values().cloned().collect();
        bail!(
            "the demo did not finish within {TIMEOUT:?}: {}",
            printed.join("; ")
        )
    }

    /// Reads the pipeline and prints what changed. People may delete it and create it again.
    async fn print_update(&mut self) -> anyhow::Result<PipelineStatus> {
        let pipelines = self.setup.pipelines();
        let pipeline: Option<Pipeline> = pipelines
            .get_opt(PIPELINE)
            .await
            .context("cannot read the pipeline")?;
        let status = pipeline.and_then(|it| it.status).unwrap_or_default();
        for name in ENVIRONMENTS {
            let Some(environment) = status.environments.get(name) else {
                continue;
            };
            let line = describe(environment);
            if self.printed.get(name) != Some(&line) {
                self.print_line(name, &planner::shortened(&line));
                self.printed.insert(name.to_owned(), line);
            }
        }
        Ok(status)
    }

    fn print_line(&self, who: &str, what: &str) {
        let seconds = self.started.elapsed().as_secs_f64();
        let (bold, plain) = ("\u{1b}[1m", "\u{1b}[0m");
        anstream::println!("{seconds:>6.1}s  {bold}{who:<8}{plain} {what}");
    }

    /// Approves the waiting promotion as a user.
    async fn approve(&self, by: &str, environment: &str, revision: &str) -> anyhow::Result<()> {
        let promotions = self.setup.promotions();
        let waiting = self.awaiting_approval(environment, revision).await?;
        let name = waiting.metadata.name.unwrap_or_default();
        let status = waiting.status.unwrap_or_default();
        let digest = status.change.map(|change| change.digest);
        let mut approvals = waiting.spec.approvals;
        approvals.push(Approval {
            by: by.to_owned(),
            note: Some("approved by the scripted run".to_owned()),
            change_digest: digest,
            ..Approval::default()
        });
        let patch = Patch::Merge(json!({"spec": {"approvals": approvals}}));
        let approved = promotions
            .patch(&name, &PatchParams::default(), &patch)
            .await;
        approved.map(drop).context("cannot approve")
    }

    /// The promotion that waits for approval. What it changes is computed after it was created.
    async fn awaiting_approval(
        &self,
        environment: &str,
        revision: &str,
    ) -> anyhow::Result<Promotion> {
        let is_meant = |promotion: &Promotion| {
            let (spec, status) = (&promotion.spec, promotion.status.as_ref());
            spec.environment == environment
                && spec.revision == revision
                && status.and_then(|status| status.phase) == Some(Phase::AwaitingApproval)
        };
        for _ in 0..APPROVAL_ATTEMPTS {
            let listed = self.setup.promotions().list(&ListParams::default()).await;
            let mut listed = listed.context("cannot list promotions")?.into_iter();
            if let Some(promotion) = listed.find(is_meant) {
                return Ok(promotion);
            }
            sleep(POLL_INTERVAL).await;
        }
        bail!("no promotion waits for approval")
    }
}

/// Commands to try, and what they do, in two columns.
fn suggestions(sluice: &str, next: &str, faulty: &str) -> String {
    let thaw = format!("stops promotions into prod until {sluice} thaw {PIPELINE} prod");
    let lines = [
        (
            format!("status {PIPELINE}"),
            "what each environment runs, and why it waits",
        ),
        (
            format!("explain {PIPELINE} prod"),
            "the gates of prod, and what resolves the wait",
        ),
        (
            format!("approve {PIPELINE} prod"),
            "your approval for prod, which needs those of two people",
        ),
        (
            format!("approve {PIPELINE} prod --as {SECOND_APPROVER}"),
            "the approval of the other person",
        ),
        (format!("freeze {PIPELINE} prod"), thaw.as_str()),
        (
            format!("demo push {next}"),
            "pushes the next release to dev",
        ),
        (format!("demo push {next}-broken"), "one that fails in dev"),
        (
            format!("demo push {faulty}"),
            "one that fails its check in staging and is rolled back",
        ),
    ];
    let width = lines.iter().map(|(command, _)| command.len()).max();
    let width = width.unwrap_or_default();
    let lines = lines
        .iter()
        .map(|(command, text)| format!("  {sluice} {command:width$}  {text}\n"));
    lines
        .chain(["  kubectl get pipelines,promotions\n".to_owned()])
        .collect()
}

/// The revision that all targets of an environment run.
fn runs<'a>(status: &'a PipelineStatus, environment: &str) -> Option<&'a str> {
    let targets = &status.environments.get(environment)?.targets;
    let first = targets.first()?.revision.as_deref()?;
    let is_there = targets
        .iter()
        .all(|target| target.ready && target.revision.as_deref() == Some(first));
    is_there.then_some(first)
}

/// Whether an environment has rejected a revision and runs another one again.
fn is_rolled_back(
    status: &PipelineStatus,
    environment: &str,
    rejected: &str,
    revision: &str,
) -> bool {
    let Some(it) = status.environments.get(environment) else {
        return false;
    };
    let has_ended = |phase: Option<Phase>| phase.is_some_and(Phase::is_terminal);
    it.rejected.iter().any(|it| it == rejected)
        && it.promotion.as_ref().is_none_or(|it| has_ended(it.phase))
        && runs(status, environment) == Some(revision)
}

fn waits_for_approval<'a>(status: &'a PipelineStatus, environment: &str) -> Option<&'a str> {
    let waiting = status
        .environments
        .get(environment)?
        .waiting_approval
        .as_ref()?;
    Some(&waiting.revision)
}

/// One line about an environment.
fn describe(environment: &EnvironmentStatus) -> String {
    let target = environment.targets.first();
    let release = target.and_then(planner::release);
    let release = release.unwrap_or("nothing yet".to_owned());
    let is_ready = target.is_some_and(|target| target.ready);
    // The glyphs of `sluice status`.
    let state = match (is_ready, release.contains(" failed")) {
        (true, _) => SummaryState::Ready,
        (_, true) => SummaryState::Failed,
        _ => SummaryState::NotReady,
    };
    let mut line = format!("{} {release}", state.glyph());
    let promotion = environment.promotion.as_ref();
    let under_way = promotion.filter(|it| it.phase.is_none_or(|phase| !phase.is_terminal()));
    if let Some(promotion) = under_way {
        let phase = promotion
            .phase
            .map(|phase| format!("{phase:?}"))
            .unwrap_or("started".to_owned());
        line += &format!("  → {} {phase}", promotion.revision);
        if let Some(url) = &promotion.url {
            line += &format!("  {url}");
        }
    }
    let revision = target.and_then(|target| target.revision.as_deref());
    let is_failed = |it: &&CheckStatus| {
        it.verdict == CheckVerdict::Failed && Some(it.revision.as_str()) == revision
    };
    if let Some(failed) = environment.checks.iter().find(is_failed) {
        let message = failed.message.as_deref().unwrap_or_default();
        line += &format!("  (check {} failed: {message})", failed.check);
    }
    if let Some(hold) = &environment.hold {
        line += &format!("  ({}: {})", hold.reason, hold.message);
    }
    line
}

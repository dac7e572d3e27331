//! What the terminal shows: each change of the pipeline as it happens, and what to try.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, bail};
use api::{
    Pipeline,
    pipeline::{EnvironmentStatus, PipelineStatus},
    promotion::Phase,
};
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::world::{ENVIRONMENTS, PIPELINE, World};
use crate::standalone::OWNER;

/// How often the pipeline is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// How long the whole story may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// The story as it is told.
pub(super) struct Story<'a> {
    world: &'a World,
    pub(super) is_script: bool,
    began: Instant,
    /// The last line told about each environment.
    told: BTreeMap<String, String>,
}

impl<'a> Story<'a> {
    pub(super) fn new(world: &'a World, is_script: bool) -> Self {
        Self {
            world,
            is_script,
            began: Instant::now(),
            told: BTreeMap::new(),
        }
    }

    /// Waits until all three environments run the first release.
    pub(super) async fn begin(&mut self) -> anyhow::Result<()> {
        anstream::println!(
            "Three clusters (dev, staging, prod) with Flux on each, a git forge and Sluice run in this\n\
             process. What is in git gets deployed; Sluice moves it on by pull request.\n"
        );
        self.until(|status| ENVIRONMENTS.iter().all(|name| runs(status, name).is_some()))
            .await
    }

    pub(super) fn show_what_to_try(&self, next: &str) {
        let (rest, standalone) = (self.world.rest(), &self.world.standalone);
        anstream::println!(
            "\nDashboard  {rest}   token {token}\n\
             A release is on its way. Try, in another terminal:\n  \
             eval \"$({sluice} demo env)\"        has kubectl and sluice speak to the demo\n  \
             {sluice} status {PIPELINE}          where it is, and why it waits\n  \
             {sluice} approve {PIPELINE} prod    lets it into prod\n  \
             {sluice} demo push {next}         the next release, to dev\n  \
             kubectl get pipelines,promotions\n\
             In the dashboard, Create a pipeline proposes one in git; a colleague merges it.\n\
             Ctrl-C ends the demo and leaves nothing behind.\n",
            token = standalone.token,
            sluice = std::env::args().next().unwrap_or("sluice".to_owned()),
        );
    }

    /// Tells what happens until the demo ends.
    pub(super) async fn follow(&mut self) -> anyhow::Result<()> {
        loop {
            self.look().await?;
            sleep(LOOK).await;
        }
    }

    /// The whole story: a push, two promotions, an approval.
    pub(super) async fn play(&mut self, release: &str) -> anyhow::Result<()> {
        self.say("you", &format!("push {release} to dev"));
        self.world.push(release).await?;
        self.until(|status| runs(status, "staging") == Some(release))
            .await?;
        self.until(|status| waits_for_approval(status, "prod") == Some(release))
            .await?;
        self.say("you", &format!("approve {release} for prod"));
        self.approve("prod", release).await?;
        self.until(|status| runs(status, "prod") == Some(release))
            .await?;
        let took = self.began.elapsed().as_secs();
        anstream::println!(
            "\n{release} runs everywhere, {took} s after the start. Nothing is left behind."
        );
        Ok(())
    }

    /// Tells what happens until something is so.
    async fn until(&mut self, is_so: impl Fn(&PipelineStatus) -> bool) -> anyhow::Result<()> {
        while self.began.elapsed() < PATIENCE {
            let status = self.look().await?;
            if is_so(&status) {
                return Ok(());
            }
            sleep(LOOK).await;
        }
        let told: Vec<_> = self.told.values().cloned().collect();
        bail!("the demo is stuck after {PATIENCE:?}: {}", told.join("; "))
    }

    /// Looks at the pipeline and tells what is new.
    async fn look(&mut self) -> anyhow::Result<PipelineStatus> {
        let pipeline: Pipeline = self
            .world
            .pipelines()
            .get(PIPELINE)
            .await
            .context("cannot read the pipeline")?;
        let status = pipeline.status.unwrap_or_default();
        for name in ENVIRONMENTS {
            let Some(environment) = status.environments.get(name) else {
                continue;
            };
            let line = describe(environment);
            if self.told.get(name) != Some(&line) {
                self.say(name, &line);
                self.told.insert(name.to_owned(), line);
            }
        }
        Ok(status)
    }

    fn say(&self, who: &str, what: &str) {
        let seconds = self.began.elapsed().as_secs_f64();
        let (bold, plain) = ("\u{1b}[1m", "\u{1b}[0m");
        anstream::println!("{seconds:>6.1}s  {bold}{who:<8}{plain} {what}");
    }

    /// Approves what waits, as the owner of the demo.
    async fn approve(&self, environment: &str, revision: &str) -> anyhow::Result<()> {
        let promotions = self.world.promotions();
        let all = promotions
            .list(&ListParams::default())
            .await
            .context("cannot list promotions")?;
        let waiting = all.into_iter().find(|promotion| {
            let phase = promotion.status.as_ref().and_then(|status| status.phase);
            let is_here =
                promotion.spec.environment == environment && promotion.spec.revision == revision;
            is_here && phase == Some(Phase::AwaitingApproval)
        });
        let waiting = waiting.context("nothing waits for approval")?;
        let name = waiting.metadata.name.unwrap_or_default();
        let patch = Patch::Merge(
            json!({"spec": {"approval": {"by": OWNER, "note": "as the script says"}}}),
        );
        let approved = promotions
            .patch(&name, &PatchParams::default(), &patch)
            .await;
        approved.map(drop).context("cannot approve")
    }
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
    let mut line = format!("{} {release}", if is_ready { "●" } else { "◌" });
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
    if let Some(hold) = &environment.hold {
        line += &format!("  ({}: {})", hold.reason, hold.message);
    }
    line
}

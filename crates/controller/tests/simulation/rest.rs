//! The end of a run: in good weather everything comes to rest, and a hub that is restored without any status
//! is left alone.

use std::collections::BTreeSet;

use api::{CheckRun, Pipeline, Promotion, pipeline::EnvironmentStatus, promotion::Phase};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;

use crate::{
    layout::{PROMOTED, number},
    link::Weather,
    run::Run,
    watchdog::{environment_of_pull, version_of_pull},
};

/// How long everything may take to come to rest in good weather, in minutes.
const SETTLING: u64 = 25;
/// How long a restored hub is watched, in seconds.
const RESTORED: u64 = 6 * 60;
/// The reason of a promotion whose rollout goes on when a person says so.
const STOPPED: &str = "RolloutStopped";
/// The reasons of promotions that go on when a person says so.
const WAIT_FOR_PEOPLE: &[&str] = &[STOPPED, "CheckFailed"];

impl Run {
    /// Faults end, and people let everything pass.
    pub(crate) async fn settle(&mut self) {
        self.story().tell("weather", "is good from now on");
        self.world.weather.set(Weather::default());
        for replica in &self.world.replicas {
            replica.link().into_iter().for_each(|link| link.mend());
        }
        self.pass(120).await;
        self.world.thaw().await;
        self.world.suspend("resume").await;
        self.world.resume_rollout().await;
        for _ in 0..SETTLING {
            self.pass(60).await;
            if self.is_at_rest(WAIT_FOR_PEOPLE).await {
                break;
            }
            self.world.report_tickets().await;
            self.world.approve().await;
            self.world.merge_all();
        }
        self.pass(120).await;
        self.check_rest().await;
    }

    /// Whether time would not change anything any more, where promotions may wait for these reasons.
    async fn is_at_rest(&self, waiting: &[&str]) -> bool {
        let promotions = self.world.promotions().await;
        let has_ended = |promotion: &Promotion| {
            let status = promotion.status.as_ref();
            let is_over = status
                .and_then(|it| it.phase)
                .is_some_and(|it| it.is_terminal());
            let reason = status.and_then(|it| it.reason.as_deref());
            is_over || reason.is_some_and(|it| waiting.contains(&it))
        };
        let status = self.world.pipeline().await.status.unwrap_or_default();
        let is_open =
            |it: &EnvironmentStatus| it.hold.as_ref().is_some_and(|it| it.opens_at.is_some());
        self.flux.is_idle()
            && promotions.iter().all(has_ended)
            && !status.environments.values().any(is_open)
            && self.unexplained(&status).is_empty()
    }

    /// The environments that are behind and do not say why.
    fn unexplained(&self, status: &api::pipeline::PipelineStatus) -> Vec<String> {
        let mut unexplained = Vec::new();
        for environment in PROMOTED {
            let source = self.world.layout.source_of(environment);
            let (here, there) = (self.flux.deployed(environment), self.flux.deployed(source));
            let state = status.environments.get(environment);
            let promotion = state.and_then(|it| it.promotion.as_ref());
            let is_stopped = promotion.is_some_and(|it| it.reason.as_deref() == Some(STOPPED));
            // A rollout that goes on without a target that failed names it.
            let mut failures = state.into_iter().flat_map(|it| &it.failures);
            let has_failed = failures.any(|it| it.revision == there);
            let is_held = state.is_some_and(|it| it.hold.is_some());
            if number(there) > number(here) && !is_held && !is_stopped && !has_failed {
                let text = format!("{environment} stays at {here} although {source} has {there}");
                unexplained.push(format!("{text}: {}", json!(state)));
            }
        }
        unexplained
    }

    /// Whatever is not promoted is held for a reason that people can read.
    async fn check_rest(&self) {
        if !self.flux.is_idle() {
            return;
        }
        let status = self.world.pipeline().await.status.unwrap_or_default();
        for text in self.unexplained(&status) {
            self.story().violation(text);
        }
        self.check_git().await;
    }

    /// Git has what the last promotion brought. One that ends because its environment runs the revision may not
    /// have seen its pull request merged.
    async fn check_git(&self) {
        let promotions = self.world.promotions().await;
        for environment in PROMOTED {
            if self.world.layout.targets_of(environment).len() > 1 {
                continue;
            }
            let landed = promotions.iter().filter_map(|promotion| {
                let status = promotion.status.as_ref()?;
                let is_there = promotion.spec.environment == environment;
                let has_succeeded = status.phase == Some(Phase::Succeeded);
                let end = status.finished_at.as_ref().filter(|_| has_succeeded);
                let at = status.merged_at.as_ref().or(end).filter(|_| is_there)?;
                Some((at.0, &promotion.spec.version))
            });
            let last = landed.max_by_key(|(at, _)| *at);
            let git = self.world.version_in_git(environment);
            if self.has_merged(environment, &git) {
                continue;
            }
            if let Some((_, version)) = last.filter(|(_, version)| **version != git) {
                let text = format!("git has {git} in {environment}, and {version} landed last");
                self.story().violation(text);
            }
        }
    }

    /// Whether a pull request was merged that brings the version. Until its successor may push, people can
    /// merge one whose promotion was superseded.
    fn has_merged(&self, environment: &str, version: &str) -> bool {
        let key = (environment.to_owned(), version.to_owned());
        if self.world.watchdog.truth.lock().merged.contains_key(&key) {
            return true;
        }
        let pulls = self.world.forge.pulls();
        let mut merged = pulls.iter().filter(|pull| pull.is_merged);
        merged.any(|it| environment_of_pull(it) == environment && version_of_pull(it) == version)
    }

    /// The hub is restored from a backup without any status: nothing may happen because of that. Where a
    /// promotion was under way, its successor may begin; the watchdog judges what that does.
    pub(crate) async fn restore(&mut self) {
        let is_at_rest = self.is_at_rest(&[STOPPED]).await;
        for replica in &mut self.world.replicas {
            replica.kill("as the hub is restored");
        }
        let before = self.picture().await;
        self.tell_promotions().await;
        self.story().tell("hub", "is restored without any status");
        let patch = Patch::Merge(json!({"status": null}));
        let parameters = PatchParams::default();
        let promotions: Api<Promotion> = Api::namespaced(self.world.hub.clone(), "default");
        for promotion in self.world.promotions().await {
            let name = promotion.metadata.name.unwrap_or_default();
            let patched = promotions.patch_status(&name, &parameters, &patch).await;
            patched.unwrap();
        }
        let runs: Api<CheckRun> = Api::namespaced(self.world.hub.clone(), "default");
        for run in runs.list(&ListParams::default()).await.unwrap() {
            let name = run.metadata.name.unwrap_or_default();
            let patched = runs.patch_status(&name, &parameters, &patch).await;
            patched.unwrap();
        }
        let pipelines: Api<Pipeline> = Api::namespaced(self.world.hub.clone(), "default");
        let patched = pipelines.patch_status("app", &parameters, &patch).await;
        patched.unwrap();
        self.pass(RESTORED).await;
        let after = self.picture().await;
        if is_at_rest && before != after {
            self.tell_promotions().await;
            let text = format!("a restored hub is not left alone: {before:?}, then {after:?}");
            self.story().violation(text);
        }
    }

    async fn tell_promotions(&self) {
        for promotion in self.world.promotions().await {
            let (spec, status) = (&promotion.spec, promotion.status.unwrap_or_default());
            let text = format!(
                "has {}: {} into {}, {:?} {}",
                promotion.metadata.name.unwrap_or_default(),
                spec.version,
                spec.environment,
                status.phase,
                status.reason.unwrap_or_default()
            );
            self.story().tell("hub", text);
        }
    }

    /// Side effects so far, what is in git, and the names of all promotions.
    async fn picture(&self) -> (usize, Vec<String>, BTreeSet<String>) {
        let effects = self.world.watchdog.truth.lock().effects;
        let targets = self.world.layout.targets().into_iter();
        let git = targets.map(|target| self.world.version_in_git(&target));
        let promotions = self.world.promotions().await.into_iter();
        let names = promotions.filter_map(|it| it.metadata.name);
        (effects, git.collect(), names.collect())
    }
}

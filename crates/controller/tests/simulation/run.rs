//! One run: people, clusters and faults as the seed says, then good weather, in which everything must come
//! to rest.

use std::{collections::BTreeSet, time::Duration};

use api::{CheckRun, Pipeline, Promotion};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;

use crate::{
    flux::Flux,
    link::{Destination, Weather},
    story::Story,
    world::{START, World, number},
};

/// How often the world is looked at.
const TICK: Duration = Duration::from_secs(3);
/// How long everything may take to come to rest in good weather.
const SETTLING: u64 = 25 * 60;
/// How long a restored hub is watched.
const RESTORED: u64 = 12 * 60;

/// The outcome of a run.
pub(crate) struct Outcome {
    pub(crate) violations: Vec<String>,
    pub(crate) story: String,
}

/// Runs one seed on a runtime of its own.
pub(crate) fn run(seed: u64) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    fastrand::seed(seed);
    let story = runtime.unwrap().block_on(async {
        let mut run = Run::new(seed).await;
        run.live().await;
        run.world.story.clone()
    });
    Outcome {
        violations: story.violations(),
        story: story.draw(),
    }
}

struct Run {
    world: World,
    flux: Flux,
    releases: u64,
}

impl Run {
    async fn new(seed: u64) -> Self {
        Self {
            world: World::new(seed).await,
            flux: Flux::default(),
            releases: 0,
        }
    }

    fn story(&self) -> &Story {
        &self.world.story
    }

    async fn live(&mut self) {
        self.pass(60).await;
        let steps = 8 + self.world.dice.below(10);
        for _ in 0..steps {
            self.happen().await;
            let seconds = 2 + self.world.dice.below(120);
            self.pass(seconds).await;
            if !self.story().violations().is_empty() {
                return;
            }
        }
        self.settle().await;
        if self.story().violations().is_empty() {
            self.restore().await;
        }
    }

    /// Lets time pass: Flux works, and processes that died are started again.
    async fn pass(&mut self, seconds: u64) {
        for _ in 0..=seconds / TICK.as_secs() {
            self.flux.sync(&self.world).await;
            self.world.start_replicas().await;
            self.world.pass(TICK).await;
        }
    }

    /// Something that the seed chooses.
    async fn happen(&mut self) {
        match self.world.dice.below(27) {
            0..5 => self.release(),
            5..8 => self.world.merge_one(),
            8..11 => self.world.approve().await,
            11 => self.world.close_one(),
            12 => self.world.reject().await,
            13 => self.world.request("promote").await,
            14 => self.world.request("rollback").await,
            15..17 => self.world.freeze().await,
            17 => self.world.suspend("suspend").await,
            18 => self.world.suspend("resume").await,
            19 => self.kill(),
            20 => self.cut(),
            21 => self.jump(),
            22 => self.pause(),
            23 => self.world.approve_late().await,
            _ => self.change_weather(),
        }
    }

    fn release(&mut self) {
        self.releases += 1;
        self.world.release(&mut self.flux, self.releases);
    }

    fn kill(&mut self) {
        let index = self.world.dice.below(2);
        let replica = &mut self.world.replicas[usize::try_from(index).unwrap()];
        replica.kill("of a kill");
    }

    fn cut(&self) {
        let to = *self.world.dice.pick(&[
            Destination::Hub,
            Destination::Hub,
            Destination::Forge,
            Destination::Leaf,
        ]);
        let time = Duration::from_secs(10 + self.world.dice.below(170));
        let index = self.world.dice.below(2);
        let replica = &self.world.replicas[usize::try_from(index).unwrap()];
        if let Some(link) = replica.link() {
            link.cut(to, time);
        }
    }

    fn pause(&self) {
        let time = Duration::from_secs(10 + self.world.dice.below(110));
        let index = self.world.dice.below(2);
        let replica = &self.world.replicas[usize::try_from(index).unwrap()];
        if let Some(link) = replica.link() {
            link.pause(time);
        }
    }

    /// The wall clock of processes that start from now on is wrong.
    fn jump(&self) {
        let seconds = i64::try_from(self.world.dice.below(240)).unwrap() - 120;
        self.story()
            .tell("clock", format!("jumps by {seconds} seconds"));
        let now = runtime::wall_clock::now();
        let now = now.as_second().max(START) + seconds;
        runtime::wall_clock::simulate(jiff::Timestamp::from_second(now).unwrap());
    }

    fn change_weather(&self) {
        let dice = &self.world.dice;
        let weather = match dice.below(4) {
            0 => Weather::default(),
            _ => Weather {
                refused: dice.below(60),
                lost_answer: dice.below(60),
                conflict: dice.below(40),
                twice: dice.below(40),
                late: dice.below(60),
                death: dice.below(12),
                watch_gap: dice.below(300),
                repeated_event: dice.below(200),
                late_event: dice.below(200),
            },
        };
        self.story().tell("weather", format!("{weather:?}"));
        self.world.weather.set(weather);
    }

    /// Faults end, and people let everything pass.
    async fn settle(&mut self) {
        self.story().tell("weather", "is good from now on");
        self.world.weather.set(Weather::default());
        for replica in &self.world.replicas {
            replica.link().into_iter().for_each(|link| link.mend());
        }
        self.pass(120).await;
        self.world.thaw().await;
        self.world.suspend("resume").await;
        for _ in 0..SETTLING / 60 {
            self.pass(60).await;
            self.world.approve().await;
            self.world.merge_all();
        }
        self.pass(120).await;
        self.check_rest().await;
    }

    /// Whatever is not promoted is held for a reason that people can read.
    async fn check_rest(&self) {
        if !self.flux.is_idle() {
            return;
        }
        let status = self.world.pipeline().await.status.unwrap_or_default();
        for environment in ["staging", "prod"] {
            let source = self.world.layout.source_of(environment);
            let (here, there) = (self.flux.deployed(environment), self.flux.deployed(source));
            if number(there) <= number(here) {
                continue;
            }
            let state = status.environments.get(environment);
            let is_held = state.is_some_and(|it| it.hold.is_some());
            if !is_held {
                let text = format!("{environment} stays at {here} although {source} has {there}");
                let shown = json!(state).to_string();
                self.story().violation(format!("{text}: {shown}"));
            }
        }
        self.check_git().await;
    }

    /// Git has what the last promotion brought that landed.
    async fn check_git(&self) {
        let promotions = self.world.promotions().await;
        for environment in ["staging", "prod"] {
            let landed = promotions.iter().filter_map(|promotion| {
                let status = promotion.status.as_ref()?;
                let is_there = promotion.spec.environment == environment;
                let at = status.merged_at.as_ref().filter(|_| is_there)?;
                Some((at.0, &promotion.spec.version))
            });
            let last = landed.max_by_key(|(at, _)| *at);
            let git = self.world.version_in_git(environment);
            if let Some((_, version)) = last.filter(|(_, version)| **version != git) {
                let text = format!("git has {git} in {environment}, and {version} landed last");
                self.story().violation(text);
            }
        }
    }

    /// The hub is restored from a backup without any status: nothing may happen because of that.
    async fn restore(&mut self) {
        for replica in &mut self.world.replicas {
            replica.kill("as the hub is restored");
        }
        self.story().tell("hub", "is restored without any status");
        let before = self.picture().await;
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
        if before != after {
            let text = format!("a restored hub is not left alone: {before:?}, then {after:?}");
            self.story().violation(text);
        }
    }

    /// Side effects so far, what is in git, and the names of all promotions.
    async fn picture(&self) -> (usize, Vec<String>, BTreeSet<String>) {
        let effects = self.world.watchdog.truth.lock().effects;
        let git = ["staging", "prod"].map(|name| self.world.version_in_git(name));
        let promotions = self.world.promotions().await.into_iter();
        let names = promotions.filter_map(|it| it.metadata.name);
        (effects, git.to_vec(), names.collect())
    }
}

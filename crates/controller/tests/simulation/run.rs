//! One run: people, clusters and faults as the seed says, then good weather, in which everything must come
//! to rest.

use std::{sync::LazyLock, time::Duration};

use crate::{
    flux::Flux,
    link::{Destination, Weather},
    story::Story,
    world::{BEGINNING, START, World},
};

/// How often the world is looked at.
const TICK: Duration = Duration::from_secs(3);

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
    LazyLock::force(&BEGINNING);
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

pub(crate) struct Run {
    pub(crate) world: World,
    pub(crate) flux: Flux,
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

    pub(crate) fn story(&self) -> &Story {
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
    pub(crate) async fn pass(&mut self, seconds: u64) {
        for _ in 0..=seconds / TICK.as_secs() {
            self.flux.sync(&self.world).await;
            self.world.start_replicas().await;
            self.world.pass(TICK).await;
        }
    }

    /// Something that the seed chooses.
    async fn happen(&mut self) {
        match self.world.dice.below(34) {
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
            24..26 => self.world.report_tickets().await,
            26..28 => self.world.notify(self.releases).await,
            28 => self.world.resend().await,
            29 => self.world.stop_rollout().await,
            30 => self.world.resume_rollout().await,
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
        self.world.watchdog.truth.lock().is_clock_set = true;
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
}

//! Everything that one process sends passes here, where it may be delayed, lost, repeated or the last thing
//! that the process did.

use std::{collections::BTreeMap, future::pending, sync::Arc, time::Duration};

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};

use crate::{dice::Dice, story::Story};

/// Where a call goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Destination {
    Hub,
    Forge,
    Leaf,
}

/// Why a call has no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loss {
    /// It was never carried out.
    Refused,
    /// It was carried out, and the answer got lost.
    Answer,
    /// Somebody else is said to have written first; nothing was carried out.
    Conflict,
}

/// How often, in a thousand calls, which fault happens. All zero in good weather.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    pub(crate) refused: u64,
    pub(crate) lost_answer: u64,
    pub(crate) conflict: u64,
    pub(crate) twice: u64,
    pub(crate) late: u64,
    pub(crate) death: u64,
    pub(crate) watch_gap: u64,
    pub(crate) repeated_event: u64,
    pub(crate) late_event: u64,
}

/// The weather, for all processes.
#[derive(Clone, Default)]
pub(crate) struct SharedWeather(Arc<Mutex<Weather>>);

impl SharedWeather {
    pub(crate) fn set(&self, weather: Weather) {
        *self.0.lock() = weather;
    }

    pub(crate) fn get(&self) -> Weather {
        *self.0.lock()
    }
}

enum Fault {
    None,
    Lost(Loss),
    Twice,
    /// The call arrives late, even if nobody waits for it any more.
    Late(Duration),
    /// The answer arrives late.
    LateAnswer(Duration),
    DeathBefore,
    DeathAfter,
}

/// The connections of one process.
pub(crate) struct Link {
    name: String,
    dice: Dice,
    pub(crate) story: Story,
    weather: SharedWeather,
    is_alive: watch::Sender<bool>,
    cut_until: Mutex<BTreeMap<Destination, Instant>>,
    paused_until: Mutex<Option<Instant>>,
}

impl Link {
    pub(crate) fn new(name: String, dice: Dice, story: Story, weather: SharedWeather) -> Self {
        Self {
            name,
            dice,
            story,
            weather,
            is_alive: watch::Sender::new(true),
            cut_until: Mutex::default(),
            paused_until: Mutex::default(),
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn is_alive(&self) -> bool {
        *self.is_alive.borrow()
    }

    /// Never returns in a process that has died.
    pub(crate) async fn alive(&self) {
        if !self.is_alive() {
            pending::<()>().await;
        }
    }

    /// Nothing that the process does has an effect any more.
    pub(crate) fn die(&self, how: &str) {
        if self.is_alive.send_replace(false) {
            self.story.tell(&self.name, format!("✝ dies {how}"));
        }
    }

    /// Cuts the connection for a while.
    pub(crate) fn cut(&self, to: Destination, time: Duration) {
        let seconds = time.as_secs();
        self.story
            .tell(&self.name, format!("⌁ cut off from {to:?} for {seconds} s"));
        self.cut_until.lock().insert(to, Instant::now() + time);
    }

    /// Nothing leaves the process for a while, as if it did not get any processor time.
    pub(crate) fn pause(&self, time: Duration) {
        let seconds = time.as_secs();
        self.story
            .tell(&self.name, format!("stands still for {seconds} s"));
        *self.paused_until.lock() = Some(Instant::now() + time);
    }

    async fn resumed(&self) {
        let until = *self.paused_until.lock();
        if let Some(until) = until {
            sleep_until(until).await;
        }
    }

    pub(crate) fn mend(&self) {
        self.cut_until.lock().clear();
        *self.paused_until.lock() = None;
    }

    fn is_cut(&self, to: Destination) -> bool {
        let until = self.cut_until.lock().get(&to).copied();
        until.is_some_and(|until| Instant::now() < until)
    }

    /// After how many events a watch ends, if it does so by itself.
    pub(crate) fn watch_gap(&self) -> Option<usize> {
        let gap = self.dice.happens(self.weather.get().watch_gap);
        gap.then(|| usize::try_from(self.dice.below(4)).unwrap_or(0))
    }

    /// How often an event of a watch arrives, and how late.
    pub(crate) fn event(&self) -> (usize, Duration) {
        let weather = self.weather.get();
        let times = 1 + usize::from(self.dice.happens(weather.repeated_event));
        match self.dice.happens(weather.late_event) {
            true => (times, self.dice.seconds(10)),
            false => (times, Duration::ZERO),
        }
    }

    /// Carries out a call, as the weather allows. `lost` is the answer where there is none.
    pub(crate) async fn call<T: Send + 'static>(
        &self,
        to: Destination,
        what: &str,
        perform: impl Fn() -> BoxFuture<'static, T>,
        lost: impl Fn(Loss) -> T,
    ) -> T {
        self.alive().await;
        sleep(Duration::from_millis(1 + self.dice.below(40))).await;
        self.resumed().await;
        if self.is_cut(to) {
            sleep(Duration::from_secs(1)).await;
            self.alive().await;
            return lost(Loss::Refused);
        }
        let answer = match self.draw(to, what) {
            Fault::None => perform().await,
            Fault::Lost(Loss::Answer) => {
                perform().await;
                lost(Loss::Answer)
            }
            Fault::Lost(loss) => lost(loss),
            Fault::Twice => {
                perform().await;
                perform().await
            }
            Fault::Late(delay) => self.arrive_late(delay, perform()).await,
            Fault::LateAnswer(delay) => {
                let answer = perform().await;
                sleep(delay).await;
                answer
            }
            Fault::DeathBefore => {
                self.die(&format!("before: {what}"));
                pending().await
            }
            Fault::DeathAfter => {
                perform().await;
                self.die(&format!("after: {what}"));
                pending().await
            }
        };
        self.alive().await;
        answer
    }

    /// The call is under way: it arrives whatever becomes of the caller.
    async fn arrive_late<T: Send + 'static>(
        &self,
        delay: Duration,
        perform: BoxFuture<'static, T>,
    ) -> T {
        let arriving = tokio::spawn(async move {
            sleep(delay).await;
            perform.await
        });
        match arriving.await {
            Ok(answer) => answer,
            Err(_) => pending().await,
        }
    }

    fn draw(&self, to: Destination, what: &str) -> Fault {
        let weather = self.weather.get();
        let drawn = self.dice.below(1000);
        let mut limit = 0;
        let mut is_in = |share: u64| {
            limit += share;
            drawn < limit
        };
        let fault = if is_in(weather.refused) {
            Fault::Lost(Loss::Refused)
        } else if is_in(weather.lost_answer) {
            Fault::Lost(Loss::Answer)
        } else if is_in(weather.conflict) {
            match to {
                Destination::Hub => Fault::Lost(Loss::Conflict),
                _ => Fault::Lost(Loss::Refused),
            }
        } else if is_in(weather.twice) {
            Fault::Twice
        } else if is_in(weather.late) {
            match self.dice.below(2) {
                0 => Fault::Late(self.dice.seconds(15)),
                _ => Fault::LateAnswer(self.dice.seconds(15)),
            }
        } else if is_in(weather.death) {
            match self.dice.below(2) {
                0 => Fault::DeathBefore,
                _ => Fault::DeathAfter,
            }
        } else {
            return Fault::None;
        };
        self.tell(to, what, &fault);
        fault
    }

    fn tell(&self, to: Destination, what: &str, fault: &Fault) {
        let text = match fault {
            Fault::Lost(Loss::Refused) => "refused",
            Fault::Lost(Loss::Answer) => "answer lost",
            Fault::Lost(Loss::Conflict) => "conflict",
            Fault::Twice => "arrives twice",
            Fault::Late(_) => "arrives late",
            Fault::LateAnswer(_) => "answer late",
            Fault::None | Fault::DeathBefore | Fault::DeathAfter => return,
        };
        self.story
            .tell(&self.name, format!("  ~ {to:?}: {what}: {text}"));
    }
}

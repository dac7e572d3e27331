//! A process dies before, after and amid every effect of every journey.
//!
//! A seed is one death. Each life has three, so that a journey with so many effects is lived as many
//! times: then every effect was died of in each of the three ways. More seeds die at random.

use std::{
    panic::{AssertUnwindSafe, resume_unwind},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::FutureExt;
use tokio::runtime::Builder;

use crate::{
    gate::{Crash, DIED, Moment},
    journeys::{Journey, Stage},
};

/// How many journeys go on at a time.
const AT_ONCE: usize = 4;
/// How often a life is interrupted.
const DEATHS: usize = 3;

#[test]
fn a_crash_before_or_after_any_effect_loses_and_doubles_nothing() {
    let calm = all("calm", &Journey::ALL.map(|journey| (journey, Vec::new())));
    let lengths: Vec<_> = calm.iter().map(Vec::len).collect();
    let all_lives = lengths.iter().sum::<usize>();
    assert!(
        all_lives * DEATHS >= 200,
        "only so many effects: {lengths:?}"
    );
    let wanted = std::env::var("SLUICE_SEEDS").ok();
    let wanted = wanted.map_or(all_lives, |it| {
        it.parse::<usize>().unwrap().div_ceil(DEATHS)
    });
    let lives: Vec<_> = (0..wanted).map(|number| plan(number, &lengths)).collect();
    let effects = all("life", &lives);
    let died = |effects: &Vec<String>| effects.iter().filter(|it| it.starts_with(DIED)).count();
    let deaths: usize = effects.iter().map(died).sum();
    eprintln!("{deaths} deaths in {wanted} lives");
    assert!(deaths * 10 >= wanted * DEATHS * 8, "too few were reached");
}

/// Which journey a life goes on, and where it is interrupted.
fn plan(number: usize, lengths: &[usize]) -> Life {
    let mut random = Random(number as u64);
    let mut start = number;
    let mut journeys = Journey::ALL.into_iter().zip(lengths);
    let systematic = journeys.find(|(_, length)| {
        let is_it = start < **length;
        start -= if is_it { 0 } else { **length };
        is_it
    });
    let (journey, length) = match systematic {
        Some((journey, length)) => (journey, *length),
        None => {
            let which = random.below(lengths.len());
            (Journey::ALL[which], lengths[which])
        }
    };
    let late = Moment::Late(Duration::from_millis(random.below(300) as u64));
    let moments = [Moment::Before, Moment::After, late]
        .into_iter()
        .enumerate();
    let mut points: Vec<_> = moments
        .map(|(nth, moment)| match systematic {
            Some(_) => ((start + nth * length / DEATHS) % length, moment),
            None => (random.below(length), moment),
        })
        .collect();
    points.sort_by_key(|(effect, _)| *effect);
    (journey, after_one_another(&points))
}

/// Effects are counted anew from every death.
fn after_one_another(points: &[(usize, Moment)]) -> Vec<Crash> {
    let mut last = 0;
    let crash = |(effect, moment): &(usize, Moment)| {
        let wait = effect - last;
        last = *effect;
        Crash {
            effect: wait,
            moment: *moment,
        }
    };
    points.iter().map(crash).collect()
}

type Life = (Journey, Vec<Crash>);

/// Goes on these journeys, several at a time; answers the effects of each.
fn all(name: &str, lives: &[Life]) -> Vec<Vec<String>> {
    let next = AtomicUsize::new(0);
    let effects = Mutex::new(vec![Vec::new(); lives.len()]);
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                let runtime = Builder::new_current_thread().enable_all().build().unwrap();
                let stage = runtime.block_on(Stage::new());
                loop {
                    let number = next.fetch_add(1, Ordering::SeqCst);
                    let Some(life) = lives.get(number) else {
                        return;
                    };
                    let name = format!("{name}/{number}");
                    let its = runtime.block_on(one(&stage, &name, life));
                    effects.lock().unwrap()[number] = its;
                }
            });
        }
    });
    effects.into_inner().unwrap()
}

/// Goes on one journey; answers its effects.
async fn one(stage: &Stage, name: &str, (journey, crashes): &Life) -> Vec<String> {
    stage.begin(&journey.settings()).await;
    let going = async {
        tokio::select! {
            () = stage.live(crashes) => {}
            () = journey.go(stage) => {}
        }
    };
    let outcome = AssertUnwindSafe(going).catch_unwind().await;
    let effects = stage.gate.effects();
    if let Err(panic) = outcome {
        eprintln!("{name}: {journey:?} with {crashes:?}: {effects:#?}");
        resume_unwind(panic);
    }
    stage.end().await;
    effects
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % limit as u64).unwrap()
    }
}

//! A process dies before, after and amid every effect of every journey.
//!
//! A seed is one death. A life has several, and every journey is lived until each kind of its effects
//! was died of in each of the three ways; that is more than 200 seeds. `SLUICE_SEEDS=n` adds so many
//! that die at random.

use std::{
    collections::{BTreeMap, BTreeSet},
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
    fault_injector::{Crash, CrashPoint, DIED},
    journeys::{Journey, Stage},
};

/// How many journeys go on at a time.
const AT_ONCE: usize = 4;
/// How often a life is interrupted.
const DEATHS: usize = 5;

#[test]
fn a_crash_before_or_after_any_effect_loses_and_doubles_nothing() {
    let undisturbed = Journey::ALL.map(|journey| (journey, Vec::new()));
    let [calm, again] = ["calm", "calm again"].map(|name| all(name, &undisturbed));
    let lengths: Vec<_> = calm.iter().map(Vec::len).collect();
    let mut lives = every_death(&lengths);
    if let Ok(seeds) = std::env::var("SLUICE_SEEDS") {
        let more = 0..seeds.parse::<usize>().unwrap().div_ceil(DEATHS);
        lives.extend(more.map(|seed| random_life(seed, &lengths)));
    }
    let mut deaths = deaths_of(&lives, &all("life", &lives));
    // What one calm life has and another has not depends on timing, and cannot be planned.
    let mut wanted = wanted(&calm);
    let effects = kinds_of(&again);
    wanted.retain(|(journey, effect, _), _| effects.contains(&(journey.clone(), effect.clone())));
    // After a death the next effects may be others than planned: those that were missed have lives of
    // their own.
    for attempt in 0..8 {
        let is_missed = |(death, _): &(&Death, &Life)| !deaths.contains(death);
        let missed: Vec<Life> = wanted
            .iter()
            .filter(is_missed)
            .map(|(_, life)| life.clone())
            .collect();
        if missed.is_empty() {
            break;
        }
        deaths.extend(deaths_of(
            &missed,
            &all(&format!("missed {attempt}"), &missed),
        ));
        lives.extend(missed);
    }
    let missed: Vec<_> = wanted
        .keys()
        .filter(|death| !deaths.contains(death))
        .collect();
    let planned: usize = lives.iter().map(|(_, crashes)| crashes.len()).sum();
    eprintln!(
        "{planned} deaths in {} lives; {} kinds, {} wanted",
        lives.len(),
        deaths.len(),
        wanted.len()
    );
    assert!(missed.is_empty(), "nobody died of these: {missed:#?}");
    assert!(planned > 200, "{planned}");
}

/// Journey, effect and moment.
type Death = (String, String, &'static str);

/// Every death there must be, and a life that has just that one.
fn wanted(calm: &[Vec<String>]) -> BTreeMap<Death, Life> {
    let mut wanted = BTreeMap::new();
    for (journey, effects) in Journey::ALL.into_iter().zip(calm) {
        let mut random = Random(effects.len() as u64);
        for (effect, name) in effects.iter().enumerate() {
            for moment in moments(&mut random) {
                let death = (format!("{journey:?}"), kind(name), word(moment));
                let life = (journey, vec![Crash { effect, moment }]);
                wanted.entry(death).or_insert(life);
            }
        }
    }
    wanted
}

/// Journey and effect of all that happened.
fn kinds_of(calm: &[Vec<String>]) -> BTreeSet<(String, String)> {
    let all = Journey::ALL.into_iter().zip(calm);
    all.flat_map(|(journey, effects)| {
        effects
            .iter()
            .map(move |it| (format!("{journey:?}"), kind(it)))
    })
    .collect()
}

/// The deaths that were died: each stands behind its effect.
fn deaths_of(lives: &[Life], effects: &[Vec<String>]) -> BTreeSet<Death> {
    let mut deaths = BTreeSet::new();
    for ((journey, _), effects) in lives.iter().zip(effects) {
        for pair in effects.windows(2) {
            let moment = ["Before", "After", "Late"].into_iter();
            let mut moment = moment.filter(|it| pair[1].starts_with(&format!("{DIED} {it}")));
            if let Some(moment) = moment.next() {
                deaths.insert((format!("{journey:?}"), kind(&pair[0]), moment));
            }
        }
    }
    deaths
}

fn word(moment: CrashPoint) -> &'static str {
    match moment {
        CrashPoint::Before => "Before",
        CrashPoint::After => "After",
        CrashPoint::Late(_) => "Late",
    }
}

/// An effect without the names and numbers that differ from life to life.
fn kind(effect: &str) -> String {
    let parts = effect.split('/').map(|part| {
        let is_own =
            part.chars().any(|it| it.is_ascii_digit()) && part != "v1" && part != "v1alpha1";
        if is_own { "…" } else { part }
    });
    parts.collect::<Vec<_>>().join("/")
}

/// Lives in which each effect of each journey is died of in each way.
fn every_death(lengths: &[usize]) -> Vec<Life> {
    let mut lives = Vec::new();
    for (journey, length) in Journey::ALL.into_iter().zip(lengths) {
        let mut random = Random(*length as u64);
        let points: Vec<_> = (0..*length)
            .flat_map(|effect| moments(&mut random).map(|moment| (effect, moment)))
            .collect();
        // Far from one another, so that there is something to be interrupted.
        let count = points.len().div_ceil(DEATHS);
        lives.extend((0..count).map(|nth| {
            let own = points.iter().skip(nth).step_by(count).copied();
            (journey, after_one_another(own))
        }));
    }
    lives
}

/// A life that is interrupted anywhere.
fn random_life(seed: usize, lengths: &[usize]) -> Life {
    let mut random = Random(seed as u64);
    let which = random.below(lengths.len());
    let mut points: Vec<_> = (0..DEATHS)
        .map(|_| {
            let moment = moments(&mut random)[random.below(3)];
            (random.below(lengths[which]), moment)
        })
        .collect();
    points.sort_by_key(|(effect, _)| *effect);
    (Journey::ALL[which], after_one_another(points.into_iter()))
}

fn moments(random: &mut Random) -> [CrashPoint; 3] {
    let late = Duration::from_millis(random.below(300) as u64);
    [
        CrashPoint::Before,
        CrashPoint::After,
        CrashPoint::Late(late),
    ]
}

/// Effects are counted anew from every death.
fn after_one_another(points: impl Iterator<Item = (usize, CrashPoint)>) -> Vec<Crash> {
    let mut last = 0;
    let crash = |(effect, moment)| {
        let wait = effect - last;
        last = effect;
        let effect = wait;
        Crash { effect, moment }
    };
    points.map(crash).collect()
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
    let effects = stage.injector.effects();
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

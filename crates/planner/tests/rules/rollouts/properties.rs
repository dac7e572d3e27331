//! Random histories of fleets. `fleet.rs` compares every start with the limits.

use api::pipeline::{RequestKind, Rollout};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::fleet::Fleet;

/// Something that happens to a fleet between two passes.
#[derive(Clone, Debug)]
enum Happening {
    /// Some of the clusters that were started become ready.
    Deploy(usize),
    Fail(usize),
    /// An app that was ready is not any more.
    Relapse(usize),
    Unreach(usize),
    Reach(usize),
    Join,
    Remove(usize),
    Wait(u64),
    Release(usize),
    Stop,
    Resume,
    Retry,
    Skip(usize),
    Rollback,
    /// The process ends after the next side effect and before its status.
    Crash,
}

fn happening() -> impl Strategy<Value = Happening> {
    let any = any::<prop::sample::Index>();
    let index = any.prop_map(|it| it.index(1 << 20));
    prop_oneof![
        6 => (1..40_usize).prop_map(Happening::Deploy),
        2 => index.clone().prop_map(Happening::Fail),
        1 => index.clone().prop_map(Happening::Relapse),
        2 => index.clone().prop_map(Happening::Unreach),
        3 => index.clone().prop_map(Happening::Reach),
        1 => Just(Happening::Join),
        1 => index.clone().prop_map(Happening::Remove),
        4 => (1..90_u64).prop_map(Happening::Wait),
        1 => (2..6_usize).prop_map(Happening::Release),
        1 => Just(Happening::Stop),
        2 => Just(Happening::Resume),
        1 => Just(Happening::Retry),
        1 => index.prop_map(Happening::Skip),
        1 => Just(Happening::Rollback),
        2 => Just(Happening::Crash),
    ]
}

fn wave() -> impl Strategy<Value = Value> {
    let percent = prop::option::of(1..60_i64);
    let concurrent = prop::option::of(1..40_i64);
    let soak = prop::option::of(1..60_i64);
    (percent, concurrent, soak, any::<bool>()).prop_map(|(percent, concurrent, soak, canary)| {
        let mut wave = json!({});
        if canary {
            wave["selector"] = json!({"matchLabels": {"ring": "canary"}});
        }
        if let Some(percent) = percent {
            wave["percent"] = json!(percent);
        }
        if let Some(concurrent) = concurrent {
            wave["maxConcurrent"] = json!(concurrent);
        }
        if let Some(minutes) = soak {
            wave["soak"] = json!(format!("{minutes}m"));
        }
        wave
    })
}

fn settings() -> impl Strategy<Value = Rollout> {
    let waves = prop::collection::vec(wave(), 1..4);
    let restart = any::<bool>();
    (waves, 0..4_i64, prop::option::of(0..60_i64), restart).prop_map(
        |(waves, failures, unreachable, restart)| {
            let mut rollout = json!({"waves": waves, "maxFailures": failures});
            if let Some(percent) = unreachable {
                rollout["maxUnreachable"] = json!(format!("{percent}%"));
            }
            if restart {
                rollout["onNewRevision"] = json!("Restart");
            }
            serde_json::from_value(rollout).unwrap()
        },
    )
}

fn happen(fleet: &mut Fleet, happening: &Happening) {
    let size = fleet.size();
    let in_flight = fleet.in_flight();
    let nth = |index: usize| in_flight.get(index % in_flight.len().max(1)).copied();
    match happening {
        Happening::Deploy(count) => {
            for index in in_flight.iter().take(*count) {
                fleet.deploy(*index);
            }
        }
        Happening::Fail(index) => {
            if let Some(index) = nth(*index) {
                fleet.fail(index);
            }
        }
        Happening::Relapse(index) => fleet.relapse(index % size),
        // As often as not one that was started: then it takes a place.
        Happening::Unreach(index) => {
            let started = nth(index / 2).filter(|_| index % 2 == 0);
            fleet.unreach(started.unwrap_or(index % size));
        }
        Happening::Reach(index) => fleet.reach(index % size),
        Happening::Join => drop(fleet.join()),
        Happening::Remove(index) if size > 2 => fleet.remove(index % size),
        Happening::Remove(_) => {}
        Happening::Wait(minutes) => fleet.wait_minutes(*minutes),
        Happening::Release(minor) => fleet.release(&format!("2.{minor}.0")),
        Happening::Stop => fleet.order(RequestKind::StopRollout, None),
        Happening::Resume => fleet.order(RequestKind::ResumeRollout, None),
        Happening::Retry => fleet.order(RequestKind::Retry, None),
        Happening::Skip(index) => {
            let key = fleet.key(index % size);
            fleet.order(RequestKind::SkipTarget, Some(&key));
        }
        Happening::Rollback => fleet.request(RequestKind::Rollback, "1.0.0"),
        Happening::Crash => fleet.crashes = true,
    }
    fleet.settle();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]
    #[test]
    fn no_fleet_exceeds_its_limits(
        size in 1..60_usize,
        settings in settings(),
        happenings in prop::collection::vec(happening(), 1..60),
    ) {
        let mut fleet = Fleet::new(size, settings);
        fleet.settle();
        for happening in &happenings {
            happen(&mut fleet, happening);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4, max_shrink_iters: 20, ..ProptestConfig::default() })]
    #[test]
    fn no_fleet_of_a_thousand_exceeds_its_limits(
        settings in settings(),
        happenings in prop::collection::vec(happening(), 10..30),
    ) {
        let mut fleet = Fleet::new(1000, settings);
        fleet.settle();
        for happening in &happenings {
            happen(&mut fleet, happening);
        }
    }
}

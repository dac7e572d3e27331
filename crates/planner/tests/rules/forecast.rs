//! When the next revision comes, and that the loops then do what was forecast.

use std::time::Duration;

use api::{Time, pipeline::CoveringFreeze};
use proptest::prelude::*;

use crate::{
    drawing::{World, draw, now},
    simulation::{FreezeTimes, Simulation},
};

fn forecast(world: &World) -> planner::EnvironmentForecast {
    let all = planner::forecast(&world.pipeline, &world.model(), &world.promotions, now());
    all.into_iter().find(|it| it.environment == "prod").unwrap()
}

#[track_caller]
fn check(drawing: &str, expected: &str) {
    assert_eq!(forecast(&draw(drawing)).text(), expected);
}

#[test]
fn says_when_and_what_time_alone_does_not_bring() {
    check("dev[2.0.0 ok] > prod[1.0.0 ok]", "prod: 2.0.0 now");
    check("dev[2.0.0 ok] > prod[2.0.0 ok]", "prod: nothing to promote");
    check(
        "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 Abandoned rejected-by ann",
        "prod: 2.0.0 only on request: ann rejected 2.0.0 in prod: it loses orders",
    );
    check(
        "dev[2.0.0 ok] > prod{manual}[1.0.0 ok]",
        "prod: 2.0.0 after an approval of 2.0.0",
    );
    check(
        "dev[2.0.0 ok 10m] > prod{soak 30m, manual}[1.0.0 ok]",
        "prod: 2.0.0 not before Fri 2027-01-15 08:20 UTC (soak until Fri 2027-01-15 08:20 UTC), \
         and after an approval of 2.0.0",
    );
    check(
        "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge",
        "prod: 2.0.0 after the merge of the pull request",
    );
    check(
        "dev[- broken] > prod[1.0.0 ok]",
        "prod: the next revision after one revision on all targets of dev",
    );
}

#[test]
fn a_hold_beside_the_forecast_is_not_repeated() {
    let adds = |drawing: &str| {
        let world = draw(drawing);
        let plan = planner::plan(&world.pipeline, &world.model(), &world.promotions, now());
        let hold = plan.environments["prod"].hold.clone().unwrap();
        forecast(&world).adds_to(&hold)
    };
    let rejected = "promotion prod 2.0.0 Abandoned rejected-by ann";
    assert!(!adds(&format!(
        "dev[2.0.0 ok] > prod[1.0.0 ok]\n{rejected}"
    )));
    assert!(!adds(&format!(
        "dev[2.0.0 ok] > prod{{manual}}[1.0.0 ok]\n{rejected}"
    )));
    assert!(adds("dev[2.0.0 ok 10m] > prod{soak 30m, manual}[1.0.0 ok]"));
    assert!(
        adds("dev[2.0.0 ok 10m] > prod{soak 30m}[1.0.0 ok]"),
        "until when it soaks"
    );
    assert!(!adds("dev[2.0.0 broken] > prod[1.0.0 ok]"));
}

#[test]
fn one_environment_alone_has_the_same_forecast() {
    let world = draw("dev[3 ok] > qa{soak 1h}[2 ok] > prod{manual}[1 ok]");
    let (pipeline, model) = (&world.pipeline, world.model());
    let one = |name: &str| {
        planner::forecast_environment(pipeline, name, &model, &world.promotions, now())
    };
    let all = planner::forecast(pipeline, &model, &world.promotions, now());
    let each = ["dev", "qa", "prod"].map(|name| one(name).unwrap());
    assert_eq!(all, each);
    assert_eq!(one("nowhere"), None);
}

#[test]
fn of_several_targets_the_last_one_counts() {
    let mut world =
        draw("dev[2.0.0 ok] > prod{per target}[1.0.0 ok on c1, 1.0.0 ok on c2, 1.0.0 ok on c3]");
    let freeze = |cluster: &str, hours: i64| CoveringFreeze {
        name: format!("of-{cluster}"),
        environments: vec!["prod".to_owned()],
        clusters: Some(vec![cluster.to_owned()]),
        times: api::freeze::FreezeTimes {
            not_after: Some(api::Time(now() + jiff::SignedDuration::from_hours(hours))),
            ..Default::default()
        },
        ..CoveringFreeze::default()
    };
    world.pipeline.status.as_mut().unwrap().freezes =
        vec![freeze("c1", 2), freeze("c2", 3), freeze("c3", 1)];
    let expected =
        "prod: 2.0.0 not before Fri 2027-01-15 11:00 UTC (freeze until Fri 2027-01-15 11:00 UTC)";
    assert_eq!(forecast(&world).text(), expected);
}

#[test]
fn what_will_be_withdrawn_is_not_forecast() {
    let world = draw(
        "dev[3.0.0 ok 0m, 1.0.0 ok 15m] > prod{soak 15m, any}[1.0.0 ok]\npromotion prod 2.0.0 Running",
    );
    assert_eq!(forecast(&world).revision.as_deref(), Some("3.0.0"));
}

/// What prod runs is newest in dev, and the revision that prod lacks has soaked before it.
#[test]
fn what_runs_already_hides_nothing_that_soaks() {
    let comes = |drawing: &str| {
        let forecast = forecast(&draw(drawing));
        let minutes = forecast
            .not_before
            .map(|at| (at.as_second() - now().as_second()) / 60);
        (forecast.revision.unwrap_or_default(), minutes)
    };
    let prod = "prod{soak 15m, any}[1.0.0 ok]";
    for dev in [
        "dev[1.0.0 ok 0m, 2.0.0 ok 5m]",
        "dev[1.0.0 ok 0m, 2.0.0 ok 5m, 1.0.0 ok 10m]",
    ] {
        let drawing = format!("{dev} > {prod}");
        assert_eq!(comes(&drawing), ("2.0.0".to_owned(), Some(10)), "{drawing}");
    }
}

/// Of two Freezes that overlap the first one is told, then the other one: both until the second one ends.
#[test]
fn a_time_is_told_once_for_each_gate() {
    let mut world = draw("dev[2.0.0 ok 10m] > prod{soak 30m}[1.0.0 ok]");
    let minutes = |it: i64| now() + jiff::SignedDuration::from_mins(it);
    let freeze = |name: &str, from: i64, until: i64| CoveringFreeze {
        name: name.to_owned(),
        environments: vec!["prod".to_owned()],
        times: api::freeze::FreezeTimes {
            not_before: Some(Time(minutes(from))),
            not_after: Some(Time(minutes(until))),
            ..Default::default()
        },
        ..CoveringFreeze::default()
    };
    world.pipeline.status.as_mut().unwrap().freezes =
        vec![freeze("a", -5, 60), freeze("b", 15, 120)];
    let waits = forecast(&world).waits;
    let waits = waits.iter().map(|it| (it.gate.as_str(), it.until));
    let waits: Vec<_> = waits.collect();
    assert_eq!(waits, [("soak", minutes(20)), ("freeze", minutes(120))]);
}

/// Before the freeze ends, dev is back at what prod runs, which withdraws the promotion.
#[test]
fn what_is_withdrawn_while_it_waits_is_not_forecast() {
    let drawing = "dev[1.0.0 ok 5m, 3.0.0 ok 0m] > prod{soak 15m, manual, any}[1.0.0 ok]
         promotion prod 2.0.0  by ann/sre~0m";
    let mut world = draw(drawing);
    world.pipeline.status.as_mut().unwrap().freezes = vec![CoveringFreeze {
        name: "short".to_owned(),
        environments: vec!["prod".to_owned()],
        times: api::freeze::FreezeTimes {
            not_after: Some(api::Time(now() + jiff::SignedDuration::from_mins(15))),
            ..Default::default()
        },
        ..CoveringFreeze::default()
    }];
    assert_eq!(
        forecast(&world).text(),
        "prod: 3.0.0 not before Fri 2027-01-15 08:15 UTC (soak until Fri 2027-01-15 08:15 UTC, then freeze \
         until Fri 2027-01-15 08:15 UTC), and after an approval of 3.0.0"
    );
}

/// A random pipeline, its promotions and its Freezes. All times are multiples of five minutes.
#[derive(Clone, Debug)]
struct Situation {
    drawing: String,
    freezes: Vec<(FreezeTimes, bool)>,
}

/// A target of dev, ready for a while or not.
fn target() -> impl Strategy<Value = String> {
    let target = (0..3_usize, 0..20_u64, prop::bool::weighted(0.9));
    target.prop_map(|(revision, age, is_ready)| {
        let revision = ["1.0.0", "2.0.0", "3.0.0"][revision];
        match is_ready {
            true => format!("{revision} ok {}m", age * 5),
            false => format!("{revision} broken"),
        }
    })
}

fn sometimes(weight: f64, text: &'static str) -> impl Strategy<Value = Option<String>> {
    prop::bool::weighted(weight).prop_map(move |is_set| is_set.then(|| text.to_owned()))
}

fn one_of(texts: &[&'static str]) -> impl Strategy<Value = Option<String>> + use<> {
    prop::sample::select(texts.to_vec())
        .prop_map(|text| (!text.is_empty()).then(|| text.to_owned()))
}

/// The settings of prod, in braces.
fn settings() -> impl Strategy<Value = String> {
    let soak = one_of(&["", "", "soak 15m", "soak 30m", "soak 90m"]);
    let policies = [
        "",
        "",
        "manual",
        "policy 1 group:sre expires:30m",
        "policy 2 group:sre",
        "policy 2 group:sre expires:30m",
    ];
    let all = (
        soak,
        one_of(&policies),
        sometimes(0.3, "any"),
        sometimes(0.1, "suspended"),
    );
    all.prop_map(|(soak, policy, any, suspended)| {
        let all = [soak, policy, any, suspended];
        let all: Vec<_> = all.into_iter().flatten().collect();
        format!("{{{}}}", all.join(", "))
    })
}

/// A promotion that exists already, with approvals that the controller saw some time ago, or a request.
fn under_way() -> impl Strategy<Value = Option<String>> {
    let phase = prop::sample::select(vec!["", "AwaitingApproval", "Running"]);
    let approvals = prop::collection::vec(0..8_u64, 0..3);
    let promotion = (
        prop::sample::select(vec!["2.0.0", "3.0.0"]),
        phase,
        approvals,
    );
    let promotion = promotion.prop_map(|(revision, phase, approvals)| {
        let approvals = ["ann", "bob"].iter().zip(approvals);
        let approvals = approvals.map(|(by, age)| format!("by {by}/sre~{}m", age * 5));
        let approvals = approvals.collect::<Vec<_>>().join(" ");
        Some(format!("promotion prod {revision} {phase} {approvals}"))
    });
    let rollback = Just(Some(
        "ran prod 0.9.0 1.0.0\nrequest prod Rollback 0.9.0 r1".to_owned(),
    ));
    prop_oneof![3 => Just(None), 5 => promotion, 1 => rollback]
}

fn freeze() -> impl Strategy<Value = (FreezeTimes, bool)> {
    let times = (0..4_usize, -4..12_i64, 1..24_i64).prop_map(|(kind, begin, length)| {
        let range = begin * 5..(begin + length) * 5;
        match kind {
            0 => FreezeTimes::Stop(begin * 5),
            1 => FreezeTimes::Between(range),
            2 => FreezeTimes::Daily(range),
            _ => FreezeTimes::OpenDaily(range),
        }
    });
    (times, any::<bool>())
}

fn situation() -> impl Strategy<Value = Situation> {
    let dev = prop::collection::vec(target(), 1..3);
    let freezes = prop::collection::vec(freeze(), 0..3);
    // Sometimes prod comes after two environments.
    let us = prop::option::weighted(0.4, prop::collection::vec(target(), 1..3));
    let all = (dev, us, settings(), under_way(), freezes);
    all.prop_map(|(dev, us, settings, under_way, freezes)| {
        let dev = dev.join(", ");
        let facts = under_way.map_or(String::new(), |facts| format!("\n{facts}"));
        let (us, settings) = match us {
            None => (String::new(), settings),
            Some(us) => (
                format!(" > us{{after}}[{}]", us.join(", ")),
                settings.replacen('{', "{after dev us, ", 1),
            ),
        };
        let drawing = format!("dev[{dev}]{us} > prod{settings}[1.0.0 ok]{facts}");
        Situation { drawing, freezes }
    })
}

/// How many times the loops run, every five minutes.
const TICKS: u32 = 60;
const TICK: Duration = Duration::from_secs(300);

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 400,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Nobody does anything, and the clock runs. Sluice opens the pull request exactly when the forecast
    /// says and for that revision, and never if something is needed.
    #[test]
    fn the_loops_do_what_was_forecast(situation in situation()) {
        let mut simulation = Simulation::new(draw(&situation.drawing));
        for (times, allows_rollback) in &situation.freezes {
            simulation.freeze(times, *allows_rollback);
        }
        let forecast = simulation.forecast();
        let end = simulation.now + TICK * TICKS;
        let mut opened = None;
        while opened.is_none() && simulation.now < end {
            simulation.plan(false);
            simulation.attempt(false);
            opened = simulation.first_opened().map(|it| (simulation.now, it.to_owned()));
            simulation.now += TICK;
        }
        let expected = forecast.not_before.filter(|at| forecast.needs.is_empty() && *at < end);
        let expected = expected.zip(forecast.revision.clone());
        prop_assert_eq!(opened, expected, "{:?} {:?}", forecast, situation);
    }
}

//! When the next revision comes, and that the loops then do what was forecast.

use std::time::Duration;

use proptest::prelude::*;

use crate::{
    drawing::{World, draw, now},
    simulation::Simulation,
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
        "dev[2.0.0 ok] > prod{manual}[1.0.0 ok]",
        "prod: 2.0.0 as soon as there is: an approval of 2.0.0",
    );
    check(
        "dev[2.0.0 ok 10m] > prod{soak 30m, manual}[1.0.0 ok]",
        "prod: 2.0.0 not before Fri 2027-01-15 08:20 UTC (soak until Fri 2027-01-15 08:20 UTC); \
         needs an approval of 2.0.0",
    );
    check(
        "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 WaitingForMerge",
        "prod: 2.0.0 as soon as there is: the merge of the pull request",
    );
    check(
        "dev[- broken] > prod[1.0.0 ok]",
        "prod: the next revision as soon as there is: one revision on all targets of dev",
    );
}

/// A pipeline in some state. Targets of dev have been ready for a multiple of five minutes.
fn world() -> impl Strategy<Value = String> {
    let target = (0..3_usize, 0..20_u64, prop::bool::weighted(0.9));
    let target = target.prop_map(|(revision, age, is_ready)| {
        let revision = ["1.0.0", "2.0.0", "3.0.0"][revision];
        match is_ready {
            true => format!("{revision} ok {}m", age * 5),
            false => format!("{revision} broken"),
        }
    });
    let setting = |text: &'static str, weight: f64| {
        prop::bool::weighted(weight).prop_map(move |is_set| is_set.then(|| text.to_owned()))
    };
    let soak = prop::option::of(prop::sample::select(vec!["15m", "30m", "90m"]));
    let settings = (
        soak.prop_map(|soak| soak.map(|soak| format!("soak {soak}"))),
        setting("manual", 0.3),
        setting("any", 0.3),
        setting("suspended", 0.1),
    );
    let under_way = setting("\npromotion prod 2.0.0 Running", 0.3);
    let dev = prop::collection::vec(target, 1..3);
    (dev, settings, under_way).prop_map(|(dev, (soak, manual, any, suspended), under_way)| {
        let settings = [soak, manual, any, suspended];
        let settings: Vec<_> = settings.into_iter().flatten().collect();
        let settings = match settings.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", settings.join(", ")),
        };
        let under_way = under_way.unwrap_or_default();
        format!(
            "dev[{}] > prod{settings}[1.0.0 ok]{under_way}",
            dev.join(", ")
        )
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 200,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    /// Nobody does anything, and the clock runs. Sluice opens the pull request exactly when the forecast
    /// says, and never if something is needed.
    #[test]
    fn the_loops_do_what_was_forecast(drawing in world()) {
        let world = draw(&drawing);
        let forecast = forecast(&world);
        let mut simulation = Simulation::new(world);
        let mut opened_at = None;
        for _ in 0..30 {
            simulation.plan(false);
            simulation.attempt(false);
            if opened_at.is_none() && simulation.has_opened() {
                opened_at = Some(simulation.now);
            }
            simulation.now += Duration::from_secs(300);
        }
        let expected = forecast.not_before.filter(|_| forecast.needs.is_empty());
        prop_assert_eq!(opened_at, expected, "{:?} {}", forecast, drawing);
    }
}

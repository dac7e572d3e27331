//! What must always hold, tried with random histories.

use std::time::Duration;

use api::{check_run::CheckVerdict, pipeline::RequestKind};
use proptest::prelude::*;

use crate::{
    drawing::draw,
    simulation::{FreezeTimes, Simulation},
};

/// Something that happens to the world between two passes.
#[derive(Clone, Debug)]
enum Happening {
    Deploy {
        target: usize,
        revision: usize,
        signed: Option<bool>,
    },
    /// The source of a target says whether its signature is verified, or says nothing any more.
    Sign {
        in_dev: bool,
        target: usize,
        said: Option<bool>,
    },
    Ready {
        target: usize,
        ready: bool,
    },
    /// The revision of a target of dev fails.
    Fail {
        target: usize,
    },
    Reachable {
        environment: bool,
        target: usize,
        reachable: bool,
    },
    Merge(usize),
    Close(usize),
    Approve(usize, usize),
    Reject(usize),
    Cancel,
    Retry,
    /// Somebody edits in git what promotions change.
    Edit,
    Sync(bool),
    Revert {
        target: usize,
        revision: usize,
    },
    Request {
        kind: bool,
        revision: usize,
    },
    Suspend(bool),
    Freeze {
        times: FreezeTimes,
        allows_rollback: bool,
    },
    Thaw,
    /// A check is measured, or reported.
    Decide {
        nth: usize,
        verdict: CheckVerdict,
    },
    /// Somebody deletes a CheckRun.
    DeleteCheck(usize),
    Wait(u64),
    /// The clock is set back.
    SetBack(u64),
}

fn freeze_times() -> impl Strategy<Value = FreezeTimes> {
    (0..4_usize, 0..90_i64, 1..600_i64).prop_map(|(kind, begin, minutes)| {
        let range = begin..begin + minutes;
        match kind {
            0 => FreezeTimes::Stop(begin),
            1 => FreezeTimes::Between(range),
            2 => FreezeTimes::Daily(range),
            _ => FreezeTimes::OpenDaily(range),
        }
    })
}

fn signed() -> impl Strategy<Value = Option<bool>> {
    prop::sample::select(vec![Some(true), Some(true), None, Some(false)])
}

fn happening() -> impl Strategy<Value = Happening> {
    // Of the first environment, or in a graph also of those before prod.
    let target = 0..6_usize;
    let revision = 0..6_usize;
    prop_oneof![
        6 => (target.clone(), revision.clone(), signed()).prop_map(
            |(target, revision, signed)| Happening::Deploy { target, revision, signed }
        ),
        2 => (any::<bool>(), target.clone(), signed())
            .prop_map(|(in_dev, target, said)| Happening::Sign { in_dev, target, said }),
        2 => (target.clone(), any::<bool>())
            .prop_map(|(target, ready)| Happening::Ready { target, ready }),
        1 => target.clone().prop_map(|target| Happening::Fail { target }),
        2 => (any::<bool>(), target.clone(), any::<bool>()).prop_map(
            |(environment, target, reachable)| Happening::Reachable { environment, target, reachable }
        ),
        4 => (0..4_usize).prop_map(Happening::Merge),
        1 => (0..4_usize).prop_map(Happening::Close),
        6 => (0..4_usize, 0..4_usize).prop_map(|(nth, person)| Happening::Approve(nth, person)),
        1 => (0..4_usize).prop_map(Happening::Reject),
        1 => Just(Happening::Cancel),
        1 => Just(Happening::Retry),
        1 => Just(Happening::Edit),
        4 => any::<bool>().prop_map(Happening::Sync),
        1 => (target, revision.clone())
            .prop_map(|(target, revision)| Happening::Revert { target, revision }),
        1 => (any::<bool>(), revision)
            .prop_map(|(kind, revision)| Happening::Request { kind, revision }),
        1 => any::<bool>().prop_map(Happening::Suspend),
        2 => (freeze_times(), any::<bool>())
            .prop_map(|(times, allows_rollback)| Happening::Freeze { times, allows_rollback }),
        2 => Just(Happening::Thaw),
        8 => (0..8_usize, prop::sample::select(vec![
            CheckVerdict::Running,
            CheckVerdict::Passed,
            CheckVerdict::Passed,
            CheckVerdict::Failed,
            CheckVerdict::Error,
        ])).prop_map(|(nth, verdict)| Happening::Decide { nth, verdict }),
        1 => (0..8_usize).prop_map(Happening::DeleteCheck),
        2 => (1..90_u64).prop_map(Happening::Wait),
        1 => (1..90_u64).prop_map(Happening::SetBack),
    ]
}

fn happen(simulation: &mut Simulation, happening: &Happening, revisions: &[String]) {
    let of = |simulation: &Simulation, environment: &str, target: usize| {
        target % simulation.truth[environment].len()
    };
    let before_prod = |simulation: &Simulation, target: usize| {
        let mut names: Vec<_> = simulation.truth.keys().cloned().collect();
        names.retain(|name| name != "prod");
        names[target / 2 % names.len()].clone()
    };
    match happening {
        Happening::Sign {
            in_dev,
            target,
            said,
        } => {
            let name = match in_dev {
                true => before_prod(simulation, *target),
                false => "prod".to_owned(),
            };
            simulation.say_signed(&name, *target, *said);
        }
        Happening::Deploy {
            target,
            revision,
            signed,
        } => {
            let name = before_prod(simulation, *target);
            let index = of(simulation, &name, *target);
            let target = &mut simulation.truth.get_mut(&name).unwrap()[index];
            target.revision.clone_from(&revisions[*revision]);
            target.signed = *signed;
            target.ready = true;
            target.failed = None;
        }
        Happening::Ready { target, ready } => {
            let name = before_prod(simulation, *target);
            let index = of(simulation, &name, *target);
            let target = &mut simulation.truth.get_mut(&name).unwrap()[index];
            target.ready = *ready;
            target.failed = None;
        }
        Happening::Fail { target } => {
            let name = before_prod(simulation, *target);
            let index = of(simulation, &name, *target);
            let target = &mut simulation.truth.get_mut(&name).unwrap()[index];
            target.ready = false;
            target.failed = Some(target.revision.clone());
        }
        Happening::Reachable {
            environment,
            target,
            reachable,
        } => {
            let name = match environment {
                true => before_prod(simulation, *target),
                false => "prod".to_owned(),
            };
            let index = of(simulation, &name, *target);
            simulation.truth.get_mut(&name).unwrap()[index].reachable = *reachable;
        }
        Happening::Merge(nth) => simulation.end_pull_request(*nth, "merged"),
        Happening::Close(nth) => simulation.end_pull_request(*nth, "closed"),
        Happening::Approve(nth, person) => simulation.approve(*nth, *person),
        Happening::Reject(nth) => simulation.reject(*nth),
        Happening::Cancel => simulation.request(RequestKind::Cancel, ""),
        Happening::Retry => simulation.request(RequestKind::Retry, ""),
        Happening::Edit => simulation.edit(),
        Happening::Sync(works) => simulation.sync(*works),
        Happening::Revert { target, revision } => {
            let index = of(simulation, "prod", *target);
            let target = &mut simulation.truth.get_mut("prod").unwrap()[index];
            target.revision.clone_from(&revisions[*revision]);
            target.ready = true;
            target.failed = None;
            target.signed = None;
        }
        Happening::Request { kind, revision } => {
            let kind = if *kind {
                RequestKind::Promote
            } else {
                RequestKind::Rollback
            };
            simulation.request(kind, &revisions[*revision]);
        }
        Happening::Suspend(suspend) => simulation.world.pipeline.spec.suspend = *suspend,
        Happening::Freeze {
            times,
            allows_rollback,
        } => simulation.freeze(times, *allows_rollback),
        Happening::Thaw => simulation.thaw(),
        Happening::Decide { nth, verdict } => simulation.decide_check(*nth, *verdict),
        Happening::DeleteCheck(nth) => simulation.delete_check(*nth),
        Happening::Wait(minutes) => simulation.now += Duration::from_secs(minutes * 60),
        Happening::SetBack(minutes) => {
            simulation.now -= Duration::from_secs(minutes * 60);
            simulation.is_set_back = true;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn nothing_that_must_hold_is_ever_broken(
        happenings in prop::collection::vec((happening(), any::<bool>(), 0..10_u8), 1..60),
        (any_target, per_target, is_ordered) in any::<(bool, bool, bool)>(),
        approvals in prop::sample::select(vec!["", "manual", "policy 2 group:sre not-requester expires:30m"]),
        (merges, soaks, requires_signature) in any::<(bool, bool, bool)>(),
        (verifies, verifies_prod, back, checks) in any::<(bool, bool, bool, bool)>(),
        (dev, prod, branches) in (1..3_usize, 1..3_usize, any::<bool>()),
    ) {
        let revisions: Vec<_> = (1..7)
            .map(|number| if is_ordered { format!("{number}.0.0") } else { format!("r{number}") })
            .collect();
        let targets = |count: usize| vec![format!("{} ok", revisions[0]); count].join(", ");
        let settings = [
            (branches, "after eu us"),
            (!approvals.is_empty(), approvals),
            (any_target, "any"),
            (per_target, "per target"),
            (merges, "merged by the forge"),
            (soaks, "soak 30m"),
            (verifies_prod, "verify smoke"),
            (verifies_prod && back, "back"),
            (checks, "checks ticket"),
        ];
        let settings: Vec<_> = settings.iter().filter(|(on, _)| *on).map(|(_, name)| *name).collect();
        let verify = if verifies { "{verify smoke}" } else { "" };
        // In a graph, checks are in one of the two environments before prod.
        let before = match branches {
            true => format!(
                "dev[{}] > eu{{after dev}}[{}] > us{}[{}]",
                targets(1),
                targets(dev),
                if verifies { "{after dev, verify smoke}" } else { "{after dev}" },
                targets(1)
            ),
            false => format!("dev{verify}[{}]", targets(dev)),
        };
        let drawing = format!(
            "{before} > prod{{{}}}[{}]", settings.join(", "), targets(prod)
        );
        let mut simulation = Simulation::new(draw(&drawing));
        if requires_signature {
            simulation.require_verified_source();
        }
        for (happening, attempts_first, crash) in &happenings {
            happen(&mut simulation, happening, &revisions);
            simulation.now += Duration::from_secs(1);
            if *attempts_first {
                simulation.attempt(*crash == 0);
            }
            simulation.plan(*crash == 1);
            simulation.now += Duration::from_secs(1);
            simulation.attempt(*crash == 2);
        }
        simulation.take_every_way_out();
        let newest = if is_ordered { "9.0.0" } else { "r9" };
        simulation.calm_down(newest);
        let prod = &simulation.truth["prod"];
        prop_assert!(prod.iter().all(|target| target.revision == newest), "stuck at {:?}", prod);
    }
}

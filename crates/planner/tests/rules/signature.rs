//! `requireVerifiedSource`: what counts as verified, and what the gate makes of it.

use std::collections::BTreeSet;

use api::{
    Revision,
    app::AppReading,
    pipeline::{PipelineStatus, RanRevision, Request},
};
use planner::{
    AttemptInput, ExternalAction, ObservedApp, ObservedEnvironment, ObservedPipeline,
    ObservedPullRequest, ObservedTarget, Step, TargetState, Timestamp, attempt, fold, lint,
};
use proptest::prelude::*;

use crate::{
    drawing::{World, draw, now},
    fold::{minute, pipeline},
};

/// Prod demands a signature of what dev runs.
fn world(facts: &str) -> World {
    let mut world = draw(&format!("dev[2.0.0 ok] > prod[1.0.0 ok]\n{facts}"));
    let promotion = world.pipeline.spec.promotion.as_mut().unwrap();
    promotion.require_verified_source = true;
    world
}

fn sign(world: &mut World, environment: &str, revision: &str) {
    let status = world.pipeline.status.as_mut().unwrap();
    let environment = status.environments.get_mut(environment).unwrap();
    environment.ran.retain(|ran| ran.revision != revision);
    environment.ran.insert(
        0,
        RanRevision {
            signed: true,
            ..revision.into()
        },
    );
}

fn hold(world: &World) -> String {
    let hold = world.plan().environments["prod"].hold.clone();
    hold.map(|hold| hold.reason.word().to_owned())
        .unwrap_or_default()
}

#[test]
fn only_what_flux_verified_is_promoted() {
    let mut world = world("ran dev 2.0.0");
    assert_eq!(hold(&world), "SourceNotVerified");
    assert!(world.plan().steps.is_empty());
    sign(&mut world, "dev", "1.9.0");
    assert_eq!(hold(&world), "SourceNotVerified", "another revision");
    sign(&mut world, "dev", "2.0.0");
    assert_eq!(hold(&world), "");
    assert_eq!(world.plan().steps.len(), 1);
}

#[test]
fn nothing_is_demanded_unless_somebody_asks_for_it() {
    let world = draw("dev[2.0.0 ok] > prod[1.0.0 ok]");
    assert_eq!(hold(&world), "");
}

#[test]
fn a_request_does_not_override_it_and_a_rollback_finds_what_was_verified_here() {
    let mut requested = world("ran prod 0.9.0\nrequest prod Rollback 0.9.0 r1");
    assert_eq!(hold(&requested), "SourceNotVerified");
    sign(&mut requested, "prod", "0.9.0");
    assert_eq!(hold(&requested), "");
    let promoted = world("request prod Promote 2.0.0 r1");
    assert_eq!(hold(&promoted), "SourceNotVerified");
}

#[test]
fn a_promotion_that_is_under_way_is_asked_again() {
    let mut world = world("promotion prod 2.0.0 Running");
    let next = |world: &World| {
        let input = AttemptInput {
            pipeline: Some(&world.pipeline),
            promotions: &world.promotions,
            pull_request: ObservedPullRequest::Missing,
            edited: false,
        };
        attempt(&world.promotions[0], &input, now())
    };
    let held = next(&world);
    assert_eq!(held.action, ExternalAction::Nothing);
    assert_eq!(held.status.reason.as_deref(), Some("SourceNotVerified"));
    sign(&mut world, "dev", "2.0.0");
    assert_eq!(next(&world).action, ExternalAction::CarryOut);
}

#[test]
fn what_was_verified_before_is_verified_where_it_was_brought() {
    let mut world = world("promotion prod 1.0.0 Succeeded\nran prod 1.0.0");
    sign(&mut world, "dev", "1.0.0");
    let ran = &world.plan().environments["prod"].ran;
    assert!(ran[0].signed && ran[0].promotion.is_some(), "{ran:?}");
}

#[test]
fn the_first_environment_asks_the_source_of_the_pipeline() {
    let mut world = draw("dev[1.0.0 ok]\nsource HelmChart 2.0.0");
    let promotion = world.pipeline.spec.promotion.as_mut().unwrap();
    promotion.require_verified_source = true;
    let hold = |world: &World| world.plan().environments["dev"].hold.clone();
    let held = hold(&world).unwrap();
    assert!(
        held.sentence.contains("in the pipeline's source"),
        "{held:?}"
    );
    let status = world.pipeline.status.as_mut().unwrap();
    status.proposal.as_mut().unwrap().signed = true;
    assert_eq!(hold(&world), None);
}

#[test]
fn an_image_has_no_signature_that_flux_verified() {
    let world = world("track example.com/shop");
    assert!(lint(&world.pipeline.spec).iter().any(|it| it.is_error));
    assert_eq!(hold(&world), "InvalidSpec");
}

/// What the targets of dev run: revision, digest, and what their sources say.
type Looks<'a> = &'a [(&'a str, Option<&'a str>, Option<bool>)];

/// Whether the first revision of `ran` is signed after each look.
fn signed(looks: &[Looks<'_>]) -> Vec<bool> {
    let mut pipeline = pipeline();
    let mut known = Vec::new();
    for (minutes, targets) in looks.iter().enumerate() {
        let target = |(number, (revision, digest, signed)): (usize, &(&str, _, _))| {
            let digest: &Option<&str> = digest;
            let app = ObservedApp {
                name: "shop".to_owned(),
                reading: AppReading {
                    revision: Revision::new(revision),
                    digest: digest.map(str::to_owned),
                    ready: true,
                    ..AppReading::default()
                },
                signed: *signed,
                ..ObservedApp::default()
            };
            ObservedTarget {
                cluster: None,
                namespace: format!("dev-{number}"),
                relies_on_reports: false,
                state: TargetState::Observed(vec![app]),
            }
        };
        let environment = ObservedEnvironment {
            name: "dev".to_owned(),
            targets: targets.iter().enumerate().map(target).collect(),
        };
        let seen = ObservedPipeline {
            environments: vec![environment],
            ..ObservedPipeline::default()
        };
        let status: PipelineStatus = fold(&pipeline, &seen, minute(minutes as i64));
        known.push(status.environments["dev"].ran[0].signed);
        pipeline.status = Some(status);
    }
    known
}

#[test]
fn all_targets_have_to_say_so_and_none_may_deny_it() {
    let (yes, no) = (Some(true), Some(false));
    assert_eq!(
        signed(&[&[("a", None, None)], &[("a", None, yes)]]),
        [false, true]
    );
    // The source has moved on, or cannot be read.
    assert_eq!(
        signed(&[&[("a", None, yes)], &[("a", None, None)]]),
        [true, true]
    );
    assert_eq!(
        signed(&[&[("a", None, yes)], &[("a", None, no)]]),
        [true, false]
    );
    let two = |one, other| signed(&[&[("a", None, one), ("a", None, other)]]);
    assert_eq!(two(yes, yes), [true]);
    assert_eq!(two(yes, None), [false]);
    assert_eq!(two(yes, no), [false]);
}

#[test]
fn another_artifact_of_the_same_version_is_not_verified() {
    let (one, other) = (Some("sha256:1"), Some("sha256:2"));
    let looks: [Looks<'_>; 3] = [
        &[("1.0.0", one, Some(true))],
        &[("1.0.0", other, None)],
        &[("1.0.0", other, Some(true))],
    ];
    assert_eq!(signed(&looks), [true, false, true]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever dev runs and its source says, and whatever people request.
    #[test]
    fn nothing_starts_that_was_never_verified(
        looks in prop::collection::vec((1..5_u8, any::<Option<bool>>(), any::<bool>()), 1..30),
    ) {
        let mut world = world("");
        let mut verified = BTreeSet::new();
        for (number, (revision, said, is_requested)) in looks.into_iter().enumerate() {
            let revision = format!("{}.0.0", revision + 1);
            match said {
                Some(true) => drop(verified.insert(revision.clone())),
                Some(false) => drop(verified.remove(&revision)),
                None => {}
            }
            look(&mut world, &revision, said, minute(number as i64));
            let status = world.pipeline.status.as_mut().unwrap();
            if is_requested {
                let request = Request {
                    id: number.to_string(),
                    revision: revision.clone(),
                    by: Some("ada".to_owned()),
                    ..Request::default()
                };
                status.requests.insert("prod".to_owned(), request);
            }
            for step in world.plan().steps {
                if let Step::StartPromotion(promotion) = step {
                    let starts = &promotion.spec.revision;
                    prop_assert!(verified.contains(starts), "{starts} starts");
                }
            }
        }
    }
}

/// Dev is seen to run a revision, of which its source says this; prod stays at 1.0.0.
fn look(world: &mut World, revision: &str, signed: Option<bool>, at: Timestamp) {
    let target = |namespace: &str, revision: &str, signed| {
        let app = ObservedApp {
            reading: AppReading {
                revision: Revision::new(revision),
                ready: true,
                ..AppReading::default()
            },
            signed,
            ..ObservedApp::default()
        };
        ObservedTarget {
            cluster: None,
            namespace: namespace.to_owned(),
            relies_on_reports: false,
            state: TargetState::Observed(vec![app]),
        }
    };
    let environment = |name: &str, target| ObservedEnvironment {
        name: name.to_owned(),
        targets: vec![target],
    };
    let seen = ObservedPipeline {
        environments: vec![
            environment("dev", target("dev", revision, signed)),
            environment("prod", target("prod", "1.0.0", None)),
        ],
        ..ObservedPipeline::default()
    };
    world.pipeline.status = Some(fold(&world.pipeline, &seen, at));
}

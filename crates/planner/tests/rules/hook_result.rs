//! What callers of a webhook are told that became of their revision.

use api::{
    pipeline::{PromotionSummary, WaitingApproval},
    promotion::Phase,
};
use planner::hook::{AwaitedPromotion, PromotionResult, promotion_result};

use crate::drawing::{World, draw};

/// What became of 2.0.0 on its way into prod, by what is stored.
fn became(world: &World, source: Option<&str>) -> Option<PromotionResult> {
    let awaited = AwaitedPromotion {
        source: source.map(str::to_owned),
        environment: "prod".to_owned(),
        revision: "2.0.0".to_owned(),
    };
    promotion_result(&world.pipeline, world.promotions.last(), &awaited)
}

#[test]
fn without_a_promotion_the_targets_tell() {
    let (quiet, held) = (Some(PromotionResult::Quiet), Some(PromotionResult::Held));
    for (drawing, expected) in [
        ("dev[2.0.0 ok] > prod[2.0.0 ok]", quiet.clone()),
        ("dev[2.0.0 ok] > prod[2.0.0 ok, 1.0.0 ok]", None),
        ("dev[2.0.0 ok] > prod[1.0.0 ok]", None),
        ("dev[2.0.0 ok] > prod[]", None),
        // The status does not know of the revision yet.
        ("dev[1.0.0 ok] > prod[2.0.0 ok]", None),
        (
            "dev[1.0.0 ok told, 1.0.0 ok told] > prod[2.0.0 ok]\nreported dev 2.0.0",
            quiet,
        ),
        // It comes into prod only with all its sources.
        (
            "dev[2.0.0 ok] > qa{after}[1.0.0 ok] > prod{after dev qa}[1.0.0 ok]",
            held,
        ),
    ] {
        assert_eq!(became(&draw(drawing), Some("dev")), expected, "{drawing}");
    }
}

#[test]
fn a_proposed_revision_is_known_once_it_is_the_proposal() {
    let became = |source: &str| {
        let drawing = "prod[2.0.0 ok]\nsource Hook";
        became(&draw(&format!("{drawing} {source}")), None)
    };
    assert_eq!(became("2.0.0"), Some(PromotionResult::Quiet));
    assert_eq!(became("1.0.0"), None);
    assert_eq!(became(""), None);
}

#[test]
fn the_status_tells_of_a_promotion_that_is_not_at_hand() {
    let url = "https://example.com/pulls/1";
    let proposed = Some(PromotionResult::Proposed {
        url: url.to_owned(),
    });
    for (revision, phase, expected) in [
        ("2.0.0", Phase::WaitingForMerge, proposed),
        (
            "2.0.0",
            Phase::AwaitingApproval,
            Some(PromotionResult::Quiet),
        ),
        ("2.0.0", Phase::Running, None),
        ("2.0.0", Phase::Failed, Some(PromotionResult::Failed)),
        ("1.9.0", Phase::Failed, None),
    ] {
        let mut world = draw("dev[2.0.0 ok] > prod[1.0.0 ok]");
        let status = world.pipeline.status.as_mut().unwrap();
        let prod = status.environments.get_mut("prod").unwrap();
        prod.promotion = Some(PromotionSummary {
            revision: revision.to_owned(),
            phase: Some(phase),
            url: Some(url.to_owned()),
            ..PromotionSummary::default()
        });
        assert_eq!(
            became(&world, Some("dev")),
            expected,
            "{revision} {phase:?}"
        );
    }
}

#[test]
fn what_waits_for_approval_is_nothing_to_wait_for() {
    let became = |revision: &str| {
        let mut world = draw("dev[1.0.0 ok] > prod[1.0.0 ok]");
        let status = world.pipeline.status.as_mut().unwrap();
        let prod = status.environments.get_mut("prod").unwrap();
        prod.waiting_approval = Some(WaitingApproval {
            revision: revision.to_owned(),
        });
        became(&world, Some("dev"))
    };
    assert_eq!(became("2.0.0"), Some(PromotionResult::Quiet));
    assert_eq!(became("1.9.0"), None);
}

#[test]
fn a_promotion_under_way_is_held_where_it_says_why() {
    let became = |words: &str| {
        let drawing = "dev[2.0.0 ok] > prod[1.0.0 ok]\npromotion prod 2.0.0 Running because";
        became(&draw(&format!("{drawing} {words}")), Some("dev"))
    };
    assert_eq!(became("Running"), None);
    assert_eq!(became("Frozen"), Some(PromotionResult::Held));
    assert_eq!(became("Running until 1m"), Some(PromotionResult::Failed));
}

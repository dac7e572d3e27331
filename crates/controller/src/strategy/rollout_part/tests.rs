//! Which targets each part of a rollout has.

use api::promotion::{PromotionSpec, PromotionStatus};

use super::*;

/// A rollout from `a:1 b:2 c d+`: the numbers are batches, `+` joined; batches up to `landed` have landed.
fn promotion(targets: &str, batches: i64, landed: i64) -> Promotion {
    let target = |text: &str| {
        let (name, batch) = text
            .trim_end_matches('+')
            .split_once(':')
            .map_or((text.trim_end_matches('+'), None), |(name, batch)| {
                (name, batch.parse().ok())
            });
        RolloutTarget {
            target: format!("{name}/shop"),
            joined: text.ends_with('+'),
            batch,
            ..RolloutTarget::default()
        }
    };
    let batch = |number| Batch {
        number,
        landed_at: (number <= landed).then(|| {
            let at = "2026-11-15T12:00:00Z".parse();
            api::Time(at.expect("a time"))
        }),
        ..Batch::default()
    };
    Promotion {
        status: Some(PromotionStatus {
            rollout: Some(RolloutStatus {
                targets: targets.split_whitespace().map(target).collect(),
                batches: (1..=batches).map(batch).collect(),
                ..RolloutStatus::default()
            }),
            ..PromotionStatus::default()
        }),
        ..Promotion::new("x", PromotionSpec::default())
    }
}

#[test]
fn parts_of_a_rollout() {
    for (targets, batches, landed, part, expected) in [
        ("a:1 b:2 c", 2, 1, RolloutPart::Batch, "b"),
        ("a:1 b:2 c", 2, 2, RolloutPart::BatchAlone, "b"),
        ("a:1 b:2 c", 2, 1, RolloutPart::NotLanded, "b c"),
        ("a:1 b:2 c d+", 2, 2, RolloutPart::NotLanded, "c"),
        ("a:1 b:2+ c", 2, 1, RolloutPart::NotLanded, "c"),
        ("a:1 b:2 c d+", 2, 1, RolloutPart::NotStarted, "c d"),
        ("a b", 0, 0, RolloutPart::Batch, "a b"),
        ("a b", 0, 0, RolloutPart::NotLanded, "a b"),
    ] {
        let promotion = promotion(targets, batches, landed);
        let keys = part.keys(&promotion).expect("a rollout");
        let keys: Vec<_> = keys
            .iter()
            .filter_map(|it| it.strip_suffix("/shop"))
            .collect();
        assert_eq!(keys.join(" "), expected, "{targets} {part:?}");
    }
    assert_eq!(RolloutPart::Batch.keys(&Promotion::default()), None);
}

#[test]
fn a_batch_is_named_by_its_number_and_size() {
    let one = promotion("a:1 b:2 c:2", 2, 1);
    let batch = TargetBatch::of(&one).expect("a batch");
    assert_eq!(batch.in_title(), ", batch 2 (2 targets)");
    assert!(!batch.has_joined());
    let joined = promotion("a:1 b:2+", 2, 1);
    let batch = TargetBatch::of(&joined).expect("a batch");
    assert_eq!(batch.in_title(), ", batch 2 (1 target)");
    assert!(batch.has_joined());
}

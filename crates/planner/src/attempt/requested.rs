//! What people should know about a promotion that a person requested: which gates the request skips.

use api::{Pipeline, Promotion};

use super::{AttemptInput, ObservedPullRequest, context::AttemptContext};
use crate::{
    gate::{self, AFTER_EVERY_SOAK, GateAnswer},
    time::Timestamp,
};

/// The answers of the gates that the request of a promotion skips, whether or not its change is in git; empty where
/// nobody requested it.
pub fn skipped_gates(
    promotion: &Promotion,
    pipeline: &Pipeline,
    promotions: &[Promotion],
    now: Timestamp,
) -> Vec<GateAnswer> {
    let input = AttemptInput {
        pipeline: Some(pipeline),
        promotions,
        pull_request: ObservedPullRequest::NotQueried,
        edited: false,
    };
    AttemptContext::new(promotion, pipeline, &input, now).skipped_gates()
}

/// That the revision of a promotion failed or was rejected, and whose request skips that; nothing where nobody
/// requested it, or nothing is known against it.
pub fn promotion_caution(
    promotion: &Promotion,
    pipeline: &Pipeline,
    promotions: &[Promotion],
) -> Option<String> {
    // Asked first: of many promotions few are requested, and the gates look at all targets.
    gate::request_behind(pipeline.status.as_ref(), promotion)?;
    // A revision that soaks has not failed.
    let answers = skipped_gates(promotion, pipeline, promotions, AFTER_EVERY_SOAK);
    gate::caution(&answers)
}

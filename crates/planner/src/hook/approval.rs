//! Which promotions an approval is about.

use api::{Promotion, promotion::Phase, revision::identity};

/// The promotions of exactly that revision into an environment that wait for a person.
pub fn awaiting_approval<'a>(
    promotions: &'a [Promotion],
    pipeline: &str,
    environment: &str,
    revision: &str,
) -> Vec<&'a Promotion> {
    let revision = identity(revision);
    let is_meant = |promotion: &&Promotion| {
        let spec = &promotion.spec;
        spec.pipeline == pipeline && spec.environment == environment && spec.revision == revision
    };
    let waits = |promotion: &&Promotion| is_waiting(promotion);
    promotions.iter().filter(is_meant).filter(waits).collect()
}

/// Whether nothing but an approval is missing. The pipeline may have become manual later, so that
/// the phase counts as well as what the promotion was created with.
pub(crate) fn is_waiting(promotion: &Promotion) -> bool {
    let spec = &promotion.spec;
    let phase = promotion.status.as_ref().and_then(|status| status.phase);
    let waits = match phase {
        None => spec.needs_approval,
        Some(phase) => phase == Phase::AwaitingApproval,
    };
    waits && spec.approval.is_none() && spec.withdrawn.is_none()
}

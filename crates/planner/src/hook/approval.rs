//! Which promotions a signed call approves.

use std::{fmt, time::Duration};

use api::{Promotion, revision::identity};

use crate::{
    gate::approvals::is_awaited,
    time::{Timestamp, later},
};

/// How far the time of a signature may be from ours.
pub const SIGNATURE_AGE: Duration = Duration::from_secs(300);

/// A signature that covers the time at which it was made.
#[derive(Clone, Copy, Debug)]
pub struct ApprovalSignature<'a> {
    /// When it was made, by the caller's clock.
    pub at: Timestamp,
    /// The digest of the signed call.
    pub digest: &'a str,
}

/// Why a valid signature approves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignatureRefusal {
    /// It has approved a promotion before.
    Used,
    /// It is older than the promotion.
    OlderThanPromotion,
}

impl fmt::Display for SignatureRefusal {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str(match self {
            Self::Used => "this signature was used before; sign the call again",
            Self::OlderThanPromotion => {
                "the signature is older than the promotion; check the clock and sign the call again"
            }
        })
    }
}

/// Those of the waiting promotions that a signature may approve: it must be younger than the
/// promotion and must not have approved any of this pipeline before.
pub fn approved_by<'a>(
    signature: &ApprovalSignature<'_>,
    waiting: &[&'a Promotion],
    all: &[Promotion],
) -> Result<Vec<&'a Promotion>, SignatureRefusal> {
    let used = |promotion: &Promotion| {
        let mut given = promotion.spec.given_approvals();
        given.any(|approval| approval.signature.as_deref() == Some(signature.digest))
    };
    if all.iter().any(used) {
        return Err(SignatureRefusal::Used);
    }
    let was_there = |promotion: &&&'a Promotion| {
        let created = promotion.metadata.creation_timestamp.as_ref();
        created.is_none_or(|created| created.0.as_second() <= signature.at.as_second())
    };
    let approved: Vec<_> = waiting.iter().filter(was_there).copied().collect();
    match approved.is_empty() {
        true => Err(SignatureRefusal::OlderThanPromotion),
        false => Ok(approved),
    }
}

/// Whether the promotion was approved by a signature that would still be accepted. It must be kept as the
/// record that the signature was used.
pub(crate) fn guards_signature(promotion: &Promotion, now: Timestamp) -> bool {
    let given = promotion.spec.given_approvals();
    let mut signed = given.filter(|approval| approval.signature.is_some());
    // The caller's clock may be ahead of ours by as much as a signature may be old.
    signed.any(|approval| {
        let at = approval.at.as_ref();
        at.is_some_and(|at| now < later(at.0, 2 * SIGNATURE_AGE))
    })
}

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
    let waits = |promotion: &&Promotion| is_awaited(promotion);
    promotions.iter().filter(is_meant).filter(waits).collect()
}

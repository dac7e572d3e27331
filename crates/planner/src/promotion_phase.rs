//! Questions about how far a stored promotion is.

use api::{
    Promotion,
    pipeline::RequestKind,
    promotion::{Phase, PromotionSpec},
    revision::identity,
};

use crate::{attempt::STRATEGY_CHANGED, plan::ROLLED_BACK, time::Timestamp};

pub(crate) fn name_of(promotion: &Promotion) -> String {
    promotion.metadata.name.clone().unwrap_or_default()
}

pub(crate) fn phase_of(promotion: &Promotion) -> Option<Phase> {
    promotion.status.as_ref()?.phase
}

/// Whether it can no longer bring its change into git, so that another promotion may.
pub(crate) fn lets_successor_act(promotion: &Promotion) -> bool {
    phase_of(promotion).is_some_and(Phase::lets_successor_act)
}

/// Whether it could still bring its change into git.
pub(crate) fn is_unmerged(promotion: &Promotion) -> bool {
    !lets_successor_act(promotion) && promotion.spec.withdrawn.is_none()
}

/// Whether its change is in git and has yet to be deployed.
pub(crate) fn is_deploying(promotion: &Promotion) -> bool {
    phase_of(promotion) == Some(Phase::Deploying) && promotion.spec.withdrawn.is_none()
}

/// Whether the site runs its revision and the checks of the environment have not ended.
pub(crate) fn is_verifying(promotion: &Promotion) -> bool {
    phase_of(promotion) == Some(Phase::Verifying) && promotion.spec.withdrawn.is_none()
}

/// Whether it failed because of its revision, and not because its strategy was edited.
pub(crate) fn has_failed(promotion: &Promotion) -> bool {
    let status = promotion.status.as_ref();
    let reason = status.and_then(|status| status.reason.as_deref());
    phase_of(promotion) == Some(Phase::Failed) && reason != Some(STRATEGY_CHANGED)
}

/// When its change came into git.
pub(crate) fn merged_at(promotion: &Promotion) -> Option<Timestamp> {
    let merged_at = promotion.status.as_ref()?.merged_at.as_ref();
    merged_at.map(|time| time.0)
}

/// Whether its change has ever been in git.
pub(crate) fn was_merged(promotion: &Promotion) -> bool {
    merged_at(promotion).is_some() || phase_of(promotion) == Some(Phase::Succeeded)
}

/// Orders promotions by their creation; timestamps of objects have whole seconds.
pub(crate) fn creation_order(promotion: &Promotion) -> (Timestamp, i64, String) {
    let created = promotion.metadata.creation_timestamp.as_ref();
    // A promotion that is about to be created has no timestamp yet and comes last.
    let created = created.map_or(Timestamp::MAX, |time| time.0);
    (created, promotion.spec.ordinal, name_of(promotion))
}

/// A revision as people read it, by the promotion that brought it.
pub(crate) fn shown_by(promotions: &[&Promotion], revision: &str) -> String {
    let mut specs = promotions.iter().map(|promotion| &promotion.spec);
    let brought = specs.find(|spec| spec.revision == revision);
    brought.map_or_else(|| revision.to_owned(), PromotionSpec::shown_revision)
}

/// Whether a text names the promotion's revision, or nothing in particular.
pub(crate) fn names_revision(promotion: &Promotion, text: &str) -> bool {
    let spec = &promotion.spec;
    text.is_empty() || spec.revision == identity(text) || spec.version == text
}

/// Whether a person requested it as a rollback, or a failed check led to it.
pub(crate) fn is_rollback(promotion: &Promotion) -> bool {
    let request = promotion.spec.request.as_ref();
    let is_asked = request.is_some_and(|request| request.kind == RequestKind::Rollback);
    is_asked || promotion.spec.cause.is_some()
}

/// That a promotion is a rollback, and whose: `ann requested this rollback`; nothing for others.
pub(crate) fn rollback_clause(promotion: &Promotion) -> Option<String> {
    let request = promotion.spec.request.as_ref();
    let by = request.and_then(|request| request.by.as_deref());
    is_rollback(promotion).then(|| match by {
        Some(by) => format!("{by} requested this rollback"),
        None if promotion.spec.cause.is_some() => "a failed check led to this rollback".to_owned(),
        None => "it is a rollback".to_owned(),
    })
}

/// The reason of a promotion that ended because the statuses of its hub were lost.
pub(crate) const STATUS_LOST: &str = "StatusLost";

/// Whether a person requested it and nobody knows how far it came, because the statuses of its hub were lost.
pub(crate) fn is_lost_request(promotion: &Promotion) -> bool {
    let status = promotion.status.as_ref();
    let reason = status.and_then(|status| status.reason.as_deref());
    promotion.spec.request.is_some() && reason == Some(STATUS_LOST)
}

/// Whether a person requested to go back instead. Its revision is rejected, also where the status that said so is
/// lost.
pub(crate) fn is_rolled_back(promotion: &Promotion) -> bool {
    let withdrawn = promotion.spec.withdrawn.as_ref();
    withdrawn.is_some_and(|withdrawn| withdrawn.reason == ROLLED_BACK)
}

/// Whether a person rejected it before its change was in git.
pub(crate) fn is_rejected(promotion: &Promotion) -> bool {
    promotion.spec.rejection.is_some() && !was_merged(promotion)
}

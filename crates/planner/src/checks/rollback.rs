//! The derived rollback: which revision a site returns to after a check failed, or why it does not.
//!
//! It is derived once, when the failed revision is rejected, and never because of a revision that a rollback
//! brought.

use api::{
    Promotion,
    check_run::{CheckCause, CheckVerdict},
    pipeline::{CheckStatus, Environment, EnvironmentStatus, OnFailure, RanRevision},
};

use crate::{
    hold::{Hold, HoldReason},
    promotion_phase::{is_rollback, was_merged},
    site_state::SiteState,
};

/// The rollback of a site after a check failed.
pub(crate) struct DerivedRollback<'a> {
    /// The revision that failed.
    pub(crate) failed: &'a str,
    /// The uid of the promotion that brought it.
    pub(crate) cause: String,
    /// The revision to return to; nothing where the rollback exists already and that was not recorded.
    pub(crate) to: Option<&'a RanRevision>,
}

/// The rollback of a site whose revision failed a check of the environment; nothing where none failed, or
/// where it was derived before. The error says why it is not possible.
pub(crate) fn derived_rollback<'a>(
    environment: &Environment,
    status: &'a EnvironmentStatus,
    site: &SiteState<'_>,
) -> Option<Result<DerivedRollback<'a>, Hold>> {
    let verify = environment.verify.as_ref()?;
    let failed = status.checks.iter().find(|it| {
        it.cause == CheckCause::Verify
            && it.verdict == CheckVerdict::Failed
            && verify.checks.contains(&it.check)
            && !status.rejected.contains(&it.revision)
            && runs(site, &it.revision)
    })?;
    if verify.on_failure != OnFailure::Rollback {
        return None;
    }
    let found = find(status, site, failed);
    Some(found.map_err(|because| not_possible(environment, &failed.revision, because)))
}

fn runs(site: &SiteState<'_>, revision: &str) -> bool {
    let mut targets = site.targets.iter();
    targets.any(|target| target.revision.as_deref() == Some(revision))
}

fn find<'a>(
    status: &'a EnvironmentStatus,
    site: &SiteState<'_>,
    failed: &'a CheckStatus,
) -> Result<DerivedRollback<'a>, &'static str> {
    let revision = failed.revision.as_str();
    let brought = |it: &&&Promotion| it.spec.revision == revision && was_merged(it);
    let Some(promotion) = site.promotions.iter().rev().find(brought) else {
        return Err("no promotion brought it");
    };
    if is_rollback(promotion) {
        return Err("a rollback brought it");
    }
    let cause = promotion.metadata.uid.clone().unwrap_or_default();
    let mut others = site.promotions.iter();
    if others.any(|it| it.spec.cause.as_ref() == Some(&cause)) {
        return Ok(DerivedRollback {
            failed: revision,
            cause,
            to: None,
        });
    }
    let is_good = |it: &&RanRevision| {
        it.revision != revision
            && it.checked_at.is_some()
            && it.failed_check.is_none()
            && !status.rejected.contains(&it.revision)
    };
    let Some(to) = status.ran.iter().find(is_good) else {
        return Err("no other revision has passed the checks there");
    };
    Ok(DerivedRollback {
        failed: revision,
        cause,
        to: Some(to),
    })
}

/// The hold of an environment that stays at a revision which failed its checks.
pub(crate) fn not_possible(environment: &Environment, revision: &str, because: &str) -> Hold {
    let name = &environment.name;
    Hold::new(
        HoldReason::RollbackNotPossible,
        format!("{revision} failed its checks in {name} and is not rolled back: {because}"),
        format!("a newer revision, a request for another one, or a retry of the checks of {name}"),
    )
}

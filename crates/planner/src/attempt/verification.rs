//! The end of a promotion whose environment has checks: they decide once the site runs the revision.

use api::promotion::Phase;

use super::{
    AttemptPlan, CHECK_FAILED, DEPLOY_FAILED,
    lifecycle::{Attempt, stay},
};

impl Attempt<'_> {
    /// The site is ready at the revision. The checks of the environment decide, where this promotion
    /// brought it.
    pub(super) fn arrive(mut self) -> AttemptPlan {
        self.note_merge();
        let has_brought = self.status.merged_at.is_some();
        match has_brought && !self.context.checks().have_passed() {
            true => self.verify(),
            false => self.succeed(),
        }
    }

    /// The site runs the revision, and its checks have not all passed.
    pub(super) fn verify(mut self) -> AttemptPlan {
        let spec = &self.context.promotion.spec;
        let (name, shown) = (&spec.environment, spec.shown_revision());
        if let Some(other) = self.context.replaced_by() {
            let message = format!("{name} runs {other}; the checks of {shown} have ended");
            return self.end(Phase::Superseded, "Superseded", message);
        }
        if let Some(message) = self.failed_check() {
            return self.end(Phase::Failed, CHECK_FAILED, message);
        }
        let failure = self.context.failure();
        // A rollout has counted the targets that failed.
        if let Some(message) = failure.filter(|_| self.status.rollout.is_none()) {
            return self.end(Phase::Failed, DEPLOY_FAILED, message);
        }
        let checks = self.context.checks();
        let message = match checks.have_passed() {
            true => format!("{name} passed its checks and is not ready at {shown}"),
            false => format!("{name} runs {shown}; {}", checks.open()),
        };
        self.set(Phase::Verifying, "Verifying", message);
        stay(self.status)
    }

    /// Which check of the environment failed, and why.
    pub(super) fn failed_check(&self) -> Option<String> {
        let failed = self.context.checks().failed()?;
        let spec = &self.context.promotion.spec;
        let (name, shown) = (&spec.environment, spec.shown_revision());
        Some(format!(
            "{shown} failed in {name}: the check {}",
            failed.failure()
        ))
    }
}

//! Rolls back to the last good revision where a check failed for what runs.
//!
//! It is done once: when every site that runs the failed revision has its rollback, the revision is rejected
//! in the same plan.

use api::pipeline::Environment;

use super::{
    environment::EnvironmentDecision,
    input::PlanInput,
    site::{SitePlanner, WantedRevision},
};
use crate::{
    checks::{self, DerivedRollback},
    fold::push_front,
    hold::Hold,
};

impl WantedRevision {
    /// What a derived rollback returns to; nothing where its promotion exists.
    fn of_rollback(rollback: &DerivedRollback<'_>) -> Option<Self> {
        let to = rollback.to?;
        Some(Self {
            version: to.version.clone().unwrap_or_else(|| to.revision.clone()),
            revision: to.revision.clone(),
            verified_at: None,
            request: None,
            cause: Some(rollback.cause.clone()),
        })
    }
}

impl SitePlanner<'_> {
    /// Rolls back where a check failed for what runs. Returns whether nothing else is to be done now. Where
    /// it cannot, the status says why, unless something else is under way.
    pub(super) fn roll_back(&self, decision: &mut EnvironmentDecision) -> bool {
        let Some(status) = self.input.status(&self.environment.name) else {
            return false;
        };
        let rejected = decision.says.rejected.clone();
        let mut failed = None;
        let (mut is_complete, mut is_started) = (true, false);
        let mut blocked = None;
        for site in &self.sites {
            let rollback = match checks::derived_rollback(self.environment, status, site) {
                None => continue,
                Some(Err(hold)) => {
                    blocked = blocked.or(Some(hold));
                    continue;
                }
                Some(Ok(rollback)) => rollback,
            };
            failed = Some(rollback.failed);
            let Some(wanted) = WantedRevision::of_rollback(&rollback) else {
                continue;
            };
            is_started = true;
            let mut decided = self.decide(&wanted, site, &rejected);
            is_complete &= decided.promotion.is_some();
            decision.steps.append(&mut decided.steps);
            decision.collect(&mut decided);
            self.say(&decided, decision);
            decision.says.promotion = decided.promotion.or(decision.says.promotion.take());
        }
        if let Some(failed) = failed.filter(|_| is_complete) {
            push_front(&mut decision.says.rejected, failed);
        }
        is_started || self.stay(blocked, decision)
    }

    /// The site stays at a revision that failed its checks: what comes next goes on, and the status says
    /// why it is not rolled back where it says nothing else.
    fn stay(&self, blocked: Option<Hold>, decision: &mut EnvironmentDecision) -> bool {
        let Some(hold) = blocked else { return false };
        self.follow_source(decision);
        if decision.says.hold.is_none() && decision.steps.is_empty() {
            decision.says.hold = Some(hold);
        }
        true
    }
}

/// Why an environment that nothing is promoted into is not rolled back after a check failed.
pub(super) fn without_strategy(input: &PlanInput<'_>, environment: &Environment) -> Option<Hold> {
    let status = input.status(&environment.name)?;
    let site = input.whole(&environment.name);
    let rollback = checks::derived_rollback(environment, status, &site)?;
    Some(match rollback {
        Ok(it) => checks::not_possible(environment, it.failed, "nothing is promoted into it"),
        Err(hold) => hold,
    })
}

//! Goes back to the last good revision where a check failed for what runs.
//!
//! It is done once: when every site that runs the failed revision has its way back, the revision is rejected
//! in the same plan.

use api::pipeline::Environment;

use super::{
    environment::EnvironmentDecision,
    input::PlanInput,
    site::{SitePlanner, WantedRevision},
};
use crate::{
    checks::{self, WayBack},
    fold::push_front,
    hold::Hold,
};

impl WantedRevision {
    /// What a site goes back to after a check failed; nothing where it has gone back.
    fn back(way: &WayBack<'_>) -> Option<Self> {
        let to = way.to?;
        Some(Self {
            version: to.version.clone().unwrap_or_else(|| to.revision.clone()),
            revision: to.revision.clone(),
            verified_at: None,
            request: None,
            cause: Some(way.cause.clone()),
        })
    }
}

impl SitePlanner<'_> {
    /// Goes back where a check failed for what runs. Returns whether nothing else is to be done now. Where
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
            let way = match checks::way_back(self.environment, status, site) {
                None => continue,
                Some(Err(hold)) => {
                    blocked = blocked.or(Some(hold));
                    continue;
                }
                Some(Ok(way)) => way,
            };
            failed = Some(way.failed);
            let Some(wanted) = WantedRevision::back(&way) else {
                continue;
            };
            is_started = true;
            let mut back = self.decide(&wanted, site, &rejected);
            is_complete &= back.promotion.is_some();
            decision.steps.append(&mut back.steps);
            decision.collect(&mut back);
            self.say(&back, decision);
            decision.says.promotion = back.promotion.or(decision.says.promotion.take());
        }
        if let Some(failed) = failed.filter(|_| is_complete) {
            push_front(&mut decision.says.rejected, failed);
        }
        is_started || self.stay(blocked, decision)
    }

    /// The site stays at a revision that failed its checks: what comes next goes on, and the status says
    /// why nothing goes back where it says nothing else.
    fn stay(&self, blocked: Option<Hold>, decision: &mut EnvironmentDecision) -> bool {
        let Some(hold) = blocked else { return false };
        self.follow_source(decision);
        if decision.says.hold.is_none() && decision.steps.is_empty() {
            decision.says.hold = Some(hold);
        }
        true
    }
}

/// Why an environment that nothing is promoted into does not go back after a check failed.
pub(super) fn without_strategy(input: &PlanInput<'_>, environment: &Environment) -> Option<Hold> {
    let status = input.status(&environment.name)?;
    let site = input.whole(&environment.name);
    let way = checks::way_back(environment, status, &site)?;
    Some(match way {
        Ok(way) => checks::no_way_back(environment, way.failed, "nothing is promoted into it"),
        Err(hold) => hold,
    })
}

//! A plan as the status that people and programs read.

use api::{
    conditions::READY,
    pipeline::{PROMOTION_PENDING, PipelineStatus, WaitingApproval},
};

use super::Plan;
use crate::{conditions, time::Timestamp};

/// The status that says what the plan says. Promises to change nothing the plan says nothing
/// about, and nothing at all when it says what is known.
pub fn apply(plan: &Plan, model: &PipelineStatus, now: Timestamp) -> PipelineStatus {
    let mut status = model.clone();
    for (name, says) in &plan.environments {
        let environment = status.environments.entry(name.clone()).or_default();
        environment.hold = says.hold.as_ref().map(|hold| hold.status());
        environment.waiting_approval = says
            .waiting_approval
            .clone()
            .map(|revision| WaitingApproval { revision });
        environment.promotion.clone_from(&says.promotion);
        environment.rejected.clone_from(&says.rejected);
        environment.last_request.clone_from(&says.last_request);
    }
    conditions::set(&mut status.conditions, READY, &plan.ready, now);
    match &plan.pending {
        Some(pending) => {
            conditions::set(&mut status.conditions, PROMOTION_PENDING, pending, now);
        }
        None => conditions::remove(&mut status.conditions, PROMOTION_PENDING),
    }
    status
}

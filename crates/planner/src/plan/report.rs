//! A plan as the status that people and programs read.

use api::{
    conditions::READY,
    pipeline::{PROMOTION_PENDING, PipelineStatus, STRATEGY_READY, WaitingApproval},
};

use super::Plan;
use crate::{
    check_definition::is_about_checks,
    conditions::{self, ConditionValue},
    gate::GateAnswer,
    time::Timestamp,
};

/// The status that says what the plan says. Promises to change nothing the plan says nothing
/// about, and nothing at all when it says what is known.
pub fn apply(plan: &Plan, model: &PipelineStatus, now: Timestamp) -> PipelineStatus {
    let mut status = model.clone();
    for (name, says) in &plan.environments {
        let environment = status.environments.entry(name.clone()).or_default();
        environment.hold = says.hold.as_ref().map(|hold| hold.status());
        environment.gates = says.gates.iter().filter_map(GateAnswer::status).collect();
        environment.waiting_approval = says
            .waiting_approval
            .clone()
            .map(|revision| WaitingApproval { revision });
        environment.promotion.clone_from(&says.promotion);
        environment.ran.clone_from(&says.ran);
        environment.rejected.clone_from(&says.rejected);
        environment.rollout.clone_from(&says.rollout);
        environment.rollout_orders.clone_from(&says.rollout_orders);
        environment.last_request.clone_from(&says.last_request);
        environment.overrides.clone_from(&says.overrides);
    }
    conditions::set(&mut status.conditions, READY, &plan.ready, now);
    match &plan.pending {
        Some(pending) => {
            conditions::set(&mut status.conditions, PROMOTION_PENDING, pending, now);
        }
        None => conditions::remove(&mut status.conditions, PROMOTION_PENDING),
    }
    match strategy_problem(&status) {
        Some(problem) => conditions::set(&mut status.conditions, STRATEGY_READY, &problem, now),
        None => conditions::remove(&mut status.conditions, STRATEGY_READY),
    }
    status
}

/// What the preflight check found, of all environments in one condition.
fn strategy_problem(status: &PipelineStatus) -> Option<ConditionValue> {
    let all = status.preflight.iter();
    // What no promotion can succeed with comes before what a check is not measured with.
    let first = status
        .preflight
        .values()
        .min_by_key(|it| is_about_checks(it))?;
    let all = all.map(|(name, problem)| format!("{name}: {}", problem.message));
    let message = all.collect::<Vec<_>>().join("; ");
    Some(ConditionValue::new("False", &first.reason, message))
}

//! Gate `targets`: the targets of the site have been observed, can be read, and have the app.

use api::pipeline::{PromotionSettings, TargetProblem};

use super::{Ask, EnvironmentQuestion, Gate, GateStage, GateVerdict, SiteQuestion};
use crate::{
    fold::is_absence,
    hold::{Hold, HoldReason, and_more},
    plan::unmatched_selector,
    site::target_name,
};

pub(super) const GATE: Gate = Gate {
    name: "targets",
    skipped: None,
    rollback_skips: false,
    stage: GateStage::Creation(&[Ask::Environment(selectors), Ask::Site(site)]),
    again: None,
};

fn selectors(question: &EnvironmentQuestion<'_>) -> GateVerdict {
    let name = &question.environment.name;
    let unmatched = unmatched_selector(question.model, question.environment);
    let hold = unmatched.map(|namespace| {
        Hold::new(
            HoldReason::NoTargetsMatch,
            format!("no cluster matches the selector of {name} for namespace {namespace}"),
            "a cluster with matching labels",
        )
    });
    hold.into()
}

/// The hold of an environment that has not been observed yet.
pub(crate) fn not_observed(environment: &str) -> Hold {
    Hold::new(
        HoldReason::NotObserved,
        format!("{environment} has not been observed yet"),
        "its first observation",
    )
}

fn site(question: &SiteQuestion<'_>) -> GateVerdict {
    let name = &question.environment.name;
    if question.site.targets.is_empty() {
        return GateVerdict::Wait(not_observed(name));
    }
    let mut unreadable = question.site.unreadable();
    // A rollout goes on without targets that cannot be reached, as far as its limits allow.
    if settings(question).is_some_and(|it| it.rollout.is_some()) {
        unreadable.retain(|target| target.problem == Some(TargetProblem::NotSynced));
    }
    if installs_app(question) {
        unreadable.retain(|target| !target.problem.is_some_and(is_absence));
    }
    let first = unreadable.first();
    let Some((target, problem)) = first.and_then(|it| Some((it, it.problem?))) else {
        return GateVerdict::Pass;
    };
    let (reason, resolved_by) = match problem {
        problem if is_absence(problem) => (HoldReason::AppMissing, "creating the app"),
        _ => (
            HoldReason::TargetUnreachable,
            "making the target readable again",
        ),
    };
    let error = target.error.as_deref().unwrap_or("cannot be read");
    let more = and_more(unreadable.len());
    let sentence = format!("{name} target {}{more}: {error}", target_name(target));
    GateVerdict::Wait(Hold::new(reason, sentence, resolved_by))
}

/// Whether the strategy also installs the app: a new cluster that asks for its revision has none yet.
fn installs_app(question: &SiteQuestion<'_>) -> bool {
    let settings = settings(question);
    settings.is_some_and(|settings| settings.strategy.resource_set_inputs.is_some())
}

fn settings<'a>(question: &SiteQuestion<'a>) -> Option<&'a PromotionSettings> {
    let spec = &question.pipeline.spec;
    spec.promotion_into(&question.environment.name)
}

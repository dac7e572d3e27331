//! Plans as text, and what carrying one out does to the world.

use api::{
    CheckRun, Promotion, check_run::CheckCause, names::PromotionSite, promotion::Withdrawal,
};
use planner::{Plan, Step, site_of, superseded_by};

use crate::drawing::{World, now};

fn place_text(place: &PromotionSite) -> String {
    place.key()
}

fn short(world: &World, name: &str) -> String {
    let is_it = |promotion: &&Promotion| promotion.metadata.name.as_deref() == Some(name);
    let promotion = world.promotions.iter().find(is_it).unwrap();
    describe(promotion)
}

fn describe(promotion: &Promotion) -> String {
    let place = place_text(&site_of(&promotion.spec, "default"));
    let mut text = format!("{place} {}", promotion.spec.revision);
    if promotion.spec.ordinal > 0 {
        text += &format!(" #{}", promotion.spec.ordinal);
    }
    text
}

/// One line for each step, then one for each hold and other news of an environment.
pub(crate) fn show(world: &World, plan: &Plan) -> String {
    let mut lines: Vec<String> = plan
        .steps
        .iter()
        .map(|step| show_step(world, step))
        .collect();
    for environment in &world.pipeline.spec.environments {
        let name = &environment.name;
        let says = &plan.environments[name];
        if let Some(hold) = &says.hold {
            lines.push(format!(
                "{name}: {}: {}",
                hold.reason.word(),
                hold.message()
            ));
        }
        if !says.rejected.is_empty() {
            lines.push(format!("{name} rejects {}", says.rejected.join(" ")));
        }
        if let Some(request) = &says.last_request {
            let message = request.message.as_deref().unwrap_or("-");
            lines.push(format!("{name} request {}: {message}", request.id));
        }
    }
    lines.extend(plan.warnings.iter().map(|text| format!("warning: {text}")));
    if lines.is_empty() {
        lines.push("nothing".to_owned());
    }
    lines.join("\n")
}

fn show_step(world: &World, step: &Step) -> String {
    match step {
        Step::StartPromotion(promotion) => {
            let replaces = promotion.spec.replaces.as_deref().unwrap_or("nothing");
            let mut text = format!("start {} instead of {replaces}", describe(promotion));
            if promotion.spec.needs_approval {
                text += ", needs approval";
            }
            text
        }
        Step::SupersedePromotion { name, .. } => format!("supersede {}", short(world, name)),
        Step::WithdrawPromotion { name, reason } => {
            format!("withdraw {}: {reason}", short(world, name))
        }
        Step::RemoveFinished { name } => format!("remove {}", short(world, name)),
        Step::StartCheckRun(run) => {
            let spec = &run.spec;
            let before = match spec.cause {
                CheckCause::Promotion => " before it enters",
                CheckCause::Verify => "",
            };
            let (check, environment) = (&spec.check.name, &spec.environment);
            let (revision, attempt) = (&spec.revision, spec.attempt);
            format!("check {environment} {check} {revision} #{attempt}{before}")
        }
        Step::RemoveCheckRun { name } => format!("remove check {name}"),
    }
}

/// Carries the steps out as the loop would, and stores the status.
pub(crate) fn carry_out(world: &mut World, plan: &Plan) {
    for step in &plan.steps {
        match step {
            Step::StartPromotion(promotion) => {
                let mut promotion = (**promotion).clone();
                promotion.metadata.creation_timestamp = Some(api::Time(now()));
                let name = promotion.metadata.name.clone().unwrap();
                promotion.metadata.uid = Some(format!("{name}-uid"));
                world.promotions.push(promotion);
            }
            Step::StartCheckRun(run) => world.runs.push((**run).clone()),
            Step::RemoveCheckRun { name } => {
                let is_other = |run: &CheckRun| run.metadata.name.as_ref() != Some(name);
                world.runs.retain(is_other);
            }
            Step::SupersedePromotion { name, by } => withdraw(world, name, superseded_by(by)),
            Step::WithdrawPromotion { name, reason } => withdraw(world, name, reason.clone()),
            Step::RemoveFinished { name } => {
                let is_other =
                    |promotion: &Promotion| promotion.metadata.name.as_ref() != Some(name);
                world.promotions.retain(is_other);
            }
        }
    }
    let status = planner::apply(plan, &world.model(), now());
    world.pipeline.status = Some(status);
    world.fold_checks();
}

fn withdraw(world: &mut World, name: &str, reason: String) {
    for promotion in &mut world.promotions {
        if promotion.metadata.name.as_deref() == Some(name) {
            promotion.spec.withdrawn = Some(Withdrawal {
                reason: reason.clone(),
            });
        }
    }
}

/// Plans, carries out, plans again: the second plan must be empty and say the same. A request is
/// taken up by the first, so that what comes along by itself is looked at by the second.
pub(crate) fn settle(world: &mut World) {
    let plan = world.plan();
    carry_out(world, &plan);
    let again = world.plan();
    assert_eq!(again.steps, [], "a plan that was carried out is empty");
    if !world.model().requests.is_empty() {
        carry_out(world, &again);
    }
    let status = world.model();
    let again = world.plan();
    carry_out(world, &again);
    assert_eq!(world.model(), status, "planning again says the same");
    assert_eq!(again.steps, [], "a plan that was carried out stays empty");
}

//! The promotion under way and its steps.

use api::{Promotion, promotion::Phase};

use super::Subject;
use crate::{
    dashboard::{
        html::{Element, tag},
        words::{aside, moment, outward},
    },
    view,
};

/// One step: what it is, whether it is done, and what is known about it.
struct Step {
    name: &'static str,
    is_done: bool,
    detail: Option<Element>,
}

impl Subject<'_> {
    /// Nothing, where none is under way.
    pub(super) fn under_way(&self, environment: &str) -> Option<Element> {
        let promotion = self.promotions.iter().find(|promotion| {
            let phase = promotion.status.as_ref().and_then(|status| status.phase);
            let is_over = phase.is_some_and(Phase::is_terminal);
            promotion.spec.environment == environment && !is_over
        })?;
        let spec = &promotion.spec;
        let title = tag("h3")
            .child(tag("code").text(spec.replaces.as_deref().unwrap_or("nothing")))
            .child(tag("span").with("aria-hidden", "true").text(" → "))
            .child(aside(" to "))
            .child(tag("code").text(spec.shown_revision()));
        let steps = steps(promotion);
        let now = steps.iter().position(|step| !step.is_done);
        let items = steps.into_iter().enumerate().map(|(index, step)| {
            let (class, word) = match (step.is_done, now == Some(index)) {
                (true, _) => ("done", "done: "),
                (false, true) => ("now", "now: "),
                (false, false) => ("next", "later: "),
            };
            let item = tag("li").class(class).child(aside(word)).text(step.name);
            item.child(step.detail)
        });
        let status = promotion.status.as_ref();
        let trouble = status.and_then(planner::promotion_problem);
        let trouble = trouble.map(|it| format!("{} [{}]", it.message, it.reason));
        let message = trouble.or_else(|| status?.message.clone());
        Some(
            tag("div")
                .class("promotion")
                .child(title)
                .child(tag("ol").class("steps").children(items))
                .child(message.map(|message| tag("p").class("dim").text(message))),
        )
    }
}

fn steps(promotion: &Promotion) -> Vec<Step> {
    let spec = &promotion.spec;
    let status = promotion.status.clone().unwrap_or_default();
    let is_past = |phase: Phase| status.phase.is_some_and(|now| now > phase);
    let mut steps = Vec::new();
    if spec.needs_approval || spec.approval.is_some() {
        let approval = spec.approval.as_ref();
        steps.push(Step {
            name: "Approved",
            is_done: approval.is_some(),
            detail: approval.map(|it| tag("span").text(format_args!(" by {}", it.by))),
        });
    }
    let url = status.url.as_deref();
    let link = url.map(|url| tag("span").text(" ").child(outward(url, "look at it")));
    if spec.strategy.pull_request.is_some() {
        steps.push(Step {
            name: "Pull request opened",
            is_done: is_past(Phase::Running),
            detail: link,
        });
        let merged = status.merged_at.as_ref();
        steps.push(Step {
            name: "Merged",
            is_done: is_past(Phase::WaitingForMerge),
            detail: merged.map(|at| tag("span").text(" ").child(moment(at))),
        });
    } else {
        steps.push(Step {
            name: "Carried out",
            is_done: is_past(Phase::Running),
            detail: link,
        });
    }
    steps.push(Step {
        name: "Running everywhere",
        is_done: status.phase == Some(Phase::Succeeded),
        detail: None,
    });
    steps
}

/// How a promotion went, in one line of the history.
pub(super) fn outcome(promotion: &Promotion) -> Element {
    let status = promotion.status.as_ref();
    let url = status.and_then(|status| status.url.as_deref());
    tag("span")
        .text(view::phase_of(promotion))
        .child(url.map(|url| tag("span").text(" · ").child(outward(url, "look at it"))))
}

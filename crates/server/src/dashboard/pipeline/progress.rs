//! The current promotion of an environment, as a list of milestones.

use api::{Promotion, promotion::Phase};

use super::PipelineView;
use crate::{
    dashboard::{
        components::{external_link, pull_request_label, screen_reader_text, timestamp},
        html::{Element, tag},
    },
    view,
};

/// A milestone of a promotion.
struct Milestone {
    /// Its name once it is reached, and until then.
    names: [&'static str; 2],
    is_done: bool,
    detail: Option<Element>,
}

impl PipelineView<'_> {
    /// The milestones of a promotion that is under way.
    pub(super) fn progress(&self, promotion: &Promotion) -> Element {
        let milestones = milestones(promotion);
        let current = milestones.iter().position(|it| !it.is_done);
        let items = milestones.into_iter().enumerate().map(|(index, it)| {
            let (class, word) = match (it.is_done, current == Some(index)) {
                (true, _) => ("done", "done: "),
                (false, true) => ("now", "in progress: "),
                (false, false) => ("next", "pending: "),
            };
            let [done, to_do] = it.names;
            let item = tag("li")
                .class(class)
                .child(screen_reader_text(word))
                .text(if it.is_done { done } else { to_do });
            item.child(it.detail)
        });
        let status = promotion.status.as_ref();
        let trouble = status.and_then(planner::promotion_problem);
        let trouble = trouble.map(|it| format!("{} [{}]", it.message, it.reason));
        let message = trouble.or_else(|| status?.message.clone());
        tag("div")
            .class("promotion")
            .child(tag("ol").class("steps").children(items))
            .child(message.map(|message| tag("p").class("dim").text(message)))
    }
}

fn milestones(promotion: &Promotion) -> Vec<Milestone> {
    let spec = &promotion.spec;
    let status = promotion.status.clone().unwrap_or_default();
    let is_past = |phase: Phase| status.phase.is_some_and(|now| now > phase);
    let mut milestones = Vec::new();
    let approved_by = spec.approved_by();
    if spec.needs_approval || approved_by.is_some() {
        milestones.push(Milestone {
            names: ["Approved", "Approval"],
            is_done: is_past(Phase::AwaitingApproval),
            detail: approved_by.map(|names| tag("span").text(format_args!(" by {names}"))),
        });
    }
    let link = status.url.as_deref();
    let link = link.map(|url| tag("span").text(" ").child(result_link(promotion, url)));
    if spec.strategy.pull_request.is_some() {
        milestones.push(Milestone {
            names: ["Pull request opened", "Open a pull request"],
            is_done: is_past(Phase::Running),
            detail: link,
        });
        let merged = status.merged_at.as_ref();
        milestones.push(Milestone {
            names: ["Merged", "Merge"],
            is_done: is_past(Phase::WaitingForMerge),
            detail: merged.map(|at| tag("span").text(" ").child(timestamp(at))),
        });
    } else {
        milestones.push(Milestone {
            names: match spec.strategy.commit {
                Some(_) => ["Committed", "Commit"],
                None => ["Sent", "Send"],
            },
            is_done: is_past(Phase::Running),
            detail: link,
        });
    }
    milestones.push(Milestone {
        names: ["Deployed to all targets", "Deploy to all targets"],
        is_done: status.phase == Some(Phase::Succeeded),
        detail: None,
    });
    milestones
}

/// The phase of a promotion, for a line of the history.
pub(super) fn result_line(promotion: &Promotion) -> Element {
    let status = promotion.status.as_ref();
    let url = status.and_then(|status| status.url.as_deref());
    tag("span")
        .text(view::phase_of(promotion))
        .child(url.map(|url| tag("span").text(" · ").child(result_link(promotion, url))))
}

/// A link to the pull request or the commit of a promotion.
fn result_link(promotion: &Promotion, url: &str) -> Element {
    let strategy = &promotion.spec.strategy;
    if strategy.pull_request.is_some() {
        return external_link(url, &pull_request_label(url));
    }
    let text = if strategy.commit.is_some() {
        "Commit"
    } else {
        "Details"
    };
    external_link(url, text)
}

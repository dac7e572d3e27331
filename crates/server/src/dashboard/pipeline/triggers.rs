//! The triggers of a pipeline.
use planner::SummaryState;

use super::PipelineView;
use crate::{
    dashboard::{
        components::{badge, badge_with_text},
        html::{Element, tag},
    },
    triggers::{ShownTrigger, TriggerStatus},
};

impl PipelineView<'_> {
    pub(super) fn triggers(&self) -> Element {
        let items = self.triggers.iter().map(item);
        let list = tag("ul").class("triggers").children(items);
        tag("div").id("triggers").child(list)
    }
}

fn item(trigger: &ShownTrigger) -> Element {
    let listed = &trigger.listed;
    let name = tag("p")
        .child(tag("span").class("dim").text(&listed.kind))
        .text(" ")
        .child(match listed.kind.as_str() {
            "Hook" => tag("code").text(&listed.name),
            _ => tag("b").text(&listed.name),
        })
        .text(format_args!(" {}", listed.effect));
    tag("li")
        .child(name)
        .child(trigger.status.as_ref().map(status_line))
}

/// The state of a trigger, its last event and run.
pub(in crate::dashboard) fn status_line(status: &TriggerStatus) -> Element {
    let ready = status.ready.as_ref();
    let state = match ready.map(|ready| ready.status.as_str()) {
        _ if status.suspend => badge(SummaryState::Suspended),
        Some("True") => badge(SummaryState::Ready),
        Some("False") => badge_with_text(SummaryState::Failed, "not ready"),
        _ => badge(SummaryState::Unknown),
    };
    let event = status.event.as_ref();
    let event = event.map(|event| {
        let text = tag("span").text(" last event ");
        text.child(tag("code").text(event))
    });
    let run = status.run.as_ref();
    let run = run.map(|run| {
        let text = tag("span").text(" last run ");
        text.child(tag("code").text(run))
    });
    let not_ready = ready.filter(|ready| ready.status == "False");
    let not_ready = not_ready.map(|ready| {
        tag("span")
            .class("bad")
            .text(format_args!(" {}", ready.message))
    });
    tag("p")
        .class("dim")
        .child(state)
        .child(event)
        .child(run)
        .child(not_ready)
}

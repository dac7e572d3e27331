//! What can set the pipeline in motion.

use super::Subject;
use crate::{
    dashboard::{
        html::{Element, tag},
        words::{badge, badge_saying},
    },
    triggers::{Last, Trigger},
};
use planner::SummaryState;

impl Subject<'_> {
    pub(super) fn triggers(&self) -> Element {
        let items = self.triggers.iter().map(item);
        let list = tag("ul").class("triggers").children(items);
        tag("div").id("triggers").child(list)
    }
}

fn item(trigger: &Trigger) -> Element {
    let listed = &trigger.listed;
    let name = tag("p")
        .child(tag("span").class("dim").text(&listed.kind))
        .text(" ")
        .child(match listed.kind.as_str() {
            "Hook" => tag("code").text(&listed.name),
            _ => tag("b").text(&listed.name),
        })
        .text(format_args!(" {}", listed.effect));
    tag("li").child(name).child(trigger.last.as_ref().map(last))
}

fn last(last: &Last) -> Element {
    let ready = last.ready.as_ref();
    let state = match ready.map(|ready| ready.status.as_str()) {
        _ if last.suspend => badge(SummaryState::Suspended),
        Some("True") => badge(SummaryState::Ready),
        Some("False") => badge_saying(SummaryState::Failed, "not ready"),
        _ => badge(SummaryState::Unknown),
    };
    let event = last.event.as_ref();
    let event = event.map(|event| {
        let text = tag("span").text(" last event ");
        text.child(tag("code").text(event))
    });
    let run = last.run.as_ref();
    let run = run.map(|run| {
        let text = tag("span").text(" last run ");
        text.child(tag("code").text(run))
    });
    let trouble = ready.filter(|ready| ready.status == "False");
    let trouble = trouble.map(|ready| {
        tag("span")
            .class("bad")
            .text(format_args!(" {}", ready.message))
    });
    tag("p")
        .class("dim")
        .child(state)
        .child(event)
        .child(run)
        .child(trouble)
}

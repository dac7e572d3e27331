//! What happened, newest first.

use api::{Promotion, pipeline::RequestKind, promotion::Phase};
use kube::ResourceExt;

use super::{Subject, steps::outcome};
use crate::dashboard::{
    html::{Element, tag},
    words::moment,
};

/// How far back a page goes.
const SHOWN: usize = 50;

impl Subject<'_> {
    pub(super) fn history(&self) -> Element {
        if self.promotions.is_empty() {
            return tag("div")
                .id("history")
                .child(tag("p").class("dim").text("Nothing has been promoted yet."));
        }
        let items = self.promotions.iter().take(SHOWN).map(entry);
        let list = tag("ol").class("timeline").children(items);
        tag("div").id("history").child(list)
    }
}

fn entry(promotion: &Promotion) -> Element {
    let spec = &promotion.spec;
    let status = promotion.status.clone().unwrap_or_default();
    let class = match status.phase {
        Some(Phase::Succeeded) => "ready",
        Some(Phase::Failed | Phase::Abandoned) => "failed",
        Some(phase) if phase.is_terminal() => "unknown",
        _ => "promoting",
    };
    let at = promotion.creation_timestamp();
    let target = spec.target.as_ref();
    let target = target.map(|target| tag("span").text(format_args!(" ({})", target.namespace)));
    let line = tag("p")
        .child(tag("b").text(&spec.environment))
        .child(target)
        .text(" ")
        .child(tag("code").text(spec.replaces.as_deref().unwrap_or("nothing")))
        .text(" → ")
        .child(tag("code").text(spec.shown_revision()))
        .text(" ")
        .child(outcome(promotion));
    let message = status.message.filter(|_| class == "failed");
    tag("li")
        .class(class)
        .child(at.as_ref().map(moment))
        .child(line)
        .child(people(promotion))
        .child(message.map(|message| tag("p").class("bad").text(message)))
}

/// Who asked for it and who approved it.
fn people(promotion: &Promotion) -> Option<Element> {
    let spec = &promotion.spec;
    let asked = spec.request.as_ref().map(|request| {
        let what = match request.kind {
            RequestKind::Promote => "asked for",
            RequestKind::Rollback => "rolled back",
        };
        format!("{what} by {}", request.by.as_deref().unwrap_or("somebody"))
    });
    let approved = spec.approval.as_ref().map(|approval| {
        let note = approval.note.as_deref().filter(|note| !note.is_empty());
        let note = note.map(|note| format!(": {note}")).unwrap_or_default();
        format!("approved by {}{note}", approval.by)
    });
    let said: Vec<_> = asked.into_iter().chain(approved).collect();
    (!said.is_empty()).then(|| tag("p").class("dim").text(said.join(", ")))
}

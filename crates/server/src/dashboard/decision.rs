//! The card on which a person decides about a promotion: what it replaces, who asked for it, and the
//! buttons for viewers who may decide.

mod facts;

use api::{Pipeline, Promotion, pipeline::RequestKind};
use kube::ResourceExt;
use planner::PromotionDiff;
use runtime::ObjectKey;

use super::{
    components::{address, hidden_field, screen_reader_text, timestamp},
    html::{Element, tag},
    version::{chip, shortened},
};

pub(super) use facts::question;

/// What the card needs besides the promotion.
pub(super) struct DecisionContext<'a> {
    pub(super) key: &'a ObjectKey,
    /// What the promotion brings.
    pub(super) diff: Option<PromotionDiff>,
    /// When the promotion goes on, and what it needs besides time, where the page does not say it beside
    /// the card.
    pub(super) forecast: Option<String>,
    /// The CSRF token of a viewer who may decide.
    pub(super) csrf: Option<&'a str>,
    /// The page to return to, if it is not the pipeline's.
    pub(super) back: Option<&'a str>,
}

/// What a promotion brings.
pub(super) fn diff_of(
    pipeline: &Pipeline,
    promotion: &Promotion,
    promotions: &[Promotion],
) -> Option<PromotionDiff> {
    let all = planner::promotion_diff(pipeline, &promotion.spec.environment, promotions);
    let name = &promotion.metadata.name;
    all.into_iter().find(|it| it.promotion == *name)
}

/// From and to, who asked, and the form to decide.
pub(super) fn decision(promotion: &Promotion, context: &DecisionContext<'_>) -> Element {
    let form = match context.csrf {
        Some(csrf) => form(promotion, context, csrf),
        None => tag("p").class("dim").text("you may not approve this"),
    };
    tag("div")
        .class("decision")
        .child(
            tag("p")
                .child(from_to(promotion))
                .child(asked_by(promotion)),
        )
        .child(facts::facts(promotion, context))
        .child(form)
}

/// `6.1.0 → 6.2.0`.
pub(super) fn from_to(promotion: &Promotion) -> Element {
    let spec = &promotion.spec;
    let from = match spec.replaces.as_deref() {
        Some(replaced) => chip(replaced),
        None => tag("span").class("dim").text("nothing"),
    };
    tag("span")
        .class("from-to")
        .child(from)
        .child(tag("span").with("aria-hidden", "true").text(" → "))
        .child(screen_reader_text(" to "))
        .child(chip(&spec.shown_revision()))
}

fn asked_by(promotion: &Promotion) -> Element {
    let request = promotion.spec.request.as_ref();
    let text = match request {
        None if promotion.spec.cause.is_some() => " rollback after a failed check ".to_owned(),
        None => " proposed by the pipeline ".to_owned(),
        Some(request) => {
            let by = request.by.as_deref().unwrap_or("somebody");
            match request.kind {
                RequestKind::Rollback => format!(" rollback requested by {by} "),
                _ => format!(" requested by {by} "),
            }
        }
    };
    let at = promotion.creation_timestamp();
    tag("span")
        .class("dim")
        .text(text)
        .child(at.as_ref().map(timestamp))
}

fn form(promotion: &Promotion, context: &DecisionContext<'_>, csrf: &str) -> Element {
    let spec = &promotion.spec;
    let revision = spec.shown_revision();
    let target = format!("{} {}", context.key.name, spec.environment);
    let status = promotion.status.as_ref();
    let change = status.and_then(|it| it.change.as_ref());
    let button = |class: &str, verb: &str, word: &str| {
        tag("button")
            .class(class)
            .with("name", "verb")
            .with("value", verb)
            .with("aria-label", format_args!("{word} {revision} for {target}"))
    };
    // The enter key presses the first button.
    let approve = button("main", "approve", "Approve");
    let approve = approve.text(format_args!("Approve {}", shortened(&revision)));
    // Why it cannot be approved is among the facts.
    let approve = change.is_some().then_some(approve);
    let reject = button("danger", "reject", "Reject");
    let consequence = "Ends the promotion, closes its pull request and rejects the revision";
    let back = context.back.map(|back| hidden_field("back", back));
    action_form(context.key, csrf)
        .class("approve")
        .child(back)
        .child(hidden_field("environment", &spec.environment))
        .child(hidden_field("revision", &spec.revision))
        .child(change.map(|change| hidden_field("change", &change.digest)))
        .child(note())
        .child(approve)
        .child(reject.with("title", consequence).text("Reject"))
}

/// A form that acts on a pipeline.
pub(super) fn action_form(key: &ObjectKey, csrf: &str) -> Element {
    tag("form")
        .with("method", "post")
        .link(&format!("{}/act", address(key)))
        .child(hidden_field("csrf", csrf))
}

/// The input for a note.
pub(super) fn note() -> Element {
    let input = tag("input")
        .with("name", "note")
        .with("maxlength", 1024)
        .with("autocomplete", "off")
        .with("placeholder", "Note (optional)")
        .with("aria-label", "Note (optional)");
    tag("span").class("note").child(input)
}

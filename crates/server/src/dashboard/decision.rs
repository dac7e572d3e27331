//! The card on which a person decides about a promotion: what it replaces, who asked for it, and the
//! buttons for viewers who may decide.

mod facts;

use api::{Pipeline, Promotion, pipeline::RequestKind};
use kube::ResourceExt;
use planner::{ApprovalState, NotCounted, PromotionDiff};
use runtime::ObjectKey;

use super::{
    components::{address, hidden_field, screen_reader_text, sentence, timestamp},
    html::{Element, Html, tag},
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
    /// The approvals so far.
    pub(super) approvals: Option<ApprovalState>,
    pub(super) now: planner::Timestamp,
    /// What rejecting it means for its revision.
    pub(super) rejection: Option<String>,
    /// The name of the viewer.
    pub(super) viewer: &'a str,
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

/// The id of the card of a promotion, which the command palette leads to.
pub(super) fn decision_id(promotion: &Promotion) -> String {
    format!("decision-{}", promotion.uid().unwrap_or_default())
}

/// From and to, who asked, and the form to decide.
pub(super) fn decision(promotion: &Promotion, context: &DecisionContext<'_>) -> Element {
    let form = match context.csrf {
        Some(csrf) => form(promotion, context, csrf),
        None => tag("p").class("dim").text("You may not approve this."),
    };
    tag("div")
        .id(decision_id(promotion))
        .class("decision")
        .with("tabindex", "-1")
        .child(
            tag("p")
                .child(from_to(promotion))
                .child(asked_by(promotion)),
        )
        .child(caution(context))
        .child(facts::facts(promotion, context))
        .child(form)
}

/// What to know before approving: that the revision failed or was rejected.
fn caution(context: &DecisionContext<'_>) -> Option<Element> {
    let caution = context.diff.as_ref()?.caution.as_ref()?;
    let label = tag("strong").text("Caution: ");
    let text = sentence(&planner::shortened(caution));
    Some(tag("p").class("hold").child(label).child(text).text("."))
}

/// `6.1.0 → 6.2.0`, or only `6.2.0` where it is not known that something is replaced.
pub(super) fn from_to(promotion: &Promotion) -> Element {
    let spec = &promotion.spec;
    let replaced = spec.replaces.as_deref().map(|replaced| {
        let arrow = tag("span").with("aria-hidden", "true").text(" → ");
        Html::all([chip(replaced), arrow, screen_reader_text(" to ")])
    });
    tag("span")
        .class("from-to")
        .children(replaced)
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
    let uid = promotion.uid().unwrap_or_default();
    // The enter key presses the first button.
    let approve = button("main", "approve", "Approve").id(format_args!("approve-{uid}"));
    let approve = approve.text(format_args!("Approve {}", shortened(&revision)));
    let own = own_approval(context);
    // Why it cannot be approved is among the facts.
    let approve = (change.is_some() && own.is_none()).then_some(approve);
    let reject = button("danger", "reject", "Reject").text("Reject");
    let back = context.back.map(|back| hidden_field("back", back));
    // The script compares both, so that nobody decides about something else than what is shown.
    let digest = change.map(|it| it.digest.as_str()).unwrap_or_default();
    action_form(context.key, csrf)
        .class("approve")
        .with("data-decision", &uid)
        .with("data-change", digest)
        .child(back)
        .child(hidden_field("environment", &spec.environment))
        .child(hidden_field("revision", &spec.revision))
        .child(change.map(|change| hidden_field("change", &change.digest)))
        .child(note_with_id(&format!("note-{uid}")))
        .child(approve)
        .child(own)
        .child(rejection(promotion, context, reject))
}

/// What is said to a viewer whose approval counts already, instead of the button.
fn own_approval(context: &DecisionContext<'_>) -> Option<Element> {
    let state = context.approvals.as_ref()?;
    let is_own = |name: &String| name == context.viewer;
    let mut others = state.not_counted.iter();
    let is_recorded = others.any(|(name, why)| is_own(name) && *why == NotCounted::NotObserved);
    if !state.approved_by.iter().any(is_own) && !is_recorded {
        return None;
    }
    let text = format!("✓ You approved; {}.", still_needed(state));
    Some(tag("p").class("own").text(text))
}

/// How many approvals are missing, and from whom.
pub(super) fn still_needed(state: &ApprovalState) -> String {
    let from = state.from.as_ref().map(|from| format!(" from {from}"));
    let from = from.unwrap_or_default();
    match state.missing_once_recorded() {
        0 => "no more approvals are needed".to_owned(),
        1 => format!("one more approval{from} is needed"),
        more => format!("{more} more approvals{from} are needed"),
    }
}

/// The button that rejects, behind what it leads to.
fn rejection(promotion: &Promotion, context: &DecisionContext<'_>, button: Element) -> Element {
    let effect = context.rejection.iter();
    let effect = effect.map(|it| format!(": {}", planner::shortened(it)));
    let consequence = format!(
        "Ends the promotion and closes its pull request if it has one{}. The note above is stored as the \
         reason.",
        effect.collect::<String>()
    );
    tag("details")
        .id(format_args!(
            "reject-{}",
            promotion.uid().unwrap_or_default()
        ))
        .class("reject")
        .child(
            tag("summary")
                .class("button danger")
                .child(tag("span").class("when-closed").text("Reject…"))
                .child(tag("span").class("when-open").text("Cancel")),
        )
        .child(tag("p").class("dim").text(consequence))
        .child(button)
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
    noted(tag("input"))
}

/// An input for a note that keeps the focus when its form is replaced.
fn note_with_id(id: &str) -> Element {
    noted(tag("input").id(id))
}

fn noted(input: Element) -> Element {
    let input = input
        .with("name", "note")
        .with("maxlength", 1024)
        .with("autocomplete", "off")
        .with("placeholder", "Note (optional)")
        .with("aria-label", "Note (optional)");
    tag("span").class("note").child(input)
}

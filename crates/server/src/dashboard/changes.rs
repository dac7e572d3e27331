//! Files on their way into git: all of them, and one with what it holds.

use std::{cmp::Reverse, sync::Arc};

use api::{
    Change, Time,
    change::{ChangePhase, ChangeStatus},
};
use http::StatusCode;
use kube::ResourceExt;

use super::{
    html::{Element, Html, tag},
    page::{Part, Parts},
    sign_in::Viewer,
    words::{badge_saying, encoded, moment, outward},
};
use crate::{
    Door,
    rest::{
        Problem,
        access::{CHANGES, Wish},
        changes::stored,
    },
    watched::ObjectKey,
};
use planner::SummaryState;

/// Where a change is shown.
pub(super) fn address(key: &ObjectKey) -> String {
    let (namespace, name) = (encoded(&key.namespace), encoded(&key.name));
    format!("/changes/{namespace}/{name}")
}

pub(super) async fn parts(door: &Arc<Door>, viewer: &Viewer) -> Result<Parts, Problem> {
    let all = door.watched.changes_to_git();
    let namespace_of = |it: &Arc<Change>| it.namespace().unwrap_or_default();
    let mut changes = viewer.caller.visible(CHANGES, all, namespace_of).await?;
    changes.sort_by_key(|it| (Reverse(it.creation_timestamp()), it.name_any()));
    let mut parts = Parts::default();
    let said = match changes.len() {
        0 => "Nothing was proposed lately.".to_owned(),
        1 => "1 proposal".to_owned(),
        count => format!("{count} proposals"),
    };
    parts.push("count", tag("p").id("count").class("dim").text(said));
    parts.rows = changes.iter().map(|change| row(change)).collect();
    Ok(parts)
}

fn row(change: &Change) -> (Arc<str>, Arc<Part>) {
    let key = ObjectKey::of(change);
    let id = format!("change-{}", change.uid().unwrap_or_default());
    let status = change.status.clone().unwrap_or_default();
    let html = tag("tr")
        .id(&id)
        .child(
            tag("th")
                .with("scope", "row")
                .child(tag("a").link(&address(&key)).text(&change.spec.title))
                .child(tag("small").text(format_args!("{}: {}", key.namespace, change.spec.path))),
        )
        .child(tag("td").child(state(&status)))
        .child(tag("td").child(status.url.as_deref().map(pull_request)))
        .child(tag("td").child(asked(change)));
    (id.into(), Arc::new(Part::from(Html::from(html))))
}

/// The page around the rows.
pub(super) fn frame(parts: &Parts) -> Html {
    let heads = ["File", "State", "Where", "Asked for"];
    let heads = heads.map(|head| tag("th").with("scope", "col").text(head));
    let table = tag("table")
        .child(tag("caption").class("vh").text("Proposals"))
        .child(tag("thead").child(tag("tr").children(heads)))
        .child(tag("tbody").id("rows").child(parts.all_rows()));
    Html::all([
        Html::from(tag("h1").text("Proposals")),
        parts.html("count"),
        table.into(),
    ])
}

pub(super) async fn parts_of_one(
    door: &Arc<Door>,
    viewer: &Viewer,
    key: &ObjectKey,
) -> Result<Parts, Problem> {
    let wish = Wish::new("get", key).of(CHANGES);
    if !viewer.caller.may_see(&wish).await? {
        let detail = format!("{} may not see {key}", viewer.caller.name());
        return Err(Problem::new(StatusCode::FORBIDDEN, detail));
    }
    let change = stored(door, key).await?;
    let mut parts = Parts::default();
    parts.push("state", card(&change));
    let file = tag("pre")
        .id("file")
        .with("tabindex", 0)
        .with("role", "region")
        .with("aria-label", "The file")
        .child(tag("code").text(&change.spec.content));
    parts.push("file", file);
    parts.push("title", tag("h1").id("title").text(&change.spec.title));
    Ok(parts)
}

fn card(change: &Change) -> Element {
    let status = change.status.clone().unwrap_or_default();
    let message = match status.phase {
        None => "the controller will propose it in a moment",
        Some(_) => status.message.as_deref().unwrap_or_default(),
    };
    let again = status.next_attempt.as_ref().map(|at| {
        tag("p")
            .class("dim")
            .text("It is tried again ")
            .child(moment(at))
            .text(".")
    });
    let merged = (status.phase == Some(ChangePhase::Merged)).then(|| {
        tag("p")
            .text("What it describes comes up once Flux has applied it. ")
            .child(tag("a").link("/pipelines").text("All pipelines"))
    });
    tag("div")
        .id("state")
        .class("proposal")
        .child(state(&status))
        .child(tag("p").text(message))
        .child(again)
        .child(status.url.as_deref().map(pull_request))
        .child(merged)
        .child(
            tag("p")
                .class("dim")
                .child(tag("code").text(&change.spec.path)),
        )
        .child(asked(change))
}

fn state(status: &ChangeStatus) -> Element {
    let (state, word) = match status.phase {
        None => (SummaryState::Unknown, "waits"),
        Some(ChangePhase::Pending) => (SummaryState::Held, "is tried again"),
        Some(ChangePhase::Proposed) => (SummaryState::AwaitingApproval, "proposed"),
        Some(ChangePhase::Merged) => (SummaryState::Ready, "merged"),
        Some(ChangePhase::Abandoned) => (SummaryState::Suspended, "abandoned"),
        Some(ChangePhase::Failed) => (SummaryState::Failed, "failed"),
    };
    badge_saying(state, word)
}

fn pull_request(url: &str) -> Element {
    tag("p").child(outward(url, "The pull request").class("pull-request"))
}

fn asked(change: &Change) -> Element {
    let by = change.spec.by.as_deref();
    let by = by.map(|by| format!("by {by} ")).unwrap_or_default();
    let at = change.creation_timestamp();
    tag("p")
        .class("dim")
        .text(format_args!("asked for {by}"))
        .child(at.as_ref().map(|at: &Time| moment(at)))
}

/// The page around one.
pub(super) fn frame_of_one(parts: &Parts) -> Html {
    let crumbs = tag("nav")
        .with("aria-label", "Breadcrumb")
        .class("crumbs")
        .child(tag("a").link("/pipelines").text("Pipelines"))
        .child(tag("span").with("aria-hidden", "true").text(" / "))
        .child(tag("a").link("/changes").text("Proposals"));
    Html::all([
        Html::from(crumbs),
        parts.html("title"),
        parts.html("state"),
        parts.html("file"),
    ])
}

//! The pages of files that are proposed in git: the list, and one file with its content.

use std::{cmp::Reverse, sync::Arc};

use api::{
    Change, Time,
    change::{ChangePhase, ChangeStatus},
};
use http::StatusCode;
use kube::ResourceExt;
use planner::SummaryState;
use runtime::ObjectKey;

use super::{
    components::{
        badge_with_text, counted, empty_state, external_link, percent_encoded, pull_request_label,
        table, timestamp,
    },
    html::{Element, Html, tag},
    page::{PagePart, PageParts},
    sign_in::Viewer,
    yaml::source,
};
use crate::{
    AppState,
    access::{AccessRequest, CHANGES},
    actions::stored_change,
    problem::Problem,
};

/// The address of a change.
pub(super) fn address(key: &ObjectKey) -> String {
    let (namespace, name) = (percent_encoded(&key.namespace), percent_encoded(&key.name));
    format!("/changes/{namespace}/{name}")
}

pub(super) async fn parts(
    app_state: &Arc<AppState>,
    viewer: &Viewer,
) -> Result<PageParts, Problem> {
    let all = app_state.objects.changes();
    let namespace_of = |it: &Arc<Change>| it.namespace().unwrap_or_default();
    let mut changes = viewer.caller.visible(CHANGES, all, namespace_of).await?;
    changes.sort_by_key(|it| (Reverse(it.creation_timestamp()), it.name_any()));
    let mut parts = PageParts::default();
    let count = tag("div").id("count").class("dim");
    let count = match changes.len() {
        0 => count.child(empty_state(
            "No proposals",
            "Files that are proposed in git with \u{201c}Create a pipeline\u{201d} appear here.",
        )),
        number => count.text(counted(number, "proposal")),
    };
    parts.push("count", count);
    parts.rows = changes.iter().map(|change| row(change)).collect();
    Ok(parts)
}

fn row(change: &Change) -> (Arc<str>, Arc<PagePart>) {
    let key = ObjectKey::of(&change.metadata);
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
        .child(tag("td").child(requested(change)));
    (id.into(), Arc::new(PagePart::from(Html::from(html))))
}

/// The page around the rows.
pub(super) fn frame(parts: &PageParts) -> Html {
    let heads = ["File", "State", "Pull request", "Requested"];
    let table = table("Proposals", &heads, parts.all_rows());
    Html::all([
        Html::from(tag("h1").text("Proposals")),
        parts.html("count"),
        table.into(),
    ])
}

pub(super) async fn parts_of_one(
    app_state: &Arc<AppState>,
    viewer: &Viewer,
    key: &ObjectKey,
) -> Result<PageParts, Problem> {
    let access_request = AccessRequest::new("get", key).of(CHANGES);
    if !viewer.caller.may_see(&access_request).await? {
        let detail = format!("{} may not see {key}", viewer.caller.name());
        return Err(Problem::new(StatusCode::FORBIDDEN, detail));
    }
    let change = stored_change(app_state, key).await?;
    let mut parts = PageParts::default();
    let pipeline = proposed_pipeline(&change.spec.content);
    let pipeline = pipeline.filter(|key| app_state.objects.cached_pipeline(key).is_some());
    parts.push("state", card(&change, pipeline.as_ref()));
    let file = source(&change.spec.content, "The file").id("file");
    parts.push("file", file);
    parts.push("title", tag("h1").id("title").text(&change.spec.title));
    Ok(parts)
}

/// The pipeline that a manifest of the create form is about.
fn proposed_pipeline(content: &str) -> Option<ObjectKey> {
    content.lines().find(|line| *line == "kind: Pipeline")?;
    let metadata = content.lines().skip_while(|line| *line != "metadata:");
    let fields: Vec<_> = metadata
        .skip(1)
        .map_while(|line| line.strip_prefix("  ")?.split_once(": "))
        .collect();
    let field = |name| Some(fields.iter().find(|(own, _)| *own == name)?.1);
    Some(ObjectKey::new(field("namespace")?, field("name")?))
}

/// How a proposal stands, with a link to its pipeline once that exists.
fn card(change: &Change, pipeline: Option<&ObjectKey>) -> Element {
    let status = change.status.clone().unwrap_or_default();
    let message = match status.phase {
        None => "the controller has not processed it yet",
        Some(_) => status.message.as_deref().unwrap_or_default(),
    };
    let retry = status.next_attempt.as_ref().map(|at| {
        tag("p")
            .class("dim")
            .text("Next attempt: ")
            .child(timestamp(at))
            .text(".")
    });
    let merged = (status.phase == Some(ChangePhase::Merged)).then(|| match pipeline {
        Some(key) => tag("p").text("The pipeline exists: ").child(
            tag("a")
                .link(&super::components::address(key))
                .text(format_args!("{}/{}", key.namespace, key.name)),
        ),
        None => tag("p")
            .text("The pipeline appears once Flux has applied it. ")
            .child(tag("a").link("/pipelines").text("All pipelines")),
    });
    tag("div")
        .id("state")
        .class("proposal")
        .child(state(&status))
        .child(tag("p").text(message))
        .child(retry)
        .child(status.url.as_deref().map(pull_request))
        .child(merged)
        .child(
            tag("p")
                .class("dim")
                .child(tag("code").text(&change.spec.path)),
        )
        .child(requested(change))
}

fn state(status: &ChangeStatus) -> Element {
    let (state, word) = match status.phase {
        None => (SummaryState::Unknown, "pending"),
        Some(ChangePhase::Pending) => (SummaryState::Held, "retrying"),
        Some(ChangePhase::Proposed) => (SummaryState::AwaitingApproval, "proposed"),
        Some(ChangePhase::Merged) => (SummaryState::Ready, "merged"),
        Some(ChangePhase::Abandoned) => (SummaryState::Suspended, "abandoned"),
        Some(ChangePhase::Failed) => (SummaryState::Failed, "failed"),
    };
    badge_with_text(state, word)
}

fn pull_request(url: &str) -> Element {
    tag("p").child(external_link(url, &pull_request_label(url)).class("pull-request"))
}

fn requested(change: &Change) -> Element {
    let by = change.spec.by.as_deref();
    let by = by.map(|by| format!("by {by} ")).unwrap_or_default();
    let at = change.creation_timestamp();
    tag("p")
        .class("dim")
        .text(format_args!("requested {by}"))
        .child(at.as_ref().map(|at: &Time| timestamp(at)))
}

/// The page around one change.
pub(super) fn frame_of_one(parts: &PageParts) -> Html {
    let breadcrumbs = tag("nav")
        .with("aria-label", "Breadcrumb")
        .class("breadcrumbs")
        .child(tag("a").link("/pipelines").text("Pipelines"))
        .child(tag("span").with("aria-hidden", "true").text(" / "))
        .child(tag("a").link("/changes").text("Proposals"));
    Html::all([
        Html::from(breadcrumbs),
        parts.html("title"),
        parts.html("state"),
        parts.html("file"),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proposed_pipeline_is_found_in_its_manifest() {
        let manifest = "apiVersion: v1\nkind: Pipeline\nmetadata:\n  name: cart\n  namespace: shop\nspec:\n  name: no\n";
        let found = proposed_pipeline(manifest).map(|key| key.to_string());
        assert_eq!(found.as_deref(), Some("shop/cart"));
        let other = manifest.replace("Pipeline", "ConfigMap");
        assert!(proposed_pipeline(&other).is_none());
    }
}

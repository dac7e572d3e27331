//! The objects of the hub on the objects page: the pipeline and its promotions into the environment, each with
//! its recent events.

use std::sync::Arc;

use api::{Pipeline, Promotion, promotion::Phase};
use kube::ResourceExt;
use planner::SummaryState;
use runtime::ObjectKey;

use super::super::{
    components::{address, external_link, pull_request_label, state_icon, timestamp},
    html::{Element, tag},
    sign_in::Viewer,
    version::chip,
};
use crate::{
    AppState,
    access::{AccessRequest, EVENTS},
    object_events::RecentEvent,
    problem::Problem,
    view,
};

/// How many promotions are shown, the newest.
const MAX_PROMOTIONS: usize = 3;
/// How many events of an object are shown, the newest.
const MAX_EVENTS: usize = 5;

/// What the viewer may know of the events.
enum VisibleEvents {
    Listed(Arc<Vec<RecentEvent>>),
    /// A sentence says why there are none.
    Hidden(String),
}

/// The pipeline and its promotions into an environment.
pub(super) async fn section(
    app_state: &Arc<AppState>,
    viewer: &Viewer,
    pipeline: &Pipeline,
    environment: &str,
) -> Result<Element, Problem> {
    let key = ObjectKey::of(&pipeline.metadata);
    let events = visible_events(app_state, viewer, &key).await?;
    let promotions = app_state.objects.promotions_of(&key).into_iter();
    let mut promotions: Vec<_> = promotions
        .filter(|it| it.spec.environment == environment)
        .collect();
    promotions.sort_by_key(|it| std::cmp::Reverse((it.creation_timestamp(), it.name_any())));
    promotions.truncate(MAX_PROMOTIONS);
    let below = promotions.iter().map(|it| promotion_item(it, &events));
    let below = (!promotions.is_empty()).then(|| tag("ul").class("tree").children(below));
    let root = tag("li")
        .child(pipeline_node(pipeline, environment, &events))
        .child(below);
    let hidden = match &events {
        VisibleEvents::Listed(_) => None,
        VisibleEvents::Hidden(because) => Some(tag("p").class("dim").text(because)),
    };
    Ok(tag("section")
        .class("card hub")
        .with("tabindex", 0)
        .with("aria-labelledby", "hub-title")
        .child(tag("h2").id("hub-title").text("Pipeline and promotions"))
        .child(hidden)
        .child(tag("ul").class("tree").child(root)))
}

async fn visible_events(
    app_state: &Arc<AppState>,
    viewer: &Viewer,
    key: &ObjectKey,
) -> Result<VisibleEvents, Problem> {
    let access_request = AccessRequest::list(EVENTS, Some(&key.namespace));
    if !viewer.caller.may_see(&access_request).await? {
        let text = format!("You may not list events in namespace {}.", key.namespace);
        return Ok(VisibleEvents::Hidden(text));
    }
    Ok(match app_state.object_events.around(key).await {
        Ok(events) => VisibleEvents::Listed(events),
        Err(because) => VisibleEvents::Hidden(format!("Events could not be read: {because}.")),
    })
}

fn pipeline_node(pipeline: &Pipeline, environment: &str, events: &VisibleEvents) -> Element {
    let model = pipeline.status.clone().unwrap_or_default();
    let state = planner::environment_state(pipeline, &model, environment);
    let name = pipeline.name_any();
    let link = tag("a").link(&address(&ObjectKey::of(&pipeline.metadata)));
    let title = tag("p")
        .class("node-name")
        .child(state_icon(state))
        .child(tag("span").class("dim").text("Pipeline"))
        .child(tag("b").child(link.text(&name)))
        .child(tag("span").class("badge").text(state.word()));
    let hold = view::status_of(pipeline, environment).and_then(|it| it.hold.as_ref());
    let hold = hold.map(|hold| tag("p").class("dim").text(&hold.message));
    tag("div")
        .class(format_args!("node {}", state.id()))
        .child(title)
        .child(hold)
        .child(event_list("Pipeline", &name, events))
}

fn promotion_item(promotion: &Promotion, events: &VisibleEvents) -> Element {
    let name = promotion.name_any();
    let status = promotion.status.as_ref();
    let phase = status.and_then(|it| it.phase);
    let state = state_of(phase);
    let word = match phase {
        Some(phase) => format!("{phase:?}"),
        None => "new".to_owned(),
    };
    let title = tag("p")
        .class("node-name")
        .child(state_icon(state))
        .child(tag("span").class("dim").text("Promotion"))
        .child(tag("b").text(&name))
        .child(chip(&promotion.spec.revision))
        .child(tag("span").class("badge").text(word));
    let message = status.and_then(|it| it.message.as_ref());
    let class = match state {
        SummaryState::Failed => "bad",
        _ => "dim",
    };
    let node = tag("div")
        .class(format_args!("node {}", state.id()))
        .child(title)
        .child(message.map(|message| tag("p").class(class).text(message)))
        .child(event_list("Promotion", &name, events));
    tag("li").child(node)
}

fn state_of(phase: Option<Phase>) -> SummaryState {
    match phase {
        Some(Phase::Succeeded) => SummaryState::Ready,
        Some(Phase::Failed | Phase::Abandoned) => SummaryState::Failed,
        Some(Phase::AwaitingApproval) => SummaryState::AwaitingApproval,
        Some(phase) if phase.is_terminal() => SummaryState::Unknown,
        _ => SummaryState::Promoting,
    }
}

/// The recent events about an object.
fn event_list(kind: &str, name: &str, events: &VisibleEvents) -> Option<Element> {
    let VisibleEvents::Listed(events) = events else {
        return None;
    };
    let own = events
        .iter()
        .filter(|it| it.kind == kind && it.name == name);
    let own: Vec<Element> = own.take(MAX_EVENTS).map(event).collect();
    let label = format!("Events of {kind} {name}");
    let list = tag("ul").class("events").with("aria-label", label);
    (!own.is_empty()).then(|| list.children(own))
}

fn event(event: &RecentEvent) -> Element {
    let class = match event.is_warning {
        true => "reason progress",
        false => "reason dim",
    };
    let times = (event.count > 1).then(|| format!(" ({} times)", event.count));
    // Events about a pull request end with its address.
    let (text, url) = match event.message.rsplit_once(' ') {
        Some((text, url)) if url.starts_with("http") => (text, Some(url)),
        _ => (event.message.as_str(), None),
    };
    let link = url.map(|url| {
        let link = external_link(url, &pull_request_label(url));
        tag("span").text(" ").child(link)
    });
    tag("li")
        .child(event.last_seen.as_ref().map(timestamp))
        .text(" ")
        .child(tag("span").class(class).text(&event.reason))
        .child(
            tag("p")
                .text(text)
                .child(link)
                .text(times.unwrap_or_default()),
        )
}

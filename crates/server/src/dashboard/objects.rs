//! The objects page of a target: the pipeline and its promotions with their events; source, app, inventory,
//! workloads and pods.

mod hub;

use std::sync::Arc;

use api::pipeline::TargetStatus;
use futures::future::join_all;
use planner::SummaryState;
use runtime::ObjectKey;
use serde::Deserialize;

use super::{
    components::{address, breadcrumbs, percent_encoded, screen_reader_text, state_icon},
    html::{Element, Html, tag},
    page::PageParts,
    pipeline::visible_pipeline,
    sign_in::Viewer,
    version::chip,
};
use crate::{
    AppState,
    leaf::tree::{Node, ObjectState},
    problem::Problem,
    target_objects::{TargetFilter, TargetObjects, cluster_of},
    view,
};

/// How many targets a page shows: each is read from its cluster.
const MAX_TARGETS: usize = 10;

/// The environment and targets to show.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObjectsQuery {
    #[serde(default)]
    environment: String,
    #[serde(flatten)]
    targets: TargetFilter,
}

/// The address of the objects page of a target.
pub(super) fn objects_address(key: &ObjectKey, environment: &str, target: &TargetStatus) -> String {
    let cluster = cluster_of(target).map(|it| it.name.as_str());
    format!(
        "{}/objects?environment={}&cluster={}&targetNamespace={}",
        address(key),
        percent_encoded(environment),
        percent_encoded(cluster.unwrap_or_default()),
        percent_encoded(target.namespace.as_deref().unwrap_or_default()),
    )
}

pub(super) async fn parts(
    app_state: &Arc<AppState>,
    viewer: &Viewer,
    key: &ObjectKey,
    query: &ObjectsQuery,
) -> Result<PageParts, Problem> {
    let pipeline = visible_pipeline(app_state, viewer, key).await?;
    let mut environments = pipeline.spec.environments.iter();
    if query.environment.is_empty() {
        let what = "a page of objects without ?environment=NAME";
        return Err(Problem::not_found(what));
    }
    if !environments.any(|it| it.name == query.environment) {
        let what = format!("the environment {} of {key}", query.environment);
        return Err(Problem::not_found(&what));
    }
    let status = view::status_of(&pipeline, &query.environment);
    let targets = status.map(|it| it.targets.as_slice()).unwrap_or_default();
    let targets = targets.iter();
    let targets = targets.filter(|target| query.targets.matches(target));
    let targets = targets.take(MAX_TARGETS);
    let reads = targets.map(|it| app_state.target_objects(&pipeline, it));
    let objects = join_all(reads).await;
    let mut parts = PageParts::default();
    let hub = hub::section(app_state, viewer, &pipeline, &query.environment).await?;
    parts.push("hub", tag("div").id("hub").child(hub));
    let content = match objects.is_empty() {
        true => Html::from(tag("p").text("This target does not exist.")),
        false => Html::all(objects.iter().enumerate().map(section)),
    };
    parts.push("objects", tag("div").id("objects").child(content));
    Ok(parts)
}

fn section((index, objects): (usize, &TargetObjects)) -> Element {
    let cluster = objects.cluster.as_deref().unwrap_or("this cluster");
    let title = format!("target-{index}");
    let inherited = Inherited {
        namespace: &objects.target_namespace,
        images: &[],
    };
    let problem = objects.problem.as_ref();
    let problem = problem.map(|because| {
        let text = format!("The objects of {cluster} could not be read: {because}");
        tag("p").class("notice bad").text(text)
    });
    tag("section")
        .class("card")
        .with("tabindex", 0)
        .with("aria-labelledby", &title)
        .child(
            tag("h2")
                .id(&title)
                .text(format_args!("{cluster} / {}", objects.target_namespace)),
        )
        .child(problem)
        .child(list(&objects.apps, &inherited))
}

fn list(nodes: &[Node], inherited: &Inherited<'_>) -> Option<Element> {
    let items = nodes.iter().map(|node| item(node, inherited));
    (!nodes.is_empty()).then(|| tag("ul").class("tree").children(items))
}

/// What a node above shows already.
struct Inherited<'a> {
    namespace: &'a str,
    images: &'a [String],
}

fn item(node: &Node, inherited: &Inherited<'_>) -> Element {
    let (state, _) = state_of(node);
    let class = match node.state {
        ObjectState::Failed | ObjectState::Missing => "bad",
        ObjectState::Ready | ObjectState::Unknown => "dim",
        // What is still being deployed is not an error.
        _ => "progress",
    };
    let images = node.images.iter();
    let images = images.filter(|_| node.images != inherited.images);
    let message = node.message.as_ref();
    let note = node.note.as_ref();
    let below = Inherited {
        images: &node.images,
        ..*inherited
    };
    let content = tag("div")
        .class(format_args!("node {}", state.id()))
        .child(name_line(node, inherited))
        .children(images.map(|image| tag("p").class("images").child(tag("code").text(image))))
        .child(message.map(|message| tag("p").class(class).text(message)))
        .child(note.map(|note| tag("p").class("dim").text(note)));
    tag("li").child(content).child(list(&node.below, &below))
}

/// Kind, name, revision and state of a node.
fn name_line(node: &Node, inherited: &Inherited<'_>) -> Element {
    let (state, word) = state_of(node);
    let is_elsewhere = !node.namespace.is_empty() && node.namespace != inherited.namespace;
    let name = match is_elsewhere {
        true => format!("{}/{}", node.namespace, node.name),
        false => node.name.clone(),
    };
    let is_quiet = [ObjectState::Ready, ObjectState::Unknown].contains(&node.state);
    let state_text = match is_quiet {
        true => screen_reader_text(&format!(" ({word})")),
        false => tag("span").class("badge").text(word),
    };
    let revision = node.revision.as_ref();
    tag("p")
        .class("node-name")
        .child(state_icon(state))
        .child(tag("span").class("dim").text(&node.kind))
        .child(tag("b").text(name))
        .child(revision.map(|revision| chip(revision)))
        .child(state_text)
}

fn state_of(node: &Node) -> (SummaryState, &'static str) {
    match node.state {
        ObjectState::Ready => (SummaryState::Ready, "ready"),
        ObjectState::NotReady => (SummaryState::NotReady, "not ready"),
        ObjectState::Failed => (SummaryState::Failed, "failed"),
        ObjectState::Suspended => (SummaryState::Suspended, "suspended"),
        ObjectState::Missing => (SummaryState::Unreadable, "missing"),
        ObjectState::Unknown => (SummaryState::Unknown, "not read"),
    }
}

/// The page around the parts.
pub(super) fn frame(key: &ObjectKey, query: &ObjectsQuery, parts: &PageParts) -> Html {
    let here = address(key);
    Html::all([
        Html::from(breadcrumbs(
            &[("Pipelines", "/pipelines"), (&key.name, &here)],
            "Objects",
        )),
        tag("h1")
            .text(format_args!(
                "Objects of {} in {}",
                key.name, query.environment
            ))
            .into(),
        parts.html("hub"),
        parts.html("objects"),
    ])
}

//! What is behind a target: the source, the app, what it holds, workloads and pods.

use std::sync::Arc;

use api::pipeline::TargetStatus;
use futures::future::join_all;
use serde::Deserialize;

use super::{
    html::{Element, Html, tag},
    page::Parts,
    pipeline::seen_by,
    sign_in::Viewer,
    words::{address, aside, crumbs, encoded, shape},
};
use crate::{
    Door,
    leaf::tree::{self, Node},
    objects::{Behind, Wanted, cluster_of},
    rest::Problem,
    view,
    watched::ObjectKey,
};
use planner::SummaryState;

/// How many targets a page shows at most: each is a look at a cluster.
const SHOWN: usize = 10;

/// Which targets are meant.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Asked {
    environment: String,
    #[serde(flatten)]
    wanted: Wanted,
}

/// Where the objects behind a target are shown.
pub(super) fn address_of(key: &ObjectKey, environment: &str, target: &TargetStatus) -> String {
    let cluster = cluster_of(target).map(|it| it.name.as_str());
    format!(
        "{}/objects?environment={}&cluster={}&targetNamespace={}",
        address(key),
        encoded(environment),
        encoded(cluster.unwrap_or_default()),
        encoded(target.namespace.as_deref().unwrap_or_default()),
    )
}

pub(super) async fn parts(
    door: &Arc<Door>,
    viewer: &Viewer,
    key: &ObjectKey,
    asked: &Asked,
) -> Result<Parts, Problem> {
    let pipeline = seen_by(door, viewer, key).await?;
    let status = view::status_of(&pipeline, &asked.environment);
    let targets = status.map(|it| it.targets.as_slice()).unwrap_or_default();
    let targets = targets.iter().filter(|target| asked.wanted.is(target));
    let looks = targets.take(SHOWN).map(|it| door.behind(&pipeline, it));
    let behind = join_all(looks).await;
    let mut parts = Parts::default();
    let content = match behind.is_empty() {
        true => Html::from(tag("p").text("There is no such target.")),
        false => Html::all(behind.iter().enumerate().map(section)),
    };
    parts.push("objects", tag("div").id("objects").child(content));
    Ok(parts)
}

fn section((index, behind): (usize, &Behind)) -> Element {
    let cluster = behind.cluster.as_deref().unwrap_or("this cluster");
    let title = format!("target-{index}");
    let around = Around {
        namespace: &behind.target_namespace,
        images: &[],
    };
    let problem = behind.problem.as_ref();
    let problem = problem.map(|because| tag("p").class("told bad").text(because));
    tag("section")
        .with("aria-labelledby", &title)
        .child(
            tag("h2")
                .id(&title)
                .text(format_args!("{cluster} / {}", behind.target_namespace)),
        )
        .child(problem)
        .child(list(&behind.apps, &around))
}

fn list(nodes: &[Node], around: &Around<'_>) -> Option<Element> {
    let items = nodes.iter().map(|node| item(node, around));
    (!nodes.is_empty()).then(|| tag("ul").class("tree").children(items))
}

/// What is said further up, and not again.
struct Around<'a> {
    namespace: &'a str,
    images: &'a [String],
}

fn item(node: &Node, around: &Around<'_>) -> Element {
    let (state, word) = state_of(node);
    let is_elsewhere = !node.namespace.is_empty() && node.namespace != around.namespace;
    let name = match is_elsewhere {
        true => format!("{}/{}", node.namespace, node.name),
        false => node.name.clone(),
    };
    let is_quiet = [tree::State::Ready, tree::State::Unknown].contains(&node.state);
    let (said, class) = match is_quiet {
        true => (aside(&format!(" ({word})")), "dim"),
        false => (tag("span").class("badge").text(word), "bad"),
    };
    let revision = node.revision.as_ref();
    let line = tag("p")
        .child(shape(state))
        .child(tag("span").class("dim").text(&node.kind))
        .child(tag("b").text(name))
        .child(revision.map(|revision| tag("code").text(revision)))
        .child(said);
    let images = node.images.iter().filter(|_| node.images != around.images);
    let message = node.message.as_ref();
    let note = node.note.as_ref();
    let below = Around {
        images: &node.images,
        ..*around
    };
    tag("li")
        .class(state.id())
        .child(line)
        .children(images.map(|image| tag("p").class("images").child(tag("code").text(image))))
        .child(message.map(|message| tag("p").class(class).text(message)))
        .child(note.map(|note| tag("p").class("note").text(note)))
        .child(list(&node.below, &below))
}

fn state_of(node: &Node) -> (SummaryState, &'static str) {
    match node.state {
        tree::State::Ready => (SummaryState::Ready, "ready"),
        tree::State::NotReady => (SummaryState::NotReady, "not ready"),
        tree::State::Failed => (SummaryState::Failed, "failed"),
        tree::State::Suspended => (SummaryState::Suspended, "suspended"),
        tree::State::Missing => (SummaryState::Unreadable, "missing"),
        tree::State::Unknown => (SummaryState::Unknown, "not read"),
    }
}

/// The page around the parts.
pub(super) fn frame(key: &ObjectKey, asked: &Asked, parts: &Parts) -> Html {
    let here = address(key);
    Html::all([
        Html::from(crumbs(
            &[("Pipelines", "/pipelines"), (&key.name, &here)],
            "Objects",
        )),
        tag("h1")
            .text(format_args!(
                "Objects of {} in {}",
                key.name, asked.environment
            ))
            .into(),
        parts.html("objects"),
    ])
}

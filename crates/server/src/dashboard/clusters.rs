//! The clusters that targets are on, and whether they can be reached.

use std::{collections::HashMap, sync::Arc};

use api::{GitopsCluster, cluster::CONNECTIVITY, conditions, pipeline::TargetStatus};
use kube::ResourceExt;

use super::{
    html::{Html, tag},
    page::{Part, Parts},
    sign_in::Viewer,
    words::{badge_saying, moment},
};
use crate::{
    Door,
    rest::{Problem, access::CLUSTERS},
    watched::ObjectKey,
};
use planner::SummaryState;

pub(super) async fn parts(door: &Arc<Door>, viewer: &Viewer) -> Result<Parts, Problem> {
    let all = door.watched.clusters();
    let namespace_of = |it: &Arc<GitopsCluster>| it.namespace().unwrap_or_default();
    let mut clusters = viewer.caller.visible(CLUSTERS, all, namespace_of).await?;
    clusters.sort_by_key(|it| (it.name_any(), it.namespace()));
    let targets = targets_by_cluster(door);
    let mut parts = Parts::default();
    let said = match clusters.len() {
        0 => "No GitopsCluster is known: every target is on the cluster Sluice runs in.".to_owned(),
        1 => "1 cluster".to_owned(),
        count => format!("{count} clusters"),
    };
    parts.push("count", tag("p").id("count").class("dim").text(said));
    parts.rows = clusters.iter().map(|it| row(it, &targets)).collect();
    Ok(parts)
}

/// How many targets are on each cluster, and how many of them are ready.
fn targets_by_cluster(door: &Door) -> HashMap<ObjectKey, (usize, usize)> {
    let mut counts: HashMap<ObjectKey, (usize, usize)> = HashMap::new();
    for pipeline in door.watched.pipelines() {
        let namespace = pipeline.namespace().unwrap_or_default();
        let environments = pipeline
            .status
            .iter()
            .flat_map(|it| it.environments.values());
        for target in environments.flat_map(|environment| &environment.targets) {
            if let Some(key) = cluster_of(target, &namespace) {
                let count = counts.entry(key).or_default();
                count.0 += 1;
                count.1 += usize::from(target.ready);
            }
        }
    }
    counts
}

fn cluster_of(target: &TargetStatus, namespace: &str) -> Option<ObjectKey> {
    let cluster = target.cluster_app_ref.as_ref()?.cluster_ref.as_ref()?;
    let own = cluster.namespace.as_deref().filter(|it| !it.is_empty());
    Some(ObjectKey::new(own.unwrap_or(namespace), &cluster.name))
}

fn row(
    cluster: &GitopsCluster,
    targets: &HashMap<ObjectKey, (usize, usize)>,
) -> (Arc<str>, Arc<Part>) {
    let key = ObjectKey::of(cluster);
    let status = cluster.status.as_ref();
    let said = status
        .map(|it| it.conditions.as_slice())
        .unwrap_or_default();
    let condition =
        conditions::find(said, CONNECTIVITY).or_else(|| conditions::find(said, conditions::READY));
    let (state, word) = match condition.map(|it| it.status.as_str()) {
        Some("True") => (SummaryState::Ready, "reachable"),
        Some("False") => (SummaryState::Unreadable, "unreachable"),
        _ => (SummaryState::Unknown, "not tried yet"),
    };
    let (count, ready) = targets.get(&key).copied().unwrap_or_default();
    let since = condition.map(|it| moment(&it.last_transition_time));
    let message = condition.map(|it| it.message.clone()).unwrap_or_default();
    let id = format!("cluster-{}", cluster.uid().unwrap_or_default());
    let html = tag("tr")
        .id(&id)
        .child(
            tag("th")
                .with("scope", "row")
                .child(tag("span").text(&key.name))
                .child(tag("small").text(&key.namespace)),
        )
        .child(tag("td").child(badge_saying(state, word)))
        .child(tag("td").child(since))
        .child(tag("td").text(format_args!("{ready} of {count} ready")))
        .child(tag("td").text(message));
    (id.into(), Arc::new(Part::from(Html::from(html))))
}

/// The page around the rows.
pub(super) fn frame(parts: &Parts) -> Html {
    let heads = ["Cluster", "Connection", "Since", "Targets", "Says"];
    let heads = heads.map(|head| tag("th").with("scope", "col").text(head));
    let table = tag("table")
        .child(tag("caption").class("vh").text("Clusters"))
        .child(tag("thead").child(tag("tr").children(heads)))
        .child(tag("tbody").id("rows").child(parts.all_rows()));
    Html::all([
        Html::from(tag("h1").text("Clusters")),
        parts.html("count"),
        table.into(),
    ])
}

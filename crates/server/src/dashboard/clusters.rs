//! The clusters page: each GitopsCluster, its connectivity and its targets.

use std::sync::Arc;

use api::{GitopsCluster, cluster::CONNECTIVITY, conditions};
use kube::ResourceExt;
use planner::SummaryState;
use runtime::ObjectKey;

use super::{
    components::{badge_with_text, timestamp},
    html::{Html, tag},
    page::{PagePart, PageParts},
    sign_in::Viewer,
};
use crate::{AppState, access::CLUSTERS, cached_objects::TargetCounts, problem::Problem};

pub(super) async fn parts(
    app_state: &Arc<AppState>,
    viewer: &Viewer,
) -> Result<PageParts, Problem> {
    let all = app_state.objects.clusters();
    let namespace_of = |it: &Arc<GitopsCluster>| it.namespace().unwrap_or_default();
    let mut clusters = viewer.caller.visible(CLUSTERS, all, namespace_of).await?;
    clusters.sort_by_key(|it| (it.name_any(), it.namespace()));
    let targets = app_state.objects.target_counts();
    let mut parts = PageParts::default();
    let count = match clusters.len() {
        0 => "No GitopsClusters: all targets are on the cluster that Sluice runs in.".to_owned(),
        1 => "1 cluster".to_owned(),
        count => format!("{count} clusters"),
    };
    parts.push("count", tag("p").id("count").class("dim").text(count));
    parts.rows = clusters.iter().map(|it| row(it, &targets)).collect();
    Ok(parts)
}

fn row(cluster: &GitopsCluster, targets: &TargetCounts) -> (Arc<str>, Arc<PagePart>) {
    let key = ObjectKey::of(&cluster.metadata);
    let status = cluster.status.as_ref();
    let all_conditions = status
        .map(|it| it.conditions.as_slice())
        .unwrap_or_default();
    let condition = conditions::find(all_conditions, CONNECTIVITY)
        .or_else(|| conditions::find(all_conditions, conditions::READY));
    let (state, word) = match condition.map(|it| it.status.as_str()) {
        Some("True") => (SummaryState::Ready, "reachable"),
        Some("False") => (SummaryState::Unreadable, "unreachable"),
        _ => (SummaryState::Unknown, "not probed yet"),
    };
    let (count, ready) = targets.get(&key).copied().unwrap_or_default();
    let since = condition.map(|it| timestamp(&it.last_transition_time));
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
        .child(tag("td").child(badge_with_text(state, word)))
        .child(tag("td").child(since))
        .child(tag("td").text(format_args!("{ready} of {count} ready")))
        .child(tag("td").text(message));
    (id.into(), Arc::new(PagePart::from(Html::from(html))))
}

/// The page around the rows.
pub(super) fn frame(parts: &PageParts) -> Html {
    let heads = ["Cluster", "Connection", "Since", "Targets", "Message"];
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

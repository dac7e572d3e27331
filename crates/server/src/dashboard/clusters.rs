//! The clusters page: each GitopsCluster, its connectivity and its targets.

use std::sync::Arc;

use api::{GitopsCluster, cluster::CONNECTIVITY, conditions};
use kube::ResourceExt;
use planner::SummaryState;
use runtime::ObjectKey;

use super::{
    components::{badge_with_text, counted, empty_state, percent_encoded, table, timestamp},
    html::{Element, Html, tag},
    page::{PagePart, PageParts},
    sign_in::Viewer,
};
use crate::{
    AppState,
    access::{AccessRequest, CLUSTERS},
    cached_objects::TargetCounts,
    problem::Problem,
};

/// The address of the apps on a cluster.
pub(super) fn apps_on(cluster: &str) -> String {
    format!("/apps?cluster={}", percent_encoded(cluster))
}

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
    let count = tag("div").id("count").class("dim");
    parts.push(
        "count",
        match clusters.len() {
            0 => count.child(none(app_state, viewer).await?),
            number => count.text(counted(number, "cluster")),
        },
    );
    parts.rows = clusters.iter().map(|it| row(it, &targets)).collect();
    Ok(parts)
}

/// What the page says where there is no cluster that the viewer may see.
async fn none(app_state: &Arc<AppState>, viewer: &Viewer) -> Result<Element, Problem> {
    let everywhere = AccessRequest::list(CLUSTERS, app_state.settings.namespace.as_deref());
    if viewer.caller.may_see(&everywhere).await? {
        return Ok(empty_state(
            "No GitopsClusters",
            "All targets are on the cluster that Sluice runs in. Register others as GitopsClusters with \
             a kubeconfig in a Secret.",
        ));
    }
    let text = format!(
        "{} needs a role with the verb list on gitopsclusters of the group gitops.weave.works, in one \
         namespace or in all.",
        viewer.caller.name()
    );
    Ok(empty_state("You may not list clusters", &text))
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
                .child(tag("a").link(&apps_on(&key.name)).text(&key.name))
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
    let table = table("Clusters", &heads, parts.all_rows());
    Html::all([
        Html::from(tag("h1").text("Clusters")),
        parts.html("count"),
        table.into(),
    ])
}

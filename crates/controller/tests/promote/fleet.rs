//! 200 clusters in one environment, matched by a selector: the status stays small.

use kube::api::ListParams;
use serde_json::json;

use crate::world::{World, manifest, spec, wait_for};

const EDGE: &str = "edge/app.yaml";

#[tokio::test]
async fn two_hundred_clusters_by_selector_in_one_environment() {
    let world = World::with(&[(EDGE, &manifest("1.0.0", "default:app:edge"))]).await;
    world.leaf("dev", "dev", "1.0.0").await;
    // Two servers stand for all of them: 197 follow, three do not.
    world.leaf("edge-000", "edge", "1.0.0").await;
    world.leaf("lame-000", "edge", "1.0.0").await;
    for number in 1..197 {
        world.alias(&format!("edge-{number:03}"), "edge-000").await;
    }
    for number in 1..3 {
        world.alias(&format!("lame-{number:03}"), "lame-000").await;
    }
    for cluster in ["edge-000", "lame-000"] {
        world.label(cluster).await;
    }
    let mut spec = spec(
        "dev=dev/dev > edge=x/edge > last=dev/dev",
        &world.promotion(),
    );
    let selector = json!({"matchLabels": {"tier": "edge"}});
    spec["environments"][1]["targets"] =
        json!([{"namespace": "edge", "clusterSelector": selector}]);
    world.pipeline("app", spec).await;
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("edge 1.1.0 WaitingForMerge").await;
    assert_eq!(world.repository.pull_requests().await.len(), 1);
    world.repository.merge(1).await.unwrap();
    world.sync(EDGE, "edge-000", "edge").await;
    world
        .expect_hold("app", "last", "SourceTargetsDiffer")
        .await;

    let pipeline = world.pipelines().get("app").await.unwrap();
    let status = pipeline.status.clone().unwrap();
    let edge = &status.environments["edge"];
    assert_eq!(edge.targets.len(), 200);
    let size = json!(status).to_string().len();
    let promotions = world
        .promotions()
        .list(&ListParams::default())
        .await
        .unwrap();
    let now = jiff::Timestamp::now();
    let plan = planner::plan(&pipeline, &status, &promotions.items, now);
    let text = planner::explain(&pipeline, &status, &plan);
    eprintln!("{size} bytes of status; {text}");
    assert!(size < 140_000, "{size} bytes of status");
    assert!(text.len() < 1000, "{text}");
    assert!(
        text.contains("edge: runs 1.0.0 on 3 and 1.1.0 on 197, ready"),
        "{text}"
    );
    let hold = status.environments["last"].hold.clone().unwrap();
    assert_eq!(
        hold.message,
        "edge targets run 1.0.0 and 1.1.0; resolved by one revision on all targets of edge"
    );

    // The rest follows, and one promotion was enough for all.
    world.sync(EDGE, "lame-000", "edge").await;
    let is_done = async || {
        let promotions = world.all_promotions().await;
        let edge = promotions.iter().filter(|it| it.spec.environment == "edge");
        let phases = edge.map(|it| it.status.clone().unwrap_or_default().phase);
        phases.collect::<Vec<_>>() == [Some(api::promotion::Phase::Succeeded)]
    };
    assert!(wait_for(is_done).await, "it does not get everywhere");
}

//! What another client writes between the server's read and its write is not lost.

use api::Promotion;
use http::Request;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::{
    loops::Strategy,
    world::{KEY, World, ask, event, sign, unlimited, whole_call},
};

const DEV: &str = "/promotion/default/app/dev";

/// A signed report from dev.
fn report(revision: &str, timestamp: &str) -> http::Result<Request<String>> {
    let mut event = event("app-dev", revision);
    event["timestamp"] = json!(timestamp);
    let body = event.to_string();
    let request = Request::post(DEV).header("X-Signature", sign(KEY, &body));
    request.body(body)
}

#[tokio::test(start_paused = true)]
async fn a_newer_report_that_another_replica_stores_meanwhile_is_kept() {
    let world = World::new().await;
    world.demand_signatures().await;
    let replica = world.replica();
    world.meanwhile("/pipelines/app/status", async move {
        let newer = report("5.1.0", "2026-02-08T13:00:00Z");
        assert!(ask(&replica, newer).await.code.is_success());
    });
    let older = report("5.0.0", "2026-02-08T12:00:00Z");
    assert!(ask(&world.hooks, older).await.code.is_success());
    assert!(world.has_happened());
    let reports = world.pipeline().await.status.unwrap().reports;
    let revisions: Vec<&str> = reports.values().map(|it| it.revision.as_str()).collect();
    assert_eq!(revisions, ["5.1.0"], "{reports:?}");
}

#[tokio::test(start_paused = true)]
async fn an_approval_that_somebody_gives_meanwhile_is_theirs() {
    let world = World::with(unlimited()).await;
    world.demand_signatures().await;
    let manual = json!({"spec": {"promotion": {"manual": true}}});
    world.edit(manual).await;
    world.promotes(Strategy::Opens);
    let deployed = report("5.0.0", "2026-02-08T12:00:00Z");
    assert!(ask(&world.hooks, deployed).await.code.is_success());
    let name = world.promotions().await[0].metadata.name.clone().unwrap();
    let promotions: Api<Promotion> = Api::namespaced(world.client.clone(), "default");
    world.meanwhile(&format!("/promotions/{name}"), async move {
        let approval = json!({"by": "alice", "note": "after the demo"});
        let patch = Patch::Merge(json!({"spec": {"approvals": [approval]}}));
        let given = promotions
            .patch(&name, &PatchParams::default(), &patch)
            .await;
        given.unwrap();
    });
    let ours = whole_call("/approval/default/app/prod/5.0.0", "", 0);
    let answer = ask(&world.hooks, Ok(ours)).await;
    assert!(world.has_happened());
    assert_eq!(answer.code, 201, "{}", answer.body);
    let approval = world.promotions().await[0].spec.approvals[0].clone();
    assert_eq!(
        (approval.by.as_str(), approval.note.as_deref()),
        ("alice", Some("after the demo"))
    );
}

//! What another client writes between the server's read and its write is not lost.

use api::Promotion;
use http::Request;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::{
    approval::attempt,
    loops::Strategy,
    rest::{grant, post},
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

/// The promotion of [`attempt`] gets another change after the server has read it.
fn another_change_meanwhile(world: &World) {
    let promotions: Api<Promotion> = Api::namespaced(world.client.clone(), "default");
    world.meanwhile("/promotions/attempt-0", async move {
        let change = json!({"digest": "sha256:2", "edits": []});
        let patch = Patch::Merge(json!({"status": {"change": change}}));
        let parameters = PatchParams::default();
        let edited = promotions.patch_status("attempt-0", &parameters, &patch);
        edited.await.unwrap();
    });
}

#[tokio::test(start_paused = true)]
async fn an_approval_of_a_change_that_is_edited_meanwhile_is_refused() {
    let world = World::with(unlimited()).await;
    world.demand_signatures().await;
    attempt(&world, 0).await;
    grant(&world, "ann", &["approve"], "pipelines").await;
    let why = "what 5.0.0 changes in prod is no longer what you have read, so your approval was not stored; \
               read it again, then approve it";
    another_change_meanwhile(&world);
    let path = "/api/v1/pipelines/default/app/environments/prod/approve";
    let by_rest = || post(&world, "ann", path, json!({"revision": "5.0.0"}));
    let refused = by_rest().await;
    assert!(world.has_happened());
    assert_eq!(refused.code, 409, "{}", refused.body);
    assert!(refused.body.contains(why), "{}", refused.body);
    assert_eq!(world.promotions().await[0].spec.approvals, []);
    assert_eq!(by_rest().await.code, 200, "having read it again");
    let digest = world.promotions().await[0].spec.approvals[0]
        .change_digest
        .clone();
    assert_eq!(digest.as_deref(), Some("sha256:2"));
}

#[tokio::test(start_paused = true)]
async fn a_signed_approval_of_a_change_that_is_edited_meanwhile_is_refused() {
    let world = World::with(unlimited()).await;
    world.demand_signatures().await;
    attempt(&world, 0).await;
    another_change_meanwhile(&world);
    let ours = whole_call("/approval/default/app/prod/5.0.0", "", -60);
    let refused = ask(&world.hooks, Ok(ours)).await;
    assert!(world.has_happened());
    assert_eq!(refused.code, 409, "{}", refused.body);
    assert!(refused.body.contains("read it again"), "{}", refused.body);
    assert_eq!(world.promotions().await[0].spec.approvals, []);
}

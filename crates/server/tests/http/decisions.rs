//! Approvals by several people, rejections, and requests to cancel and to retry, by REST.

use apiserver::User;
use serde_json::{Value, json};

use crate::{
    loops::Strategy,
    rest::{grant, post},
    world::{Answer, World, event},
};

const PROD: &str = "/api/v1/pipelines/default/app/environments/prod";

/// 5.0.0 waits to enter prod; ann, bob and cid may approve and promote, and bob is in the group sre.
async fn waiting(policy: Value) -> World {
    waiting_with(policy, Strategy::Opens).await
}

async fn waiting_with(policy: Value, strategy: Strategy) -> World {
    let world = World::new().await;
    world
        .edit(json!({"spec": {"promotion": {"approvalPolicy": policy}}}))
        .await;
    world.promotes(strategy);
    let body = event("app-dev", "5.0.0").to_string();
    let reported = world.post("/promotion/default/app/dev", &body).await;
    assert_eq!(reported.code, 204);
    for user in ["ann", "bob", "cid"] {
        grant(&world, user, &["approve", "promote"], "pipelines").await;
    }
    world.server.add_token("bob", User::new("bob", &["sre"]));
    world
}

async fn act(world: &World, user: &str, verb: &str, body: Value) -> Answer {
    post(world, user, &format!("{PROD}/{verb}"), body).await
}

#[tokio::test(start_paused = true)]
async fn several_people_approve_and_each_only_for_themselves() {
    let world = waiting(json!({"count": 2, "from": [{"group": "sre"}, {"user": "ann"}]})).await;
    let body = json!({"revision": "5.0.0", "note": "tested"});
    let refused = act(&world, "cid", "approve", body.clone()).await;
    assert_eq!(refused.code, 403, "{}", refused.body);
    assert!(refused.body.contains("do not count from cid"));
    for user in ["ann", "bob"] {
        let answer = act(&world, user, "approve", body.clone()).await;
        assert_eq!(answer.code, 200, "{}", answer.body);
    }
    let approvals = world.promotions().await[0].spec.approvals.clone();
    let given: Vec<_> = approvals
        .iter()
        .map(|it| (it.by.as_str(), it.group.as_deref()))
        .collect();
    assert_eq!(given, [("ann", None), ("bob", Some("sre"))]);
    world.settle().await;
    let late = act(&world, "ann", "approve", body).await;
    assert_eq!(late.code, 409, "it waits no more: {}", late.body);
    let told = "5.0.0 is approved for prod already, by ann and bob";
    assert!(late.body.contains(told), "{}", late.body);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_approved_while_what_it_changes_cannot_be_read() {
    let world = waiting_with(json!({"count": 1}), Strategy::Unreadable).await;
    let because = "cannot be approved for prod, because what it changes is not known: cannot fetch the \
                   repository; approve it again when that is resolved";
    let refused = act(&world, "ann", "approve", json!({"revision": "5.0.0"})).await;
    assert_eq!(refused.code, 409, "{}", refused.body);
    assert!(refused.body.contains(because), "{}", refused.body);
    let body = json!({"revision": "6.0.0", "unseen": true});
    let asked = act(&world, "ann", "promote", body).await;
    assert_eq!(asked.code, 202, "{}", asked.body);
    assert!(asked.body.contains(because), "{}", asked.body);
    for promotion in world.promotions().await {
        assert_eq!(promotion.spec.approvals, [], "{promotion:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_asks_does_not_approve_where_somebody_else_must() {
    let world = waiting(json!({"count": 1, "notRequester": true})).await;
    let body = json!({"revision": "6.0.0", "unseen": true});
    let asked = act(&world, "ann", "promote", body).await;
    assert_eq!(asked.code, 202, "{}", asked.body);
    world.settle().await;
    let promotions = world.promotions().await;
    let own = promotions
        .iter()
        .find(|it| it.spec.request.is_some())
        .unwrap();
    assert!(own.spec.approvals.is_empty(), "the request is no approval");
    let body = json!({"revision": "6.0.0"});
    let refused = act(&world, "ann", "approve", body.clone()).await;
    assert_eq!(refused.code, 403, "{}", refused.body);
    assert!(refused.body.contains("ann requested this promotion"));
    assert_eq!(act(&world, "bob", "approve", body).await.code, 200);
}

#[tokio::test(start_paused = true)]
async fn what_was_not_read_is_not_approved() {
    let world = waiting(json!({"count": 1})).await;
    let body = json!({"revision": "5.0.0", "changeDigest": "sha256:other"});
    let refused = act(&world, "ann", "approve", body).await;
    assert_eq!(refused.code, 409, "{}", refused.body);
    assert!(refused.body.contains("is not what you have read"));
    assert!(world.promotions().await[0].spec.approvals.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_rejection_ends_the_promotion() {
    let world = waiting(json!({"count": 1})).await;
    grant(&world, "eve", &["promote", "get"], "pipelines").await;
    assert_eq!(act(&world, "eve", "reject", json!({})).await.code, 403);
    let body = json!({"note": "it loses orders"});
    let answer = act(&world, "ann", "reject", body.clone()).await;
    assert_eq!(answer.code, 200, "{}", answer.body);
    let rejection = world.promotions().await[0].spec.rejection.clone().unwrap();
    assert_eq!(
        (rejection.by.as_str(), rejection.note.as_deref()),
        ("ann", Some("it loses orders"))
    );
    world.settle().await;
    let status = world.promotions().await[0].status.clone().unwrap();
    assert_eq!(status.reason.as_deref(), Some("Rejected"));
    let rejected = world.pipeline().await.status.unwrap().environments["prod"]
        .rejected
        .clone();
    assert_eq!(rejected, ["5.0.0"]);
    assert_eq!(
        act(&world, "ann", "reject", body).await.code,
        409,
        "it has ended"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_under_way_can_be_cancelled_and_only_what_failed_is_retried() {
    let world = waiting(json!({"count": 1})).await;
    let answer = act(&world, "ann", "cancel", json!({"note": "not today"})).await;
    assert_eq!(answer.code, 202, "{}", answer.body);
    assert!(answer.body.contains("cancelled 5.0.0"), "{}", answer.body);
    let withdrawn = world.promotions().await[0].spec.withdrawn.clone().unwrap();
    assert_eq!(withdrawn.reason, "Cancelled by ann: not today");
    world.settle().await;
    for (verb, text) in [("cancel", "no request waits"), ("retry", "has failed")] {
        let refused = act(&world, "ann", verb, json!({})).await;
        assert_eq!(refused.code, 422, "{}", refused.body);
        assert!(refused.body.contains(text), "{}", refused.body);
    }
}

//! What failed and is requested all the same: REST and dashboard say so to the people who approve it, and show no
//! gate as passed that is skipped.

use serde_json::{Value, json};

use crate::{
    loops::Strategy,
    rest::{get, grant, post},
    session::{look, signed_in},
    world::{World, event},
};

const APP: &str = "/api/v1/pipelines/default/app";
const CAUTION: &str = "5.0.0 failed the check smoke in dev; ann's request skips that";

/// 5.0.0 failed its check in dev, and ann requests it in prod, which needs the approvals of two others.
async fn requested() -> World {
    let world = World::new().await;
    let policy = json!({"count": 2, "notRequester": true});
    let mut environments = crate::world::pipeline()["spec"]["environments"].clone();
    environments[0]["verify"] = json!({"checks": ["smoke"]});
    let checks = json!([{"name": "smoke", "external": {}}]);
    let spec = json!({
        "promotion": {"approvalPolicy": policy}, "environments": environments, "checks": checks,
    });
    world.edit(json!({"spec": spec})).await;
    world.promotes(Strategy::Opens);
    for (environment, revision) in [("dev", "5.0.0"), ("prod", "4.0.0")] {
        let body = event(&format!("app-{environment}"), revision).to_string();
        let path = format!("/promotion/default/app/{environment}");
        assert!(world.post(&path, &body).await.code.is_success());
    }
    let ran = json!([{"revision": "5.0.0", "version": "5.0.0", "failedCheck": "smoke"}]);
    world
        .edit_status(json!({"environments": {"dev": {"ran": ran}}}))
        .await;
    for user in ["ann", "bob", "cid"] {
        grant(&world, user, &["approve", "promote", "get"], "pipelines").await;
    }
    let body = json!({"revision": "5.0.0"});
    let path = format!("{APP}/environments/prod/promote");
    let asked = post(&world, "ann", &path, body).await;
    assert_eq!(asked.code, 202, "{}", asked.body);
    world.settle().await;
    world
}

async fn read(world: &World, path: &str) -> Value {
    let answer = get(world, "bob", &format!("{APP}{path}")).await;
    assert_eq!(answer.code, 200, "{}", answer.body);
    serde_json::from_str(&answer.body).unwrap()
}

/// The gate about the checks of dev in the list of gates, and all its lines in the picture.
fn gate_of_checks(page: &str) -> Vec<String> {
    let items = page.split("<li ").skip(1);
    let items = items.filter(|it| it.contains("gate-verified"));
    let items = items.map(|it| it.split("</li>").next().unwrap().to_owned());
    items.collect()
}

#[tokio::test(start_paused = true)]
async fn a_failed_check_that_a_request_skips_is_told_by_rest() {
    let world = requested().await;
    let gates = read(&world, "/gates").await;
    let mut items = gates["items"].as_array().unwrap().iter();
    let of_prod = items.find(|it| it["environment"] == "prod").unwrap();
    let mut asked = of_prod["gates"].as_array().unwrap().iter();
    let verified = asked.find(|it| it["gate"] == "verified").unwrap();
    assert_eq!(verified["verdict"], "skipped");
    assert_eq!(verified["skippedBy"], "ann");
    assert_eq!(verified["reason"], "VerificationFailed");
    let diff = read(&world, "/environments/prod/diff").await;
    assert_eq!(diff["items"][0]["caution"], CAUTION, "{diff}");
    let pipeline = read(&world, "").await;
    let promotion = &pipeline["status"]["environments"]["prod"]["promotion"];
    assert_eq!(promotion["caution"], CAUTION, "{promotion}");
    let path = format!("{APP}/environments/prod/approve");
    let approved = post(&world, "bob", &path, json!({"revision": "5.0.0"})).await;
    assert_eq!(approved.code, 200, "{}", approved.body);
    let approved: Value = serde_json::from_str(&approved.body).unwrap();
    assert_eq!(approved["caution"], CAUTION);
}

#[tokio::test(start_paused = true)]
async fn a_failed_check_that_a_request_skips_is_not_green() {
    let world = requested().await;
    let cookie = signed_in(&world).await;
    let path = format!("{APP}/environments/prod/approve");
    for approver in ["", "bob", "cid"] {
        if !approver.is_empty() {
            let body = json!({"revision": "5.0.0"});
            let approved = post(&world, approver, &path, body).await;
            assert_eq!(approved.code, 200, "{}", approved.body);
            world.settle().await;
        }
        let page = look(&world, "/pipelines/default/app", &cookie).await.body;
        let shown = gate_of_checks(&page);
        assert_eq!(shown.len(), 2, "in the picture and in the list: {shown:?}");
        for gate in &shown {
            assert!(gate.contains("gate skipped gate-verified"), "{gate}");
            assert!(
                gate.contains("failed, skipped by ann&#39;s request"),
                "{gate}"
            );
        }
        assert!(shown[1].contains("5.0.0 failed the check smoke in dev"));
        let has_card = page.contains("Caution: ");
        assert_eq!(has_card, approver != "cid", "beside what is to be decided");
    }
    // Once the change is in git, no gate is asked any more.
    let status = json!({"phase": "Deploying", "mergedAt": api::Time(runtime::wall_clock::now())});
    let promotion = world.promotions().await.into_iter().next().unwrap();
    world.set_promotion_status(&promotion, status).await;
    let page = look(&world, "/pipelines/default/app", &cookie).await.body;
    let shown = gate_of_checks(&page);
    assert!(!shown.is_empty(), "it is on its way");
    assert!(
        shown
            .iter()
            .all(|it| it.contains("gate skipped gate-verified")),
        "{shown:?}"
    );
}

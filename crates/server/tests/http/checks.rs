//! Results of external checks: by signed call, by REST, and those that must be refused.

use api::{
    CheckRun, Pipeline,
    check_run::{CheckCause, CheckRunSpec},
    pipeline::Check,
};
use http::Request;
use kube::{
    Api, Resource,
    api::{DeleteParams, ListParams, PostParams},
};
use serde_json::json;

use crate::{
    rest::{grant, post},
    world::{Answer, World, ask, sign},
};

const PATH: &str = "/check/default/app/prod/ticket";
const REST: &str = "/api/v1/pipelines/default/app/environments/prod/checks/ticket/report";
const PASSED: &str = r#"{"revision": "5.0.0", "passed": true, "message": "done", "url": "https://tickets.example/1"}"#;
/// The key of the check.
const TICKET_KEY: &str = "ticket-key";

/// A pipeline with two external checks, each with a key, one of a leaf's reports, and a check run.
async fn checked() -> World {
    let world = World::new().await;
    for (name, key) in [
        ("ticket", TICKET_KEY),
        ("audit", "audit-key"),
        ("leaf", "leaf-key"),
    ] {
        world.create_key(name, key).await;
    }
    world
        .edit(json!({"spec": {
            "checks": [
                {"name": "ticket", "external": {"secretRef": {"name": "ticket"}}},
                {"name": "audit", "external": {"secretRef": {"name": "audit"}}},
                {"name": "open", "external": {}},
                {"name": "smoke", "http": {"url": "https://shop.example", "passExpr": "status == 200"}},
            ],
            "promotion": {"strategy": {"secretRef": {"name": "leaf"}}},
        }}))
        .await;
    create_run(&world, "ticket", 0).await;
    world
}

fn runs(world: &World) -> Api<CheckRun> {
    Api::namespaced(world.client.clone(), "default")
}

/// As the controller creates it.
async fn create_run(world: &World, check: &str, attempt: i64) -> String {
    create_run_because(world, check, attempt, CheckCause::Verify).await
}

async fn create_run_because(world: &World, check: &str, attempt: i64, cause: CheckCause) -> String {
    let pipeline = world.pipeline().await;
    let check: &Check = pipeline
        .spec
        .checks
        .iter()
        .find(|it| it.name == check)
        .unwrap();
    let spec = CheckRunSpec {
        pipeline: "app".to_owned(),
        environment: "prod".to_owned(),
        revision: "5.0.0".to_owned(),
        version: "5.0.0".to_owned(),
        check: check.clone(),
        attempt,
        cause,
        ..CheckRunSpec::default()
    };
    let name = api::names::check_run_name(&spec);
    let mut run = CheckRun::new(&name, spec);
    run.metadata.labels = Some([(api::names::PIPELINE_LABEL.to_owned(), "app".to_owned())].into());
    run.metadata.owner_references = Some(vec![Pipeline::owner_ref(&pipeline, &()).unwrap()]);
    runs(world)
        .create(&PostParams::default(), &run)
        .await
        .unwrap();
    name
}

/// A signed call, made some seconds ago.
fn signed(key: &str, path: &str, body: &str, seconds_ago: i64) -> Request<String> {
    signed_for(key, path, path, body, seconds_ago)
}

/// A call to one path with a signature for another.
fn signed_for(
    key: &str,
    signed: &str,
    path: &str,
    body: &str,
    seconds_ago: i64,
) -> Request<String> {
    let at = runtime::wall_clock::now().as_second() - seconds_ago;
    let signature = sign(key, &format!("{at}\nPOST\n{signed}\n{body}"));
    Request::post(path)
        .header("X-Signature", signature)
        .header("X-Signature-Timestamp", at.to_string())
        .body(body.to_owned())
        .unwrap()
}

async fn call(world: &World, request: Request<String>) -> Answer {
    ask(&world.hooks, Ok(request)).await
}

async fn results(world: &World) -> Vec<bool> {
    let all = runs(world).list(&ListParams::default()).await.unwrap();
    let results = all.items.into_iter().filter_map(|it| it.spec.result);
    results.map(|it| it.passed).collect()
}

#[tokio::test(start_paused = true)]
async fn a_signed_result_is_stored_once() {
    let world = checked().await;
    let answer = call(&world, signed(TICKET_KEY, PATH, PASSED, 0)).await;
    assert_eq!(answer.code, 204, "{}", answer.body);
    let stored = runs(&world)
        .list(&ListParams::default())
        .await
        .unwrap()
        .items;
    let result = stored[0].spec.result.clone().unwrap();
    assert!(result.passed && result.by.is_none() && result.at.is_some());
    assert_eq!(result.message.as_deref(), Some("done"));
    assert_eq!(result.signature.map(|it| it.len()), Some(64));
    let failed = PASSED.replace("true", "false");
    let again = call(&world, signed(TICKET_KEY, PATH, &failed, 0)).await;
    assert_eq!(again.code, 409);
    assert!(again.body.contains("stored already"), "{}", again.body);
    assert_eq!(results(&world).await, [true]);
}

#[tokio::test(start_paused = true)]
async fn a_forged_check_result_is_refused() {
    let world = checked().await;
    create_run(&world, "audit", 0).await;
    create_run(&world, "open", 0).await;
    let at = runtime::wall_clock::now().as_second().to_string();
    let unsigned = Request::post(PATH).body(PASSED.to_owned()).unwrap();
    let as_flux_signs = Request::post(PATH)
        .header("X-Signature", sign(TICKET_KEY, PASSED))
        .body(PASSED.to_owned())
        .unwrap();
    let wrong = Request::post(PATH)
        .header("X-Signature", format!("sha256={}", "0".repeat(64)))
        .header("X-Signature-Timestamp", at)
        .body(PASSED.to_owned())
        .unwrap();
    let open = "/check/default/app/prod/open";
    for (what, request) in [
        ("without a signature", unsigned),
        ("a signature of the body only", as_flux_signs),
        ("a wrong signature", wrong),
        ("another check's key", signed("audit-key", PATH, PASSED, 0)),
        ("a leaf's report key", signed("leaf-key", PATH, PASSED, 0)),
        (
            "a signature for another check",
            signed_for(TICKET_KEY, PATH, "/check/default/app/prod/audit", PASSED, 0),
        ),
        (
            "a signature for another environment",
            signed_for(TICKET_KEY, PATH, "/check/default/app/dev/ticket", PASSED, 0),
        ),
        ("an old signature", signed(TICKET_KEY, PATH, PASSED, 400)),
        (
            "a signature of the future",
            signed(TICKET_KEY, PATH, PASSED, -400),
        ),
        ("a check without a key", signed("leaf-key", open, PASSED, 0)),
        (
            "no such check",
            signed(TICKET_KEY, "/check/default/app/prod/other", PASSED, 0),
        ),
        (
            "a check that is measured",
            signed(TICKET_KEY, "/check/default/app/prod/smoke", PASSED, 0),
        ),
    ] {
        let answer = call(&world, request).await;
        assert_eq!(answer.code, 401, "{what}: {}", answer.body);
    }
    assert_eq!(results(&world).await, [false; 0]);
}

/// By the wall clock, which signatures and objects then share.
#[tokio::test]
async fn a_replayed_check_result_is_refused_by_the_next_attempt() {
    let world = checked().await;
    let first = signed(TICKET_KEY, PATH, PASSED, 0);
    let (parts, body) = first.into_parts();
    let again = || Request::from_parts(parts.clone(), body.clone());
    assert_eq!(call(&world, again()).await.code, 204);
    assert_eq!(call(&world, again()).await.code, 409);
    // Somebody retries the check: the controller deletes the first attempt.
    let all = runs(&world).list(&ListParams::default()).await.unwrap();
    let name = all.items[0].metadata.name.clone().unwrap();
    runs(&world)
        .delete(&name, &DeleteParams::default())
        .await
        .unwrap();
    assert_eq!(call(&world, again()).await.code, 404);
    create_run(&world, "ticket", 1).await;
    let replayed = call(&world, again()).await;
    assert_eq!(replayed.code, 401);
    assert!(replayed.body.contains("older than the check run"));
    assert_eq!(results(&world).await, [false; 0]);
}

/// One check of prod is asked before a revision enters and after it has arrived: two check runs.
#[tokio::test]
async fn a_check_before_and_after_the_way_in_needs_a_result_each() {
    let world = checked().await;
    create_run_because(&world, "ticket", 1, CheckCause::Promotion).await;
    // Signed when both are there, so that only the digest says that it was used.
    let at_once = |body: &str| signed(TICKET_KEY, PATH, body, -1);
    let (parts, body) = at_once(PASSED).into_parts();
    let again = || Request::from_parts(parts.clone(), body.clone());
    assert_eq!(call(&world, again()).await.code, 204);
    let replayed = call(&world, again()).await;
    assert_eq!(replayed.code, 409, "{}", replayed.body);
    assert_eq!(results(&world).await, [true]);
    let second = at_once(&PASSED.replace("done", "done again"));
    assert_eq!(call(&world, second).await.code, 204);
    assert_eq!(results(&world).await, [true, true]);
    let third = at_once(&PASSED.replace("done", "and again"));
    assert_eq!(call(&world, third).await.code, 409);
}

#[tokio::test(start_paused = true)]
async fn a_result_for_nothing_that_waits_is_not_found() {
    let world = checked().await;
    for (path, body) in [
        (PATH, PASSED.replace("5.0.0", "6.0.0")),
        ("/check/default/app/dev/ticket", PASSED.to_owned()),
        ("/check/default/other/prod/ticket", PASSED.to_owned()),
        ("/check/default/app/prod", PASSED.to_owned()),
        ("/check/default/app/prod/ticket/more", PASSED.to_owned()),
    ] {
        let answer = call(&world, signed(TICKET_KEY, path, &body, 0)).await;
        assert_eq!(answer.code, 404, "{path}: {}", answer.body);
    }
    for (body, code) in [
        ("", 400),
        ("{}", 400),
        (r#"{"revision": "5.0.0"}"#, 400),
        (r#"{"revision": "5.0.0", "passed": "yes"}"#, 400),
        (
            r#"{"revision": "5.0.0", "passed": true, "url": "javascript:alert(1)"}"#,
            422,
        ),
        (
            r#"{"revision": "5.0.0", "passed": true, "message": "a\u0007b"}"#,
            422,
        ),
    ] {
        let answer = call(&world, signed(TICKET_KEY, PATH, body, 0)).await;
        assert_eq!(answer.code.as_u16(), code, "{body}: {}", answer.body);
    }
    assert_eq!(results(&world).await, [false; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_person_with_the_verb_report_reports_by_rest() {
    let world = checked().await;
    grant(&world, "ann", &["report"], "pipelines").await;
    grant(&world, "bob", &["approve", "promote"], "pipelines").await;
    grant(&world, "cid", &["report"], "pipelines/dev").await;
    let body = json!({"passed": true, "message": "checked by hand"});
    for user in ["bob", "cid"] {
        let refused = post(&world, user, REST, body.clone()).await;
        assert_eq!(refused.code, 403, "{user}: {}", refused.body);
    }
    let other = post(
        &world,
        "ann",
        REST,
        json!({"passed": true, "revision": "6.0.0"}),
    )
    .await;
    assert_eq!(other.code, 404);
    let answer = post(&world, "ann", REST, body.clone()).await;
    assert_eq!(answer.code, 200, "{}", answer.body);
    let stored = runs(&world)
        .list(&ListParams::default())
        .await
        .unwrap()
        .items;
    let result = stored[0].spec.result.clone().unwrap();
    assert_eq!(result.by.as_deref(), Some("ann"));
    assert!(result.signature.is_none());
    let again = post(&world, "ann", REST, body).await;
    assert_eq!(again.code, 409);
}

#[tokio::test(start_paused = true)]
async fn two_results_at_the_same_time_store_one() {
    let world = checked().await;
    let other = world.client.clone();
    world.meanwhile("/checkruns/", async move {
        let api: Api<CheckRun> = Api::namespaced(other, "default");
        let all = api.list(&ListParams::default()).await.unwrap();
        let name = all.items[0].metadata.name.clone().unwrap();
        let patch = kube::api::Patch::Merge(json!({"spec": {"result": {"passed": false}}}));
        api.patch(&name, &kube::api::PatchParams::default(), &patch)
            .await
            .unwrap();
    });
    let answer = call(&world, signed(TICKET_KEY, PATH, PASSED, 0)).await;
    assert_eq!(answer.code, 409, "{}", answer.body);
    assert!(world.has_happened());
    assert_eq!(results(&world).await, [false]);
}

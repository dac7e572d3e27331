//! `/approval` as the ancestor's own tests have it, with the signatures it took and with ours.

use api::Promotion;
use apiserver::FaultRates;
use http::{Request, StatusCode};
use kube::{
    Api, ResourceExt,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use server::Settings;

use crate::{
    loops::{Strategy, URL},
    world::{Answer, KEY, World, ask, event, sign, unlimited, whole_call},
};

const PROD: &str = "/approval/default/app/prod/5.0.0";

/// A world in which 5.0.0 waits to enter prod.
async fn waiting(settings: Settings, strategy: Strategy) -> World {
    let world = World::with(settings).await;
    world.demand_signatures().await;
    world
        .edit(json!({"spec": {"promotion": {"manual": true}}}))
        .await;
    world.promotes(strategy);
    let body = event("app-dev", "5.0.0").to_string();
    let path = "/promotion/default/app/dev";
    assert_eq!(
        world.post_signed(path, &body, &sign(KEY, &body)).await.code,
        204
    );
    world
}

fn legacy() -> Settings {
    Settings {
        legacy_approval_signatures: true,
        ..unlimited()
    }
}

async fn approve(world: &World, path: &str) -> Answer {
    world.post_signed(path, "", &sign(KEY, "")).await
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_is_refused_as_by_the_ancestor() {
    let world = waiting(legacy(), Strategy::Opens).await;
    let not_found = "404 page not found\n";
    let failed = "failed approving promotion";
    for (name, path, code, text) in [
        ("7.2 root", "/approval/", 404, not_found),
        ("7.2 short", "/approval/default/app/prod", 404, not_found),
        (
            "3 unknown pipeline",
            "/approval/default/other/prod/5.0.0",
            404,
            "",
        ),
        (
            "7.2 other revision",
            "/approval/default/app/prod/4.0.0",
            422,
            failed,
        ),
        (
            "7.2 nothing waits",
            "/approval/default/app/dev/5.0.0",
            422,
            failed,
        ),
        (
            "3 unknown environment",
            "/approval/default/app/x/5.0.0",
            422,
            failed,
        ),
    ] {
        let answer = approve(&world, path).await;
        assert_eq!(
            (answer.code.as_u16(), answer.body.as_str()),
            (code, text),
            "{name}"
        );
    }
    let get = ask(&world.hooks, Request::get(PROD).body(String::new())).await;
    assert_eq!(get.code, 405, "7.2 get");
    let wrong = world.post_signed(PROD, "", &sign("another", "")).await;
    assert_eq!(
        (wrong.code.as_u16(), wrong.body.as_str()),
        (401, ""),
        "7.2 wrong"
    );
    assert_eq!(world.post(PROD, "").await.code, 401, "7.2 unsigned");
    assert!(world.promotions().await[0].spec.approvals.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_approval_is_201_with_a_place_to_look_at_and_nothing_waits_any_more() {
    let world = waiting(legacy(), Strategy::Opens).await;
    // The ancestor ignores the body and its signature covers nothing.
    let answer = world.post_signed(PROD, "anything", &sign(KEY, "")).await;
    assert_eq!((answer.code.as_u16(), answer.body.as_str()), (201, ""));
    assert_eq!(answer.headers["location"], URL);
    world.settle().await;
    let status = world.pipeline().await.status.unwrap();
    let waiting = status.environments["prod"].waiting_approval.clone();
    assert_eq!(waiting.unwrap_or_default().revision, "");
    let approval = world.promotions().await[0].spec.approvals[0].clone();
    assert_eq!(approval.by, "secret:keys");
    assert!(approval.at.is_some());
    assert_eq!(approve(&world, PROD).await.code, 422, "it waits no more");
}

#[tokio::test(start_paused = true)]
async fn writes_that_conflict_are_no_error() {
    for seed in 0..8 {
        let world = waiting(legacy(), Strategy::Opens).await;
        world.server.inject_faults(FaultRates {
            seed,
            conflict: 0.15,
            ..FaultRates::default()
        });
        let answer = approve(&world, PROD).await;
        world.server.inject_faults(FaultRates::default());
        assert_eq!(answer.code, 201, "seed {seed}: {}", answer.body);
    }
}

#[tokio::test(start_paused = true)]
async fn a_strategy_that_fails_is_500() {
    let world = waiting(legacy(), Strategy::Fails).await;
    let answer = approve(&world, PROD).await;
    assert_eq!(answer.code, 500);
    assert!(answer.body.starts_with("error promoting application"));
}

#[tokio::test(start_paused = true)]
async fn the_signature_that_never_changes_is_refused_unless_it_is_asked_for() {
    let world = waiting(unlimited(), Strategy::Opens).await;
    assert_eq!(approve(&world, PROD).await.code, 401);
    let fresh = whole_call(PROD, "", -10);
    assert_eq!(ask(&world.hooks, Ok(fresh)).await.code, 201);
}

#[tokio::test(start_paused = true)]
async fn our_signature_covers_the_whole_call() {
    let world = waiting(unlimited(), Strategy::Opens).await;
    let send = async |request: Request<String>| ask(&world.hooks, Ok(request)).await.code;
    let refused = StatusCode::UNAUTHORIZED;
    assert_eq!(send(whole_call(PROD, "", 400)).await, refused, "too old");
    assert_eq!(send(whole_call(PROD, "", -400)).await, refused, "too early");
    let mut moved = whole_call("/approval/default/app/dev/5.0.0", "", 0);
    *moved.uri_mut() = PROD.parse().unwrap();
    assert_eq!(send(moved).await, refused, "another path");
    let mut later = whole_call(PROD, "", 10);
    let now = runtime::wall_clock::now().as_second().to_string();
    later
        .headers_mut()
        .insert("x-signature-timestamp", now.parse().unwrap());
    assert_eq!(send(later).await, refused, "another time");
    let mut said = whole_call(PROD, "one", 0);
    *said.body_mut() = "other".to_owned();
    assert_eq!(send(said).await, refused, "another body");
    assert!(world.promotions().await[0].spec.approvals.is_empty());
    assert_eq!(send(whole_call(PROD, "", -10)).await, StatusCode::CREATED);
}

#[tokio::test(start_paused = true)]
async fn without_a_key_nobody_approves() {
    for settings in [unlimited(), legacy()] {
        let world = World::with(settings).await;
        assert_eq!(approve(&world, PROD).await.code, 401);
        assert_eq!(
            ask(&world.hooks, Ok(whole_call(PROD, "", 0))).await.code,
            401
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_revision_with_slashes_can_be_approved() {
    for path in ["feature/x@sha1:abc", "feature%2Fx@sha1:abc"] {
        let world = World::with(legacy()).await;
        world.demand_signatures().await;
        let app = json!({"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization"});
        world
            .edit(json!({"spec": {"appRef": app, "promotion": {"manual": true}}}))
            .await;
        world.promotes(Strategy::Opens);
        let mut event = event("app-dev", "feature/x@sha1:abc");
        event["involvedObject"]["kind"] = json!("Kustomization");
        event["involvedObject"]["apiVersion"] = app["apiVersion"].clone();
        let body = event.to_string();
        let hook = "/promotion/default/app/dev";
        assert_eq!(
            world.post_signed(hook, &body, &sign(KEY, &body)).await.code,
            204
        );
        let path = format!("/approval/default/app/prod/{path}");
        assert_eq!(approve(&world, &path).await.code, 201, "{path}");
    }
}

/// An attempt to bring 5.0.0 into prod that waits for approval.
pub(crate) async fn attempt(world: &World, ordinal: i64) {
    let spec = json!({
        "pipeline": "app", "environment": "prod", "revision": "5.0.0", "version": "5.0.0",
        "ordinal": ordinal, "strategy": {"notification": {}}, "needsApproval": true,
    });
    let labels = json!({"pipelines.weave.works/pipeline": "app"});
    let promotion = json!({
        "apiVersion": "pipelines.weave.works/v1alpha1",
        "kind": "Promotion",
        "metadata": {"name": format!("attempt-{ordinal}"), "labels": labels},
        "spec": spec,
    });
    let api: Api<Promotion> = Api::namespaced(world.client.clone(), "default");
    let promotion = serde_json::from_value(promotion).unwrap();
    let created = api.create(&PostParams::default(), &promotion).await;
    let name = created.unwrap().name_any();
    let change = json!({"digest": "sha256:1", "edits": []});
    let patch = Patch::Merge(json!({"status": {"phase": "AwaitingApproval", "change": change}}));
    let parameters = PatchParams::default();
    let patched = api.patch_status(&name, &parameters, &patch).await;
    patched.unwrap();
}

async fn approved(world: &World) -> Vec<bool> {
    let promotions = world.promotions().await;
    let approved = promotions.iter().map(|it| !it.spec.approvals.is_empty());
    approved.collect()
}

#[tokio::test(start_paused = true)]
async fn what_is_not_known_is_not_approved() {
    let world = waiting(legacy(), Strategy::Unreadable).await;
    let refused = approve(&world, PROD).await;
    assert_eq!(refused.code, 422, "{}", refused.body);
    let text = "failed approving promotion: 5.0.0 cannot be approved for prod, because what it changes \
                is not known: cannot fetch the repository; approve it again when that is resolved";
    assert_eq!(refused.body, text);
    assert_eq!(approved(&world).await, [false]);
}

#[tokio::test(start_paused = true)]
async fn a_signature_approves_once() {
    let world = World::new().await;
    world.demand_signatures().await;
    attempt(&world, 0).await;
    // The caller's clock is ahead, so that its signature seems younger than the second attempt.
    let call = || whole_call(PROD, "", -60);
    let (call, again, upper) = (call(), call(), call());
    assert_eq!(ask(&world.hooks, Ok(call)).await.code, 202);
    assert_eq!(approved(&world).await, [true]);
    attempt(&world, 1).await;
    for (router, request) in [
        (world.replica(), again),
        (world.hooks.clone(), in_upper_case(upper)),
    ] {
        let answer = ask(&router, Ok(request)).await;
        assert_eq!(answer.code, 401);
        let text =
            "failed approving promotion: this signature was used before; sign the call again";
        assert_eq!(answer.body, text);
    }
    assert_eq!(approved(&world).await, [true, false]);
    let fresh = whole_call(PROD, "", -61);
    assert_eq!(ask(&world.hooks, Ok(fresh)).await.code, 202);
    assert_eq!(approved(&world).await, [true, true]);
}

/// The same signature, written in another way.
fn in_upper_case(mut call: Request<String>) -> Request<String> {
    let headers = call.headers_mut();
    let signature = headers["x-signature"].to_str().unwrap().to_uppercase();
    let signature = signature.replace("SHA256", "sha256").parse().unwrap();
    headers.insert("x-signature", signature);
    call
}

#[tokio::test(start_paused = true)]
async fn a_signature_that_is_older_than_the_promotion_does_not_approve_it() {
    let world = World::new().await;
    world.demand_signatures().await;
    attempt(&world, 0).await;
    let answer = ask(&world.hooks, Ok(whole_call(PROD, "", 30))).await;
    assert_eq!(answer.code, 401);
    let text = "failed approving promotion: the signature is older than the promotion";
    assert!(answer.body.starts_with(text), "{}", answer.body);
    assert_eq!(approved(&world).await, [false]);
}

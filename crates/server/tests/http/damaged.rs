//! Requests that are damaged at random, to the hooks of every sender and to REST: nothing panics, and nothing
//! that a client sends is the server's fault.

use axum::{Router, body::Body};
use http::{Request, StatusCode};
use serde_json::{Value, json};
use testbed::damage::{Damage, ShownOnPanic, seeds};
use tower::ServiceExt;

use crate::world::{KEY, World, event, sign, unlimited, whole_call};

/// Requests per case.
const REQUESTS: usize = 30;
/// The bearer token of somebody who may do everything.
const TOKEN: &str = "a-token-of-somebody";

/// Which signature a sender makes.
#[derive(Clone, Copy)]
enum Signature {
    None,
    /// Of the body, as Flux does.
    Body,
    /// Of time, method, path and body.
    WholeCall,
}

/// What senders of hooks send.
fn hooks() -> Vec<(&'static str, Value, Signature)> {
    let check = json!({"revision": "5.0.0", "passed": true, "message": "done", "url": "https://x.example/1"});
    vec![
        (
            "/promotion/default/app/dev",
            event("app-dev", "5.0.0"),
            Signature::Body,
        ),
        (
            "/promotion/default/app/dev",
            event("app-dev", "5.0.0"),
            Signature::None,
        ),
        (
            "/approval/default/app/prod/5.0.0",
            json!({}),
            Signature::WholeCall,
        ),
        (
            "/release/default/app",
            json!({"revision": "6.0.0"}),
            Signature::WholeCall,
        ),
        (
            "/check/default/app/prod/ticket",
            check,
            Signature::WholeCall,
        ),
        ("/inputs/default/app/prod", json!(null), Signature::None),
    ]
}

/// What people and programs send to REST.
fn rest() -> Vec<(&'static str, &'static str, Value)> {
    let pipeline = "/api/v1/pipelines/default/app";
    let freeze = json!({
        "pipeline": "app", "environments": ["prod"], "reason": "weekend", "until": "2999-12-01T00:00:00Z",
        "allow": ["Rollback"],
    });
    let change = json!({"title": "Add a", "path": "pipelines/a.yaml", "content": "kind: Pipeline"});
    let act = json!({
        "revision": "5.0.0", "note": "please", "target": "a/b", "changeDigest": "sha256:00", "unseen": true,
    });
    vec![
        ("POST", "/api/v1/freezes/default", freeze),
        ("POST", "/api/v1/changes/default", change),
        (
            "POST",
            "/api/v1/pipelines/default/app/environments/prod/promote",
            act.clone(),
        ),
        (
            "POST",
            "/api/v1/pipelines/default/app/environments/prod/approve",
            act.clone(),
        ),
        (
            "POST",
            "/api/v1/pipelines/default/app/environments/prod/reject",
            act.clone(),
        ),
        (
            "POST",
            "/api/v1/pipelines/default/app/environments/prod/rollback",
            act.clone(),
        ),
        (
            "POST",
            "/api/v1/pipelines/default/app/environments/prod/cancel",
            act,
        ),
        (
            "POST",
            "/api/v1/pipelines/default/app/environments/prod/checks/ticket/report",
            json!({"passed": true, "revision": "5.0.0", "message": "why", "url": "https://x.example"}),
        ),
        (
            "POST",
            "/api/v1/pipelines/default/app/suspend",
            json!({"reason": "x"}),
        ),
        ("POST", "/api/v1/pipelines/default/app/resume", json!({})),
        ("GET", pipeline, json!(null)),
        ("GET", "/api/v1/pipelines?limit=5&continue=x", json!(null)),
        (
            "GET",
            "/api/v1/images?scope=clusters&cluster=eu",
            json!(null),
        ),
        (
            "GET",
            "/api/v1/pipelines/default/app/forecast?until=2026-12-01T00:00:00Z",
            json!(null),
        ),
        (
            "GET",
            "/api/v1/pipelines/default/app/environments/prod/diff",
            json!(null),
        ),
        ("DELETE", "/api/v1/freezes/default/x", json!(null)),
    ]
}

/// The path, sometimes damaged in a way that a client library lets through.
fn damaged_path(damage: &mut Damage, path: &str) -> String {
    if !damage.once_in(4) {
        return path.to_owned();
    }
    let odd = [
        "%00",
        "%2e%2e",
        "%ff",
        "//",
        "%0a",
        "+",
        "?a=%",
        "%F0%9F%98%80",
        "&limit=-1",
    ];
    let at = 1 + damage.below(path.len() - 1);
    format!("{}{}{}", &path[..at], damage.pick(&odd), &path[at..])
}

fn hook_request(damage: &mut Damage) -> Option<Request<Body>> {
    let hooks = hooks();
    let (path, value, signature) = &hooks[damage.below(hooks.len())];
    let path = damaged_path(damage, path);
    let body = damage.json(value);
    let request = match signature {
        Signature::None => Request::post(&path).body(Body::from(body)).ok()?,
        // A signature is of text; other bytes are sent without one.
        _ if std::str::from_utf8(&body).is_err() => {
            Request::post(&path).body(Body::from(body)).ok()?
        }
        Signature::Body => {
            let text = String::from_utf8(body).ok()?;
            let request = Request::post(&path).header("X-Signature", sign(KEY, &text));
            request.body(Body::from(text)).ok()?
        }
        Signature::WholeCall => {
            path.parse::<http::Uri>().ok()?;
            let text = String::from_utf8(body).ok()?;
            whole_call(&path, &text, 0).map(Body::from)
        }
    };
    Some(request)
}

fn rest_request(damage: &mut Damage) -> Option<Request<Body>> {
    let rest = rest();
    let (method, path, value) = &rest[damage.below(rest.len())];
    let path = damaged_path(damage, path);
    let body = match value.is_null() {
        true => Vec::new(),
        false => damage.json(value),
    };
    let accept = damage.word();
    let mut request = Request::builder()
        .method(*method)
        .uri(&path)
        .header("Authorization", format!("Bearer {TOKEN}"))
        .header("Content-Type", "application/json");
    if let Ok(accept) = http::HeaderValue::from_bytes(accept.as_bytes()) {
        request = request
            .header("Accept", accept.clone())
            .header("If-None-Match", accept);
    }
    request.body(Body::from(body)).ok()
}

/// Sends a request; fails if the server is at fault.
async fn send(router: &Router, request: Request<Body>) -> StatusCode {
    let shown = format!("{} {}", request.method(), request.uri());
    let response = router.clone().oneshot(request).await.unwrap();
    let (parts, body) = response.into_parts();
    let body = axum::body::to_bytes(body, 1 << 24).await.unwrap();
    let text = String::from_utf8_lossy(&body);
    // Not configured here: proposing files needs a repository.
    let is_known = text.contains("not configured") || parts.status == StatusCode::NOT_IMPLEMENTED;
    let is_fault = parts.status.is_server_error() && !is_known;
    assert!(!is_fault, "{shown}: {} {text}", parts.status);
    assert!(!text.contains(KEY), "{shown}: {text}");
    parts.status
}

async fn world() -> World {
    let world = World::with(unlimited()).await;
    world.server.add_token(
        TOKEN,
        apiserver::User::new("somebody", &[apiserver::MASTERS]),
    );
    world.demand_signatures().await;
    let checks = json!([{"name": "ticket", "external": {"secretRef": {"name": "keys"}}}]);
    let source = json!({"kind": "Hook"});
    world
        .edit(json!({"spec": {"checks": checks, "source": source}}))
        .await;
    world
}

#[tokio::test(start_paused = true)]
async fn damaged_hooks_are_refused_or_stored() {
    let (world, mut stored) = (world().await, 0);
    for seed in seeds() {
        let _shown = ShownOnPanic(seed);
        let mut damage = Damage::new(seed);
        for _ in 0..REQUESTS {
            let Some(request) = hook_request(&mut damage) else {
                continue;
            };
            let status = send(&world.hooks, request).await;
            stored += usize::from(status.is_success());
        }
        // What was stored can be read.
        world.pipeline().await;
    }
    assert!(stored > 0, "some are intact");
}

#[tokio::test(start_paused = true)]
async fn damaged_requests_to_rest_are_refused_or_done() {
    let (world, mut done) = (world().await, 0);
    for seed in seeds() {
        let _shown = ShownOnPanic(seed);
        let mut damage = Damage::new(seed);
        for _ in 0..REQUESTS {
            let Some(request) = rest_request(&mut damage) else {
                continue;
            };
            let status = send(&world.rest, request).await;
            done += usize::from(status.is_success());
        }
        world.pipeline().await;
    }
    assert!(done > 0, "some are intact");
}

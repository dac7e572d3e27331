//! `/promotion` as the ancestor's own tests have it, and what is better now.

use http::{Method, Request, StatusCode};
use serde_json::{Value, json};

use crate::{
    loops::{Strategy, URL},
    world::{KEY, World, ask, event, sign, sign_224, unlimited},
};

const DEV: &str = "/promotion/default/app/dev";
const CANNOT: &str = "error promoting application, please consult the promotion server's logs";
const MISMATCH: &str = "involved object does not match Pipeline definition";

/// One case: its name, the call, and what is answered.
struct Case {
    name: &'static str,
    method: Method,
    path: &'static str,
    body: String,
    code: u16,
    text: &'static str,
}

fn case(
    name: &'static str,
    path: &'static str,
    body: String,
    code: u16,
    text: &'static str,
) -> Case {
    Case {
        name,
        method: Method::POST,
        path,
        body,
        code,
        text,
    }
}

/// An event of dev with one thing about its object changed.
fn other(field: &str, value: &str) -> String {
    let mut event = event("app-dev", "5.0.0");
    event["involvedObject"][field] = json!(value);
    event.to_string()
}

#[tokio::test(start_paused = true)]
async fn what_is_refused_is_refused_in_the_ancestors_words() {
    let good = || event("app-dev", "5.0.0").to_string();
    let mut without_metadata = event("app-dev", "5.0.0");
    without_metadata.as_object_mut().unwrap().remove("metadata");
    let mut number = event("app-dev", "5.0.0");
    number["metadata"]["count"] = json!(5);
    let no_revision = "event has no 'revision' in the metadata field.";
    let not_found = "404 page not found\n";
    let get = |path| Case {
        method: Method::GET,
        ..case("7.1 get", path, String::new(), 405, "")
    };
    let cases = [
        get(DEV),
        get("/promotion/"),
        case("7.1 root", "/", good(), 404, not_found),
        case(
            "7.1 short path",
            "/promotion/default/app",
            good(),
            404,
            not_found,
        ),
        case("7.1 no path", "/promotion/", good(), 404, not_found),
        case("7.1 empty body", DEV, String::new(), 400, ""),
        case("7.1 no JSON", DEV, "not JSON".to_owned(), 400, ""),
        case("2.3 wrong type", DEV, number.to_string(), 400, ""),
        case(
            "7.1 unknown pipeline",
            "/promotion/default/other/dev",
            good(),
            404,
            "",
        ),
        case("7.1 other name", DEV, other("name", "x"), 422, MISMATCH),
        case(
            "7.1 other namespace",
            DEV,
            other("namespace", "x"),
            422,
            MISMATCH,
        ),
        case(
            "7.1 other API",
            DEV,
            other("apiVersion", "foo/v1"),
            422,
            MISMATCH,
        ),
        case(
            "7.1 other kind",
            DEV,
            other("kind", "Kustomization"),
            422,
            MISMATCH,
        ),
        case(
            "7.1 last environment",
            "/promotion/default/app/no-targets",
            event("nowhere", "5.0.0").to_string(),
            422,
            "cannot promote beyond last environment no-targets",
        ),
        case(
            "7.1 no targets",
            "/promotion/default/app/prod",
            event("app-prod", "5.0.0").to_string(),
            422,
            "environment no-targets has no targets",
        ),
        case(
            "7.1 unknown environment",
            "/promotion/default/app/%3Ci%3E",
            good(),
            422,
            "app default/app has no environment &lt;i&gt; defined",
        ),
        case(
            "7.1 no metadata, looked at before the environment",
            "/promotion/default/app/unknown",
            without_metadata.to_string(),
            422,
            no_revision,
        ),
    ];
    let mut settings = unlimited();
    settings.legacy_hook_answers = true;
    let world = World::with(settings).await;
    for case in cases {
        let request = Request::builder().method(case.method).uri(case.path);
        let answer = ask(&world.hooks, request.body(case.body)).await;
        let found = (answer.code.as_u16(), answer.body.as_str());
        assert_eq!(found, (case.code, case.text), "{} {}", case.name, case.path);
        assert!(!answer.headers.contains_key("location"), "{}", case.name);
    }
    let reports = world.pipeline().await.status.unwrap().reports;
    let kept: Vec<_> = reports.keys().collect();
    assert_eq!(
        kept,
        ["prod/-/app-prod"],
        "only what is about the app is kept"
    );
}

/// What a pipeline is edited to, what the strategy does, and how the event is answered.
async fn promoted(edit: Value, strategy: Strategy) -> (World, StatusCode, String, Option<String>) {
    let world = World::new().await;
    world.edit(edit).await;
    world.promotes(strategy);
    let answer = world
        .post(DEV, &event("app-dev", "5.0.0").to_string())
        .await;
    let location = answer.headers.get("location");
    let location = location.map(|it| it.to_str().unwrap().to_owned());
    (world, answer.code, answer.body, location)
}

#[tokio::test(start_paused = true)]
async fn success_is_told_with_where_to_look() {
    let (world, code, body, location) = promoted(json!({}), Strategy::Opens).await;
    assert_eq!((code.as_u16(), body.as_str()), (201, ""));
    assert_eq!(location.as_deref(), Some(URL));
    let [promotion] = &world.promotions().await[..] else {
        panic!("one promotion");
    };
    let spec = &promotion.spec;
    assert_eq!(spec.pipeline, "app");
    assert_eq!(
        (spec.environment.as_str(), spec.revision.as_str()),
        ("prod", "5.0.0")
    );

    let again = world
        .post(DEV, &event("app-dev", "5.0.0").to_string())
        .await;
    assert_eq!(again.code, 201, "who asks again is told the same");
    assert_eq!(world.promotions().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn success_without_a_place_to_look_at_is_204() {
    let notification = json!({"spec": {"promotion": {"strategy": {
        "pull-request": null, "notification": {},
    }}}});
    let (_world, code, body, location) = promoted(notification, Strategy::Delivers).await;
    assert_eq!((code.as_u16(), body.as_str(), location), (204, "", None));
}

#[tokio::test(start_paused = true)]
async fn a_failing_strategy_is_500_and_the_report_is_kept() {
    let (world, code, body, _) = promoted(json!({}), Strategy::Fails).await;
    assert_eq!((code.as_u16(), body.as_str()), (500, CANNOT));
    assert_eq!(
        reported(&world, "dev/-/app-dev").await.as_deref(),
        Some("5.0.0")
    );
}

#[tokio::test(start_paused = true)]
async fn without_a_promotion_or_a_strategy_it_is_500_and_nothing_is_called() {
    for edit in [
        json!({"spec": {"promotion": null}}),
        json!({"spec": {"promotion": {"strategy": {"pull-request": null}}}}),
    ] {
        let (world, code, body, _) = promoted(edit, Strategy::Opens).await;
        assert_eq!((code.as_u16(), body.as_str()), (500, CANNOT));
        assert!(world.promotions().await.is_empty());
        assert!(reported(&world, "dev/-/app-dev").await.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_manual_promotion_is_204_and_waits() {
    let manual = json!({"spec": {"promotion": {"manual": true}}});
    let (world, code, _, location) = promoted(manual, Strategy::Opens).await;
    assert_eq!((code.as_u16(), location), (204, None));
    world.settle().await;
    let status = world.pipeline().await.status.unwrap();
    let waiting = status.environments["prod"].waiting_approval.clone();
    assert_eq!(waiting.unwrap().revision, "5.0.0");
    let [promotion] = &world.promotions().await[..] else {
        panic!("one promotion");
    };
    assert_eq!(
        promotion.status.as_ref().unwrap().attempts,
        0,
        "nothing was called"
    );
}

#[tokio::test(start_paused = true)]
async fn signatures_are_checked_over_the_raw_body() {
    let world = World::new().await;
    world.demand_signatures().await;
    world.promotes(Strategy::Opens);
    // Spaces that a parser would not see.
    let body = format!("  {}\n", event("app-dev", "5.0.0"));
    for (name, signature, code) in [
        ("7.1 wrong", sign("another key", &body), 401),
        ("7.1 wrong body", sign(KEY, body.trim()), 401),
        ("2.4 no hex", "sha256=x".to_owned(), 401),
        (
            "2.4 unknown algorithm",
            sign(KEY, &body).replace("256", "1"),
            401,
        ),
        ("7.1 valid", sign(KEY, &body), 201),
        ("2.4 valid sha224", sign_224(KEY, &body), 201),
    ] {
        let answer = world.post_signed(DEV, &body, &signature).await;
        assert_eq!(
            (answer.code.as_u16(), answer.body.as_str()),
            (code, ""),
            "{name}"
        );
    }
    assert_eq!(world.post(DEV, &body).await.code, 401, "2.4 no header");
    let report = &world.pipeline().await.status.unwrap().reports["dev/-/app-dev"];
    assert!(report.signed);
}

#[tokio::test(start_paused = true)]
async fn a_missing_or_empty_key_lets_nobody_in() {
    for key in [None, Some("")] {
        let world = World::new().await;
        let secret = json!({"strategy": {"secretRef": {"name": "keys"}}});
        world.edit(json!({"spec": {"promotion": secret}})).await;
        if let Some(key) = key {
            world.create_key("keys", key).await;
        }
        let body = event("app-dev", "5.0.0").to_string();
        assert_eq!(
            world.post_signed(DEV, &body, &sign("", &body)).await.code,
            401
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_of_one_environment_is_used_but_not_demanded() {
    let world = World::new().await;
    world.create_key("keys", KEY).await;
    let mut environments = crate::world::pipeline()["spec"]["environments"].clone();
    let mut own = crate::world::pipeline()["spec"]["promotion"].clone();
    own["strategy"]["secretRef"] = json!({"name": "keys"});
    environments[1]["promotion"] = own;
    world
        .edit(json!({"spec": {"promotion": null, "environments": environments}}))
        .await;
    let body = event("app-dev", "5.0.0").to_string();
    assert_eq!(world.post_signed(DEV, &body, "sha256=00").await.code, 401);
    let signed = async || world.pipeline().await.status.unwrap().reports["dev/-/app-dev"].signed;
    assert_eq!(world.post(DEV, &body).await.code, 202);
    assert!(!signed().await);
    assert_eq!(
        world.post_signed(DEV, &body, &sign(KEY, &body)).await.code,
        202
    );
    assert!(signed().await);
    let mut later = event("app-dev", "6.0.0");
    later["timestamp"] = json!("2026-02-08T13:00:00Z");
    assert_eq!(world.post(DEV, &later.to_string()).await.code, 202);
    let kept = reported(&world, "dev/-/app-dev").await;
    assert_eq!(
        kept.as_deref(),
        Some("5.0.0"),
        "unsigned words replace no signed ones"
    );
}

#[tokio::test(start_paused = true)]
async fn what_does_not_count_as_a_deployment_is_noted_and_nothing_more() {
    for (severity, reason) in [
        ("error", "UpgradeSucceeded"),
        ("info", "UpgradeFailed"),
        ("info", "Progressing"),
        ("info", "RollbackSucceeded"),
        ("info", "UninstallSucceeded"),
    ] {
        let world = World::new().await;
        world.promotes(Strategy::Opens);
        let mut event = event("app-dev", "5.0.0");
        event["severity"] = json!(severity);
        event["reason"] = json!(reason);
        let answer = world.post(DEV, &event.to_string()).await;
        assert_eq!(answer.code, 202, "{severity} {reason}");
        world.settle().await;
        assert!(world.promotions().await.is_empty(), "{severity} {reason}");
        assert!(reported(&world, "dev/-/app-dev").await.is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_held_promotion_is_202() {
    let world = World::new().await;
    world.edit(json!({"spec": {"suspend": true}})).await;
    world.promotes(Strategy::Opens);
    let answer = world
        .post(DEV, &event("app-dev", "5.0.0").to_string())
        .await;
    assert_eq!((answer.code.as_u16(), answer.body.as_str()), (202, ""));
}

#[tokio::test(start_paused = true)]
async fn without_a_controller_the_report_is_stored_and_answered_202() {
    let world = World::new().await;
    let started = tokio::time::Instant::now();
    let answer = world
        .post(DEV, &event("app-dev", "5.0.0").to_string())
        .await;
    assert_eq!(answer.code, 202);
    assert!(started.elapsed() >= world.settings.wait);
    assert_eq!(
        reported(&world, "dev/-/app-dev").await.as_deref(),
        Some("5.0.0")
    );
}

#[tokio::test(start_paused = true)]
async fn a_newer_version_of_the_apps_api_is_the_same_app() {
    let world = World::new().await;
    let body = other("apiVersion", "helm.toolkit.fluxcd.io/v2");
    assert_eq!(world.post(DEV, &body).await.code, 202);
}

#[tokio::test(start_paused = true)]
async fn an_oci_digest_is_no_part_of_the_revision() {
    let world = World::new().await;
    world.promotes(Strategy::Opens);
    let body = event("app-dev", "5.0.0+0123456789ab").to_string();
    assert_eq!(world.post(DEV, &body).await.code, 201);
}

#[tokio::test(start_paused = true)]
async fn extra_segments_are_ignored_and_healthz_answers() {
    let world = World::new().await;
    let path = format!("{DEV}/more/and/more");
    let body = event("app-dev", "5.0.0").to_string();
    assert_eq!(world.post(&path, &body).await.code, 202);
    assert_eq!(world.post("/healthz", "").await.code, 200);
}

pub(crate) async fn reported(world: &World, key: &str) -> Option<String> {
    let status = world.pipeline().await.status.unwrap_or_default();
    status
        .reports
        .get(key)
        .map(|report| report.revision.clone())
}

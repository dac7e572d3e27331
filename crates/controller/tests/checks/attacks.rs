//! What checks must not be used for.

use api::CheckRun;
use controller::Settings;
use kube::api::PostParams;
use net::HostPatterns;
use serde_json::{Value, json};

use crate::{
    endpoint::{Answer, Endpoint},
    stage::{Stage, http, loopback, prometheus, with},
    world::{apply, wait_for},
};

/// Measures one more check, so that everything before it was reconciled.
async fn settle(stage: &Stage) {
    let other = Endpoint::saying(200, "").await;
    let check = with(
        http(&other.url(), "status == 200"),
        json!({"name": "settle"}),
    );
    let name = stage.check(check).await;
    stage.expect(&name, "Passed").await;
}

#[tokio::test]
async fn a_host_that_is_not_allowed_is_never_asked() {
    let (stage, shop) = (Stage::idle().await, Endpoint::saying(200, "").await);
    let none = Settings {
        check_hosts: HostPatterns::default(),
        ..loopback()
    };
    stage.start(none).await;
    let name = stage.check(http(&shop.url(), "status == 200")).await;
    let status = stage.expect(&name, "Error/CheckHostNotAllowed").await;
    let message = status.message.unwrap();
    let shop_url = shop.url();
    let address = shop_url.trim_start_matches("http://").trim_end_matches('/');
    assert!(address.starts_with("127.0.0.1:"), "{address}");
    let expected = format!("checks may not ask {address}: add it to --check-hosts");
    assert!(message.contains(&expected), "{message}");
    assert_eq!(shop.requests().len(), 0);
}

#[tokio::test]
async fn an_internal_address_is_not_asked_even_if_its_host_is_allowed() {
    let (stage, shop) = (Stage::idle().await, Endpoint::saying(200, "").await);
    let strict = Settings {
        check_hosts: HostPatterns::parse(["*"]).unwrap(),
        allow_internal_urls: false,
        ..loopback()
    };
    stage.start(strict).await;
    let name = stage.check(http(&shop.url(), "status == 200")).await;
    stage.expect(&name, "Error/InternalUrl").await;
    // By a name that resolves to loopback.
    let by_name = shop.url().replace("127.0.0.1", "localhost");
    let check = with(http(&by_name, "status == 200"), json!({"name": "named"}));
    let name = stage.check(check).await;
    stage.expect(&name, "Error/InternalUrl").await;
    assert_eq!(shop.requests().len(), 0);
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let (stage, secret) = (Stage::running().await, Endpoint::saying(200, "").await);
    let moved = Endpoint::start(Answer::Text(302, Some(secret.url()), String::new())).await;
    let name = stage.check(http(&moved.url(), "status == 200")).await;
    let status = stage.expect(&name, "Failed/ConditionNotMet").await;
    assert_eq!(status.observed.as_deref(), Some("status 302"));
    let name = stage.check(prometheus(&moved.url(), "value < 1")).await;
    stage.expect(&name, "Error/RedirectNotFollowed").await;
    assert_eq!(secret.requests().len(), 0);
}

#[tokio::test]
async fn an_answer_of_a_gigabyte_is_cut_off() {
    let (stage, endless) = (
        Stage::running().await,
        Endpoint::start(Answer::Endless).await,
    );
    let name = stage.check(http(&endless.url(), "status == 200")).await;
    stage.expect(&name, "Failed/AnswerTooLarge").await;
    let name = stage.check(prometheus(&endless.url(), "value < 1")).await;
    stage.expect(&name, "Error/AnswerTooLarge").await;
    // What is read, and what the sockets in between hold.
    assert!(
        endless.sent() < 64 << 20,
        "{} bytes were taken",
        endless.sent()
    );
}

#[tokio::test]
async fn no_part_of_an_answer_is_shown() {
    let (stage, shop) = (
        Stage::running().await,
        Endpoint::saying(500, "top-secret").await,
    );
    let expression = "status == 200 && body == 'x'";
    let name = stage.check(http(&shop.url(), expression)).await;
    stage.expect(&name, "Failed/ConditionNotMet").await;
    let body = r#"{"status":"error","errorType":"top-secret","error":"top-secret"}"#;
    shop.answer(Answer::Text(500, None, body.to_owned()));
    let name = stage.check(prometheus(&shop.url(), "value < 1")).await;
    stage.expect(&name, "Running/NoAnswer").await;
    let runs = stage.runs().list(&Default::default()).await.unwrap();
    assert!(!json!(runs).to_string().contains("top-secret"));
}

async fn secret(stage: &Stage, host: Option<&str>) {
    let mut secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "probe", "namespace": "default", "annotations": {}},
        "stringData": {"token": "s3cr3t"},
    });
    if let Some(host) = host {
        secret["metadata"]["annotations"] = json!({"pipelines.weave.works/host": host});
    }
    apply(&stage.hub, &secret).await;
}

fn with_secret(url: &str, name: &str) -> Value {
    let http = json!({"url": url, "passExpr": "status == 200", "secretRef": {"name": "probe"}});
    json!({"name": name, "http": http})
}

#[tokio::test]
async fn a_secret_is_sent_only_to_the_host_it_names() {
    let (stage, shop) = (Stage::running().await, Endpoint::saying(200, "").await);
    for (name, host) in [("none", None), ("other", Some("shop.example.com"))] {
        let stage = Stage::running().await;
        secret(&stage, host).await;
        let name = stage.check(with_secret(&shop.url(), name)).await;
        stage.expect(&name, "Error/SecretNotForHost").await;
    }
    assert_eq!(shop.requests().len(), 0);
    secret(&stage, Some("127.0.0.1")).await;
    let name = stage.check(with_secret(&shop.url(), "named")).await;
    stage.expect(&name, "Passed").await;
    let (_, headers) = &shop.requests()[0];
    assert_eq!(headers["authorization"], "Bearer s3cr3t");
}

#[tokio::test]
async fn a_check_run_created_by_hand_is_never_measured() {
    let (stage, shop) = (Stage::running().await, Endpoint::saying(200, "").await);
    let by_hand = |change: fn(&mut CheckRun)| {
        let (stage, shop) = (&stage, &shop);
        async move {
            let mut run = stage.check_run(http(&shop.url(), "status == 200")).await;
            change(&mut run);
            let created = stage.runs().create(&PostParams::default(), &run).await;
            created.unwrap();
        }
    };
    by_hand(|run| run.metadata.owner_references = None).await;
    by_hand(|run| run.metadata.name = Some("by-hand".to_owned())).await;
    by_hand(|run| {
        run.spec.pipeline = "other".to_owned();
        run.metadata.name = Some(api::names::check_run_name(&run.spec));
    })
    .await;
    settle(&stage).await;
    assert_eq!(shop.requests().len(), 0);
    for run in stage.runs().list(&Default::default()).await.unwrap() {
        let is_other = run.spec.check.name == "settle";
        assert!(is_other || run.status.is_none(), "{run:?}");
    }
}

#[tokio::test]
async fn a_deleted_check_run_is_measured_no_more() {
    let (stage, shop) = (Stage::running().await, Endpoint::saying(200, "").await);
    let check = with(
        http(&shop.url(), "status == 200"),
        json!({"interval": "1s"}),
    );
    let name = stage.check(check).await;
    stage.expect(&name, "Passed").await;
    stage.delete(&name).await;
    settle(&stage).await;
    let asked = shop.requests().len();
    // As long as two more measurements would have taken.
    let other = Endpoint::saying(200, "").await;
    let check = with(
        http(&other.url(), "status == 200"),
        json!({"interval": "1s", "name": "other"}),
    );
    stage.check(check).await;
    let measured = async || other.requests().len() >= 3;
    assert!(wait_for(measured).await);
    assert!(shop.requests().len() <= asked + 1);
}

#[tokio::test]
async fn a_host_that_hangs_does_not_keep_others_from_being_measured() {
    let stage = Stage::running().await;
    // Accepts connections and never answers.
    let silent = tokio::net::TcpListener::bind(("127.0.0.1", 0))
        .await
        .unwrap();
    let url = format!("http://127.0.0.1:{}", silent.local_addr().unwrap().port());
    for number in 0..200 {
        let check = with(
            http(&url, "status == 200"),
            json!({"name": format!("hang-{number}")}),
        );
        stage.check(check).await;
    }
    // The limit is per host: `localhost` is another one.
    stage.kill().await;
    let both = Settings {
        check_hosts: HostPatterns::parse(["127.0.0.1", "localhost"]).unwrap(),
        ..loopback()
    };
    stage.start(both).await;
    let shop = Endpoint::saying(200, "").await;
    let url = shop.url().replace("127.0.0.1", "localhost");
    let name = stage.check(http(&url, "status == 200")).await;
    stage.expect(&name, "Passed").await;
    let runs = stage.runs().list(&Default::default()).await.unwrap();
    let waiting = runs.iter().filter(|it| it.status.is_none()).count();
    assert!(
        waiting > 100,
        "the others would have had time to fail: {waiting}"
    );
}

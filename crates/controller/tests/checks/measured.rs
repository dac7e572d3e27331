//! Check runs from their creation to their verdict.

use serde_json::json;

use crate::{
    endpoint::{Answer, Endpoint, prometheus_answer},
    stage::{Stage, http, loopback, prometheus, with},
    world::wait_for,
};

#[tokio::test]
async fn an_http_check_passes_with_what_is_answered() {
    let (stage, shop) = (
        Stage::running().await,
        Endpoint::saying(200, "all ok").await,
    );
    let url = format!("{}/${{environment}}/${{version}}", shop.url());
    let name = stage
        .check(http(&url, "status == 200 && body.contains('ok')"))
        .await;
    let status = stage.expect(&name, "Passed").await;
    assert_eq!(status.observed.as_deref(), Some("status 200"));
    assert!(status.started_at.is_some() && status.decided_at.is_some());
    let requests = shop.requests();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].0, "/staging/1.1.0");
}

#[tokio::test]
async fn an_http_check_fails_with_a_sentence() {
    let (stage, shop) = (Stage::running().await, Endpoint::saying(503, "{}").await);
    let name = stage.check(http(&shop.url(), "status == 200")).await;
    let status = stage.expect(&name, "Failed/ConditionNotMet").await;
    let message = status.message.unwrap();
    assert_eq!(message, "status 503 does not meet `status == 200`");
    let json = stage
        .check(with(http(&shop.url(), "json.ok"), json!({"name": "json"})))
        .await;
    let status = stage.expect(&json, "Failed/ConditionNotMet").await;
    assert!(status.message.unwrap().ends_with("no such key"));
}

#[tokio::test]
async fn an_endpoint_that_does_not_answer_fails_an_http_check_but_not_a_query() {
    let stage = Stage::running().await;
    let gone = Endpoint::saying(200, "").await.url();
    let name = stage.check(http(&gone, "status == 200")).await;
    let status = stage.expect(&name, "Failed/NoAnswer").await;
    assert_eq!(
        status.message.as_deref(),
        Some("127.0.0.1: the host cannot be reached")
    );
    let name = stage.check(prometheus(&gone, "value < 1")).await;
    stage.expect(&name, "Running/NoAnswer").await;
}

#[tokio::test]
async fn a_query_is_sent_with_the_environment_and_its_value_compared() {
    let stage = Stage::running().await;
    let server = Endpoint::prometheus("0.5").await;
    let name = stage
        .check(prometheus(
            &format!("{}/prom/", server.url()),
            "value < 0.01",
        ))
        .await;
    let status = stage.expect(&name, "Failed/ConditionNotMet").await;
    assert_eq!(
        status.message.as_deref(),
        Some("value 0.5 does not meet `value < 0.01`")
    );
    let path = "/prom/api/v1/query?query=errors%7Benv%3D%22staging%22%7D";
    assert_eq!(server.requests()[0].0, path);
}

#[tokio::test]
async fn a_query_without_a_value_is_neither_passed_nor_failed() {
    let stage = Stage::running().await;
    let empty = r#"{"status":"success","data":{"resultType":"vector","result":[]}}"#;
    let server = Endpoint::saying(200, empty).await;
    let name = stage.check(prometheus(&server.url(), "value < 1")).await;
    stage.expect(&name, "Running/NoValue").await;
    let none = prometheus(&server.url(), "size(values) == 0 || value < 1");
    let name = stage.check(with(none, json!({"name": "none"}))).await;
    stage.expect(&name, "Passed").await;
    server.answer(Answer::Text(
        400,
        None,
        r#"{"status":"error","errorType":"bad_data","error":"x"}"#.to_owned(),
    ));
    let name = stage
        .check(with(
            prometheus(&server.url(), "value < 2"),
            json!({"name": "bad"}),
        ))
        .await;
    stage.expect(&name, "Error/QueryRefused").await;
}

#[tokio::test]
async fn a_passed_check_goes_on_without_a_write_and_fails_later() {
    let stage = Stage::running().await;
    let server = Endpoint::prometheus("0").await;
    let check = json!({"interval": "1s", "failureThreshold": 2});
    let name = stage
        .check(with(prometheus(&server.url(), "value < 0.01"), check))
        .await;
    stage.expect(&name, "Passed").await;
    let measured = async || server.requests().len() >= 4;
    assert!(wait_for(measured).await);
    let writes = stage.injector.effects();
    assert_eq!(writes.len(), 1, "{writes:?}");
    server.answer(Answer::Text(200, None, prometheus_answer("1")));
    let status = stage.expect(&name, "Failed/ConditionNotMet").await;
    assert!(status.message.unwrap().ends_with("(2 times in a row)"));
    assert_eq!(stage.injector.effects().len(), 2);
    let asked = server.requests().len();
    let name = stage
        .check(with(
            prometheus(&server.url(), "value > 0"),
            json!({"name": "other"}),
        ))
        .await;
    stage.expect(&name, "Passed").await;
    assert_eq!(
        server.requests().len(),
        asked + 1,
        "a failed check is measured no more"
    );
}

#[tokio::test]
async fn an_external_check_takes_the_result_that_is_reported() {
    let stage = Stage::running().await;
    let ticket = json!({"name": "ticket", "external": {}});
    let name = stage.check(ticket.clone()).await;
    stage.report(&name, false, "not approved").await;
    let status = stage.expect(&name, "Failed/ReportedFailed").await;
    assert_eq!(status.message.as_deref(), Some("not approved"));
    assert_eq!(status.url.as_deref(), Some("https://tickets.example.com/1"));
    let name = stage.check(with(ticket, json!({"name": "other"}))).await;
    stage.report(&name, true, "approved").await;
    stage.expect(&name, "Passed").await;
}

#[tokio::test]
async fn after_a_restart_counting_starts_again_and_the_verdict_stays() {
    let (stage, shop) = (Stage::running().await, Endpoint::saying(200, "").await);
    let check = json!({"interval": "1s", "successThreshold": 2});
    let name = stage
        .check(with(http(&shop.url(), "status == 200"), check))
        .await;
    stage.expect(&name, "Passed").await;
    stage.kill().await;
    let asked = shop.requests().len();
    stage.start(loopback()).await;
    let measured = async || shop.requests().len() > asked + 1;
    assert!(wait_for(measured).await);
    stage.expect(&name, "Passed").await;
    // Running, then Passed; nothing after the restart.
    assert_eq!(stage.injector.effects().len(), 2);
}

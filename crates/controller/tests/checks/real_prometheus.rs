//! Checks of a real Prometheus, which scrapes a page that the test serves.

use serde_json::json;
use testbed::real::{Assets, prometheus::RealPrometheus};

use crate::{
    endpoint::{Answer, Endpoint},
    stage::{Stage, with},
};

fn page(errors: u32) -> Answer {
    Answer::Text(
        200,
        None,
        format!("errors{{env=\"staging\"}} {errors}\nerrors{{env=\"it's \\\"q\\\"\"}} 7\n"),
    )
}

#[tokio::test]
#[ignore = "needs a real Prometheus: `cargo xtask test --real`"]
async fn real_prometheus_decides_about_a_release() {
    let assets = Assets::from_env().unwrap();
    let app = Endpoint::start(page(0)).await;
    let server = RealPrometheus::start(&assets, &app.url()).await.unwrap();
    let stage = Stage::running().await;
    let check = |name: &str, query: &str, expression: &str| {
        let prometheus = json!({"address": server.url(), "query": query, "passExpr": expression});
        let more = json!({"interval": "1s", "failureThreshold": 2});
        with(json!({"name": name, "prometheus": prometheus}), more)
    };
    let errors = r#"max(errors{env="${environment}"})"#;
    let good = stage.check(check("errors", errors, "value < 1")).await;
    stage.expect(&good, "Passed").await;
    // Each is an answer that only a real server gives this way.
    for (name, query, expression, verdict) in [
        ("scalar", "scalar(vector(3))", "value == 3.0", "Passed"),
        (
            "nan",
            "vector(0) / vector(0)",
            "value < 1",
            "Failed/ConditionNotMet",
        ),
        (
            "infinite",
            "vector(1) / vector(0)",
            "value > 1e300",
            "Passed",
        ),
        ("empty", "absent(vector(1))", "value < 1", "Running/NoValue"),
        ("several", "errors", "size(values) == 2", "Passed"),
        (
            "quoted",
            r#"errors{env="it's \"q\""}"#,
            "value == 7.0",
            "Passed",
        ),
        ("syntax", "errors{", "value < 1", "Error/QueryRefused"),
        ("matrix", "errors[5m]", "value < 1", "Error/QueryRefused"),
    ] {
        let name = stage.check(check(name, query, expression)).await;
        stage.expect(&name, verdict).await;
    }
    app.answer(page(5));
    let status = stage.expect(&good, "Failed/ConditionNotMet").await;
    assert_eq!(status.observed.as_deref(), Some("value 5"));
}

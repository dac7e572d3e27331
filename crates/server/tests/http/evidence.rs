//! Reports that lead to nothing: stored, accepted, and said to be of no effect where they are.

use serde_json::json;
use server::Settings;

use crate::{
    promotion::reported,
    world::{KEY, World, event, sign, unlimited},
};

const DEV: &str = "/promotion/default/app/dev";

/// Flux logs an error for each answer that is not 2xx.
#[tokio::test(start_paused = true)]
async fn a_report_is_accepted_where_nothing_is_promoted_from() {
    let world = World::new().await;
    let last = json!([{"name": "dev", "targets": [{"namespace": "app-dev"}]}]);
    let prod = event("app-prod", "5.0.0").to_string();
    let answer = world.post("/promotion/default/app/prod", &prod).await;
    assert_eq!((answer.code.as_u16(), answer.body.as_str()), (202, ""));
    world.edit(json!({"spec": {"environments": last}})).await;
    let dev = event("app-dev", "5.0.0").to_string();
    let answer = world.post(DEV, &dev).await;
    assert_eq!((answer.code.as_u16(), answer.body.as_str()), (202, ""));
    for key in ["prod/-/app-prod", "dev/-/app-dev"] {
        assert_eq!(reported(&world, key).await.as_deref(), Some("5.0.0"));
    }
}

#[tokio::test(start_paused = true)]
async fn an_event_that_does_not_count_says_so() {
    let world = World::with(Settings {
        allow_unsigned_reports: false,
        ..unlimited()
    })
    .await;
    let strategy = json!({"secretRef": {"name": "keys"}, "notification": {}});
    world.create_key("keys", KEY).await;
    // A key of one environment makes signatures possible and does not demand them.
    let prod = json!({"name": "prod", "targets": [{"namespace": "app-prod"}],
        "promotion": {"strategy": strategy}});
    let dev = json!({"name": "dev", "targets": [{"namespace": "app-dev"}]});
    world
        .edit(json!({"spec": {"environments": [dev, prod]}}))
        .await;
    let body = event("app-dev", "5.0.0").to_string();
    assert_eq!(
        world.post(DEV, &body).await.body,
        "",
        "nothing is known about dev yet"
    );
    let target = json!({"namespace": "app-dev", "source": "Report", "ready": false});
    world
        .edit_status(json!({"environments": {"dev": {"targets": [target]}}}))
        .await;
    let answer = world.post(DEV, &body).await;
    assert_eq!(answer.code, 202);
    let text = "the event is not signed: it is stored but ignored; use a Provider of type \
                generic-hmac with `hmac-key` of the Secret keys; or --allow-unsigned-reports";
    assert_eq!(answer.body, text);
    let signed = world.post_signed(DEV, &body, &sign(KEY, &body)).await;
    assert_ne!(signed.body, text);
}

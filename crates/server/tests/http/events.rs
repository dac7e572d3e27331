//! The events about a pipeline and its promotions on the objects page.

use api::Promotion;
use k8s_openapi::api::core::v1::Event;
use kube::{Api, api::PostParams};
use serde_json::{Value, json};

use crate::{
    rest::grant,
    session::{look, signed_in, signed_in_as},
    world::World,
};

const PAGE: &str = "/pipelines/default/app/objects?environment=prod";

async fn create_event(world: &World, name: &str, about: Value, message: &str) {
    let events: Api<Event> = Api::namespaced(world.client.clone(), "default");
    let event = json!({
        "metadata": {"name": name}, "involvedObject": about, "type": "Warning",
        "reason": "PromotionHeld", "message": message, "lastTimestamp": "2026-01-01T00:00:00Z",
    });
    let event = serde_json::from_value(event).unwrap();
    let created = events.create(&PostParams::default(), &event).await;
    created.unwrap();
}

fn object(group: &str, kind: &str, name: &str) -> Value {
    json!({
        "apiVersion": format!("{group}/v1alpha1"), "kind": kind, "name": name, "namespace": "default",
    })
}

async fn create_promotion(world: &World, name: &str, environment: &str) {
    let promotions: Api<Promotion> = Api::namespaced(world.client.clone(), "default");
    let strategy = json!({"notification": {}});
    let promotion = json!({
        "metadata": {"name": name, "labels": {"pipelines.weave.works/pipeline": "app"}},
        "spec": {
            "pipeline": "app", "environment": environment, "revision": "1.2.3", "version": "1.2.3", "ordinal": 0,
            "strategy": strategy,
        },
    });
    let promotion = serde_json::from_value(promotion).unwrap();
    let created = promotions.create(&PostParams::default(), &promotion).await;
    created.unwrap();
}

async fn world_with_events() -> World {
    let world = World::new().await;
    create_promotion(&world, "app-prod-1", "prod").await;
    create_promotion(&world, "app-dev-1", "dev").await;
    let ours = "pipelines.weave.works";
    for (name, about, message) in [
        (
            "a",
            object(ours, "Pipeline", "app"),
            "prod waits <b>here</b>",
        ),
        (
            "b",
            object(ours, "Promotion", "app-prod-1"),
            "of the promotion",
        ),
        (
            "c",
            object(ours, "Promotion", "app-dev-1"),
            "of another environment",
        ),
        (
            "d",
            object(ours, "Pipeline", "other"),
            "of another pipeline",
        ),
        ("e", object("tekton.dev", "Pipeline", "app"), "of Tekton"),
    ] {
        create_event(&world, name, about, message).await;
    }
    world.settle().await;
    world
}

/// How often events were listed since this was last asked.
fn lists_of_events(world: &World) -> usize {
    let calls = world.calls().into_iter();
    calls.filter(|(_, path)| path.ends_with("/events")).count()
}

#[tokio::test(start_paused = true)]
async fn the_objects_page_shows_the_events_of_pipeline_and_promotions() {
    let world = world_with_events().await;
    let cookie = signed_in(&world).await;
    let page = look(&world, PAGE, &cookie).await;
    assert_eq!(page.code, 200);
    for expected in [
        "Pipeline and promotions",
        "prod waits &lt;b&gt;here&lt;/b&gt;",
        "of the promotion",
        "app-prod-1",
        "PromotionHeld",
    ] {
        assert!(page.body.contains(expected), "{expected}: {}", page.body);
    }
    for foreign in ["of another", "of Tekton", "app-dev-1"] {
        assert!(!page.body.contains(foreign), "{foreign}: {}", page.body);
    }
    assert_eq!(lists_of_events(&world), 2, "of the pipeline, of promotions");
    look(&world, PAGE, &cookie).await;
    assert_eq!(lists_of_events(&world), 0, "the events are cached");
}

#[tokio::test(start_paused = true)]
async fn who_may_not_list_events_is_told_so() {
    let world = world_with_events().await;
    grant(&world, "vera", &["get", "list"], "pipelines").await;
    let cookie = signed_in_as(&world, "vera").await;
    let page = look(&world, PAGE, &cookie).await;
    assert_eq!(page.code, 200);
    let expected = "You may not list events in namespace default.";
    assert!(page.body.contains(expected), "{}", page.body);
    assert!(page.body.contains("app-prod-1"), "{}", page.body);
    assert!(!page.body.contains("PromotionHeld"), "{}", page.body);
    assert_eq!(lists_of_events(&world), 0);
}

//! Watches that begin with what is there, and bookmarks.

use serde_json::{Value, json};

use crate::support::{Context, anything, cases, resource_version, version_number};

cases!("initial_events":
    bookmark_before_the_end, bookmarks_only_when_asked, initial_events_end_with_a_bookmark,
    initial_events_of_custom, initial_events_respect_selectors,
    initial_events_without_bookmarks, initial_events_switched_off, initial_events_need_a_match,
    initial_events_need_not_older_than, match_needs_initial_events,
    initial_events_of_the_future_time_out,
);

const INITIAL: &str = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";

fn initial_events_end(bookmark: &Value) -> &Value {
    &bookmark["metadata"]["annotations"]["k8s.io/initial-events-end"]
}

async fn bookmark_before_the_end(api: Context) {
    let created = api.config_map("a", json!({})).await;
    let query = format!(
        "resourceVersion={}&allowWatchBookmarks=true&timeoutSeconds=5",
        resource_version(&created)
    );
    let mut events = api.watch(&api.core("configmaps"), &query).await;
    let bookmark = events.expect("BOOKMARK -").await;
    assert_eq!(bookmark["kind"], "ConfigMap");
    assert_eq!(bookmark["apiVersion"], "v1");
    assert!(version_number(&bookmark) >= version_number(&created));
    assert_eq!(initial_events_end(&bookmark), &Value::Null);
    // The bookmark is a place to go on from.
    api.config_map("b", json!({})).await;
    let query = format!("resourceVersion={}", resource_version(&bookmark));
    let mut events = api.watch(&api.core("configmaps"), &query).await;
    events.expect("ADDED b").await;
}

async fn bookmarks_only_when_asked(api: Context) {
    let created = api.config_map("a", json!({})).await;
    let query = format!(
        "resourceVersion={}&timeoutSeconds=3",
        resource_version(&created)
    );
    let mut events = api.watch(&api.core("configmaps"), &query).await;
    assert_eq!(events.next_or_end().await, None);
}

async fn initial_events_end_with_a_bookmark(api: Context) {
    api.config_map("a", json!({})).await;
    let last = api.config_map("b", json!({})).await;
    for from in [
        "",
        "&resourceVersion=0",
        &format!("&resourceVersion={}", resource_version(&last)),
    ] {
        let query = format!("{INITIAL}&allowWatchBookmarks=true{from}");
        let mut events = api.watch(&api.core("configmaps"), &query).await;
        events.expect("ADDED a").await;
        events.expect("ADDED b").await;
        let bookmark = events.expect("BOOKMARK -").await;
        assert_eq!(initial_events_end(&bookmark), "true");
        assert!(version_number(&bookmark) >= version_number(&last));
        api.merge(&api.core("configmaps/b"), &json!({"data": {"from": from}}))
            .await
            .expect_code(200);
        events.expect("MODIFIED b").await;
    }
}

async fn initial_events_of_custom(api: Context) {
    api.define_things(anything()).await;
    let created = api.create_thing("a", json!({"spec": {"x": 1}})).await;
    let mut events = api
        .watch(
            &api.custom("things"),
            &format!("{INITIAL}&allowWatchBookmarks=true"),
        )
        .await;
    assert_eq!(events.expect("ADDED a").await, created);
    let bookmark = events.expect("BOOKMARK -").await;
    assert_eq!(bookmark["kind"], "Thing");
    assert_eq!(bookmark["apiVersion"], format!("{}/v1", api.group));
    assert_eq!(initial_events_end(&bookmark), "true");
}

async fn initial_events_respect_selectors(api: Context) {
    api.config_map("a", json!({"metadata": {"labels": {"n": "a"}}}))
        .await;
    api.config_map("b", json!({})).await;
    let query = format!("{INITIAL}&allowWatchBookmarks=true&labelSelector=n%3Da");
    let mut events = api.watch(&api.core("configmaps"), &query).await;
    events.expect("ADDED a").await;
    events.expect("BOOKMARK -").await;
}

async fn initial_events_without_bookmarks(api: Context) {
    api.config_map("a", json!({})).await;
    let mut events = api.watch(&api.core("configmaps"), INITIAL).await;
    events.expect("ADDED a").await;
    api.config_map("b", json!({})).await;
    events.expect("ADDED b").await;
}

async fn initial_events_switched_off(api: Context) {
    api.config_map("a", json!({})).await;
    let last = api.config_map("b", json!({})).await;
    let query = format!(
        "sendInitialEvents=false&resourceVersionMatch=NotOlderThan&resourceVersion={}",
        resource_version(&last)
    );
    let mut events = api.watch(&api.core("configmaps"), &query).await;
    api.config_map("c", json!({})).await;
    events.expect("ADDED c").await;
}

/// A watch that is refused with this message about `resourceVersionMatch`.
async fn refused(api: &Context, query: &str, causes: &[&str]) {
    let path = api.core(&format!("configmaps?watch=true&timeoutSeconds=1&{query}"));
    let status = api.get(&path).await.refused_somehow(422, "Invalid");
    assert_eq!(status["details"]["kind"], "ListOptions");
    let found: Vec<&str> = status["details"]["causes"]
        .as_array()
        .unwrap()
        .iter()
        .inspect(|cause| assert_eq!(cause["field"], "resourceVersionMatch"))
        .map(|cause| cause["message"].as_str().unwrap())
        .collect();
    assert_eq!(found, causes);
}

const NEEDS_NOT_OLDER: &str =
    "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan";

async fn initial_events_need_a_match(api: Context) {
    refused(&api, "sendInitialEvents=true", &[NEEDS_NOT_OLDER]).await;
}

async fn initial_events_need_not_older_than(api: Context) {
    let unsupported = "Unsupported value: \"Exact\": supported values: \"NotOlderThan\"";
    let query = "sendInitialEvents=true&resourceVersionMatch=Exact";
    refused(&api, query, &[NEEDS_NOT_OLDER, unsupported]).await;
}

async fn match_needs_initial_events(api: Context) {
    let message = "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided";
    refused(
        &api,
        "resourceVersionMatch=NotOlderThan&resourceVersion=1",
        &[message],
    )
    .await;
}

async fn initial_events_of_the_future_time_out(api: Context) {
    let query = format!("{INITIAL}&allowWatchBookmarks=true&resourceVersion=999999999");
    let mut events = api.watch(&api.core("configmaps"), &query).await;
    let status = events.expect("ERROR -").await;
    assert_eq!(status["code"], 504);
    assert_eq!(status["reason"], "Timeout");
    assert_eq!(
        status["details"]["causes"][0]["reason"],
        "ResourceVersionTooLarge"
    );
    assert_eq!(events.next_or_end().await, None);
}

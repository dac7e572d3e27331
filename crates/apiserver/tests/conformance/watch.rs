//! Watches: where they start, what they tell, how they end.

use serde_json::{Value, json};

use crate::support::{Context, anything, cases, config_map, resource_version, version_number};

cases!("watch":
    from_a_version_tells_what_came_after, without_version_starts_with_what_is_there,
    from_zero_starts_with_what_is_there, tells_every_change, deletion_carries_last_state,
    finalizer_deletion_is_told_twice, change_of_nothing_is_not_told, one_object_by_name,
    of_all_namespaces, of_missing_namespace, label_transitions, field_transitions,
    timeout_ends_the_stream, future_version_is_silent, malformed_version, before_the_kind_was_defined_is_gone,
    malformed_selectors_are_refused, status_changes_are_told, of_one_object_path_is_a_get,
    continue_and_limit_are_ignored, definitions_can_be_watched, namespaces_can_be_watched,
);

async fn from_a_version_tells_what_came_after(api: Context) {
    let first = api.config_map("a", json!({})).await;
    let second = api.config_map("b", json!({})).await;
    let query = format!("resourceVersion={}", resource_version(&first));
    let mut events = api.watch(&api.core("configmaps"), &query).await;
    assert_eq!(events.expect("ADDED b").await, second);
    api.config_map("c", json!({})).await;
    events.expect("ADDED c").await;
}

async fn without_version_starts_with_what_is_there(api: Context) {
    api.config_map("b", json!({})).await;
    api.config_map("a", json!({})).await;
    let mut events = api.watch(&api.core("configmaps"), "").await;
    let mut told = [events.line().await, events.line().await];
    told.sort();
    assert_eq!(told, ["ADDED a", "ADDED b"]);
    api.config_map("c", json!({})).await;
    events.expect("ADDED c").await;
}

async fn from_zero_starts_with_what_is_there(api: Context) {
    let created = api.config_map("a", json!({})).await;
    let mut events = api
        .watch(&api.core("configmaps"), "resourceVersion=0")
        .await;
    assert_eq!(events.expect("ADDED a").await, created);
    api.delete(&api.core("configmaps/a")).await.expect_code(200);
    events.expect("DELETED a").await;
}

async fn tells_every_change(api: Context) {
    let list = api.get(&api.core("configmaps")).await.expect_code(200);
    let query = format!("resourceVersion={}", resource_version(&list));
    let mut events = api.watch(&api.core("configmaps"), &query).await;
    let created = api.config_map("a", json!({})).await;
    let path = api.core("configmaps/a");
    let patched = api
        .merge(&path, &json!({"data": {"k": "v"}}))
        .await
        .expect_code(200);
    let mut body = config_map("a");
    body["data"] = json!({"k": "w"});
    let replaced = api.put(&path, &body).await.expect_code(200);
    assert_eq!(events.expect("ADDED a").await, created);
    assert_eq!(events.expect("MODIFIED a").await, patched);
    assert_eq!(events.expect("MODIFIED a").await, replaced);
}

async fn deletion_carries_last_state(api: Context) {
    let created = api.config_map("a", json!({"data": {"k": "v"}})).await;
    let query = format!("resourceVersion={}", resource_version(&created));
    let mut events = api.watch(&api.core("configmaps"), &query).await;
    api.delete(&api.core("configmaps/a")).await.expect_code(200);
    let deleted = events.expect("DELETED a").await;
    assert_eq!(deleted["data"], created["data"]);
    assert_eq!(deleted["metadata"]["uid"], created["metadata"]["uid"]);
    assert!(version_number(&deleted) > version_number(&created));
}

async fn finalizer_deletion_is_told_twice(api: Context) {
    let created = api
        .config_map("a", json!({"metadata": {"finalizers": ["example.com/f"]}}))
        .await;
    let query = format!("resourceVersion={}", resource_version(&created));
    let mut events = api.watch(&api.core("configmaps"), &query).await;
    let path = api.core("configmaps/a");
    api.delete(&path).await.expect_code(200);
    let marked = events.expect("MODIFIED a").await;
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    api.merge(&path, &json!({"metadata": {"finalizers": null}}))
        .await
        .expect_code(200);
    let deleted = events.expect("DELETED a").await;
    assert!(version_number(&deleted) > version_number(&marked));
}

async fn change_of_nothing_is_not_told(api: Context) {
    let created = api.config_map("a", json!({"data": {"k": "v"}})).await;
    let query = format!("resourceVersion={}", resource_version(&created));
    let mut events = api.watch(&api.core("configmaps"), &query).await;
    api.merge(&api.core("configmaps/a"), &json!({"data": {"k": "v"}}))
        .await
        .expect_code(200);
    api.config_map("b", json!({})).await;
    events.expect("ADDED b").await;
}

async fn one_object_by_name(api: Context) {
    api.config_map("a", json!({})).await;
    api.config_map("b", json!({})).await;
    let mut events = api
        .watch(&api.core("configmaps"), "fieldSelector=metadata.name%3Db")
        .await;
    events.expect("ADDED b").await;
    api.merge(&api.core("configmaps/a"), &json!({"data": {"k": "v"}}))
        .await
        .expect_code(200);
    api.merge(&api.core("configmaps/b"), &json!({"data": {"k": "v"}}))
        .await
        .expect_code(200);
    events.expect("MODIFIED b").await;
}

async fn of_all_namespaces(api: Context) {
    api.define_things(anything()).await;
    let mut events = api
        .watch(&format!("/apis/{}/v1/things", api.group), "")
        .await;
    let second = format!("{}-z", api.namespace);
    api.create_namespace(&second).await;
    let path = format!("/apis/{}/v1/namespaces/{second}/things", api.group);
    api.post(&path, &api.thing("b", json!({})))
        .await
        .expect_code(201);
    api.create_thing("a", json!({})).await;
    events.expect("ADDED b").await;
    events.expect("ADDED a").await;
}

async fn of_missing_namespace(api: Context) {
    let path = "/api/v1/namespaces/missing/configmaps";
    let mut events = api.watch(path, "timeoutSeconds=1").await;
    assert_eq!(events.next_or_end().await, None);
}

async fn label_transitions(api: Context) {
    let created = api
        .config_map("a", json!({"metadata": {"labels": {"n": "in"}}}))
        .await;
    api.config_map("b", json!({"metadata": {"labels": {"n": "out"}}}))
        .await;
    let query = format!(
        "resourceVersion={}&labelSelector=n%3Din",
        resource_version(&created)
    );
    let mut events = api.watch(&api.core("configmaps"), &query).await;
    let relabel = |name: &str, label: &str| {
        let (path, patch) = (
            api.core(&format!("configmaps/{name}")),
            json!({"metadata": {"labels": {"n": label}}}),
        );
        let api = api.clone();
        async move { api.merge(&path, &patch).await.expect_code(200) }
    };
    let left = relabel("a", "out").await;
    let gone = events.expect("DELETED a").await;
    assert_eq!(
        gone["metadata"]["labels"],
        json!({"n": "in"}),
        "the last state that was selected"
    );
    assert_eq!(resource_version(&gone), resource_version(&left));
    assert_eq!(relabel("b", "in").await, events.expect("ADDED b").await);
    api.merge(&api.core("configmaps/b"), &json!({"data": {"k": "v"}}))
        .await
        .expect_code(200);
    events.expect("MODIFIED b").await;
    api.delete(&api.core("configmaps/a")).await.expect_code(200);
    api.delete(&api.core("configmaps/b")).await.expect_code(200);
    events.expect("DELETED b").await;
}

async fn field_transitions(api: Context) {
    let body = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    });
    let created = api.post(&api.core("pods"), &body).await.expect_code(201);
    let query = format!(
        "resourceVersion={}&fieldSelector=status.phase%3DRunning",
        resource_version(&created)
    );
    let mut events = api.watch(&api.core("pods"), &query).await;
    let path = api.core("pods/a/status");
    api.merge(&path, &json!({"status": {"phase": "Running"}}))
        .await
        .expect_code(200);
    events.expect("ADDED a").await;
    api.merge(&path, &json!({"status": {"phase": "Failed"}}))
        .await
        .expect_code(200);
    events.expect("DELETED a").await;
}

async fn timeout_ends_the_stream(api: Context) {
    api.config_map("a", json!({})).await;
    let mut events = api.watch(&api.core("configmaps"), "timeoutSeconds=1").await;
    events.expect("ADDED a").await;
    assert_eq!(events.next_or_end().await, None);
}

async fn future_version_is_silent(api: Context) {
    api.config_map("a", json!({})).await;
    let query = "resourceVersion=999999999&timeoutSeconds=1";
    let mut events = api.watch(&api.core("configmaps"), query).await;
    assert_eq!(events.next_or_end().await, None);
}

async fn before_the_kind_was_defined_is_gone(api: Context) {
    api.define_things(anything()).await;
    let mut events = api.watch(&api.custom("things"), "resourceVersion=1").await;
    let status = events.expect("ERROR -").await;
    assert_eq!(status["kind"], "Status");
    assert_eq!(status["code"], 410);
    assert_eq!(status["reason"], "Expired");
    let message = status["message"].as_str().unwrap();
    assert!(
        message.starts_with("too old resource version: 1 ("),
        "{message}"
    );
    assert_eq!(events.next_or_end().await, None);
}

async fn malformed_version(api: Context) {
    let message = "resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax";
    let path = api.core("configmaps?watch=true&resourceVersion=abc");
    api.get(&path).await.refused(500, "", message);
}

async fn malformed_selectors_are_refused(api: Context) {
    let path = api.core("configmaps?watch=true&labelSelector=n+in+a");
    let message = "unable to parse requirement: found 'a' expected: '('";
    api.get(&path).await.refused(400, "BadRequest", message);
    let path = api.core("configmaps?watch=true&fieldSelector=metadata.bad%3Da");
    let message = "\"metadata.bad\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"";
    api.get(&path).await.refused(400, "BadRequest", message);
}

async fn status_changes_are_told(api: Context) {
    api.define_things(anything()).await;
    let created = api.create_thing("a", json!({})).await;
    let query = format!("resourceVersion={}", resource_version(&created));
    let mut events = api.watch(&api.custom("things"), &query).await;
    let patch = json!({"status": {"ok": true}});
    let patched = api
        .merge(&api.custom("things/a/status"), &patch)
        .await
        .expect_code(200);
    assert_eq!(events.expect("MODIFIED a").await, patched);
}

async fn of_one_object_path_is_a_get(api: Context) {
    let path = api.core("configmaps/missing?watch=true&timeoutSeconds=1");
    api.get(&path)
        .await
        .refused(404, "NotFound", "configmaps \"missing\" not found");
}

async fn continue_and_limit_are_ignored(api: Context) {
    let first = api.config_map("a", json!({})).await;
    api.config_map("b", json!({})).await;
    api.config_map("c", json!({})).await;
    let query = format!(
        "resourceVersion={}&limit=1&continue=x",
        resource_version(&first)
    );
    let mut events = api.watch(&api.core("configmaps"), &query).await;
    events.expect("ADDED b").await;
    events.expect("ADDED c").await;
}

async fn definitions_can_be_watched(api: Context) {
    let name = format!("things.{}", api.group);
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let mut events = api
        .watch(path, &format!("fieldSelector=metadata.name%3D{name}"))
        .await;
    api.define_things(anything()).await;
    let mut told = events.expect(&format!("ADDED {name}")).await;
    let established = |definition: &Value| {
        let conditions = definition["status"]["conditions"].as_array();
        conditions
            .into_iter()
            .flatten()
            .any(|c| c["type"] == "Established" && c["status"] == "True")
    };
    while !established(&told) {
        told = events.expect(&format!("MODIFIED {name}")).await;
    }
}

async fn namespaces_can_be_watched(api: Context) {
    let name = format!("{}-new", api.namespace);
    let query = format!("fieldSelector=metadata.name%3D{name}");
    let mut events = api.watch("/api/v1/namespaces", &query).await;
    api.create_namespace(&name).await;
    let added = events.expect(&format!("ADDED {name}")).await;
    assert_eq!(added["status"]["phase"], "Active");
}

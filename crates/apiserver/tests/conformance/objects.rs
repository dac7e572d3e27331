//! Reading and replacing objects, and what of them never changes.

use serde_json::{Value, json};

use crate::support::{
    Context, OTHER_NAMESPACE, OTHER_UID, anything, cases, config_map, resource_version, version,
};

cases!("objects":
    get_missing, get_missing_custom, get_unknown_resource, get_unknown_group,
    replace_changes_everything, replace_without_change_keeps_version, replace_missing,
    replace_stale_is_refused, replace_custom_stale_is_refused,
    replace_custom_needs_resource_version, replace_with_malformed_resource_version,
    replace_with_other_name_is_refused, replace_without_name_is_refused,
    replace_with_other_namespace_is_refused, replace_with_other_uid_is_refused,
    creation_time_cannot_change, deletion_time_cannot_be_set, generation_cannot_be_set,
    cluster_scope,
);

const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

async fn get_missing(api: Context) {
    let answer = api.get(&api.core("configmaps/missing")).await;
    let status = answer.refused(404, "NotFound", "configmaps \"missing\" not found");
    assert_eq!(
        status["details"],
        json!({"name": "missing", "kind": "configmaps"})
    );
}

async fn get_missing_custom(api: Context) {
    api.define_things(anything()).await;
    let answer = api.get(&api.custom("things/missing")).await;
    let message = format!("things.{} \"missing\" not found", api.group);
    let status = answer.refused(404, "NotFound", &message);
    assert_eq!(
        status["details"],
        json!({"name": "missing", "group": api.group, "kind": "things"})
    );
}

async fn get_unknown_resource(api: Context) {
    for path in [api.core("nonsense"), "/apis/apps/v1/nonsense".to_owned()] {
        let message = "the server could not find the requested resource";
        let status = api.get(&path).await.refused(404, "NotFound", message);
        assert_eq!(status["details"], json!({}));
    }
}

async fn get_unknown_group(api: Context) {
    api.define_things(anything()).await;
    let unknown = [
        "/apis/nope.example.com/v1/things".to_owned(),
        format!("/apis/{}/v2/things", api.group),
        format!("/apis/{}/v1/nonsense", api.group),
    ];
    for path in unknown {
        let answer = api.get(&path).await;
        assert_eq!(answer.text, "404 page not found\n", "{answer}");
        answer.expect_code(404);
    }
}

async fn replace_changes_everything(api: Context) {
    let created = api
        .config_map(
            "a",
            json!({"data": {"k": "v"}, "metadata": {"labels": {"l": "1"}}}),
        )
        .await;
    let mut body = config_map("a");
    body["data"] = json!({"other": "w"});
    let replaced = api
        .put(&api.core("configmaps/a"), &body)
        .await
        .expect_code(200);
    assert_eq!(replaced["data"], json!({"other": "w"}));
    assert_eq!(replaced["metadata"]["labels"], Value::Null);
    assert_eq!(replaced["metadata"]["uid"], created["metadata"]["uid"]);
    assert_ne!(resource_version(&replaced), resource_version(&created));
    assert_eq!(
        api.get(&api.core("configmaps/a")).await.expect_code(200),
        replaced
    );
}

async fn replace_without_change_keeps_version(api: Context) {
    let created = api.config_map("a", json!({"data": {"k": "v"}})).await;
    let replaced = api
        .put(&api.core("configmaps/a"), &created)
        .await
        .expect_code(200);
    assert_eq!(resource_version(&replaced), resource_version(&created));
}

async fn replace_missing(api: Context) {
    let answer = api.put(&api.core("configmaps/a"), &config_map("a")).await;
    answer.refused(404, "NotFound", "configmaps \"a\" not found");
}

async fn replace_stale_is_refused(api: Context) {
    let stale = api.config_map("a", json!({})).await;
    let mut body = stale.clone();
    body["data"] = json!({"k": "v"});
    api.put(&api.core("configmaps/a"), &body)
        .await
        .expect_code(200);
    let answer = api.put(&api.core("configmaps/a"), &stale).await;
    let message = format!("Operation cannot be fulfilled on configmaps \"a\": {MODIFIED}");
    let status = answer.refused(409, "Conflict", &message);
    assert_eq!(
        status["details"],
        json!({"name": "a", "kind": "configmaps"})
    );
}

async fn replace_custom_stale_is_refused(api: Context) {
    api.define_things(anything()).await;
    let stale = api.create_thing("a", json!({})).await;
    let mut body = stale.clone();
    body["spec"] = json!({"x": 1});
    api.put(&api.custom("things/a"), &body)
        .await
        .expect_code(200);
    let answer = api.put(&api.custom("things/a"), &stale).await;
    let message = format!(
        "Operation cannot be fulfilled on things.{} \"a\": {MODIFIED}",
        api.group
    );
    let status = answer.refused(409, "Conflict", &message);
    assert_eq!(
        status["details"],
        json!({"name": "a", "group": api.group, "kind": "things"})
    );
}

async fn replace_custom_needs_resource_version(api: Context) {
    api.define_things(anything()).await;
    api.create_thing("a", json!({})).await;
    let answer = api
        .put(&api.custom("things/a"), &api.thing("a", json!({})))
        .await;
    let message = format!(
        "things.{} \"a\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update",
        api.group
    );
    let status = answer.refused(422, "Invalid", &message);
    assert_eq!(status["details"]["kind"], "things");
    let cause = &status["details"]["causes"][0];
    assert_eq!(cause["field"], "metadata.resourceVersion");
    assert_eq!(
        cause["message"],
        "Invalid value: 0: must be specified for an update"
    );
}

async fn replace_with_malformed_resource_version(api: Context) {
    let mut body = api.config_map("a", json!({})).await;
    body["metadata"]["resourceVersion"] = json!("abc");
    let answer = api.put(&api.core("configmaps/a"), &body).await;
    answer.refused(
        500,
        "",
        "strconv.ParseUint: parsing \"abc\": invalid syntax",
    );
}

async fn replace_with_other_name_is_refused(api: Context) {
    api.config_map("a", json!({})).await;
    let answer = api.put(&api.core("configmaps/a"), &config_map("b")).await;
    let message = "the name of the object (b) does not match the name on the URL (a)";
    answer.refused(400, "BadRequest", message);
}

async fn replace_without_name_is_refused(api: Context) {
    api.config_map("a", json!({})).await;
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}});
    let answer = api.put(&api.core("configmaps/a"), &body).await;
    let message =
        "the name of the object (a based on URL) was undeterminable: name must be provided";
    answer.refused(400, "BadRequest", message);
}

async fn replace_with_other_namespace_is_refused(api: Context) {
    let mut body = api.config_map("a", json!({})).await;
    body["metadata"]["namespace"] = json!("other");
    let answer = api.put(&api.core("configmaps/a"), &body).await;
    answer.refused(400, "BadRequest", OTHER_NAMESPACE);
}

async fn replace_with_other_uid_is_refused(api: Context) {
    let created = api.config_map("a", json!({})).await;
    let mut body = config_map("a");
    body["metadata"]["uid"] = json!(OTHER_UID);
    let status = api
        .put(&api.core("configmaps/a"), &body)
        .await
        .refused_somehow(409, "Conflict");
    let expected = format!(
        "Precondition failed: UID in precondition: {OTHER_UID}, UID in object meta: {}",
        created["metadata"]["uid"].as_str().unwrap()
    );
    assert!(
        status["message"].as_str().unwrap().ends_with(&expected),
        "{status}"
    );
}

async fn creation_time_cannot_change(api: Context) {
    let created = api.config_map("a", json!({})).await;
    let mut body = config_map("a");
    body["metadata"]["creationTimestamp"] = json!("2020-01-01T00:00:00Z");
    let replaced = api
        .put(&api.core("configmaps/a"), &body)
        .await
        .expect_code(200);
    assert_eq!(
        replaced["metadata"]["creationTimestamp"],
        created["metadata"]["creationTimestamp"]
    );
}

async fn deletion_time_cannot_be_set(api: Context) {
    api.config_map("a", json!({})).await;
    let mut body = config_map("a");
    body["metadata"]["deletionTimestamp"] = json!("2020-01-01T00:00:00Z");
    let answer = api.put(&api.core("configmaps/a"), &body).await;
    let message = "ConfigMap \"a\" is invalid: metadata.deletionTimestamp: Invalid value: \
                   \"2020-01-01T00:00:00Z\": field is immutable";
    let status = answer.refused(422, "Invalid", message);
    assert_eq!(
        status["details"]["causes"][0]["field"],
        "metadata.deletionTimestamp"
    );
}

async fn generation_cannot_be_set(api: Context) {
    api.define_things(anything()).await;
    api.create_thing("a", json!({"metadata": {"generation": 7}}))
        .await;
    let patch = json!({"metadata": {"generation": 99}});
    let patched = api
        .merge(&api.custom("things/a"), &patch)
        .await
        .expect_code(200);
    assert_eq!(patched["metadata"]["generation"], 1);
}

async fn cluster_scope(api: Context) {
    let mut definition = api.things(json!([version("v1", anything())]));
    definition["spec"]["scope"] = json!("Cluster");
    api.define(&definition).await;
    let things = format!("/apis/{}/v1/things", api.group);
    let thing = api.thing("a", json!({"metadata": {"namespace": "ignored"}}));
    let created = api.post(&things, &thing).await.expect_code(201);
    assert_eq!(created["metadata"]["namespace"], Value::Null);
    assert_eq!(api.get(&things).await.names(), ["a"]);
    let answer = api.get(&api.custom("things")).await;
    assert_eq!(answer.text, "404 page not found\n");
    answer.expect_code(404);
}

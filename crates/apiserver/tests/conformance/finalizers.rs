//! Finalizers.

use serde_json::{Value, json};

use crate::support::{Context, anything, cases, config_map, resource_version};

cases!("finalizers":
    finalizer_holds_the_object, last_finalizer_lets_it_go, deleting_again_changes_nothing,
    deletion_time_cannot_be_taken_back, no_finalizer_can_be_added_while_deleting,
    object_being_deleted_can_be_changed, name_is_taken_while_deleting,
    deletion_raises_generation_of_custom, preconditions_hold_while_deleting,
    removing_finalizers_without_deletion_keeps_it, custom_finalizers_may_be_short,
    delete_collection_waits_for_finalizers,
);

/// A ConfigMap `f` with one finalizer that has been deleted, and its path.
async fn deleting(api: &Context) -> (String, Value) {
    api.config_map(
        "f",
        json!({"metadata": {"finalizers": ["example.com/one", "example.com/two"]}}),
    )
    .await;
    let path = api.core("configmaps/f");
    let deleted = api.delete(&path).await.expect_code(200);
    (path, deleted)
}

async fn finalizer_holds_the_object(api: Context) {
    let (path, deleted) = deleting(&api).await;
    assert_eq!(deleted["kind"], "ConfigMap");
    assert!(deleted["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(deleted["metadata"]["deletionGracePeriodSeconds"], 0);
    assert_eq!(api.get(&path).await.expect_code(200), deleted);
}

async fn last_finalizer_lets_it_go(api: Context) {
    let (path, deleted) = deleting(&api).await;
    let patch = json!({"metadata": {"finalizers": ["example.com/two"]}});
    let patched = api.merge(&path, &patch).await.expect_code(200);
    assert_ne!(resource_version(&patched), resource_version(&deleted));
    let patch = json!({"metadata": {"finalizers": null}});
    let last = api.merge(&path, &patch).await.expect_code(200);
    assert_eq!(last["metadata"]["finalizers"], Value::Null);
    assert_eq!(resource_version(&last), resource_version(&patched));
    api.get(&path)
        .await
        .refused(404, "NotFound", "configmaps \"f\" not found");
}

async fn deleting_again_changes_nothing(api: Context) {
    let (path, deleted) = deleting(&api).await;
    assert_eq!(api.delete(&path).await.expect_code(200), deleted);
    assert_eq!(
        api.delete(&format!("{path}?gracePeriodSeconds=30"))
            .await
            .expect_code(200),
        deleted
    );
}

async fn deletion_time_cannot_be_taken_back(api: Context) {
    let (path, deleted) = deleting(&api).await;
    let patch = json!({"metadata": {"deletionTimestamp": null}});
    assert_eq!(api.merge(&path, &patch).await.expect_code(200), deleted);
}

async fn no_finalizer_can_be_added_while_deleting(api: Context) {
    let (path, _) = deleting(&api).await;
    let patch = json!({"metadata": {"finalizers": ["example.com/one", "example.com/new"]}});
    let answer = api.merge(&path, &patch).await;
    let forbidden = "Forbidden: no new finalizers can be added if the object is being deleted, found \
                     new finalizers []string{\"example.com/new\"}";
    let message = format!("ConfigMap \"f\" is invalid: metadata.finalizers: {forbidden}");
    let status = answer.refused(422, "Invalid", &message);
    let cause = &status["details"]["causes"][0];
    assert_eq!(cause["reason"], "FieldValueForbidden");
    assert_eq!(cause["field"], "metadata.finalizers");
    assert_eq!(cause["message"], forbidden);
}

async fn object_being_deleted_can_be_changed(api: Context) {
    let (path, _) = deleting(&api).await;
    let patched = api
        .merge(&path, &json!({"data": {"k": "v"}}))
        .await
        .expect_code(200);
    assert_eq!(patched["data"], json!({"k": "v"}));
}

async fn name_is_taken_while_deleting(api: Context) {
    deleting(&api).await;
    let answer = api.post(&api.core("configmaps"), &config_map("f")).await;
    let message = "object is being deleted: configmaps \"f\" already exists";
    let status = answer.refused(409, "AlreadyExists", message);
    assert_eq!(
        status["details"],
        json!({"name": "f", "kind": "configmaps"})
    );
}

async fn deletion_raises_generation_of_custom(api: Context) {
    api.define_things(anything()).await;
    api.create_thing("a", json!({"metadata": {"finalizers": ["example.com/f"]}}))
        .await;
    let deleted = api.delete(&api.custom("things/a")).await.expect_code(200);
    assert_eq!(deleted["kind"], "Thing");
    assert_eq!(deleted["metadata"]["generation"], 2);
}

async fn preconditions_hold_while_deleting(api: Context) {
    let (path, _) = deleting(&api).await;
    let options = json!({"preconditions": {"uid": "11111111-1111-1111-1111-111111111111"}});
    api.delete_with(&path, &options)
        .await
        .refused_somehow(409, "Conflict");
}

async fn removing_finalizers_without_deletion_keeps_it(api: Context) {
    api.config_map(
        "f",
        json!({"metadata": {"finalizers": ["example.com/one"]}}),
    )
    .await;
    let path = api.core("configmaps/f");
    api.merge(&path, &json!({"metadata": {"finalizers": []}}))
        .await
        .expect_code(200);
    let got = api.get(&path).await.expect_code(200);
    assert_eq!(got["metadata"]["deletionTimestamp"], Value::Null);
}

async fn custom_finalizers_may_be_short(api: Context) {
    api.define_things(anything()).await;
    api.create_thing("a", json!({"metadata": {"finalizers": ["short"]}}))
        .await;
}

async fn delete_collection_waits_for_finalizers(api: Context) {
    api.config_map(
        "f",
        json!({"metadata": {"finalizers": ["example.com/one"]}}),
    )
    .await;
    api.config_map("g", json!({})).await;
    assert_eq!(
        api.delete(&api.core("configmaps")).await.names(),
        ["f", "g"]
    );
    let list = api.get(&api.core("configmaps")).await;
    assert_eq!(list.names(), ["f"]);
    assert!(list.body["items"][0]["metadata"]["deletionTimestamp"].is_string());
}

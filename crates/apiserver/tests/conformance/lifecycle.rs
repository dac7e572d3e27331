//! How objects end: finalizers, garbage collection, namespaces.

use serde_json::{Value, json};

use crate::support::{Context, anything, cases, config_map, resource_version};

cases!("lifecycle":
    finalizer_holds_the_object, last_finalizer_lets_it_go, deleting_again_changes_nothing,
    deletion_time_cannot_be_taken_back, no_finalizer_can_be_added_while_deleting,
    object_being_deleted_can_be_changed, name_is_taken_while_deleting,
    deletion_raises_generation_of_custom, preconditions_hold_while_deleting,
    removing_finalizers_without_deletion_keeps_it, custom_finalizers_may_be_short,
    delete_collection_waits_for_finalizers, dependents_go_with_their_owner,
    dependents_of_custom_owners_go, dependents_go_in_turn, dependent_of_nobody_goes,
    dependent_with_wrong_uid_goes, dependent_stays_while_one_owner_lives,
    dependent_with_finalizer_waits, cluster_owner, new_namespace_is_active,
    namespace_deletion_empties_it, namespace_waits_for_finalizers,
    terminating_namespace_refuses_new_objects, terminating_namespace_allows_changes,
    default_namespace_cannot_be_deleted, namespace_names_are_labels,
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

/// Owner references to these objects.
fn owned_by(owners: &[&Value]) -> Value {
    let reference = |owner: &&Value| {
        json!({
            "apiVersion": owner["apiVersion"], "kind": owner["kind"],
            "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        })
    };
    json!({"metadata": {"ownerReferences": owners.iter().map(reference).collect::<Vec<_>>()}})
}

/// A ConfigMap that never existed.
fn nobody() -> Value {
    let metadata = json!({"name": "nobody", "uid": "11111111-1111-1111-1111-111111111111"});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
}

async fn dependents_go_with_their_owner(api: Context) {
    let owner = api.config_map("owner", json!({})).await;
    api.config_map("dependent", owned_by(&[&owner])).await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "secret",
        "ownerReferences": owned_by(&[&owner])["metadata"]["ownerReferences"]}});
    api.post(&api.core("secrets"), &secret)
        .await
        .expect_code(201);
    api.config_map("bystander", json!({})).await;
    let options = json!({"propagationPolicy": "Background"});
    api.delete_with(&api.core("configmaps/owner"), &options)
        .await
        .expect_code(200);
    api.wait_gone(&api.core("configmaps/dependent")).await;
    api.wait_gone(&api.core("secrets/secret")).await;
    api.get(&api.core("configmaps/bystander"))
        .await
        .expect_code(200);
}

async fn dependents_of_custom_owners_go(api: Context) {
    api.define_things(anything()).await;
    let owner = api.create_thing("owner", json!({})).await;
    api.config_map("dependent", owned_by(&[&owner])).await;
    api.create_thing("dependent", owned_by(&[&owner])).await;
    api.delete(&api.custom("things/owner"))
        .await
        .expect_code(200);
    api.wait_gone(&api.core("configmaps/dependent")).await;
    api.wait_gone(&api.custom("things/dependent")).await;
}

async fn dependents_go_in_turn(api: Context) {
    let owner = api.config_map("owner", json!({})).await;
    let child = api.config_map("child", owned_by(&[&owner])).await;
    api.config_map("grandchild", owned_by(&[&child])).await;
    api.delete(&api.core("configmaps/owner"))
        .await
        .expect_code(200);
    api.wait_gone(&api.core("configmaps/grandchild")).await;
    api.wait_gone(&api.core("configmaps/child")).await;
}

async fn dependent_of_nobody_goes(api: Context) {
    api.config_map("dependent", owned_by(&[&nobody()])).await;
    api.wait_gone(&api.core("configmaps/dependent")).await;
}

async fn dependent_with_wrong_uid_goes(api: Context) {
    let mut owner = api.config_map("owner", json!({})).await;
    owner["metadata"]["uid"] = json!("22222222-2222-2222-2222-222222222222");
    api.config_map("dependent", owned_by(&[&owner])).await;
    api.wait_gone(&api.core("configmaps/dependent")).await;
    api.get(&api.core("configmaps/owner"))
        .await
        .expect_code(200);
}

async fn dependent_stays_while_one_owner_lives(api: Context) {
    let first = api.config_map("first", json!({})).await;
    let second = api.config_map("second", json!({})).await;
    api.config_map("dependent", owned_by(&[&first, &second]))
        .await;
    api.delete(&api.core("configmaps/first"))
        .await
        .expect_code(200);
    let path = api.core("configmaps/dependent");
    // The reference to the owner that is gone is removed; the other one stays.
    let expected = owned_by(&[&second])["metadata"]["ownerReferences"].take();
    api.wait_for(&path, |answer| {
        answer.body["metadata"]["ownerReferences"] == expected
    })
    .await;
    api.delete(&api.core("configmaps/second"))
        .await
        .expect_code(200);
    api.wait_gone(&path).await;
}

async fn dependent_with_finalizer_waits(api: Context) {
    let owner = api.config_map("owner", json!({})).await;
    let mut dependent = owned_by(&[&owner]);
    dependent["metadata"]["finalizers"] = json!(["example.com/f"]);
    api.config_map("dependent", dependent).await;
    api.delete(&api.core("configmaps/owner"))
        .await
        .expect_code(200);
    let path = api.core("configmaps/dependent");
    api.wait_for(&path, |answer| {
        answer.body["metadata"]["deletionTimestamp"].is_string()
    })
    .await;
    api.merge(&path, &json!({"metadata": {"finalizers": null}}))
        .await
        .expect_code(200);
    api.get(&path).await.expect_code(404);
}

async fn cluster_owner(api: Context) {
    let name = format!("{}-owner", api.namespace);
    api.create_namespace(&name).await;
    let owner = api
        .get(&format!("/api/v1/namespaces/{name}"))
        .await
        .expect_code(200);
    api.config_map("dependent", owned_by(&[&owner])).await;
    api.delete(&format!("/api/v1/namespaces/{name}"))
        .await
        .expect_code(200);
    api.wait_gone(&api.core("configmaps/dependent")).await;
}

async fn new_namespace_is_active(api: Context) {
    let namespace = api
        .get(&format!("/api/v1/namespaces/{}", api.namespace))
        .await
        .expect_code(200);
    assert_eq!(namespace["status"], json!({"phase": "Active"}));
    assert_eq!(namespace["spec"], json!({"finalizers": ["kubernetes"]}));
    let labels = json!({"kubernetes.io/metadata.name": api.namespace});
    assert_eq!(namespace["metadata"]["labels"], labels);
}

async fn namespace_deletion_empties_it(api: Context) {
    api.define_things(anything()).await;
    api.config_map("a", json!({})).await;
    api.create_thing("a", json!({})).await;
    let path = format!("/api/v1/namespaces/{}", api.namespace);
    let deleted = api.delete(&path).await.expect_code(200);
    assert_eq!(deleted["kind"], "Namespace");
    assert_eq!(deleted["status"]["phase"], "Terminating");
    assert!(deleted["metadata"]["deletionTimestamp"].is_string());
    api.wait_gone(&path).await;
    api.get(&api.core("configmaps/a")).await.expect_code(404);
    assert!(
        api.get(&format!("/apis/{}/v1/things", api.group))
            .await
            .names()
            .is_empty()
    );
}

/// Deletes the case's namespace, which one object keeps from ending, and gives its path.
async fn terminating(api: &Context) -> String {
    api.config_map(
        "stays",
        json!({"metadata": {"finalizers": ["example.com/f"]}}),
    )
    .await;
    api.config_map("goes", json!({})).await;
    let path = format!("/api/v1/namespaces/{}", api.namespace);
    api.delete(&path).await.expect_code(200);
    path
}

async fn namespace_waits_for_finalizers(api: Context) {
    let path = terminating(&api).await;
    api.wait_gone(&api.core("configmaps/goes")).await;
    let stays = api.core("configmaps/stays");
    api.wait_for(&stays, |answer| {
        answer.body["metadata"]["deletionTimestamp"].is_string()
    })
    .await;
    let namespace = api.get(&path).await.expect_code(200);
    assert_eq!(namespace["status"]["phase"], "Terminating");
    api.merge(&stays, &json!({"metadata": {"finalizers": null}}))
        .await
        .expect_code(200);
    api.wait_gone(&path).await;
}

async fn terminating_namespace_refuses_new_objects(api: Context) {
    terminating(&api).await;
    let answer = api.post(&api.core("configmaps"), &config_map("late")).await;
    let message = format!(
        "configmaps \"late\" is forbidden: unable to create new content in namespace {} because it is being terminated",
        api.namespace
    );
    let status = answer.refused(403, "Forbidden", &message);
    let cause = json!({
        "reason": "NamespaceTerminating", "field": "metadata.namespace",
        "message": format!("namespace {} is being terminated", api.namespace),
    });
    assert_eq!(
        status["details"],
        json!({"name": "late", "kind": "configmaps", "causes": [cause]})
    );
}

async fn terminating_namespace_allows_changes(api: Context) {
    terminating(&api).await;
    let path = api.core("configmaps/stays");
    api.merge(&path, &json!({"data": {"k": "v"}}))
        .await
        .expect_code(200);
    let answer = api
        .post(
            "/api/v1/namespaces",
            &json!({"metadata": {"name": api.namespace}}),
        )
        .await;
    let message = format!(
        "object is being deleted: namespaces \"{}\" already exists",
        api.namespace
    );
    answer.refused(409, "AlreadyExists", &message);
}

async fn default_namespace_cannot_be_deleted(api: Context) {
    let answer = api.delete("/api/v1/namespaces/default").await;
    let message = "namespaces \"default\" is forbidden: this namespace may not be deleted";
    let status = answer.refused(403, "Forbidden", message);
    assert_eq!(
        status["details"],
        json!({"name": "default", "kind": "namespaces"})
    );
}

async fn namespace_names_are_labels(api: Context) {
    let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "with.dot"}});
    let status = api
        .post("/api/v1/namespaces", &body)
        .await
        .refused_somehow(422, "Invalid");
    let expected = "Invalid value: \"with.dot\": a lowercase RFC 1123 label must consist of lower case \
                    alphanumeric characters or '-', and must start and end with an alphanumeric character \
                    (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
    assert_eq!(status["details"]["causes"][0]["message"], expected);
}

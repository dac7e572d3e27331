//! The life of a namespace.

use serde_json::json;

use crate::support::{Context, anything, cases, config_map};

cases!("namespaces":
    new_namespace_is_active, namespace_deletion_empties_it, namespace_waits_for_finalizers,
    terminating_namespace_refuses_new_objects, terminating_namespace_allows_changes,
    default_namespace_cannot_be_deleted, namespace_names_are_labels,
);

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
    let label = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and \
                 must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used \
                 for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
    for (name, invalid) in [
        ("with.dot", "must not contain dots"),
        ("With.Dot", label),
        ("-x", label),
    ] {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let status = api
            .post("/api/v1/namespaces", &body)
            .await
            .refused_somehow(422, "Invalid");
        let expected = format!("Invalid value: \"{name}\": {invalid}");
        assert_eq!(status["details"]["causes"][0]["message"], expected);
    }
}

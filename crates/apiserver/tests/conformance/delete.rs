//! Deleting objects and collections, and dry runs of every verb.

use serde_json::{Value, json};

use crate::support::{Context, OTHER_UID, anything, cases, config_map, resource_version};

cases!("delete":
    delete_answers_with_status, delete_custom_answers_with_status, delete_missing,
    delete_with_other_uid_is_refused, delete_with_other_version_is_refused,
    delete_with_right_preconditions, delete_with_unknown_policy_is_refused,
    delete_collection_gives_what_it_deleted, delete_collection_selects, dry_run_create,
    dry_run_replace_and_patch, dry_run_delete, dry_run_delete_collection, dry_run_must_be_all,
);

async fn delete_answers_with_status(api: Context) {
    let created = api.config_map("a", json!({})).await;
    let answer = api.delete(&api.core("configmaps/a")).await.expect_code(200);
    assert_eq!(
        answer,
        json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": {"name": "a", "kind": "configmaps", "uid": created["metadata"]["uid"]},
        })
    );
    api.get(&api.core("configmaps/a")).await.expect_code(404);
}

async fn delete_custom_answers_with_status(api: Context) {
    api.define_things(anything()).await;
    let created = api.create_thing("a", json!({})).await;
    let answer = api.delete(&api.custom("things/a")).await.expect_code(200);
    let uid = &created["metadata"]["uid"];
    assert_eq!(answer["status"], "Success");
    assert_eq!(
        answer["details"],
        json!({"name": "a", "group": api.group, "kind": "things", "uid": uid})
    );
}

async fn delete_missing(api: Context) {
    let answer = api.delete(&api.core("configmaps/a")).await;
    answer.refused(404, "NotFound", "configmaps \"a\" not found");
}

async fn delete_with_other_uid_is_refused(api: Context) {
    let created = api.config_map("a", json!({})).await;
    let options = json!({"preconditions": {"uid": OTHER_UID}});
    let answer = api.delete_with(&api.core("configmaps/a"), &options).await;
    let message = format!(
        "Operation cannot be fulfilled on ConfigMap \"a\": the UID in the precondition ({OTHER_UID}) \
         does not match the UID in record ({}). The object might have been deleted and then recreated",
        created["metadata"]["uid"].as_str().unwrap()
    );
    let status = answer.refused(409, "Conflict", &message);
    assert_eq!(status["details"], json!({"name": "a", "kind": "ConfigMap"}));
}

async fn delete_with_other_version_is_refused(api: Context) {
    let created = api.config_map("a", json!({})).await;
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"resourceVersion": "1"}});
    let answer = api.delete_with(&api.core("configmaps/a"), &options).await;
    let message = format!(
        "Operation cannot be fulfilled on ConfigMap \"a\": the ResourceVersion in the precondition (1) \
         does not match the ResourceVersion in record ({}). The object might have been modified",
        resource_version(&created)
    );
    answer.refused(409, "Conflict", &message);
}

async fn delete_with_right_preconditions(api: Context) {
    let created = api.config_map("a", json!({})).await;
    let metadata = &created["metadata"];
    let preconditions =
        json!({"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]});
    let options = json!({"preconditions": preconditions, "propagationPolicy": "Background"});
    api.delete_with(&api.core("configmaps/a"), &options)
        .await
        .expect_code(200);
}

async fn delete_with_unknown_policy_is_refused(api: Context) {
    api.config_map("a", json!({})).await;
    let options = json!({"propagationPolicy": "Nope"});
    let answer = api.delete_with(&api.core("configmaps/a"), &options).await;
    let message = "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Unsupported value: \
                   \"Nope\": supported values: \"Foreground\", \"Background\", \"Orphan\", \"nil\"";
    let status = answer.refused(422, "Invalid", message);
    assert_eq!(status["details"]["group"], "meta.k8s.io");
    assert_eq!(status["details"]["kind"], "DeleteOptions");
    api.get(&api.core("configmaps/a")).await.expect_code(200);
}

async fn delete_collection_gives_what_it_deleted(api: Context) {
    api.define_things(anything()).await;
    api.create_thing("b", json!({})).await;
    api.create_thing("a", json!({})).await;
    let answer = api.delete(&api.custom("things")).await;
    assert_eq!(answer.names(), ["a", "b"]);
    assert_eq!(answer.body["kind"], "ThingList");
    assert!(api.get(&api.custom("things")).await.names().is_empty());
}

async fn delete_collection_selects(api: Context) {
    api.config_map("a", json!({"metadata": {"labels": {"go": "yes"}}}))
        .await;
    api.config_map("b", json!({"metadata": {"labels": {"go": "yes"}}}))
        .await;
    api.config_map("c", json!({})).await;
    let path = api.core("configmaps?labelSelector=go%3Dyes&fieldSelector=metadata.name!%3Db");
    assert_eq!(api.delete(&path).await.names(), ["a"]);
    assert_eq!(api.get(&api.core("configmaps")).await.names(), ["b", "c"]);
}

async fn dry_run_create(api: Context) {
    let path = api.core("configmaps?dryRun=All");
    let created = api.post(&path, &config_map("a")).await.expect_code(201);
    assert_eq!(created["metadata"]["resourceVersion"], Value::Null);
    assert!(created["metadata"]["uid"].is_string());
    api.get(&api.core("configmaps/a")).await.expect_code(404);
    api.config_map("a", json!({})).await;
    api.post(&path, &config_map("a"))
        .await
        .refused_somehow(409, "AlreadyExists");
}

async fn dry_run_replace_and_patch(api: Context) {
    let created = api.config_map("a", json!({"data": {"k": "v"}})).await;
    let path = api.core("configmaps/a?dryRun=All");
    let mut body = config_map("a");
    body["data"] = json!({"k": "w"});
    let replaced = api.put(&path, &body).await.expect_code(200);
    assert_eq!(replaced["data"]["k"], "w");
    assert_eq!(resource_version(&replaced), resource_version(&created));
    let patched = api
        .merge(&path, &json!({"data": {"k": "x"}}))
        .await
        .expect_code(200);
    assert_eq!(patched["data"]["k"], "x");
    assert_eq!(
        api.get(&api.core("configmaps/a")).await.expect_code(200),
        created
    );
}

async fn dry_run_delete(api: Context) {
    api.config_map("a", json!({})).await;
    let answer = api
        .delete(&api.core("configmaps/a?dryRun=All"))
        .await
        .expect_code(200);
    assert_eq!(answer["status"], "Success");
    api.delete_with(&api.core("configmaps/a"), &json!({"dryRun": ["All"]}))
        .await
        .expect_code(200);
    api.get(&api.core("configmaps/a")).await.expect_code(200);
}

async fn dry_run_delete_collection(api: Context) {
    api.config_map("a", json!({})).await;
    assert_eq!(
        api.delete(&api.core("configmaps?dryRun=All")).await.names(),
        ["a"]
    );
    api.get(&api.core("configmaps/a")).await.expect_code(200);
}

async fn dry_run_must_be_all(api: Context) {
    let unsupported = "dryRun: Unsupported value: [\"Some\"]: supported values: \"All\"";
    let answer = api
        .post(&api.core("configmaps?dryRun=Some"), &config_map("a"))
        .await;
    let message = format!("CreateOptions.meta.k8s.io \"\" is invalid: {unsupported}");
    answer.refused(422, "Invalid", &message);
    let answer = api.delete(&api.core("configmaps/a?dryRun=Some")).await;
    let message = format!("DeleteOptions.meta.k8s.io \"\" is invalid: {unsupported}");
    answer.refused(422, "Invalid", &message);
    api.get(&api.core("configmaps/a")).await.expect_code(404);
}

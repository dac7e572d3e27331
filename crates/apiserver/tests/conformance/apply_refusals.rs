//! Configurations that cannot be applied.

use http::Method;
use serde_json::json;

use crate::apply::{applied, attempt, schema};
use crate::support::{Context, anything, cases, resource_version};

cases!("apply_refusals":
    needs_a_manager, must_be_of_the_kind, must_be_yaml, managed_fields_are_not_applied,
    unknown_fields_are_refused, misfits_are_refused, name_must_fit, name_of_missing_is_needed,
    uid_of_missing_is_a_conflict, stale_version_is_refused, force_is_for_apply_only,
);

async fn needs_a_manager(api: Context) {
    api.define_things(schema()).await;
    let answer = attempt(&api, "", json!({})).await;
    let message = "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch";
    answer.refused(422, "Invalid", message);
}

async fn must_be_of_the_kind(api: Context) {
    api.define_things(schema()).await;
    let path = api.custom("things/a");
    let config = json!({"apiVersion": format!("{}/v2", api.group), "kind": "Thing"});
    let message = format!("invalid object type: {}/v2, Kind=Thing", api.group);
    api.apply(&path, "one", &config)
        .await
        .refused(400, "BadRequest", &message);
    let config = json!({"spec": {}});
    api.apply(&path, "one", &config).await.refused(
        400,
        "BadRequest",
        "invalid object type: /, Kind=",
    );
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    api.apply(&path, "one", &config).await.refused(
        400,
        "BadRequest",
        "invalid object type: /v1, Kind=ConfigMap",
    );
}

async fn must_be_yaml(api: Context) {
    api.define_things(schema()).await;
    let path = api.custom("things/a?fieldManager=one");
    let answer = api
        .send(Method::PATCH, &path, "application/apply-patch+yaml", "[1")
        .await;
    let status = answer.refused_somehow(400, "BadRequest");
    let expected = "error decoding YAML: error converting YAML to JSON: yaml: ";
    assert!(
        status["message"].as_str().unwrap().starts_with(expected),
        "{status}"
    );
    let yaml = format!(
        "apiVersion: {}/v1\nkind: Thing\nmetadata: {{name: a}}\nspec:\n  color: red\n",
        api.group
    );
    let answer = api
        .send(Method::PATCH, &path, "application/apply-patch+yaml", yaml)
        .await;
    let created = answer.expect_code(201);
    assert_eq!(created["metadata"]["name"], "a");
}

async fn managed_fields_are_not_applied(api: Context) {
    api.define_things(schema()).await;
    let config = api.thing("a", json!({"metadata": {"managedFields": []}}));
    let answer = api.apply(&api.custom("things/a"), "one", &config).await;
    answer.refused(400, "BadRequest", "metadata.managedFields must be nil");
}

async fn unknown_fields_are_refused(api: Context) {
    api.define_things(schema()).await;
    let answer = attempt(&api, "one", json!({"colour": "red"})).await;
    let message = format!(
        "failed to create typed patch object (/a; {}/v1, Kind=Thing): .spec.colour: field not declared in schema",
        api.group
    );
    answer.refused(500, "", &message);
}

async fn misfits_are_refused(api: Context) {
    api.define_things(schema()).await;
    let answer = attempt(&api, "one", json!({"color": 1})).await;
    let message = format!(
        "failed to create typed patch object (/a; {}/v1, Kind=Thing): .spec.color: expected string, got &value.valueUnstructured{{Value:1}}",
        api.group
    );
    answer.refused(500, "", &message);
    for spec in [
        json!({"size": "x"}),
        json!({"list": {}}),
        json!({"deep": []}),
        json!([]),
    ] {
        attempt(&api, "one", spec).await.refused_somehow(500, "");
    }
}

async fn name_must_fit(api: Context) {
    api.define_things(schema()).await;
    let config = api.thing("b", json!({}));
    let answer = api.apply(&api.custom("things/a"), "one", &config).await;
    let message = "the name of the object (b) does not match the name on the URL (a)";
    answer.refused(400, "BadRequest", message);
}

async fn name_of_missing_is_needed(api: Context) {
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap"});
    let answer = api.apply(&api.core("configmaps/a"), "one", &config).await;
    let message =
        "the name of the object (a based on URL) was undeterminable: name must be provided";
    answer.refused(400, "BadRequest", message);
}

async fn uid_of_missing_is_a_conflict(api: Context) {
    api.define_things(schema()).await;
    let uid = crate::support::OTHER_UID;
    let config = api.thing("a", json!({"metadata": {"uid": uid}}));
    let answer = api.apply(&api.custom("things/a"), "one", &config).await;
    let message = format!(
        "Operation cannot be fulfilled on things.{} \"a\": uid mismatch: the provided object specified uid {uid}, and no existing object was found",
        api.group
    );
    answer.refused(409, "Conflict", &message);
}

async fn stale_version_is_refused(api: Context) {
    api.define_things(schema()).await;
    let created = applied(&api, "one", json!({"color": "red"})).await;
    let current = resource_version(&created).to_owned();
    let path = api.custom("things/a");
    let config = |version: &str, color: &str| {
        let metadata = json!({"resourceVersion": version});
        api.thing("a", json!({"metadata": metadata, "spec": {"color": color}}))
    };
    api.apply(&path, "one", &config("1", "blue"))
        .await
        .refused_somehow(409, "Conflict");
    api.apply(&path, "one", &config(&current, "blue"))
        .await
        .expect_code(200);
}

async fn force_is_for_apply_only(api: Context) {
    api.define_things(anything()).await;
    api.create_thing("a", json!({})).await;
    let answer = api
        .merge(&api.custom("things/a?force=true"), &json!({}))
        .await;
    let message = "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch";
    answer.refused(422, "Invalid", message);
}

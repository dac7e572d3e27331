//! The status subresource and the generation.

use serde_json::{Value, json};

use crate::support::{Context, anything, cases, resource_version, spec_schema, version};

cases!("status":
    generation_follows_spec, generation_without_status_subresource, status_is_dropped_on_create,
    status_is_ignored_on_main, spec_is_ignored_on_status, status_replace_needs_current_version,
    status_of_missing, status_without_subresource, status_cannot_be_created_or_deleted,
    status_patches_leave_the_rest, refusals_show_the_whole_object,
);

/// Merges a patch and gives the generation afterwards.
async fn generation_after(api: &Context, path: &str, patch: Value) -> i64 {
    let patched = api.merge(path, &patch).await.expect_code(200);
    patched["metadata"]["generation"].as_i64().unwrap()
}

async fn generation_follows_spec(api: Context) {
    api.define_things(anything()).await;
    let created = api.create_thing("a", json!({"spec": {"x": 1}})).await;
    assert_eq!(created["metadata"]["generation"], 1);
    let (main, status) = (api.custom("things/a"), api.custom("things/a/status"));
    assert_eq!(
        generation_after(&api, &main, json!({"metadata": {"labels": {"l": "1"}}})).await,
        1
    );
    assert_eq!(
        generation_after(&api, &main, json!({"spec": {"x": 1}})).await,
        1
    );
    assert_eq!(
        generation_after(&api, &main, json!({"spec": {"x": 2}})).await,
        2
    );
    assert_eq!(
        generation_after(&api, &status, json!({"status": {"y": 1}})).await,
        2
    );
}

async fn generation_without_status_subresource(api: Context) {
    let mut plain = version("v1", anything());
    plain["subresources"] = json!({});
    api.define(&api.things(json!([plain]))).await;
    let created = api
        .create_thing("a", json!({"spec": {"x": 1}, "status": {"y": 1}}))
        .await;
    assert_eq!(created["status"], json!({"y": 1}));
    let main = api.custom("things/a");
    assert_eq!(
        generation_after(&api, &main, json!({"status": {"y": 2}})).await,
        2
    );
    assert_eq!(
        generation_after(&api, &main, json!({"metadata": {"labels": {"l": "1"}}})).await,
        2
    );
}

async fn status_is_dropped_on_create(api: Context) {
    api.define_things(anything()).await;
    let created = api
        .create_thing("a", json!({"spec": {"x": 1}, "status": {"y": 1}}))
        .await;
    assert_eq!(created["status"], Value::Null);
}

async fn status_is_ignored_on_main(api: Context) {
    api.define_things(anything()).await;
    let mut thing = api.create_thing("a", json!({"spec": {"x": 1}})).await;
    thing["spec"] = json!({"x": 2});
    thing["status"] = json!({"y": 1});
    let replaced = api
        .put(&api.custom("things/a"), &thing)
        .await
        .expect_code(200);
    assert_eq!(replaced["spec"], json!({"x": 2}));
    assert_eq!(replaced["status"], Value::Null);
}

async fn spec_is_ignored_on_status(api: Context) {
    api.define_things(anything()).await;
    let created = api
        .create_thing(
            "a",
            json!({"spec": {"x": 1}, "metadata": {"labels": {"l": "1"}}}),
        )
        .await;
    let patch = json!({
        "spec": {"x": 77}, "status": {"ok": true},
        "metadata": {"labels": {"l": "2"}, "annotations": {"n": "1"}, "finalizers": ["example.com/f"]},
    });
    let patched = api
        .merge(&api.custom("things/a/status"), &patch)
        .await
        .expect_code(200);
    assert_eq!(patched["spec"], json!({"x": 1}));
    assert_eq!(patched["status"], json!({"ok": true}));
    assert_eq!(patched["metadata"]["labels"], json!({"l": "1"}));
    assert_eq!(patched["metadata"]["annotations"], Value::Null);
    assert_eq!(patched["metadata"]["finalizers"], Value::Null);
    assert_ne!(resource_version(&patched), resource_version(&created));
    assert_eq!(
        api.get(&api.custom("things/a/status"))
            .await
            .expect_code(200),
        patched
    );
}

async fn status_replace_needs_current_version(api: Context) {
    api.define_things(anything()).await;
    let mut thing = api.create_thing("a", json!({})).await;
    let path = api.custom("things/a/status");
    api.put(&path, &api.thing("a", json!({"status": {"x": 1}})))
        .await
        .refused_somehow(422, "Invalid");
    thing["status"] = json!({"x": 1});
    let replaced = api.put(&path, &thing).await.expect_code(200);
    assert_eq!(replaced["status"], json!({"x": 1}));
    thing["status"] = json!({"x": 2});
    api.put(&path, &thing)
        .await
        .refused_somehow(409, "Conflict");
}

async fn status_of_missing(api: Context) {
    api.define_things(anything()).await;
    let message = format!("things.{} \"a\" not found", api.group);
    api.get(&api.custom("things/a/status"))
        .await
        .refused(404, "NotFound", &message);
    let patch = json!({"status": {}});
    let answer = api.merge(&api.custom("things/a/status"), &patch).await;
    answer.refused(404, "NotFound", &message);
}

async fn status_without_subresource(api: Context) {
    let mut plain = version("v1", anything());
    plain["subresources"] = json!({});
    api.define(&api.things(json!([plain]))).await;
    api.create_thing("a", json!({})).await;
    let message = format!("things.{} \"a\" not found", api.group);
    api.get(&api.custom("things/a/status"))
        .await
        .refused(404, "NotFound", &message);
    api.config_map("a", json!({})).await;
    let message = "the server could not find the requested resource";
    api.get(&api.core("configmaps/a/status"))
        .await
        .refused(404, "NotFound", message);
}

async fn status_cannot_be_created_or_deleted(api: Context) {
    api.define_things(anything()).await;
    let thing = api.create_thing("a", json!({})).await;
    let path = api.custom("things/a/status");
    let message = |verb| {
        format!(
            "{verb} is not supported on resources of kind \"things.{}\"",
            api.group
        )
    };
    let status = api
        .post(&path, &thing)
        .await
        .refused(405, "MethodNotAllowed", &message("create"));
    assert_eq!(
        status["details"],
        json!({"group": api.group, "kind": "things"})
    );
    api.delete(&path)
        .await
        .refused(405, "MethodNotAllowed", &message("delete"));
}

async fn status_patches_leave_the_rest(api: Context) {
    let mut schema = spec_schema(json!({"color": {"type": "string", "default": "red"}}));
    schema["properties"]["status"] = json!({"type": "object", "properties": {
        "step": {"type": "integer"}, "phase": {"type": "string", "default": "New"},
    }});
    schema["properties"]["tail"] = json!({"type": "string"});
    api.define(&api.things(json!([version("v1", schema)])))
        .await;
    let fields =
        json!({"spec": {"color": "blue"}, "tail": "z", "metadata": {"labels": {"l": "1"}}});
    let created = api.create_thing("a", fields).await;
    let path = api.custom("things/a");
    let mut since = resource_version(&created).to_owned();
    for step in 1..4 {
        let patch = json!({"status": {"step": step}});
        let patched = api.merge(&format!("{path}/status"), &patch).await;
        let patched = patched.expect_code(200);
        for field in ["spec", "tail"] {
            assert_eq!(patched[field], created[field], "after {step}");
        }
        assert_eq!(patched["status"], json!({"step": step, "phase": "New"}));
        let owners = patched["metadata"]["managedFields"].as_array().unwrap();
        assert_eq!(owners[0], created["metadata"]["managedFields"][0]);
        assert_eq!(owners.len(), 2, "{owners:?}");
        assert_eq!(api.get(&path).await.expect_code(200), patched);
        let again = api.merge(&format!("{path}/status"), &patch).await;
        assert_eq!(again.expect_code(200), patched);
        let listed = api.get(&api.custom("things?labelSelector=l%3D1")).await;
        assert_eq!(listed.expect_code(200)["items"][0]["spec"], patched["spec"]);
        let query = format!("resourceVersion={since}");
        let (kind, object) = api.watch(&api.custom("things"), &query).await.next().await;
        assert_eq!((kind.as_str(), &object), ("MODIFIED", &patched));
        since = resource_version(&patched).to_owned();
    }
}

async fn refusals_show_the_whole_object(api: Context) {
    let mut schema = spec_schema(json!({"color": {"type": "string"}}));
    schema["properties"]["status"] =
        json!({"type": "object", "properties": {"step": {"type": "integer"}}});
    api.define(&api.things(json!([version("v1", schema)])))
        .await;
    api.create_thing("a", json!({"spec": {"color": "blue"}}))
        .await;
    let path = api.custom("things/a/status");
    let patch = json!({"status": {"step": 1}});
    api.merge(&path, &patch).await.expect_code(200);
    let path = format!("{path}?fieldValidation=Strict");
    let patch = json!({"status": {"other": 1}});
    let refused = api.merge(&path, &patch).await;
    let refused = refused.refused_somehow(422, "Invalid");
    let message = refused["message"].as_str().unwrap();
    assert!(
        message.contains("unknown field \"status.other\""),
        "{message}"
    );
    assert!(message.contains("blue"), "{message}");
}

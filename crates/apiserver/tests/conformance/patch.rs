//! Merge patches and JSON patches.

use http::Method;
use serde_json::{Value, json};

use crate::support::{Answer, Context, anything, cases, resource_version};

cases!("patch":
    merge_adds_replaces_and_removes, merge_of_nothing_changes_nothing,
    merge_creates_missing_parents, merge_must_be_an_object, merge_must_be_json,
    merge_of_missing, merge_with_current_version, merge_with_stale_version_is_refused,
    merge_with_malformed_version, merge_without_version_is_refused, merge_cannot_rename,
    merge_cannot_move, merge_cannot_change_identity, merge_may_drop_what_the_server_keeps,
    merge_cannot_change_kind, merge_is_validated, merge_accepts_a_charset,
    json_patch_applies_in_order, json_patch_escapes_paths, json_patch_replace_adds,
    json_patch_failures, json_patch_is_all_or_nothing, json_patch_must_be_a_list,
    json_patch_with_stale_version_is_refused, json_patch_of_missing, unknown_types_are_refused,
    collections_cannot_be_patched,
);

const REJECTED: &str = "the server rejected our request due to an error in our request";

/// A Thing named `a` with this spec, and its path.
async fn thing(api: &Context, spec: Value) -> String {
    api.define_things(anything()).await;
    api.create_thing("a", json!({"spec": spec})).await;
    api.custom("things/a")
}

async fn merge_adds_replaces_and_removes(api: Context) {
    let path = thing(
        &api,
        json!({"keep": 1, "gone": 2, "list": [1, 2], "deep": {"a": 1, "b": 2}}),
    )
    .await;
    let patch =
        json!({"spec": {"gone": null, "new": "x", "list": [3], "deep": {"b": null, "c": 3}}});
    let patched = api.merge(&path, &patch).await.expect_code(200);
    let expected = json!({"keep": 1, "new": "x", "list": [3], "deep": {"a": 1, "c": 3}});
    assert_eq!(patched["spec"], expected);
    assert_eq!(api.get(&path).await.expect_code(200), patched);
}

async fn merge_of_nothing_changes_nothing(api: Context) {
    let path = thing(&api, json!({"x": 1})).await;
    let before = api.get(&path).await.expect_code(200);
    assert_eq!(api.merge(&path, &json!({})).await.expect_code(200), before);
    assert_eq!(
        api.merge(&path, &json!({"spec": {"x": 1}}))
            .await
            .expect_code(200),
        before
    );
}

async fn merge_creates_missing_parents(api: Context) {
    let path = thing(&api, json!({})).await;
    let patch = json!({"spec": {"a": {"b": {"c": 1, "gone": null}}}});
    let patched = api.merge(&path, &patch).await.expect_code(200);
    assert_eq!(patched["spec"], json!({"a": {"b": {"c": 1}}}));
}

/// A patch that could not be read; the parser's words are not fixed.
#[track_caller]
fn undecodable(answer: Answer) {
    let status = answer.refused_somehow(400, "BadRequest");
    let message = status["message"].as_str().unwrap();
    assert!(message.starts_with("error decoding patch: "), "{message}");
}

async fn merge_must_be_an_object(api: Context) {
    let path = thing(&api, json!({})).await;
    undecodable(api.merge(&path, &json!([])).await);
    undecodable(api.merge(&path, &json!("x")).await);
    api.merge(&path, &json!(null))
        .await
        .refused_somehow(400, "BadRequest");
}

async fn merge_must_be_json(api: Context) {
    let path = thing(&api, json!({})).await;
    undecodable(
        api.send(Method::PATCH, &path, "application/merge-patch+json", "{bad")
            .await,
    );
}

async fn merge_of_missing(api: Context) {
    let answer = api.merge(&api.core("configmaps/a"), &json!({})).await;
    answer.refused(404, "NotFound", "configmaps \"a\" not found");
    api.define_things(anything()).await;
    let answer = api.merge(&api.custom("things/a"), &json!({})).await;
    answer.refused(
        404,
        "NotFound",
        &format!("things.{} \"a\" not found", api.group),
    );
}

async fn merge_with_current_version(api: Context) {
    let path = thing(&api, json!({})).await;
    let before = api.get(&path).await.expect_code(200);
    let patch =
        json!({"metadata": {"resourceVersion": resource_version(&before)}, "spec": {"x": 1}});
    let patched = api.merge(&path, &patch).await.expect_code(200);
    assert_eq!(patched["spec"], json!({"x": 1}));
    assert_ne!(resource_version(&patched), resource_version(&before));
}

async fn merge_with_stale_version_is_refused(api: Context) {
    let path = thing(&api, json!({})).await;
    let patch = json!({"metadata": {"resourceVersion": "1"}, "spec": {"x": 1}});
    let message = format!(
        "Operation cannot be fulfilled on things.{} \"a\": the object has been modified; please apply \
         your changes to the latest version and try again",
        api.group
    );
    api.merge(&path, &patch)
        .await
        .refused(409, "Conflict", &message);
    let patch = json!({"metadata": {"resourceVersion": "1"}, "status": {"x": 1}});
    let answer = api.merge(&api.custom("things/a/status"), &patch).await;
    answer.refused(409, "Conflict", &message);
    assert_eq!(api.get(&path).await.body["status"], Value::Null);
}

async fn merge_with_malformed_version(api: Context) {
    let path = thing(&api, json!({})).await;
    let patch = json!({"metadata": {"resourceVersion": "abc"}, "spec": {"x": 1}});
    let message = "strconv.ParseUint: parsing \"abc\": invalid syntax";
    api.merge(&path, &patch).await.refused(500, "", message);
}

async fn merge_without_version_is_refused(api: Context) {
    let path = thing(&api, json!({})).await;
    let patch = json!({"metadata": {"resourceVersion": null}, "spec": {"x": 1}});
    let status = api
        .merge(&path, &patch)
        .await
        .refused_somehow(422, "Invalid");
    assert_eq!(
        status["details"]["causes"][0]["field"],
        "metadata.resourceVersion"
    );
}

async fn merge_cannot_rename(api: Context) {
    let path = thing(&api, json!({})).await;
    let answer = api.merge(&path, &json!({"metadata": {"name": "b"}})).await;
    let message = "the name of the object (b) does not match the name on the URL (a)";
    answer.refused(400, "BadRequest", message);
    for patch in [
        json!({"metadata": {"name": null}}),
        json!({"metadata": null}),
    ] {
        let message =
            "the name of the object (a based on URL) was undeterminable: name must be provided";
        api.merge(&path, &patch)
            .await
            .refused(400, "BadRequest", message);
    }
}

async fn merge_cannot_move(api: Context) {
    let path = thing(&api, json!({})).await;
    let message =
        "the namespace of the provided object does not match the namespace sent on the request";
    let answer = api
        .merge(&path, &json!({"metadata": {"namespace": "b"}}))
        .await;
    answer.refused(400, "BadRequest", message);
}

async fn merge_cannot_change_identity(api: Context) {
    let path = thing(&api, json!({})).await;
    let uid = "11111111-1111-1111-1111-111111111111";
    let immutable = |field: &str, value: &str| {
        format!(
            "Thing.{} \"a\" is invalid: {field}: Invalid value: \"{value}\": field is immutable",
            api.group
        )
    };
    let answer = api.merge(&path, &json!({"metadata": {"uid": uid}})).await;
    let status = answer.refused(422, "Invalid", &immutable("metadata.uid", uid));
    assert_eq!(status["details"]["causes"][0]["field"], "metadata.uid");
    let time = "2020-01-01T00:00:00Z";
    let answer = api
        .merge(&path, &json!({"metadata": {"deletionTimestamp": time}}))
        .await;
    answer.refused(
        422,
        "Invalid",
        &immutable("metadata.deletionTimestamp", time),
    );
}

async fn merge_may_drop_what_the_server_keeps(api: Context) {
    let path = thing(&api, json!({})).await;
    let before = api.get(&path).await.expect_code(200);
    let patches = [
        json!({"metadata": {"uid": null}}),
        json!({"metadata": {"namespace": null}}),
        json!({"metadata": {"creationTimestamp": "2020-01-01T00:00:00Z"}}),
        json!({"metadata": {"creationTimestamp": null, "generation": null}}),
    ];
    for patch in patches {
        assert_eq!(api.merge(&path, &patch).await.expect_code(200), before);
    }
}

async fn merge_cannot_change_kind(api: Context) {
    let path = thing(&api, json!({})).await;
    let status = api
        .merge(&path, &json!({"kind": "Other"}))
        .await
        .refused_somehow(422, "Invalid");
    assert_eq!(status["details"]["causes"][0]["field"], "kind");
    let status = api
        .merge(&path, &json!({"apiVersion": "v1"}))
        .await
        .refused_somehow(422, "Invalid");
    assert_eq!(status["details"]["causes"][0]["field"], "apiVersion");
    api.merge(&path, &json!({"apiVersion": null, "kind": null}))
        .await
        .refused_somehow(422, "Invalid");
}

async fn merge_is_validated(api: Context) {
    let path = thing(&api, json!({})).await;
    let answer = api.merge(&path, &json!({"spec": "text"})).await;
    let invalid = "Invalid value: \"string\": spec in body must be of type object: \"string\"";
    let message = format!("Thing.{} \"a\" is invalid: spec: {invalid}", api.group);
    let status = answer.refused(422, "Invalid", &message);
    let cause = json!({"reason": "FieldValueTypeInvalid", "message": invalid, "field": "spec"});
    assert_eq!(status["details"]["causes"], json!([cause]));
}

async fn merge_accepts_a_charset(api: Context) {
    let path = thing(&api, json!({})).await;
    let content_type = "application/merge-patch+json; charset=utf-8";
    let body = json!({"spec": {"x": 6}}).to_string();
    let patched = api
        .send(Method::PATCH, &path, content_type, body)
        .await
        .expect_code(200);
    assert_eq!(patched["spec"], json!({"x": 6}));
}

async fn json_patch_applies_in_order(api: Context) {
    let path = thing(&api, json!({"x": 1})).await;
    let patch = json!([
        {"op": "test", "path": "/spec/x", "value": 1},
        {"op": "replace", "path": "/spec/x", "value": 2},
        {"op": "add", "path": "/spec/list", "value": [1]},
        {"op": "add", "path": "/spec/list/-", "value": 2},
        {"op": "add", "path": "/spec/list/0", "value": 0},
        {"op": "copy", "from": "/spec/list", "path": "/spec/copy"},
        {"op": "move", "from": "/spec/copy", "path": "/spec/moved"},
        {"op": "remove", "path": "/spec/list/1"},
    ]);
    let patched = api.json_patch(&path, &patch).await.expect_code(200);
    assert_eq!(
        patched["spec"],
        json!({"x": 2, "list": [0, 2], "moved": [0, 1, 2]})
    );
}

async fn json_patch_escapes_paths(api: Context) {
    let path = thing(&api, json!({})).await;
    let patch = json!([{"op": "add", "path": "/spec/~1slash~0tilde", "value": 1}]);
    let patched = api.json_patch(&path, &patch).await.expect_code(200);
    assert_eq!(patched["spec"], json!({"/slash~tilde": 1}));
}

async fn json_patch_replace_adds(api: Context) {
    let path = thing(&api, json!({})).await;
    let patch = json!([{"op": "replace", "path": "/spec/missing", "value": 1}]);
    let patched = api.json_patch(&path, &patch).await.expect_code(200);
    assert_eq!(patched["spec"], json!({"missing": 1}));
}

async fn json_patch_failures(api: Context) {
    let path = thing(&api, json!({"x": 1, "list": [1]})).await;
    let operations = [
        json!({"op": "test", "path": "/spec/x", "value": 999}),
        json!({"op": "remove", "path": "/spec/missing"}),
        json!({"op": "add", "path": "/spec/deep/er", "value": 1}),
        json!({"op": "add", "path": "/spec/list/9", "value": 1}),
        json!({"op": "nope", "path": "/spec/x"}),
    ];
    for operation in operations {
        let answer = api.json_patch(&path, &json!([operation])).await;
        let status = answer.refused(422, "Invalid", REJECTED);
        assert_eq!(status["details"], json!({}));
    }
}

async fn json_patch_is_all_or_nothing(api: Context) {
    let path = thing(&api, json!({"x": 1})).await;
    let before = api.get(&path).await.expect_code(200);
    let patch = json!([
        {"op": "replace", "path": "/spec/x", "value": 2},
        {"op": "test", "path": "/spec/x", "value": 1},
    ]);
    api.json_patch(&path, &patch)
        .await
        .refused(422, "Invalid", REJECTED);
    assert_eq!(api.get(&path).await.expect_code(200), before);
    assert_eq!(
        api.json_patch(&path, &json!([])).await.expect_code(200),
        before
    );
}

async fn json_patch_must_be_a_list(api: Context) {
    let path = thing(&api, json!({})).await;
    undecodable(api.json_patch(&path, &json!({"op": "add"})).await);
    undecodable(
        api.send(Method::PATCH, &path, "application/json-patch+json", "[bad")
            .await,
    );
}

async fn json_patch_with_stale_version_is_refused(api: Context) {
    let path = thing(&api, json!({})).await;
    let patch = json!([{"op": "replace", "path": "/metadata/resourceVersion", "value": "1"}]);
    api.json_patch(&path, &patch)
        .await
        .refused_somehow(409, "Conflict");
}

async fn json_patch_of_missing(api: Context) {
    let answer = api.json_patch(&api.core("configmaps/a"), &json!([])).await;
    answer.refused(404, "NotFound", "configmaps \"a\" not found");
}

async fn unknown_types_are_refused(api: Context) {
    let path = thing(&api, json!({})).await;
    for content_type in [
        "application/json",
        "text/plain",
        "",
        "application/strategic-merge-patch+json",
    ] {
        let answer = api.send(Method::PATCH, &path, content_type, "{}").await;
        let status = answer.refused_somehow(415, "UnsupportedMediaType");
        let expected = "the body of the request was in an unknown format - accepted media types include: \
                        application/json-patch+json, application/merge-patch+json";
        assert!(
            status["message"].as_str().unwrap().starts_with(expected),
            "{status}"
        );
    }
    let path = api.core("configmaps/missing");
    let answer = api
        .send(Method::PATCH, &path, "application/json", "{}")
        .await;
    answer.refused_somehow(415, "UnsupportedMediaType");
}

async fn collections_cannot_be_patched(api: Context) {
    let answer = api.merge(&api.core("configmaps"), &json!({})).await;
    let message = "the server does not allow this method on the requested resource";
    let status = answer.refused(405, "MethodNotAllowed", message);
    assert_eq!(status["details"], json!({}));
}

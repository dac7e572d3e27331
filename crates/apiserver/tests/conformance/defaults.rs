//! What the schema of a custom resource does to objects: pruning, defaults, nulls.

use serde_json::{Value, json};

use crate::support::validation::{causes, create, define};
use crate::support::{Context, cases, spec_schema, version};

cases!("defaults":
    nullable, null_is_dropped_where_not_allowed, unknown_fields_are_pruned,
    unknown_fields_of_metadata_are_pruned, unknown_fields_are_kept_where_allowed,
    defaults_on_create, defaults_of_nested_objects, defaults_replace_null, defaults_on_read,
    defaults_on_read_are_those_of_the_stored_version, unknown_fields_are_pruned_on_read,
    versions_show_what_they_know, defaults_of_status, status_is_validated, strict_refuses_unknown_fields,
    unknown_fields_warn_only,
);

async fn nullable(api: Context) {
    define(&api, json!({"n": {"type": "string", "nullable": true}})).await;
    let created = create(&api, json!({"n": null})).await.expect_code(201);
    assert_eq!(created["spec"], json!({"n": null}));
}

async fn null_is_dropped_where_not_allowed(api: Context) {
    define(
        &api,
        json!({"n": {"type": "integer"}, "d": {"type": "string", "default": "x"}}),
    )
    .await;
    let created = create(&api, json!({"n": null, "d": null})).await;
    let message = if created.code == 201 {
        String::new()
    } else {
        created.to_string()
    };
    assert_eq!(created.body["spec"], json!({"d": "x"}), "{message}");
}

async fn unknown_fields_are_pruned(api: Context) {
    define(&api, json!({
        "known": {"type": "integer"}, "nested": {"type": "object", "properties": {"known": {"type": "integer"}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {"known": {"type": "integer"}}}},
    })).await;
    let mut thing = api.thing("a", json!({"other": 1, "status": {"x": 1}}));
    thing["spec"] = json!({"known": 1, "unknown": 2, "nested": {"known": 1, "unknown": 2}, "list": [{"known": 1, "unknown": 2}]});
    let created = api
        .post(&api.custom("things"), &thing)
        .await
        .expect_code(201);
    assert_eq!(
        created["spec"],
        json!({"known": 1, "nested": {"known": 1}, "list": [{"known": 1}]})
    );
    assert_eq!(created["other"], Value::Null);
    let patched = api
        .merge(&api.custom("things/a"), &json!({"spec": {"unknown": 3}}))
        .await
        .expect_code(200);
    assert_eq!(patched, created);
}

async fn unknown_fields_of_metadata_are_pruned(api: Context) {
    define(&api, json!({})).await;
    let created = api
        .create_thing(
            "a",
            json!({"metadata": {"nonsense": 1, "labels": {"l": "1"}}}),
        )
        .await;
    assert_eq!(created["metadata"]["nonsense"], Value::Null);
    assert_eq!(created["metadata"]["labels"], json!({"l": "1"}));
}

async fn unknown_fields_are_kept_where_allowed(api: Context) {
    define(&api, json!({"open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
        "properties": {"closed": {"type": "object", "properties": {"known": {"type": "integer"}}}}}})).await;
    let spec = json!({"open": {"any": {"thing": [1]}, "closed": {"known": 1, "unknown": 2}}, "unknown": 1});
    let created = create(&api, spec).await.expect_code(201);
    assert_eq!(
        created["spec"],
        json!({"open": {"any": {"thing": [1]}, "closed": {"known": 1}}})
    );
}

async fn defaults_on_create(api: Context) {
    define(&api, json!({
        "text": {"type": "string", "default": "t"}, "flag": {"type": "boolean", "default": false},
        "list": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "integer", "default": 5}}}},
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {"x": {"type": "integer", "default": 5}}}},
    })).await;
    let created = create(&api, json!({"list": [{}, {"x": 1}], "map": {"k": {}}}))
        .await
        .expect_code(201);
    let expected =
        json!({"text": "t", "flag": false, "list": [{"x": 5}, {"x": 1}], "map": {"k": {"x": 5}}});
    assert_eq!(created["spec"], expected);
}

async fn defaults_of_nested_objects(api: Context) {
    define(&api, json!({
        "made": {"type": "object", "default": {}, "properties": {"x": {"type": "integer", "default": 5}}},
        "absent": {"type": "object", "properties": {"x": {"type": "integer", "default": 5}}},
    })).await;
    let created = create(&api, json!({})).await.expect_code(201);
    assert_eq!(created["spec"], json!({"made": {"x": 5}}));
    let without_spec = api.create_thing("b", json!({})).await;
    assert_eq!(without_spec["spec"], Value::Null);
}

async fn defaults_replace_null(api: Context) {
    define(
        &api,
        json!({"d": {"type": "string", "default": "x"},
        "n": {"type": "string", "nullable": true, "default": "x"}}),
    )
    .await;
    let created = create(&api, json!({"d": null, "n": null}))
        .await
        .expect_code(201);
    assert_eq!(created["spec"], json!({"d": "x", "n": null}));
    let patched = api
        .merge(&api.custom("things/a"), &json!({"spec": {"d": null}}))
        .await
        .expect_code(200);
    assert_eq!(patched["spec"]["d"], "x");
}

async fn defaults_on_read(api: Context) {
    define(&api, json!({"a": {"type": "string"}})).await;
    let created = create(&api, json!({"a": "x"})).await.expect_code(201);
    let patch = json!([{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/late",
        "value": {"type": "string", "default": "d"}}]);
    api.json_patch(&api.things_definition(), &patch)
        .await
        .expect_code(200);
    let expected = json!({"a": "x", "late": "d"});
    let got = api
        .wait_for(&api.custom("things/a"), |answer| {
            answer.body["spec"] == expected
        })
        .await;
    assert_eq!(
        got.body["metadata"]["resourceVersion"],
        created["metadata"]["resourceVersion"]
    );
    // A real server may still be busy with the new definition.
    let things = api.custom("things");
    let list = api.wait_for(&things, |answer| answer.code == 200).await;
    assert_eq!(list.body["items"][0]["spec"], expected);
}

/// Things with a status of a phase and a default.
async fn define_status(api: &Context) {
    let mut schema = spec_schema(json!({}));
    schema["properties"]["status"] = json!({"type": "object", "properties": {
        "phase": {"type": "string", "enum": ["X", "Y"]}, "note": {"type": "string", "default": "none"},
    }});
    api.define_things(schema).await;
    api.create_thing("a", json!({})).await;
}

fn two_versions(one: Value, two: Value) -> Value {
    let mut second = version("v2", spec_schema(two));
    second["storage"] = json!(false);
    json!([version("v1", spec_schema(one)), second])
}

/// The Thing `a` as a version shows it.
async fn shown(api: &Context, version: &str) -> Value {
    let path = api
        .custom("things/a")
        .replace("/v1/", &format!("/{version}/"));
    api.get(&path).await.expect_code(200)["spec"].clone()
}

async fn defaults_on_read_are_those_of_the_stored_version(api: Context) {
    let plain = json!({"x": {"type": "string"}, "d": {"type": "string"}});
    api.define(&api.things(two_versions(plain.clone(), plain)))
        .await;
    api.create_thing("a", json!({"spec": {"x": "1"}})).await;
    let with = |d| json!({"x": {"type": "string"}, "d": {"type": "string", "default": d}});
    let versions = two_versions(with("one"), with("two"));
    let change = json!({"spec": {"versions": versions}});
    api.merge(&api.things_definition(), &change)
        .await
        .expect_code(200);
    let path = api.custom("things/a");
    api.wait_for(&path, |answer| answer.body["spec"]["d"] == "one")
        .await;
    assert_eq!(shown(&api, "v2").await, json!({"x": "1", "d": "one"}));
}

async fn unknown_fields_are_pruned_on_read(api: Context) {
    define(
        &api,
        json!({"x": {"type": "string"}, "y": {"type": "string"}}),
    )
    .await;
    create(&api, json!({"x": "1", "y": "2"}))
        .await
        .expect_code(201);
    let versions = json!([version("v1", spec_schema(json!({"x": {"type": "string"}})))]);
    let change = json!({"spec": {"versions": versions}});
    api.merge(&api.things_definition(), &change)
        .await
        .expect_code(200);
    let path = api.custom("things/a");
    api.wait_for(&path, |answer| answer.body["spec"] == json!({"x": "1"}))
        .await;
    let things = api.custom("things");
    let list = api.wait_for(&things, |answer| answer.code == 200).await;
    assert_eq!(list.body["items"][0]["spec"], json!({"x": "1"}));
}

async fn versions_show_what_they_know(api: Context) {
    let text = json!({"type": "string"});
    let one = json!({"x": text, "one": text});
    let two = json!({"x": text, "two": text});
    api.define(&api.things(two_versions(one, two))).await;
    api.create_thing("a", json!({"spec": {"x": "1", "one": "1"}}))
        .await;
    assert_eq!(shown(&api, "v2").await, json!({"x": "1"}));
    let path = api.custom("things/a").replace("/v1/", "/v2/");
    let changed = api
        .merge(&path, &json!({"spec": {"x": "2", "two": "2"}}))
        .await
        .expect_code(200);
    assert_eq!(changed["spec"]["x"], "2");
    assert_eq!(shown(&api, "v1").await["x"], "2");
    assert_eq!(shown(&api, "v2").await["two"], Value::Null);
}

async fn defaults_of_status(api: Context) {
    define_status(&api).await;
    let patch = json!({"status": {"phase": "X", "unknown": 1}});
    let patched = api
        .merge(&api.custom("things/a/status"), &patch)
        .await
        .expect_code(200);
    assert_eq!(patched["status"], json!({"phase": "X", "note": "none"}));
}

async fn status_is_validated(api: Context) {
    define_status(&api).await;
    let answer = api
        .merge(
            &api.custom("things/a/status"),
            &json!({"status": {"phase": "Z"}}),
        )
        .await;
    let expected = "status.phase: Unsupported value: \"Z\": supported values: \"X\", \"Y\" (FieldValueNotSupported)";
    assert_eq!(causes(&api, answer), [expected]);
}

async fn strict_refuses_unknown_fields(api: Context) {
    define(
        &api,
        json!({"known": {"type": "integer"}, "nested": {"type": "object", "properties": {}}}),
    )
    .await;
    let mut thing = api.thing("a", json!({"other": 1, "metadata": {"zz": 1}}));
    thing["spec"] = json!({"known": 1, "unknown": 1, "nested": {"zz": 1}});
    let answer = api
        .post(&api.custom("things?fieldValidation=Strict"), &thing)
        .await;
    let message = "Thing in version \"v1\" cannot be handled as a Thing: strict decoding error: unknown field \
                   \"metadata.zz\", unknown field \"other\", unknown field \"spec.nested.zz\", unknown field \"spec.unknown\"";
    answer.refused(400, "BadRequest", message);
    api.get(&api.custom("things/a")).await.expect_code(404);
}

async fn unknown_fields_warn_only(api: Context) {
    define(&api, json!({"known": {"type": "integer"}})).await;
    for mode in ["Warn", "Ignore"] {
        let thing = api.thing(&mode.to_lowercase(), json!({"spec": {"unknown": 1}}));
        api.post(
            &api.custom(&format!("things?fieldValidation={mode}")),
            &thing,
        )
        .await
        .expect_code(201);
    }
}

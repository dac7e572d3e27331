//! The schemas of custom resources: validation, pruning, defaults, rules.

use serde_json::{Value, json};

use crate::support::{Answer, Context, cases, spec_schema, version};

cases!("schema":
    valid_objects_pass, required, required_at_the_root, types, whole_numbers, numbers_out_of_range,
    exclusive_minimum, multiple_of, enumerations, patterns, string_lengths, list_lengths, list_items,
    list_sets, list_maps, map_values, map_sizes, nullable, null_is_dropped_where_not_allowed,
    int_or_string, formats, int32, any_of, one_of, not, several_errors_at_once,
    embedded_resources, unknown_fields_are_pruned, unknown_fields_of_metadata_are_pruned,
    unknown_fields_are_kept_where_allowed, defaults_on_create, defaults_of_nested_objects,
    defaults_replace_null, defaults_on_read, defaults_of_status, status_is_validated,
    updates_are_validated, strict_refuses_unknown_fields, unknown_fields_warn_only,
    rules, rules_with_message_expression, rules_on_transition, rules_wait_for_valid_objects,
);

/// Defines Things whose spec has these properties.
async fn define(api: &Context, properties: Value) {
    api.define_things(spec_schema(properties)).await;
}

async fn create(api: &Context, spec: Value) -> Answer {
    api.post(
        &api.custom("things"),
        &api.thing("a", json!({"spec": spec})),
    )
    .await
}

/// The causes of a refusal as `field: message (reason)`, sorted, and the message that joins them.
#[track_caller]
fn causes(api: &Context, answer: Answer) -> Vec<String> {
    let status = answer.refused_somehow(422, "Invalid");
    let details = &status["details"];
    assert_eq!(details["name"], "a");
    assert_eq!(details["kind"], "Thing");
    assert_eq!(details["group"], api.group.as_str());
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let list = details["causes"].as_array().unwrap();
    let joined: Vec<String> = list
        .iter()
        .map(|cause| format!("{}: {}", text(&cause["field"]), text(&cause["message"])))
        .collect();
    let joined = if joined.len() == 1 {
        joined[0].clone()
    } else {
        format!("[{}]", joined.join(", "))
    };
    assert_eq!(
        status["message"],
        format!("Thing.{} \"a\" is invalid: {joined}", api.group)
    );
    let describe = |cause: &Value| {
        format!(
            "{}: {} ({})",
            text(&cause["field"]),
            text(&cause["message"]),
            text(&cause["reason"])
        )
    };
    let mut causes: Vec<String> = list.iter().map(describe).collect();
    causes.sort();
    causes
}

/// Creates a Thing with this spec, which must be refused for exactly these causes.
async fn refused(api: &Context, spec: Value, expected: &[&str]) {
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(causes(api, create(api, spec).await), expected);
}

async fn valid_objects_pass(api: Context) {
    define(
        &api,
        json!({
            "text": {"type": "string", "minLength": 1, "maxLength": 3, "pattern": "^a+$"},
            "number": {"type": "integer", "minimum": 1, "maximum": 3},
            "fraction": {"type": "number"}, "flag": {"type": "boolean"},
            "list": {"type": "array", "minItems": 1, "items": {"type": "string"}},
            "map": {"type": "object", "additionalProperties": {"type": "integer"}},
        }),
    )
    .await;
    let spec = json!({
        "text": "aaa", "number": 3, "fraction": 0.5, "flag": false, "list": ["x"], "map": {"any key": 1},
    });
    let created = create(&api, spec.clone()).await.expect_code(201);
    assert_eq!(created["spec"], spec);
}

async fn required(api: Context) {
    let mut schema = spec_schema(json!({"must": {"type": "string"}}));
    schema["properties"]["spec"]["required"] = json!(["must"]);
    api.define_things(schema).await;
    refused(
        &api,
        json!({}),
        &["spec.must: Required value (FieldValueRequired)"],
    )
    .await;
    refused(
        &api,
        json!({"must": null}),
        &["spec.must: Required value (FieldValueRequired)"],
    )
    .await;
}

async fn required_at_the_root(api: Context) {
    let mut schema = spec_schema(json!({}));
    schema["required"] = json!(["spec"]);
    api.define_things(schema).await;
    let expected = ["spec: Required value (FieldValueRequired)"];
    let answer = api
        .post(&api.custom("things"), &api.thing("a", json!({})))
        .await;
    assert_eq!(causes(&api, answer), expected);
    refused(&api, json!(null), &expected).await;
}

async fn types(api: Context) {
    let kinds = ["string", "integer", "boolean", "array", "object", "number"];
    let properties = kinds.iter().map(|kind| {
        let mut schema = json!({"type": kind});
        if *kind == "array" {
            schema["items"] = json!({"type": "string"});
        }
        (format!("a{kind}"), schema)
    });
    define(&api, Value::Object(properties.collect())).await;
    let wrong = json!({"astring": 5, "ainteger": "x", "aboolean": "true", "aarray": {}, "aobject": [], "anumber": true});
    let found = [
        ("string", "integer"),
        ("integer", "string"),
        ("boolean", "string"),
        ("array", "object"),
        ("object", "array"),
        ("number", "boolean"),
    ];
    let expected: Vec<String> = found.iter().map(|(kind, found)| format!(
        "spec.a{kind}: Invalid value: \"{found}\": spec.a{kind} in body must be of type {kind}: \"{found}\" (FieldValueTypeInvalid)"
    )).collect();
    refused(
        &api,
        wrong,
        &expected.iter().map(String::as_str).collect::<Vec<_>>(),
    )
    .await;
}

async fn whole_numbers(api: Context) {
    define(&api, json!({"n": {"type": "integer"}})).await;
    let created = create(&api, json!({"n": 3.0})).await.expect_code(201);
    assert_eq!(created["spec"]["n"], 3);
    refused(&api, json!({"n": 3.5}), &[
        "spec.n: Invalid value: \"number\": spec.n in body must be of type integer: \"number\" (FieldValueTypeInvalid)",
        "<nil>: Invalid value: \"\": Checked value must be of type integer (default format) in spec.n (FieldValueInvalid)",
    ]).await;
}

async fn numbers_out_of_range(api: Context) {
    define(
        &api,
        json!({"n": {"type": "integer", "minimum": 1, "maximum": 10}}),
    )
    .await;
    refused(&api, json!({"n": 0}),
        &["spec.n: Invalid value: 0: spec.n in body should be greater than or equal to 1 (FieldValueInvalid)"]).await;
    refused(&api, json!({"n": 11}),
        &["spec.n: Invalid value: 11: spec.n in body should be less than or equal to 10 (FieldValueInvalid)"]).await;
}

async fn exclusive_minimum(api: Context) {
    define(
        &api,
        json!({"n": {"type": "number", "minimum": 0, "exclusiveMinimum": true}}),
    )
    .await;
    refused(
        &api,
        json!({"n": 0}),
        &["spec.n: Invalid value: 0: spec.n in body should be greater than 0 (FieldValueInvalid)"],
    )
    .await;
}

async fn multiple_of(api: Context) {
    define(&api, json!({"n": {"type": "number", "multipleOf": 0.5}})).await;
    refused(&api, json!({"n": 0.7}),
        &["spec.n: Invalid value: 0.7: spec.n in body should be a multiple of 0.5 (FieldValueInvalid)"]).await;
    create(&api, json!({"n": 1.5})).await.expect_code(201);
}

async fn enumerations(api: Context) {
    define(&api, json!({"e": {"type": "string", "enum": ["A", "B"]}})).await;
    refused(&api, json!({"e": "C"}),
        &["spec.e: Unsupported value: \"C\": supported values: \"A\", \"B\" (FieldValueNotSupported)"]).await;
}

async fn patterns(api: Context) {
    define(&api, json!({"p": {"type": "string", "pattern": "^a+$"}})).await;
    refused(
        &api,
        json!({"p": "b"}),
        &["spec.p: Invalid value: \"b\": spec.p in body should match '^a+$' (FieldValueInvalid)"],
    )
    .await;
}

async fn string_lengths(api: Context) {
    define(
        &api,
        json!({"s": {"type": "string", "minLength": 2, "maxLength": 4}}),
    )
    .await;
    refused(&api, json!({"s": "a"}),
        &["spec.s: Invalid value: \"a\": spec.s in body should be at least 2 chars long (FieldValueInvalid)"]).await;
    refused(
        &api,
        json!({"s": "abcde"}),
        &["spec.s: Too long: may not be more than 4 bytes (FieldValueTooLong)"],
    )
    .await;
    // Counted in characters, whatever the message says.
    create(&api, json!({"s": "äöüß"})).await.expect_code(201);
}

async fn list_lengths(api: Context) {
    define(
        &api,
        json!({"l": {"type": "array", "minItems": 1, "maxItems": 2, "items": {"type": "string"}}}),
    )
    .await;
    refused(&api, json!({"l": []}),
        &["spec.l: Invalid value: 0: spec.l in body should have at least 1 items (FieldValueInvalid)"]).await;
    refused(
        &api,
        json!({"l": ["a", "b", "c"]}),
        &["spec.l: Too many: 3: must have at most 2 items (FieldValueTooMany)"],
    )
    .await;
}

async fn list_items(api: Context) {
    define(
        &api,
        json!({"l": {"type": "array", "items": {"type": "object", "required": ["k"],
        "properties": {"k": {"type": "string"}}}}}),
    )
    .await;
    refused(&api, json!({"l": [{"k": "x"}, {"k": 5}, {}]}), &[
        "spec.l[1].k: Invalid value: \"integer\": spec.l[1].k in body must be of type string: \"integer\" (FieldValueTypeInvalid)",
        "spec.l[2].k: Required value (FieldValueRequired)",
    ]).await;
}

async fn list_sets(api: Context) {
    define(&api, json!({"l": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}})).await;
    refused(
        &api,
        json!({"l": ["a", "b", "a"]}),
        &["spec.l[2]: Duplicate value: \"a\" (FieldValueDuplicate)"],
    )
    .await;
}

async fn list_maps(api: Context) {
    define(&api, json!({"l": {
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}},
    }})).await;
    refused(
        &api,
        json!({"l": [{"k": "a", "v": 1}, {"k": "a", "v": 2}]}),
        &["spec.l[1]: Duplicate value: {\"k\":\"a\"} (FieldValueDuplicate)"],
    )
    .await;
}

async fn map_values(api: Context) {
    define(
        &api,
        json!({"m": {"type": "object", "additionalProperties": {"type": "integer"}}}),
    )
    .await;
    refused(&api, json!({"m": {"a": 1, "b": "x"}}), &[
        "spec.m.b: Invalid value: \"string\": spec.m.b in body must be of type integer: \"string\" (FieldValueTypeInvalid)",
    ]).await;
}

async fn map_sizes(api: Context) {
    let integers = json!({"type": "integer"});
    define(&api, json!({"m": {"type": "object", "minProperties": 1, "maxProperties": 2, "additionalProperties": integers}})).await;
    refused(&api, json!({"m": {}}),
        &["spec.m: Invalid value: 0: spec.m in body should have at least 1 properties (FieldValueInvalid)"]).await;
    refused(
        &api,
        json!({"m": {"a": 1, "b": 2, "c": 3}}),
        &["spec.m: Too many: 3: must have at most 2 items (FieldValueTooMany)"],
    )
    .await;
}

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

async fn int_or_string(api: Context) {
    define(&api, json!({"i": {"x-kubernetes-int-or-string": true}, "j": {"x-kubernetes-int-or-string": true}})).await;
    refused(&api, json!({"i": true}), &[
        "spec.i: Invalid value: \"boolean\": spec.i in body must be of type integer,string: \"boolean\" (FieldValueTypeInvalid)",
    ]).await;
    let created = create(&api, json!({"i": 5, "j": "50%"}))
        .await
        .expect_code(201);
    assert_eq!(created["spec"], json!({"i": 5, "j": "50%"}));
}

async fn formats(api: Context) {
    let samples = [
        ("date-time", "yesterday", "2026-01-01T00:00:00Z"),
        ("duration", "5 parsecs", "1h5m"),
        ("byte", "%%%", "aGk="),
        ("uuid", "nope", "123e4567-e89b-12d3-a456-426614174000"),
        ("ipv4", "300.1.1.1", "10.0.0.1"),
        ("uri", "not a uri", "https://example.com/x"),
        ("email", "nope", "someone@example.com"),
        ("date", "01.02.2026", "2026-01-02"),
    ];
    let property = |index: usize| format!("f{index}");
    let properties = samples.iter().enumerate().map(|(index, (format, ..))| {
        (property(index), json!({"type": "string", "format": format}))
    });
    define(&api, Value::Object(properties.collect())).await;
    for (index, (format, bad, _)) in samples.iter().enumerate() {
        let field = format!("spec.{}", property(index));
        let expected = format!(
            "{field}: Invalid value: \"{bad}\": {field} in body must be of type {format}: \"{bad}\" (FieldValueTypeInvalid)"
        );
        refused(&api, json!({property(index): bad}), &[&expected]).await;
    }
    let good = samples
        .iter()
        .enumerate()
        .map(|(index, (.., good))| (property(index), json!(good)));
    create(&api, Value::Object(good.collect()))
        .await
        .expect_code(201);
}

async fn int32(api: Context) {
    define(&api, json!({"n": {"type": "integer", "format": "int32"}})).await;
    refused(&api, json!({"n": 99_999_999_999_u64}), &[
        "<nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in spec.n (FieldValueInvalid)",
    ]).await;
}

/// Properties `a` and `b` of a spec on which a junctor like `anyOf` stands.
async fn define_junctor(api: &Context, junctor: &str, schemas: Value) {
    let mut schema = spec_schema(json!({"a": {"type": "integer"}, "b": {"type": "integer"}}));
    schema["properties"]["spec"][junctor] = schemas;
    api.define_things(schema).await;
}

async fn any_of(api: Context) {
    define_junctor(
        &api,
        "anyOf",
        json!([{"required": ["a"]}, {"required": ["b"]}]),
    )
    .await;
    refused(&api, json!({}), &[
        "<nil>: Invalid value: \"\": \"spec\" must validate at least one schema (anyOf) (FieldValueInvalid)",
        "spec.a: Required value (FieldValueRequired)",
    ]).await;
    create(&api, json!({"b": 1})).await.expect_code(201);
}

async fn one_of(api: Context) {
    define_junctor(
        &api,
        "oneOf",
        json!([{"required": ["a"]}, {"required": ["b"]}]),
    )
    .await;
    refused(&api, json!({"a": 1, "b": 1}), &[
        "<nil>: Invalid value: \"\": \"spec\" must validate one and only one schema (oneOf). Found 2 valid alternatives (FieldValueInvalid)",
    ]).await;
    create(&api, json!({"a": 1})).await.expect_code(201);
}

async fn not(api: Context) {
    define_junctor(&api, "not", json!({"required": ["a"]})).await;
    refused(&api, json!({"a": 1}),
        &["<nil>: Invalid value: \"\": \"spec\" must not validate the schema (not) (FieldValueInvalid)"]).await;
}

async fn several_errors_at_once(api: Context) {
    let mut schema = spec_schema(json!({
        "must": {"type": "string"}, "e": {"type": "string", "enum": ["A", "B"]}, "n": {"type": "integer", "minimum": 1},
    }));
    schema["properties"]["spec"]["required"] = json!(["must"]);
    api.define_things(schema).await;
    refused(&api, json!({"e": "C", "n": 0}), &[
        "spec.must: Required value (FieldValueRequired)",
        "spec.e: Unsupported value: \"C\": supported values: \"A\", \"B\" (FieldValueNotSupported)",
        "spec.n: Invalid value: 0: spec.n in body should be greater than or equal to 1 (FieldValueInvalid)",
    ]).await;
}

async fn embedded_resources(api: Context) {
    define(
        &api,
        json!({"r": {"type": "object", "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true}}),
    )
    .await;
    refused(
        &api,
        json!({"r": {"a": 1}}),
        &[
            "spec.r.apiVersion: Required value (FieldValueRequired)",
            "spec.r.kind: Required value (FieldValueRequired)",
        ],
    )
    .await;
    let spec = json!({"r": {"apiVersion": "v1", "kind": "X", "metadata": {"name": "x", "unknown": 1}, "any": [1]}});
    let created = create(&api, spec).await.expect_code(201);
    assert_eq!(created["spec"]["r"]["metadata"], json!({"name": "x"}));
    assert_eq!(created["spec"]["r"]["any"], json!([1]));
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
    let list = api.get(&api.custom("things")).await.expect_code(200);
    assert_eq!(list["items"][0]["spec"], expected);
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

async fn updates_are_validated(api: Context) {
    define(&api, json!({"n": {"type": "integer"}})).await;
    let mut thing = create(&api, json!({"n": 1})).await.expect_code(201);
    thing["spec"]["n"] = json!("x");
    let answer = api.put(&api.custom("things/a"), &thing).await;
    assert_eq!(causes(&api, answer).len(), 1);
    let answer = api
        .json_patch(
            &api.custom("things/a"),
            &json!([{"op": "replace", "path": "/spec/n", "value": "x"}]),
        )
        .await;
    assert_eq!(causes(&api, answer).len(), 1);
    assert_eq!(
        api.get(&api.custom("things/a")).await.body["spec"],
        json!({"n": 1})
    );
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

async fn define_rules(api: &Context) {
    let mut schema = spec_schema(json!({
        "min": {"type": "integer"}, "max": {"type": "integer"},
        "fixed": {"type": "string", "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed may not change"}]},
        "env": {"type": "array", "maxItems": 5, "items": {
            "type": "object", "properties": {"name": {"type": "string", "maxLength": 10}},
            "x-kubernetes-validations": [{"rule": "self.name != 'bad'", "reason": "FieldValueForbidden",
                "messageExpression": "'env ' + self.name + ' is bad'", "fieldPath": ".name"}],
        }},
    }));
    let spec = &mut schema["properties"]["spec"];
    spec["required"] = json!(["min", "max"]);
    spec["x-kubernetes-validations"] = json!([
        {"rule": "self.min <= self.max", "message": "min must not exceed max"},
        {"rule": "!has(self.fixed) || self.fixed.size() < 20"},
    ]);
    let definition = api.things(json!([version("v1", schema)]));
    api.define(&definition).await;
}

async fn rules(api: Context) {
    define_rules(&api).await;
    refused(
        &api,
        json!({"min": 3, "max": 2}),
        &["spec: Invalid value: min must not exceed max (FieldValueInvalid)"],
    )
    .await;
    refused(&api, json!({"min": 1, "max": 2, "fixed": "a".repeat(20)}),
        &["spec: Invalid value: failed rule: !has(self.fixed) || self.fixed.size() < 20 (FieldValueInvalid)"]).await;
    create(&api, json!({"min": 1, "max": 2, "fixed": "a"}))
        .await
        .expect_code(201);
}

async fn rules_with_message_expression(api: Context) {
    define_rules(&api).await;
    refused(
        &api,
        json!({"min": 3, "max": 2, "env": [{"name": "good"}, {"name": "bad"}]}),
        &[
            "spec: Invalid value: min must not exceed max (FieldValueInvalid)",
            "spec.env[1].name: Forbidden: env bad is bad (FieldValueForbidden)",
        ],
    )
    .await;
}

async fn rules_on_transition(api: Context) {
    define_rules(&api).await;
    create(&api, json!({"min": 1, "max": 2, "fixed": "a"}))
        .await
        .expect_code(201);
    let path = api.custom("things/a");
    let change = |fixed: Value| {
        let (api, path) = (api.clone(), path.clone());
        async move { api.merge(&path, &json!({"spec": {"fixed": fixed}})).await }
    };
    assert_eq!(
        causes(&api, change(json!("b")).await),
        ["spec.fixed: Invalid value: \"b\": fixed may not change (FieldValueInvalid)"]
    );
    change(json!(null)).await.expect_code(200);
    change(json!("b")).await.expect_code(200);
}

async fn rules_wait_for_valid_objects(api: Context) {
    define_rules(&api).await;
    let skipped = "<nil>: Invalid value: null: some validation rules were not checked because the object was \
                   invalid; correct the existing errors to complete validation (FieldValueInvalid)";
    refused(
        &api,
        json!({"min": 1}),
        &["spec.max: Required value (FieldValueRequired)", skipped],
    )
    .await;
}

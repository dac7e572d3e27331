//! The schemas of custom resources: what is valid and how the rest is refused.

use serde_json::{Value, json};

use crate::support::validation::{causes, create, define, refused};
use crate::support::{Context, cases, spec_schema};

cases!("schema":
    valid_objects_pass, required, required_at_the_root, types, whole_numbers,
    numbers_out_of_range, exclusive_minimum, multiple_of, enumerations, patterns,
    string_lengths, list_lengths, list_items, list_sets, list_maps, map_values, map_sizes,
    int_or_string, formats, int32, any_of, one_of, not, several_errors_at_once,
    embedded_resources, updates_are_validated,
);

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

//! Validation of objects, as text. Messages are those of kube-apiserver; refusals of what this
//! server does not support are its own.

mod costs;
mod hostile;

use serde_json::{Value, json};

use super::{FieldError, Schema};

fn messages(errors: &[FieldError]) -> Vec<String> {
    errors
        .iter()
        .map(|error| format!("{} {}: {}", error.reason, error.field, error.message))
        .collect()
}

/// A schema whose `spec` is `spec`.
fn schema(spec: &Value) -> Schema {
    let root = json!({ "type": "object", "properties": { "spec": spec } });
    Schema::compile(&root).unwrap_or_else(|errors| panic!("{:#?}", messages(&errors)))
}

/// Checks `object` as the `spec` of a new object.
fn check(spec: Value, object: Value, expected: &[&str]) {
    let errors = schema(&spec).validate(&json!({ "spec": object }), None);
    assert_eq!(messages(&errors), expected, "{object} against {spec}");
}

/// Checks `new` as the `spec` of an object whose spec was `old`.
fn check_update(spec: Value, old: Value, new: Value, expected: &[&str]) {
    let errors = schema(&spec).validate(&json!({ "spec": new }), Some(&json!({ "spec": old })));
    assert_eq!(messages(&errors), expected, "{old} to {new} against {spec}");
}

/// Checks what becomes of `object` and which fields are dropped.
fn check_kept(spec: Value, object: Value, kept: Value, dropped: &[&str]) {
    let schema = schema(&spec);
    let mut object = json!({ "kind": "K", "metadata": { "x": 1 }, "spec": object });
    assert_eq!(schema.prune(&mut object), dropped, "{spec}");
    schema.default(&mut object);
    assert_eq!(
        object,
        json!({ "kind": "K", "metadata": { "x": 1 }, "spec": kept }),
        "{spec}"
    );
}

/// Checks why a schema is refused.
fn check_refused(schema: Value, expected: &[&str]) {
    let errors = Schema::compile(&schema).expect_err("a refused schema");
    assert_eq!(messages(&errors), expected, "{schema}");
}

#[test]
fn types() {
    check(
        json!({"type": "integer"}),
        json!("x"),
        &[
            "FieldValueTypeInvalid spec: Invalid value: \"string\": spec in body must be of type integer: \"string\"",
        ],
    );
    check(
        json!({"type": "integer"}),
        json!(1.5),
        &[
            "FieldValueTypeInvalid spec: Invalid value: \"number\": spec in body must be of type integer: \"number\"",
            "FieldValueInvalid <nil>: Invalid value: \"\": Checked value must be of type integer (default format) in spec",
        ],
    );
    check(
        json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}}),
        json!({"a": ["x", null]}),
        &[
            "FieldValueTypeInvalid spec.a[1]: Invalid value: \"null\": spec.a[1] in body must be of type string: \"null\"",
        ],
    );
    check(json!({"type": "integer"}), json!(2.0), &[]);
    check(json!({"type": "number"}), json!(2), &[]);
    check(
        json!({"x-kubernetes-int-or-string": true}),
        json!("50%"),
        &[],
    );
    check(
        json!({"x-kubernetes-int-or-string": true}),
        json!(true),
        &[
            "FieldValueTypeInvalid spec: Invalid value: \"boolean\": spec in body must be of type integer,string: \"boolean\"",
        ],
    );
}

#[test]
fn required_fields_and_enums() {
    check(
        json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "string"}}}),
        json!({}),
        &["FieldValueRequired spec.a: Required value"],
    );
    check(
        json!({"type": "string", "enum": ["x", "y"]}),
        json!("z"),
        &["FieldValueNotSupported spec: Unsupported value: \"z\": supported values: \"x\", \"y\""],
    );
    check(json!({"type": "integer", "enum": [1, 2]}), json!(2), &[]);
}

#[test]
fn limits() {
    check(
        json!({"type": "string", "maxLength": 2}),
        json!("abc"),
        &["FieldValueTooLong spec: Too long: may not be more than 2 bytes"],
    );
    check(json!({"type": "string", "maxLength": 2}), json!("éé"), &[]);
    check(
        json!({"type": "string", "pattern": "^[a-z]+$"}),
        json!("A"),
        &["FieldValueInvalid spec: Invalid value: \"A\": spec in body should match '^[a-z]+$'"],
    );
    check(
        json!({"type": "integer", "minimum": 2, "maximum": 10, "exclusiveMaximum": true}),
        json!(10),
        &["FieldValueInvalid spec: Invalid value: 10: spec in body should be less than 10"],
    );
    check(
        json!({"type": "number", "multipleOf": 0.1}),
        json!(0.25),
        &["FieldValueInvalid spec: Invalid value: 0.25: spec in body should be a multiple of 0.1"],
    );
    check(
        json!({"type": "array", "maxItems": 1, "items": {"type": "string"}}),
        json!(["a", "b"]),
        &["FieldValueTooMany spec: Too many: 2: must have at most 1 item"],
    );
    check(
        json!({"type": "object", "minProperties": 1, "additionalProperties": {"type": "integer"}}),
        json!({}),
        &[
            "FieldValueInvalid spec: Invalid value: 0: spec in body should have at least 1 properties",
        ],
    );
    check(
        json!({"type": "integer", "format": "int32"}),
        json!(2_147_483_648_i64),
        &[
            "FieldValueInvalid <nil>: Invalid value: \"\": Checked value must be of type integer with format int32 in spec",
        ],
    );
}

#[test]
fn formats() {
    check(
        json!({"type": "string", "format": "date-time"}),
        json!("yesterday"),
        &[
            "FieldValueTypeInvalid spec: Invalid value: \"yesterday\": spec in body must be of type date-time: \"yesterday\"",
        ],
    );
    check(
        json!({"type": "string", "format": "colour"}),
        json!("red"),
        &[],
    );
}

#[test]
fn combinations() {
    let one_of = json!({
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
        "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
    });
    check(one_of.clone(), json!({"a": "x"}), &[]);
    check(
        one_of,
        json!({"a": "x", "b": "y"}),
        &[
            "FieldValueInvalid <nil>: Invalid value: \"\": \"spec\" must validate one and only one schema (oneOf). Found 2 valid alternatives",
        ],
    );
    check(
        json!({"type": "string", "anyOf": [{"maxLength": 1}, {"pattern": "^a"}]}),
        json!("bb"),
        &[
            "FieldValueInvalid <nil>: Invalid value: \"\": \"spec\" must validate at least one schema (anyOf)",
            "FieldValueTooLong spec: Too long: may not be more than 1 byte",
        ],
    );
    check(
        json!({"type": "string", "not": {"pattern": "^a"}}),
        json!("a"),
        &[
            "FieldValueInvalid <nil>: Invalid value: \"\": \"spec\" must not validate the schema (not)",
        ],
    );
}

#[test]
fn sets_and_maps() {
    check(
        json!({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}}),
        json!(["a", "b", "a", "a"]),
        &["FieldValueDuplicate spec[2]: Duplicate value: \"a\""],
    );
    let map = json!({
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": {"type": "object", "required": ["k"], "properties": {
            "k": {"type": "string"},
            "v": {"type": "integer", "x-kubernetes-validations": [{"rule": "self >= oldSelf"}]},
        }},
    });
    check(
        map.clone(),
        json!([{"k": "x"}, {"k": "x", "v": 1}]),
        &["FieldValueDuplicate spec[1]: Duplicate value: {\"k\":\"x\"}"],
    );
    // Items are identified by their keys, not by their positions.
    check_update(
        map,
        json!([{"k": "a", "v": 3}, {"k": "b", "v": 1}]),
        json!([{"k": "b", "v": 2}, {"k": "a", "v": 2}]),
        &["FieldValueInvalid spec[1].v: Invalid value: 2: failed rule: self >= oldSelf"],
    );
}

#[test]
fn embedded_resources() {
    let embedded = json!({
        "type": "object",
        "x-kubernetes-embedded-resource": true,
        "properties": {"spec": {"type": "object"}},
    });
    check(
        embedded.clone(),
        json!({"kind": "a_b"}),
        &[
            "FieldValueRequired spec.apiVersion: Required value",
            "FieldValueInvalid spec.kind: Invalid value: \"a_b\": may have mixed case, but should \
             otherwise match: a DNS-1035 label must consist of lower case alphanumeric characters \
             or '-', start with an alphabetic character, and end with an alphanumeric character \
             (e.g. 'my-name',  or 'abc-123', regex used for validation is \
             '[a-z]([-a-z0-9]*[a-z0-9])?')",
        ],
    );
    check(
        embedded.clone(),
        json!({"kind": 1}),
        &["Malformed spec.kind: Invalid value: 1: must be a string"],
    );
    check_kept(
        embedded,
        json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "n", "nick": 1}, "status": {}}),
        json!({"apiVersion": "v1", "kind": "K", "metadata": {"name": "n"}}),
        &["spec.metadata.nick", "spec.status"],
    );
}

#[test]
fn unknown_fields_are_dropped() {
    let spec = json!({"type": "object", "properties": {
        "known": {"type": "object", "properties": {"a": {"type": "integer"}}},
        "open": {
            "type": "object",
            "x-kubernetes-preserve-unknown-fields": true,
            "properties": {"closed": {"type": "object", "properties": {}}},
        },
        "map": {"type": "object", "additionalProperties": {"type": "object", "properties": {}}},
        "list": {"type": "array", "items": {"type": "object", "properties": {}}},
    }});
    check_kept(
        spec,
        json!({
            "known": {"a": 1, "b": 2},
            "open": {"x": {"y": 1}, "closed": {"z": 1}},
            "map": {"k": {"v": 1}},
            "list": [{"v": 1}],
            "other": 1,
        }),
        json!({
            "known": {"a": 1},
            "open": {"x": {"y": 1}, "closed": {}},
            "map": {"k": {}},
            "list": [{}],
        }),
        &[
            "spec.known.b",
            "spec.list[0].v",
            "spec.map.k.v",
            "spec.open.closed.z",
            "spec.other",
        ],
    );
}

#[test]
fn defaults_and_nulls() {
    let spec = json!({"type": "object", "properties": {
        "a": {"type": "string", "default": "d"},
        "b": {"type": "string", "default": "d", "nullable": true},
        "c": {"type": "string"},
        "d": {"type": "string", "nullable": true},
        "e": {"type": "object", "default": {}, "properties": {"f": {"type": "integer", "default": 1}}},
    }});
    check_kept(
        spec.clone(),
        json!({}),
        json!({"a": "d", "b": "d", "e": {"f": 1}}),
        &[],
    );
    check_kept(
        spec,
        json!({"a": null, "b": null, "c": null, "d": null, "e": {"f": null}}),
        json!({"a": "d", "b": null, "d": null, "e": {"f": 1}}),
        &[],
    );
}

#[test]
fn rules() {
    let spec = json!({
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}, "n": {"type": "number"}},
        "x-kubernetes-validations": [
            {"rule": "self.a <= self.b", "message": "a is at most b"},
            {"rule": "self.a != 7", "messageExpression": "'not ' + string(self.a)",
             "fieldPath": ".a", "reason": "FieldValueForbidden"},
            {"rule": "!has(self.n) || self.n < 2.5"},
        ],
    });
    check(spec.clone(), json!({"a": 1, "b": 2, "n": 2}), &[]);
    check(
        spec.clone(),
        json!({"a": 7, "b": 2, "n": 3}),
        &[
            "FieldValueInvalid spec: Invalid value: a is at most b",
            "FieldValueForbidden spec.a: Forbidden: not 7",
            "FieldValueInvalid spec: Invalid value: failed rule: !has(self.n) || self.n < 2.5",
        ],
    );
    check(
        spec.clone(),
        json!({"a": 1}),
        &[
            "FieldValueInvalid spec: Invalid value: \"object\": no such key: b evaluating rule: a is at most b",
        ],
    );
    check(
        spec,
        json!({"a": "x"}),
        &[
            "FieldValueTypeInvalid spec.a: Invalid value: \"string\": spec.a in body must be of type integer: \"string\"",
            "FieldValueInvalid <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
        ],
    );
}

#[test]
fn rules_about_changes() {
    let fixed = json!({
        "type": "integer",
        "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed"}],
    });
    check(fixed.clone(), json!(1), &[]);
    check_update(fixed.clone(), json!(1), json!(1), &[]);
    check_update(
        fixed,
        json!(1),
        json!(2),
        &["FieldValueInvalid spec: Invalid value: 2: fixed"],
    );
    let optional = json!({
        "type": "integer",
        "x-kubernetes-validations": [{
            "rule": "oldSelf.hasValue() ? self > oldSelf.value() : self == 1",
            "optionalOldSelf": true,
            "message": "count up from 1",
        }],
    });
    check(optional.clone(), json!(1), &[]);
    check(
        optional.clone(),
        json!(2),
        &["FieldValueInvalid spec: Invalid value: 2: count up from 1"],
    );
    check_update(optional, json!(1), json!(2), &[]);
}

#[test]
fn what_an_update_does_not_change_may_stay_wrong() {
    let spec = json!({"type": "object", "properties": {
        "a": {"type": "string", "maxLength": 1, "x-kubernetes-validations": [{"rule": "self != 'b'"}]},
        "n": {"type": "integer"},
    }});
    check_update(
        spec.clone(),
        json!({"a": "old"}),
        json!({"a": "old", "n": 1}),
        &[],
    );
    check_update(
        spec.clone(),
        json!({"a": "b"}),
        json!({"a": "b", "n": 1}),
        &[],
    );
    check_update(
        spec,
        json!({"a": "old"}),
        json!({"a": "new"}),
        &[
            "FieldValueTooLong spec.a: Too long: may not be more than 1 byte",
            "FieldValueInvalid <nil>: Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing errors to complete validation",
        ],
    );
}

#[test]
fn rules_spell_odd_names_escaped() {
    let spec = json!({
        "type": "object",
        "properties": {
            "my-field": {"type": "integer"}, "my_field": {"type": "integer"}, "namespace": {"type": "integer"},
        },
        "x-kubernetes-validations": [
            {"rule": "self.my__dash__field + self.my_field + self.__namespace__ == 6", "message": "six"},
        ],
    });
    check(
        spec.clone(),
        json!({"my-field": 1, "my_field": 2, "namespace": 3}),
        &[],
    );
    check(
        spec,
        json!({"my-field": 1, "my_field": 2, "namespace": 4}),
        &["FieldValueInvalid spec: Invalid value: six"],
    );
}

#[test]
fn rules_see_values_as_the_schema_says() {
    let spec = |rule: &str| {
        json!({
            "type": "object",
            "properties": {
                "nothing": {"type": "string", "nullable": true},
                "whole": {"type": "number"},
                "time": {"type": "string", "format": "date-time"},
                "span": {"type": "string", "format": "duration"},
                "bytes": {"type": "string", "format": "byte"},
                "text": {"type": "string"},
                "map": {"type": "object", "additionalProperties": {"type": "integer"}},
            },
            "x-kubernetes-validations": [{"rule": rule}],
        })
    };
    let object = json!({
        "nothing": null, "whole": 3, "time": "2024-05-01T00:00:00Z", "span": "90m",
        "bytes": "aGVsbG8=", "text": "é", "map": {"a-b": 1},
    });
    for rule in [
        "!has(self.nothing)",
        "self.whole / 2.0 == 1.5",
        "self.time.getFullYear() == 2024",
        "self.span == duration('1h30m')",
        "self.bytes.size() == 5",
        "self.text.size() == 1 && size(self.text) == 1",
        "'a-b' in self.map && self.map['a-b'] == 1",
    ] {
        check(spec(rule), object.clone(), &[]);
    }
}

#[test]
fn a_status_is_checked_alone() {
    let part =
        json!({"type": "object", "required": ["a"], "properties": {"a": {"type": "integer"}}});
    let root = json!({"type": "object", "properties": {"spec": part, "status": part}});
    let schema = Schema::compile(&root).unwrap();
    let errors = schema.validate_status(&json!({"status": {"a": "x"}}), &json!({}));
    assert_eq!(
        messages(&errors),
        [
            "FieldValueTypeInvalid status.a: Invalid value: \"string\": a in body must be of type integer: \"string\""
        ],
    );
}

#[test]
fn schemas_must_be_structural() {
    check_refused(
        json!({}),
        &["FieldValueRequired type: Required value: must not be empty at the root"],
    );
    check_refused(
        json!({"type": "object", "properties": {"a": {}}}),
        &[
            "FieldValueRequired properties[a].type: Required value: must not be empty for specified object fields",
        ],
    );
    check_refused(
        json!({"type": "object", "properties": {"a": {"type": "string", "allOf": [{"type": "string"}]}}}),
        &[
            "FieldValueForbidden properties[a].allOf[0].type: Forbidden: must be empty to be structural",
        ],
    );
    check_refused(
        json!({"type": "object", "properties": {"a": {"type": "string", "$ref": "x"}}}),
        &["FieldValueForbidden properties[a].$ref: Forbidden: $ref is not supported"],
    );
    check_refused(
        json!({"type": "object", "properties": {"a": {"type": "integer", "default": "x"}}}),
        &[
            "FieldValueTypeInvalid properties[a].default: Invalid value: \"string\":  in body must be of type integer: \"string\"",
        ],
    );
    check_refused(
        json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}}),
        &[
            "FieldValueInvalid properties[a].pattern: Invalid value: \"(\": must be a valid regular expression, but isn't: error parsing regexp: missing closing ): `(`",
        ],
    );
}

#[test]
fn rules_that_cannot_run_are_refused() {
    let detail_of = |rule: &str| {
        let root = json!({
            "type": "object",
            "properties": {
                "a": {"type": "integer"},
                "l": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "string"}}}},
            },
            "x-kubernetes-validations": [{"rule": rule}],
        });
        let errors = Schema::compile(&root).expect_err(rule);
        let detail = errors[0].message.split("}: ").nth(1).unwrap_or_default();
        detail.lines().next().unwrap_or_default().to_owned()
    };
    for (rule, expected) in [
        (
            "self.b == 1",
            "compilation failed: ERROR: <input>:1:5: undefined field 'b'",
        ),
        (
            "b == 1",
            "compilation failed: ERROR: <input>:1:1: undeclared reference to 'b' (in container '')",
        ),
        ("self.a", "cel expression must evaluate to a bool"),
        (
            "self.a == 'x'",
            "compilation failed: ERROR: <input>:1:8: found no matching overload for '_==_' applied to '(int, string)'",
        ),
        (
            "self.l.all(x, x.m == 'a')",
            "compilation failed: ERROR: <input>:1:16: undefined field 'm'",
        ),
        (
            "self.l.sortBy(x, x.n).size() > 0",
            "compilation failed: ERROR: <input>:1:14: 'sortBy' with these arguments is not supported by this server",
        ),
        (
            "self.l.all(i, x, x.n == 'a')",
            "compilation failed: ERROR: <input>:1:11: 'all' with these arguments is not supported by this server",
        ),
        (
            "self.a >",
            "compilation failed: ERROR: <input>:1:9: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}",
        ),
    ] {
        assert_eq!(detail_of(rule), expected, "{rule}");
    }
}

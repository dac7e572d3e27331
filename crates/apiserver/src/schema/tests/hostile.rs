//! Nothing anybody sends may panic, hang or overflow the stack.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::messages;
use crate::definition;
use crate::schema::Schema;

/// As deep as the JSON parser lets a body be.
const DEEPEST: usize = 127;

/// Any JSON, with the words schemas are made of as keys and values.
fn any_json() -> impl Strategy<Value = Value> {
    let word = prop_oneof![
        Just("type"),
        Just("object"),
        Just("array"),
        Just("string"),
        Just("integer"),
        Just("properties"),
        Just("items"),
        Just("additionalProperties"),
        Just("allOf"),
        Just("anyOf"),
        Just("not"),
        Just("default"),
        Just("enum"),
        Just("required"),
        Just("pattern"),
        Just("format"),
        Just("date-time"),
        Just("nullable"),
        Just("maximum"),
        Just("multipleOf"),
        Just("maxLength"),
        Just("x-kubernetes-validations"),
        Just("rule"),
        Just("x-kubernetes-list-type"),
        Just("map"),
        Just("x-kubernetes-list-map-keys"),
        Just("x-kubernetes-embedded-resource"),
        Just("x-kubernetes-preserve-unknown-fields"),
        Just("x-kubernetes-int-or-string"),
        Just("metadata"),
        Just("name"),
        Just("kind"),
        Just("spec"),
        Just("names"),
        Just("versions"),
        Just("schema"),
        Just("openAPIV3Schema"),
        Just("selectableFields"),
        Just("jsonPath"),
        Just("self.a == oldSelf"),
        Just("a"),
    ]
    .prop_map(str::to_owned);
    let text = prop_oneof![4 => word, 1 => any::<String>()];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 64, 8, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((text.clone(), inner), 0..8)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

/// A schema that compiles more often than not.
fn schema_of_values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({"type": "string", "maxLength": 3, "format": "date-time"})),
        Just(json!({"type": "string", "default": "d", "enum": ["d", "a"]})),
        Just(json!({"type": "integer", "minimum": 1, "multipleOf": 0.5, "format": "int32"})),
        Just(json!({"type": "number", "maximum": 1.5, "nullable": true})),
        Just(json!({"type": "boolean"})),
        Just(json!({"x-kubernetes-int-or-string": true})),
        Just(json!({"x-kubernetes-preserve-unknown-fields": true})),
        Just(json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self > 1"}]})),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            inner
                .clone()
                .prop_map(|items| json!({"type": "array", "items": items, "maxItems": 2})),
            inner
                .clone()
                .prop_map(|held| json!({"type": "object", "additionalProperties": held})),
            (inner.clone(), inner).prop_map(|(a, name)| json!({
                "type": "object",
                "properties": {"a": a, "name": name},
                "required": ["a"],
                "anyOf": [{"required": ["name"]}, {"not": {"required": ["a"]}}],
            })),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_schema_compiles_or_is_refused(schema in any_json(), object in any_json()) {
        if let Ok(schema) = Schema::compile(&schema) {
            exercise(&schema, object);
        }
    }

    #[test]
    fn any_definition_is_read_or_refused(mut crd in any_json(), other in any_json()) {
        definition::default(&mut crd);
        let _ = definition::parse(&crd);
        definition::check_update(&crd, &other);
        definition::established_status(&crd, "2024-01-01T00:00:00Z");
    }

    #[test]
    fn any_object_is_judged(held in schema_of_values(), object in any_json()) {
        let root = json!({"type": "object", "properties": {"spec": held}});
        let schema = Schema::compile(&root).map_err(|errors| TestCaseError::fail(messages(&errors).join("\n")))?;
        exercise(&schema, object.clone());
        exercise(&schema, json!({"spec": object}));
    }
}

fn exercise(schema: &Schema, mut object: Value) {
    let before = object.clone();
    schema.prune(&mut object);
    let mut again = object.clone();
    assert!(
        schema.prune(&mut again).is_empty(),
        "pruning twice drops more"
    );
    schema.default(&mut object);
    let mut again = object.clone();
    schema.default(&mut again);
    assert_eq!(again, object, "defaulting twice changes more");
    schema.validate(&object, None);
    schema.validate(&object, Some(&before));
    schema.validate_status(&object, &before);
}

/// Runs on the stack a tokio worker has.
fn on_a_small_stack(work: impl FnOnce() + Send + 'static) {
    let thread = std::thread::Builder::new()
        .stack_size(2 << 20)
        .spawn(work)
        .unwrap();
    thread.join().unwrap();
}

fn nested(levels: usize, innermost: Value, wrap: impl Fn(Value) -> Value) -> Value {
    (0..levels).fold(innermost, |inner, _| wrap(inner))
}

#[test]
fn deep_schemas_and_objects_fit_the_stack() {
    on_a_small_stack(|| {
        let leaf = json!({"type": "integer", "x-kubernetes-validations": [{"rule": "self > 1"}]});
        let lists = nested(
            DEEPEST,
            leaf.clone(),
            |items| json!({"type": "array", "items": items}),
        );
        let root = json!({"type": "object", "properties": {"spec": lists}});
        let schema = Schema::compile(&root).unwrap();
        let object = nested(DEEPEST, json!(1), |inner| json!([inner]));
        assert_eq!(schema.validate(&json!({"spec": object}), None).len(), 1);
        exercise(&schema, json!({"spec": object}));

        let maps = nested(
            DEEPEST,
            leaf,
            |held| json!({"type": "object", "additionalProperties": held}),
        );
        let rule = json!([{"rule": "self.spec.size() > 1"}]);
        let root = json!({
            "type": "object", "properties": {"spec": maps}, "x-kubernetes-validations": rule,
        });
        let schema = Schema::compile(&root).unwrap();
        let object = nested(DEEPEST, json!(1), |inner| json!({"a": inner}));
        assert_eq!(schema.validate(&json!({"spec": object}), None).len(), 2);
        exercise(&schema, json!({"spec": object}));
    });
}

#[test]
fn deep_branches_fit_the_stack() {
    on_a_small_stack(|| {
        for keyword in ["allOf", "anyOf", "oneOf"] {
            let branches = nested(
                DEEPEST,
                json!({"minimum": 2}),
                |inner| json!({keyword: [inner]}),
            );
            let mut spec = branches;
            spec["type"] = json!("integer");
            let root = json!({"type": "object", "properties": {"spec": spec}});
            let schema = Schema::compile(&root).unwrap();
            assert!(
                !schema.validate(&json!({"spec": 1}), None).is_empty(),
                "{keyword}"
            );
            assert!(
                schema.validate(&json!({"spec": 2}), None).is_empty(),
                "{keyword}"
            );
        }
        let denied = nested(
            DEEPEST,
            json!({"minimum": 2}),
            |inner| json!({"not": inner}),
        );
        let mut spec = denied;
        spec["type"] = json!("integer");
        let root = json!({"type": "object", "properties": {"spec": spec}});
        assert_eq!(
            Schema::compile(&root)
                .unwrap()
                .validate(&json!({"spec": 2}), None)
                .len(),
            1
        );
    });
}

#[test]
fn deep_rules_are_refused_or_fit_the_stack() {
    on_a_small_stack(|| {
        let with_rule = |rule: String| {
            let rules = json!([{"rule": rule, "message": "no"}]);
            json!({
                "type": "object",
                "properties": {"a": {"type": "integer"}},
                "x-kubernetes-validations": rules,
            })
        };
        for (open, close) in [
            ("(", ")"),
            ("[", "]"),
            ("!(", ")"),
            ("1+(", ")"),
            ("[1,", "]"),
            ("-", ""),
        ] {
            for levels in 1..64 {
                let rule = format!("{}1{} == 1", open.repeat(levels), close.repeat(levels));
                if let Ok(schema) = Schema::compile(&with_rule(rule)) {
                    exercise(&schema, json!({"a": 1}));
                }
            }
        }
        for operator in ["+", "&&", "||", "==", "-"] {
            let rule = vec!["self.a"; 400].join(operator);
            if let Ok(schema) = Schema::compile(&with_rule(rule)) {
                exercise(&schema, json!({"a": 1}));
            }
        }
    });
}

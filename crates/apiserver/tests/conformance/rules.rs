//! The rules in the schemas of custom resources.

use serde_json::{Value, json};

use crate::support::validation::{causes, create, refused};
use crate::support::{Context, cases, spec_schema, version};

cases!("rules":
    rules, rules_with_message_expression, rules_on_transition, rules_wait_for_valid_objects,
    rules_see_spec_and_status, rules_on_transition_see_what_stays, costly_rules_are_refused,
);

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

/// Defines things with a status, with rules for the whole object and for `spec.max`.
async fn define_statuses(api: &Context, whole: Value, max: Value) {
    let mut schema = spec_schema(json!({}));
    schema["properties"]["status"] =
        json!({"type": "object", "properties": {"used": {"type": "integer"}}});
    let mut max_schema = json!({"type": "integer"});
    max_schema["x-kubernetes-validations"] = max;
    schema["properties"]["spec"]["properties"]["max"] = max_schema;
    schema["x-kubernetes-validations"] = whole;
    api.define(&api.things(json!([version("v1", schema)])))
        .await;
    api.create_thing("a", json!({"spec": {"max": 3}})).await;
}

async fn rules_see_spec_and_status(api: Context) {
    let rule = "!has(self.status) || !has(self.status.used) || self.status.used <= self.spec.max";
    define_statuses(&api, json!([{"rule": rule}]), json!([])).await;
    let path = api.custom("things/a/status");
    for (used, code) in [(1, 200), (2, 200), (4, 422), (3, 200)] {
        let answer = api.merge(&path, &json!({"status": {"used": used}})).await;
        answer.expect_code(code);
    }
}

async fn rules_on_transition_see_what_stays(api: Context) {
    let rule = json!([{"rule": "self != oldSelf", "message": "must change"}]);
    define_statuses(&api, json!([]), rule).await;
    let path = api.custom("things/a/status");
    let answer = api.merge(&path, &json!({"status": {"used": 1}})).await;
    let expected = ["spec.max: Invalid value: 3: must change (FieldValueInvalid)"];
    assert_eq!(causes(&api, answer), expected);
}

/// Refused with the definition, where its cost is estimated, or with the first object.
async fn costly_rules_are_refused(api: Context) {
    let rule = "self.all(a, self.all(b, self.all(c, self.all(d, a + b + c + d != ''))))";
    let mut list = json!({"type": "array", "items": {"type": "string"}});
    list["x-kubernetes-validations"] = json!([{"rule": rule, "message": "no"}]);
    let definition = api.things(json!([version("v1", spec_schema(json!({"list": list})))]));
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let defined = api.post(path, &definition).await;
    if defined.code == 422 {
        return;
    }
    defined.expect_code(201);
    let is_served = |answer: &crate::support::Answer| answer.code == 200;
    api.wait_for(&api.custom("things"), is_served).await;
    let texts: Vec<String> = (0..200).map(|index| index.to_string()).collect();
    let causes = causes(&api, create(&api, json!({"list": texts})).await);
    let expected = "spec.list: Invalid value: \"array\": 'operation cancelled: actual cost limit \
                    exceeded': no further validation rules will be run due to call cost exceeds \
                    limit for rule: no (FieldValueInvalid)";
    assert_eq!(causes, [expected]);
}

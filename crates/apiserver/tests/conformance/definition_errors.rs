//! CustomResourceDefinitions that are refused.

use serde_json::{Value, json};

use crate::support::{Context, DEFINITIONS, anything, cases, overlay, spec_schema, version};

cases!("definition_errors":
    name_must_fit, group_needs_a_dot, one_version_must_be_stored, versions_must_differ,
    scope_must_be_known, schema_is_required, schema_must_be_structural, schema_must_make_sense,
    references_are_refused, metadata_cannot_be_described, rules_must_compile,
    rules_must_be_cheap, empty_definition_is_refused,
);

/// Creates the definition of Things changed like this, which must be refused for exactly these
/// fields and messages.
async fn refused(api: &Context, change: Value, expected: &[(&str, &str)]) {
    let mut definition = api.things(json!([version("v1", anything())]));
    overlay(&mut definition, &change);
    let status = api
        .post(DEFINITIONS, &definition)
        .await
        .refused_somehow(422, "Invalid");
    assert_eq!(status["details"]["kind"], "CustomResourceDefinition");
    assert_eq!(status["details"]["group"], "apiextensions.k8s.io");
    assert_eq!(status["details"]["name"], definition["metadata"]["name"]);
    let causes = status["details"]["causes"].as_array().unwrap();
    let mut found: Vec<(&str, &str)> = causes
        .iter()
        .map(|c| (c["field"].as_str().unwrap(), c["message"].as_str().unwrap()))
        .collect();
    found.sort_unstable();
    let mut expected = expected.to_vec();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

/// A change of the only version's schema.
fn with_schema(schema: Value) -> Value {
    json!({"spec": {"versions": [version("v1", schema)]}})
}

async fn name_must_fit(api: Context) {
    let message = "Invalid value: \"wrong\": must be spec.names.plural+\".\"+spec.group";
    refused(
        &api,
        json!({"metadata": {"name": "wrong"}}),
        &[("metadata.name", message)],
    )
    .await;
}

async fn group_needs_a_dot(api: Context) {
    let change = json!({"metadata": {"name": "things.flat"}, "spec": {"group": "flat"}});
    let message = "Invalid value: \"flat\": should be a domain with at least one dot";
    refused(&api, change, &[("spec.group", message)]).await;
}

async fn one_version_must_be_stored(api: Context) {
    let mut definition = api.things(json!([version("v1", anything())]));
    definition["spec"]["versions"][0]["storage"] = json!(false);
    let status = api
        .post(DEFINITIONS, &definition)
        .await
        .refused_somehow(422, "Invalid");
    let causes = &status["details"]["causes"];
    assert_eq!(causes[0]["field"], "spec.versions");
    let message = causes[0]["message"].as_str().unwrap();
    assert!(
        message.ends_with(": must have exactly one version marked as storage version"),
        "{message}"
    );
    assert_eq!(causes[1]["field"], "status.storedVersions");
    assert_eq!(
        causes[1]["message"],
        "Invalid value: null: must have at least one stored version"
    );
}

async fn versions_must_differ(api: Context) {
    let mut second = version("v1", anything());
    second["storage"] = json!(false);
    let definition = api.things(json!([version("v1", anything()), second]));
    let status = api
        .post(DEFINITIONS, &definition)
        .await
        .refused_somehow(422, "Invalid");
    let cause = &status["details"]["causes"][0];
    assert_eq!(cause["field"], "spec.versions");
    assert!(
        cause["message"]
            .as_str()
            .unwrap()
            .ends_with(": must contain unique version names"),
        "{cause}"
    );
}

async fn scope_must_be_known(api: Context) {
    let message = "Unsupported value: \"Sideways\": supported values: \"Cluster\", \"Namespaced\"";
    refused(
        &api,
        json!({"spec": {"scope": "Sideways"}}),
        &[("spec.scope", message)],
    )
    .await;
}

async fn schema_is_required(api: Context) {
    let versions = json!([{"name": "v1", "served": true, "storage": true}]);
    let field = "spec.versions[0].schema.openAPIV3Schema";
    refused(
        &api,
        json!({"spec": {"versions": versions}}),
        &[(field, "Required value")],
    )
    .await;
}

async fn schema_must_be_structural(api: Context) {
    let root = "spec.validation.openAPIV3Schema";
    refused(
        &api,
        with_schema(json!({"properties": {}})),
        &[(
            &format!("{root}.type"),
            "Required value: must not be empty at the root",
        )],
    )
    .await;
    let untyped = json!({"type": "object", "properties": {"spec": {"properties": {"a": {"type": "string"}}}}});
    refused(
        &api,
        with_schema(untyped),
        &[(
            &format!("{root}.properties[spec].type"),
            "Required value: must not be empty for specified object fields",
        )],
    )
    .await;
}

async fn schema_must_make_sense(api: Context) {
    let spec = "spec.validation.openAPIV3Schema.properties[spec].properties";
    let schema = spec_schema(json!({"b": {"type": "nonsense"}, "c": {"type": "array"}}));
    refused(
        &api,
        with_schema(schema),
        &[
            (
                &format!("{spec}[b].type"),
                "Unsupported value: \"nonsense\": supported values: \"array\", \
            \"boolean\", \"integer\", \"number\", \"object\", \"string\"",
            ),
            (
                &format!("{spec}[c].items"),
                "Required value: must be specified",
            ),
        ],
    )
    .await;
    let definition = api.things(json!([version(
        "v1",
        spec_schema(json!({"a": {"type": "string", "pattern": "("}}))
    )]));
    let status = api
        .post(DEFINITIONS, &definition)
        .await
        .refused_somehow(422, "Invalid");
    assert_eq!(
        status["details"]["causes"][0]["field"],
        format!("{spec}[a].pattern")
    );
}

async fn references_are_refused(api: Context) {
    let root = "spec.validation.openAPIV3Schema.properties";
    let both = json!({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "string"}});
    let schema = json!({"type": "object", "properties": {"e": both, "m": {"$ref": "#/x"}}});
    refused(
        &api,
        with_schema(schema),
        &[
            (
                &format!("{root}[e].additionalProperties"),
                "Forbidden: additionalProperties and properties are mutual exclusive",
            ),
            (
                &format!("{root}[m].$ref"),
                "Forbidden: $ref is not supported",
            ),
        ],
    )
    .await;
}

async fn metadata_cannot_be_described(api: Context) {
    let metadata = json!({"type": "object", "properties": {"labels": {"type": "object"}}});
    let schema = json!({"type": "object", "properties": {"metadata": metadata}});
    refused(&api, with_schema(schema), &[("spec.validation.openAPIV3Schema.properties[metadata]",
        "Forbidden: must not specify anything other than name and generateName, but metadata is implicitly specified")]).await;
}

/// The first cause of the refusal of a schema whose spec has this rule.
async fn refused_rule(api: &Context, rule: &str) -> Value {
    let mut schema = spec_schema(
        json!({"a": {"type": "string"}, "l": {"type": "array", "items": {"type": "string"}}}),
    );
    schema["properties"]["spec"]["x-kubernetes-validations"] = json!([{"rule": rule}]);
    let definition = api.things(json!([version("v1", schema)]));
    let mut status = api
        .post(DEFINITIONS, &definition)
        .await
        .refused_somehow(422, "Invalid");
    let cause = status["details"]["causes"][0].take();
    let field = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule";
    assert_eq!(cause["field"], field);
    cause
}

async fn rules_must_compile(api: Context) {
    let cause = refused_rule(&api, "").await;
    assert_eq!(cause["message"], "Required value: rule is not specified");
    for rule in ["self.a ==", "self.missing == 1"] {
        let cause = refused_rule(&api, rule).await;
        assert!(
            cause["message"]
                .as_str()
                .unwrap()
                .contains("compilation failed"),
            "{cause}"
        );
    }
}

async fn rules_must_be_cheap(api: Context) {
    let cause = refused_rule(&api, "self.l.all(x, self.l.all(y, x.matches(y)))").await;
    assert_eq!(cause["reason"], "FieldValueForbidden");
    assert!(
        cause["message"]
            .as_str()
            .unwrap()
            .contains("estimated rule cost exceeds budget"),
        "{cause}"
    );
}

async fn empty_definition_is_refused(api: Context) {
    let name = format!("things.{}", api.group);
    let body = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": name}, "spec": {}});
    let status = api
        .post(DEFINITIONS, &body)
        .await
        .refused_somehow(422, "Invalid");
    let causes = status["details"]["causes"].as_array().unwrap();
    let fields: Vec<&str> = causes
        .iter()
        .map(|cause| cause["field"].as_str().unwrap())
        .collect();
    for field in [
        "metadata.name",
        "spec.group",
        "spec.scope",
        "spec.versions",
        "spec.names.plural",
        "spec.names.kind",
    ] {
        assert!(fields.contains(&field), "{field} not in {fields:?}");
    }
}

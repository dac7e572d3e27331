//! The generated definitions, as they are installed.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

fn schema(definition: &CustomResourceDefinition) -> Value {
    let validation = definition.spec.versions[0].schema.as_ref().unwrap();
    serde_json::to_value(validation.open_api_v3_schema.as_ref().unwrap()).unwrap()
}

fn named(name: &str) -> CustomResourceDefinition {
    let is_it = |definition: &CustomResourceDefinition| definition.spec.names.kind == name;
    api::crds().into_iter().find(is_it).unwrap()
}

/// `a.b[].c` inside a schema; `[]` steps into the items of a list.
fn field(schema: &Value, path: &str) -> Value {
    path.split('.').fold(schema.clone(), |schema, step| {
        let (name, is_list) = step
            .strip_suffix("[]")
            .map_or((step, false), |name| (name, true));
        let field = &schema["properties"][name];
        if is_list {
            field["items"].clone()
        } else {
            field.clone()
        }
    })
}

fn each_schema(schema: &Value, path: &str, visit: &mut dyn FnMut(&str, &Value)) {
    visit(path, schema);
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        each_schema(field, &format!("{path}.{name}"), visit);
    }
    for inner in ["items", "additionalProperties"] {
        if schema[inner].is_object() {
            each_schema(&schema[inner], &format!("{path}[]"), visit);
        }
    }
}

#[test]
fn definitions_are_as_reviewed() {
    for definition in api::crds() {
        let name = definition.metadata.name.clone().unwrap();
        let text = serde_saphyr::to_string(&definition).unwrap();
        insta::assert_snapshot!(name, text);
    }
}

/// `kubectl get sluice` lists all our kinds.
#[test]
fn kinds_have_a_short_name_a_category_and_an_age() {
    let ours = api::crds().into_iter().filter(|it| {
        // The older project's kind is only read.
        it.spec.group != "pipelines.wego.weave.works"
    });
    for definition in ours {
        let (names, version) = (&definition.spec.names, &definition.spec.versions[0]);
        let columns = version.additional_printer_columns.iter().flatten();
        let kind = &names.kind;
        assert_eq!(names.categories, Some(vec!["sluice".to_owned()]), "{kind}");
        assert_eq!(names.short_names.iter().flatten().count(), 1, "{kind}");
        assert!(columns.clone().any(|it| it.name == "Age"), "{kind}");
        assert!(columns.count() > 1, "{kind}");
    }
}

#[test]
fn the_order_never_changes() {
    let kinds: Vec<_> = api::crds()
        .into_iter()
        .map(|definition| definition.spec.names.kind)
        .collect();
    assert_eq!(
        kinds,
        [
            "Pipeline",
            "Promotion",
            "Change",
            "Freeze",
            "CheckRun",
            "GitopsCluster",
            "PipelineTrigger",
            "Pipeline"
        ]
    );
}

#[test]
fn schemas_are_structural_and_documented() {
    for definition in api::crds() {
        let kind = &definition.spec.names.kind;
        each_schema(&schema(&definition), kind, &mut |path, schema| {
            let is_either = schema["x-kubernetes-int-or-string"] == true;
            assert!(
                schema["type"].is_string() != is_either,
                "{path} has no type"
            );
            for keyword in ["$ref", "oneOf", "anyOf", "allOf", "nullable", "title"] {
                assert_eq!(schema[keyword], Value::Null, "{path} has {keyword}");
            }
            let both =
                schema["properties"].is_object() && schema["additionalProperties"].is_object();
            assert!(!both, "{path} has properties and additionalProperties");
            let is_default_wanted = path == "Pipeline.status";
            assert_eq!(
                schema["default"].is_null(),
                !is_default_wanted,
                "default of {path}"
            );
            let is_item = path.ends_with("[]") || path.contains("clusterSelector");
            assert!(
                is_item || schema["description"].is_string(),
                "{path} has no description"
            );
        });
    }
}

#[test]
fn pipelines_are_no_stricter_than_they_were() {
    let schema = schema(&named("Pipeline"));
    assert_eq!(schema["required"], Value::Null);
    assert_eq!(field(&schema, "spec")["required"], json!(["environments"]));
    let environment = field(&schema, "spec.environments[]");
    assert_eq!(environment["required"], json!(["name", "targets"]));
    let free = [
        "spec.appRef.apiVersion",
        "spec.appRef.kind",
        "spec.appRef.name",
        "spec.environments",
        "spec.environments[].name",
        "spec.environments[].targets",
        "spec.environments[].targets[].namespace",
        "spec.environments[].targets[].clusterRef.apiVersion",
        "spec.environments[].targets[].clusterRef.name",
        "spec.environments[].targets[].clusterRef.namespace",
        "spec.promotion.manual",
        "spec.promotion.strategy.secretRef.name",
        "spec.promotion.strategy.pull-request.url",
        "spec.promotion.strategy.pull-request.baseBranch",
        "spec.promotion.strategy.pull-request.secretRef.name",
        "status.observedGeneration",
        "status.environments",
    ];
    for path in free {
        let field = field(&schema, path);
        let keywords = field.as_object().unwrap().keys();
        let plain = [
            "type",
            "description",
            "format",
            "items",
            "additionalProperties",
        ];
        assert!(
            keywords
                .clone()
                .all(|keyword| plain.contains(&keyword.as_str())),
            "{path}: {field}"
        );
    }
}

#[test]
fn pipelines_require_what_they_did() {
    let schema = schema(&named("Pipeline"));
    let required = |path: &str| field(&schema, path)["required"].clone();
    assert_eq!(
        required("spec.appRef"),
        json!(["apiVersion", "kind", "name"])
    );
    assert_eq!(
        required("spec.environments[].targets[]"),
        json!(["namespace"])
    );
    assert_eq!(
        required("spec.environments[].targets[].clusterRef"),
        json!(["kind", "name"])
    );
    assert_eq!(required("spec.promotion"), Value::Null);
    assert_eq!(required("spec.promotion.strategy"), Value::Null);
    let pull_request = json!(["baseBranch", "secretRef", "type", "url"]);
    assert_eq!(
        required("spec.promotion.strategy.pull-request"),
        pull_request
    );
    assert_eq!(
        field(&schema, "status")["default"],
        json!({ "observedGeneration": -1 })
    );
}

fn columns(kind: &str) -> Vec<String> {
    let columns = named(kind).spec.versions[0]
        .additional_printer_columns
        .clone()
        .unwrap();
    columns.into_iter().map(|column| column.name).collect()
}

#[test]
fn kubectl_shows_the_columns_people_know() {
    assert_eq!(
        columns("Pipeline"),
        [
            "State", "Runs", "App Kind", "App Name", "Ready", "Status", "Age"
        ]
    );
    assert_eq!(
        columns("GitopsCluster"),
        ["Age", "Ready", "Status", "ClusterConnectivity"]
    );
    assert_eq!(
        columns("PipelineTrigger"),
        ["Source", "Revision", "LastRun", "Ready", "Age"]
    );
}

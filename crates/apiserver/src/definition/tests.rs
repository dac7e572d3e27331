//! Validation of definitions. Messages are those of kube-apiserver, except where something is not
//! supported.

use serde_json::{Value, json};

use super::{check_update, default, established_status, parse};
use crate::schema::FieldError;

fn messages(errors: &[FieldError]) -> Vec<String> {
    errors
        .iter()
        .map(|error| format!("{} {}: {}", error.reason, error.field, error.message))
        .collect()
}

fn good() -> Value {
    let mut crd = json!({
        "metadata": {"name": "things.t.example.com"},
        "spec": {
            "group": "t.example.com",
            "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing", "shortNames": ["th"], "categories": ["all"]},
            "versions": [{
                "name": "v1",
                "served": true,
                "storage": true,
                "deprecated": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                    "spec": {"type": "object", "properties": {"color": {"type": "string"}}},
                }}},
                "subresources": {"status": {}},
                "selectableFields": [{"jsonPath": ".spec.color"}],
                "additionalPrinterColumns": [{"name": "C", "type": "string", "jsonPath": ".spec.color"}],
            }],
        },
    });
    default(&mut crd);
    crd
}

/// Checks the errors of a valid definition after `change`.
fn check(change: impl FnOnce(&mut Value), expected: &[&str]) {
    let mut crd = good();
    change(&mut crd);
    default(&mut crd);
    let errors = parse(&crd).expect_err("a refused definition");
    assert_eq!(messages(&errors), expected);
}

#[test]
fn a_good_definition_is_read() {
    let crd = good();
    assert_eq!(crd["spec"]["names"]["singular"], "thing");
    assert_eq!(crd["spec"]["conversion"], json!({"strategy": "None"}));
    let definition = parse(&crd).unwrap_or_else(|errors| panic!("{:#?}", messages(&errors)));
    assert_eq!(definition.group, "t.example.com");
    assert_eq!(
        (definition.plural.as_str(), definition.singular.as_str()),
        ("things", "thing")
    );
    assert_eq!(
        (definition.kind.as_str(), definition.list_kind.as_str()),
        ("Thing", "ThingList")
    );
    assert_eq!(
        (definition.short_names, definition.categories),
        (vec!["th".into()], vec!["all".into()])
    );
    assert!(definition.namespaced);
    let version = &definition.versions[0];
    assert_eq!(version.name, "v1");
    assert!(version.served && version.status_subresource);
    assert_eq!(
        version.deprecation_warning.as_deref(),
        Some("t.example.com/v1 Thing is deprecated")
    );
    assert_eq!(version.selectable_fields, [".spec.color"]);
    assert!(
        version
            .schema
            .validate(&json!({"spec": {"color": "red"}}), None)
            .is_empty()
    );
}

#[test]
fn names() {
    check(
        |crd| crd["metadata"]["name"] = json!("others.t.example.com"),
        &[
            "FieldValueInvalid metadata.name: Invalid value: \"others.t.example.com\": must be spec.names.plural+\".\"+spec.group",
        ],
    );
    check(
        |crd| {
            crd["spec"]["group"] = json!("local");
            crd["metadata"]["name"] = json!("things.local");
        },
        &[
            "FieldValueInvalid spec.group: Invalid value: \"local\": should be a domain with at least one dot",
        ],
    );
    check(
        |crd| crd["spec"]["names"]["listKind"] = json!("Thing"),
        &[
            "FieldValueInvalid spec.names.listKind: Invalid value: \"Thing\": kind and listKind may not be the same",
        ],
    );
    check(
        |crd| crd["spec"]["scope"] = json!("Galaxy"),
        &[
            "FieldValueNotSupported spec.scope: Unsupported value: \"Galaxy\": supported values: \"Cluster\", \"Namespaced\"",
        ],
    );
}

#[test]
fn versions() {
    check(
        |crd| crd["spec"]["versions"][0]["storage"] = json!(false),
        &[
            "FieldValueInvalid spec.versions: Invalid value: [{\"Name\":\"v1\",\"Served\":true,\"Storage\":false,\"Deprecated\":true,\"DeprecationWarning\":null,\"Schema\":null,\"Subresources\":null,\"AdditionalPrinterColumns\":null,\"SelectableFields\":null}]: must have exactly one version marked as storage version",
            "FieldValueInvalid status.storedVersions: Invalid value: null: must have at least one stored version",
        ],
    );
    check(
        |crd| crd["spec"]["versions"][0]["schema"] = Value::Null,
        &["FieldValueRequired spec.versions[0].schema.openAPIV3Schema: Required value"],
    );
    check(
        |crd| crd["spec"]["versions"][0]["selectableFields"][0]["jsonPath"] = json!(".spec.size"),
        &[
            "FieldValueInvalid spec.selectableFields[0].jsonPath: Invalid value: \".spec.size\": is an invalid path: does not refer to a valid field",
        ],
    );
}

/// What all versions share is reported as part of the spec, as in kube-apiserver.
#[test]
fn schemas_are_placed() {
    let bad = json!({"openAPIV3Schema": {"type": "object", "properties": {"a": {}}}});
    let detail = "type: Required value: must not be empty for specified object fields";
    let shared =
        format!("FieldValueRequired spec.validation.openAPIV3Schema.properties[a].{detail}");
    check(
        |crd| without_fields(crd)["schema"] = bad.clone(),
        &[&shared],
    );
    let own = format!(
        "FieldValueRequired spec.versions[1].schema.openAPIV3Schema.properties[a].{detail}"
    );
    check(
        |crd| {
            let mut second = without_fields(crd).clone();
            second["name"] = json!("v2");
            second["storage"] = json!(false);
            second["schema"] = bad.clone();
            crd["spec"]["versions"].as_array_mut().unwrap().push(second);
        },
        &[&own],
    );
}

fn without_fields(crd: &mut Value) -> &mut Value {
    let version = &mut crd["spec"]["versions"][0];
    version["selectableFields"] = Value::Null;
    version
}

#[test]
fn what_is_not_supported_is_refused() {
    check(
        |crd| crd["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {}}),
        &[
            "FieldValueNotSupported spec.conversion.strategy: Unsupported value: \"Webhook\": supported values: \"None\"",
        ],
    );
    check(
        |crd| crd["spec"]["versions"][0]["subresources"]["scale"] = json!({}),
        &[
            "FieldValueForbidden spec.subresources.scale: Forbidden: the scale subresource is not supported by this server",
        ],
    );
    check(
        |crd| crd["spec"]["preserveUnknownFields"] = json!(true),
        &[
            "FieldValueInvalid spec.preserveUnknownFields: Invalid value: true: cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ],
    );
}

#[test]
fn what_cannot_be_decoded_is_malformed() {
    check(
        |crd| crd["spec"]["versions"][0]["served"] = json!("yes"),
        &[
            "Malformed : json: cannot unmarshal string into Go struct field CustomResourceDefinitionVersion.spec.versions.served of type bool",
        ],
    );
    check(
        |crd| {
            crd["spec"]["versions"][0]["schema"] =
                json!({"openAPIV3Schema": {"properties": {"a": {"maxLength": "x"}}}});
        },
        &[
            "Malformed : json: cannot unmarshal string into Go struct field JSONSchemaProps.spec.versions.schema.openAPIV3Schema.properties.maxLength of type int64",
        ],
    );
}

#[test]
fn updates() {
    let mut old = good();
    old["status"] = established_status(&old, "2024-01-01T00:00:00Z");
    assert_eq!(messages(&check_update(&old, &old)), Vec::<String>::new());
    let mut new = old.clone();
    new["spec"]["scope"] = json!("Cluster");
    new["spec"]["names"]["kind"] = json!("Other");
    new["spec"]["versions"][0]["name"] = json!("v2");
    assert_eq!(
        messages(&check_update(&old, &new)),
        [
            "FieldValueInvalid spec.scope: Invalid value: \"Cluster\": field is immutable",
            "FieldValueInvalid spec.names.kind: Invalid value: \"Other\": field is immutable",
            "FieldValueInvalid status.storedVersions[0]: Invalid value: \"v1\": missing from spec.versions; v1 was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in v1 and removes v1 from status.storedVersions",
        ],
    );
}

#[test]
fn a_status_says_since_when() {
    let mut crd = good();
    let status = established_status(&crd, "2024-01-01T00:00:00Z");
    assert_eq!(
        status["conditions"],
        json!([
            {"type": "NamesAccepted", "status": "True", "reason": "NoConflicts",
             "message": "no conflicts found", "lastTransitionTime": "2024-01-01T00:00:00Z"},
            {"type": "Established", "status": "True", "reason": "InitialNamesAccepted",
             "message": "the initial names have been accepted", "lastTransitionTime": "2024-01-01T00:00:00Z"},
        ]),
    );
    assert_eq!(status["acceptedNames"], crd["spec"]["names"]);
    assert_eq!(status["storedVersions"], json!(["v1"]));
    crd["status"] = status;
    crd["spec"]["versions"][0]["name"] = json!("v2");
    let later = established_status(&crd, "2025-01-01T00:00:00Z");
    assert_eq!(later["storedVersions"], json!(["v1", "v2"]));
    assert_eq!(
        later["conditions"][1]["lastTransitionTime"],
        "2024-01-01T00:00:00Z"
    );
}

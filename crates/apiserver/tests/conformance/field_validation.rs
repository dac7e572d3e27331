//! What happens to fields that are unknown or there twice.

use http::Method;
use serde_json::{Value, json};

use crate::support::{Answer, Context, anything, cases};

cases!("field_validation":
    strict_names_all_faults, warnings_name_all_faults, ignored_in_silence, deep_inside_a_kind,
    of_custom_objects, of_patches, of_json_patches, of_strategic_patches, of_replaces,
    of_an_apply,
);

/// Two unknown fields and one that is there twice.
const FAULTY: &str = r#"{"metadata":{"name":"a","foo":1},"dat":{},"data":{"k":"1","k":"2"}}"#;
const FAULTS: [&str; 3] = [
    "duplicate field \"data.k\"",
    "unknown field \"dat\"",
    "unknown field \"metadata.foo\"",
];

async fn create(api: &Context, mode: &str) -> Answer {
    let path = api.core(&format!("configmaps?fieldValidation={mode}"));
    api.send(Method::POST, &path, "application/json", FAULTY)
        .await
}

/// The faults in a message after its beginning, sorted: their order is nobody's business.
#[track_caller]
fn faults(message: &str, beginning: &str) -> Vec<String> {
    let (before, faults) = message
        .split_once("strict decoding error: ")
        .expect(message);
    assert!(before.starts_with(beginning), "{message}");
    let mut faults: Vec<String> = faults.split(", ").map(str::to_owned).collect();
    faults.sort();
    faults
}

fn sorted_warnings(answer: &Answer) -> Vec<String> {
    let mut warnings = answer.warnings.clone();
    warnings.sort();
    warnings
}

async fn strict_names_all_faults(api: Context) {
    let status = create(&api, "Strict")
        .await
        .refused_somehow(400, "BadRequest");
    let message = status["message"].as_str().unwrap();
    let beginning = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: ";
    assert_eq!(faults(message, beginning), FAULTS);
    api.get(&api.core("configmaps/a")).await.expect_code(404);
}

async fn warnings_name_all_faults(api: Context) {
    let answer = create(&api, "Warn").await;
    assert_eq!(sorted_warnings(&answer), FAULTS);
    let created = answer.expect_code(201);
    assert_eq!(created["data"], json!({"k": "2"}));
    assert_eq!(created.get("dat"), None);
    assert_eq!(created["metadata"].get("foo"), None);
}

async fn ignored_in_silence(api: Context) {
    let answer = create(&api, "Ignore").await;
    assert!(answer.warnings.is_empty(), "{:?}", answer.warnings);
    assert_eq!(answer.expect_code(201).get("dat"), None);
}

async fn deep_inside_a_kind(api: Context) {
    let path = format!(
        "/apis/apps/v1/namespaces/{}/deployments?fieldValidation=Strict",
        api.namespace
    );
    let container = json!({"name": "a", "imag": "x"});
    let body = json!({"metadata": {"name": "a"}, "spec": {"bad": 1, "template": {"spec": {"containers": [container]}}}});
    let status = api
        .post(&path, &body)
        .await
        .refused_somehow(400, "BadRequest");
    let message = status["message"].as_str().unwrap();
    let beginning = "Deployment in version \"v1\" cannot be handled as a Deployment: ";
    assert_eq!(
        faults(message, beginning),
        [
            "unknown field \"spec.bad\"",
            "unknown field \"spec.template.spec.containers[0].imag\"",
        ]
    );
}

async fn of_custom_objects(api: Context) {
    api.define_things(anything()).await;
    let body = format!(
        r#"{{"apiVersion":"{}/v1","kind":"Thing","metadata":{{"name":"a"}},"spec":{{"a":1,"a":2}},"nope":1}}"#,
        api.group
    );
    let path = api.custom("things?fieldValidation=Strict");
    let answer = api
        .send(Method::POST, &path, "application/json", body)
        .await;
    let status = answer.refused_somehow(400, "BadRequest");
    let message = status["message"].as_str().unwrap();
    assert_eq!(
        faults(
            message,
            "Thing in version \"v1\" cannot be handled as a Thing: "
        ),
        ["duplicate field \"spec.a\"", "unknown field \"nope\""]
    );
}

async fn refused_patch(api: &Context, content_type: &str, patch: &str) -> Vec<String> {
    api.config_map("a", json!({"data": {"k": "0"}})).await;
    let path = api.core("configmaps/a?fieldValidation=Strict");
    let answer = api.send(Method::PATCH, &path, content_type, patch).await;
    let status = answer.refused_somehow(422, "Invalid");
    let found = faults(
        status["message"].as_str().unwrap(),
        " \"\" is invalid: patch: Invalid value: ",
    );
    let stored: Value = api.get(&api.core("configmaps/a")).await.expect_code(200);
    assert_eq!(stored["data"]["k"], "0");
    found
}

async fn of_patches(api: Context) {
    let patch = r#"{"dat":{},"data":{"k":"1","k":"2"}}"#;
    let found = refused_patch(&api, "application/merge-patch+json", patch).await;
    assert_eq!(found, FAULTS[..2]);
}

async fn of_json_patches(api: Context) {
    let patch = r#"[{"op":"add","path":"/dat","value":1}]"#;
    let found = refused_patch(&api, "application/json-patch+json", patch).await;
    assert_eq!(found, FAULTS[1..2]);
}

async fn of_strategic_patches(api: Context) {
    let patch = r#"{"dat":{},"data":{"k":"1","k":"2"}}"#;
    let found = refused_patch(&api, "application/strategic-merge-patch+json", patch).await;
    assert_eq!(found, FAULTS[..2]);
}

async fn of_replaces(api: Context) {
    api.config_map("a", json!({})).await;
    let path = api.core("configmaps/a?fieldValidation=Strict");
    let answer = api
        .send(Method::PUT, &path, "application/json", FAULTY)
        .await;
    let status = answer.refused_somehow(400, "BadRequest");
    let message = status["message"].as_str().unwrap();
    assert_eq!(faults(message, "ConfigMap in version \"v1\" "), FAULTS);
}

async fn of_an_apply(api: Context) {
    let body = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"1","k":"2"}}"#;
    let apply = |mode: &str| {
        let path = api.core(&format!(
            "configmaps/a?fieldManager=one&fieldValidation={mode}"
        ));
        let api = api.clone();
        async move {
            api.send(Method::PATCH, &path, "application/apply-patch+yaml", body)
                .await
        }
    };
    let status = apply("Strict").await.refused_somehow(400, "BadRequest");
    let beginning = "error strict decoding YAML: ";
    assert!(
        status["message"].as_str().unwrap().starts_with(beginning),
        "{status}"
    );
    let created = apply("Ignore").await.expect_code(201);
    assert_eq!(created["data"], json!({"k": "2"}));
}

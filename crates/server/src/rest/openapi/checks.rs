//! Reports of external checks in the OpenAPI document.

use serde_json::{Map, Value, json};

use super::{path_parameters, problem, reference};

const REPORT: &str =
    "/api/v1/pipelines/{namespace}/{name}/environments/{environment}/checks/{check}/report";

pub(super) fn add_operations(paths: &mut Map<String, Value>) {
    let content = |schema: &str| json!({"application/json": {"schema": reference(schema)}});
    let operation = json!({
        "summary": "Report the result of an external check, once",
        "parameters": path_parameters(REPORT),
        "requestBody": {"required": true, "content": content("ReportBody")},
        "responses": {
            "200": {"description": "Stored", "content": content("CheckRun")},
            "default": problem(),
        },
    });
    paths.insert(REPORT.to_owned(), json!({"post": operation}));
}

pub(super) fn body(text: &Value) -> Value {
    json!({
        "type": "object",
        "required": ["passed"],
        "properties": {
            "passed": {"type": "boolean"}, "revision": text, "message": text, "url": text,
        },
    })
}

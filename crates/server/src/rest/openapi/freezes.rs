//! The operations that write Freezes.

use serde_json::{Map, Value, json};

use super::{path_parameters, problem, reference};

/// The Freezes of a namespace.
pub(super) const ALL: &str = "/api/v1/freezes/{namespace}";
const ONE: &str = "/api/v1/freezes/{namespace}/{name}";

/// Adds creating and deleting to the paths, which have the list already.
pub(super) fn add_operations(paths: &mut Map<String, Value>) {
    paths[ALL]["post"] = freeze_operation();
    paths.insert(ONE.to_owned(), json!({"delete": thaw_operation()}));
}

/// The body that creates a Freeze.
pub(super) fn body(text: &Value) -> Value {
    let list = json!({"type": "array", "items": text});
    json!({"type": "object", "properties": {
        "pipeline": text, "reason": text, "until": text, "environments": list, "allow": list,
    }})
}

fn freeze_operation() -> Value {
    let content = |schema: &str| json!({"application/json": {"schema": reference(schema)}});
    let stored = json!({
        "description": "Stored; `Location` is its address for DELETE",
        "content": content("Freeze"),
    });
    json!({
        "summary": "Stop promotions of a pipeline, or of all of the namespace",
        "parameters": path_parameters(ALL),
        "requestBody": {"content": content("FreezeBody")},
        "responses": {"201": stored, "default": problem()},
    })
}

fn thaw_operation() -> Value {
    json!({
        "summary": "Delete a Freeze, so that promotions go on",
        "parameters": path_parameters(ONE),
        "responses": {"204": {"description": "Deleted"}, "default": problem()},
    })
}

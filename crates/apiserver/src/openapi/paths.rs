//! The OpenAPI paths of one kind.

use serde_json::{Map, Value, json};

use super::{group_version_kind, reference, root, schema_name};
use crate::resource::Resource;

/// All paths of a kind.
pub(super) fn of(resource: &Resource) -> Map<String, Value> {
    let root = root(resource);
    let plural = &resource.plural;
    let mut paths = Map::new();
    let collection = match resource.namespaced {
        true => {
            let everywhere = json!({"get": operation(resource, "list")});
            paths.insert(format!("/{root}/{plural}"), everywhere);
            format!("/{root}/namespaces/{{namespace}}/{plural}")
        }
        false => format!("/{root}/{plural}"),
    };
    let one = json!({
        "get": operation(resource, "get"),
        "put": operation(resource, "put"),
        "patch": operation(resource, "patch"),
        "delete": operation(resource, "delete"),
    });
    if resource.has_status {
        let mut status = one.clone();
        if let Some(operations) = status.as_object_mut() {
            operations.remove("delete");
        }
        paths.insert(format!("{collection}/{{name}}/status"), status);
    }
    paths.insert(format!("{collection}/{{name}}"), one);
    let all = json!({
        "get": operation(resource, "list"),
        "post": operation(resource, "post"),
        "delete": operation(resource, "deletecollection"),
    });
    paths.insert(collection, all);
    paths
}

fn operation(resource: &Resource, action: &str) -> Value {
    let schema = reference(&schema_name(resource));
    let writes = matches!(action, "post" | "put" | "patch");
    let mut names = match action {
        "get" => vec!["resourceVersion"],
        "list" => vec![
            "labelSelector",
            "fieldSelector",
            "limit",
            "continue",
            "resourceVersion",
            "watch",
        ],
        "delete" | "deletecollection" => vec!["dryRun", "gracePeriodSeconds", "propagationPolicy"],
        _ => vec!["dryRun", "fieldManager", "fieldValidation"],
    };
    if action == "patch" {
        names.push("force");
    }
    let parameters: Vec<Value> = names
        .into_iter()
        .map(|name| json!({"name": name, "in": "query", "schema": {"type": "string"}}))
        .collect();
    let mut operation = json!({
        "parameters": parameters,
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": schema}}}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": group_version_kind(resource),
    });
    if writes {
        let content: Map<String, Value> = media_types(resource, action)
            .iter()
            .map(|media_type| ((*media_type).to_owned(), json!({"schema": schema})))
            .collect();
        operation["requestBody"] = json!({"content": content, "required": true});
    }
    operation
}

fn media_types(resource: &Resource, action: &str) -> &'static [&'static str] {
    match (action, &resource.schema) {
        ("patch", Some(_)) => &[
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json",
        ],
        ("patch", None) => &[
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
        ],
        _ => &["application/json", "application/yaml"],
    }
}

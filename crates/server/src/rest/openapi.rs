//! What REST offers, as an OpenAPI 3.1 document.

use std::sync::LazyLock;

use api::crds::is_optional;
use axum::response::{IntoResponse, Response};
use http::header;
use serde_json::{Map, Value, json};

static DOCUMENT: LazyLock<String> = LazyLock::new(|| describe().to_string());

/// Needs no token: it says nothing about anybody's pipelines.
pub(super) async fn document() -> Response {
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (kind, DOCUMENT.as_str()).into_response()
}

/// Path, summary, and what an answer holds.
const READ: [(&str, &str, &str); 16] = [
    ("/api/v1/pipelines", "All pipelines", "Pipelines"),
    (
        "/api/v1/pipelines/{namespace}",
        "The pipelines of a namespace",
        "Pipelines",
    ),
    (
        "/api/v1/pipelines/{namespace}/{name}",
        "One pipeline",
        "Pipeline",
    ),
    (
        "/api/v1/pipelines/{namespace}/{name}/environments",
        "Where each environment is, in the order of promotion",
        "Environments",
    ),
    (
        "/api/v1/pipelines/{namespace}/{name}/environments/{environment}/tree",
        "What is behind the targets of an environment: sources, apps, workloads and pods, asked of their clusters",
        "Behinds",
    ),
    (
        "/api/v1/pipelines/{namespace}/{name}/triggers",
        "What can set a pipeline in motion",
        "Triggers",
    ),
    (
        "/api/v1/pipelines/{namespace}/{name}/promotions",
        "The promotions of a pipeline, newest first",
        "Promotions",
    ),
    (
        "/api/v1/pipelines/{namespace}/{name}/history",
        "The same as promotions",
        "Promotions",
    ),
    (
        "/api/v1/pipelines/{namespace}/{name}/explain",
        "Why each environment waits and what lifts that, as text",
        "",
    ),
    (
        "/api/v1/clusters",
        "The clusters that targets are on",
        "GitopsClusters",
    ),
    (
        CHANGES,
        "The files of a namespace that are to be proposed in git",
        "Changes",
    ),
    (
        "/api/v1/changes/{namespace}/{name}",
        "One file that is to be proposed in git, and what became of it",
        "Change",
    ),
    ("/api/v1/triggers", "What starts runs", "PipelineTriggers"),
    (
        "/api/v1/versions",
        "Every version that runs in a target; with scope=clusters, on any cluster",
        "Versions",
    ),
    (
        "/api/v1/images",
        "Every image that runs in a target; with scope=clusters, on any cluster",
        "Images",
    ),
    ("/api/openapi.json", "This document", "Document"),
];

const CHANGES: &str = "/api/v1/changes/{namespace}";

const ACTIONS: [(&str, &str); 7] = [
    ("suspend", "Start nothing in any environment"),
    ("resume", "Start what may start"),
    (
        "environments/{environment}/approve",
        "Approve a revision that waits",
    ),
    ("environments/{environment}/promote", "Ask for a revision"),
    (
        "environments/{environment}/rollback",
        "Go back to a revision",
    ),
    (
        "environments/{environment}/suspend",
        "Start nothing in this environment",
    ),
    (
        "environments/{environment}/resume",
        "Start what may start in this environment",
    ),
];

/// What lists are asked in pages by.
const PAGED: &[&str] = &["limit", "continue"];
/// What apps are found by.
const PLACED: &[&str] = &[
    "scope",
    "namespace",
    "pipeline",
    "environment",
    "cluster",
    "clusterNamespace",
    "targetNamespace",
    "kind",
    "app",
    "outside",
];

fn describe() -> Value {
    let mut paths = Map::new();
    for (path, summary, schema) in READ {
        paths.insert(path.to_owned(), json!({"get": read(path, summary, schema)}));
    }
    for (action, summary) in ACTIONS {
        let path = format!("/api/v1/pipelines/{{namespace}}/{{name}}/{action}");
        let operation = act(&path, summary);
        paths.insert(path, json!({"post": operation}));
    }
    paths[CHANGES]["post"] = propose();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Sluice",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Answers carry an ETag; a GET with If-None-Match is answered with 304 where nothing changed. Lists are in pages: `continue` of one is asked for to get the next.",
        },
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {
                "type": "http", "scheme": "bearer",
                "description": "A token that the Kubernetes API knows",
            }},
            "schemas": schemas(),
        },
    })
}

fn read(path: &str, summary: &str, schema: &str) -> Value {
    let content = match schema {
        "" => json!({"text/plain": {"schema": {"type": "string"}}}),
        "Document" => json!({"application/json": {"schema": {"type": "object"}}}),
        schema => json!({"application/json": {"schema": reference(schema)}}),
    };
    let mut parameters = in_path(path);
    let asked = match schema {
        "Pipelines" | "Promotions" | "Changes" => PAGED.to_vec(),
        "GitopsClusters" | "PipelineTriggers" => [&["namespace"], PAGED].concat(),
        "Behinds" => [&["cluster", "targetNamespace"], PAGED].concat(),
        "Versions" => [PLACED, &["chart", "version"], PAGED].concat(),
        "Images" => [PLACED, &["image", "tag"], PAGED].concat(),
        _ => Vec::new(),
    };
    parameters.extend(asked.iter().map(|name| parameter("query", name)));
    let mut operation = json!({
        "summary": summary,
        "parameters": parameters,
        "responses": {"200": {"description": summary, "content": content}, "default": problem()},
    });
    if schema == "Document" {
        operation["security"] = json!([]);
    }
    operation
}

fn act(path: &str, summary: &str) -> Value {
    let body = json!({"content": {"application/json": {"schema": reference("Words")}}});
    let done = json!({
        "description": "Done, or asked for",
        "content": {"application/json": {"schema": {"type": "object"}}},
    });
    json!({
        "summary": summary,
        "parameters": in_path(path),
        "requestBody": body,
        "responses": {"200": done, "202": done, "default": problem()},
    })
}

fn propose() -> Value {
    let content = |schema: &str| json!({"application/json": {"schema": reference(schema)}});
    let stored = json!({
        "description": "Stored; `status` says what becomes of it, and `Location` where to look",
        "content": content("Change"),
    });
    json!({
        "summary": "Propose a file in git, such as a new pipeline",
        "parameters": in_path(CHANGES),
        "requestBody": {"required": true, "content": content("File")},
        "responses": {"201": stored, "default": problem()},
    })
}

fn in_path(path: &str) -> Vec<Value> {
    let names = path.split('/').filter_map(|part| {
        let name = part.strip_prefix('{')?;
        name.strip_suffix('}')
    });
    names.map(|name| parameter("path", name)).collect()
}

fn parameter(place: &str, name: &str) -> Value {
    let schema = match name {
        "limit" => json!({"type": "integer"}),
        "outside" => json!({"type": "boolean"}),
        "scope" => json!({"type": "string", "enum": ["pipelines", "clusters"]}),
        _ => json!({"type": "string"}),
    };
    let is_needed = place == "path";
    json!({"name": name, "in": place, "required": is_needed, "schema": schema})
}

fn problem() -> Value {
    json!({
        "description": "What went wrong, and what to do",
        "content": {"application/problem+json": {"schema": reference("Problem")}},
    })
}

fn reference(schema: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{schema}")})
}

fn schemas() -> Value {
    let text = json!({"type": "string"});
    let object = |names: &[&str]| {
        let fields = names.iter().map(|name| ((*name).to_owned(), text.clone()));
        json!({"type": "object", "properties": fields.collect::<Map<_, _>>()})
    };
    let list = |items: Value| {
        json!({"type": "object", "required": ["items"], "properties": {
            "items": {"type": "array", "items": items}, "continue": text,
            "unread": {"type": "array", "items": reference("Unread")},
        }})
    };
    let place = [
        "namespace",
        "pipeline",
        "environment",
        "cluster",
        "clusterNamespace",
        "targetNamespace",
        "kind",
        "app",
    ];
    let with = |more: &[&str]| object(&[&place, more].concat());
    let mut environment = object(&["name", "state"]);
    environment["properties"]["revisions"] = json!({"type": "array", "items": text});
    environment["properties"]["failed"] =
        json!({"type": "array", "items": object(&["revision", "target", "message"])});
    environment["properties"]["suspend"] = json!({"type": "boolean"});
    environment["properties"]["status"] = json!({"type": "object"});
    let mut version = with(&["chart", "version", "revision", "failed", "message"]);
    version["properties"]["ready"] = json!({"type": "boolean"});
    let mut behind = object(&["cluster", "targetNamespace", "problem"]);
    behind["properties"]["apps"] = json!({"type": "array", "items": reference("Node")});
    let mut trigger = object(&["kind", "namespace", "name", "effect", "event", "run"]);
    trigger["properties"]["suspend"] = json!({"type": "boolean"});
    trigger["properties"]["ready"] = json!({"type": "object"});
    let mut words = object(&["revision", "note"]);
    words["properties"]["unseen"] = json!({"type": "boolean"});
    let mut problem = object(&["type", "title", "detail", "requestId"]);
    problem["properties"]["status"] = json!({"type": "integer"});
    let mut all = json!({
        "Problem": problem,
        "Words": words,
        "File": object(&["path", "content", "title"]),
        "Environments": list(environment),
        "Unread": object(&["cluster", "clusterNamespace", "because"]),
        "Node": node(&text),
        "Behinds": list(behind),
        "Triggers": list(trigger),
        "Versions": list(version),
        "Images": list(with(&["image", "tag", "digest"])),
    });
    for (kind, schema) in kinds() {
        all[format!("{kind}s")] = list(reference(&kind));
        all[kind] = schema;
    }
    all
}

/// An object on a cluster, and what belongs to it.
fn node(text: &Value) -> Value {
    let states = [
        "ready",
        "notReady",
        "failed",
        "suspended",
        "missing",
        "unknown",
    ];
    json!({"type": "object", "required": ["kind", "name", "state"], "properties": {
        "group": text, "kind": text, "namespace": text, "name": text, "revision": text,
        "state": {"type": "string", "enum": states},
        "message": text, "note": text,
        "images": {"type": "array", "items": text},
        "below": {"type": "array", "items": reference("Node")},
    }})
}

/// The schemas of our kinds, as they are installed.
fn kinds() -> Vec<(String, Value)> {
    // The Pipeline of the first proposal has the schema of any other.
    let own = api::crds().into_iter().filter(|it| !is_optional(it));
    let definitions = own.filter_map(|definition| {
        let version = definition.spec.versions.into_iter().next()?;
        let schema = version.schema?.open_api_v3_schema?;
        Some((definition.spec.names.kind, json!(schema)))
    });
    definitions.collect()
}

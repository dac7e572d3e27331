//! The OpenAPI 3.1 document of REST.

mod checks;
mod freezes;

use std::sync::LazyLock;

use api::crds::is_optional;
use axum::response::{IntoResponse, Response};
use http::header;
use serde_json::{Map, Value, json};

static DOCUMENT: LazyLock<String> = LazyLock::new(|| openapi().to_string());

/// Needs no token: the document contains nothing about pipelines.
pub(super) async fn document() -> Response {
    let content_type = [(header::CONTENT_TYPE, "application/json")];
    (content_type, DOCUMENT.as_str()).into_response()
}

/// Path, summary, and the schema of the response.
const READS: [(&str, &str, &str); 21] = [
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
        "The state of each environment, in the order of promotion",
        "Environments",
    ),
    (
        "/api/v1/pipelines/{namespace}/{name}/environments/{environment}/tree",
        "The sources, apps, workloads and pods of the targets of an environment, read from their clusters",
        "TargetObjectsList",
    ),
    (
        "/api/v1/pipelines/{namespace}/{name}/environments/{environment}/diff",
        "What the promotion under way or the next one brings: versions, edits, images, commits, soak",
        "PromotionDiffs",
    ),
    (
        "/api/v1/pipelines/{namespace}/{name}/triggers",
        "The triggers of a pipeline",
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
        "Why each environment waits and what resolves that, as text",
        "",
    ),
    (
        "/api/v1/pipelines/{namespace}/{name}/gates",
        "The answer of every gate about the next revision of each environment",
        "Gates",
    ),
    (
        "/api/v1/pipelines/{namespace}/{name}/forecast",
        "When each environment gets its next revision, and what it needs besides time",
        "Forecasts",
    ),
    (
        "/api/v1/clusters",
        "The clusters of targets",
        "GitopsClusters",
    ),
    (
        CHANGES,
        "The files of a namespace that are proposed in git",
        "Changes",
    ),
    (
        "/api/v1/changes/{namespace}/{name}",
        "One file that is proposed in git, and its status",
        "Change",
    ),
    (freezes::ALL, "The Freezes of a namespace", "Freezes"),
    (
        "/api/v1/checks/{namespace}",
        "The CheckRuns of a namespace",
        "CheckRuns",
    ),
    (
        "/api/v1/triggers",
        "All PipelineTriggers",
        "PipelineTriggers",
    ),
    (
        "/api/v1/versions",
        "The versions of all apps in targets; with scope=clusters, of all apps on clusters",
        "Versions",
    ),
    (
        "/api/v1/images",
        "The images of all apps in targets; with scope=clusters, of all apps on clusters",
        "Images",
    ),
    ("/api/openapi.json", "This document", "Document"),
];

const CHANGES: &str = "/api/v1/changes/{namespace}";

const ACTIONS: [(&str, &str); 10] = [
    ("suspend", "Suspend a pipeline: no promotion starts"),
    ("resume", "Resume a pipeline"),
    (
        "environments/{environment}/approve",
        "Approve a revision that awaits approval",
    ),
    (
        "environments/{environment}/reject",
        "Reject what is on its way into an environment and not merged yet",
    ),
    (
        "environments/{environment}/cancel",
        "Take back the waiting request, or the promotion that is not merged yet",
    ),
    (
        "environments/{environment}/retry",
        "Start the promotion or the checks that failed again",
    ),
    (
        "environments/{environment}/promote",
        "Request the promotion of a revision",
    ),
    (
        "environments/{environment}/rollback",
        "Request a rollback to a revision",
    ),
    (
        "environments/{environment}/suspend",
        "Suspend an environment: no promotion into it starts",
    ),
    ("environments/{environment}/resume", "Resume an environment"),
];

/// The query parameters of lists.
const PAGE_PARAMETERS: &[&str] = &["limit", "continue"];
/// The query parameters that select apps.
const APP_PARAMETERS: &[&str] = &[
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

fn openapi() -> Value {
    let mut paths = Map::new();
    for (path, summary, schema) in READS {
        paths.insert(
            path.to_owned(),
            json!({"get": read_operation(path, summary, schema)}),
        );
    }
    for (action, summary) in ACTIONS {
        let path = format!("/api/v1/pipelines/{{namespace}}/{{name}}/{action}");
        let operation = action_operation(&path, summary);
        paths.insert(path, json!({"post": operation}));
    }
    paths[CHANGES]["post"] = propose_operation();
    freezes::add_operations(&mut paths);
    checks::add_operations(&mut paths);
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Sluice",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Responses carry an ETag; a GET with If-None-Match gets 304 if nothing changed. Lists are paged: pass `continue` of one page to get the next.",
        },
        "security": [{"token": []}, {"session": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {
                "type": "http", "scheme": "bearer",
                "description": "A token that the Kubernetes API accepts",
            }, "session": {
                "type": "apiKey", "in": "cookie", "name": "sluice-session",
                "description": "A session of the dashboard; all but GET need its CSRF token in the header X-CSRF-Token",
            }},
            "schemas": schemas(),
        },
    })
}

fn read_operation(path: &str, summary: &str, schema: &str) -> Value {
    let content = match schema {
        "" => json!({"text/plain": {"schema": {"type": "string"}}}),
        "Document" => json!({"application/json": {"schema": {"type": "object"}}}),
        schema => json!({"application/json": {"schema": reference(schema)}}),
    };
    let mut parameters = path_parameters(path);
    let query = match schema {
        "Pipelines" | "Promotions" | "Changes" | "Freezes" | "CheckRuns" => {
            PAGE_PARAMETERS.to_vec()
        }
        "GitopsClusters" | "PipelineTriggers" => [&["namespace"], PAGE_PARAMETERS].concat(),
        "TargetObjectsList" => [&["cluster", "targetNamespace"], PAGE_PARAMETERS].concat(),
        "Versions" => [APP_PARAMETERS, &["chart", "version"], PAGE_PARAMETERS].concat(),
        "Images" => [APP_PARAMETERS, &["image", "tag"], PAGE_PARAMETERS].concat(),
        "Forecasts" => vec!["at"],
        _ => Vec::new(),
    };
    parameters.extend(query.iter().map(|name| parameter("query", name)));
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

fn action_operation(path: &str, summary: &str) -> Value {
    let body = json!({"content": {"application/json": {"schema": reference("ActionBody")}}});
    let done = json!({
        "description": "Recorded: 200 if it has taken effect, 202 if the controller carries it out",
        "content": {"application/json": {"schema": {"type": "object"}}},
    });
    json!({
        "summary": summary,
        "parameters": path_parameters(path),
        "requestBody": body,
        "responses": {"200": done, "202": done, "default": problem()},
    })
}

fn propose_operation() -> Value {
    let content = |schema: &str| json!({"application/json": {"schema": reference(schema)}});
    let stored = json!({
        "description": "Stored; `Location` is its address, and `status` is set by the controller",
        "content": content("Change"),
    });
    json!({
        "summary": "Propose a file in git, such as a new pipeline",
        "parameters": path_parameters(CHANGES),
        "requestBody": {"required": true, "content": content("File")},
        "responses": {"201": stored, "default": problem()},
    })
}

fn path_parameters(path: &str) -> Vec<Value> {
    let names = path.split('/').filter_map(|part| {
        let name = part.strip_prefix('{')?;
        name.strip_suffix('}')
    });
    names.map(|name| parameter("path", name)).collect()
}

fn parameter(location: &str, name: &str) -> Value {
    let schema = match name {
        "limit" => json!({"type": "integer"}),
        "outside" => json!({"type": "boolean"}),
        "scope" => json!({"type": "string", "enum": ["pipelines", "clusters"]}),
        _ => json!({"type": "string"}),
    };
    let is_required = location == "path";
    json!({"name": name, "in": location, "required": is_required, "schema": schema})
}

fn problem() -> Value {
    json!({
        "description": "Why the request failed, and what to do",
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
    let location = [
        "namespace",
        "pipeline",
        "environment",
        "cluster",
        "clusterNamespace",
        "targetNamespace",
        "kind",
        "app",
    ];
    let app_with = |more: &[&str]| object(&[&location, more].concat());
    let mut environment = object(&["name", "state"]);
    environment["properties"]["revisions"] = json!({"type": "array", "items": text});
    environment["properties"]["failed"] =
        json!({"type": "array", "items": object(&["revision", "target", "message"])});
    environment["properties"]["suspend"] = json!({"type": "boolean"});
    environment["properties"]["status"] = json!({"type": "object"});
    let mut version = app_with(&["chart", "version", "revision", "failed", "message"]);
    version["properties"]["ready"] = json!({"type": "boolean"});
    let mut target_objects = object(&["cluster", "targetNamespace", "problem"]);
    target_objects["properties"]["apps"] = json!({"type": "array", "items": reference("Node")});
    let mut trigger = object(&["kind", "namespace", "name", "effect", "event", "run"]);
    trigger["properties"]["suspend"] = json!({"type": "boolean"});
    trigger["properties"]["ready"] = json!({"type": "object"});
    let mut action_body = object(&["revision", "note", "changeDigest"]);
    action_body["properties"]["unseen"] = json!({"type": "boolean"});
    let mut overriding = object(&["reason"]);
    overriding["properties"]["passes"] = json!({"type": "array", "items": text});
    action_body["properties"]["override"] = overriding;
    let mut problem = object(&["type", "title", "detail", "requestId"]);
    problem["properties"]["status"] = json!({"type": "integer"});
    let mut all = json!({
        "Problem": problem,
        "FreezeBody": freezes::body(&text),
        "ReportBody": checks::body(&text),
        "ActionBody": action_body,
        "File": object(&["path", "content", "title"]),
        "Environments": list(environment),
        "Unread": object(&["cluster", "clusterNamespace", "because"]),
        "Node": node(&text),
        "TargetObjectsList": list(target_objects),
        "PromotionDiffs": list(promotion_diff(&text)),
        "Triggers": list(trigger),
        "Gates": list(gates(&text)),
        "Forecasts": list(forecast(&text)),
        "Versions": list(version),
        "Images": list(app_with(&["image", "tag", "digest"])),
    });
    for (kind, schema) in kinds() {
        all[format!("{kind}s")] = list(reference(&kind));
        all[kind] = schema;
    }
    all
}

/// What a promotion brings.
fn promotion_diff(text: &Value) -> Value {
    let object = |names: &[&str]| {
        let fields = names.iter().map(|name| ((*name).to_owned(), text.clone()));
        json!({"type": "object", "properties": fields.collect::<Map<_, _>>()})
    };
    let mut commits = object(&["from", "to", "url", "note"]);
    commits["properties"]["total"] = json!({"type": "integer"});
    commits["properties"]["newest"] =
        json!({"type": "array", "items": object(&["id", "title", "author"])});
    let texts = json!({"type": "array", "items": text});
    let image = json!({"type": "object", "properties": {"name": text, "from": texts, "to": texts}});
    let mut diff = object(&[
        "environment",
        "target",
        "promotion",
        "phase",
        "from",
        "to",
        "digest",
        "note",
    ]);
    diff["required"] = json!(["environment", "to"]);
    diff["properties"]["edits"] =
        json!({"type": "array", "items": object(&["file", "path", "old", "new"])});
    diff["properties"]["moreEdits"] = json!({"type": "integer"});
    diff["properties"]["images"] = json!({"type": "array", "items": image});
    diff["properties"]["commits"] = commits;
    diff["properties"]["soak"] = object(&["environment", "since", "until"]);
    diff
}

/// An object on a cluster, and the objects below it.
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

/// The answers of the gates of one environment.
fn gates(text: &Value) -> Value {
    let words = ["pass", "requested", "unknown", "wait", "fail"];
    let time = json!({"type": ["string", "null"], "format": "date-time"});
    let gate = json!({"type": "object", "required": ["gate", "verdict"], "properties": {
        "gate": text, "verdict": {"type": "string", "enum": words},
        "reason": {"type": ["string", "null"]}, "message": {"type": ["string", "null"]},
        "opensAt": time,
    }});
    json!({"type": "object", "required": ["environment", "gates"], "properties": {
        "environment": text, "revision": {"type": ["string", "null"]},
        "gates": {"type": "array", "items": gate},
    }})
}

/// The forecast of one environment.
fn forecast(text: &Value) -> Value {
    let time = json!({"type": "string", "format": "date-time"});
    let wait = json!({"type": "object", "properties": {
        "gate": text, "until": time, "message": text,
    }});
    let need = json!({"type": "object", "properties": {
        "gate": text, "reason": text, "message": text, "resolvedBy": text,
    }});
    json!({"type": "object", "required": ["environment"], "properties": {
        "environment": text, "revision": text, "notBefore": time,
        "waits": {"type": "array", "items": wait},
        "needs": {"type": "array", "items": need},
    }})
}

/// The schemas of our kinds, as they are installed.
fn kinds() -> Vec<(String, Value)> {
    // Pipelines of the older API group have the same schema.
    let own = api::crds().into_iter().filter(|it| !is_optional(it));
    let definitions = own.filter_map(|definition| {
        let version = definition.spec.versions.into_iter().next()?;
        let schema = version.schema?.open_api_v3_schema?;
        Some((definition.spec.names.kind, json!(schema)))
    });
    definitions.collect()
}

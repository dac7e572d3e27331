//! The OpenAPI 3.1 document of REST.

mod checks;
mod freezes;
mod rollout;
mod schemas;

use std::sync::LazyLock;

use axum::response::{IntoResponse, Response};
use http::header;
use serde_json::{Map, Value, json};

use schemas::schemas;

static DOCUMENT: LazyLock<String> = LazyLock::new(|| openapi().to_string());

/// Needs no token: the document contains nothing about pipelines.
pub(super) async fn document() -> Response {
    let content_type = [(header::CONTENT_TYPE, "application/json")];
    (content_type, DOCUMENT.as_str()).into_response()
}

/// Path, summary, and the schema of the response.
const READS: [(&str, &str, &str); 22] = [
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
        "What the promotion in progress or the next one brings: versions, edits, images, commits, soak",
        "PromotionDiffs",
    ),
    (
        "/api/v1/pipelines/{namespace}/{name}/environments/{environment}/rollout",
        "The rollout in progress into an environment, else the last one: its waves and the state of each target",
        "Rollout",
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

const ACTIONS: [(&str, &str); 13] = [
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
        "Cancel a request that waits, or a promotion that is not merged yet",
    ),
    (
        "environments/{environment}/retry",
        "Start the promotion, the targets of a rollout or the checks that failed again",
    ),
    (
        "environments/{environment}/stop-rollout",
        "Start no further target of the rollout in progress",
    ),
    (
        "environments/{environment}/resume-rollout",
        "Go on with a rollout that was stopped; what failed before does not count any more",
    ),
    (
        "environments/{environment}/skip-target",
        "Let the rollout go on without `target`",
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

//! The schemas of the OpenAPI document.

use api::crds::is_optional;
use serde_json::{Map, Value, json};

use super::{checks, freezes, reference, rollout::rollout};

/// The schemas by name.
pub(super) fn schemas() -> Value {
    let text = json!({"type": "string"});
    let mut all = json!({
        "Problem": problem(),
        "FreezeBody": freezes::body(&text),
        "ReportBody": checks::body(&text),
        "ActionBody": action_body(),
        "File": object(&["path", "content", "title"]),
        "Environments": list(environment()),
        "Unread": object(&["cluster", "clusterNamespace", "because"]),
        "Node": node(&text),
        "TargetObjectsList": list(target_objects()),
        "Rollout": rollout(&text),
        "PromotionDiffs": list(promotion_diff(&text)),
        "Triggers": list(trigger()),
        "Gates": list(gates(&text)),
        "Forecasts": list(forecast(&text)),
        "Versions": list(version()),
        "Images": list(app_with(&["image", "tag", "digest"])),
    });
    for (kind, schema) in kinds() {
        all[format!("{kind}s")] = list(reference(&kind));
        all[kind] = schema;
    }
    all
}

/// An object whose fields are texts.
fn object(names: &[&str]) -> Value {
    let fields = names.iter().map(|name| {
        let text = json!({"type": "string"});
        ((*name).to_owned(), text)
    });
    json!({"type": "object", "properties": fields.collect::<Map<_, _>>()})
}

/// The answer to a request for many.
fn list(items: Value) -> Value {
    json!({"type": "object", "required": ["items"], "properties": {
        "items": {"type": "array", "items": items}, "continue": {"type": "string"},
        "unread": {"type": "array", "items": reference("Unread")},
    }})
}

/// An app of a target, with further fields that are texts.
fn app_with(more: &[&str]) -> Value {
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
    object(&[&location, more].concat())
}

fn problem() -> Value {
    let mut problem = object(&["type", "title", "detail", "requestId"]);
    problem["properties"]["status"] = json!({"type": "integer"});
    problem
}

fn action_body() -> Value {
    let mut overriding = object(&["reason"]);
    overriding["properties"]["passes"] = json!({"type": "array", "items": {"type": "string"}});
    let mut body = object(&["revision", "target", "note", "changeDigest"]);
    body["properties"]["unseen"] = json!({"type": "boolean"});
    body["properties"]["override"] = overriding;
    body
}

fn environment() -> Value {
    let texts = json!({"type": "array", "items": {"type": "string"}});
    let mut after = texts.clone();
    after["description"] = json!("The environments that revisions come from");
    let mut environment = object(&["name", "state"]);
    environment["properties"]["after"] = after;
    environment["properties"]["revisions"] = texts;
    environment["properties"]["failed"] =
        json!({"type": "array", "items": object(&["revision", "target", "message"])});
    environment["properties"]["suspend"] = json!({"type": "boolean"});
    environment["properties"]["status"] = json!({"type": "object"});
    environment
}

fn version() -> Value {
    let mut version = app_with(&["chart", "version", "revision", "failed", "message"]);
    version["properties"]["ready"] = json!({"type": "boolean"});
    version
}

fn target_objects() -> Value {
    let mut objects = object(&["cluster", "targetNamespace", "problem"]);
    objects["properties"]["apps"] = json!({"type": "array", "items": reference("Node")});
    objects
}

fn trigger() -> Value {
    let mut trigger = object(&["kind", "namespace", "name", "effect", "event", "run"]);
    trigger["properties"]["suspend"] = json!({"type": "boolean"});
    trigger["properties"]["ready"] = json!({"type": "object"});
    trigger
}

/// What a promotion brings.
fn promotion_diff(text: &Value) -> Value {
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
        "rollback",
        "caution",
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
    let check = [
        "environment",
        "check",
        "cause",
        "verdict",
        "message",
        "at",
        "url",
    ];
    diff["properties"]["checks"] = json!({"type": "array", "items": object(&check)});
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
    let words = ["pass", "requested", "skipped", "unknown", "wait", "fail"];
    let time = json!({"type": ["string", "null"], "format": "date-time"});
    let gate = json!({"type": "object", "required": ["gate", "verdict"], "properties": {
        "gate": text, "verdict": {"type": "string", "enum": words},
        "reason": {"type": ["string", "null"]}, "message": {"type": ["string", "null"]},
        "skippedBy": {"type": ["string", "null"]}, "opensAt": time,
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

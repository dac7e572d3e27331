//! Converts Pipelines in the formats of the proposals (RFC-0001, RFC-0003) and early releases of the Weave
//! pipeline-controller to the current format.

use api::pipeline::{PromotionSettings, RFC_SECRET};
use serde_json::{Map, Value, json};

/// The group of the first proposal.
const GROUP: &str = "pipelines.wego.weave.works";
const API_VERSION: &str = "pipelines.weave.works/v1alpha1";

/// An object in the current format, and the changes that were made.
pub(super) struct Rewrite {
    pub(super) value: Value,
    pub(super) notes: Vec<String>,
}

/// Converts a Pipeline in an early format; `None` for any other object.
pub(super) fn rewrite(value: &Value) -> Option<Rewrite> {
    let api_version = value["apiVersion"].as_str()?;
    let group = api_version.split('/').next()?;
    let is_ours = group == GROUP || API_VERSION.starts_with(group);
    if !is_ours || value["kind"] != "Pipeline" {
        return None;
    }
    let mut notes = Vec::new();
    let mut value = value.clone();
    if group == GROUP {
        notes.push(format!("the group {GROUP} became pipelines.weave.works"));
        value["apiVersion"] = API_VERSION.into();
    }
    let spec = value.get_mut("spec").and_then(Value::as_object_mut);
    if let Some(spec) = spec {
        app_secret(spec, &mut notes);
        if let Some(promotion) = spec.get_mut("promotion").and_then(Value::as_object_mut) {
            rewrite_promotion(promotion, "promotion", &mut notes);
        }
        let environments = spec.get_mut("environments").and_then(Value::as_array_mut);
        for environment in environments.into_iter().flatten() {
            let name = environment["name"].as_str().unwrap_or_default().to_owned();
            let promotion = environment
                .get_mut("promotion")
                .and_then(Value::as_object_mut);
            if let Some(promotion) = promotion {
                rewrite_promotion(promotion, &format!("the promotion of {name}"), &mut notes);
            }
        }
    }
    (!notes.is_empty()).then_some(Rewrite { value, notes })
}

/// The Secret for reports was part of appRef at first.
fn app_secret(spec: &mut Map<String, Value>, notes: &mut Vec<String>) {
    let app = spec.get_mut("appRef").and_then(Value::as_object_mut);
    let Some(secret) = app.and_then(|app| app.remove("secretRef")) else {
        return;
    };
    notes.push("appRef.secretRef became promotion.strategy.secretRef".to_owned());
    let promotion = spec.entry("promotion").or_insert_with(|| json!({}));
    if let Some(promotion) = promotion.as_object_mut() {
        promotion.entry("secretRef").or_insert(secret);
    }
}

/// Strategies were fields of the promotion before `strategy` existed.
fn rewrite_promotion(promotion: &mut Map<String, Value>, field: &str, notes: &mut Vec<String>) {
    // Ambiguous; the planner reports it.
    if is_spelled_twice(promotion) {
        return;
    }
    let known = notes.len();
    let mut strategy = match promotion.remove("strategy") {
        Some(Value::Object(strategy)) => strategy,
        _ => Map::new(),
    };
    if let Some(request) = strategy.remove("pullRequest") {
        let text = "strategy.pullRequest became strategy.pull-request";
        notes.push(format!("{field}: {text}"));
        strategy.insert("pull-request".to_owned(), request);
    }
    let moved = [
        ("pullRequest", "pull-request"),
        ("pull-request", "pull-request"),
        ("notification", "notification"),
        ("webhook", "webhook"),
        ("secretRef", "secretRef"),
    ];
    let is_first = ["pullRequest", "webhook"]
        .iter()
        .any(|it| promotion.contains_key(*it));
    for (early, now) in moved {
        if let Some(settings) = promotion.remove(early) {
            notes.push(format!("{field}: {early} became strategy.{now}"));
            strategy.insert(now.to_owned(), settings);
        }
    }
    let request = strategy.get_mut("pull-request");
    if let Some(request) = request.and_then(Value::as_object_mut) {
        // With a type it is today's format, and `branch` a mistake in it.
        if notes.len() > known || !request.contains_key("type") {
            rename_branch(request, field, notes);
        }
        // Missing fields alone are mistakes, which the schema reports.
        if notes.len() > known {
            complete(request, field, notes);
        }
    }
    let webhook = strategy.get_mut("webhook");
    if let Some(secret) = webhook.and_then(|webhook| webhook.get_mut("secretRef")) {
        rewrite_secret(secret, field, notes);
    }
    if !strategy.is_empty() {
        promotion.insert("strategy".to_owned(), Value::Object(strategy));
    }
    if is_first {
        complete_rules(promotion, field, notes);
    }
}

fn is_spelled_twice(promotion: &Map<String, Value>) -> bool {
    let settings = serde_json::from_value(Value::Object(promotion.clone()));
    settings.is_ok_and(|it: PromotionSettings| it.is_spelled_twice())
}

/// The first format of the strategies implies different defaults.
fn complete_rules(promotion: &mut Map<String, Value>, field: &str, notes: &mut Vec<String>) {
    for (name, value) in [("scope", "Target"), ("when", "AnyTargetReady")] {
        if !promotion.contains_key(name) {
            notes.push(format!("{field}: this format implies {name}: {value}"));
            promotion.insert(name.to_owned(), value.into());
        }
    }
}

fn rewrite_secret(secret: &mut Value, field: &str, notes: &mut Vec<String>) {
    if let Some(name) = secret.as_str() {
        let text = format!("{field}: webhook.secretRef became an object with a name");
        notes.push(text);
        *secret = json!({"name": name});
    }
}

fn rename_branch(request: &mut Map<String, Value>, field: &str, notes: &mut Vec<String>) {
    if let Some(branch) = request.remove("branch") {
        notes.push(format!("{field}: branch became baseBranch"));
        request.entry("baseBranch").or_insert(branch);
    }
}

/// Adds the forge and the credentials, which early formats did not have.
fn complete(request: &mut Map<String, Value>, field: &str, notes: &mut Vec<String>) {
    if !request.contains_key("type") {
        let url = request
            .get("url")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let (forge, is_sure) = forge_of(url);
        let doubt = if is_sure {
            ""
        } else {
            "; check which forge it is"
        };
        notes.push(format!(
            "{field}: pull-request needs a type, such as {forge}{doubt}"
        ));
        request.insert("type".to_owned(), forge.into());
    }
    if !request.contains_key("secretRef") {
        notes.push(format!(
            "{field}: pull-request needs a secretRef; {RFC_SECRET} is used where none is named"
        ));
        request.insert("secretRef".to_owned(), json!({"name": RFC_SECRET}));
    }
}

/// The forge of a host, and whether it is certain.
fn forge_of(url: &str) -> (&'static str, bool) {
    let host = url.split("://").last().unwrap_or_default();
    let host = host.split('/').next().unwrap_or_default();
    let known = [
        ("github", "github"),
        ("gitlab", "gitlab"),
        ("bitbucket.org", "bitbucket-cloud"),
        ("bitbucket", "bitbucket-server"),
        ("dev.azure.com", "azure-devops"),
        ("gitea", "gitea"),
        ("codeberg", "gitea"),
    ];
    let found = known.into_iter().find(|(part, _)| host.contains(part));
    found.map_or(("github", false), |(_, forge)| (forge, true))
}

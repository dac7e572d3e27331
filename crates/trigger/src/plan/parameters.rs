//! Fills a source event into the parameters of a run.
//!
//! Our variables, such as `$(branch)`, are replaced anywhere in a value; a value that is a JSONPath
//! expression is evaluated as a whole; Tekton's own `$(params.x)` and everything else is unchanged.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{
    event::{EventSubject, SourceEvent},
    expression,
};

/// The types a Tekton Pipeline declares for its parameters.
pub type DeclaredTypes = BTreeMap<String, String>;

/// What parameter values may refer to.
pub(crate) struct EventVariables<'a> {
    pub(crate) event: &'a SourceEvent,
    pub(crate) previous: Option<&'a str>,
}

/// The run's parameters with the event filled in.
pub(crate) fn fill_all(
    parameters: &Value,
    types: &DeclaredTypes,
    variables: &EventVariables<'_>,
) -> Result<Vec<Value>, String> {
    let list = match parameters {
        Value::Null => return Ok(Vec::new()),
        Value::Array(list) => list,
        _ => return Err("params is not a list".to_owned()),
    };
    list.iter()
        .map(|parameter| fill_one(parameter, types, variables))
        .collect()
}

fn fill_one(
    parameter: &Value,
    types: &DeclaredTypes,
    variables: &EventVariables<'_>,
) -> Result<Value, String> {
    let Some(name) = parameter["name"].as_str() else {
        return Err(format!("{parameter} in params has no name"));
    };
    let declared = types.get(name).map(String::as_str);
    let value = fill(&parameter["value"], declared, variables)
        .map_err(|because| format!("parameter {name}: {because}"))?;
    Ok(json!({ "name": name, "value": value }))
}

/// Tekton accepts strings, arrays of strings and objects of strings; unquoted numbers and booleans
/// become strings.
fn fill(
    value: &Value,
    declared: Option<&str>,
    variables: &EventVariables<'_>,
) -> Result<Value, String> {
    let fill_text = |value: &Value| match value {
        Value::String(text) => Ok(json!(fill_text(text, variables)?)),
        other => Ok::<_, String>(json!(other.to_string())),
    };
    match value {
        Value::Null => Err("it has no value".to_owned()),
        Value::String(text) if expression::is_expression(text) => {
            Ok(typed(evaluate(text, variables)?, declared))
        }
        Value::Array(list) => list.iter().map(fill_text).collect(),
        Value::Object(members) => {
            let filled: Result<Map<String, Value>, String> = members
                .iter()
                .map(|(name, value)| Ok((name.clone(), fill_text(value)?)))
                .collect();
            Ok(Value::Object(filled?))
        }
        plain => fill_text(plain),
    }
}

fn evaluate(text: &str, variables: &EventVariables<'_>) -> Result<Value, String> {
    let document = variables.event.document(variables.previous)?;
    expression::evaluate(text.trim(), &document)
}

/// An array or object stays one if the Pipeline declares that type; otherwise it becomes JSON text.
fn typed(value: Value, declared: Option<&str>) -> Value {
    let text = |value: &Value| json!(expression::text_of(value));
    match (declared, &value) {
        (Some("array"), Value::Array(list)) => list.iter().map(text).collect(),
        (Some("array"), one) => json!([expression::text_of(one)]),
        (Some("object"), Value::Object(members)) => {
            let members = members.iter();
            Value::Object(
                members
                    .map(|(name, value)| (name.clone(), text(value)))
                    .collect(),
            )
        }
        (_, other) => text(other),
    }
}

fn fill_text(text: &str, variables: &EventVariables<'_>) -> Result<String, String> {
    if expression::is_expression(text) {
        return Ok(expression::text_of(&evaluate(text, variables)?));
    }
    let mut filled = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("$(") {
        let Some(length) = rest[start..].find(')') else {
            break;
        };
        let end = start + length + 1;
        let name = &rest[start + 2..end - 1];
        filled.push_str(&rest[..start]);
        match value_of(name, variables)? {
            Some(value) => filled.push_str(&value),
            None => filled.push_str(&rest[start..end]),
        }
        rest = &rest[end..];
    }
    filled.push_str(rest);
    Ok(filled)
}

/// The value of one of our variables; `None` for any other name.
fn value_of(name: &str, variables: &EventVariables<'_>) -> Result<Option<String>, String> {
    let event = variables.event;
    let is_image = matches!(event.subject, EventSubject::Image { .. });
    let is_request = matches!(event.subject, EventSubject::PullRequest { .. });
    let (is_known, value) = match name {
        "branch" => (!is_image, event.branch()),
        "commit" => (!is_image, event.commit()),
        "shortCommit" => (!is_image, event.short_commit()),
        "revision" => (true, Some(event.text.as_str())),
        "image" => (is_image, event.image()),
        "tag" => (!is_request, event.tag()),
        "digest" => (!is_request, event.digest()),
        "previousRevision" => (true, variables.previous),
        "sourceUrl" => (!is_request, event.source_url.as_deref()),
        _ => return Ok(None),
    };
    if !is_known {
        return Err(format!(
            "$({name}) is not available for this kind of source"
        ));
    }
    Ok(Some(value.unwrap_or_default().to_owned()))
}

#[cfg(test)]
mod tests {
    use api::trigger::TriggerSourceKind;

    use super::*;
    use crate::plan::event::events_of;

    fn git() -> SourceEvent {
        let object = json!({
            "spec": {"url": "https://git.example/shop"},
            "status": {"artifact": {"revision": "feature/x@sha1:abcdef0123", "path": "g/ns/shop/f"}}
        });
        events_of(TriggerSourceKind::GitRepository, "shop", &object)
            .unwrap()
            .remove(0)
    }

    fn image() -> SourceEvent {
        let object = json!({"status": {"latestRef": {"name": "ghcr.io/acme/base", "tag": "v2", "digest": "sha256:ee"}}});
        events_of(TriggerSourceKind::ImagePolicy, "base", &object)
            .unwrap()
            .remove(0)
    }

    fn request(details: &str) -> SourceEvent {
        let object = json!({"status": {"sourceBranches": {"branches": [{"name": "fix", "commit": "c0", "details": details}]}}});
        events_of(TriggerSourceKind::PullRequest, "p", &object)
            .unwrap()
            .remove(0)
    }

    #[track_caller]
    fn check(event: &SourceEvent, value: Value, expected: Value) {
        let types = BTreeMap::from([
            ("list".to_owned(), "array".to_owned()),
            ("map".to_owned(), "object".to_owned()),
        ]);
        let variables = EventVariables {
            event,
            previous: Some("main@sha1:old"),
        };
        for name in ["text", "list", "map"] {
            if let Some(value) = value.get(name) {
                let filled = fill_all(&json!([{"name": name, "value": value}]), &types, &variables);
                let shown =
                    filled.map_or_else(|because| json!(because), |list| list[0]["value"].clone());
                assert_eq!(shown, expected, "{value}");
            }
        }
    }

    #[track_caller]
    fn text(event: &SourceEvent, value: &str, expected: &str) {
        check(event, json!({ "text": value }), json!(expected));
    }

    #[test]
    fn variables_are_filled_anywhere_in_a_value() {
        text(&git(), "$(branch)", "feature/x");
        text(
            &git(),
            "refs/$(branch)-$(commit)!",
            "refs/feature/x-abcdef0123!",
        );
        text(&git(), "$(shortCommit)", "abcdef0");
        text(&git(), "$(revision)", "feature/x@sha1:abcdef0123");
        text(
            &git(),
            "$(previousRevision)..$(digest)",
            "main@sha1:old..sha1:abcdef0123",
        );
        text(&git(), "$(sourceUrl)", "https://git.example/shop");
        text(
            &image(),
            "$(image) $(tag) $(digest)",
            "ghcr.io/acme/base:v2@sha256:ee v2 sha256:ee",
        );
        text(&request("{}"), "$(branch)@$(commit)", "fix@c0");
    }

    #[test]
    fn tektons_own_references_and_other_dollars_are_left_alone() {
        for value in [
            "$(params.branch)",
            "$(context.pipelineRun.name)",
            "$(tasks.build.results.commit)",
            "$(workspaces.source.path)/$(",
            "US$5",
            "$HOME",
            "a $.branchName b",
            "$$",
            "$(Branch)",
            "",
        ] {
            text(&git(), value, value);
        }
        text(&git(), "$(params.x)/$(branch)", "$(params.x)/feature/x");
    }

    #[test]
    fn expressions_are_evaluated_as_a_whole() {
        text(&git(), "$.branchName", "feature/x");
        text(&git(), "$.branchId", "abcdef0123");
        text(&git(), "$.commitId", "abcdef0123");
        text(
            &git(),
            "$.repositoryName + ':' + $.shortCommit",
            "shop:abcdef0",
        );
        text(&image(), "$.imageName + ':' + $.imageVersion", "base:v2");
        text(&image(), "$.image", "ghcr.io/acme/base:v2@sha256:ee");
        text(&request(r#"{"id":1163006807}"#), "$.id", "1163006807");
    }

    #[test]
    fn a_bad_expression_is_a_clear_error() {
        text(
            &git(),
            "$.nope",
            "parameter text: Expression $.nope evaluates to null.",
        );
        text(
            &image(),
            "$(branch)",
            "parameter text: $(branch) is not available for this kind of source",
        );
        text(&request(""), "$(branch)", "fix");
        assert!(
            fill_all(
                &json!([{"name": "x", "value": "$.id"}]),
                &BTreeMap::new(),
                &EventVariables {
                    event: &request("nonsense"),
                    previous: None
                }
            )
            .unwrap_err()
            .starts_with("parameter x: the details of pull request branch fix are not JSON")
        );
        let variables = EventVariables {
            event: &git(),
            previous: None,
        };
        for (parameters, because) in [
            (json!("invalid-json"), "params is not a list"),
            (
                json!([{"value": "x"}]),
                "{\"value\":\"x\"} in params has no name",
            ),
            (json!([{"name": "x"}]), "parameter x: it has no value"),
        ] {
            assert_eq!(
                fill_all(&parameters, &BTreeMap::new(), &variables),
                Err(because.to_owned())
            );
        }
        assert_eq!(
            fill_all(&Value::Null, &BTreeMap::new(), &variables),
            Ok(vec![])
        );
    }

    #[test]
    fn b10_typed_parameters_keep_their_types() {
        check(
            &git(),
            json!({"text": ["$(branch)", "$.commitId", 7, true]}),
            json!(["feature/x", "abcdef0123", "7", "true"]),
        );
        check(
            &git(),
            json!({"text": {"b": "$(branch)", "n": 7}}),
            json!({"b": "feature/x", "n": "7"}),
        );
        check(&git(), json!({"text": 7}), json!("7"));
        check(&git(), json!({"text": true}), json!("true"));
        let labels =
            request(r#"{"labels":[{"name":"bug"},{"name":"now"}],"head":{"n":1,"sha":"x"}}"#);
        check(
            &labels,
            json!({"list": "$.labels[*].name"}),
            json!(["bug", "now"]),
        );
        check(&labels, json!({"list": "$.labels[0].name"}), json!(["bug"]));
        check(
            &labels,
            json!({"map": "$.head"}),
            json!({"sha": "x", "n": "1"}),
        );
        check(
            &labels,
            json!({"text": "$.head"}),
            json!(r#"{"n":1,"sha":"x"}"#),
        );
    }
}

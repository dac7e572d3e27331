//! Validates and completes Roles, ClusterRoles and their bindings.

use serde_json::{Value, json};

use super::GROUP;
use crate::{
    metadata::{self, undecodable},
    name,
    resource::Resource,
    schema::FieldError,
    status::Result,
};

/// Whether this is one of the kinds that grant rights.
pub(crate) fn is_one(resource: &Resource) -> bool {
    resource.group == GROUP && resource.schema.is_none()
}

/// Refuses what would not decode in kube-apiserver.
pub(crate) fn check_types(resource: &Resource, object: &Value) -> Result<()> {
    let kind = &resource.kind;
    let (list, fields): (&str, &[&str]) = match kind.ends_with("Binding") {
        true => ("subjects", &[]),
        false => (
            "rules",
            &[
                "verbs",
                "apiGroups",
                "resources",
                "resourceNames",
                "nonResourceURLs",
            ],
        ),
    };
    let entries = match &object[list] {
        Value::Null => &Vec::new(),
        Value::Array(entries) => entries,
        other => return Err(misfit(resource, other, list, "[]v1.")),
    };
    for entry in entries {
        if !entry.is_object() {
            return Err(misfit(resource, entry, list, "v1."));
        }
        for field in fields {
            check_texts(resource, &entry[*field], &format!("{list}.{field}"))?;
        }
    }
    for field in ["roleRef", "aggregationRule"] {
        if !object[field].is_object() && !object[field].is_null() {
            return Err(misfit(resource, &object[field], field, "v1."));
        }
    }
    Ok(())
}

fn check_texts(resource: &Resource, list: &Value, field: &str) -> Result<()> {
    let texts = match list {
        Value::Null => return Ok(()),
        Value::Array(texts) => texts,
        other => return Err(misfit(resource, other, field, "[]string")),
    };
    match texts.iter().find(|text| !text.is_string()) {
        Some(other) => Err(misfit(resource, other, field, "string")),
        None => Ok(()),
    }
}

fn misfit(
    resource: &Resource,
    found: &Value,
    field: &str,
    expected: &str,
) -> crate::status::ApiError {
    let expected = match expected {
        "v1." | "[]v1." => {
            let name = match field {
                "rules" => "PolicyRule",
                "subjects" => "Subject",
                "roleRef" => "RoleRef",
                _ => "AggregationRule",
            };
            format!("{expected}{name}")
        }
        plain => plain.to_owned(),
    };
    undecodable(
        resource,
        found,
        &format!("{}.{field}", resource.kind),
        &expected,
    )
}

/// Fills in the API groups that may be left out.
pub(crate) fn normalise(resource: &Resource, object: &mut Value) {
    if !resource.kind.ends_with("Binding") {
        if object["rules"].as_array().is_none_or(Vec::is_empty) {
            object["rules"] = Value::Null;
        }
        return;
    }
    if metadata::text(object, "/roleRef/apiGroup").is_empty() {
        object["roleRef"]["apiGroup"] = json!(GROUP);
    }
    for subject in object["subjects"].as_array_mut().into_iter().flatten() {
        let is_account = metadata::text(subject, "/kind") == "ServiceAccount";
        if metadata::text(subject, "/apiGroup").is_empty() && !is_account {
            subject["apiGroup"] = json!(GROUP);
        }
    }
}

/// Everything wrong with one.
pub(crate) fn validate(resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    if resource.kind.ends_with("Binding") {
        return validate_binding(resource, new, old);
    }
    let rules = new["rules"].as_array().into_iter().flatten();
    let mut errors: Vec<FieldError> = rules
        .enumerate()
        .flat_map(|(at, rule)| validate_rule(resource, rule, &format!("rules[{at}]")))
        .collect();
    let aggregation = &new["aggregationRule"];
    let selectors = aggregation["clusterRoleSelectors"].as_array();
    if !aggregation.is_null() && selectors.is_none_or(Vec::is_empty) {
        errors.push(FieldError::required(
            "aggregationRule.clusterRoleSelectors",
            "at least one clusterRoleSelector required if aggregationRule is non-nil",
        ));
    }
    errors
}

fn validate_rule(resource: &Resource, rule: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let is_empty = |field: &str| rule[field].as_array().is_none_or(Vec::is_empty);
    if is_empty("verbs") {
        let why = "verbs must contain at least one value";
        errors.push(FieldError::required(format!("{path}.verbs"), why));
    }
    if !is_empty("nonResourceURLs") {
        let field = format!("{path}.nonResourceURLs");
        let mut refuse =
            |why| errors.push(FieldError::invalid(&field, &rule["nonResourceURLs"], why));
        if resource.namespaced {
            refuse("namespaced rules cannot apply to non-resource URLs");
        }
        if !(is_empty("apiGroups") && is_empty("resources") && is_empty("resourceNames")) {
            refuse("rules cannot apply to both regular resources and non-resource URLs");
        }
        return errors;
    }
    for (field, what) in [("apiGroups", "api group"), ("resources", "resource")] {
        if is_empty(field) {
            let why = format!("resource rules must supply at least one {what}");
            errors.push(FieldError::required(format!("{path}.{field}"), &why));
        }
    }
    errors
}

fn validate_binding(resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let role = &new["roleRef"];
    let mut errors = validate_role_ref(resource, role);
    for (at, subject) in new["subjects"].as_array().into_iter().flatten().enumerate() {
        let path = format!("subjects[{at}]");
        errors.extend(validate_subject(resource, subject, &path));
    }
    if let Some(old) = old
        && old["roleRef"] != *role
    {
        let text = |field: &str| role[field].as_str().unwrap_or_default();
        let shown =
            json!({"APIGroup": text("apiGroup"), "Kind": text("kind"), "Name": text("name")});
        let why = "cannot change roleRef";
        errors.push(FieldError::invalid("roleRef", &shown, why));
    }
    errors
}

fn validate_role_ref(resource: &Resource, role: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let text = |field: &str| role[field].as_str().unwrap_or_default();
    if text("apiGroup") != GROUP {
        errors.push(FieldError::not_supported(
            "roleRef.apiGroup",
            &json!(text("apiGroup")),
            &[GROUP],
        ));
    }
    let known: &[&str] = match resource.namespaced {
        true => &["Role", "ClusterRole"],
        false => &["ClusterRole"],
    };
    if !known.contains(&text("kind")) {
        errors.push(FieldError::not_supported(
            "roleRef.kind",
            &json!(text("kind")),
            known,
        ));
    }
    if text("name").is_empty() {
        errors.push(FieldError::required("roleRef.name", ""));
    }
    for why in name::NameRule::PathSegment.validate(text("name")) {
        errors.push(FieldError::invalid("roleRef.name", &role["name"], &why));
    }
    errors
}

fn validate_subject(resource: &Resource, subject: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let text = |field: &str| subject[field].as_str().unwrap_or_default();
    if text("name").is_empty() {
        errors.push(FieldError::required(format!("{path}.name"), ""));
    }
    let group = match text("kind") {
        "ServiceAccount" => "",
        "User" | "Group" => GROUP,
        kind => {
            let (field, known) = (format!("{path}.kind"), ["ServiceAccount", "User", "Group"]);
            errors.push(FieldError::not_supported(field, &json!(kind), &known));
            return errors;
        }
    };
    if text("apiGroup") != group {
        let (field, given) = (format!("{path}.apiGroup"), json!(text("apiGroup")));
        errors.push(FieldError::not_supported(field, &given, &[group]));
    }
    if text("kind") == "ServiceAccount" {
        let needs_namespace = !resource.namespaced && text("namespace").is_empty();
        if !text("name").is_empty() {
            for why in name::NameRule::Subdomain.validate(text("name")) {
                errors.push(FieldError::invalid(
                    format!("{path}.name"),
                    &subject["name"],
                    &why,
                ));
            }
        }
        if needs_namespace {
            errors.push(FieldError::required(format!("{path}.namespace"), ""));
        }
    }
    errors
}

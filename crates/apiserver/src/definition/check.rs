//! Validates a definition.

mod versions;

use std::sync::Arc;

use serde_json::{Value, json};

use super::{names, status, texts};
use crate::schema::{FieldError, Schema};

/// Fields whose JSON type is wrong: such a body cannot be decoded.
pub(super) fn shape(crd: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut expect = |owner: &str, path: &str, value: &Value, expected: &str| {
        if !value.is_null() && !has_type(value, expected) {
            errors.push(FieldError::malformed(owner, path, value, expected));
        }
        // The items of a list are checked one by one.
        let items = value.as_array().into_iter().flatten();
        if let Some(one) = expected.strip_prefix("[]") {
            for item in items.filter(|item| !has_type(item, one)) {
                errors.push(FieldError::malformed(owner, path, item, one));
            }
        }
    };
    for (owner, path, expected) in FIELDS {
        let value = path.split('.').fold(crd, |value, name| &value[name]);
        expect(owner, path, value, expected);
    }
    for version in crd["spec"]["versions"].as_array().into_iter().flatten() {
        for (owner, path, expected) in VERSION_FIELDS {
            let value = path.split('.').fold(version, |value, name| &value[name]);
            expect(owner, &format!("spec.versions.{path}"), value, expected);
        }
        for field in version["selectableFields"].as_array().into_iter().flatten() {
            let path = "spec.versions.selectableFields.jsonPath";
            expect("SelectableField", path, &field["jsonPath"], "string");
        }
    }
    errors
}

/// Whether a value has a Go type; types that are not named here are objects.
fn has_type(value: &Value, expected: &str) -> bool {
    match expected {
        "string" => value.is_string(),
        "bool" => value.is_boolean(),
        other if other.starts_with("[]") => value.is_array(),
        _ => value.is_object(),
    }
}

/// The Go type a field belongs to, the field and its own type.
const FIELDS: [(&str, &str, &str); 16] = [
    ("CustomResourceDefinition", "metadata", "v1.ObjectMeta"),
    ("ObjectMeta", "metadata.name", "string"),
    (
        "CustomResourceDefinition",
        "spec",
        "v1.CustomResourceDefinitionSpec",
    ),
    ("CustomResourceDefinitionSpec", "spec.group", "string"),
    ("CustomResourceDefinitionSpec", "spec.scope", "string"),
    (
        "CustomResourceDefinitionSpec",
        "spec.preserveUnknownFields",
        "bool",
    ),
    (
        "CustomResourceDefinitionSpec",
        "spec.names",
        "v1.CustomResourceDefinitionNames",
    ),
    (
        "CustomResourceDefinitionNames",
        "spec.names.plural",
        "string",
    ),
    (
        "CustomResourceDefinitionNames",
        "spec.names.singular",
        "string",
    ),
    ("CustomResourceDefinitionNames", "spec.names.kind", "string"),
    (
        "CustomResourceDefinitionNames",
        "spec.names.listKind",
        "string",
    ),
    (
        "CustomResourceDefinitionNames",
        "spec.names.shortNames",
        "[]string",
    ),
    (
        "CustomResourceDefinitionNames",
        "spec.names.categories",
        "[]string",
    ),
    (
        "CustomResourceDefinitionSpec",
        "spec.versions",
        "[]v1.CustomResourceDefinitionVersion",
    ),
    (
        "CustomResourceDefinitionSpec",
        "spec.conversion",
        "v1.CustomResourceConversion",
    ),
    (
        "CustomResourceConversion",
        "spec.conversion.strategy",
        "string",
    ),
];

/// The same for the fields of a version.
const VERSION_FIELDS: [(&str, &str, &str); 10] = [
    ("CustomResourceDefinitionVersion", "name", "string"),
    ("CustomResourceDefinitionVersion", "served", "bool"),
    ("CustomResourceDefinitionVersion", "storage", "bool"),
    ("CustomResourceDefinitionVersion", "deprecated", "bool"),
    (
        "CustomResourceDefinitionVersion",
        "deprecationWarning",
        "string",
    ),
    (
        "CustomResourceDefinitionVersion",
        "schema",
        "v1.CustomResourceValidation",
    ),
    (
        "CustomResourceDefinitionVersion",
        "subresources",
        "v1.CustomResourceSubresources",
    ),
    (
        "CustomResourceSubresources",
        "subresources.status",
        "v1.CustomResourceSubresourceStatus",
    ),
    (
        "CustomResourceDefinitionVersion",
        "additionalPrinterColumns",
        "[]v1.CustomResourceColumnDefinition",
    ),
    (
        "CustomResourceDefinitionVersion",
        "selectableFields",
        "[]v1.SelectableField",
    ),
];

/// Validates a definition with correct types and returns the schemas of its versions.
pub(super) fn definition(crd: &Value, errors: &mut Vec<FieldError>) -> Vec<Arc<Schema>> {
    let spec = &crd["spec"];
    check_name(crd, errors);
    check_group(spec, errors);
    check_enum(
        "spec.scope",
        &spec["scope"],
        &["Cluster", "Namespaced"],
        errors,
    );
    let schemas = versions::check(spec, errors);
    check_names(&spec["names"], errors);
    check_conversion(&spec["conversion"], errors);
    check_stored(&status::stored_versions(&Value::Null, spec), spec, errors);
    check_approval(crd, errors);
    if spec["preserveUnknownFields"] == true {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true \
                      in spec.versions[*].schema instead";
        errors.push(FieldError::invalid(
            "spec.preserveUnknownFields",
            &true.into(),
            detail,
        ));
    }
    schemas
}

/// Validates the changes from `old` to `new`, both with defaults.
///
/// Called before [`super::parse`]: of an update that renames, only this is reported.
pub(crate) fn check_update(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let established = status::condition(&old["status"], "Established");
    let established = established.is_some_and(|condition| condition["status"] == "True");
    let fixed: &[&str] = match established {
        true => &["scope", "names.kind", "group", "names.plural"],
        false => &["group", "names.plural"],
    };
    for path in fixed {
        let read = |crd: &Value| {
            path.split('.')
                .fold(&crd["spec"], |value, name| &value[name])
                .clone()
        };
        let (before, after) = (read(old), read(new));
        if before != after {
            let field = format!("spec.{path}");
            errors.push(FieldError::invalid(field, &after, "field is immutable"));
        }
    }
    let stored = status::stored_versions(&old["status"], &new["spec"]);
    check_stored(&stored, &new["spec"], &mut errors);
    errors
}

fn check_name(crd: &Value, errors: &mut Vec<FieldError>) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = text(&crd["metadata"]["name"]);
    if name.is_empty() {
        return errors.push(FieldError::required(
            "metadata.name",
            "name or generateName is required",
        ));
    }
    let spec = &crd["spec"];
    let expected = format!(
        "{}.{}",
        text(&spec["names"]["plural"]),
        text(&spec["group"])
    );
    let mut problems = names::subdomain_problems(&name);
    if name != expected {
        problems.push(r#"must be spec.names.plural+"."+spec.group"#.to_owned());
    }
    for problem in problems {
        errors.push(FieldError::invalid_text("metadata.name", &name, &problem));
    }
}

fn check_group(spec: &Value, errors: &mut Vec<FieldError>) {
    let group = spec["group"].as_str().unwrap_or_default();
    let problems = names::subdomain_problems(group);
    if group.is_empty() {
        errors.push(FieldError::required("spec.group", ""));
    } else if !problems.is_empty() {
        errors.push(FieldError::invalid_text(
            "spec.group",
            group,
            &problems.join(","),
        ));
    } else if !group.contains('.') {
        let detail = "should be a domain with at least one dot";
        errors.push(FieldError::invalid_text("spec.group", group, detail));
    }
}

fn check_enum(field: &str, value: &Value, accepted: &[&str], errors: &mut Vec<FieldError>) {
    match value.as_str().unwrap_or_default() {
        "" => errors.push(FieldError::required(field, "")),
        text if accepted.contains(&text) => {}
        _ => errors.push(FieldError::not_supported(field, value, accepted)),
    }
}

fn check_names(spec_names: &Value, errors: &mut Vec<FieldError>) {
    let text = |name: &str| spec_names[name].as_str().unwrap_or_default();
    for name in ["plural", "singular", "kind", "listKind"] {
        if text(name).is_empty() {
            errors.push(FieldError::required(format!("spec.names.{name}"), ""));
        }
    }
    for name in ["plural", "singular"] {
        check_label(format!("spec.names.{name}"), text(name), errors);
    }
    for name in ["kind", "listKind"] {
        let problems = names::label_problems(&text(name).to_lowercase());
        if !text(name).is_empty() && !problems.is_empty() {
            let detail = "may have mixed case, but should otherwise match: ";
            let detail = format!("{detail}{}", problems.join(","));
            let field = format!("spec.names.{name}");
            errors.push(FieldError::invalid_text(field, text(name), &detail));
        }
    }
    check_labels(spec_names, "shortNames", errors);
    if !text("kind").is_empty() && text("kind") == text("listKind") {
        let detail = "kind and listKind may not be the same";
        let field = "spec.names.listKind";
        errors.push(FieldError::invalid_text(field, text("kind"), detail));
    }
    check_labels(spec_names, "categories", errors);
}

fn check_labels(spec_names: &Value, list: &str, errors: &mut Vec<FieldError>) {
    for (index, name) in texts(&spec_names[list]).iter().enumerate() {
        let problems = names::label_problems(name);
        if !problems.is_empty() {
            let field = format!("spec.names.{list}[{index}]");
            errors.push(FieldError::invalid_text(field, name, &problems.join(",")));
        }
    }
}

fn check_label(field: String, name: &str, errors: &mut Vec<FieldError>) {
    let problems = names::label_problems(name);
    if !name.is_empty() && !problems.is_empty() {
        errors.push(FieldError::invalid_text(field, name, &problems.join(",")));
    }
}

fn check_conversion(conversion: &Value, errors: &mut Vec<FieldError>) {
    if conversion.is_null() {
        return;
    }
    // Conversion webhooks are not supported.
    let accepted: &[&str] = match conversion["strategy"].as_str() {
        Some("Webhook") => &["None"],
        _ => &["None", "Webhook"],
    };
    check_enum(
        "spec.conversion.strategy",
        &conversion["strategy"],
        accepted,
        errors,
    );
    let webhook = &conversion["webhook"];
    if conversion["strategy"] == "None" && !webhook.is_null() {
        let detail = "should not be set when strategy is not set to Webhook";
        for (given, name) in [
            (&webhook["clientConfig"], "webhookClientConfig"),
            (
                &webhook["conversionReviewVersions"],
                "conversionReviewVersions",
            ),
        ] {
            if !given.is_null() && *given != json!([]) {
                errors.push(FieldError::forbidden(
                    format!("spec.conversion.{name}"),
                    detail,
                ));
            }
        }
    }
}

fn check_stored(stored: &[String], spec: &Value, errors: &mut Vec<FieldError>) {
    const FIELD: &str = "status.storedVersions";
    if stored.is_empty() {
        let detail = "must have at least one stored version";
        return errors.push(FieldError::invalid(FIELD, &Value::Null, detail));
    }
    let versions = spec["versions"].as_array().map_or(&[][..], Vec::as_slice);
    let name = |version: &Value| version["name"].as_str().unwrap_or_default().to_owned();
    for version in versions.iter().filter(|version| version["storage"] == true) {
        if !stored.contains(&name(version)) {
            let detail = format!("must have the storage version {}", name(version));
            errors.push(FieldError::invalid(FIELD, &stored.into(), &detail));
        }
    }
    for (index, stored) in stored.iter().enumerate() {
        if !versions.iter().any(|version| name(version) == *stored) {
            let detail = format!(
                "missing from spec.versions; {stored} was previously a storage version, and must \
                 remain in spec.versions until a storage migration ensures no data remains \
                 persisted in {stored} and removes {stored} from status.storedVersions"
            );
            errors.push(FieldError::invalid_text(
                format!("{FIELD}[{index}]"),
                stored,
                &detail,
            ));
        }
    }
}

/// Groups that belong to the Kubernetes community need an approval.
fn check_approval(crd: &Value, errors: &mut Vec<FieldError>) {
    const ANNOTATION: &str = "api-approved.kubernetes.io";
    let group = crd["spec"]["group"].as_str().unwrap_or_default();
    let protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group == *domain || group.ends_with(&format!(".{domain}")));
    if !protected {
        return;
    }
    let approval = crd["metadata"]["annotations"][ANNOTATION]
        .as_str()
        .unwrap_or_default();
    let is_url = approval.split_once("://").is_some_and(|(scheme, rest)| {
        !scheme.is_empty() && !rest.is_empty() && !rest.starts_with('/')
    });
    if is_url || approval.starts_with("unapproved") {
        return;
    }
    let field = format!("metadata.annotations[{ANNOTATION}]");
    let start = format!("protected groups must have approval annotation \"{ANNOTATION}\"");
    let end = "see https://github.com/kubernetes/enhancements/pull/1111";
    errors.push(match approval {
        "" => FieldError::required(field, &format!("{start}, {end}")),
        _ => {
            let middle = "with either a URL or a reason starting with \"unapproved\"";
            FieldError::invalid_text(field, approval, &format!("{start} {middle}, {end}"))
        }
    });
}

//! Whether a schema is structural: every field has its type outside of `allOf`,
//! `anyOf`, `oneOf` and `not`, so that pruning and defaulting know what is what.

mod completeness;

use super::error::{FieldError, child};
use super::node::{AdditionalProperties, SchemaNode};

#[derive(Clone, Copy, PartialEq)]
enum SchemaLevel {
    Root,
    Item,
    Field,
}

/// Everything that keeps the schema from being structural, sorted.
pub(super) fn check(root: &SchemaNode) -> Vec<FieldError> {
    if is_unreadable(root) {
        return Vec::new();
    }
    let mut errors = Vec::new();
    check_node(root, SchemaLevel::Root, "", &mut errors);
    completeness::check(root, &mut errors);
    errors.sort_by_cached_key(|error| format!("{}: {}", error.field, error.message));
    errors
}

/// Schemas with refused keywords are not checked further: `keywords` reports those.
fn is_unreadable(node: &SchemaNode) -> bool {
    !node.refused.is_empty() || node.preserve_unknown == Some(false) || {
        let inside = node
            .items
            .as_deref()
            .into_iter()
            .chain(node.additional_schema());
        let branches = [&node.all_of, &node.any_of, &node.one_of]
            .into_iter()
            .flatten();
        let mut all = inside
            .chain(node.properties.values())
            .chain(branches)
            .chain(node.not.as_deref());
        all.any(is_unreadable)
    }
}

fn check_node(node: &SchemaNode, level: SchemaLevel, path: &str, errors: &mut Vec<FieldError>) {
    if node.type_name == "array" && node.items.is_none() {
        let field = child(path, "items");
        errors.push(FieldError::required(field, "must be specified"));
    }
    if let Some(items) = &node.items {
        check_node(items, SchemaLevel::Item, &child(path, "items"), errors);
    }
    let properties = child(path, "properties");
    for (name, property) in &node.properties {
        let path = format!("{properties}[{name}]");
        check_node(property, SchemaLevel::Field, &path, errors);
    }
    if level == SchemaLevel::Root && node.takes_additional() {
        let field = child(path, "additionalProperties");
        errors.push(FieldError::forbidden(field, "must not be used at the root"));
    }
    if let Some(additional) = node.additional_schema() {
        let path = child(path, "additionalProperties");
        check_node(additional, SchemaLevel::Field, &path, errors);
    }
    check_int_or_string(node, path, errors);
    let skipped = SkippedBranches {
        any_of: is_int_or_string(&node.any_of),
        first_all_of: first_is_int_or_string(node),
    };
    check_branches(node, skipped, path, errors);
    check_type(node, level, path, errors);
    check_resource(node, level, path, errors);
}

fn check_int_or_string(node: &SchemaNode, path: &str, errors: &mut Vec<FieldError>) {
    let detail = "must be false if x-kubernetes-int-or-string is true";
    for (set, keyword) in [
        (
            node.preserves_unknown(),
            "x-kubernetes-preserve-unknown-fields",
        ),
        (node.embedded, "x-kubernetes-embedded-resource"),
    ] {
        if node.int_or_string && set {
            errors.push(FieldError::invalid(
                child(path, keyword),
                &true.into(),
                detail,
            ));
        }
    }
}

fn check_type(node: &SchemaNode, level: SchemaLevel, path: &str, errors: &mut Vec<FieldError>) {
    let field = child(path, "type");
    let name = node.type_name.as_str();
    if node.embedded && name != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(match name {
            "" => FieldError::required(field.clone(), detail),
            _ => FieldError::invalid_text(field.clone(), name, detail),
        });
    } else if name.is_empty() && !node.int_or_string && !node.preserves_unknown() {
        let detail = match level {
            SchemaLevel::Root => "must not be empty at the root",
            SchemaLevel::Item => "must not be empty for specified array items",
            SchemaLevel::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(field.clone(), detail));
    }
    if node.embedded && node.takes_additional() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(
            child(path, "additionalProperties"),
            detail,
        ));
    }
    if level == SchemaLevel::Root && !name.is_empty() && name != "object" {
        errors.push(FieldError::invalid_text(
            field,
            name,
            "must be object at the root",
        ));
    }
}

fn check_resource(node: &SchemaNode, level: SchemaLevel, path: &str, errors: &mut Vec<FieldError>) {
    let is_resource = level == SchemaLevel::Root || node.embedded;
    for name in ["kind", "apiVersion"] {
        let Some(property) = node.properties.get(name).filter(|_| is_resource) else {
            continue;
        };
        if property.type_name != "string" {
            let field = child(path, &format!("properties[{name}].type"));
            errors.push(FieldError::invalid_text(
                field,
                &property.type_name,
                "must be string",
            ));
        }
    }
    if let Some(metadata) = node.properties.get("metadata") {
        let field = child(path, "properties[metadata]");
        if is_resource && metadata.type_name != "object" {
            let field = child(&field, "type");
            errors.push(FieldError::invalid_text(
                field,
                &metadata.type_name,
                "must be object",
            ));
        }
        if level == SchemaLevel::Root && !only_names(metadata) {
            let detail = "must not specify anything other than name and generateName, \
                          but metadata is implicitly specified";
            errors.push(FieldError::forbidden(field, detail));
        }
    }
    if node.embedded && !node.preserves_unknown() && node.properties.is_empty() {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true \
                      without x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(child(path, "properties"), detail));
    }
}

/// Whether a schema of `metadata` restricts the name and nothing else.
fn only_names(node: &SchemaNode) -> bool {
    let names = ["name", "generateName"];
    node.properties
        .keys()
        .all(|name| names.contains(&name.as_str()))
        && node.texts.is_empty()
        && !node.nullable
        && !node.takes_additional()
        && node.items.is_none()
        && node.preserve_unknown.is_none()
        && !node.embedded
        && !node.int_or_string
        && node.list_type.is_none()
        && node.map_type.is_none()
        && node.rules.is_empty()
        && node.required.is_empty()
        && node.values.is_empty()
        && [&node.all_of, &node.any_of, &node.one_of]
            .iter()
            .all(|branches| branches.is_empty())
        && node.not.is_none()
        && node.sizes.max_properties.is_none()
        && node.sizes.min_properties.is_none()
}

/// `anyOf: [{type: integer}, {type: string}]`, the one place where types may be repeated.
fn is_int_or_string(branches: &[SchemaNode]) -> bool {
    let bare = |node: &SchemaNode, name: &str| {
        node.type_name == name && node.properties.is_empty() && node.pattern.is_none()
    };
    matches!(branches, [first, second] if bare(first, "integer") && bare(second, "string"))
}

fn first_is_int_or_string(node: &SchemaNode) -> bool {
    node.all_of
        .first()
        .is_some_and(|first| is_int_or_string(&first.any_of))
}

/// Branches that may repeat types because they only say "integer or string".
#[derive(Clone, Copy, Default)]
struct SkippedBranches {
    any_of: bool,
    first_all_of: bool,
}

fn check_branches(
    node: &SchemaNode,
    skipped: SkippedBranches,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    let any_of = if skipped.any_of {
        &[][..]
    } else {
        &node.any_of
    };
    for (keyword, branches) in [
        ("anyOf", any_of),
        ("allOf", &node.all_of),
        ("oneOf", &node.one_of),
    ] {
        for (index, branch) in branches.iter().enumerate() {
            let skips = keyword == "allOf" && index == 0 && skipped.first_all_of;
            let path = child(path, &format!("{keyword}[{index}]"));
            check_branch(branch, skips, &path, errors);
        }
    }
    if let Some(branch) = &node.not {
        check_branch(branch, false, &child(path, "not"), errors);
    }
    let Some(pattern) = &node.pattern else { return };
    if let Some(problem) = pattern.problem() {
        let detail = format!("must be a valid regular expression, but isn't: {problem}");
        let field = child(path, "pattern");
        errors.push(FieldError::invalid_text(field, &pattern.text, &detail));
    }
}

fn check_branch(node: &SchemaNode, skip_any_of: bool, path: &str, errors: &mut Vec<FieldError>) {
    let skipped = SkippedBranches {
        any_of: skip_any_of,
        first_all_of: false,
    };
    check_branches(node, skipped, path, errors);
    if let Some(items) = &node.items {
        check_branch(items, false, &child(path, "items"), errors);
    }
    for (name, property) in &node.properties {
        let path = child(path, &format!("properties[{name}]"));
        check_branch(property, false, &path, errors);
    }
    for (keyword, set) in forbidden_in_branches(node) {
        let detail = match keyword {
            "nullable"
            | "x-kubernetes-preserve-unknown-fields"
            | "x-kubernetes-embedded-resource"
            | "x-kubernetes-int-or-string" => "must be false to be structural",
            "additionalProperties"
            | "default"
            | "x-kubernetes-list-type"
            | "x-kubernetes-map-type" => "must be undefined to be structural",
            _ => "must be empty to be structural",
        };
        if set {
            errors.push(FieldError::forbidden(child(path, keyword), detail));
        }
    }
    if node.properties.contains_key("metadata") {
        let field = child(path, "properties[metadata]");
        let detail = "must not be specified in a nested context";
        errors.push(FieldError::forbidden(field, detail));
    }
}

/// The keywords a branch may not use, and whether it does.
fn forbidden_in_branches(node: &SchemaNode) -> [(&'static str, bool); 13] {
    let additional = &node.additional;
    let keeps = node.preserves_unknown();
    let keys = &node.list_map_keys;
    [
        ("type", !node.type_name.is_empty()),
        (
            "additionalProperties",
            !matches!(
                additional,
                AdditionalProperties::Unset | AdditionalProperties::Allowed(false)
            ),
        ),
        ("default", node.default.is_some()),
        ("title", node.texts.contains(&"title")),
        ("description", node.texts.contains(&"description")),
        ("nullable", node.nullable),
        ("x-kubernetes-preserve-unknown-fields", keeps),
        ("x-kubernetes-embedded-resource", node.embedded),
        ("x-kubernetes-int-or-string", node.int_or_string),
        ("x-kubernetes-list-map-keys", !keys.is_empty()),
        ("x-kubernetes-list-type", node.list_type.is_some()),
        ("x-kubernetes-map-type", node.map_type.is_some()),
        ("x-kubernetes-validations", !node.rules.is_empty()),
    ]
}

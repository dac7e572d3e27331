//! Whether a schema is structural: every field has its type outside of `allOf`,
//! `anyOf`, `oneOf` and `not`, so that pruning and defaulting know what is what.

use serde_json::Value;

use super::error::{FieldError, INSIDE, child};
use super::node::{Additional, Node};
use super::{prune, value};

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Everything that keeps the schema from being structural, sorted.
pub(super) fn check(root: &Node) -> Vec<FieldError> {
    if is_unreadable(root) {
        return Vec::new();
    }
    let mut errors = Vec::new();
    check_node(root, Level::Root, "", &mut errors);
    check_completeness(root, Some(root), "", "", &mut errors);
    errors.sort_by_cached_key(|error| format!("{}: {}", error.field, error.message));
    errors
}

/// Schemas with refused keywords are not looked at further: those are told by `keywords`.
fn is_unreadable(node: &Node) -> bool {
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

fn check_node(node: &Node, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    if node.type_name == "array" && node.items.is_none() {
        errors.push(FieldError::required(
            child(path, "items"),
            "must be specified",
        ));
    }
    if let Some(items) = &node.items {
        check_node(items, Level::Item, &child(path, "items"), errors);
    }
    let properties = child(path, "properties");
    for (name, property) in &node.properties {
        check_node(
            property,
            Level::Field,
            &format!("{properties}[{name}]"),
            errors,
        );
    }
    if level == Level::Root && node.takes_additional() {
        let field = child(path, "additionalProperties");
        errors.push(FieldError::forbidden(field, "must not be used at the root"));
    }
    if let Some(additional) = node.additional_schema() {
        check_node(
            additional,
            Level::Field,
            &child(path, "additionalProperties"),
            errors,
        );
    }
    check_int_or_string(node, path, errors);
    check_branches(
        node,
        is_int_or_string(&node.any_of),
        first_is_int_or_string(node),
        path,
        errors,
    );
    check_type(node, level, path, errors);
    check_resource(node, level, path, errors);
}

fn check_int_or_string(node: &Node, path: &str, errors: &mut Vec<FieldError>) {
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

fn check_type(node: &Node, level: Level, path: &str, errors: &mut Vec<FieldError>) {
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
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
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
    if level == Level::Root && !name.is_empty() && name != "object" {
        errors.push(FieldError::invalid_text(
            field,
            name,
            "must be object at the root",
        ));
    }
}

fn check_resource(node: &Node, level: Level, path: &str, errors: &mut Vec<FieldError>) {
    let is_resource = level == Level::Root || node.embedded;
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
        if level == Level::Root && !only_names(metadata) {
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
fn only_names(node: &Node) -> bool {
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
fn is_int_or_string(branches: &[Node]) -> bool {
    let bare = |node: &Node, name: &str| {
        node.type_name == name && node.properties.is_empty() && node.pattern.is_none()
    };
    matches!(branches, [first, second] if bare(first, "integer") && bare(second, "string"))
}

fn first_is_int_or_string(node: &Node) -> bool {
    node.all_of
        .first()
        .is_some_and(|first| is_int_or_string(&first.any_of))
}

fn check_branches(
    node: &Node,
    skip_any_of: bool,
    skip_first_all_of: bool,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    if !skip_any_of {
        for (index, branch) in node.any_of.iter().enumerate() {
            check_branch(
                branch,
                false,
                &child(path, &format!("anyOf[{index}]")),
                errors,
            );
        }
    }
    for (index, branch) in node.all_of.iter().enumerate() {
        let skip = skip_first_all_of && index == 0;
        check_branch(
            branch,
            skip,
            &child(path, &format!("allOf[{index}]")),
            errors,
        );
    }
    for (index, branch) in node.one_of.iter().enumerate() {
        check_branch(
            branch,
            false,
            &child(path, &format!("oneOf[{index}]")),
            errors,
        );
    }
    if let Some(branch) = &node.not {
        check_branch(branch, false, &child(path, "not"), errors);
    }
    if let Some(problem) = node.pattern.as_ref().and_then(|pattern| pattern.problem()) {
        let text = node
            .pattern
            .as_ref()
            .map_or("", |pattern| pattern.text.as_str());
        let detail = format!("must be a valid regular expression, but isn't: {problem}");
        errors.push(FieldError::invalid_text(
            child(path, "pattern"),
            text,
            &detail,
        ));
    }
}

fn check_branch(node: &Node, skip_any_of: bool, path: &str, errors: &mut Vec<FieldError>) {
    check_branches(node, skip_any_of, false, path, errors);
    if let Some(items) = &node.items {
        check_branch(items, false, &child(path, "items"), errors);
    }
    for (name, property) in &node.properties {
        check_branch(
            property,
            false,
            &child(path, &format!("properties[{name}]")),
            errors,
        );
    }
    let additional = !matches!(
        node.additional,
        Additional::Unset | Additional::Allowed(false)
    );
    let empty = "must be empty to be structural";
    let undefined = "must be undefined to be structural";
    let unset = "must be false to be structural";
    for (keyword, set, detail) in [
        ("type", !node.type_name.is_empty(), empty),
        ("additionalProperties", additional, undefined),
        ("default", node.default.is_some(), undefined),
        ("title", node.texts.contains(&"title"), empty),
        ("description", node.texts.contains(&"description"), empty),
        ("nullable", node.nullable, unset),
        (
            "x-kubernetes-preserve-unknown-fields",
            node.preserves_unknown(),
            unset,
        ),
        ("x-kubernetes-embedded-resource", node.embedded, unset),
        ("x-kubernetes-int-or-string", node.int_or_string, unset),
        (
            "x-kubernetes-list-map-keys",
            !node.list_map_keys.is_empty(),
            empty,
        ),
        (
            "x-kubernetes-list-type",
            node.list_type.is_some(),
            undefined,
        ),
        ("x-kubernetes-map-type", node.map_type.is_some(), undefined),
        ("x-kubernetes-validations", !node.rules.is_empty(), empty),
    ] {
        if set {
            errors.push(FieldError::forbidden(child(path, keyword), detail));
        }
    }
    if node.properties.contains_key("metadata") {
        let field = child(path, "properties[metadata]");
        errors.push(FieldError::forbidden(
            field,
            "must not be specified in a nested context",
        ));
    }
}

/// Whatever the branches of `node` talk about must exist in `structure`.
fn check_completeness(
    node: &Node,
    structure: Option<&Node>,
    structure_path: &str,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    let Some(structure) = structure else {
        let detail = format!("because it is defined in {INSIDE}{path}");
        return errors.push(FieldError::required(structure_path, &detail));
    };
    let numbered = |keyword: &'static str, branches: &'_ [Node]| -> Vec<String> {
        (0..branches.len())
            .map(|index| child(path, &format!("{keyword}[{index}]")))
            .collect()
    };
    let mut branches: Vec<(&Node, String)> = Vec::new();
    branches.extend(
        node.not
            .as_deref()
            .map(|branch| (branch, child(path, "not"))),
    );
    branches.extend(node.all_of.iter().zip(numbered("allOf", &node.all_of)));
    branches.extend(node.any_of.iter().zip(numbered("anyOf", &node.any_of)));
    branches.extend(node.one_of.iter().zip(numbered("oneOf", &node.one_of)));
    for (branch, path) in branches {
        check_completeness(branch, Some(structure), structure_path, &path, errors);
        if let Some(items) = &branch.items {
            let (here, there) = (child(&path, "items"), child(structure_path, "items"));
            check_completeness(items, structure.items.as_deref(), &there, &here, errors);
        }
        for (name, property) in &branch.properties {
            let name_part = format!("properties[{name}]");
            let (here, there) = (child(&path, &name_part), child(structure_path, &name_part));
            check_completeness(
                property,
                structure.properties.get(name),
                &there,
                &here,
                errors,
            );
        }
    }
}

/// Defaults must be valid values without unknown fields.
pub(super) fn check_defaults(root: &Node, errors: &mut Vec<FieldError>) {
    check_default(root, "", errors);
}

fn check_default(node: &Node, path: &str, errors: &mut Vec<FieldError>) {
    if let Some(default) = &node.default {
        check_one_default(node, default, &child(path, "default"), errors);
    }
    if let Some(items) = &node.items {
        check_default(items, &child(path, "items"), errors);
    }
    for (name, property) in &node.properties {
        check_default(
            property,
            &child(path, &format!("properties[{name}]")),
            errors,
        );
    }
}

fn check_one_default(node: &Node, default: &Value, path: &str, errors: &mut Vec<FieldError>) {
    let mut pruned = default.clone();
    prune::prune(node, &mut pruned, node.embedded);
    if pruned != *default {
        errors.push(FieldError::invalid(
            path,
            default,
            "must not have unknown fields",
        ));
    }
    let place = value::Place {
        value: default,
        path: "",
        old: None,
    };
    let mut found = value::check(node, place).into_errors();
    if found.is_empty() && node.has_rules {
        super::cel::evaluate(node, default, None, &mut found);
    }
    errors.extend(found.into_iter().map(|error| error.below(path)));
}

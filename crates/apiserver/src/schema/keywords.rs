//! Which keywords a schema may use where, beyond being structural.

use super::cel;
use super::error::{FieldError, child};
use super::node::{Additional, Node};
use super::prune::RESOURCE_FIELDS;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// What the place of a schema forbids it.
#[derive(Clone, Copy, Default)]
struct Scope {
    /// Why there may be no default here.
    no_defaults: Option<&'static str>,
    inside_metadata: bool,
}

pub(super) fn check(root: &Node, errors: &mut Vec<FieldError>) {
    if root.nullable {
        errors.push(FieldError::forbidden(
            "nullable",
            "nullable cannot be true at the root",
        ));
    }
    check_node(root, true, "", Scope::default(), errors);
}

fn check_node(node: &Node, is_root: bool, path: &str, scope: Scope, errors: &mut Vec<FieldError>) {
    check_refused(node, path, scope, errors);
    check_additional(node, path, scope, errors);
    for (name, property) in &node.properties {
        let mut scope = scope;
        if (is_root || node.embedded) && RESOURCE_FIELDS.contains(&name.as_str()) {
            scope.inside_metadata = true;
            if is_root {
                scope.no_defaults = Some(match name.as_str() {
                    "metadata" => "in top-level metadata",
                    "kind" => "in top-level kind",
                    _ => "in top-level apiVersion",
                });
            }
        }
        check_node(
            property,
            false,
            &child(path, &format!("properties[{name}]")),
            scope,
            errors,
        );
    }
    if let Some(not) = &node.not {
        check_node(not, false, &child(path, "not"), scope, errors);
    }
    for (keyword, branches) in [
        ("allOf", &node.all_of),
        ("oneOf", &node.one_of),
        ("anyOf", &node.any_of),
    ] {
        for (index, branch) in branches.iter().enumerate() {
            let path = child(path, &format!("{keyword}[{index}]"));
            check_node(branch, false, &path, scope, errors);
        }
    }
    if let Some(items) = &node.items {
        check_node(items, false, &child(path, "items"), scope, errors);
    }
    check_extensions(node, path, errors);
    check_list_type(node, path, errors);
    check_list_map(node, path, errors);
    cel::check_rules(node, path, errors);
}

fn check_refused(node: &Node, path: &str, scope: Scope, errors: &mut Vec<FieldError>) {
    let name = node.type_name.as_str();
    if !name.is_empty() && !TYPES.contains(&name) {
        errors.push(FieldError::not_supported(
            child(path, "type"),
            &name.into(),
            &TYPES,
        ));
    }
    if let Some(reason) = scope.no_defaults.filter(|_| node.default.is_some()) {
        let detail = format!("must not be set {reason}");
        errors.push(FieldError::forbidden(child(path, "default"), &detail));
    }
    for keyword in &node.refused {
        errors.push(match *keyword {
            "$schema" => {
                let detail = "OpenAPIV3Schema 'schema' is not supported";
                FieldError::invalid_text(path, "", detail)
            }
            "items" => {
                let detail = "items must be a schema object and not an array";
                FieldError::forbidden(child(path, "items"), detail)
            }
            other => {
                FieldError::forbidden(child(path, other), &format!("{other} is not supported"))
            }
        });
    }
    if name == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        errors.push(FieldError::forbidden(child(path, "type"), detail));
    }
    if scope.inside_metadata && node.embedded {
        let field = child(path, "x-kubernetes-embedded-resource");
        errors.push(FieldError::forbidden(
            field,
            "must not be used inside of resource meta",
        ));
    }
    if node.unique_items {
        let detail =
            "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(child(path, "uniqueItems"), detail));
    }
}

fn check_additional(node: &Node, path: &str, scope: Scope, errors: &mut Vec<FieldError>) {
    let field = child(path, "additionalProperties");
    let exclusive = match &node.additional {
        Additional::Unset | Additional::Allowed(true) => false,
        Additional::Allowed(false) | Additional::Schema(_) => true,
    };
    if exclusive && !node.properties.is_empty() {
        let detail = "additionalProperties and properties are mutual exclusive";
        errors.push(FieldError::forbidden(field.clone(), detail));
    }
    if let Some(additional) = node.additional_schema() {
        let mut scope = scope;
        if scope.inside_metadata {
            scope.no_defaults = Some("inside additionalProperties applying to object metadata");
        }
        check_node(additional, false, &field, scope, errors);
    }
}

fn check_extensions(node: &Node, path: &str, errors: &mut Vec<FieldError>) {
    if node.preserve_unknown == Some(false) {
        let field = child(path, "x-kubernetes-preserve-unknown-fields");
        errors.push(FieldError::invalid(
            field,
            &false.into(),
            "must be true or undefined",
        ));
    }
    if let Some(map_type) = &node.map_type {
        check_type_is(node, "object", "x-kubernetes-map-type", path, errors);
        if !["atomic", "granular"].contains(&map_type.as_str()) {
            let field = child(path, "x-kubernetes-map-type");
            let supported = ["atomic", "granular"];
            errors.push(FieldError::not_supported(
                field,
                &map_type.as_str().into(),
                &supported,
            ));
        }
    }
}

fn check_type_is(
    node: &Node,
    expected: &str,
    keyword: &str,
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    if node.type_name == expected {
        return;
    }
    let field = child(path, "type");
    let detail = format!("must be {expected} if {keyword} is specified");
    errors.push(match node.type_name.as_str() {
        "" => FieldError::required(field, &detail),
        name => FieldError::invalid_text(field, name, &detail),
    });
}

fn check_list_type(node: &Node, path: &str, errors: &mut Vec<FieldError>) {
    let Some(list_type) = &node.list_type else {
        return;
    };
    check_type_is(node, "array", "x-kubernetes-list-type", path, errors);
    if let Some(items) = node
        .items
        .as_ref()
        .filter(|_| node.type_name == "array" && list_type == "set")
    {
        let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
        let item_type = items.list_type.as_deref();
        let (keyword, wrong) = match items.type_name.as_str() {
            "array" => (
                "x-kubernetes-list-type",
                item_type.is_some_and(|name| name != "atomic"),
            ),
            "object" => (
                "x-kubernetes-map-type",
                items.map_type.as_deref() != Some("atomic"),
            ),
            _ => ("", false),
        };
        if wrong {
            let field = child(path, &format!("items.{keyword}"));
            errors.push(FieldError::invalid(field, &item_type.into(), detail));
        }
    }
    if !["atomic", "set", "map"].contains(&list_type.as_str()) {
        let field = child(path, "x-kubernetes-list-type");
        let supported = ["atomic", "set", "map"];
        errors.push(FieldError::not_supported(
            field,
            &list_type.as_str().into(),
            &supported,
        ));
    }
    let items = node
        .items
        .as_ref()
        .filter(|_| ["set", "map"].contains(&list_type.as_str()));
    if items.is_some_and(|items| items.nullable) {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(
            child(path, "items.nullable"),
            &detail,
        ));
    }
}

fn check_list_map(node: &Node, path: &str, errors: &mut Vec<FieldError>) {
    let keys_field = child(path, "x-kubernetes-list-map-keys");
    let is_map = node.is_list_type("map");
    if !node.list_map_keys.is_empty() && !is_map {
        let field = child(path, "x-kubernetes-list-type");
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        errors.push(match &node.list_type {
            None => FieldError::required(field, detail),
            Some(name) => FieldError::invalid_text(field, name, detail),
        });
    }
    if !is_map {
        return;
    }
    if node.list_map_keys.is_empty() {
        let detail = "must not be empty if x-kubernetes-list-type is map";
        errors.push(FieldError::required(keys_field.clone(), detail));
    }
    let Some(items) = &node.items else {
        let detail = "must have a schema if x-kubernetes-list-type is map";
        return errors.push(FieldError::required(child(path, "items"), detail));
    };
    if items.type_name != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        let field = child(path, "items.type");
        return errors.push(FieldError::invalid_text(field, &items.type_name, detail));
    }
    for (index, key) in node.list_map_keys.iter().enumerate() {
        check_list_map_key(items, key, path, errors);
        let keys = node.list_map_keys.as_slice();
        if !items.properties.contains_key(key) {
            let detail = "entries must all be names of item properties";
            errors.push(FieldError::invalid(
                keys_field.clone(),
                &keys.into(),
                detail,
            ));
        }
        if keys[..index].contains(key) {
            let detail = "must not contain duplicate entries";
            errors.push(FieldError::invalid(
                keys_field.clone(),
                &keys.into(),
                detail,
            ));
        }
    }
}

fn check_list_map_key(items: &Node, key: &str, path: &str, errors: &mut Vec<FieldError>) {
    let Some(property) = items.properties.get(key) else {
        return;
    };
    let field = child(path, &format!("items.properties[{key}]"));
    if ["array", "object"].contains(&property.type_name.as_str()) {
        let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid_text(
            child(&field, "type"),
            &items.type_name,
            detail,
        ));
    }
    let is_required = items.required.iter().any(|name| name == key);
    if !is_required && property.default.is_none() {
        let detail = "this property is in x-kubernetes-list-map-keys, \
                      so it must have a default or be a required property";
        errors.push(FieldError::required(child(&field, "default"), detail));
    }
    if property.nullable {
        let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
        errors.push(FieldError::forbidden(child(&field, "nullable"), detail));
    }
}

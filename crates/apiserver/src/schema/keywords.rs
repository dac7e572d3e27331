//! Checks where keywords may be used in a structural schema.

use super::cel;
use super::error::{FieldError, child};
use super::node::{AdditionalProperties, SchemaNode};
use super::prune::RESOURCE_FIELDS;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// What is forbidden in a schema at its position.
#[derive(Clone, Copy, Default)]
struct Restrictions {
    /// Why there may be no default here.
    no_defaults: Option<&'static str>,
    inside_metadata: bool,
}

impl Restrictions {
    fn of_field(mut self, name: &str, is_root: bool, is_resource: bool) -> Self {
        if !is_resource || !RESOURCE_FIELDS.contains(&name) {
            return self;
        }
        self.inside_metadata = true;
        if is_root {
            self.no_defaults = Some(match name {
                "metadata" => "in top-level metadata",
                "kind" => "in top-level kind",
                _ => "in top-level apiVersion",
            });
        }
        self
    }
}

pub(super) fn check(root: &SchemaNode, errors: &mut Vec<FieldError>) {
    if root.nullable {
        errors.push(FieldError::forbidden(
            "nullable",
            "nullable cannot be true at the root",
        ));
    }
    check_node(root, true, "", Restrictions::default(), errors);
}

fn check_node(
    node: &SchemaNode,
    is_root: bool,
    path: &str,
    restrictions: Restrictions,
    errors: &mut Vec<FieldError>,
) {
    check_refused(node, path, restrictions, errors);
    check_additional(node, path, restrictions, errors);
    for (name, property) in &node.properties {
        let is_resource = is_root || node.embedded;
        let restrictions = restrictions.of_field(name, is_root, is_resource);
        let path = child(path, &format!("properties[{name}]"));
        check_node(property, false, &path, restrictions, errors);
    }
    if let Some(not) = &node.not {
        check_node(not, false, &child(path, "not"), restrictions, errors);
    }
    for (keyword, branches) in [
        ("allOf", &node.all_of),
        ("oneOf", &node.one_of),
        ("anyOf", &node.any_of),
    ] {
        for (index, branch) in branches.iter().enumerate() {
            let path = child(path, &format!("{keyword}[{index}]"));
            check_node(branch, false, &path, restrictions, errors);
        }
    }
    if let Some(items) = &node.items {
        check_node(items, false, &child(path, "items"), restrictions, errors);
    }
    check_extensions(node, path, errors);
    check_list_type(node, path, errors);
    check_list_map(node, path, errors);
    cel::check_rules(node, path, errors);
}

fn check_refused(
    node: &SchemaNode,
    path: &str,
    restrictions: Restrictions,
    errors: &mut Vec<FieldError>,
) {
    let name = node.type_name.as_str();
    if !name.is_empty() && !TYPES.contains(&name) {
        errors.push(FieldError::not_supported(
            child(path, "type"),
            &name.into(),
            &TYPES,
        ));
    }
    if let Some(reason) = restrictions.no_defaults.filter(|_| node.default.is_some()) {
        let detail = format!("must not be set {reason}");
        errors.push(FieldError::forbidden(child(path, "default"), &detail));
    }
    errors.extend(node.refused.iter().map(|keyword| refused(keyword, path)));
    if name == "null" {
        let detail = "type cannot be set to null, use nullable as an alternative";
        errors.push(FieldError::forbidden(child(path, "type"), detail));
    }
    if restrictions.inside_metadata && node.embedded {
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

fn refused(keyword: &str, path: &str) -> FieldError {
    let detail = match keyword {
        "$schema" => {
            return FieldError::invalid_text("", "", "OpenAPIV3Schema 'schema' is not supported");
        }
        "items" => "items must be a schema object and not an array".to_owned(),
        other => format!("{other} is not supported"),
    };
    FieldError::forbidden(child(path, keyword), &detail)
}

fn check_additional(
    node: &SchemaNode,
    path: &str,
    restrictions: Restrictions,
    errors: &mut Vec<FieldError>,
) {
    let field = child(path, "additionalProperties");
    let exclusive = match &node.additional {
        AdditionalProperties::Unset | AdditionalProperties::Allowed(true) => false,
        AdditionalProperties::Allowed(false) | AdditionalProperties::Schema(_) => true,
    };
    if exclusive && !node.properties.is_empty() {
        let detail = "additionalProperties and properties are mutual exclusive";
        errors.push(FieldError::forbidden(field.clone(), detail));
    }
    if let Some(additional) = node.additional_schema() {
        let mut restrictions = restrictions;
        if restrictions.inside_metadata {
            restrictions.no_defaults =
                Some("inside additionalProperties applying to object metadata");
        }
        check_node(additional, false, &field, restrictions, errors);
    }
}

fn check_extensions(node: &SchemaNode, path: &str, errors: &mut Vec<FieldError>) {
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
    node: &SchemaNode,
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

fn check_list_type(node: &SchemaNode, path: &str, errors: &mut Vec<FieldError>) {
    let Some(list_type) = &node.list_type else {
        return;
    };
    check_type_is(node, "array", "x-kubernetes-list-type", path, errors);
    let items = node.items.as_deref();
    if let Some(items) = items.filter(|_| node.type_name == "array" && list_type == "set") {
        check_items_of_set(items, path, errors);
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
    let is_keyed = ["set", "map"].contains(&list_type.as_str());
    if is_keyed && items.is_some_and(|items| items.nullable) {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        let field = child(path, "items.nullable");
        errors.push(FieldError::forbidden(field, &detail));
    }
}

fn check_items_of_set(items: &SchemaNode, path: &str, errors: &mut Vec<FieldError>) {
    let item_type = items.list_type.as_deref();
    let list_is_atomic = item_type.is_none_or(|name| name == "atomic");
    let map_is_atomic = items.map_type.as_deref() == Some("atomic");
    let keyword = match items.type_name.as_str() {
        "array" if !list_is_atomic => "x-kubernetes-list-type",
        "object" if !map_is_atomic => "x-kubernetes-map-type",
        _ => return,
    };
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let field = child(path, &format!("items.{keyword}"));
    errors.push(FieldError::invalid(field, &item_type.into(), detail));
}

fn check_list_map(node: &SchemaNode, path: &str, errors: &mut Vec<FieldError>) {
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
        errors.push(FieldError::required(
            child(path, "x-kubernetes-list-map-keys"),
            detail,
        ));
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
    check_list_map_keys(items, &node.list_map_keys, path, errors);
}

fn check_list_map_keys(
    items: &SchemaNode,
    keys: &[String],
    path: &str,
    errors: &mut Vec<FieldError>,
) {
    for (index, key) in keys.iter().enumerate() {
        check_list_map_key(items, key, path, errors);
        let mut blame = |detail| {
            let field = child(path, "x-kubernetes-list-map-keys");
            errors.push(FieldError::invalid(field, &keys.into(), detail));
        };
        if !items.properties.contains_key(key) {
            blame("entries must all be names of item properties");
        }
        if keys[..index].contains(key) {
            blame("must not contain duplicate entries");
        }
    }
}

fn check_list_map_key(items: &SchemaNode, key: &str, path: &str, errors: &mut Vec<FieldError>) {
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

//! The types of a custom kind for server-side apply, from its schema.

use crate::types::{Field, ListOwnership, ListType, MapType, PatchStrategy, ScalarType, Type};

use super::node::{AdditionalProperties, SchemaNode};

/// The type of the objects that a schema describes.
pub(super) fn of(root: &SchemaNode) -> Type {
    let mut kind = shape(root, false);
    if let Type::Map(map) = &mut kind {
        add_resource_fields(map);
    }
    kind
}

/// What every resource has without declaring it.
fn add_resource_fields(map: &mut MapType) {
    for name in ["apiVersion", "kind"] {
        map.fields.insert(name.to_owned(), Type::TEXT.into());
    }
    let metadata = Type::named("ObjectMeta").into();
    map.fields.insert("metadata".to_owned(), metadata);
}

/// `keeps_unknown` passes from what preserves unknown fields to all below.
fn shape(node: &SchemaNode, keeps_unknown: bool) -> Type {
    let keeps_unknown = keeps_unknown || node.preserves_unknown();
    match node.type_name.as_str() {
        "string" => match node.format.as_str() {
            "byte" => Type::Scalar(ScalarType::Bytes),
            "" => Type::TEXT,
            _ => Type::Scalar(ScalarType::Time),
        },
        "boolean" => Type::Scalar(ScalarType::Bool),
        "integer" if node.format == "int32" => Type::Scalar(ScalarType::Int32),
        "integer" => Type::Scalar(ScalarType::Int64),
        "number" => Type::Scalar(ScalarType::Number),
        "array" => list(node, keeps_unknown),
        "object" => map(node, keeps_unknown),
        _ if node.int_or_string => Type::Scalar(ScalarType::IntOrText),
        _ => Type::FREE,
    }
}

fn list(node: &SchemaNode, keeps_unknown: bool) -> Type {
    let items = node.items.as_deref();
    Type::List(Box::new(ListType {
        items: items.map_or(Type::OPAQUE, |items| shape(items, keeps_unknown)),
        ownership: match node.list_type.as_deref() {
            Some("set") => ListOwnership::Set,
            Some("map") => ListOwnership::Keys(node.list_map_keys.clone()),
            _ => ListOwnership::Atomic,
        },
        patch_strategy: PatchStrategy::Replace,
    }))
}

fn map(node: &SchemaNode, keeps_unknown: bool) -> Type {
    let field = |(name, node): (&String, &SchemaNode)| (name.clone(), field(node, keeps_unknown));
    let others = match &node.additional {
        AdditionalProperties::Schema(others) => Some(shape(others, keeps_unknown)),
        AdditionalProperties::Allowed(true) => Some(Type::FREE),
        AdditionalProperties::Allowed(false) => None,
        AdditionalProperties::Unset => {
            (keeps_unknown || node.properties.is_empty()).then_some(Type::FREE)
        }
    };
    let mut map = MapType {
        fields: node.properties.iter().map(field).collect(),
        others,
        is_atomic: node.map_type.as_deref() == Some("atomic"),
    };
    for name in &node.required {
        if let Some(field) = map.fields.get_mut(name) {
            field.is_required = true;
        }
    }
    if node.embedded {
        add_resource_fields(&mut map);
    }
    Type::Map(Box::new(map))
}

fn field(node: &SchemaNode, keeps_unknown: bool) -> Field {
    Field {
        default: node.default.clone(),
        ..Field::from(shape(node, keeps_unknown))
    }
}

//! The types of the fields of objects: maps, lists and scalars, and how they are merged.
//!
//! Built-in kinds get their types from a table, custom kinds from their schemas. Server-side apply,
//! strategic merge patch, pruning of unknown fields and OpenAPI use them.

mod table;
mod unknown;

use std::collections::BTreeMap;

use serde_json::Value;

pub(crate) use unknown::prune;

/// The type of a value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Type {
    Scalar(ScalarType),
    Map(Box<MapType>),
    List(Box<ListType>),
    /// A type of the table of built-in types.
    Named(String),
    /// Any value; if `is_shared`, maps in it are merged by their keys.
    Any {
        is_shared: bool,
    },
}

/// The scalar types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScalarType {
    Text,
    Bytes,
    Time,
    Quantity,
    IntOrText,
    Bool,
    Int32,
    Int64,
    Number,
}

/// A map: declared fields, and the type of other keys.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct MapType {
    pub(crate) fields: BTreeMap<String, Field>,
    /// The type of other keys; `None` if there are none.
    pub(crate) others: Option<Type>,
    /// Whether it is replaced as a whole.
    pub(crate) is_atomic: bool,
}

/// A declared field of a map.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    pub(crate) kind: Type,
    pub(crate) is_required: bool,
    /// The value of a missing key of a list item.
    pub(crate) default: Option<Value>,
    /// Whether it exists, as an empty value, even if it is not written.
    pub(crate) is_inline: bool,
    /// Whether a strategic merge patch keeps only the keys that it contains.
    pub(crate) retains_keys: bool,
    /// The field number in protobuf; several numbers are a path through messages that JSON omits.
    pub(crate) number: Vec<u64>,
    /// Whether zero, false and the empty string differ from a missing value.
    pub(crate) can_be_zero: bool,
}

impl From<Type> for Field {
    fn from(kind: Type) -> Self {
        Self {
            kind,
            is_required: false,
            default: None,
            is_inline: false,
            retains_keys: false,
            number: Vec::new(),
            can_be_zero: false,
        }
    }
}

/// A list and how its items are identified.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ListType {
    pub(crate) items: Type,
    pub(crate) ownership: ListOwnership,
    /// How a strategic merge patch merges it.
    pub(crate) patch_strategy: PatchStrategy,
}

/// How the items of a list are owned (`x-kubernetes-list-type`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ListOwnership {
    /// The list has one owner and is replaced as a whole.
    Atomic,
    /// Each value has its own owners; there are no duplicates.
    Set,
    /// Each item has its own owners and is identified by these fields.
    Keys(Vec<String>),
}

/// How a strategic merge patch merges a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PatchStrategy {
    Replace,
    /// Scalars are added.
    MergeValues,
    /// Items with the same value of this field are merged.
    MergeByKey(String),
}

impl Type {
    /// A string.
    pub(crate) const TEXT: Self = Self::Scalar(ScalarType::Text);
    /// Any value, which is replaced as a whole.
    pub(crate) const OPAQUE: Self = Self::Any { is_shared: false };
    /// Any value, whose maps are merged by their keys.
    pub(crate) const FREE: Self = Self::Any { is_shared: true };

    /// The built-in type of this name.
    pub(crate) fn named(name: &str) -> Self {
        Self::Named(name.to_owned())
    }

    /// The type that a name refers to, or the type itself.
    pub(crate) fn resolve(&self) -> &Self {
        match self {
            Self::Named(name) => table::find(name).unwrap_or(&Self::OPAQUE),
            other => other,
        }
    }

    /// The type of the field `name`, if values of this type can have it.
    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        match self.resolve() {
            Self::Map(map) => map.field(name),
            any @ Self::Any { .. } => Some(any),
            _ => None,
        }
    }
}

impl MapType {
    /// The type of a key.
    pub(crate) fn field(&self, name: &str) -> Option<&Type> {
        match self.fields.get(name) {
            Some(field) => Some(&field.kind),
            None => self.others.as_ref(),
        }
    }
}

/// The type of a built-in kind, if the table has it.
pub(crate) fn of_builtin(group: &str, kind: &str) -> Option<Type> {
    let name = match group {
        "events.k8s.io" => format!("Events{kind}"),
        _ => kind.to_owned(),
    };
    table::find(&name).map(|_| Type::Named(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_named_type_is_in_the_table() {
        fn check(kind: &Type, path: &str) {
            match kind {
                Type::Named(name) => assert!(table::find(name).is_some(), "{path}: {name}"),
                Type::List(list) => check(&list.items, path),
                Type::Map(map) => {
                    for (name, field) in &map.fields {
                        check(&field.kind, &format!("{path}.{name}"));
                    }
                    if let Some(others) = &map.others {
                        check(others, path);
                    }
                }
                Type::Scalar(_) | Type::Any { .. } => {}
            }
        }
        for (name, kind) in table::all() {
            check(kind, name);
        }
    }

    #[test]
    fn the_table_has_list_types_and_merge_keys() {
        let spec = Type::named("PodSpec");
        let Some(Type::List(containers)) = spec.field("containers") else {
            panic!("containers are a list");
        };
        assert_eq!(
            containers.ownership,
            ListOwnership::Keys(vec!["name".to_owned()])
        );
        assert_eq!(
            containers.patch_strategy,
            PatchStrategy::MergeByKey("name".to_owned())
        );
        let ports = containers.items.field("ports").map(Type::resolve);
        let Some(Type::List(ports)) = ports else {
            panic!("ports are a list");
        };
        let Type::Map(port) = ports.items.resolve() else {
            panic!("a port is a map");
        };
        assert_eq!(port.fields["protocol"].default, Some("TCP".into()));
        let Type::Map(selector) = Type::named("LabelSelector").resolve().clone() else {
            panic!("a selector is a map");
        };
        assert!(selector.is_atomic);
    }
}

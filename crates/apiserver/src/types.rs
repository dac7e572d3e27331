//! What objects are made of: which values are maps, lists or plain, and which of them several
//! writers can share.
//!
//! One model for both: the built-in kinds come from a table of their fields, custom kinds from
//! their schemas. Server-side apply, strategic merge patch, the search for unknown fields and the
//! OpenAPI documents all read it. It never validates values beyond that.

mod table;
mod unknown;

use std::collections::BTreeMap;

use serde_json::Value;

pub(crate) use unknown::prune;

/// What stands at one place of an object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Type {
    Scalar(Scalar),
    Map(Box<MapType>),
    List(Box<ListType>),
    /// A type of the table of built-in types.
    Named(String),
    /// Whatever is written; maps in it are shared by their keys, if `is_shared`.
    Any {
        is_shared: bool,
    },
}

/// The plain values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scalar {
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

/// A map: declared fields, and what its other keys hold.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct MapType {
    pub(crate) fields: BTreeMap<String, Field>,
    /// `None`: there are no other keys.
    pub(crate) others: Option<Type>,
    /// Written as a whole.
    pub(crate) is_atomic: bool,
}

/// A declared field of a map.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    pub(crate) kind: Type,
    pub(crate) is_required: bool,
    /// What a missing key of a list item stands for.
    pub(crate) default: Option<Value>,
    /// Present, if only empty, also where nothing is written.
    pub(crate) is_inline: bool,
    /// A strategic merge patch keeps only the keys that it names.
    pub(crate) retains_keys: bool,
    /// Where it is in the binary form; several numbers lead through what JSON leaves out.
    pub(crate) number: Vec<u64>,
    /// Zero, false and empty text mean something else than nothing.
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

/// A list and how its items are told apart.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ListType {
    pub(crate) items: Type,
    pub(crate) sharing: Sharing,
    /// How a strategic merge patch tells the items apart.
    pub(crate) merging: Merging,
}

/// Who may own what of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sharing {
    /// Written as a whole.
    Atomic,
    /// Each value by itself; nothing twice.
    Set,
    /// Each item by itself, told apart by these fields.
    Keys(Vec<String>),
}

/// What a strategic merge patch does with a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Merging {
    Replace,
    /// Plain values are added.
    Add,
    /// Items with the same value of this field are merged.
    By(String),
}

impl Type {
    /// Text.
    pub(crate) const TEXT: Self = Self::Scalar(Scalar::Text);
    /// Whatever is written, as a whole.
    pub(crate) const OPAQUE: Self = Self::Any { is_shared: false };
    /// Whatever is written; maps are shared by their keys.
    pub(crate) const FREE: Self = Self::Any { is_shared: true };

    /// The built-in type of that name.
    pub(crate) fn named(name: &str) -> Self {
        Self::Named(name.to_owned())
    }

    /// The type itself, where a name stands for it.
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
    /// What a key holds.
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
        fn check(kind: &Type, place: &str) {
            match kind {
                Type::Named(name) => assert!(table::find(name).is_some(), "{place}: {name}"),
                Type::List(list) => check(&list.items, place),
                Type::Map(map) => {
                    for (name, field) in &map.fields {
                        check(&field.kind, &format!("{place}.{name}"));
                    }
                    if let Some(others) = &map.others {
                        check(others, place);
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
    fn the_table_knows_how_lists_are_shared() {
        let spec = Type::named("PodSpec");
        let Some(Type::List(containers)) = spec.field("containers") else {
            panic!("containers are a list");
        };
        assert_eq!(containers.sharing, Sharing::Keys(vec!["name".to_owned()]));
        assert_eq!(containers.merging, Merging::By("name".to_owned()));
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

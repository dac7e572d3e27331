//! The table of built-in types.

use std::{collections::HashMap, sync::LazyLock};

use serde_json::Value;

use super::{Field, ListOwnership, ListType, MapType, PatchStrategy, ScalarType, Type};

const TABLE: &str = include_str!("builtin.txt");

static TYPES: LazyLock<HashMap<&'static str, Type>> = LazyLock::new(|| read(TABLE));

/// The built-in type of that name.
pub(super) fn find(name: &str) -> Option<&'static Type> {
    TYPES.get(name)
}

/// All built-in types.
#[cfg(test)]
pub(super) fn all() -> impl Iterator<Item = (&'static str, &'static Type)> {
    TYPES.iter().map(|(name, kind)| (*name, kind))
}

fn read(table: &'static str) -> HashMap<&'static str, Type> {
    let mut types: HashMap<&'static str, MapType> = HashMap::new();
    let mut current = "";
    for line in table.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        if !line.starts_with(' ') {
            let head = words.next().unwrap_or_default();
            current = head.trim_end_matches('!');
            types.entry(current).or_default().is_atomic = head.ends_with('!');
        }
        let fields = words.map(field);
        types.entry(current).or_default().fields.extend(fields);
    }
    let boxed = |(name, map)| (name, Type::Map(Box::new(map)));
    types.into_iter().map(boxed).collect()
}

/// Reads `[*]name[#number…[?]]:type[/mark…]`.
fn field(word: &str) -> (String, Field) {
    let mut marks = word.split('/');
    let declared = marks.next().unwrap_or_default();
    let (name, type_name) = declared.split_once(':').unwrap_or((declared, "any"));
    let (name, number) = name.split_once('#').unwrap_or((name, ""));
    let mut field = Field::from(kind(type_name));
    field.is_required = name.starts_with('*');
    field.can_be_zero = number.ends_with('?');
    let numbers = number.trim_end_matches('?').split('.');
    field.number = numbers.filter_map(|number| number.parse().ok()).collect();
    for mark in marks {
        let (word, value) = mark.split_once('=').unwrap_or((mark, ""));
        set_mark(&mut field, word, value);
    }
    (name.trim_start_matches('*').to_owned(), field)
}

fn kind(name: &str) -> Type {
    let inner = || &name[1..name.len() - 1];
    match name {
        "text" => Type::TEXT,
        "bytes" => Type::Scalar(ScalarType::Bytes),
        "time" => Type::Scalar(ScalarType::Time),
        "quantity" => Type::Scalar(ScalarType::Quantity),
        "intOrText" => Type::Scalar(ScalarType::IntOrText),
        "bool" => Type::Scalar(ScalarType::Bool),
        "int32" => Type::Scalar(ScalarType::Int32),
        "int64" => Type::Scalar(ScalarType::Int64),
        "number" => Type::Scalar(ScalarType::Number),
        "any" => Type::OPAQUE,
        "anyMap" => Type::FREE,
        _ if name.starts_with('[') => Type::List(Box::new(ListType {
            items: kind(inner()),
            ownership: ListOwnership::Atomic,
            patch_strategy: PatchStrategy::Replace,
        })),
        _ if name.starts_with('{') => Type::Map(Box::new(MapType {
            others: Some(kind(inner())),
            ..MapType::default()
        })),
        _ => Type::named(name),
    }
}

fn set_mark(field: &mut Field, mark: &str, value: &str) {
    match (mark, &mut field.kind) {
        ("map", Type::List(list)) => {
            list.ownership = ListOwnership::Keys(value.split(',').map(str::to_owned).collect());
        }
        ("set", Type::List(list)) => list.ownership = ListOwnership::Set,
        ("merge", Type::List(list)) if value.is_empty() => {
            list.patch_strategy = PatchStrategy::MergeValues;
            // Without another mark, a merged list is also owned item by item.
            if list.ownership == ListOwnership::Atomic {
                list.ownership = ListOwnership::Set;
            }
        }
        ("merge", Type::List(list)) => {
            list.patch_strategy = PatchStrategy::MergeByKey(value.to_owned());
            if list.ownership == ListOwnership::Atomic {
                list.ownership = ListOwnership::Keys(vec![value.to_owned()]);
            }
        }
        ("atomic", Type::Map(map)) => map.is_atomic = true,
        ("retainKeys", _) => field.retains_keys = true,
        ("inline", _) => field.is_inline = true,
        ("default", Type::Scalar(ScalarType::Int32 | ScalarType::Int64)) => {
            field.default = value.parse::<i64>().ok().map(Value::from);
        }
        ("default", _) => field.default = Some(value.into()),
        _ => {}
    }
}

//! Sets of fields, as in `managedFields`.
//!
//! A field is identified by path elements: `f:name` for a field of a map, `k:{…}` for a list item by
//! its keys, `v:…` for a value of a set. A set is a tree of path elements, as in its JSON form
//! (`FieldsV1`).

use std::collections::BTreeMap;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, IgnoredAny, MapAccess, Visitor},
    ser::SerializeMap,
};
use serde_json::Value;

/// A set of fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FieldSet {
    /// Whether this field itself is in the set.
    pub(crate) is_member: bool,
    /// The fields in it; no set is empty.
    pub(crate) children: BTreeMap<String, FieldSet>,
}

/// The path element of a field of a map.
pub(crate) fn field_element(name: &str) -> String {
    ["f:", name].concat()
}

impl FieldSet {
    /// The set of just these paths of field names.
    pub(crate) fn of(paths: &[&[&str]]) -> Self {
        let mut fields = Self::default();
        for path in paths {
            let mut place = &mut fields;
            for name in *path {
                place = place.children.entry(field_element(name)).or_default();
            }
            place.is_member = true;
        }
        fields
    }

    /// Whether the field of this name is in the set.
    pub(crate) fn has_field(&self, name: &str) -> bool {
        let mut children = self.children.iter();
        children.any(|(element, it)| it.is_member && element.strip_prefix("f:") == Some(name))
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.is_member && self.children.is_empty()
    }

    /// Whether the set with this JSON may have common members with this one.
    pub(crate) fn may_intersect(&self, wire: &str) -> bool {
        let is_escaped =
            |element: &str| element.contains(|it: char| it.is_control() || "\"\\".contains(it));
        let mut elements = self.children.keys();
        self.is_member
            || elements.any(|element| is_escaped(element) || wire.contains(element.as_str()))
    }

    /// Inserts a set under a path element, unless it is empty.
    pub(crate) fn insert_set(&mut self, element: &str, fields: Self) {
        if !fields.is_empty() {
            self.children.insert(element.to_owned(), fields);
        }
    }

    pub(crate) fn union(&self, other: &Self) -> Self {
        let mut all = self.clone();
        all.add(other);
        all
    }

    /// Adds all of another set.
    pub(crate) fn add(&mut self, other: &Self) {
        self.is_member |= other.is_member;
        for (element, fields) in &other.children {
            self.children
                .entry(element.clone())
                .or_default()
                .add(fields);
        }
    }

    pub(crate) fn intersection(&self, other: &Self) -> Self {
        self.pairwise(other, |mine, theirs| mine && theirs, false)
    }

    pub(crate) fn difference(&self, other: &Self) -> Self {
        self.pairwise(other, |mine, theirs| mine && !theirs, true)
    }

    /// Removes the members of another set.
    pub(crate) fn subtract(&mut self, other: &Self) {
        self.is_member &= !other.is_member;
        for (element, theirs) in &other.children {
            if let Some(mine) = self.children.get_mut(element) {
                mine.subtract(theirs);
                if mine.is_empty() {
                    self.children.remove(element);
                }
            }
        }
    }

    fn pairwise(&self, other: &Self, rule: fn(bool, bool) -> bool, keeps_alone: bool) -> Self {
        let mut result = Self {
            is_member: rule(self.is_member, other.is_member),
            children: BTreeMap::new(),
        };
        for (element, fields) in &self.children {
            match other.children.get(element) {
                Some(theirs) => {
                    result.insert_set(element, fields.pairwise(theirs, rule, keeps_alone))
                }
                None if keeps_alone => result.insert_set(element, fields.clone()),
                None => {}
            }
        }
        result
    }

    /// Without the members of another set and all that is in them.
    pub(crate) fn without_subtrees(&self, other: &Self) -> Self {
        let mut result = Self {
            is_member: self.is_member && !other.is_member,
            children: BTreeMap::new(),
        };
        for (element, fields) in &self.children {
            match other.children.get(element) {
                Some(theirs) if theirs.is_member => {}
                Some(theirs) => result.insert_set(element, fields.without_subtrees(theirs)),
                None => result.insert_set(element, fields.clone()),
            }
        }
        result
    }

    /// The paths of the members, as in error messages.
    pub(crate) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect_paths("", &mut paths);
        paths
    }

    fn collect_paths(&self, path: &str, paths: &mut Vec<String>) {
        if self.is_member {
            paths.push(path.to_owned());
        }
        for (element, fields) in &self.children {
            fields.collect_paths(&format!("{path}{}", display_element(element)), paths);
        }
    }
}

impl Serialize for FieldSet {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if self.is_member && !self.children.is_empty() {
            map.serialize_entry(".", &Self::default())?;
        }
        for (element, fields) in &self.children {
            map.serialize_entry(element, fields)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for FieldSet {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FieldSetVisitor)
    }
}

/// Deserializes `FieldsV1`.
struct FieldSetVisitor;

impl<'de> Visitor<'de> for FieldSetVisitor {
    type Value = FieldSet;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a set of fields")
    }

    fn visit_unit<E>(self) -> Result<FieldSet, E> {
        Ok(FieldSet::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<FieldSet, A::Error> {
        let mut fields = FieldSet::default();
        while let Some(element) = map.next_key::<String>()? {
            if element == "." {
                map.next_value::<IgnoredAny>()?;
                fields.is_member = true;
                continue;
            }
            let mut inner: FieldSet = map.next_value()?;
            inner.is_member |= inner.children.is_empty();
            let element =
                canonical(element).ok_or_else(|| A::Error::custom("not a path element"))?;
            fields.children.insert(element, inner);
        }
        Ok(fields)
    }
}

/// The normalized form of a path element.
fn canonical(element: String) -> Option<String> {
    let (kind, rest) = element.split_once(':')?;
    match kind {
        "f" => Some(element),
        "k" | "v" => {
            let value: Value = serde_json::from_str(rest).ok()?;
            Some(format!("{kind}:{value}"))
        }
        "i" => rest.parse::<u64>().ok().map(|_| element),
        _ => None,
    }
}

/// A path element as in error messages: `.name`, `[name="a"]`, `[="x"]`.
pub(crate) fn display_element(element: &str) -> String {
    let (kind, rest) = element.split_once(':').unwrap_or(("f", element));
    match (kind, serde_json::from_str::<Value>(rest)) {
        ("k", Ok(Value::Object(keys))) => {
            let keys: Vec<String> = keys
                .iter()
                .map(|(name, value)| format!("{name}={value}"))
                .collect();
            format!("[{}]", keys.join(","))
        }
        ("v", Ok(value)) => format!("[={value}]"),
        ("i", _) => format!("[{rest}]"),
        _ => format!(".{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn set(value: Value) -> FieldSet {
        FieldSet::deserialize(value).expect("well-formed")
    }

    #[test]
    fn the_wire_form_comes_back_as_it_was() {
        let wire = json!({
            "f:metadata": {"f:labels": {".": {}, "f:a": {}}},
            "f:spec": {"f:ports": {"k:{\"port\":80,\"protocol\":\"TCP\"}": {".": {}, "f:port": {}}},
                       "f:tags": {"v:\"x\"": {}}},
        });
        let fields = set(wire.clone());
        assert_eq!(json!(fields), wire);
        assert_eq!(
            fields.paths(),
            [
                ".metadata.labels",
                ".metadata.labels.a",
                ".spec.ports[port=80,protocol=\"TCP\"]",
                ".spec.ports[port=80,protocol=\"TCP\"].port",
                ".spec.tags[=\"x\"]",
            ]
        );
        assert!(FieldSet::deserialize(json!({"x": {}})).is_err());
        assert!(FieldSet::deserialize(json!({"k:{": {}})).is_err());
    }

    #[test]
    fn sets_are_combined_place_by_place() {
        let one = set(json!({"f:a": {".": {}, "f:b": {}}, "f:c": {}}));
        let two = set(json!({"f:a": {"f:b": {}, "f:d": {}}}));
        assert_eq!(
            one.union(&two),
            set(json!({"f:a": {".": {}, "f:b": {}, "f:d": {}}, "f:c": {}}))
        );
        assert_eq!(one.intersection(&two), set(json!({"f:a": {"f:b": {}}})));
        assert_eq!(one.difference(&two), set(json!({"f:a": {}, "f:c": {}})));
        let mut rest = one.clone();
        rest.subtract(&two);
        assert_eq!(rest, one.difference(&two));
        let trees = set(json!({"f:a": {}}));
        assert_eq!(one.without_subtrees(&trees), set(json!({"f:c": {}})));
        assert_eq!(one.difference(&trees).paths(), [".a.b", ".c"]);
    }
}

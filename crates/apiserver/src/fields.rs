//! Sets of fields: which places of an object someone owns.
//!
//! A place is named by steps as `managedFields` writes them: `f:name` for a field, `k:{…}` for a
//! list item by its keys, `v:…` for a value of a set. A set is a tree of such steps, which is also
//! its form on the wire (`FieldsV1`).

use std::collections::BTreeMap;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, IgnoredAny, MapAccess, Visitor},
    ser::SerializeMap,
};
use serde_json::Value;

/// A set of fields.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Fields {
    /// Whether this place itself is in the set.
    pub(crate) is_member: bool,
    /// What lies below; never an empty set.
    pub(crate) below: BTreeMap<String, Fields>,
}

/// The step to a field.
pub(crate) fn field_step(name: &str) -> String {
    ["f:", name].concat()
}

impl Fields {
    /// The set of just these paths of field names.
    pub(crate) fn of(paths: &[&[&str]]) -> Self {
        let mut fields = Self::default();
        for path in paths {
            let mut place = &mut fields;
            for name in *path {
                place = place.below.entry(field_step(name)).or_default();
            }
            place.is_member = true;
        }
        fields
    }

    /// Whether the field of that name is in the set itself.
    pub(crate) fn has_field(&self, name: &str) -> bool {
        let mut below = self.below.iter();
        below.any(|(step, it)| it.is_member && step.strip_prefix("f:") == Some(name))
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.is_member && self.below.is_empty()
    }

    /// Whether the set that has this wire form may have anything in common with this one.
    pub(crate) fn may_meet(&self, wire: &str) -> bool {
        let is_escaped =
            |step: &str| step.contains(|it: char| it.is_control() || "\"\\".contains(it));
        let mut steps = self.below.keys();
        self.is_member || steps.any(|step| is_escaped(step) || wire.contains(step.as_str()))
    }

    /// Puts a set below a step; an empty one leaves no trace.
    pub(crate) fn put(&mut self, step: &str, fields: Self) {
        if !fields.is_empty() {
            self.below.insert(step.to_owned(), fields);
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
        for (step, fields) in &other.below {
            self.below.entry(step.clone()).or_default().add(fields);
        }
    }

    pub(crate) fn intersection(&self, other: &Self) -> Self {
        self.pairwise(other, |mine, theirs| mine && theirs, false)
    }

    pub(crate) fn difference(&self, other: &Self) -> Self {
        self.pairwise(other, |mine, theirs| mine && !theirs, true)
    }

    /// Takes away the members of another set.
    pub(crate) fn subtract(&mut self, other: &Self) {
        self.is_member &= !other.is_member;
        for (step, theirs) in &other.below {
            if let Some(mine) = self.below.get_mut(step) {
                mine.subtract(theirs);
                if mine.is_empty() {
                    self.below.remove(step);
                }
            }
        }
    }

    fn pairwise(&self, other: &Self, rule: fn(bool, bool) -> bool, keeps_alone: bool) -> Self {
        let mut result = Self {
            is_member: rule(self.is_member, other.is_member),
            below: BTreeMap::new(),
        };
        for (step, fields) in &self.below {
            match other.below.get(step) {
                Some(theirs) => result.put(step, fields.pairwise(theirs, rule, keeps_alone)),
                None if keeps_alone => result.put(step, fields.clone()),
                None => {}
            }
        }
        result
    }

    /// Without the members of another set and all that lies below them.
    pub(crate) fn without_trees(&self, other: &Self) -> Self {
        let mut result = Self {
            is_member: self.is_member && !other.is_member,
            below: BTreeMap::new(),
        };
        for (step, fields) in &self.below {
            match other.below.get(step) {
                Some(theirs) if theirs.is_member => {}
                Some(theirs) => result.put(step, fields.without_trees(theirs)),
                None => result.put(step, fields.clone()),
            }
        }
        result
    }

    /// The members, each as its path is told in messages.
    pub(crate) fn paths(&self) -> Vec<String> {
        let mut paths = Vec::new();
        self.collect_paths("", &mut paths);
        paths
    }

    fn collect_paths(&self, path: &str, paths: &mut Vec<String>) {
        if self.is_member {
            paths.push(path.to_owned());
        }
        for (step, fields) in &self.below {
            fields.collect_paths(&format!("{path}{}", told(step)), paths);
        }
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if self.is_member && !self.below.is_empty() {
            map.serialize_entry(".", &Self::default())?;
        }
        for (step, fields) in &self.below {
            map.serialize_entry(step, fields)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

/// Reads the wire form.
struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Fields;

    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("a set of fields")
    }

    fn visit_unit<E>(self) -> Result<Fields, E> {
        Ok(Fields::default())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
        let mut fields = Fields::default();
        while let Some(step) = map.next_key::<String>()? {
            if step == "." {
                map.next_value::<IgnoredAny>()?;
                fields.is_member = true;
                continue;
            }
            let mut inner: Fields = map.next_value()?;
            inner.is_member |= inner.below.is_empty();
            let step = canonical(step).ok_or_else(|| A::Error::custom("no step to a field"))?;
            fields.below.insert(step, inner);
        }
        Ok(fields)
    }
}

/// A step in the one spelling that is compared.
fn canonical(step: String) -> Option<String> {
    let (kind, rest) = step.split_once(':')?;
    match kind {
        "f" => Some(step),
        "k" | "v" => {
            let value: Value = serde_json::from_str(rest).ok()?;
            Some(format!("{kind}:{value}"))
        }
        "i" => rest.parse::<u64>().ok().map(|_| step),
        _ => None,
    }
}

/// A step as messages tell it: `.name`, `[name="a"]`, `[="x"]`.
pub(crate) fn told(step: &str) -> String {
    let (kind, rest) = step.split_once(':').unwrap_or(("f", step));
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

    fn set(value: Value) -> Fields {
        Fields::deserialize(value).expect("well-formed")
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
        assert!(Fields::deserialize(json!({"x": {}})).is_err());
        assert!(Fields::deserialize(json!({"k:{": {}})).is_err());
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
        assert_eq!(one.without_trees(&trees), set(json!({"f:c": {}})));
        assert_eq!(one.difference(&trees).paths(), [".a.b", ".c"]);
    }
}

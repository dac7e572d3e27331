//! Finds duplicate keys in JSON objects, which a parser into a map does not report.

use std::{collections::BTreeSet, fmt};

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

use serde_json::Value;

use super::FieldPath;

/// The paths of keys that occur more than once in their object; nothing if this is no JSON.
/// `value` is what it was parsed into.
pub(crate) fn duplicates(bytes: &[u8], value: &Value) -> Vec<String> {
    if count_text_keys(bytes) == count_value_keys(value) {
        return Vec::new();
    }
    let text = super::text(bytes);
    let text = super::without_lone_surrogates(&text);
    let mut found = Vec::new();
    let mut reader = serde_json::Deserializer::from_str(&text);
    let finder = DuplicateKeyFinder {
        path: &FieldPath::Root,
        found: &mut found,
    };
    // Invalid JSON is reported by the parser.
    let _ = finder.deserialize(&mut reader);
    found
}

/// The number of keys in a JSON text.
fn count_text_keys(bytes: &[u8]) -> usize {
    let (mut keys, mut is_string, mut is_escaped) = (0, false, false);
    for byte in bytes {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_string,
            b'"' => is_string = !is_string,
            b':' if !is_string => keys += 1,
            _ => {}
        }
    }
    keys
}

/// The number of keys in a value.
fn count_value_keys(value: &Value) -> usize {
    match value {
        Value::Object(map) => map.len() + map.values().map(count_value_keys).sum::<usize>(),
        Value::Array(list) => list.iter().map(count_value_keys).sum(),
        _ => 0,
    }
}

/// Reads a value at a path and collects its duplicate keys.
struct DuplicateKeyFinder<'a> {
    path: &'a FieldPath<'a>,
    found: &'a mut Vec<String>,
}

impl<'de> DeserializeSeed<'de> for DuplicateKeyFinder<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DuplicateKeyFinder<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("any JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            let path = FieldPath::Field(self.path, &key);
            if seen.contains(&key) {
                self.found.push(path.to_string());
            }
            map.next_value_seed(DuplicateKeyFinder {
                path: &path,
                found: self.found,
            })?;
            seen.insert(key);
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        for index in 0_usize.. {
            let item = DuplicateKeyFinder {
                path: &FieldPath::Item(self.path, index),
                found: self.found,
            };
            if list.next_element_seed(item)?.is_none() {
                break;
            }
        }
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::duplicates;

    #[test]
    fn keys_are_found_wherever_they_repeat() {
        let text =
            br#"{"a": {"b": 1, "b": 2}, "l": [{"x": null}, {"x": "1", "x": 1.5}], "a": true}"#;
        let found = |text: &[u8]| duplicates(text, &super::super::parse(text).unwrap_or_default());
        assert_eq!(found(text), ["a.b", "l[1].x", "a"]);
        assert_eq!(found(br#"{"a\":": ":\"", "b": 1, "\u0062": 2}"#), ["b"]);
        assert!(found(br#"{"a\":": ":\"", "b": {"b": ":"}}"#).is_empty());
        assert!(found(b"[{\"a\"").is_empty());
    }
}

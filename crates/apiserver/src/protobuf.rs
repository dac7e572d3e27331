//! Decodes protobuf bodies of built-in objects and reviews, which kubectl and other Go clients send.
//!
//! The field numbers come from the table of built-in types. Responses are always JSON. Unknown fields
//! and insignificant zero values are skipped.

use base64::{Engine, engine::general_purpose::STANDARD};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::types::{Field, MapType, ScalarType, Type};

/// The media type of this encoding.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

const MAGIC: &[u8] = b"k8s\0";

/// Decodes an object of this type; `None` if it is malformed.
pub(crate) fn decode(kind: &Type, bytes: &[u8]) -> Option<Value> {
    let mut envelope = bytes.strip_prefix(MAGIC)?;
    let mut object = Map::new();
    while !envelope.is_empty() {
        match take(&mut envelope)? {
            (1, Wire::Bytes(meta)) => name(meta, &mut object)?,
            (2, Wire::Bytes(raw)) => {
                let Type::Map(map) = kind.resolve() else {
                    return None;
                };
                message(map, &[], raw, &mut object)?;
            }
            _ => {}
        }
    }
    Some(object.into())
}

/// Reads the version and kind in the envelope.
fn name(mut bytes: &[u8], object: &mut Map<String, Value>) -> Option<()> {
    while !bytes.is_empty() {
        match take(&mut bytes)? {
            (1, Wire::Bytes(version)) => object.insert("apiVersion".to_owned(), text(version)?),
            (2, Wire::Bytes(kind)) => object.insert("kind".to_owned(), text(kind)?),
            _ => None,
        };
    }
    Some(())
}

/// Reads the fields of a message; `above` are the numbers of enclosing messages that JSON omits.
fn message(
    map: &MapType,
    above: &[u64],
    mut bytes: &[u8],
    object: &mut Map<String, Value>,
) -> Option<()> {
    while !bytes.is_empty() {
        let (number, wire) = take(&mut bytes)?;
        let number = [above, &[number]].concat();
        let found = map.fields.iter().find(|(_, it)| it.number == number);
        if let Some((name, field)) = found {
            read_field(name, field, &wire, object)?;
        } else if map.fields.values().any(|it| it.number.starts_with(&number))
            && let Wire::Bytes(inner) = wire
        {
            message(map, &number, inner, object)?;
        }
    }
    Some(())
}

fn read_field(
    name: &str,
    field: &Field,
    wire: &Wire<'_>,
    object: &mut Map<String, Value>,
) -> Option<()> {
    match field.kind.resolve() {
        Type::List(list) => {
            let items = object.entry(name).or_insert_with(|| json!([]));
            items.as_array_mut()?.push(value(&list.items, wire)?);
        }
        Type::Map(map) if map.fields.is_empty() => {
            let entries = object.entry(name).or_insert_with(|| json!({}));
            let (key, value) = entry(map, wire)?;
            entries.as_object_mut()?.insert(key, value);
        }
        kind => {
            let value = value(kind, wire)?;
            let is_zero = [json!(null), json!(""), json!(0), json!(false)].contains(&value);
            if !is_zero || field.can_be_zero || field.is_required {
                object.insert(name.to_owned(), value);
            }
        }
    }
    Some(())
}

/// One entry of a map: a message of a key and a value.
fn entry(map: &MapType, wire: &Wire<'_>) -> Option<(String, Value)> {
    let mut bytes = wire.bytes()?;
    let kind = map.others.as_ref()?;
    let mut key = String::new();
    let mut found = match kind {
        Type::Scalar(ScalarType::Text | ScalarType::Bytes) => json!(""),
        _ => Value::Null,
    };
    while !bytes.is_empty() {
        match take(&mut bytes)? {
            (1, Wire::Bytes(text)) => std::str::from_utf8(text).ok()?.clone_into(&mut key),
            (2, wire) => found = value(kind, &wire)?,
            _ => {}
        }
    }
    Some((key, found))
}

/// Reads one value; null if there is none.
fn value(kind: &Type, wire: &Wire<'_>) -> Option<Value> {
    Some(match (kind.resolve(), wire) {
        (Type::Scalar(ScalarType::Text), Wire::Bytes(bytes)) => text(bytes)?,
        (Type::Scalar(ScalarType::Bytes), Wire::Bytes(bytes)) => json!(STANDARD.encode(bytes)),
        (Type::Scalar(ScalarType::Bool), Wire::Number(number)) => json!(*number != 0),
        (Type::Scalar(ScalarType::Int32 | ScalarType::Int64), Wire::Number(number)) => {
            json!(number.cast_signed())
        }
        (Type::Scalar(ScalarType::Number), Wire::Fixed(bits)) => json!(f64::from_bits(*bits)),
        (Type::Scalar(ScalarType::Time), Wire::Bytes(bytes)) => time(bytes)?,
        (Type::Scalar(ScalarType::Quantity), Wire::Bytes(bytes)) => {
            text(parts(bytes)?.bytes[1].unwrap_or_default())?
        }
        (Type::Scalar(ScalarType::IntOrText), Wire::Bytes(bytes)) => {
            let parts = parts(bytes)?;
            match parts.numbers[1] {
                0 => json!(parts.numbers[2].cast_signed()),
                _ => text(parts.bytes[3].unwrap_or_default())?,
            }
        }
        // Opaque values are embedded as JSON.
        (Type::Any { .. }, Wire::Bytes(bytes)) => match parts(bytes)?.bytes[1] {
            Some(raw) => serde_json::from_slice(raw).ok()?,
            None => Value::Null,
        },
        (Type::Map(map), Wire::Bytes(bytes)) => {
            let mut object = Map::new();
            message(map, &[], bytes, &mut object)?;
            object.into()
        }
        _ => return None,
    })
}

fn text(bytes: &[u8]) -> Option<Value> {
    Some(json!(std::str::from_utf8(bytes).ok()?))
}

/// A timestamp as in JSON; null for none.
fn time(bytes: &[u8]) -> Option<Value> {
    let numbers = parts(bytes)?.numbers;
    if bytes.is_empty() {
        return Some(Value::Null);
    }
    let nanoseconds = i32::try_from(numbers[2]).ok()?;
    let time = Timestamp::new(numbers[1].cast_signed(), nanoseconds).ok()?;
    Some(json!(match nanoseconds {
        0 => format!("{time:.0}"),
        _ => format!("{time:.6}"),
    }))
}

/// The first fields of a small message, by number.
#[derive(Default)]
struct Parts<'a> {
    numbers: [u64; 4],
    bytes: [Option<&'a [u8]>; 4],
}

fn parts(mut bytes: &[u8]) -> Option<Parts<'_>> {
    let mut parts = Parts::default();
    while !bytes.is_empty() {
        let (number, wire) = take(&mut bytes)?;
        let at = usize::try_from(number).ok().filter(|at| *at < 4);
        match (at, wire) {
            (Some(at), Wire::Number(number)) => parts.numbers[at] = number,
            (Some(at), Wire::Bytes(bytes)) => parts.bytes[at] = Some(bytes),
            _ => {}
        }
    }
    Some(parts)
}

/// The wire value of a field.
enum Wire<'a> {
    Number(u64),
    Fixed(u64),
    Bytes(&'a [u8]),
}

impl<'a> Wire<'a> {
    fn bytes(&self) -> Option<&'a [u8]> {
        match self {
            Self::Bytes(bytes) => Some(bytes),
            _ => None,
        }
    }
}

fn take<'a>(bytes: &mut &'a [u8]) -> Option<(u64, Wire<'a>)> {
    let tag = number(bytes)?;
    let wire = match tag & 7 {
        0 => Wire::Number(number(bytes)?),
        1 => {
            let (fixed, rest) = bytes.split_first_chunk()?;
            *bytes = rest;
            Wire::Fixed(u64::from_le_bytes(*fixed))
        }
        2 => {
            let length = usize::try_from(number(bytes)?).ok()?;
            let (field, rest) = bytes.split_at_checked(length)?;
            *bytes = rest;
            Wire::Bytes(field)
        }
        _ => return None,
    };
    Some((tag >> 3, wire))
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field of bytes.
    fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
        let mut field = vec![number << 3 | 2, u8::try_from(bytes.len()).expect("short")];
        field.extend_from_slice(bytes);
        field
    }

    fn envelope(version: &str, kind: &str, object: &[u8]) -> Vec<u8> {
        let meta = [field(1, version.as_bytes()), field(2, kind.as_bytes())].concat();
        [b"k8s\0".to_vec(), field(1, &meta), field(2, object)].concat()
    }

    fn check(version: &str, kind: &str, object: &[u8], expected: &Value) {
        let bytes = envelope(version, kind, object);
        let read = decode(&Type::named(kind), &bytes).expect("well formed");
        assert_eq!(read, *expected);
        for length in 0..bytes.len() {
            let _ = decode(&Type::named(kind), &bytes[..length]);
        }
    }

    #[test]
    fn a_question_is_read() {
        let asked = [field(2, b"get"), field(5, b"pods"), field(7, b"")].concat();
        let spec = field(2, &field(1, &asked));
        let version = "authorization.k8s.io/v1";
        let expected = json!({
            "apiVersion": version, "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
        });
        check(version, "SelfSubjectAccessReview", &spec, &expected);
    }

    #[test]
    fn maps_bytes_times_and_zeros_are_read() {
        let metadata = [field(1, b"a"), field(3, b""), field(8, &[8, 60])].concat();
        let entry = [field(1, b"key"), field(2, b"value")].concat();
        let object = [field(1, &metadata), field(2, &entry), vec![4 << 3, 0]].concat();
        let expected = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "immutable": false, "data": {"key": "value"},
            "metadata": {"name": "a", "creationTimestamp": "1970-01-01T00:01:00Z"},
        });
        check("v1", "ConfigMap", &object, &expected);
        let expected = json!({"apiVersion": "v1", "kind": "Secret", "data": {"key": "dmFsdWU="}});
        check("v1", "Secret", &field(2, &entry), &expected);
    }

    #[test]
    fn levels_that_json_leaves_out_are_left_out() {
        let empty = field(2, &field(2, &[]));
        let volume = [field(1, b"scratch"), empty].concat();
        let expected = json!({
            "apiVersion": "v1", "kind": "PodSpec", "volumes": [{"name": "scratch", "emptyDir": {}}],
        });
        check("v1", "PodSpec", &field(1, &volume), &expected);
    }
}

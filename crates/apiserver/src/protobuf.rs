//! Reviews in Kubernetes' binary encoding, which kubectl sends whatever it is told.
//!
//! Only the questions of `reviews` can be read, and only their specs; what is answered is JSON, which
//! every client takes. All else in this encoding is refused as an unknown format.

use serde_json::{Map, Value, json};

/// The media type of this encoding.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";

const MAGIC: &[u8] = b"k8s\0";

/// How one field of a message is read.
enum Shape {
    Text,
    Texts,
    Number,
    Message(Fields),
}

/// Number, name and shape of each field that is read.
type Fields = &'static [(u64, &'static str, Shape)];

use Shape::{Message, Number, Text, Texts};

const RESOURCE: Fields = &[
    (1, "namespace", Text),
    (2, "verb", Text),
    (3, "group", Text),
    (4, "version", Text),
    (5, "resource", Text),
    (6, "subresource", Text),
    (7, "name", Text),
];
const PATH: Fields = &[(1, "path", Text), (2, "verb", Text)];
const ACCESS: Fields = &[
    (1, "resourceAttributes", Message(RESOURCE)),
    (2, "nonResourceAttributes", Message(PATH)),
    (3, "user", Text),
    (4, "groups", Texts),
    (6, "uid", Text),
];
const TOKEN: Fields = &[
    (1, "audiences", Texts),
    (3, "boundObjectRef", Message(&[])),
    (4, "expirationSeconds", Number),
];

/// The fields of the object that a request with this kind of body holds.
fn fields_of(kind: &str) -> Option<Fields> {
    Some(match kind {
        "SelfSubjectAccessReview" | "SubjectAccessReview" => &[(2, "spec", Message(ACCESS))],
        "SelfSubjectRulesReview" => &[(2, "spec", Message(&[(1, "namespace", Text)]))],
        "TokenReview" => &[(
            2,
            "spec",
            Message(&[(1, "token", Text), (2, "audiences", Texts)]),
        )],
        "TokenRequest" => &[(2, "spec", Message(TOKEN))],
        "SelfSubjectReview" => &[],
        _ => return None,
    })
}

/// Reads a question of this kind; nothing if it is none.
pub(crate) fn decode(kind: &str, bytes: &[u8]) -> Option<Value> {
    let fields = fields_of(kind)?;
    let mut envelope = bytes.strip_prefix(MAGIC)?;
    let mut object = Map::new();
    while !envelope.is_empty() {
        // The second field of the envelope is the object; the first says what the path says too.
        if let (2, Field::Bytes(raw)) = take(&mut envelope)? {
            object = message(fields, raw)?;
        }
    }
    Some(object.into())
}

fn message(fields: Fields, mut bytes: &[u8]) -> Option<Map<String, Value>> {
    let mut object = Map::new();
    while !bytes.is_empty() {
        let (number, field) = take(&mut bytes)?;
        let Some((_, name, shape)) = fields.iter().find(|(known, ..)| *known == number) else {
            continue;
        };
        let text = |bytes: &[u8]| Some(json!(std::str::from_utf8(bytes).ok()?));
        match (shape, field) {
            (Text, Field::Bytes(bytes)) => {
                object.insert((*name).to_owned(), text(bytes)?);
            }
            (Texts, Field::Bytes(bytes)) => {
                let list = object.entry(*name).or_insert_with(|| json!([]));
                list.as_array_mut()?.push(text(bytes)?);
            }
            (Number, Field::Number(number)) => {
                object.insert((*name).to_owned(), json!(number.cast_signed()));
            }
            (Message(fields), Field::Bytes(bytes)) => {
                object.insert((*name).to_owned(), message(fields, bytes)?.into());
            }
            _ => return None,
        }
    }
    Some(object)
}

/// A field as it is on the wire.
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

fn take<'a>(bytes: &mut &'a [u8]) -> Option<(u64, Field<'a>)> {
    let tag = number(bytes)?;
    let field = match tag & 7 {
        0 => Field::Number(number(bytes)?),
        2 => {
            let length = usize::try_from(number(bytes)?).ok()?;
            let (field, rest) = bytes.split_at_checked(length)?;
            *bytes = rest;
            Field::Bytes(field)
        }
        _ => return None,
    };
    Some((tag >> 3, field))
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

    #[test]
    fn a_question_is_read() {
        let spec = b"\x0a\x0d\x12\x03get\x2a\x04pods\x3a\x00";
        let mut object = vec![0x12, u8::try_from(spec.len()).expect("short")];
        object.extend_from_slice(spec);
        let mut bytes = b"k8s\0\x0a\x04\x0a\x02v1\x12".to_vec();
        bytes.push(u8::try_from(object.len()).expect("short"));
        bytes.extend_from_slice(&object);
        let read = decode("SelfSubjectAccessReview", &bytes).expect("well formed");
        let asked = json!({"verb": "get", "resource": "pods", "name": ""});
        assert_eq!(read, json!({"spec": {"resourceAttributes": asked}}));
        for length in 0..bytes.len() {
            let _ = decode("SelfSubjectAccessReview", &bytes[..length]);
        }
    }
}

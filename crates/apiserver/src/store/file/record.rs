//! The binary format of the records in a log file.
//!
//! A record is `mark (4) | length (4) | checksum (4) | body`, with little-endian numbers. The
//! checksum covers length and body, so a broken record is detected; the mark makes it possible to
//! find the next record after it. A body is `kind (1) | revision (8) | schema fingerprint (8) | start
//! and end of managedFields in the object (4, 4) | length of resource (2) | length of path (2) |
//! resource | path | object as JSON`.

use bytes::Bytes;

use super::super::{StoreEvent, StoreKey, StoreRevision, StoredObject, object::ByteRange};

/// The start of every log file.
pub(super) const HEADER: &[u8; 16] = b"sluice store 2\n\0";

const MARK: [u8; 4] = [0xf5, b'r', b'e', b'c'];
const FRAME: usize = 12;
const FIXED: usize = 29;
/// No body is longer: bodies of requests have a much lower limit.
const BODY_LIMIT: usize = 64 * 1024 * 1024;

/// The meaning of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum RecordKind {
    /// An object as it was at the revision where the file begins.
    Object = 1,
    /// The end of the objects; events after this revision follow.
    Base = 2,
    /// An object was created or changed.
    Put = 3,
    /// An object was removed.
    Removal = 4,
    /// The file was closed cleanly after this revision.
    Closed = 5,
}

impl RecordKind {
    fn of(byte: u8) -> Option<Self> {
        [
            Self::Object,
            Self::Base,
            Self::Put,
            Self::Removal,
            Self::Closed,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == byte)
    }
}

/// One record.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) kind: RecordKind,
    pub(super) revision: StoreRevision,
    pub(super) key: StoreKey,
    /// Only for [`RecordKind::Object`] and [`RecordKind::Put`].
    pub(super) object: Option<StoredObject>,
}

/// Appends the record of an event to `bytes`.
pub(super) fn encode_event(bytes: &mut Vec<u8>, event: &StoreEvent) -> Result<(), String> {
    let kind = event
        .object
        .as_ref()
        .map_or(RecordKind::Removal, |_| RecordKind::Put);
    let entry = Some((&event.key, event.object.as_deref()));
    encode(bytes, kind, event.revision, entry)
}

/// Appends a record to `bytes`.
pub(super) fn encode(
    bytes: &mut Vec<u8>,
    kind: RecordKind,
    revision: StoreRevision,
    entry: Option<(&StoreKey, Option<&StoredObject>)>,
) -> Result<(), String> {
    let start = bytes.len();
    bytes.extend_from_slice(&MARK);
    bytes.extend_from_slice(&[0; 8]);
    bytes.push(kind as u8);
    bytes.extend_from_slice(&revision.to_le_bytes());
    let object = entry.and_then(|(_, object)| object);
    let managed_fields = object
        .map(StoredObject::managed_fields_range)
        .unwrap_or_default();
    bytes.extend_from_slice(
        &object
            .map_or(0, StoredObject::schema_fingerprint)
            .to_le_bytes(),
    );
    bytes.extend_from_slice(&managed_fields.start.to_le_bytes());
    bytes.extend_from_slice(&managed_fields.end.to_le_bytes());
    let (resource, path) = entry.map_or(("", ""), |(key, _)| (&*key.resource, key.path.as_str()));
    for name in [resource, path] {
        let length = u16::try_from(name.len()).map_err(|_| "a name is too long".to_owned())?;
        bytes.extend_from_slice(&length.to_le_bytes());
    }
    bytes.extend_from_slice(resource.as_bytes());
    bytes.extend_from_slice(path.as_bytes());
    if let Some(object) = object {
        bytes.extend_from_slice(object.wire());
    }
    let body = bytes.len() - start - FRAME;
    if body > BODY_LIMIT {
        bytes.truncate(start);
        return Err("the object is too large".to_owned());
    }
    let length = u32::try_from(body)
        .expect("shorter than the longest")
        .to_le_bytes();
    bytes[start + 4..start + 8].copy_from_slice(&length);
    let sum = checksum(&[&length, &bytes[start + FRAME..]]);
    bytes[start + 8..start + FRAME].copy_from_slice(&sum.to_le_bytes());
    Ok(())
}

/// The record at the start of `bytes` and its length, if it is complete.
pub(super) fn decode(bytes: &[u8]) -> Option<(Record, usize)> {
    let length_bytes = bytes.get(4..8)?;
    if bytes[..4] != MARK {
        return None;
    }
    let length = number(length_bytes);
    let body = bytes.get(FRAME..FRAME.checked_add(length)?)?;
    let sum = checksum(&[length_bytes, body]);
    if !(FIXED..=BODY_LIMIT).contains(&length) || bytes[8..FRAME] != sum.to_le_bytes() {
        return None;
    }
    let (fixed, rest) = body.split_at(FIXED);
    let resource_end = number(&fixed[25..27]);
    let path_end = resource_end + number(&fixed[27..29]);
    let text = |from: usize, to: usize| std::str::from_utf8(rest.get(from..to)?).ok();
    let kind = RecordKind::of(fixed[0])?;
    let record = Record {
        kind,
        revision: long(&fixed[1..9])?,
        key: StoreKey {
            resource: text(0, resource_end)?.into(),
            path: text(resource_end, path_end)?.to_owned(),
        },
        object: match kind {
            RecordKind::Object | RecordKind::Put => Some(object(fixed, rest.get(path_end..)?)?),
            _ => None,
        },
    };
    Some((record, FRAME + length))
}

fn object(fixed: &[u8], wire: &[u8]) -> Option<StoredObject> {
    let short = |at: usize| u32::try_from(number(&fixed[at..at + 4])).ok();
    let managed_fields = ByteRange {
        start: short(17)?,
        end: short(21)?,
    };
    let wire = Bytes::copy_from_slice(wire);
    StoredObject::restored(
        wire,
        managed_fields,
        long(&fixed[9..17])?,
        long(&fixed[1..9])?,
    )
}

fn long(bytes: &[u8]) -> Option<u64> {
    bytes.try_into().ok().map(u64::from_le_bytes)
}

/// The length of the record that starts with these bytes, as far as it is known from them.
pub(super) fn expected_length(bytes: &[u8]) -> usize {
    match bytes.get(4..8) {
        Some(length) if bytes[..4] == MARK => FRAME + number(length).min(BODY_LIMIT),
        _ => FRAME,
    }
}

/// Whether a complete record starts anywhere in `bytes`.
pub(super) fn contains_record(bytes: &[u8]) -> bool {
    let mut starts = bytes.windows(MARK.len()).enumerate();
    starts.any(|(at, window)| window == MARK && decode(&bytes[at..]).is_some())
}

fn number(bytes: &[u8]) -> usize {
    bytes
        .iter()
        .rev()
        .fold(0, |number, byte| number << 8 | usize::from(*byte))
}

/// CRC-32C of the concatenated parts, eight bytes at a time for speed.
fn checksum(parts: &[&[u8]]) -> u32 {
    let mut sum = !0_u32;
    let look_up = |table: usize, byte: u8| TABLES[table][usize::from(byte)];
    for part in parts {
        let (chunks, rest) = part.as_chunks::<8>();
        for chunk in chunks {
            let start = sum.to_le_bytes();
            sum = 0;
            for (at, byte) in chunk.iter().enumerate() {
                sum ^= look_up(7 - at, byte ^ start.get(at).copied().unwrap_or(0));
            }
        }
        for byte in rest {
            sum = look_up(0, sum.to_le_bytes()[0] ^ byte) ^ (sum >> 8);
        }
    }
    !sum
}

/// The lookup tables of the checksum: `TABLES[n]` is for a byte that `n` bytes follow.
static TABLES: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut sum = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            sum = if sum & 1 == 1 {
                (sum >> 1) ^ 0x82f6_3b78
            } else {
                sum >> 1
            };
            bit += 1;
        }
        tables[0][byte] = sum;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = tables[0][before as usize & 0xff] ^ (before >> 8);
            byte += 1;
        }
        table += 1;
    }
    tables
};

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn record() -> Vec<u8> {
        let key = StoreKey {
            resource: "g/things".into(),
            path: "a/b".into(),
        };
        let mut bytes = Vec::new();
        encode(
            &mut bytes,
            RecordKind::Put,
            7,
            Some((&key, Some(&StoredObject::new(json!({"x": 1}).into(), 7)))),
        )
        .expect("small");
        bytes
    }

    #[test]
    fn a_record_can_be_decoded() {
        let bytes = record();
        let (record, length) = decode(&bytes).expect("whole");
        assert_eq!(length, bytes.len());
        assert_eq!(expected_length(&bytes), bytes.len());
        assert_eq!((record.kind, record.revision), (RecordKind::Put, 7));
        assert_eq!(
            (&*record.key.resource, record.key.path.as_str()),
            ("g/things", "a/b")
        );
        let object = record.object.expect("an object");
        let expected = json!({"x": 1, "metadata": {"resourceVersion": "7"}});
        assert_eq!((&*object.value(), object.revision()), (&expected, 7));
    }

    #[test]
    fn every_changed_or_missing_byte_is_detected() {
        let bytes = record();
        for at in 0..bytes.len() {
            assert!(decode(&bytes[..at]).is_none());
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                assert!(decode(&flipped).is_none(), "byte {at}, bit {bit}");
            }
        }
    }

    #[test]
    fn the_checksum_is_the_known_one() {
        assert_eq!(checksum(&[b"1234", b"56789"]), 0xe306_9283);
        assert_eq!(checksum(&[b"123456789"]), 0xe306_9283);
        assert_eq!(checksum(&[&[0; 32]]), 0x8a91_36aa);
    }
}

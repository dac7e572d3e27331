//! Object metadata: set on create, protected on update, and validated.

mod validation;

use serde_json::{Map, Value, json};

pub(crate) use validation::{validate, validate_update};

use crate::{
    resource::Resource,
    schema::FieldError,
    status::{ApiError, Result},
    store::StoredObject,
};

/// The characters of generated suffixes, without vowels.
const SUFFIX_LETTERS: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;
const GENERATED_BASE_LIMIT: usize = 63 - SUFFIX_LENGTH;

/// Set by the server when an object is created; an update cannot change them.
const KEPT_ON_UPDATE: &[&str] = &[
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
];

/// A text at a path such as `/metadata/name`, empty if there is none.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    // Like `Value::pointer`, which copies every segment.
    let mut steps = pointer.split('/').skip(1);
    let found = steps.try_fold(object, |value, step| value.get(step));
    found.and_then(Value::as_str).unwrap_or_default()
}

/// The object's name.
pub(crate) fn name_of(object: &Value) -> &str {
    text(object, "/metadata/name")
}

/// The object's namespace, if it has one.
pub(crate) fn namespace_of(object: &Value) -> Option<&str> {
    Some(text(object, "/metadata/namespace")).filter(|namespace| !namespace.is_empty())
}

/// The object's revision; 0 for one that was never stored.
pub(crate) fn revision_of(object: &Value) -> u64 {
    text(object, "/metadata/resourceVersion")
        .parse()
        .unwrap_or_default()
}

/// Whether the object is being deleted.
pub(crate) fn is_deleting(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}

/// Whether a stored object is being deleted; most are not and need not be parsed.
pub(crate) fn is_stored_deleting(stored: &StoredObject) -> bool {
    stored.contains("\"deletionTimestamp\"") && is_deleting(&stored.value())
}

/// The finalizers of an object.
pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    let list = object["metadata"]["finalizers"].as_array();
    list.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// The fields of metadata and their types.
const FIELDS: &[(&str, &str)] = &[
    ("annotations", "map"),
    ("creationTimestamp", "string"),
    ("deletionGracePeriodSeconds", "int64"),
    ("deletionTimestamp", "string"),
    ("finalizers", "list"),
    ("generateName", "string"),
    ("generation", "int64"),
    ("labels", "map"),
    ("managedFields", "objects"),
    ("name", "string"),
    ("namespace", "string"),
    ("ownerReferences", "objects"),
    ("resourceVersion", "string"),
    ("selfLink", "string"),
    ("uid", "string"),
];

/// Refuses metadata with fields of wrong types.
pub(crate) fn check_types(resource: &Resource, object: &Value) -> Result<()> {
    let metadata = match object.get("metadata") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Object(metadata)) => metadata,
        Some(other) => return Err(undecodable(resource, other, "metadata", "ObjectMeta")),
    };
    for field in ["creationTimestamp", "deletionTimestamp"] {
        let time = metadata.get(field).and_then(Value::as_str);
        let time = time.unwrap_or_default();
        if !time.is_empty() && time.parse::<jiff::Timestamp>().is_err() {
            return Err(ApiError::bad_request(format!(
                "{kind} in version {version:?} cannot be handled as a {kind}: parsing time {time:?}",
                kind = resource.kind,
                version = resource.version,
            )));
        }
    }
    for (field, kind) in FIELDS {
        if let Some(value) = metadata.get(*field)
            && let Some((found, expected)) = misfit(value, kind)
        {
            return Err(undecodable(
                resource,
                found,
                &format!("ObjectMeta.{field}"),
                expected,
            ));
        }
    }
    Ok(())
}

/// The value of a wrong type, and the expected Go type.
fn misfit<'a>(value: &'a Value, kind: &str) -> Option<(&'a Value, &'static str)> {
    let not = |value: &'a Value, fits: bool, expected| {
        (!fits && !value.is_null()).then_some((value, expected))
    };
    match (kind, value) {
        ("string", _) => not(value, value.is_string(), "string"),
        ("int64", _) => not(value, value.is_i64(), "int64"),
        ("map", Value::Object(map)) => map
            .values()
            .find_map(|value| not(value, value.is_string(), "string")),
        ("list", Value::Array(list)) => list
            .iter()
            .find_map(|value| not(value, value.is_string(), "string")),
        ("objects", Value::Array(list)) => list
            .iter()
            .find_map(|value| not(value, value.is_object(), "v1.OwnerReference")),
        ("map", _) => not(value, false, "map[string]string"),
        _ => not(value, false, "[]string"),
    }
}

/// The JSON type of a value.
pub(crate) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The error of a field with a wrong type.
pub(crate) fn undecodable(
    resource: &Resource,
    found: &Value,
    field: &str,
    expected: &str,
) -> ApiError {
    let found = type_name(found);
    ApiError::bad_request(format!(
        "{kind} in version {version:?} cannot be handled as a {kind}: json: cannot unmarshal {found} into Go struct field {field} of type {expected}",
        kind = resource.kind,
        version = resource.version,
    ))
}

/// The metadata of a checked object, created if missing; nulls are dropped.
pub(crate) fn fields(object: &mut Value) -> &mut Map<String, Value> {
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    let metadata = object["metadata"]
        .as_object_mut()
        .expect("made an object above");
    metadata.retain(|_, value| !value.is_null());
    metadata
}

/// Drops unknown and empty fields, and returns the paths of unknown ones.
pub(crate) fn prune(object: &mut Value) -> Vec<String> {
    let mut dropped = Vec::new();
    fields(object).retain(|field, value| {
        // An empty list of managedFields has a meaning, unlike other empty lists.
        if field != "managedFields" && (*value == json!({}) || *value == json!([])) {
            return false;
        }
        let is_known = FIELDS.iter().any(|(known, _)| known == field);
        if !is_known {
            dropped.push(format!("metadata.{field}"));
        }
        is_known
    });
    dropped
}

/// The fields that the server sets on a new object.
pub(crate) struct CreationFields {
    pub(crate) uid: String,
    pub(crate) now: String,
    /// Selects the characters of a generated name.
    pub(crate) random: u64,
}

/// Sets the metadata of a new object.
pub(crate) fn prepare_new(resource: &Resource, object: &mut Value, creation: &CreationFields) {
    let metadata = fields(object);
    for field in KEPT_ON_UPDATE
        .iter()
        .chain(&["resourceVersion", "selfLink"])
    {
        metadata.remove(*field);
    }
    for empty in ["name", "generateName"] {
        if metadata.get(empty) == Some(&json!("")) {
            metadata.remove(empty);
        }
    }
    if let (None, Some(Value::String(base))) = (metadata.get("name"), metadata.get("generateName"))
    {
        metadata.insert("name".into(), json!(generated_name(base, creation.random)));
    }
    metadata.insert("uid".into(), json!(creation.uid));
    metadata.insert("creationTimestamp".into(), json!(creation.now));
    if resource.has_generation {
        metadata.insert("generation".into(), json!(1));
    }
}

fn generated_name(base: &str, mut random: u64) -> String {
    let mut end = base.len().min(GENERATED_BASE_LIMIT);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    let mut name = base[..end].to_owned();
    for _ in 0..SUFFIX_LENGTH {
        let letters = SUFFIX_LETTERS.len() as u64;
        let index = usize::try_from(random % letters).unwrap_or_default();
        name.push(char::from(SUFFIX_LETTERS[index]));
        random /= letters;
    }
    name
}

/// The errors of a change to fields that only the server may set.
pub(crate) fn validate_immutable_fields(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for field in ["uid", "deletionTimestamp"] {
        let pointer = format!("/metadata/{field}");
        let (new, old) = (text(new, &pointer), text(old, &pointer));
        if !new.is_empty() && new != old {
            let field = format!("metadata.{field}");
            errors.push(FieldError::invalid(
                &field,
                &json!(new),
                "field is immutable",
            ));
        }
    }
    errors
}

/// Restores the fields that only the server may set.
pub(crate) fn keep_server_fields(new: &mut Value, old: &Value) {
    let metadata = fields(new);
    for field in KEPT_ON_UPDATE {
        match old["metadata"].get(*field) {
            Some(value) => metadata.insert((*field).into(), value.clone()),
            None => metadata.remove(*field),
        };
    }
    metadata.remove("selfLink");
}

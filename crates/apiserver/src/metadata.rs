//! The metadata every object carries: filled in on create, guarded on update, validated always.

use serde_json::{Map, Value, json};

use crate::{
    name,
    resource::Resource,
    schema::FieldError,
    status::{ApiError, Result},
};

const ANNOTATIONS_LIMIT: usize = 256 * 1024;
/// What a generated suffix is made of: no vowels, so no words.
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
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
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

/// Whether deletion was asked for.
pub(crate) fn is_deleting(object: &Value) -> bool {
    !text(object, "/metadata/deletionTimestamp").is_empty()
}

/// The finalizers that keep an object from going away.
pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    let list = object
        .pointer("/metadata/finalizers")
        .and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect()
}

/// The known fields of metadata and the Go types a real server names when they do not fit.
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

/// Refuses metadata whose fields have the wrong types: everything after trusts them.
pub(crate) fn check_types(resource: &Resource, object: &Value) -> Result<()> {
    let metadata = match object.get("metadata") {
        None | Some(Value::Null) => return Ok(()),
        Some(Value::Object(metadata)) => metadata,
        Some(other) => return Err(undecodable(resource, other, "metadata", "ObjectMeta")),
    };
    for field in ["creationTimestamp", "deletionTimestamp"] {
        let time = text(object, &format!("/metadata/{field}"));
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

/// The value that does not fit, and what was expected of it.
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

/// What JSON calls a value's type.
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

/// Something that does not decode into the kind.
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

/// The metadata of a checked object, made if missing; nulls are dropped.
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

/// Drops fields that metadata does not have, and gives their paths. What is empty goes as well.
pub(crate) fn prune(object: &mut Value) -> Vec<String> {
    let mut dropped = Vec::new();
    fields(object).retain(|field, value| {
        // An empty list of owners of fields means something, unlike other empty ones.
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

/// What the server decides about a new object.
pub(crate) struct Birth {
    pub(crate) uid: String,
    pub(crate) now: String,
    /// Chooses the letters of a generated name.
    pub(crate) random: u64,
}

/// Fills in the metadata of a new object.
pub(crate) fn prepare_new(resource: &Resource, object: &mut Value, birth: &Birth) {
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
        metadata.insert("name".into(), json!(generated_name(base, birth.random)));
    }
    metadata.insert("uid".into(), json!(birth.uid));
    metadata.insert("creationTimestamp".into(), json!(birth.now));
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

/// What a change tries to set although only the server may.
pub(crate) fn immutable_faults(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut faults = Vec::new();
    for field in ["uid", "deletionTimestamp"] {
        let pointer = format!("/metadata/{field}");
        let (wanted, kept) = (text(new, &pointer), text(old, &pointer));
        if !wanted.is_empty() && wanted != kept {
            let field = format!("metadata.{field}");
            faults.push(FieldError::invalid(
                &field,
                &json!(wanted),
                "field is immutable",
            ));
        }
    }
    faults
}

/// Restores on an update what only the server may set.
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

/// Everything wrong with an object's metadata.
pub(crate) fn faults(resource: &Resource, object: &Value) -> Vec<FieldError> {
    let metadata = &object["metadata"];
    let mut faults = Vec::new();
    let base = text(object, "/metadata/generateName");
    // The suffix comes after the base, so a base may end in a dash.
    for fault in resource
        .names
        .faults(&base.replace('-', "a"))
        .iter()
        .filter(|_| !base.is_empty())
    {
        faults.push(FieldError::invalid(
            "metadata.generateName",
            &json!(base),
            fault,
        ));
    }
    match name_of(object) {
        "" => faults.push(FieldError::required(
            "metadata.name",
            "name or generateName is required",
        )),
        name => {
            for fault in resource.names.faults(name) {
                faults.push(FieldError::invalid("metadata.name", &json!(name), &fault));
            }
        }
    }
    for (key, value) in entries(&metadata["labels"]) {
        for fault in name::qualified(key) {
            faults.push(FieldError::invalid("metadata.labels", &json!(key), &fault));
        }
        for fault in name::label_value(value) {
            faults.push(FieldError::invalid(
                "metadata.labels",
                &json!(value),
                &fault,
            ));
        }
    }
    let mut size = 0;
    for (key, value) in entries(&metadata["annotations"]) {
        size += key.len() + value.len();
        for fault in name::qualified(&key.to_lowercase()) {
            faults.push(FieldError::invalid(
                "metadata.annotations",
                &json!(key),
                &fault,
            ));
        }
    }
    if size > ANNOTATIONS_LIMIT {
        faults.push(FieldError {
            reason: "FieldValueTooLong",
            field: "metadata.annotations".into(),
            message: format!("Too long: may not be more than {ANNOTATIONS_LIMIT} bytes"),
        });
    }
    for (index, finalizer) in finalizers(object).into_iter().enumerate() {
        for fault in name::qualified(finalizer) {
            faults.push(FieldError::invalid(
                "metadata.finalizers",
                &json!(finalizer),
                &fault,
            ));
        }
        if resource.schema.is_none() && !finalizer.contains('/') && !is_standard(finalizer) {
            let field = format!("metadata.finalizers[{index}]");
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            faults.push(FieldError::invalid(&field, &json!(finalizer), why));
        }
    }
    faults.extend(owner_faults(&metadata["ownerReferences"]));
    faults
}

fn is_standard(finalizer: &str) -> bool {
    matches!(finalizer, "kubernetes" | "orphan" | "foregroundDeletion")
        || finalizer == crate::builtin::CLEANUP_FINALIZER
}

fn entries(map: &Value) -> impl Iterator<Item = (&str, &str)> {
    let map = map.as_object().into_iter().flatten();
    map.map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

fn owner_faults(owners: &Value) -> Vec<FieldError> {
    const FIELD: &str = "metadata.ownerReferences";
    let mut faults = Vec::new();
    let mut controller: Option<String> = None;
    for owner in owners.as_array().into_iter().flatten() {
        for field in ["apiVersion", "kind", "name", "uid"] {
            if text(owner, &format!("/{field}")).is_empty() {
                let what = if field == "apiVersion" {
                    "version must"
                } else {
                    "must"
                };
                let field = format!("{FIELD}.{field}");
                faults.push(FieldError::invalid(
                    &field,
                    &json!(""),
                    &format!("{what} not be empty"),
                ));
            }
        }
        if owner["controller"] != json!(true) {
            continue;
        }
        let this = format!("{}/{}", text(owner, "/kind"), text(owner, "/name"));
        match &controller {
            Some(first) => faults.push(FieldError::invalid(FIELD, owners, &format!(
                "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {this}"
            ))),
            None => controller = Some(this),
        }
    }
    faults
}

/// Everything wrong with a change of metadata.
pub(crate) fn update_faults(new: &Value, old: &Value) -> Vec<FieldError> {
    let mut faults = Vec::new();
    let before = finalizers(old);
    let mut added: Vec<&str> = finalizers(new);
    added.retain(|finalizer| !before.contains(finalizer));
    if is_deleting(old) && !added.is_empty() {
        added.sort_unstable();
        let added: Vec<String> = added.iter().map(|name| format!("{name:?}")).collect();
        faults.push(FieldError {
            reason: "FieldValueForbidden",
            field: "metadata.finalizers".into(),
            message: format!(
                "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                added.join(", ")
            ),
        });
    }
    faults
}

//! Events are one set of objects in two groups: core names and `events.k8s.io` names.

use serde_json::{Value, json};

/// (core field, events.k8s.io field)
const FIELDS: &[(&str, &str)] = &[
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// Renames the fields of a stored event to those of `events.k8s.io/v1`.
pub(crate) fn from_core(event: &mut Value) {
    for (core, other) in FIELDS {
        rename(event, core, other);
    }
    event["apiVersion"] = json!("events.k8s.io/v1");
}

/// Renames the fields of an `events.k8s.io/v1` event to the stored, core ones.
pub(crate) fn to_core(event: &mut Value) {
    for (core, other) in FIELDS {
        rename(event, other, core);
    }
    event["apiVersion"] = json!("v1");
}

fn rename(object: &mut Value, from: &str, to: &str) {
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    if let Some(value) = fields.remove(from) {
        fields.insert(to.to_owned(), value);
    }
}

//! Events, which are the same objects in two API groups with different field names.

use serde_json::{Value, json};

use crate::{metadata, resource::Resource, schema::FieldError};

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

/// Validates an event.
pub(crate) fn validate(resource: &Resource, event: &Value) -> Vec<FieldError> {
    let is_new_form = resource.group == "events.k8s.io";
    let mut errors = Vec::new();
    if is_new_form && metadata::text(event, "/eventTime").is_empty() {
        errors.push(FieldError {
            reason: "FieldValueRequired",
            field: "eventTime".to_owned(),
            message: "Required value".to_owned(),
        });
    }
    let about = if is_new_form {
        "regarding"
    } else {
        "involvedObject"
    };
    let namespace = metadata::text(&event[about], "/namespace");
    let expected = metadata::namespace_of(event).unwrap_or_default();
    // Events of cluster-scoped objects are in the default namespace.
    let fits = namespace == expected || (namespace.is_empty() && expected == "default");
    if !fits {
        let field = "involvedObject.namespace";
        errors.push(FieldError::invalid(
            field,
            &json!(namespace),
            "does not match event.namespace",
        ));
    }
    errors
}

fn rename(object: &mut Value, from: &str, to: &str) {
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    if let Some(value) = fields.remove(from) {
        fields.insert(to.to_owned(), value);
    }
}

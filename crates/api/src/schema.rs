//! Schemas of fields whose types belong to Kubernetes, such as conditions and label selectors.
//!
//! Each is a structural schema, so that the API server accepts it.

use schemars::{Schema, SchemaGenerator, json_schema};

/// What Kubernetes lets a condition's reason be.
const REASON: &str = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$";
/// What Kubernetes lets a condition's type be: a name, with a domain before it or without.
const CONDITION_TYPE: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

/// A list of standard conditions.
pub(crate) fn conditions(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "description": "What is known about the object, one entry per aspect.",
        "type": "array",
        "items": condition()
    })
}

/// A list of standard conditions that is merged by type.
pub(crate) fn conditions_by_type(generator: &mut SchemaGenerator) -> Schema {
    let mut schema = conditions(generator);
    schema.insert("x-kubernetes-list-type".into(), "map".into());
    schema.insert("x-kubernetes-list-map-keys".into(), vec!["type"].into());
    schema
}

fn condition() -> Schema {
    json_schema!({
        "description": "One aspect of the object's state.",
        "type": "object",
        "required": ["lastTransitionTime", "message", "reason", "status", "type"],
        "properties": {
            "lastTransitionTime": {
                "description": "When the status last changed.", "type": "string", "format": "date-time"
            },
            "message": { "description": "A sentence for people.", "type": "string", "maxLength": 32768 },
            "observedGeneration": {
                "description": "The generation of the object that the condition was set for.",
                "type": "integer", "format": "int64", "minimum": 0
            },
            "reason": {
                "description": "A fixed word for programs.", "type": "string",
                "minLength": 1, "maxLength": 1024, "pattern": REASON
            },
            "status": {
                "description": "Whether the condition holds.",
                "type": "string", "enum": ["True", "False", "Unknown"]
            },
            "type": {
                "description": "The type of the condition.", "type": "string", "maxLength": 316, "pattern": CONDITION_TYPE
            }
        }
    })
}

/// A label selector with bounded lists.
pub(crate) fn label_selector(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "object",
        "properties": {
            "matchLabels": {
                "description": "Labels that must have exactly these values.",
                "type": "object",
                "maxProperties": 32,
                "additionalProperties": { "type": "string", "maxLength": 63 }
            },
            "matchExpressions": {
                "description": "Further requirements, all of which must hold.",
                "type": "array",
                "maxItems": 32,
                "items": {
                    "type": "object",
                    "required": ["key", "operator"],
                    "properties": {
                        "key": { "description": "The label's key.", "type": "string", "maxLength": 317 },
                        "operator": {
                            "description": "How the label relates to the values.",
                            "type": "string",
                            "enum": ["In", "NotIn", "Exists", "DoesNotExist"]
                        },
                        "values": {
                            "description": "Values for In and NotIn; empty for the others.",
                            "type": "array",
                            "maxItems": 64,
                            "items": { "type": "string", "maxLength": 63 }
                        }
                    }
                }
            }
        }
    })
}

/// An object whose fields belong to somebody else and are kept as they are.
pub(crate) fn foreign_object(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true })
}

/// A point in time.
pub(crate) fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

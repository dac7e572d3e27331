//! The schema of a rollout.

use planner::RolloutState;
use serde_json::{Value, json};

/// A rollout with its waves and their targets.
pub(super) fn rollout(text: &Value) -> Value {
    let optional = json!({"type": ["string", "null"]});
    let time = json!({"type": ["string", "null"], "format": "date-time"});
    let count = json!({"type": ["integer", "null"]});
    let states = RolloutState::ALL.map(RolloutState::id);
    let target = json!({"type": "object", "required": ["target", "state"], "properties": {
        "target": text, "state": {"type": "string", "enum": states}, "batch": count,
        "url": optional, "runs": optional, "message": optional,
    }});
    let waves = ["done", "in progress", "waiting"];
    let wave = json!({"type": "object", "required": ["number", "state", "targets"], "properties": {
        "number": {"type": "integer"}, "takes": text,
        "state": {"type": "string", "enum": waves},
        "maxConcurrent": count, "doneAt": time, "soaksUntil": time,
        "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
        "targets": {"type": "array", "items": target},
    }});
    let stop = json!({"type": ["object", "null"], "properties": {
        "at": time, "by": optional, "message": text,
    }});
    let waits_for = json!({"type": ["object", "null"], "properties": {
        "reason": text, "message": text,
    }});
    json!({"type": "object", "required": ["promotion", "revision", "state", "waves"], "properties": {
        "promotion": text, "revision": text,
        "state": {"type": "string", "enum": ["in progress", "stopped", "ended"]},
        "stopped": stop, "waitsFor": waits_for,
        "waves": {"type": "array", "items": wave},
    }})
}

//! The status of a definition whose names are accepted.

use serde_json::{Value, json};

/// The status of `crd` once it is served: names accepted, established.
///
/// Conditions that were true before keep their transition time.
pub(crate) fn established_status(crd: &Value, now: &str) -> Value {
    let spec = &crd["spec"];
    let status = &crd["status"];
    let conditions = [
        ("NamesAccepted", "NoConflicts", "no conflicts found"),
        (
            "Established",
            "InitialNamesAccepted",
            "the initial names have been accepted",
        ),
    ]
    .map(|(kind, reason, message)| {
        json!({
            "type": kind,
            "status": "True",
            "reason": reason,
            "message": message,
            "lastTransitionTime": since(status, kind).unwrap_or(now),
        })
    });
    json!({
        "acceptedNames": spec["names"],
        "conditions": conditions,
        "storedVersions": stored_versions(status, spec),
    })
}

fn since<'a>(status: &'a Value, kind: &str) -> Option<&'a str> {
    let condition = condition(status, kind).filter(|condition| condition["status"] == "True")?;
    condition["lastTransitionTime"].as_str()
}

/// The condition of that type.
pub(super) fn condition<'a>(status: &'a Value, kind: &str) -> Option<&'a Value> {
    status["conditions"]
        .as_array()?
        .iter()
        .find(|condition| condition["type"] == kind)
}

/// The versions that objects may be stored in: the previous ones and the current storage version.
pub(super) fn stored_versions(status: &Value, spec: &Value) -> Vec<String> {
    let mut stored = super::texts(&status["storedVersions"]);
    let versions = spec["versions"].as_array().map_or(&[][..], Vec::as_slice);
    let storage = versions.iter().find(|version| version["storage"] == true);
    if let Some(name) = storage.and_then(|version| version["name"].as_str())
        && !stored.iter().any(|stored| stored == name)
    {
        stored.push(name.to_owned());
    }
    stored
}

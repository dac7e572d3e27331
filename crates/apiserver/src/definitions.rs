//! Writes of CustomResourceDefinitions: they are validated, get their status from the server, and
//! exist until their objects are deleted.

use serde_json::{Value, json};

use crate::{
    Server,
    builtin::DEFINITIONS,
    definition, metadata,
    resource::{Resource, storage_name},
    schema::FieldError,
    status::{ApiError, Result},
};

/// Completes and checks a new definition.
pub(crate) fn prepare_new(server: &Server, crd: &mut Value) -> Result<()> {
    definition::default(crd);
    check(server, crd, Vec::new())?;
    crd["status"] = definition::established_status(crd, &server.now());
    if let Some((reason, name)) = conflict(server, crd) {
        refuse_names(crd, reason, &name);
    }
    Ok(())
}

/// A name that another definition of the group has, and the reason of the condition.
fn conflict(server: &Server, crd: &Value) -> Option<(&'static str, String)> {
    const NAMES: [(&str, &str); 4] = [
        ("plural", "PluralConflict"),
        ("singular", "SingularConflict"),
        ("kind", "KindConflict"),
        ("listKind", "ListKindConflict"),
    ];
    let snapshot = server.store().list(DEFINITIONS, "", None).ok()?;
    let others = snapshot
        .objects
        .into_iter()
        .map(|(_, other)| other.value())
        .filter(|other| {
            other["spec"]["group"] == crd["spec"]["group"]
                && metadata::name_of(other) != metadata::name_of(crd)
        });
    let taken: Vec<Value> = others
        .map(|other| other["status"]["acceptedNames"].clone())
        .collect();
    NAMES.into_iter().find_map(|(field, reason)| {
        let name = crd["spec"]["names"][field].as_str()?;
        let is_taken = taken.iter().any(|names| names[field] == name);
        is_taken.then(|| (reason, name.to_owned()))
    })
}

/// Marks the names as not accepted; the definition is stored but not served.
fn refuse_names(crd: &mut Value, reason: &str, name: &str) {
    for condition in crd["status"]["conditions"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        condition["status"] = json!("False");
        let (reason, message) = match condition["type"].as_str() {
            Some("NamesAccepted") => (reason, format!("{name:?} is already in use")),
            _ => ("NotAccepted", "not all names are accepted".to_owned()),
        };
        condition["reason"] = json!(reason);
        condition["message"] = json!(message);
    }
    crd["status"]["acceptedNames"] = json!({"kind": "", "plural": ""});
}

/// Completes and checks a changed definition.
pub(crate) fn prepare_update(server: &Server, new: &mut Value, old: &Value) -> Result<()> {
    definition::default(new);
    check(server, new, definition::check_update(old, new))?;
    if new["spec"] != old["spec"] {
        let fresh = definition::established_status(new, &server.now());
        new["status"] = merged_status(fresh, &old["status"]);
    }
    Ok(())
}

/// The new names, the old conditions, and every version that may still be stored.
fn merged_status(mut fresh: Value, old: &Value) -> Value {
    if old["conditions"].is_array() {
        fresh["conditions"] = old["conditions"].clone();
    }
    let mut stored = old["storedVersions"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    for version in fresh["storedVersions"].as_array().into_iter().flatten() {
        if !stored.contains(version) {
            stored.push(version.clone());
        }
    }
    fresh["storedVersions"] = json!(stored);
    fresh
}

fn check(server: &Server, crd: &Value, change_errors: Vec<FieldError>) -> Result<()> {
    let errors = match definition::parse(crd) {
        _ if !change_errors.is_empty() => change_errors,
        Err(errors) => errors,
        Ok(_) => return Ok(()),
    };
    let resource = server
        .registry()
        .stored_as(DEFINITIONS)
        .expect("definitions are built in");
    Err(ApiError::invalid(
        &resource,
        metadata::name_of(crd),
        &errors,
    ))
}

/// Refuses new objects of a kind whose definition is being deleted.
pub(crate) fn check_accepts_objects(server: &Server, resource: &Resource) -> Result<()> {
    if resource.schema.is_none() {
        return Ok(());
    }
    let definitions = server
        .registry()
        .stored_as(DEFINITIONS)
        .expect("definitions are built in");
    let crd = server
        .store()
        .object(&definitions.key(None, &resource.qualified()));
    if crd.is_some_and(|crd| metadata::is_stored_deleting(&crd)) {
        return Err(ApiError::terminating_definition());
    }
    Ok(())
}

/// Where the objects of a definition are stored.
pub(crate) fn storage_of(crd: &Value) -> std::sync::Arc<str> {
    storage_name(
        metadata::text(crd, "/spec/group"),
        metadata::text(crd, "/spec/names/plural"),
    )
}

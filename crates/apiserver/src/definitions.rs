//! What is special about writing CustomResourceDefinitions: they are validated as such, get their
//! status from the server, and stay until their objects are gone.

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
    Ok(())
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
    let mut stored = old["storedVersions"].as_array().cloned().unwrap_or_default();
    for version in fresh["storedVersions"].as_array().into_iter().flatten() {
        if !stored.contains(version) {
            stored.push(version.clone());
        }
    }
    fresh["storedVersions"] = json!(stored);
    fresh
}

fn check(server: &Server, crd: &Value, mut faults: Vec<FieldError>) -> Result<()> {
    if let Err(found) = definition::parse(crd) {
        faults.extend(found);
    }
    if faults.is_empty() {
        return Ok(());
    }
    let resource = server.registry().stored_as(DEFINITIONS).expect("definitions are built in");
    Err(ApiError::invalid(&resource, metadata::name_of(crd), &faults))
}

/// Refuses new objects of a kind whose definition is being deleted.
pub(crate) fn check_accepts_objects(server: &Server, resource: &Resource) -> Result<()> {
    if resource.schema.is_none() {
        return Ok(());
    }
    let definitions = server.registry().stored_as(DEFINITIONS).expect("definitions are built in");
    let crd = server.store().get(&definitions.key(None, &resource.qualified()));
    if crd.is_some_and(|crd| metadata::is_deleting(&crd)) {
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

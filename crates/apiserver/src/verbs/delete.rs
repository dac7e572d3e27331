//! The verbs delete and deletecollection.

use std::sync::Arc;

use axum::{body::Body, response::Response};
use serde_json::{Value, json};

use super::{
    DeleteOptions, FOREGROUND_FINALIZER, ORPHAN_FINALIZER, ObjectRequest, PropagationPolicy,
    ok_json, read, update::can_be_removed,
};
use crate::{
    Server, admission,
    builtin::{CLEANUP_FINALIZER, DEFINITIONS},
    metadata,
    representation::ResponseObject,
    resource::Resource,
    status::{ApiError, Result},
    store::{ObjectWrite, RevisionConflict, StoreKey, StoredObject},
};

/// The result of a deletion.
pub(crate) enum DeleteResult {
    /// The object was removed; this was its last state.
    Removed(Arc<StoredObject>),
    /// The object is marked for deletion and waits for its finalizers.
    Marked(ResponseObject),
}

pub(super) async fn delete(request: &ObjectRequest<'_>, body: Body) -> Result<Response> {
    let deletion = DeleteOptions::of(request, body).await?;
    let resource = &request.target.resource;
    let key = resource.key(request.target.namespace.as_deref(), request.target.name());
    match delete_object(request.server, resource, &key, &deletion).await? {
        DeleteResult::Marked(object) => Ok(request.respond_with(&object)),
        DeleteResult::Removed(last) if returns_deleted_object(resource) => {
            Ok(request.respond_with(&ResponseObject::Stored(last)))
        }
        DeleteResult::Removed(last) => Ok(ok_json(&success(resource, &last.value()))),
    }
}

pub(super) async fn delete_collection(request: &ObjectRequest<'_>, body: Body) -> Result<Response> {
    let deletion = DeleteOptions::of(request, body).await?;
    let selector = read::selector(request)?;
    let resource = &request.target.resource;
    let store = request.server.store();
    let Ok(snapshot) = store.list(&resource.storage, &read::prefix(request), None) else {
        return Err(ApiError::expired("the newest state cannot be listed"));
    };
    let mut items = Vec::new();
    for (key, stored) in snapshot.objects {
        if !selector.selects(resource, &key, &stored) {
            continue;
        }
        match delete_object(request.server, resource, &key, &deletion).await {
            Ok(DeleteResult::Removed(last)) => items.push(resource.read_with_managed_fields(&last)),
            Ok(DeleteResult::Marked(object)) => items.push(object.value(resource)),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(ok_json(&json!({
        "kind": resource.list_kind,
        "apiVersion": resource.api_version(),
        "metadata": {"resourceVersion": store.revision().to_string()},
        "items": items,
    })))
}

/// Deletes one object, or marks it for deletion while it has finalizers.
pub(crate) async fn delete_object(
    server: &Server,
    resource: &Arc<Resource>,
    key: &StoreKey,
    deletion: &DeleteOptions,
) -> Result<DeleteResult> {
    let name = key.path.rsplit('/').next().unwrap_or_default();
    loop {
        let stored = server.store().object(key);
        let stored = stored.ok_or_else(|| ApiError::not_found(resource, name))?;
        let present = resource.read(&stored);
        check(server, resource, &present, deletion)?;
        let object = with_policy(Value::clone(&present), deletion.policy);
        let object = with_cleanup_finalizer(resource, object);
        if can_be_removed(resource, &object) {
            match remove(server, key, &stored, deletion).await? {
                Ok(last) => return Ok(DeleteResult::Removed(last)),
                Err(RevisionConflict) => continue,
            }
        }
        let is_marked = metadata::is_deleting(&object);
        if is_marked && object == *present || deletion.dry_run {
            return Ok(DeleteResult::Marked(ResponseObject::computed(
                object,
                stored.managed_fields(),
            )));
        }
        let marked = match is_marked {
            true => object,
            false => mark_deleted(server, resource, object),
        };
        let managed_fields = String::from_utf8_lossy(stored.managed_fields()).into_owned();
        let write = ObjectWrite {
            key: key.clone(),
            expected_revision: Some(stored.revision()),
            object: Some(resource.to_storage(marked, managed_fields)),
        };
        if let Ok(stored) = server.commit(write).await? {
            return Ok(DeleteResult::Marked(ResponseObject::Stored(stored)));
        }
    }
}

/// Checks preconditions, protected objects and admission.
fn check(
    server: &Server,
    resource: &Resource,
    object: &Value,
    deletion: &DeleteOptions,
) -> Result<()> {
    check_preconditions(resource, object, deletion)?;
    check_deletable(resource, object)?;
    admission::check(
        server,
        &deletion.caller,
        (resource, false),
        None,
        Some(object),
    )
}

async fn remove(
    server: &Server,
    key: &StoreKey,
    stored: &Arc<StoredObject>,
    deletion: &DeleteOptions,
) -> Result<Result<Arc<StoredObject>, RevisionConflict>> {
    if deletion.dry_run {
        return Ok(Ok(stored.clone()));
    }
    server.commit(ObjectWrite::removal(key, stored)).await
}

/// The object with the finalizers of a policy.
fn with_policy(mut object: Value, policy: Option<PropagationPolicy>) -> Value {
    let Some(policy) = policy else {
        return object;
    };
    let metadata = metadata::fields(&mut object);
    let mut finalizers: Vec<Value> = metadata
        .remove("finalizers")
        .and_then(|list| list.as_array().cloned())
        .unwrap_or_default();
    finalizers.retain(|it| it != FOREGROUND_FINALIZER && it != ORPHAN_FINALIZER);
    match policy {
        PropagationPolicy::Background => {}
        PropagationPolicy::Foreground => finalizers.push(json!(FOREGROUND_FINALIZER)),
        PropagationPolicy::Orphan => finalizers.push(json!(ORPHAN_FINALIZER)),
    }
    if !finalizers.is_empty() {
        metadata.insert("finalizers".to_owned(), finalizers.into());
    }
    object
}

/// Adds the finalizer that keeps a definition until its objects are deleted.
fn with_cleanup_finalizer(resource: &Resource, mut object: Value) -> Value {
    if &*resource.storage == DEFINITIONS && !metadata::is_deleting(&object) {
        let finalizers = metadata::fields(&mut object)
            .entry("finalizers")
            .or_insert(json!([]));
        if let Some(finalizers) = finalizers.as_array_mut() {
            finalizers.push(json!(CLEANUP_FINALIZER));
        }
    }
    object
}

/// The object with its deletion timestamp.
fn mark_deleted(server: &Server, resource: &Resource, mut object: Value) -> Value {
    let metadata = &mut object["metadata"];
    metadata["deletionTimestamp"] = json!(server.now());
    metadata["deletionGracePeriodSeconds"] = json!(0);
    if let Some(generation) = metadata["generation"].as_i64() {
        metadata["generation"] = json!(generation + 1);
    }
    if resource.kind == "Namespace" && resource.group.is_empty() {
        object["metadata"]
            .as_object_mut()
            .map(|metadata| metadata.remove("deletionGracePeriodSeconds"));
        object["status"]["phase"] = json!("Terminating");
    }
    object
}

fn check_preconditions(
    resource: &Resource,
    object: &Value,
    deletion: &DeleteOptions,
) -> Result<()> {
    let checks = [
        (
            "UID",
            &deletion.uid,
            "/metadata/uid",
            "The object might have been deleted and then recreated",
        ),
        (
            "ResourceVersion",
            &deletion.resource_version,
            "/metadata/resourceVersion",
            "The object might have been modified",
        ),
    ];
    for (what, expected, pointer, hint) in checks {
        let actual = metadata::text(object, pointer);
        if let Some(expected) = expected
            && expected != actual
        {
            let why = format!(
                "the {what} in the precondition ({expected}) does not match the {what} in record ({actual}). {hint}"
            );
            return Err(ApiError::failed_precondition(
                resource,
                metadata::name_of(object),
                &why,
            ));
        }
    }
    Ok(())
}

fn check_deletable(resource: &Resource, object: &Value) -> Result<()> {
    let name = metadata::name_of(object);
    let is_protected = resource.kind == "Namespace"
        && resource.group.is_empty()
        && matches!(name, "default" | "kube-system" | "kube-public");
    if is_protected {
        let why = "this namespace may not be deleted";
        return Err(ApiError::forbidden(resource, name, why, Value::Null));
    }
    Ok(())
}

/// Whether the response to a deletion is the deleted object, as for some built-in kinds.
fn returns_deleted_object(resource: &Resource) -> bool {
    resource.group.is_empty()
        && matches!(resource.kind.as_str(), "Pod" | "Service" | "ServiceAccount")
}

fn success(resource: &Resource, object: &Value) -> Value {
    let mut details = json!({
        "name": metadata::name_of(object),
        "kind": resource.plural,
        "uid": metadata::text(object, "/metadata/uid"),
    });
    if !resource.group.is_empty() {
        details["group"] = json!(resource.group);
    }
    json!({
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": details,
    })
}

//! delete and deletecollection.

use std::sync::Arc;

use axum::{body::Body, response::Response};
use serde_json::{Value, json};

use super::{Call, read, shown, update::is_released};
use crate::{
    Server,
    access::Caller,
    admission, body,
    builtin::{CLEANUP_FINALIZER, DEFINITIONS},
    metadata,
    query::unsupported,
    resource::Resource,
    schema::FieldError,
    status::{ApiError, Result},
    store::{Kept, Key, Stale, Write},
    types::Type,
    view::Shown,
};

/// How an object is to be deleted.
#[derive(Debug, Clone)]
pub(crate) struct Deletion {
    caller: Caller,
    uid: Option<String>,
    resource_version: Option<String>,
    dry_run: bool,
    /// What becomes of dependents; without one, what the object's finalizers say.
    policy: Option<Policy>,
}

/// What becomes of the dependents of what is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Policy {
    /// They go after it.
    Background,
    /// They go first.
    Foreground,
    /// They stay.
    Orphan,
}

/// Kept on an object until its dependents are gone.
pub(crate) const FOREGROUND_FINALIZER: &str = "foregroundDeletion";
/// Kept on an object until its dependents have forgotten it.
pub(crate) const ORPHAN_FINALIZER: &str = "orphan";

impl Deletion {
    /// A deletion by the server itself.
    pub(crate) fn internal() -> Self {
        Self {
            caller: Caller::Server,
            uid: None,
            resource_version: None,
            dry_run: false,
            policy: None,
        }
    }

    /// A deletion by the server itself of exactly this object, not of a later one of its name.
    pub(crate) fn internal_of(object: &Value) -> Self {
        Self {
            uid: Some(metadata::text(object, "/metadata/uid").to_owned()),
            ..Self::internal()
        }
    }

    /// With this policy.
    pub(crate) fn with(self, policy: Policy) -> Self {
        Self {
            policy: Some(policy),
            ..self
        }
    }
}

/// What became of the object.
pub(crate) enum Gone {
    /// It is no longer there; this was its last state.
    Now(Arc<Kept>),
    /// Finalizers keep it for now.
    Later(Shown),
}

pub(super) async fn delete(call: &Call<'_>, body: Body) -> Result<Response> {
    let deletion = options(call, body).await?;
    let resource = &call.target.resource;
    let key = resource.key(call.target.namespace.as_deref(), call.target.name());
    match delete_object(call.server, resource, &key, &deletion).await? {
        Gone::Later(object) => Ok(call.show(&object)),
        Gone::Now(last) if answers_with_object(resource) => Ok(call.show(&Shown::Stored(last))),
        Gone::Now(last) => Ok(shown(&success(resource, &last.value()))),
    }
}

pub(super) async fn delete_collection(call: &Call<'_>, body: Body) -> Result<Response> {
    let deletion = options(call, body).await?;
    let selector = read::selector(call)?;
    let resource = &call.target.resource;
    let store = call.server.store();
    let Ok(snapshot) = store.list(&resource.storage, &read::prefix(call), None) else {
        return Err(ApiError::expired("the newest state cannot be listed"));
    };
    let mut items = Vec::new();
    for (key, stored) in snapshot.objects {
        if !selector.selects(resource, &key, &stored) {
            continue;
        }
        match delete_object(call.server, resource, &key, &deletion).await {
            Ok(Gone::Now(last)) => items.push(resource.present(&last)),
            Ok(Gone::Later(object)) => items.push(object.value(resource)),
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(shown(&json!({
        "kind": resource.list_kind,
        "apiVersion": resource.api_version(),
        "metadata": {"resourceVersion": store.revision().to_string()},
        "items": items,
    })))
}

async fn options(call: &Call<'_>, body: Body) -> Result<Deletion> {
    let bytes = body::read(body).await?;
    let options = if bytes.is_empty() {
        json!({})
    } else {
        let kind = "DeleteOptions";
        body::decode(call.headers(), &bytes, kind, Some(&Type::named(kind)))?
    };
    match options["kind"].as_str() {
        _ if !options.is_object() => {
            return Err(ApiError::bad_request("expected DeleteOptions"));
        }
        Some(kind) if kind != "DeleteOptions" => {
            return Err(ApiError::bad_request(format!(
                "no kind {kind:?} is registered: expected DeleteOptions"
            )));
        }
        _ => {}
    }
    let grace = &options["gracePeriodSeconds"];
    if !grace.is_null() && !grace.is_i64() {
        let found = metadata::type_name(grace);
        return Err(ApiError::bad_request(format!(
            "json: cannot unmarshal {found} into Go struct field DeleteOptions.gracePeriodSeconds of type int64"
        )));
    }
    let policy = policy(call, &options)?;
    let text = |pointer| {
        options
            .pointer(pointer)
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    Ok(Deletion {
        caller: call.caller(),
        uid: text("/preconditions/uid"),
        resource_version: text("/preconditions/resourceVersion"),
        dry_run: is_dry_run(call, &options)?,
        policy,
    })
}

fn is_dry_run(call: &Call<'_>, options: &Value) -> Result<bool> {
    let mut query = call.query.clone();
    if let Some(values) = options["dryRun"].as_array() {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        query.dry_run = values.iter().map(text).collect();
    }
    Ok(query.write_options("DeleteOptions")?.dry_run)
}

/// What becomes of dependents, as the request asks.
fn policy(call: &Call<'_>, options: &Value) -> Result<Option<Policy>> {
    let given = options["propagationPolicy"].as_str();
    let policy = given.unwrap_or(&call.query.propagation_policy);
    let orphans = options["orphanDependents"].as_bool();
    if orphans.is_some() && !policy.is_empty() {
        let why = "orphanDependents and deletionPropagation cannot be both set";
        let fault = FieldError::invalid("propagationPolicy", &json!(policy), why);
        return Err(ApiError::invalid_options("DeleteOptions", fault));
    }
    match (policy, orphans) {
        ("", None) => Ok(None),
        ("", Some(false)) | ("Background", _) => Ok(Some(Policy::Background)),
        ("", Some(true)) | ("Orphan", _) => Ok(Some(Policy::Orphan)),
        ("Foreground", _) => Ok(Some(Policy::Foreground)),
        _ => {
            let known = ["Foreground", "Background", "Orphan", "nil"];
            Err(unsupported(
                "DeleteOptions",
                "propagationPolicy",
                &json!(policy),
                &known,
            ))
        }
    }
}

/// Deletes one object, or marks it for deletion while finalizers keep it.
pub(crate) async fn delete_object(
    server: &Server,
    resource: &Arc<Resource>,
    key: &Key,
    deletion: &Deletion,
) -> Result<Gone> {
    let name = key.path.rsplit('/').next().unwrap_or_default();
    loop {
        let stored = server.store().kept(key);
        let stored = stored.ok_or_else(|| ApiError::not_found(resource, name))?;
        let present = resource.bare(&stored);
        check(server, resource, &present, deletion)?;
        let object = with_policy(Value::clone(&present), deletion.policy);
        let object = guarded(resource, object);
        if is_released(resource, &object) {
            match remove(server, key, &stored, deletion).await? {
                Ok(last) => return Ok(Gone::Now(last)),
                Err(Stale) => continue,
            }
        }
        let is_marked = metadata::is_deleting(&object);
        if is_marked && object == *present || deletion.dry_run {
            return Ok(Gone::Later(Shown::made(object, stored.owners())));
        }
        let marked = match is_marked {
            true => object,
            false => marked(server, resource, object),
        };
        let owners = String::from_utf8_lossy(stored.owners()).into_owned();
        let write = Write {
            key: key.clone(),
            replaces: Some(stored.revision()),
            object: Some(resource.to_storage(marked, owners)),
        };
        if let Ok(stored) = server.commit(write).await? {
            return Ok(Gone::Later(Shown::Stored(stored)));
        }
    }
}

/// Refuses to delete what must not be, or is not what was meant.
fn check(server: &Server, resource: &Resource, object: &Value, deletion: &Deletion) -> Result<()> {
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
    key: &Key,
    stored: &Arc<Kept>,
    deletion: &Deletion,
) -> Result<Result<Arc<Kept>, Stale>> {
    if deletion.dry_run {
        return Ok(Ok(stored.clone()));
    }
    server.commit(Write::removal(key, stored)).await
}

/// The object with the finalizers that carry out a policy.
fn with_policy(mut object: Value, policy: Option<Policy>) -> Value {
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
        Policy::Background => {}
        Policy::Foreground => finalizers.push(json!(FOREGROUND_FINALIZER)),
        Policy::Orphan => finalizers.push(json!(ORPHAN_FINALIZER)),
    }
    if !finalizers.is_empty() {
        metadata.insert("finalizers".to_owned(), finalizers.into());
    }
    object
}

/// A definition waits for its objects to be gone.
fn guarded(resource: &Resource, mut object: Value) -> Value {
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

/// The object as it waits for its finalizers.
fn marked(server: &Server, resource: &Resource, mut object: Value) -> Value {
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

fn check_preconditions(resource: &Resource, object: &Value, deletion: &Deletion) -> Result<()> {
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

/// Some kinds answer a deletion with what was deleted.
fn answers_with_object(resource: &Resource) -> bool {
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

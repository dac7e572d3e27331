//! The verb update, and the one function through which stored objects change.

use std::sync::Arc;

use axum::{body::Body, response::Response};
use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    ObjectRequest, WriteOptions,
    proposal::{PartialObject, PreparedObject, ProposedObject},
};
use crate::{
    Server, access, admission,
    apply::LiveObject,
    body,
    builtin::{self, DEFINITIONS},
    definitions, metadata,
    representation::ResponseObject,
    resource::Resource,
    route::RequestTarget,
    schema::FieldError,
    status::{ApiError, Result},
    store::{ObjectToStore, ObjectWrite, StoreKey, StoredObject},
};

/// How often a write without a `resourceVersion` is retried after a conflict.
const ATTEMPTS: usize = 100;

pub(super) async fn replace(request: &ObjectRequest<'_>, body: Body) -> Result<Response> {
    let resource = request.resource();
    let mut options = WriteOptions::of(request, "UpdateOptions")?;
    let bytes = body::read(body).await?;
    let object = body::decode_object(request.headers(), &bytes, resource)?;
    options.find_duplicate_keys(&bytes, &object);
    let object = body::check(resource, object)?;
    let key = resource.key(request.target.namespace.as_deref(), request.target.name());
    if resource.creates_on_replace && request.server.store().object(&key).is_none() {
        let object = check_identity(&request.target, object)?;
        return super::create::insert(request, &options, object.into()).await;
    }
    let (object, warnings) = change_object(request.server, &request.target, &options, |live| {
        check_uid(resource, &object, live.object)?;
        Ok(object.clone().into())
    })
    .await?;
    Ok(super::with_warnings(
        request.respond_with(&object),
        &warnings,
    ))
}

/// An update with a uid must be of the object with that uid.
fn check_uid(resource: &Resource, new: &Value, old: &Value) -> Result<()> {
    let (wanted, actual) = (
        metadata::text(new, "/metadata/uid"),
        metadata::text(old, "/metadata/uid"),
    );
    if wanted.is_empty() || wanted == actual {
        return Ok(());
    }
    let why =
        format!("Precondition failed: UID in precondition: {wanted}, UID in object meta: {actual}");
    Err(ApiError::conflict(resource, metadata::name_of(old), &why))
}

/// Checks that the object's name and namespace are those of the path.
pub(super) fn check_identity(target: &RequestTarget, mut object: Value) -> Result<Value> {
    let metadata = metadata::fields(&mut object);
    let expected = target.name();
    let name = metadata
        .get("name")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if name.is_empty() {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({expected} based on URL) was undeterminable: name must be provided"
        )));
    }
    if name != expected {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({expected})"
        )));
    }
    let namespace = metadata
        .get("namespace")
        .and_then(Value::as_str)
        .unwrap_or_default();
    match &target.namespace {
        Some(expected) if namespace == expected => Ok(object),
        Some(expected) if namespace.is_empty() => {
            metadata.insert("namespace".into(), json!(expected));
            Ok(object)
        }
        None => {
            metadata.remove("namespace");
            Ok(object)
        }
        Some(_) => Err(ApiError::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        )),
    }
}

/// Changes one object to what `change` makes of its current state.
///
/// If the result has a `resourceVersion`, it must be the current one. After a conflict, `change` is
/// applied to the newer state.
pub(crate) async fn change_object(
    server: &Server,
    target: &RequestTarget,
    options: &WriteOptions,
    change: impl Fn(LiveObject<'_>) -> Result<ProposedObject>,
) -> Result<(ResponseObject, Vec<String>)> {
    let resource = &*target.resource;
    let key = resource.key(target.namespace.as_deref(), target.name());
    for _ in 0..ATTEMPTS {
        let stored = server.store().object(&key);
        let stored = stored.ok_or_else(|| ApiError::not_found(resource, target.name()))?;
        let make = |part: PartialObject| {
            let live = LiveObject {
                object: &part.object,
                managed_fields: stored.managed_fields(),
            };
            let new = make(server, target, options, change(live)?, live)?;
            let is_same = is_same(&new.object, live.object)
                && new.managed_fields.as_bytes() == live.managed_fields;
            Ok((new, is_same, part.spec_text))
        };
        // An error is determined again from the whole object, which its message may show.
        let small = PartialObject::without_spec(resource, options, &stored)
            .and_then(|part| make(part).ok());
        let (new, is_same, spec_text) =
            small.map_or_else(|| make(PartialObject::whole(resource, &stored)), Ok)?;
        if is_same {
            return Ok((ResponseObject::Stored(stored), new.warnings));
        }
        if options.dry_run {
            return Ok(new.into_response());
        }
        if let Some(response) = store(server, resource, (&key, &stored), (new, spec_text)).await? {
            return Ok(response);
        }
    }
    Err(ApiError::modified(resource, target.name()))
}

/// Checks and validates a proposed object.
fn make(
    server: &Server,
    target: &RequestTarget,
    options: &WriteOptions,
    mut proposal: ProposedObject,
    live: LiveObject<'_>,
) -> Result<PreparedObject> {
    proposal.object = check_identity(target, proposal.object)?;
    check_revision(&target.resource, &proposal.object, live.object)?;
    prepare(server, target, options, proposal, live)
}

/// Stores an object, or removes it if it is marked for deletion and has no finalizers; `None` after
/// a conflict.
async fn store(
    server: &Server,
    resource: &Resource,
    (key, read): (&StoreKey, &StoredObject),
    (new, spec_text): (PreparedObject, Bytes),
) -> Result<Option<(ResponseObject, Vec<String>)>> {
    if metadata::is_deleting(&new.object) && can_be_removed(resource, &new.object) {
        let removed = server.commit(ObjectWrite::removal(key, read)).await?;
        return Ok(removed.is_ok().then(|| new.into_response()));
    }
    let write = ObjectWrite {
        key: key.clone(),
        expected_revision: Some(read.revision()),
        object: Some(ObjectToStore {
            spec_text,
            ..resource.to_storage(new.object, new.managed_fields)
        }),
    };
    let stored = server.commit(write).await?;
    Ok(stored
        .ok()
        .map(|stored| (ResponseObject::Stored(stored), new.warnings)))
}

/// Whether an object has no finalizers.
pub(crate) fn can_be_removed(resource: &Resource, object: &Value) -> bool {
    let is_namespace = resource.group.is_empty() && resource.kind == "Namespace";
    let inner = object["spec"]["finalizers"].as_array();
    let is_empty = !is_namespace || inner.is_none_or(Vec::is_empty);
    metadata::finalizers(object).is_empty() && is_empty
}

/// Compares the `resourceVersion` of the client, if it has one.
fn check_revision(resource: &Resource, proposed: &Value, old: &Value) -> Result<()> {
    let name = metadata::name_of(old);
    let given = metadata::text(proposed, "/metadata/resourceVersion");
    if given.is_empty() || given == "0" {
        if resource.replaces_unconditionally {
            return Ok(());
        }
        let why = "must be specified for an update";
        let error = FieldError::invalid("metadata.resourceVersion", &json!(0), why);
        return Err(ApiError::invalid_kind(
            &resource.plural,
            &resource.group,
            name,
            &[error],
        ));
    }
    if given.parse::<u64>().is_err() {
        return Err(ApiError::internal(format!(
            "strconv.ParseUint: parsing {given:?}: invalid syntax"
        )));
    }
    if given != metadata::text(old, "/metadata/resourceVersion") {
        return Err(ApiError::modified(resource, name));
    }
    Ok(())
}

/// Completes and validates a changed object.
fn prepare(
    server: &Server,
    target: &RequestTarget,
    options: &WriteOptions,
    proposal: ProposedObject,
    live: LiveObject<'_>,
) -> Result<PreparedObject> {
    let (resource, old) = (&*target.resource, live.object);
    let mut new = proposal.object;
    let warnings = super::prune(resource, &mut new, options)?;
    let errors = match target.is_status {
        true => Vec::new(),
        false => metadata::validate_immutable_fields(&new, old),
    };
    new = with_unchangeable_fields(target, new, old);
    if let Some(schema) = &resource.schema {
        schema.default(&mut new);
    } else {
        builtin::normalise(resource, &mut new);
    }
    if options.caller.user().is_some() {
        builtin::keep(resource, &mut new, old);
    }
    access::check_escalation(server, &options.caller, resource, &new, Some(old))?;
    if &*resource.storage == DEFINITIONS && !target.is_status {
        definitions::prepare_update(server, &mut new, old)?;
    }
    super::validate(resource, &new, Some(old), target.is_status, errors)?;
    let managed_fields =
        options.managed_fields(server, target, proposal.managed_fields, live, &new);
    if !target.is_status {
        increment_generation(resource, &mut new, old);
    }
    let reviewed = (resource, target.is_status);
    admission::check(server, &options.caller, reviewed, Some(&new), Some(old))?;
    Ok(PreparedObject {
        object: new,
        managed_fields,
        warnings,
    })
}

/// The new object with the old values of the fields that this endpoint cannot change.
fn with_unchangeable_fields(target: &RequestTarget, mut new: Value, old: &Value) -> Value {
    if target.is_status {
        new = with_status(old, new);
    } else {
        metadata::keep_server_fields(&mut new, old);
        if target.resource.has_status {
            set_or_remove(&mut new, "status", old.get("status"));
        }
    }
    let revision = &old["metadata"]["resourceVersion"];
    set_or_remove(&mut new["metadata"], "resourceVersion", Some(revision));
    new
}

fn increment_generation(resource: &Resource, new: &mut Value, old: &Value) {
    let ignored: &[&str] = match resource.has_status {
        true => &["metadata", "status"],
        false => &["metadata"],
    };
    if resource.has_generation && !is_same_except(ignored, new, old) {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
        new["metadata"]["generation"] = json!(generation + 1);
    }
}

/// The old object with the new status.
fn with_status(old: &Value, mut new: Value) -> Value {
    if is_same_except(&["status"], &new, old) {
        return new;
    }
    let status = new
        .as_object_mut()
        .and_then(|fields| fields.remove("status"));
    let mut object = old.clone();
    set_or_remove(&mut object, "status", status.as_ref());
    object
}

fn set_or_remove(object: &mut Value, field: &str, value: Option<&Value>) {
    match value {
        Some(value) if object.get(field) == Some(value) => {}
        Some(value) => object[field] = value.clone(),
        None => super::remove(object, field),
    }
}

/// Whether two objects are equal; the status, which changes most often, is compared first.
pub(super) fn is_same(one: &Value, two: &Value) -> bool {
    one.get("status") == two.get("status") && one == two
}

/// Whether two maps are equal except for these fields.
fn is_same_except(ignored: &[&str], one: &Value, two: &Value) -> bool {
    let fields = |object: &'_ Value| object.as_object().map_or(0, |fields| fields.len());
    let others = |object: &Value| {
        let found = ignored.iter().filter(|name| object.get(**name).is_some());
        fields(object) - found.count()
    };
    let is_same = |(name, value): (&String, &Value)| {
        ignored.contains(&name.as_str()) || two.get(name) == Some(value)
    };
    others(one) == others(two) && one.as_object().into_iter().flatten().all(is_same)
}

/// The target of a write to a stored object, for the garbage collector.
pub(crate) fn target_for(resource: Arc<Resource>, object: &Value) -> RequestTarget {
    RequestTarget {
        resource,
        namespace: metadata::namespace_of(object).map(str::to_owned),
        name: Some(metadata::name_of(object).to_owned()),
        is_status: false,
        is_scale: false,
    }
}

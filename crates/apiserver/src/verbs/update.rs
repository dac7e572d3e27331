//! replace, and the one way in which any stored object changes.

use std::sync::Arc;

use axum::{body::Body, response::Response};
use bytes::Bytes;
use serde_json::{Value, json};

use super::{
    Call, Manner,
    proposal::{Part, Prepared, Proposal},
};
use crate::{
    Server, access, admission,
    apply::Live,
    body,
    builtin::{self, DEFINITIONS},
    definitions, metadata,
    resource::Resource,
    route::Target,
    schema::FieldError,
    status::{ApiError, Result},
    store::{Draft, Kept, Key, Write},
    view::Shown,
};

/// How often a change without a `resourceVersion` is tried on a newer state.
const ATTEMPTS: usize = 100;

pub(super) async fn replace(call: &Call<'_>, body: Body) -> Result<Response> {
    let resource = call.resource();
    let mut manner = Manner::of(call, "UpdateOptions")?;
    let bytes = body::read(body).await?;
    let object = body::decode_object(call.headers(), &bytes, resource)?;
    manner.look_for_repetition(&bytes, &object);
    let object = body::check(resource, object)?;
    let key = resource.key(call.target.namespace.as_deref(), call.target.name());
    if resource.creates_on_replace && call.server.store().kept(&key).is_none() {
        let object = named(&call.target, object)?;
        return super::create::insert(call, &manner, object.into()).await;
    }
    let (object, warnings) = change_object(call.server, &call.target, &manner, |live| {
        check_uid(resource, &object, live.object)?;
        Ok(object.clone().into())
    })
    .await?;
    Ok(super::with_warnings(call.show(&object), &warnings))
}

/// A replace may insist on the object it was made from.
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
pub(super) fn named(target: &Target, mut object: Value) -> Result<Value> {
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

/// Changes one object to what `change` makes of its newest state.
///
/// If the result names a `resourceVersion`, it must be that of the newest state. A change that
/// another writer got ahead of is made again on the newer state.
pub(crate) async fn change_object(
    server: &Server,
    target: &Target,
    manner: &Manner,
    change: impl Fn(Live<'_>) -> Result<Proposal>,
) -> Result<(Shown, Vec<String>)> {
    let resource = &*target.resource;
    let key = resource.key(target.namespace.as_deref(), target.name());
    for _ in 0..ATTEMPTS {
        let stored = server.store().kept(&key);
        let stored = stored.ok_or_else(|| ApiError::not_found(resource, target.name()))?;
        let make = |part: Part| {
            let live = Live {
                object: &part.object,
                owners: stored.owners(),
            };
            let new = make(server, target, manner, change(live)?, live)?;
            let is_same = is_same(&new.object, live.object) && new.owners.as_bytes() == live.owners;
            Ok((new, is_same, part.middle))
        };
        // What is refused is refused in view of the whole object, which the refusal may show.
        let small = Part::small(resource, manner, &stored).and_then(|part| make(part).ok());
        let (new, is_same, middle) =
            small.map_or_else(|| make(Part::whole(resource, &stored)), Ok)?;
        if is_same {
            return Ok((Shown::Stored(stored), new.warnings));
        }
        if manner.options.dry_run {
            return Ok(new.shown());
        }
        if let Some(outcome) = store(server, resource, (&key, &stored), (new, middle)).await? {
            return Ok(outcome);
        }
    }
    Err(ApiError::modified(resource, target.name()))
}

/// What a proposal makes of an object, checked.
fn make(
    server: &Server,
    target: &Target,
    manner: &Manner,
    mut proposal: Proposal,
    live: Live<'_>,
) -> Result<Prepared> {
    proposal.object = named(target, proposal.object)?;
    check_revision(&target.resource, &proposal.object, live.object)?;
    prepare(server, target, manner, proposal, live)
}

/// Stores a new state, or removes what nothing keeps any longer; nothing if somebody was faster.
async fn store(
    server: &Server,
    resource: &Resource,
    (key, seen): (&Key, &Kept),
    (new, middle): (Prepared, Bytes),
) -> Result<Option<(Shown, Vec<String>)>> {
    if metadata::is_deleting(&new.object) && is_released(resource, &new.object) {
        let removed = server.commit(Write::removal(key, seen)).await?;
        return Ok(removed.is_ok().then(|| new.shown()));
    }
    let write = Write {
        key: key.clone(),
        replaces: Some(seen.revision()),
        object: Some(Draft {
            middle,
            ..resource.to_storage(new.object, new.owners)
        }),
    };
    let stored = server.commit(write).await?;
    Ok(stored
        .ok()
        .map(|stored| (Shown::Stored(stored), new.warnings)))
}

/// Whether nothing keeps a deleted object any longer.
pub(crate) fn is_released(resource: &Resource, object: &Value) -> bool {
    let is_namespace = resource.group.is_empty() && resource.kind == "Namespace";
    let inner = object["spec"]["finalizers"].as_array();
    let is_empty = !is_namespace || inner.is_none_or(Vec::is_empty);
    metadata::finalizers(object).is_empty() && is_empty
}

/// Compares the revision that the client saw, if it says which.
fn check_revision(resource: &Resource, proposed: &Value, old: &Value) -> Result<()> {
    let name = metadata::name_of(old);
    let seen = metadata::text(proposed, "/metadata/resourceVersion");
    if seen.is_empty() || seen == "0" {
        if resource.replaces_unconditionally {
            return Ok(());
        }
        let why = "must be specified for an update";
        let fault = FieldError::invalid("metadata.resourceVersion", &json!(0), why);
        return Err(ApiError::invalid_thing(
            &resource.plural,
            &resource.group,
            name,
            &[fault],
        ));
    }
    if seen.parse::<u64>().is_err() {
        return Err(ApiError::internal(format!(
            "strconv.ParseUint: parsing {seen:?}: invalid syntax"
        )));
    }
    if seen != metadata::text(old, "/metadata/resourceVersion") {
        return Err(ApiError::modified(resource, name));
    }
    Ok(())
}

/// The object as it will be stored.
fn prepare(
    server: &Server,
    target: &Target,
    manner: &Manner,
    proposal: Proposal,
    live: Live<'_>,
) -> Result<Prepared> {
    let (resource, old) = (&*target.resource, live.object);
    let mut new = proposal.object;
    let warnings = super::clean(resource, &mut new, manner)?;
    let faults = match target.is_status {
        true => Vec::new(),
        false => metadata::immutable_faults(&new, old),
    };
    new = with_what_stays(target, new, old);
    if let Some(schema) = &resource.schema {
        schema.default(&mut new);
    } else {
        builtin::normalise(resource, &mut new);
    }
    if manner.caller.user().is_some() {
        builtin::keep(resource, &mut new, old);
    }
    access::check_escalation(server, &manner.caller, resource, &new, Some(old))?;
    if &*resource.storage == DEFINITIONS && !target.is_status {
        definitions::prepare_update(server, &mut new, old)?;
    }
    super::check(resource, &new, Some(old), target.is_status, faults)?;
    let owners = manner.owners(server, target, proposal.owners, live, &new);
    if !target.is_status {
        count_generation(resource, &mut new, old);
    }
    let reviewed = (resource, target.is_status);
    admission::check(server, &manner.caller, reviewed, Some(&new), Some(old))?;
    Ok(Prepared {
        object: new,
        owners,
        warnings,
    })
}

/// The new object with what of the old one this endpoint cannot change.
fn with_what_stays(target: &Target, mut new: Value, old: &Value) -> Value {
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

fn count_generation(resource: &Resource, new: &mut Value, old: &Value) {
    let apart: &[&str] = match resource.has_status {
        true => &["metadata", "status"],
        false => &["metadata"],
    };
    if resource.has_generation && !is_same_but(apart, new, old) {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
        new["metadata"]["generation"] = json!(generation + 1);
    }
}

/// The old object with the new status.
fn with_status(old: &Value, mut new: Value) -> Value {
    if is_same_but(&["status"], &new, old) {
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

/// Whether two objects are the same; the status, which changes most, is looked at first.
pub(super) fn is_same(one: &Value, two: &Value) -> bool {
    one.get("status") == two.get("status") && one == two
}

/// Whether two maps agree on all fields but these.
fn is_same_but(apart: &[&str], one: &Value, two: &Value) -> bool {
    let fields = |object: &'_ Value| object.as_object().map_or(0, |fields| fields.len());
    let others = |object: &Value| {
        let found = apart.iter().filter(|name| object.get(**name).is_some());
        fields(object) - found.count()
    };
    let is_same = |(name, value): (&String, &Value)| {
        apart.contains(&name.as_str()) || two.get(name) == Some(value)
    };
    others(one) == others(two) && one.as_object().into_iter().flatten().all(is_same)
}

/// What the collector needs to name an object by its stored state.
pub(crate) fn target_of(resource: Arc<Resource>, object: &Value) -> Target {
    Target {
        resource,
        namespace: metadata::namespace_of(object).map(str::to_owned),
        name: Some(metadata::name_of(object).to_owned()),
        is_status: false,
        is_scale: false,
    }
}

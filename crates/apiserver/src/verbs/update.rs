//! replace, and the one way in which any stored object changes.

use std::sync::Arc;

use axum::{body::Body, response::Response};
use serde_json::{Value, json};

use super::Call;
use crate::{
    Server, access,
    apply::{self, Ground, Operation, Writer},
    body,
    builtin::{self, DEFINITIONS},
    definitions, json, metadata,
    query::WriteOptions,
    resource::Resource,
    route::Target,
    schema::FieldError,
    status::{ApiError, Result},
    store::{Stale, Write},
};

/// How often a change without a `resourceVersion` is tried on a newer state.
const ATTEMPTS: usize = 100;
/// The name under which the server's own housekeeping changes objects.
const INTERNAL_MANAGER: &str = "kube-controller-manager";

pub(super) async fn replace(call: &Call<'_>, body: Body) -> Result<Response> {
    let resource = call.resource();
    let mut manner = Manner::of(call, "UpdateOptions")?;
    let bytes = body::read(body).await?;
    manner.look_for_repetition(&bytes);
    let object = body::check(
        resource,
        body::decode(call.headers(), &bytes, &resource.kind)?,
    )?;
    let key = resource.key(call.target.namespace.as_deref(), call.target.name());
    if resource.creates_on_replace && call.server.store().get(&key).is_none() {
        let object = named(&call.target, object)?;
        return super::create::insert(call, &manner, object).await;
    }
    let (object, warnings) = change_object(call.server, &call.target, &manner, |old| {
        check_uid(resource, &object, old)?;
        Ok(object.clone())
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
        Some(expected) if namespace.is_empty() || namespace == expected => {
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

/// How a change is to be made.
pub(crate) struct Manner {
    pub(super) options: WriteOptions,
    /// The server itself may do what clients may not.
    is_internal: bool,
    /// Who comes to own what is changed.
    pub(super) manager: String,
    pub(super) operation: Operation,
    /// Keys that the body has twice.
    pub(super) repeated: Vec<String>,
    /// Whether the object is the result of a patch, which words refusals differently.
    pub(super) is_patch: bool,
}

impl Manner {
    /// As a request asks; `kind` is the name of its options in error texts.
    pub(super) fn of(call: &Call<'_>, kind: &str) -> Result<Self> {
        Ok(Self {
            options: call.query.write_options(kind)?,
            is_internal: false,
            manager: call.manager(),
            operation: Operation::Update,
            repeated: Vec::new(),
            is_patch: false,
        })
    }

    /// A change by the server itself.
    pub(crate) fn internal() -> Self {
        Self::internal_as(INTERNAL_MANAGER)
    }

    /// A change by a part of the server.
    pub(super) fn internal_as(manager: &str) -> Self {
        Self {
            options: WriteOptions {
                dry_run: false,
                field_validation: "Ignore".to_owned(),
            },
            is_internal: true,
            manager: manager.to_owned(),
            operation: Operation::Update,
            repeated: Vec::new(),
            is_patch: false,
        }
    }

    /// Remembers the keys that a JSON body has twice, unless nobody wants to know.
    pub(super) fn look_for_repetition(&mut self, bytes: &[u8]) {
        if self.options.field_validation != "Ignore" {
            self.repeated = json::duplicates(bytes);
        }
    }

    /// The refusal of an object that strict validation found fault with.
    pub(super) fn undecodable(&self, resource: &Resource, object: &Value, why: &str) -> ApiError {
        if self.is_patch {
            let fault = FieldError::invalid("patch", &Value::String(object.to_string()), why);
            return ApiError::invalid_thing("", "", "", &[fault]);
        }
        ApiError::bad_request(format!(
            "{kind} in version {version:?} cannot be handled as a {kind}: {why}",
            kind = resource.kind,
            version = resource.version,
        ))
    }

    /// Who writes to an object of this kind, as it goes down in its `managedFields`.
    pub(super) fn writer(&self, server: &Server, resource: &Resource, is_status: bool) -> Writer {
        Writer {
            manager: self.manager.clone(),
            operation: self.operation,
            api_version: resource.api_version(),
            subresource: if is_status { "status" } else { "" }.to_owned(),
            time: server.now(),
        }
    }

    /// Sets the `managedFields` of `new`, which replaces `old` (an empty object: which is created).
    /// An apply has set them already.
    pub(super) fn record(
        &self,
        server: &Server,
        resource: &Resource,
        is_status: bool,
        old: &Value,
        new: &mut Value,
    ) {
        if self.operation == Operation::Update {
            let writer = self.writer(server, resource, is_status);
            let ground = Ground {
                kind: &resource.shape,
                reset: &resource.reset(is_status),
            };
            let owners = apply::after_update(&ground, old, new, &writer);
            set_owners(new, owners);
        }
        apply::keep_times(new, old);
    }
}

fn set_owners(object: &mut Value, owners: Value) {
    let metadata = metadata::fields(object);
    match owners.is_null() {
        true => metadata.remove("managedFields"),
        false => metadata.insert("managedFields".to_owned(), owners),
    };
}

/// Changes one object to what `change` makes of its newest state.
///
/// If the result names a `resourceVersion`, it must be that of the newest state. A change that
/// another writer got ahead of is made again on the newer state.
pub(crate) async fn change_object(
    server: &Server,
    target: &Target,
    manner: &Manner,
    change: impl Fn(&Value) -> Result<Value>,
) -> Result<(Value, Vec<String>)> {
    let resource = &*target.resource;
    let key = resource.key(target.namespace.as_deref(), target.name());
    for _ in 0..ATTEMPTS {
        let stored = server.store().get(&key);
        let stored = stored.ok_or_else(|| ApiError::not_found(resource, target.name()))?;
        let old = resource.present(&stored);
        let proposed = named(target, change(&old)?)?;
        check_revision(resource, &proposed, &old)?;
        let (new, warnings) = prepare(server, target, manner, proposed, &old)?;
        if new == old || manner.options.dry_run {
            return Ok((new, warnings));
        }
        let is_finished = metadata::is_deleting(&new) && is_released(resource, &new);
        let write = Write {
            key: key.clone(),
            replaces: Some(metadata::revision_of(&stored)),
            object: (!is_finished).then(|| resource.to_storage(new.clone())),
        };
        match server.commit(write).await? {
            Ok(_) if is_finished => return Ok((new, warnings)),
            Ok(stored) => return Ok((resource.present(&stored), warnings)),
            Err(Stale) => {}
        }
    }
    Err(ApiError::modified(resource, target.name()))
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

/// The object as it will be stored, and what the client should be warned about.
fn prepare(
    server: &Server,
    target: &Target,
    manner: &Manner,
    mut new: Value,
    old: &Value,
) -> Result<(Value, Vec<String>)> {
    let resource = &*target.resource;
    let warnings = super::clean(resource, &mut new, manner)?;
    let owners = new["metadata"]["managedFields"].take();
    let mut faults = Vec::new();
    if target.is_status {
        new = with_status(old, new);
    } else {
        faults = metadata::immutable_faults(&new, old);
        metadata::keep_server_fields(&mut new, old);
        if resource.has_status {
            set_or_remove(&mut new, "status", old.get("status"));
        }
    }
    new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"].clone();
    if let Some(schema) = &resource.schema {
        schema.default(&mut new);
    } else {
        builtin::normalise(resource, &mut new);
    }
    if !manner.is_internal {
        builtin::keep(resource, &mut new, old);
    }
    access::check_grant(server, resource, &new, Some(old))?;
    if &*resource.storage == DEFINITIONS && !target.is_status {
        definitions::prepare_update(server, &mut new, old)?;
    }
    super::check(resource, &new, Some(old), target.is_status, faults)?;
    set_owners(&mut new, owners);
    manner.record(server, resource, target.is_status, old, &mut new);
    if !target.is_status {
        count_generation(resource, &mut new, old);
    }
    Ok((new, warnings))
}

fn count_generation(resource: &Resource, new: &mut Value, old: &Value) {
    if resource.has_generation && is_new_generation(resource, new, old) {
        let generation = old["metadata"]["generation"].as_i64().unwrap_or(0);
        new["metadata"]["generation"] = json!(generation + 1);
    }
}

/// The old object with the new status.
fn with_status(old: &Value, mut new: Value) -> Value {
    let status = new
        .as_object_mut()
        .and_then(|fields| fields.remove("status"));
    let mut object = old.clone();
    set_or_remove(&mut object, "status", status.as_ref());
    object
}

fn set_or_remove(object: &mut Value, field: &str, value: Option<&Value>) {
    match value {
        Some(value) => object[field] = value.clone(),
        None => super::remove(object, field),
    }
}

/// Whether anything but metadata (and status, where it is apart) differs.
fn is_new_generation(resource: &Resource, new: &Value, old: &Value) -> bool {
    let fields = |object: &Value| {
        let mut fields = object.as_object().cloned().unwrap_or_default();
        fields.remove("metadata");
        if resource.has_status {
            fields.remove("status");
        }
        fields
    };
    fields(new) != fields(old)
}

/// What the collector needs to name an object by its stored state.
pub(crate) fn target_of(resource: Arc<Resource>, object: &Value) -> Target {
    Target {
        resource,
        namespace: metadata::namespace_of(object).map(str::to_owned),
        name: Some(metadata::name_of(object).to_owned()),
        is_status: false,
    }
}

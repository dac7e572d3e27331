//! The verb create.

use axum::{body::Body, response::Response};
use http::StatusCode;
use serde_json::{Value, json};

use super::{
    ObjectRequest, WriteOptions,
    proposal::{ManagedFieldsUpdate, PreparedObject, ProposedObject},
};
use crate::{
    Server, access, admission,
    apply::LiveObject,
    body,
    builtin::{self, DEFINITIONS},
    definitions,
    metadata::{self, CreationFields},
    representation::ResponseObject,
    resource::Resource,
    route::RequestTarget,
    status::{ApiError, Result},
    store::{ObjectWrite, RevisionConflict},
};

/// How many generated names are tried.
const NAME_ATTEMPTS: usize = 8;

pub(super) async fn create(request: &ObjectRequest<'_>, body: Body) -> Result<Response> {
    let resource = request.resource();
    let mut options = WriteOptions::of(request, "CreateOptions")?;
    let bytes = body::read(body).await?;
    let object = body::decode_object(request.headers(), &bytes, resource)?;
    options.find_duplicate_keys(&bytes, &object);
    let object = body::check(resource, object)?;
    insert(request, &options, object.into()).await
}

/// Creates a decoded object.
pub(super) async fn insert(
    request: &ObjectRequest<'_>,
    options: &WriteOptions,
    proposal: ProposedObject,
) -> Result<Response> {
    let resource = request.resource();
    let ProposedObject {
        object,
        managed_fields,
    } = proposal;
    let object = with_namespace(request, object)?;
    check_namespace(request.server, resource, &object)?;
    definitions::check_accepts_objects(request.server, resource)?;
    for _ in 1..NAME_ATTEMPTS {
        let proposal = ProposedObject {
            object: object.clone(),
            managed_fields: managed_fields.clone(),
        };
        match attempt(request, options, proposal).await {
            Err(CreateError::GeneratedNameTaken) => {}
            Err(CreateError::Failed(error)) => return Err(error),
            Ok(response) => return Ok(response),
        }
    }
    let base = metadata::text(&object, "/metadata/generateName");
    Err(ApiError::already_exists(resource, base))
}

/// Why an object was not created.
enum CreateError {
    /// The generated name is in use: another one has to be tried.
    GeneratedNameTaken,
    Failed(ApiError),
}

impl From<ApiError> for CreateError {
    fn from(error: ApiError) -> Self {
        Self::Failed(error)
    }
}

async fn attempt(
    request: &ObjectRequest<'_>,
    options: &WriteOptions,
    proposal: ProposedObject,
) -> Result<Response, CreateError> {
    let resource = request.resource();
    let is_generated = metadata::name_of(&proposal.object).is_empty();
    let new = prepare(request.server, &request.target, proposal, options)?;
    let name = metadata::name_of(&new.object).to_owned();
    let key = resource.key(metadata::namespace_of(&new.object), &name);
    if let Some(present) = request.server.store().object(&key) {
        return Err(
            match (is_generated, metadata::is_stored_deleting(&present)) {
                (true, _) => CreateError::GeneratedNameTaken,
                (false, true) => ApiError::being_deleted(resource, &name).into(),
                (false, false) => ApiError::already_exists(resource, &name).into(),
            },
        );
    }
    if options.dry_run {
        return Ok(created(request, new.into_response()));
    }
    let write = ObjectWrite {
        key,
        expected_revision: None,
        object: Some(resource.to_storage(new.object, new.managed_fields)),
    };
    match request.server.commit(write).await? {
        Ok(stored) => Ok(created(
            request,
            (ResponseObject::Stored(stored), new.warnings),
        )),
        Err(RevisionConflict) if is_generated => Err(CreateError::GeneratedNameTaken),
        Err(RevisionConflict) => Err(ApiError::already_exists(resource, &name).into()),
    }
}

fn created(
    request: &ObjectRequest<'_>,
    (object, warnings): (ResponseObject, Vec<String>),
) -> Response {
    let mut response = request.respond_with(&object);
    *response.status_mut() = StatusCode::CREATED;
    super::with_warnings(response, &warnings)
}

/// Sets the namespace of the path, and refuses another one.
fn with_namespace(request: &ObjectRequest<'_>, mut object: Value) -> Result<Value> {
    let metadata = metadata::fields(&mut object);
    if let Some(version) = metadata.get("resourceVersion")
        && version.as_str() != Some("")
    {
        return Err(ApiError::internal(
            "resourceVersion should not be set on objects to be created",
        ));
    }
    let given = metadata
        .get("namespace")
        .and_then(Value::as_str)
        .unwrap_or_default();
    match &request.target.namespace {
        Some(namespace) if given.is_empty() || given == namespace => {
            metadata.insert("namespace".into(), json!(namespace));
        }
        None => {
            metadata.remove("namespace");
        }
        _ => {
            return Err(ApiError::bad_request(
                "the namespace of the provided object does not match the namespace sent on the request",
            ));
        }
    }
    Ok(object)
}

fn check_namespace(server: &Server, resource: &Resource, object: &Value) -> Result<()> {
    let Some(namespace) = metadata::namespace_of(object) else {
        return Ok(());
    };
    let namespaces = server
        .registry()
        .find("", "v1", "namespaces")
        .expect("namespaces are built in");
    let Some(stored) = server.store().object(&namespaces.key(None, namespace)) else {
        return Err(ApiError::not_found(&namespaces, namespace));
    };
    if metadata::is_stored_deleting(&stored) {
        let why = format!(
            "unable to create new content in namespace {namespace} because it is being terminated"
        );
        let cause = json!([{
            "reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        }]);
        return Err(ApiError::forbidden(
            resource,
            metadata::name_of(object),
            &why,
            cause,
        ));
    }
    Ok(())
}

/// Completes and validates a new object.
fn prepare(
    server: &Server,
    target: &RequestTarget,
    proposal: ProposedObject,
    options: &WriteOptions,
) -> Result<PreparedObject> {
    let resource = &*target.resource;
    let mut object = proposal.object;
    let creation = CreationFields {
        uid: uid(server),
        now: server.now(),
        random: server.random(),
    };
    let warnings = super::prune(resource, &mut object, options)?;
    complete(resource, &mut object, &creation);
    access::check_escalation(server, &options.caller, resource, &object, None)?;
    if &*resource.storage == DEFINITIONS {
        definitions::prepare_new(server, &mut object)?;
    }
    let managed_fields = managed_fields(server, target, options, proposal.managed_fields, &object);
    if resource.schema.is_none() {
        builtin::complete_new(resource, &mut object);
    }
    super::validate(resource, &object, None, false, Vec::new())?;
    admission::check(
        server,
        &options.caller,
        (resource, false),
        Some(&object),
        None,
    )?;
    Ok(PreparedObject {
        object,
        managed_fields,
        warnings,
    })
}

/// The `managedFields` of a new object, as JSON.
fn managed_fields(
    server: &Server,
    target: &RequestTarget,
    options: &WriteOptions,
    proposed: ManagedFieldsUpdate,
    object: &Value,
) -> String {
    let nothing = json!({});
    let live = LiveObject {
        object: &nothing,
        managed_fields: &[],
    };
    let managed_fields = options.managed_fields(server, target, proposed, live, object);
    match &*target.resource.storage == DEFINITIONS {
        true => with_status_manager(server, target, object, &managed_fields),
        false => managed_fields,
    }
}

/// Sets the metadata and defaults of a new object.
fn complete(resource: &Resource, object: &mut Value, creation: &CreationFields) {
    if resource.has_status {
        super::remove(object, "status");
    }
    metadata::prepare_new(resource, object, creation);
    if let Some(schema) = &resource.schema {
        schema.default(object);
    } else {
        builtin::default_new(resource, object);
        builtin::normalise(resource, object);
    }
}

/// The `managedFields` of a new definition, whose status the server owns.
fn with_status_manager(
    server: &Server,
    target: &RequestTarget,
    object: &Value,
    managed_fields: &str,
) -> String {
    let mut before = object.clone();
    super::remove(&mut before, "status");
    let live = LiveObject {
        object: &before,
        managed_fields: managed_fields.as_bytes(),
    };
    let target = RequestTarget {
        is_status: true,
        ..target.clone()
    };
    let options = WriteOptions::internal_as("kube-apiserver");
    options.managed_fields(
        server,
        &target,
        ManagedFieldsUpdate::Tracked(Value::Null),
        live,
        object,
    )
}

/// A random (version 4) UUID.
fn uid(server: &Server) -> String {
    let (high, low) = (server.random(), server.random());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        high >> 32,
        (high >> 16) & 0xffff,
        high & 0xfff,
        ((low >> 48) & 0x3fff) | 0x8000,
        low & 0xffff_ffff_ffff,
    )
}

/// Creates the namespaces that every cluster has.
pub(crate) async fn create_default_namespaces(server: &Server) {
    let names = ["default", "kube-node-lease", "kube-public", "kube-system"];
    let creations = names.map(|name| {
        let object = json!({"metadata": {"name": name}});
        create_default(server, "", "namespaces", object)
    });
    futures::future::join_all(creations).await;
}

/// Creates one built-in object unless it exists.
pub(crate) async fn create_default(server: &Server, group: &str, plural: &str, mut object: Value) {
    let resource = server.registry().find(group, "v1", plural);
    let resource = resource.expect("a built-in kind");
    let key = resource.key(None, metadata::name_of(&object));
    if server.store().object(&key).is_some() {
        return;
    }
    object["kind"] = json!(resource.kind);
    object["apiVersion"] = json!(resource.api_version());
    let options = WriteOptions::internal_as("kube-apiserver");
    let target = super::target_for(resource.clone(), &object);
    let new = prepare(server, &target, object.into(), &options).expect("a valid object");
    let write = ObjectWrite {
        key,
        expected_revision: None,
        object: Some(resource.to_storage(new.object, new.managed_fields)),
    };
    // A store that fails here also fails the first request.
    let _ = server.store().commit(write).await;
}

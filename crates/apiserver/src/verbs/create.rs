//! create.

use axum::{body::Body, response::Response};
use http::StatusCode;
use serde_json::{Value, json};

use super::{
    Call, Manner,
    proposal::{Owners, Prepared, Proposal},
};
use crate::{
    Server, access, admission,
    apply::Live,
    body,
    builtin::{self, DEFINITIONS},
    definitions,
    metadata::{self, Birth},
    resource::Resource,
    route::Target,
    status::{ApiError, Result},
    store::{Stale, Write},
    view::Shown,
};

/// How often a generated name is drawn again when it is taken.
const NAME_ATTEMPTS: usize = 8;

pub(super) async fn create(call: &Call<'_>, body: Body) -> Result<Response> {
    let resource = call.resource();
    let mut manner = Manner::of(call, "CreateOptions")?;
    let bytes = body::read(body).await?;
    let object = body::decode_object(call.headers(), &bytes, resource)?;
    manner.look_for_repetition(&bytes, &object);
    let object = body::check(resource, object)?;
    insert(call, &manner, object.into()).await
}

/// Creates a decoded object.
pub(super) async fn insert(
    call: &Call<'_>,
    manner: &Manner,
    proposal: Proposal,
) -> Result<Response> {
    let resource = call.resource();
    let Proposal { object, owners } = proposal;
    let object = placed(call, object)?;
    check_namespace(call.server, resource, &object)?;
    definitions::check_accepts_objects(call.server, resource)?;
    for _ in 1..NAME_ATTEMPTS {
        let proposal = Proposal {
            object: object.clone(),
            owners: owners.clone(),
        };
        match attempt(call, manner, proposal).await {
            Err(Taken::ByChance) => {}
            Err(Taken::OnPurpose(error)) => return Err(error),
            Ok(response) => return Ok(response),
        }
    }
    let base = metadata::text(&object, "/metadata/generateName");
    Err(ApiError::already_exists(resource, base))
}

/// Why a create did not go through.
enum Taken {
    /// A generated name is in use: draw another.
    ByChance,
    OnPurpose(ApiError),
}

impl From<ApiError> for Taken {
    fn from(error: ApiError) -> Self {
        Self::OnPurpose(error)
    }
}

async fn attempt(call: &Call<'_>, manner: &Manner, proposal: Proposal) -> Result<Response, Taken> {
    let resource = call.resource();
    let is_generated = metadata::name_of(&proposal.object).is_empty();
    let new = prepare(call.server, &call.target, proposal, manner)?;
    let name = metadata::name_of(&new.object).to_owned();
    let key = resource.key(metadata::namespace_of(&new.object), &name);
    if let Some(present) = call.server.store().kept(&key) {
        return Err(
            match (is_generated, metadata::is_stored_deleting(&present)) {
                (true, _) => Taken::ByChance,
                (false, true) => ApiError::being_deleted(resource, &name).into(),
                (false, false) => ApiError::already_exists(resource, &name).into(),
            },
        );
    }
    if manner.options.dry_run {
        return Ok(created(call, new.shown()));
    }
    let write = Write {
        key,
        replaces: None,
        object: Some(resource.to_storage(new.object, new.owners)),
    };
    match call.server.commit(write).await? {
        Ok(stored) => Ok(created(call, (Shown::Stored(stored), new.warnings))),
        Err(Stale) if is_generated => Err(Taken::ByChance),
        Err(Stale) => Err(ApiError::already_exists(resource, &name).into()),
    }
}

fn created(call: &Call<'_>, (object, warnings): (Shown, Vec<String>)) -> Response {
    let mut response = call.show(&object);
    *response.status_mut() = StatusCode::CREATED;
    super::with_warnings(response, &warnings)
}

/// Puts the object into the namespace of the path, and refuses another one.
fn placed(call: &Call<'_>, mut object: Value) -> Result<Value> {
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
    match &call.target.namespace {
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
    let Some(stored) = server.store().kept(&namespaces.key(None, namespace)) else {
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

/// The object as it will be stored.
fn prepare(
    server: &Server,
    target: &Target,
    proposal: Proposal,
    manner: &Manner,
) -> Result<Prepared> {
    let resource = &*target.resource;
    let mut object = proposal.object;
    let birth = Birth {
        uid: uid(server),
        now: server.now(),
        random: server.random(),
    };
    let warnings = super::clean(resource, &mut object, manner)?;
    complete(resource, &mut object, &birth);
    access::check_escalation(server, &manner.caller, resource, &object, None)?;
    let is_definition = &*resource.storage == DEFINITIONS;
    if is_definition {
        definitions::prepare_new(server, &mut object)?;
    }
    let nothing = json!({});
    let live = Live {
        object: &nothing,
        owners: &[],
    };
    let mut owners = manner.owners(server, target, proposal.owners, live, &object);
    if is_definition {
        owners = with_status_owner(server, target, &object, &owners);
    }
    if resource.schema.is_none() {
        builtin::complete_new(resource, &mut object);
    }
    super::check(resource, &object, None, false, Vec::new())?;
    admission::check(
        server,
        &manner.caller,
        (resource, false),
        Some(&object),
        None,
    )?;
    Ok(Prepared {
        object,
        owners,
        warnings,
    })
}

/// Fills in what a new object does not say.
fn complete(resource: &Resource, object: &mut Value, birth: &Birth) {
    if resource.has_status {
        super::remove(object, "status");
    }
    metadata::prepare_new(resource, object, birth);
    if let Some(schema) = &resource.schema {
        schema.default(object);
    } else {
        builtin::default_new(resource, object);
        builtin::normalise(resource, object);
    }
}

/// The owners of a new definition; its status is the server's own.
fn with_status_owner(server: &Server, target: &Target, object: &Value, owners: &str) -> String {
    let mut before = object.clone();
    super::remove(&mut before, "status");
    let live = Live {
        object: &before,
        owners: owners.as_bytes(),
    };
    let target = Target {
        is_status: true,
        ..target.clone()
    };
    let manner = Manner::internal_as("kube-apiserver");
    manner.owners(server, &target, Owners::Tracked(Value::Null), live, object)
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

/// Makes the namespaces that every cluster has.
pub(crate) async fn create_first_namespaces(server: &Server) {
    let names = ["default", "kube-node-lease", "kube-public", "kube-system"];
    let creations = names.map(|name| {
        let object = json!({"metadata": {"name": name}});
        create_default(server, "", "namespaces", object)
    });
    futures::future::join_all(creations).await;
}

/// Makes one built-in object of the server's own, unless it is there already.
pub(crate) async fn create_default(server: &Server, group: &str, plural: &str, mut object: Value) {
    let resource = server.registry().find(group, "v1", plural);
    let resource = resource.expect("a built-in kind");
    let key = resource.key(None, metadata::name_of(&object));
    if server.store().kept(&key).is_some() {
        return;
    }
    object["kind"] = json!(resource.kind);
    object["apiVersion"] = json!(resource.api_version());
    let manner = Manner::internal_as("kube-apiserver");
    let target = super::target_of(resource.clone(), &object);
    let new = prepare(server, &target, object.into(), &manner).expect("a valid object");
    let write = Write {
        key,
        replaces: None,
        object: Some(resource.to_storage(new.object, new.owners)),
    };
    // A store that cannot keep it says so again at the first request.
    let _ = server.store().commit(write).await;
}

//! Server-side apply: merges a configuration into an object, or creates the object.

use axum::{body::Body, response::Response};
use serde_json::{Value, json};

use super::{
    ObjectRequest, WriteOptions, create,
    proposal::{ManagedFieldsUpdate, ProposedObject},
    update::{change_object, check_identity},
};
use crate::{
    apply::{self, ApplyError, LiveObject, ManagerOperation, OwnershipContext},
    body, metadata,
    schema::FieldError,
    status::{ApiError, Result},
};

/// How often an apply is retried when the object is created or deleted meanwhile.
const ATTEMPTS: usize = 10;

pub(super) async fn apply(request: &ObjectRequest<'_>, body: Body) -> Result<Response> {
    let resource = request.resource();
    if request.query.field_manager.is_empty() {
        let error = FieldError::required("fieldManager", "is required for apply patch");
        return Err(ApiError::invalid_options("PatchOptions", error));
    }
    let mut options = WriteOptions::of(request, "PatchOptions")?;
    options.operation = ManagerOperation::Apply;
    let config = decode(request, &body::read(body).await?)?;
    let key = resource.key(request.target.namespace.as_deref(), request.target.name());
    for _ in 0..ATTEMPTS {
        if request.server.store().object(&key).is_none() && !request.target.is_status {
            match create(request, &options, &config).await {
                Err(error) if error.is_already_exists() => continue,
                answer => return answer,
            }
        }
        let change = |live: LiveObject<'_>| applied(request, &options, live, &config);
        match change_object(request.server, &request.target, &options, change).await {
            Err(error) if error.is_not_found() && !request.target.is_status => {}
            Err(error) => return Err(error),
            Ok((object, warnings)) => {
                return Ok(super::with_warnings(
                    request.respond_with(&object),
                    &warnings,
                ));
            }
        }
    }
    Err(ApiError::modified(resource, request.target.name()))
}

/// Reads a configuration and checks its kind.
fn decode(request: &ObjectRequest<'_>, bytes: &[u8]) -> Result<Value> {
    let resource = request.resource();
    let refuse = |how: &str, error: String| {
        ApiError::bad_request(format!(
            "error {how} YAML: error converting YAML to JSON: yaml: {error}"
        ))
    };
    let config = body::from_yaml(bytes, false).map_err(|error| refuse("decoding", error))?;
    if request.query.field_validation == "Strict" {
        body::from_yaml(bytes, true).map_err(|error| refuse("strict decoding", error))?;
    }
    let (version, kind) = (
        metadata::text(&config, "/apiVersion"),
        metadata::text(&config, "/kind"),
    );
    if version != resource.api_version() || kind != resource.kind {
        let version = if version.is_empty() { "/" } else { version };
        let core = if version.contains('/') { "" } else { "/" };
        return Err(ApiError::bad_request(format!(
            "invalid object type: {core}{version}, Kind={kind}"
        )));
    }
    if !config["metadata"]["managedFields"].is_null() {
        return Err(ApiError::bad_request("metadata.managedFields must be nil"));
    }
    Ok(config)
}

async fn create(
    request: &ObjectRequest<'_>,
    options: &WriteOptions,
    config: &Value,
) -> Result<Response> {
    let resource = request.resource();
    let nothing = json!({});
    let live = LiveObject {
        object: &nothing,
        managed_fields: &[],
    };
    let proposal = applied(request, options, live, config)?;
    let uid = metadata::text(&proposal.object, "/metadata/uid");
    if !uid.is_empty() {
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        return Err(ApiError::conflict(resource, request.target.name(), &why));
    }
    create::insert(request, options, proposal).await
}

/// The live object, or an empty one, with the configuration merged in.
fn applied(
    request: &ObjectRequest<'_>,
    options: &WriteOptions,
    live: LiveObject<'_>,
    config: &Value,
) -> Result<ProposedObject> {
    let resource = request.resource();
    let is_status = request.target.is_status;
    let context = OwnershipContext {
        kind: &resource.object_type,
        reset: resource.reset_fields(is_status),
    };
    let field_manager = options.field_manager(request.server, resource, is_status);
    let force = request.query.force.unwrap_or(false);
    let applied = apply::applied(&context, live, config, &field_manager, force);
    let (object, managed_fields) = applied.map_err(|refusal| match refusal {
        ApplyError::Conflicts(conflicts) => ApiError::apply_conflicts(&conflicts),
        ApplyError::TypeMismatch(error) => ApiError::internal(format!(
            "failed to create typed patch object ({}/{}; {}/{}, Kind={}): {error}",
            metadata::text(config, "/metadata/namespace"),
            metadata::text(config, "/metadata/name"),
            resource.group,
            resource.version,
            resource.kind,
        )),
    })?;
    Ok(ProposedObject {
        object: body::check_patched(resource, check_identity(&request.target, object)?)?,
        managed_fields: ManagedFieldsUpdate::Computed(managed_fields),
    })
}

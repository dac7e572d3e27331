//! Server-side apply: a configuration is merged into the object, or becomes it.

use axum::{body::Body, response::Response};
use serde_json::{Value, json};

use super::{
    Call, Manner, create,
    proposal::{Owners, Proposal},
    update::{change_object, named},
};
use crate::{
    apply::{self, Ground, Live, Operation, Refusal},
    body, metadata,
    schema::FieldError,
    status::{ApiError, Result},
};

/// How often an object that comes and goes is looked for again.
const ATTEMPTS: usize = 10;

pub(super) async fn apply(call: &Call<'_>, body: Body) -> Result<Response> {
    let resource = call.resource();
    if call.query.field_manager.is_empty() {
        let fault = FieldError::required("fieldManager", "is required for apply patch");
        return Err(ApiError::invalid_options("PatchOptions", fault));
    }
    let mut manner = Manner::of(call, "PatchOptions")?;
    manner.operation = Operation::Apply;
    let config = decode(call, &body::read(body).await?)?;
    let key = resource.key(call.target.namespace.as_deref(), call.target.name());
    for _ in 0..ATTEMPTS {
        if call.server.store().kept(&key).is_none() && !call.target.is_status {
            match create(call, &manner, &config).await {
                Err(error) if error.is_already_there() => continue,
                answer => return answer,
            }
        }
        let change = |live: Live<'_>| applied(call, &manner, live, &config);
        match change_object(call.server, &call.target, &manner, change).await {
            Err(error) if error.is_not_found() && !call.target.is_status => {}
            Err(error) => return Err(error),
            Ok((object, warnings)) => {
                return Ok(super::with_warnings(call.show(&object), &warnings));
            }
        }
    }
    Err(ApiError::modified(resource, call.target.name()))
}

/// Reads a configuration and checks that it is one of this kind.
fn decode(call: &Call<'_>, bytes: &[u8]) -> Result<Value> {
    let resource = call.resource();
    let refuse = |how: &str, fault: String| {
        ApiError::bad_request(format!(
            "error {how} YAML: error converting YAML to JSON: yaml: {fault}"
        ))
    };
    let config = body::from_yaml(bytes, false).map_err(|fault| refuse("decoding", fault))?;
    if call.query.field_validation == "Strict" {
        body::from_yaml(bytes, true).map_err(|fault| refuse("strict decoding", fault))?;
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

async fn create(call: &Call<'_>, manner: &Manner, config: &Value) -> Result<Response> {
    let resource = call.resource();
    let nothing = json!({});
    let live = Live {
        object: &nothing,
        owners: &[],
    };
    let proposal = applied(call, manner, live, config)?;
    let uid = metadata::text(&proposal.object, "/metadata/uid");
    if !uid.is_empty() {
        let why = format!(
            "uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        );
        return Err(ApiError::conflict(resource, call.target.name(), &why));
    }
    create::insert(call, manner, proposal).await
}

/// The live object with the configuration merged in; an empty one becomes the configuration.
fn applied(call: &Call<'_>, manner: &Manner, live: Live<'_>, config: &Value) -> Result<Proposal> {
    let resource = call.resource();
    let is_status = call.target.is_status;
    let ground = Ground {
        kind: &resource.shape,
        reset: resource.reset(is_status),
    };
    let writer = manner.writer(call.server, resource, is_status);
    let force = call.query.force.unwrap_or(false);
    let applied = apply::applied(&ground, live, config, &writer, force);
    let (object, owners) = applied.map_err(|refusal| match refusal {
        Refusal::Conflicts(conflicts) => ApiError::contested(&conflicts),
        Refusal::Misfit(fault) => ApiError::internal(format!(
            "failed to create typed patch object ({}/{}; {}/{}, Kind={}): {fault}",
            metadata::text(config, "/metadata/namespace"),
            metadata::text(config, "/metadata/name"),
            resource.group,
            resource.version,
            resource.kind,
        )),
    })?;
    Ok(Proposal {
        object: body::check_patched(resource, named(&call.target, object)?)?,
        owners: Owners::Settled(owners),
    })
}

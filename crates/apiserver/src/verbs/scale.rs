//! The `scale` subresource of built-in workloads.

use axum::{body::Body, response::Response};
use http::Method;
use serde_json::{Value, json};

use super::{
    ObjectRequest, WriteOptions, ok_json, patch, proposal::ProposedObject, update::change_object,
};
use crate::{
    apply::LiveObject,
    body, metadata,
    resource::Resource,
    schema::FieldError,
    status::{ApiError, Result},
    types::Type,
};

/// Whether this kind has the `scale` subresource.
pub(crate) fn has_scale(resource: &Resource) -> bool {
    resource.group == "apps"
        && matches!(
            resource.kind.as_str(),
            "Deployment" | "ReplicaSet" | "StatefulSet"
        )
}

/// Reads or changes the scale of one object.
pub(super) async fn answer(request: &ObjectRequest<'_>, body: Body) -> Result<Response> {
    let update = match request.parts.method {
        Method::GET => return get(request),
        Method::PUT => ScaleUpdate::Replace(read(request, body).await?),
        Method::PATCH => ScaleUpdate::Patch(patch::read_scale_patch(request, body).await?),
        _ => return Err(ApiError::method_not_allowed()),
    };
    let options = WriteOptions::of(request, "UpdateOptions")?;
    let resource = request.resource();
    let changed = change_object(request.server, &request.target, &options, |live| {
        update.proposal(resource, live.object)
    });
    let (object, warnings) = changed.await?;
    let scale = scale(&object.value(resource));
    Ok(super::with_warnings(ok_json(&scale), &warnings))
}

fn get(request: &ObjectRequest<'_>) -> Result<Response> {
    let resource = request.resource();
    let key = resource.key(request.target.namespace.as_deref(), request.target.name());
    let stored = request.server.store().value(&key);
    let stored = stored.ok_or_else(|| ApiError::not_found(resource, request.target.name()))?;
    Ok(ok_json(&scale(&stored)))
}

async fn read(request: &ObjectRequest<'_>, body: Body) -> Result<Value> {
    let bytes = body::read(body).await?;
    body::decode(
        request.headers(),
        &bytes,
        "Scale",
        Some(&Type::named("Scale")),
    )
}

/// A change of a scale.
enum ScaleUpdate {
    Replace(Value),
    Patch(patch::Patch),
}

impl ScaleUpdate {
    fn proposal(&self, resource: &Resource, object: &Value) -> Result<ProposedObject> {
        let old = scale(object);
        let new = match self {
            Self::Replace(new) => new.clone(),
            Self::Patch(patch) => {
                let live = LiveObject {
                    object: &old,
                    managed_fields: &[],
                };
                patch::patched(patch, resource, live)?
            }
        };
        let replicas = new["spec"]["replicas"].as_i64().unwrap_or(0);
        if !(0..=i64::from(i32::MAX)).contains(&replicas) {
            let why = "must be greater than or equal to 0";
            let error = FieldError::invalid("spec.replicas", &json!(replicas), why);
            let name = metadata::name_of(object);
            return Err(ApiError::invalid_kind(
                "Scale",
                "autoscaling",
                name,
                &[error],
            ));
        }
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = new["metadata"]["resourceVersion"].clone();
        object["spec"]["replicas"] = json!(replicas);
        Ok(object.into())
    }
}

/// The scale of an object.
fn scale(object: &Value) -> Value {
    let mut identity = json!({});
    for field in [
        "name",
        "namespace",
        "uid",
        "resourceVersion",
        "creationTimestamp",
    ] {
        if let Some(value) = object["metadata"].get(field) {
            identity[field] = value.clone();
        }
    }
    let labels = object["spec"]["selector"]["matchLabels"].as_object();
    let labels = labels.into_iter().flatten();
    let selector: Vec<String> = labels
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    let count = |value: &Value| value.as_i64().unwrap_or(0);
    json!({
        "apiVersion": "autoscaling/v1",
        "kind": "Scale",
        "metadata": identity,
        "spec": {"replicas": count(&object["spec"]["replicas"])},
        "status": {"replicas": count(&object["status"]["replicas"]), "selector": selector.join(",")},
    })
}

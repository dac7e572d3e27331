//! The scale of a built-in workload: how many replicas it has, as an object of its own.

use axum::{body::Body, response::Response};
use http::Method;
use serde_json::{Value, json};

use super::{Call, Manner, patch, proposal::Proposal, shown, update::change_object};
use crate::{
    apply::Live,
    body, metadata,
    resource::Resource,
    schema::FieldError,
    status::{ApiError, Result},
    types::Type,
};

/// Whether objects of this kind can be scaled.
pub(crate) fn has_scale(resource: &Resource) -> bool {
    resource.group == "apps"
        && matches!(
            resource.kind.as_str(),
            "Deployment" | "ReplicaSet" | "StatefulSet"
        )
}

/// Shows or changes the scale of one object.
pub(super) async fn answer(call: &Call<'_>, body: Body) -> Result<Response> {
    let change = match call.parts.method {
        Method::GET => return show(call),
        Method::PUT => Change::Replace(read(call, body).await?),
        Method::PATCH => Change::Patch(patch::read(call, body).await?),
        _ => return Err(ApiError::method_not_allowed()),
    };
    let manner = Manner::of(call, "UpdateOptions")?;
    let resource = call.resource();
    let changed = change_object(call.server, &call.target, &manner, |live| {
        change.proposal(resource, live.object)
    });
    let (object, warnings) = changed.await?;
    let scale = scale(&object.value(resource));
    Ok(super::with_warnings(shown(&scale), &warnings))
}

fn show(call: &Call<'_>) -> Result<Response> {
    let resource = call.resource();
    let key = resource.key(call.target.namespace.as_deref(), call.target.name());
    let stored = call.server.store().get(&key);
    let stored = stored.ok_or_else(|| ApiError::not_found(resource, call.target.name()))?;
    Ok(shown(&scale(&stored)))
}

async fn read(call: &Call<'_>, body: Body) -> Result<Value> {
    let bytes = body::read(body).await?;
    body::decode(call.headers(), &bytes, "Scale", Some(&Type::named("Scale")))
}

/// What is to become of a scale.
enum Change {
    Replace(Value),
    Patch(patch::Change),
}

impl Change {
    fn proposal(&self, resource: &Resource, object: &Value) -> Result<Proposal> {
        let old = scale(object);
        let new = match self {
            Self::Replace(new) => new.clone(),
            Self::Patch(change) => {
                let live = Live {
                    object: &old,
                    owners: &[],
                };
                patch::changed(change, resource, live)?
            }
        };
        let replicas = new["spec"]["replicas"].as_i64().unwrap_or(0);
        if !(0..=i64::from(i32::MAX)).contains(&replicas) {
            let why = "must be greater than or equal to 0";
            let fault = FieldError::invalid("spec.replicas", &json!(replicas), why);
            let name = metadata::name_of(object);
            return Err(ApiError::invalid_thing(
                "Scale",
                "autoscaling",
                name,
                &[fault],
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

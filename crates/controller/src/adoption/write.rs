//! Writes copies, originals and their status: only what differs, with the resourceVersion that was read.

use api::{Pipeline, WegoPipeline, conditions, names::REQUEST_ANNOTATION};
use kube::{
    Api, Resource, ResourceExt,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use planner::{Adoption, EditableFields, PipelineEvent};
use serde_json::{Value, json};

use super::AdoptionReconciler;
use crate::FIELD_MANAGER;
use runtime::{
    ObjectKey, merge_patch,
    status::{StatusError, StatusPatch},
};

fn parameters() -> PatchParams {
    PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    }
}

fn check_leader(reconciler: &AdoptionReconciler) -> Result<(), StatusError> {
    match reconciler.telemetry.leader.may_write() {
        true => Ok(()),
        false => Err(StatusError::NotLeading),
    }
}

/// Creates the copy, or changes what differs from the one that was found.
pub(super) async fn copy(
    reconciler: &AdoptionReconciler,
    found: Option<&Pipeline>,
    copy: &Pipeline,
) -> Result<(), StatusError> {
    check_leader(reconciler)?;
    let key = ObjectKey::of(&copy.metadata);
    let copies: Api<Pipeline> = Api::namespaced(reconciler.hub.clone(), &key.namespace);
    let Some(found) = found else {
        let create = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        copies.create(&create, copy).await?;
        tracing::info!(pipeline = %key, "adopted the Pipeline");
        return Ok(());
    };
    let Some(mut patch) = merge_patch(&shown(found), &shown(copy)) else {
        return Ok(());
    };
    patch["metadata"]["resourceVersion"] = json!(found.metadata.resource_version);
    let patch = Patch::Merge(&patch);
    copies.patch(&key.name, &parameters(), &patch).await?;
    Ok(())
}

/// What is kept equal.
fn shown(pipeline: &Pipeline) -> Value {
    let metadata = &pipeline.metadata;
    json!({
        "metadata": {
            "labels": metadata.labels,
            "annotations": metadata.annotations,
            "ownerReferences": metadata.owner_references,
        },
        "spec": pipeline.spec,
    })
}

/// Writes what people changed on the copy to the original, and no other field of it. Its
/// environments are one list, which is written as it was read apart from that.
pub(super) async fn wishes(
    reconciler: &AdoptionReconciler,
    original: &WegoPipeline,
    wishes: &EditableFields,
) -> Result<(), StatusError> {
    check_leader(reconciler)?;
    let key = ObjectKey::of(&original.metadata);
    let (group, version) = (WegoPipeline::group(&()), WegoPipeline::version(&()));
    let kind = GroupVersionKind::gvk(&group, &version, &WegoPipeline::kind(&()));
    let resource = ApiResource::from_gvk(&kind);
    let originals: Api<DynamicObject> =
        Api::namespaced_with(reconciler.hub.clone(), &key.namespace, &resource);
    let before = originals.get(&key.name).await?;
    if before.resource_version() != original.resource_version() {
        // Its newer state is on its way here and is looked at then.
        return Ok(());
    }
    let mut environments = before.data["spec"]["environments"].clone();
    for environment in environments.as_array_mut().into_iter().flatten() {
        let name = environment["name"].as_str().unwrap_or_default();
        let suspend = wishes.suspended.contains(name);
        match (suspend, environment.as_object_mut()) {
            (true, Some(fields)) => drop(fields.insert("suspend".to_owned(), json!(true))),
            (false, Some(fields)) => drop(fields.remove("suspend")),
            (_, None) => {}
        }
    }
    let mut spec = json!({"suspend": wishes.suspend.then_some(true)});
    if environments != before.data["spec"]["environments"] {
        spec["environments"] = environments;
    }
    let patch = json!({
        "metadata": {
            "resourceVersion": before.metadata.resource_version,
            "annotations": {REQUEST_ANNOTATION: wishes.request},
        },
        "spec": spec,
    });
    originals
        .patch(&key.name, &parameters(), &Patch::Merge(&patch))
        .await?;
    tracing::info!(pipeline = %key, "wrote the edits of the copy to the original");
    Ok(())
}

/// Writes the original's status, and records an event when its name is taken.
pub(super) async fn status(
    reconciler: &AdoptionReconciler,
    original: &WegoPipeline,
    adoption: &Adoption,
) -> Result<(), StatusError> {
    let before = original.status.as_ref();
    let status = &adoption.status;
    let written = reconciler.status.patch(original, before, status);
    let StatusPatch::Patched(_) = written.await? else {
        return Ok(());
    };
    let ready = conditions::find(&status.conditions, conditions::READY);
    let known = before.and_then(|it| conditions::find(&it.conditions, conditions::READY));
    let is_new_reason = known.map(|it| &it.reason) != ready.map(|it| &it.reason);
    if let Some(ready) = ready.filter(|_| is_new_reason && adoption.is_name_taken()) {
        let event = PipelineEvent {
            is_warning: true,
            reason: ready.reason.clone(),
            message: ready.message.clone(),
            environment: None,
            revision: None,
        };
        let regarding = original.object_ref(&());
        reconciler
            .telemetry
            .record_about(&regarding, "Adopt", vec![event]);
    }
    Ok(())
}

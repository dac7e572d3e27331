//! Carries out a plan. Runs that could not be created are returned, so that the status reports them.

use api::PipelineTrigger;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
    core::DynamicObject,
};
use runtime::ObjectKey;
use serde_json::{Value, json};

use super::{
    FIELD_MANAGER,
    api_call::{ApiCallError, with_timeout},
    dependency_cache::{KindAvailability, WatchedKind},
    reconciler::TriggerReconciler,
};
use crate::plan::{CreateFailures, RunAction, TriggerPlan};

/// Carries out every action while this replica leads.
pub(super) async fn carry_out(
    reconciler: &TriggerReconciler,
    trigger: &PipelineTrigger,
    plan: &TriggerPlan,
) -> CreateFailures {
    let mut failures = CreateFailures::default();
    let runs = reconciler.dependencies.availability(WatchedKind::Runs);
    let KindAvailability::Served(resource) = runs else {
        return failures;
    };
    let namespace = ObjectKey::of(&trigger.metadata).namespace;
    let runs: Api<DynamicObject> =
        Api::namespaced_with(reconciler.client.clone(), &namespace, &resource);
    for action in &plan.actions {
        if !reconciler.leads_for_one_call() {
            return failures;
        }
        match action {
            RunAction::Create { run, object } => {
                if let Err(because) = create(&runs, trigger, object).await {
                    failures.by_run.insert(run.clone(), because);
                }
            }
            RunAction::Cancel { run } => cancel(&runs, run).await,
            // Older runs are deleted only once the newer ones exist.
            RunAction::Delete { .. } if !failures.is_empty() => {}
            RunAction::Delete { run, uid } => delete(&runs, run, uid).await,
        }
    }
    failures
}

/// Creates a run. If one of that name exists and belongs to the trigger, it is the same run.
async fn create(
    runs: &Api<DynamicObject>,
    trigger: &PipelineTrigger,
    object: &Value,
) -> Result<(), String> {
    let run: DynamicObject = serde_json::from_value(object.clone())
        .map_err(|error| format!("the run is not a valid object: {error}"))?;
    let parameters = PostParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PostParams::default()
    };
    match with_timeout(runs.create(&parameters, &run)).await {
        Ok(_) => Ok(()),
        Err(ApiCallError::Api(kube::Error::Api(status))) if status.is_already_exists() => {
            check_owner(runs, trigger, &run).await
        }
        Err(error) => Err(error.to_string()),
    }
}

async fn check_owner(
    runs: &Api<DynamicObject>,
    trigger: &PipelineTrigger,
    run: &DynamicObject,
) -> Result<(), String> {
    let name = run.metadata.name.as_deref().unwrap_or_default();
    let existing = with_timeout(runs.get(name)).await;
    let existing = existing.map_err(|error| error.to_string())?;
    let owners = existing.metadata.owner_references.unwrap_or_default();
    let uid = trigger.metadata.uid.as_deref().unwrap_or_default();
    if owners.iter().any(|owner| owner.uid == uid) {
        Ok(())
    } else {
        Err(format!(
            "pipelineruns.tekton.dev {name:?} already exists and is not ours"
        ))
    }
}

/// Errors are only logged: the next reconcile tries again if the run is still unfinished.
async fn cancel(runs: &Api<DynamicObject>, run: &str) {
    let patch = Patch::Merge(json!({ "spec": { "status": "Cancelled" } }));
    let parameters = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    if let Err(error) = with_timeout(runs.patch(run, &parameters, &patch)).await {
        tracing::warn!(run, %error, "could not cancel the run");
    }
}

/// Errors are only logged: the next reconcile tries again.
async fn delete(runs: &Api<DynamicObject>, run: &str, uid: &str) {
    let parameters = DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        }),
        ..DeleteParams::background()
    };
    match with_timeout(runs.delete(run, &parameters)).await {
        Ok(_) => {}
        Err(ApiCallError::Api(kube::Error::Api(status))) if status.is_not_found() => {}
        Err(error) => tracing::warn!(run, %error, "could not delete the finished run"),
    }
}

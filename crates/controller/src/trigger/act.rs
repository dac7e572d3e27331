//! Carrying out a plan. Total: what went wrong is in the outcome.

use ::trigger::plan::{CreateFailures, RunAction, TriggerPlan};
use api::PipelineTrigger;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
    core::DynamicObject,
};
use serde_json::{Value, json};

use super::{
    CALL_LIMIT, Error, FIELD_MANAGER, Shared,
    world::{Served, Watched},
};
use runtime::ObjectKey;

/// Carries out every step while we lead.
pub(super) async fn carry_out(
    shared: &Shared,
    trigger: &PipelineTrigger,
    plan: &TriggerPlan,
) -> CreateFailures {
    let mut outcome = CreateFailures::default();
    let Served::Yes(resource) = shared.world.served(Watched::Runs) else {
        return outcome;
    };
    let key = ObjectKey::of(&trigger.metadata);
    let runs: Api<DynamicObject> =
        Api::namespaced_with(shared.client.clone(), &key.namespace, &resource);
    for step in &plan.actions {
        if !shared.may_act() {
            return outcome;
        }
        match step {
            RunAction::Create { run, object } => {
                let started = start(&runs, trigger, object).await;
                if let Err(because) = started {
                    outcome.by_run.insert(run.clone(), because);
                }
            }
            RunAction::Cancel { run } => cancel(&runs, run).await,
            // Room is made only for runs that exist.
            RunAction::Delete { .. } if !outcome.is_empty() => {}
            RunAction::Delete { run, uid } => remove(&runs, run, uid).await,
        }
    }
    outcome
}

/// Creates a run; one that is already there and ours is the same run.
async fn start(
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
    let created = bounded(runs.create(&parameters, &run)).await;
    match created {
        Ok(_) => Ok(()),
        Err(Failure::Api(kube::Error::Api(status))) if status.is_already_exists() => {
            check_owner(runs, trigger, &run).await
        }
        Err(failure) => Err(failure.sentence()),
    }
}

async fn check_owner(
    runs: &Api<DynamicObject>,
    trigger: &PipelineTrigger,
    run: &DynamicObject,
) -> Result<(), String> {
    let name = run.metadata.name.as_deref().unwrap_or_default();
    let found = bounded(runs.get(name)).await;
    let found = found.map_err(|failure| failure.sentence())?;
    let owners = found.metadata.owner_references.unwrap_or_default();
    let uid = trigger.metadata.uid.as_deref().unwrap_or_default();
    if owners.iter().any(|owner| owner.uid == uid) {
        Ok(())
    } else {
        Err(format!(
            "pipelineruns.tekton.dev {name:?} already exists and is not ours"
        ))
    }
}

/// A run that ends or goes away first needs no cancelling; anything else is tried at the next look.
async fn cancel(runs: &Api<DynamicObject>, run: &str) {
    let patch = Patch::Merge(json!({ "spec": { "status": "Cancelled" } }));
    let parameters = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let cancelled = bounded(runs.patch(run, &parameters, &patch)).await;
    if let Err(failure) = cancelled {
        tracing::warn!(run, error = failure.sentence(), "not cancelled");
    }
}

/// Only this very object; what does not work now is tried at the next look.
async fn remove(runs: &Api<DynamicObject>, run: &str, uid: &str) {
    let parameters = DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        }),
        ..DeleteParams::background()
    };
    let removed = bounded(runs.delete(run, &parameters)).await;
    match removed {
        Ok(_) => {}
        Err(Failure::Api(kube::Error::Api(status))) if status.is_not_found() => {}
        Err(failure) => tracing::warn!(run, error = failure.sentence(), "not removed"),
    }
}

/// A call that did not work.
pub(super) enum Failure {
    Api(kube::Error),
    Slow,
}

impl Failure {
    pub(super) fn sentence(&self) -> String {
        match self {
            Self::Api(error) => sentence(error),
            Self::Slow => Error::Slow.to_string(),
        }
    }
}

/// Waits for a call, but not for ever.
pub(super) async fn bounded<T>(
    call: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Failure> {
    let answer = tokio::time::timeout(CALL_LIMIT, call).await;
    answer.map_or(Err(Failure::Slow), |answer| answer.map_err(Failure::Api))
}

/// What an error says to a person: the server's own words where it has some.
fn sentence(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        other => other.to_string(),
    }
}

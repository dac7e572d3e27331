//! Saying how it went: one status write, only of what differs, and the events.

use std::collections::BTreeMap;

use ::trigger::plan::{
    CreateFailures, KubernetesEvent, ObservedTrigger, TriggerPlan, condition_samples,
    kubernetes_events, status,
};
use api::{PipelineTrigger, trigger::PipelineTriggerStatus};
use kube::{
    Api, Resource,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use super::{
    Error, FIELD_MANAGER, Shared,
    act::{Failure, bounded},
    observe,
};
use runtime::{
    ObjectKey,
    events::{EventSeverity, ObjectEvent},
    merge_patch,
};

/// Writes the status, shows the gauge, publishes the events.
pub(super) async fn everything(
    shared: &Shared,
    seen: &ObservedTrigger<'_>,
    plan: &TriggerPlan,
    outcome: &CreateFailures,
) -> Result<(), Error> {
    let trigger = seen.trigger;
    let status = status(seen, plan, outcome);
    let kubernetes_events = kubernetes_events(seen, plan, outcome, &status);
    let source = &trigger.spec.source;
    let shown = condition_samples(&status, &source.name);
    let key = ObjectKey::of(&trigger.metadata);
    shared.gauge.show(&key, source.kind, &shown);
    // Published before the status is written, so that a crash repeats rather than loses them.
    publish(shared, trigger, kubernetes_events);
    write_status(shared, trigger, &status).await
}

async fn write_status(
    shared: &Shared,
    trigger: &PipelineTrigger,
    status: &PipelineTriggerStatus,
) -> Result<(), Error> {
    let before = trigger.status.as_ref().map_or(Value::Null, json_of);
    let Some(difference) = merge_patch(&before, &json_of(status)) else {
        return Ok(());
    };
    let key = ObjectKey::of(&trigger.metadata);
    let api: Api<PipelineTrigger> = Api::namespaced(shared.client.clone(), &key.namespace);
    let patch = Patch::Merge(json!({
        "metadata": { "resourceVersion": trigger.metadata.resource_version },
        "status": difference,
    }));
    let parameters = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    match bounded(api.patch_status(&key.name, &parameters, &patch)).await {
        Ok(trigger) => {
            shared.confirm(trigger);
            Ok(())
        }
        Err(Failure::Api(kube::Error::Api(status))) if status.is_not_found() => Ok(()),
        Err(Failure::Api(kube::Error::Api(status))) if status.is_conflict() => {
            // Somebody else wrote: look at the newest state and decide again.
            observe::again(shared, trigger).await?;
            shared.work.add(key);
            Ok(())
        }
        Err(failure) => {
            // It may have been written all the same.
            shared.doubt(&key);
            Err(match failure {
                Failure::Api(error) => Error::Report(error),
                Failure::Slow => Error::Slow,
            })
        }
    }
}

fn json_of(status: &PipelineTriggerStatus) -> Value {
    serde_json::to_value(status).expect("a status is plain data")
}

fn publish(shared: &Shared, trigger: &PipelineTrigger, list: Vec<KubernetesEvent>) {
    for announcement in list {
        shared.events.record(ObjectEvent {
            regarding: trigger.object_ref(&()),
            severity: match announcement.is_warning {
                true => EventSeverity::Error,
                false => EventSeverity::Info,
            },
            reason: announcement.reason.to_owned(),
            action: "Reconcile".to_owned(),
            note: announcement.note,
            metadata: BTreeMap::new(),
        });
    }
}

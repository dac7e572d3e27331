//! Saying how it went: one status write, only of what differs, and the events.

use std::sync::Arc;

use api::{PipelineTrigger, trigger::PipelineTriggerStatus};
use kube::{
    Api, Resource,
    api::{Patch, PatchParams},
    runtime::events::{Event, EventType},
};
use planner::trigger::{Announcement, Outcome, Plan, Seen, announcements, signals, status};
use serde_json::{Value, json};

use super::{
    Context, Error,
    act::{Failure, bounded},
    version,
    world::Key,
};
use crate::{difference, trigger::FIELD_MANAGER};

/// Writes the status, shows the gauge, publishes the events.
pub(super) async fn everything(
    context: &Arc<Context>,
    seen: &Seen<'_>,
    plan: &Plan,
    outcome: &Outcome,
) -> Result<(), Error> {
    let trigger = seen.trigger;
    let key = Key::of(trigger);
    let status = status(seen, plan, outcome);
    let announcements = announcements(seen, plan, outcome, &status);
    let source = &trigger.spec.source;
    let shown = signals(&status, &source.name);
    let metrics = &context.settings.metrics;
    metrics.show(&key.namespace, &key.name, source.kind, &shown);
    // Published before the status is written, so that a crash repeats rather than loses them.
    publish(context, trigger, announcements);
    write_status(context, trigger, &status).await
}

async fn write_status(
    context: &Context,
    trigger: &PipelineTrigger,
    status: &PipelineTriggerStatus,
) -> Result<(), Error> {
    let before = trigger.status.as_ref().map_or(Value::Null, json_of);
    let Some(difference) = difference::merge_patch(&before, &json_of(status)) else {
        return Ok(());
    };
    let key = Key::of(trigger);
    let api: Api<PipelineTrigger> = Api::namespaced(context.client.clone(), &key.namespace);
    let patch = Patch::Merge(json!({
        "metadata": { "resourceVersion": trigger.metadata.resource_version },
        "status": difference,
    }));
    let parameters = PatchParams {
        field_manager: Some(FIELD_MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let written = api.patch_status(&key.name, &parameters, &patch);
    match bounded(context, "PATCH", written).await {
        Ok(trigger) => {
            context
                .certain
                .lock()
                .insert(key.clone(), version(&trigger));
            context.written.lock().insert(key, Arc::new(trigger));
            Ok(())
        }
        Err(Failure::Api(kube::Error::Api(status))) if status.is_not_found() => Ok(()),
        Err(failure) => {
            // It may have been written all the same.
            context.certain.lock().remove(&key);
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

/// Events are for people; nothing waits for them and losing one is no failure.
fn publish(context: &Arc<Context>, trigger: &PipelineTrigger, list: Vec<Announcement>) {
    if list.is_empty() {
        return;
    }
    let about = trigger.object_ref(&());
    let context = context.clone();
    tokio::spawn(async move {
        for announcement in list {
            let event = Event {
                type_: match announcement.is_warning {
                    true => EventType::Warning,
                    false => EventType::Normal,
                },
                reason: announcement.reason.to_owned(),
                note: Some(announcement.note),
                action: "Reconcile".to_owned(),
                secondary: None,
            };
            let published = context.recorder.publish(&event, &about);
            let _ = bounded(&context, "POST", published).await;
        }
    });
}

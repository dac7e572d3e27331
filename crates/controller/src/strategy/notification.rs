//! The strategy notification: sends an event, and a subscriber makes the change.
//!
//! Reason, message and the plain metadata are those of the Weave pipeline-controller. Delivery is at
//! least once: after a crash again, with the same bytes and the same id, the promotion's uid.

use std::collections::BTreeMap;

use api::names::slug;
use kube::Resource;
use planner::{Failure, Outcome};

use super::{
    PromotionTask,
    failure::{needs_edit, transient},
    promotion_description::PromotionDescription,
    side_effect_guard::SideEffectGuard,
};
use runtime::{
    ReliableSender,
    events::{EventSeverity, ObjectEvent},
};

/// The longest part of an Event's name that is made from the pipeline's name.
const LONGEST_NAME: usize = 200;

/// Carries out promotions by notification.
pub(super) struct Notifications {
    sender: ReliableSender,
    guard: SideEffectGuard,
}

impl Notifications {
    pub(super) fn new(sender: ReliableSender, guard: SideEffectGuard) -> Self {
        Self { sender, guard }
    }

    /// Sends the event to the hub, and to Flux if that is configured.
    pub(super) async fn carry_out(&self, task: PromotionTask<'_>) -> Result<Outcome, Failure> {
        let description = PromotionDescription::of(task);
        let readable = slug(description.pipeline, LONGEST_NAME, "pipeline");
        let name = format!("{readable}.{}", description.uid);
        let created = task.promotion.metadata.creation_timestamp.as_ref();
        let at = created.map(|time| time.0).unwrap_or_default();
        let deliver = async {
            let delivered = self
                .sender
                .deliver(object_event(&description), name, at)
                .await;
            delivered.map_err(|failure| match failure.is_retryable {
                true => transient("NotNotified", failure.because),
                false => needs_edit("NotNotified", failure.because),
            })
        };
        let too_late = ("NotNotified", "the event was not accepted in time");
        self.guard.run(deliver, too_late).await?;
        Ok(Outcome::Delivered { url: None })
    }
}

fn object_event(description: &PromotionDescription<'_>) -> ObjectEvent {
    let spec = &description.task.promotion.spec;
    let mut regarding = description.task.pipeline.object_ref(&());
    // It would differ from one delivery to the next.
    regarding.resource_version = None;
    let (namespace, pipeline) = (description.namespace, description.pipeline);
    let (environment, version) = (&spec.environment, &spec.version);
    let target = description.site.target.clone();
    let (cluster, target_namespace) = target.map_or((None, None), |(cluster, namespace)| {
        (cluster, Some(namespace))
    });
    let metadata = [
        ("environment", Some(environment.clone())),
        ("version", Some(version.clone())),
        ("revision", Some(spec.revision.clone())),
        ("cluster", cluster),
        ("namespace", target_namespace),
        ("promotion", Some(description.uid.clone())),
        // Flux's notification-controller deduplicates events by this.
        ("token", Some(description.uid.clone())),
    ];
    let metadata = metadata.into_iter();
    ObjectEvent {
        regarding,
        severity: EventSeverity::Info,
        reason: "Promote".to_owned(),
        action: "Promote".to_owned(),
        note: format!(
            "Promote pipeline {namespace}/{pipeline} to {environment} with version {version}{}",
            description.on_target()
        ),
        metadata: metadata
            .filter_map(|(key, value)| Some((key.to_owned(), value?)))
            .collect::<BTreeMap<_, _>>(),
    }
}

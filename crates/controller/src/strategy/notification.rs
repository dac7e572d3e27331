//! The strategy notification: an event, and whoever listens makes the change.
//!
//! Reason, message and the plain metadata are the ancestor's. It is told at least once: again after a
//! crash, in the same bytes and under the same id, which is the promotion's uid.

use std::collections::BTreeMap;

use api::names::slug;
use kube::Resource;
use planner::{Failure, Outcome};

use super::{
    Task,
    failure::{passing, stuck},
    permit::Permits,
    subject::Subject,
};
use crate::events::{Courier, Occurrence, Severity};

/// How much of a pipeline's name an Event's name holds.
const LONGEST_NAME: usize = 200;

pub(super) struct Notifications {
    courier: Courier,
    permits: Permits,
}

impl Notifications {
    pub(super) fn new(courier: Courier, permits: Permits) -> Self {
        Self { courier, permits }
    }

    /// Tells everybody who is to be told.
    pub(super) async fn carry_out(&self, task: Task<'_>) -> Result<Outcome, Failure> {
        let subject = Subject::of(task);
        let readable = slug(subject.pipeline, LONGEST_NAME, "pipeline");
        let name = format!("{readable}.{}", subject.uid);
        let created = task.promotion.metadata.creation_timestamp.as_ref();
        let at = created.map(|time| time.0).unwrap_or_default();
        let tell = async {
            let told = self.courier.deliver(occurrence(&subject), name, at).await;
            told.map_err(|failure| match failure.may_pass {
                true => passing("NotNotified", failure.because),
                false => stuck("NotNotified", failure.because),
            })
        };
        let late = ("NotNotified", "the event was not taken in time");
        self.permits.act(tell, late).await?;
        Ok(Outcome::Delivered { url: None })
    }
}

fn occurrence(subject: &Subject<'_>) -> Occurrence {
    let spec = &subject.task.promotion.spec;
    let mut regarding = subject.task.pipeline.object_ref(&());
    // It differs from one delivery to the next.
    regarding.resource_version = None;
    let (namespace, pipeline) = (subject.namespace, subject.pipeline);
    let (environment, version) = (&spec.environment, &spec.version);
    let target = subject.place.target.clone();
    let (cluster, target_namespace) = target.map_or((None, None), |(cluster, namespace)| {
        (cluster, Some(namespace))
    });
    let metadata = [
        ("environment", Some(environment.clone())),
        ("version", Some(version.clone())),
        ("revision", Some(spec.revision.clone())),
        ("cluster", cluster),
        ("namespace", target_namespace),
        ("promotion", Some(subject.uid.to_owned())),
        // By this notification-controller tells events apart.
        ("token", Some(subject.uid.to_owned())),
    ];
    let metadata = metadata.into_iter();
    Occurrence {
        regarding,
        severity: Severity::Info,
        reason: "Promote".to_owned(),
        action: "Promote".to_owned(),
        note: format!(
            "Promote pipeline {namespace}/{pipeline} to {environment} with version {version}{}",
            subject.on_target()
        ),
        metadata: metadata
            .filter_map(|(key, value)| Some((key.to_owned(), value?)))
            .collect::<BTreeMap<_, _>>(),
    }
}

//! What can set a pipeline in motion, as far as somebody may see it.

use std::sync::Arc;

use api::{Condition, Pipeline, PipelineTrigger, conditions};
use kube::ResourceExt;
use serde::Serialize;
use trigger::plan::{ListedTrigger, TriggerObjects, triggers_of};

use crate::{
    Door,
    rest::access::{Caller, TRIGGERS, Wish},
};

/// One thing that can set a pipeline in motion.
#[derive(Serialize)]
pub(crate) struct Trigger {
    #[serde(flatten)]
    pub(crate) listed: ListedTrigger,
    #[serde(flatten)]
    pub(crate) last: Option<Last>,
}

/// What a PipelineTrigger did last.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Last {
    pub(crate) suspend: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) event: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ready: Option<Condition>,
}

/// The pipeline's source, the PipelineTriggers that feed it, and its hooks.
pub(crate) async fn of(
    door: &Door,
    caller: &Caller,
    pipeline: &Pipeline,
) -> Result<Vec<Trigger>, kube::Error> {
    let namespace = pipeline.namespace().unwrap_or_default();
    let known = match caller
        .may_see(&Wish::list(TRIGGERS, Some(&namespace)))
        .await?
    {
        true => door.watched.triggers(&namespace),
        false => Vec::new(),
    };
    let objects = TriggerObjects {
        triggers: known.iter().map(|it| PipelineTrigger::clone(it)).collect(),
        ..TriggerObjects::default()
    };
    let listed = triggers_of(pipeline, &objects).into_iter();
    let with_last = listed.map(|listed| {
        let object = known
            .iter()
            .find(|it| listed.kind == "PipelineTrigger" && it.name_any() == listed.name);
        let last = object.map(last);
        Trigger { listed, last }
    });
    Ok(with_last.collect())
}

fn last(trigger: &Arc<PipelineTrigger>) -> Last {
    let status = trigger.status.clone().unwrap_or_default();
    Last {
        suspend: trigger.spec.suspend,
        ready: conditions::find(&status.conditions, conditions::READY).cloned(),
        event: status.latest_event,
        run: status.latest_pipeline_run,
    }
}

//! The triggers of a pipeline that a caller may see.

use std::sync::Arc;

use api::{Condition, Pipeline, PipelineTrigger, conditions};
use kube::ResourceExt;
use serde::Serialize;
use trigger::plan::{ListedTrigger, TriggerObjects, triggers_of};

use crate::{
    AppState,
    access::{AccessRequest, Caller, TRIGGERS},
    problem::Problem,
};

/// Something that starts promotions or runs of a pipeline.
#[derive(Serialize)]
pub(crate) struct ShownTrigger {
    #[serde(flatten)]
    pub(crate) listed: ListedTrigger,
    #[serde(flatten)]
    pub(crate) status: Option<TriggerStatus>,
}

/// The status of a PipelineTrigger.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct TriggerStatus {
    pub(crate) suspend: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) event: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) run: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ready: Option<Condition>,
}

/// The pipeline's source, the PipelineTriggers that feed it, and its hooks.
pub(crate) async fn visible_triggers(
    app_state: &AppState,
    caller: &Caller,
    pipeline: &Pipeline,
) -> Result<Vec<ShownTrigger>, Problem> {
    let namespace = pipeline.namespace().unwrap_or_default();
    let access = AccessRequest::list(TRIGGERS, Some(&namespace));
    let triggers = match caller.may_see(&access).await? {
        true => app_state.objects.triggers(&namespace),
        false => Vec::new(),
    };
    let clones = triggers.iter().map(|it| PipelineTrigger::clone(it));
    let objects = TriggerObjects {
        triggers: clones.collect(),
        ..TriggerObjects::default()
    };
    let listed = triggers_of(pipeline, &objects).into_iter();
    let shown = listed.map(|listed| {
        let object = triggers
            .iter()
            .find(|it| listed.kind == "PipelineTrigger" && it.name_any() == listed.name);
        let status = object.map(status_of);
        ShownTrigger { listed, status }
    });
    Ok(shown.collect())
}

pub(crate) fn status_of(trigger: &Arc<PipelineTrigger>) -> TriggerStatus {
    let status = trigger.status.clone().unwrap_or_default();
    TriggerStatus {
        suspend: trigger.spec.suspend,
        ready: conditions::find(&status.conditions, conditions::READY).cloned(),
        event: status.latest_event,
        run: status.latest_pipeline_run,
    }
}

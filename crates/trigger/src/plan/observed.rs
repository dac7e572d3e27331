//! What a plan is made from: a trigger and the objects that it refers to, as they were observed.

use api::{
    PipelineTrigger, names,
    tekton::{PipelineRun, Progress},
    third_party,
    trigger::TriggerSourceKind,
};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::{parameters::DeclaredTypes, run::RunCredential, tekton::TektonVersion, template};

/// A trigger and the objects that it refers to.
#[derive(Clone, Debug)]
pub struct ObservedTrigger<'a> {
    /// The trigger, with the status last written.
    pub trigger: &'a PipelineTrigger,
    /// Its source.
    pub source: SourceState<'a>,
    /// The newest Tekton API version that is served.
    pub tekton: Option<TektonVersion>,
    /// The Tekton Pipeline it names.
    pub pipeline: PipelineState,
    /// The ManagedCredential it names.
    pub credential: CredentialState,
    /// The runs it started and that still exist.
    pub runs: &'a [ObservedRun],
    /// The time.
    pub now: Timestamp,
}

/// The trigger's source.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SourceState<'a> {
    /// RBAC forbids reading it, or another object that the trigger needs; the API server's message.
    Forbidden(&'a str),
    /// Its kind is not installed.
    NotServed,
    /// There is no object of that name.
    Missing,
    /// The object, or only its [`relevant_fields`].
    Found(&'a Value),
}

/// The Tekton Pipeline a trigger names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PipelineState {
    /// It names none in its own namespace.
    NotNeeded,
    /// There is no such Pipeline.
    Missing {
        /// The name asked for.
        name: String,
    },
    /// It exists and declares these parameter types.
    Found(DeclaredTypes),
}

/// The ManagedCredential a trigger names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CredentialState {
    /// It names none.
    NotNeeded,
    /// It could not be read; runs go without it.
    Missing {
        /// The API server's message.
        because: String,
    },
    /// What it gives to runs.
    Found(RunCredential),
}

/// The fields of a PipelineRun that a plan needs.
#[derive(Clone, Debug, PartialEq)]
pub struct ObservedRun {
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// The uid of the trigger that owns it; runs of early releases have none.
    pub owner: Option<String>,
    /// When it was created.
    pub created: Timestamp,
    /// When it ended.
    pub completed: Option<Timestamp>,
    /// Its progress.
    pub progress: Progress,
    /// Whether its cancellation was requested.
    pub is_cancelled: bool,
    /// The event it was started for.
    pub event: Option<String>,
    /// How many runs for the same event failed before it.
    pub retry: Option<i64>,
    /// The label value of the pull request branch it is for.
    pub pull_request_branch: Option<String>,
}

impl ObservedRun {
    /// Reads a run and the name of the trigger it belongs to; `None` if it belongs to no trigger.
    pub fn read(object: &Value) -> Option<(String, Self)> {
        let metadata = &object["metadata"];
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let label = |name: &str| text(&metadata["labels"][name]);
        let annotation = |name: &str| text(&metadata["annotations"][name]);
        let owners = metadata["ownerReferences"].as_array();
        let owner = owners
            .into_iter()
            .flatten()
            .find(|owner| owner["kind"] == "PipelineTrigger" && owner["controller"] == true);
        let trigger = owner
            .and_then(|owner| text(&owner["name"]))
            .or_else(|| label(names::RUN_TRIGGER_LABEL))?;
        let run: PipelineRun = third_party::read(object);
        let time = |text: Option<&str>| text.and_then(|text| text.parse::<Timestamp>().ok());
        let created = time(metadata["creationTimestamp"].as_str()).unwrap_or_default();
        let retry = annotation(names::RUN_RETRY_ANNOTATION);
        let read = Self {
            name: text(&metadata["name"])?,
            uid: text(&metadata["uid"]).unwrap_or_default(),
            owner: owner.and_then(|owner| text(&owner["uid"])),
            created,
            completed: time(run.status.completion_time.as_deref()),
            progress: run.status.progress(),
            is_cancelled: run.spec.status.is_some_and(|status| !status.is_empty()),
            event: annotation(names::RUN_EVENT_ANNOTATION),
            retry: retry.and_then(|retry| retry.parse().ok()),
            pull_request_branch: label(names::RUN_REQUEST_BRANCH_LABEL),
        };
        Some((trigger, read))
    }

    /// Whether it succeeded or failed.
    pub fn is_finished(&self) -> bool {
        matches!(self.progress, Progress::Succeeded | Progress::Failed { .. })
    }
}

/// The fields of a source that a plan reads. They change only when there may be a new event.
pub fn relevant_fields(kind: TriggerSourceKind, object: &Value) -> Value {
    let keep = |pointer: &str| object.pointer(pointer).cloned().unwrap_or_default();
    match kind {
        TriggerSourceKind::ImagePolicy => json!({ "status": {
            "latestRef": keep("/status/latestRef"), "latestImage": keep("/status/latestImage"),
        } }),
        TriggerSourceKind::PullRequest => {
            json!({ "status": { "sourceBranches": keep("/status/sourceBranches") } })
        }
        _ => json!({
            "spec": { "url": keep("/spec/url"), "endpoint": keep("/spec/endpoint") },
            "status": { "artifact": {
                "revision": keep("/status/artifact/revision"), "path": keep("/status/artifact/path"),
            } },
        }),
    }
}

/// The name of the Tekton Pipeline that must exist in the trigger's namespace, if any.
pub fn pipeline_needed(trigger: &PipelineTrigger) -> Option<String> {
    let template = template::run_template(trigger).ok()?;
    template.pipeline().map(str::to_owned)
}

//! Builds the PipelineRun for one source event.
//!
//! The name is derived from the trigger, the event and the run before it: a run that was created but
//! not recorded in the status is found again, and returning to an earlier revision starts a new run.
//! Name and labels are valid for any branch name.

use api::{
    PipelineTrigger,
    names::{self, label_value, short_hash, slug},
};
use serde_json::{Map, Value, json};

use super::{
    event::{EventSubject, SourceEvent},
    parameters::{DeclaredTypes, EventVariables, fill_all},
    tekton::{self, TektonVersion},
    template::RunTemplate,
};

/// Names have at most 63 characters with the dash and the hash.
const MAX_PREFIX: usize = 50;

/// What a run is made from, besides its event.
pub(crate) struct RunInputs<'a> {
    pub(crate) trigger: &'a PipelineTrigger,
    pub(crate) template: &'a RunTemplate,
    pub(crate) version: TektonVersion,
    pub(crate) types: &'a DeclaredTypes,
    pub(crate) credential: Option<&'a RunCredential>,
}

/// What a ManagedCredential gives to a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunCredential {
    /// The service account the run uses instead of its own.
    pub service_account: Option<String>,
    /// The Secret the run gets as a workspace.
    pub secret: Option<String>,
}

/// The run and revision that a new run follows.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Predecessor<'a> {
    /// The run before it, for the same source or pull request branch.
    pub(crate) run: Option<&'a str>,
    /// The revision of that run, for parameters.
    pub(crate) revision: Option<&'a str>,
    /// How many runs for the new run's event failed before.
    pub(crate) retry: i64,
}

/// The name of the run for an event.
pub(crate) fn name(
    inputs: &RunInputs<'_>,
    event: &SourceEvent,
    predecessor: Predecessor<'_>,
) -> String {
    let trigger = inputs.trigger;
    let uid = trigger.metadata.uid.as_deref().unwrap_or_default();
    let hash = short_hash(&[uid, &event.key, predecessor.run.unwrap_or_default()]);
    let readable = match (&inputs.template.prefix, &event.subject) {
        (Some(prefix), _) => prefix,
        (None, EventSubject::Image { name, .. }) => name,
        (None, _) => event.branch().unwrap_or_default(),
    };
    format!("{}-{hash}", slug(readable, MAX_PREFIX, "run"))
}

/// The whole PipelineRun, or what is wrong with its parameters.
pub(crate) fn build(
    inputs: &RunInputs<'_>,
    event: &SourceEvent,
    predecessor: Predecessor<'_>,
) -> Result<Value, String> {
    let template = inputs.template;
    let variables = EventVariables {
        event,
        previous: predecessor.revision,
    };
    let parameters = template.spec.get("params").unwrap_or(&Value::Null);
    let parameters = fill_all(parameters, inputs.types, &variables)?;
    let mut spec = template.spec.clone();
    spec.remove("params");
    if !parameters.is_empty() {
        spec.insert("params".into(), Value::Array(parameters));
    }
    tekton::convert(&mut spec, inputs.version);
    if let Some(credential) = inputs.credential {
        add_credential(&mut spec, inputs.version, credential);
    }
    Ok(json!({
        "apiVersion": inputs.version.api_version(),
        "kind": "PipelineRun",
        "metadata": metadata(inputs, event, predecessor),
        "spec": spec,
    }))
}

fn add_credential(
    spec: &mut Map<String, Value>,
    version: TektonVersion,
    credential: &RunCredential,
) {
    if let Some(account) = &credential.service_account {
        tekton::set_service_account(spec, version, account);
    }
    if let Some(secret) = &credential.secret {
        let workspaces = spec.entry("workspaces").or_insert_with(|| json!([]));
        if let Some(list) = workspaces.as_array_mut() {
            list.push(json!({ "name": secret, "secret": { "secretName": secret } }));
        }
    }
}

fn metadata(inputs: &RunInputs<'_>, event: &SourceEvent, predecessor: Predecessor<'_>) -> Value {
    let trigger = &inputs.trigger.metadata;
    let template = &inputs.template.metadata;
    let mut labels = map_of(template.get("labels"));
    labels.extend(run_labels(
        trigger.name.as_deref().unwrap_or_default(),
        event,
    ));
    let mut annotations = map_of(template.get("annotations"));
    annotations.insert(names::RUN_EVENT_ANNOTATION.into(), json!(event.key));
    let retry = predecessor.retry.to_string();
    annotations.insert(names::RUN_RETRY_ANNOTATION.into(), json!(retry));
    let mut metadata = json!({
        "name": name(inputs, event, predecessor),
        "namespace": trigger.namespace,
        "labels": labels,
        "annotations": annotations,
        "ownerReferences": [{
            "apiVersion": "pipeline.jquad.rocks/v1alpha1",
            "kind": "PipelineTrigger",
            "name": trigger.name,
            "uid": trigger.uid,
            "controller": true,
            "blockOwnerDeletion": true,
        }],
    });
    if let Some(finalizers) = template.get("finalizers") {
        metadata["finalizers"] = finalizers.clone();
    }
    metadata
}

fn map_of(fields: Option<&Value>) -> Map<String, Value> {
    let fields = fields.and_then(Value::as_object).cloned();
    fields.unwrap_or_default()
}

/// The labels that the operator gave its runs, made valid, and the trigger's name.
pub(crate) fn run_labels(trigger: &str, event: &SourceEvent) -> Map<String, Value> {
    let mut labels = Map::new();
    let mut add = |label: &str, value: &str| {
        labels.insert(label.to_owned(), json!(label_value(value)));
    };
    add(names::RUN_TRIGGER_LABEL, trigger);
    match &event.subject {
        EventSubject::Artifact { .. } => {
            add(
                names::RUN_GIT_BRANCH_LABEL,
                event.branch().unwrap_or_default(),
            );
            add(
                names::RUN_GIT_COMMIT_LABEL,
                event.commit().unwrap_or_default(),
            );
        }
        EventSubject::Image { image, name, .. } => {
            add(names::RUN_IMAGE_NAME_LABEL, name);
            add(
                names::RUN_IMAGE_VERSION_LABEL,
                image.tag().unwrap_or_default(),
            );
        }
        EventSubject::PullRequest { branch, commit, .. } => {
            add(names::RUN_REQUEST_BRANCH_LABEL, &branch.replace('/', "-"));
            add(names::RUN_REQUEST_COMMIT_LABEL, commit);
        }
    }
    labels
}

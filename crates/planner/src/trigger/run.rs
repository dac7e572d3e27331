//! Building the run for one event.
//!
//! The name is a function of the trigger, the event and the run before it, so that a run that was
//! created but not yet noted down is found instead of created again, while going back to an
//! earlier revision gives a new one. Whatever the branch is called, name and labels are valid.

use api::{
    PipelineTrigger,
    names::{self, label_value, short_hash, slug},
};
use serde_json::{Map, Value, json};

use super::{
    event::{Event, Subject},
    parameters::{DeclaredTypes, Variables, fill_all},
    tekton::{self, Version},
    template::Draft,
};

/// With the dash and the hash, a name of at most 63 characters.
const PREFIX: usize = 50;

/// What a run is made from, besides its event.
pub(crate) struct Ingredients<'a> {
    pub(crate) trigger: &'a PipelineTrigger,
    pub(crate) draft: &'a Draft,
    pub(crate) version: Version,
    pub(crate) types: &'a DeclaredTypes,
    pub(crate) credential: Option<&'a Credential>,
}

/// What a ManagedCredential gives to a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credential {
    /// The service account the run uses instead of its own.
    pub service_account: Option<String>,
    /// The Secret the run gets as a workspace.
    pub secret: Option<String>,
}

/// Why a run is started now.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Occasion<'a> {
    /// The run before it in the same lane.
    pub(crate) previous_run: Option<&'a str>,
    /// The revision before, for parameters.
    pub(crate) previous_revision: Option<&'a str>,
    /// How many runs for this event failed before it.
    pub(crate) retry: i64,
}

/// The name of the run for an event on an occasion.
pub(crate) fn name(ingredients: &Ingredients<'_>, event: &Event, occasion: Occasion<'_>) -> String {
    let trigger = ingredients.trigger;
    let uid = trigger.metadata.uid.as_deref().unwrap_or_default();
    let hash = short_hash(&[uid, &event.key, occasion.previous_run.unwrap_or_default()]);
    let readable = match (&ingredients.draft.prefix, &event.subject) {
        (Some(prefix), _) => prefix,
        (None, Subject::Image { name, .. }) => name,
        (None, _) => event.branch().unwrap_or_default(),
    };
    format!("{}-{hash}", slug(readable, PREFIX, "run"))
}

/// The whole run, or what is wrong with its parameters.
pub(crate) fn build(
    ingredients: &Ingredients<'_>,
    event: &Event,
    occasion: Occasion<'_>,
) -> Result<Value, String> {
    let draft = ingredients.draft;
    let variables = Variables {
        event,
        previous: occasion.previous_revision,
    };
    let parameters = draft.spec.get("params").unwrap_or(&Value::Null);
    let parameters = fill_all(parameters, ingredients.types, &variables)?;
    let mut spec = draft.spec.clone();
    spec.remove("params");
    if !parameters.is_empty() {
        spec.insert("params".into(), Value::Array(parameters));
    }
    tekton::arrange(&mut spec, ingredients.version);
    if let Some(credential) = ingredients.credential {
        add_credential(&mut spec, ingredients.version, credential);
    }
    Ok(json!({
        "apiVersion": ingredients.version.api_version(),
        "kind": "PipelineRun",
        "metadata": metadata(ingredients, event, occasion),
        "spec": spec,
    }))
}

fn add_credential(spec: &mut Map<String, Value>, version: Version, credential: &Credential) {
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

fn metadata(ingredients: &Ingredients<'_>, event: &Event, occasion: Occasion<'_>) -> Value {
    let trigger = &ingredients.trigger.metadata;
    let template = &ingredients.draft.metadata;
    let mut labels = texts(template.get("labels"));
    labels.extend(run_labels(
        trigger.name.as_deref().unwrap_or_default(),
        event,
    ));
    let mut annotations = texts(template.get("annotations"));
    annotations.insert(names::RUN_EVENT_ANNOTATION.into(), json!(event.key));
    let retry = occasion.retry.to_string();
    annotations.insert(names::RUN_RETRY_ANNOTATION.into(), json!(retry));
    let mut metadata = json!({
        "name": name(ingredients, event, occasion),
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

fn texts(fields: Option<&Value>) -> Map<String, Value> {
    let fields = fields.and_then(Value::as_object).cloned();
    fields.unwrap_or_default()
}

/// The labels the operator gave its runs, made valid, and the trigger's name.
pub(crate) fn run_labels(trigger: &str, event: &Event) -> Map<String, Value> {
    let mut labels = Map::new();
    let mut add = |label: &str, value: &str| {
        labels.insert(label.to_owned(), json!(label_value(value)));
    };
    add(names::RUN_TRIGGER_LABEL, trigger);
    match &event.subject {
        Subject::Artifact { .. } => {
            add(
                names::RUN_GIT_BRANCH_LABEL,
                event.branch().unwrap_or_default(),
            );
            add(
                names::RUN_GIT_COMMIT_LABEL,
                event.commit().unwrap_or_default(),
            );
        }
        Subject::Image { image, name, .. } => {
            add(names::RUN_IMAGE_NAME_LABEL, name);
            add(
                names::RUN_IMAGE_VERSION_LABEL,
                image.tag().unwrap_or_default(),
            );
        }
        Subject::PullRequest { branch, commit, .. } => {
            add(names::RUN_REQUEST_BRANCH_LABEL, &branch.replace('/', "-"));
            add(names::RUN_REQUEST_COMMIT_LABEL, commit);
        }
    }
    labels
}

//! Decides which writes of people to Pipelines, Promotions, CheckRuns and Changes are refused.
//!
//! In a cluster an admission policy enforces the same rules; the embedded API asks here. Writes of Sluice
//! itself are not checked.

mod decisions;
mod weakening;

use api::{
    Change, CheckRun, Pipeline, Promotion,
    names::{
        ADOPTED_ANNOTATION, ENVIRONMENT_LABEL, OVERRIDE_ANNOTATION, PIPELINE_LABEL,
        REQUEST_ANNOTATION, SITE_LABEL,
    },
};
use kube::core::ObjectMeta;
use serde_json::Value;

pub use decisions::approving_group;

/// The user who writes, and their rights.
pub struct WritingUser<'a> {
    /// Their user name.
    pub name: &'a str,
    /// The groups they are in.
    pub groups: &'a [String],
    /// Whether they have a verb on the pipeline, or on its environment of that name.
    pub may: &'a dyn Fn(&str, Option<&str>) -> bool,
}

impl WritingUser<'_> {
    fn may_in(&self, verb: &str, environment: &str) -> bool {
        (self.may)(verb, None) || (self.may)(verb, Some(environment))
    }
}

/// Why a promotion may not be written so; `None` if it may.
pub fn refuse_promotion(
    old: Option<&Promotion>,
    new: &Promotion,
    writer: &WritingUser<'_>,
) -> Option<String> {
    let Some(old) = old else {
        let text = "promotions are created by Sluice; ask for one with the annotation";
        return Some(format!("{text} {REQUEST_ANNOTATION}"));
    };
    if is_moved(&old.metadata, &new.metadata) {
        return Some("the labels and owners of a promotion are written by Sluice".to_owned());
    }
    if old.spec.withdrawn != new.spec.withdrawn {
        return Some("promotions are withdrawn by Sluice; change the pipeline instead".to_owned());
    }
    decisions::refuse(&old.spec, &new.spec, writer)
}

/// Why a pipeline may not be written so; `None` if it may.
pub fn refuse_pipeline(
    old: Option<&Pipeline>,
    new: &Pipeline,
    writer: &WritingUser<'_>,
) -> Option<String> {
    let name = new.metadata.name.as_deref().unwrap_or_default();
    let lacks = |what: &str, verb: &str| {
        let who = writer.name;
        format!("{who} may not {what} pipeline {name}: the verb {verb} on pipelines is needed")
    };
    if old.is_some_and(|old| old.spec.suspend != new.spec.suspend) && !(writer.may)("suspend", None)
    {
        return Some(lacks("suspend or resume", "suspend"));
    }
    let mut changed = old.into_iter().flat_map(|old| suspension_changed(old, new));
    if changed.any(|environment| !writer.may_in("suspend", environment)) {
        return Some(lacks("suspend or resume environments of", "suspend"));
    }
    let weakened = old.map(|old| weakening::weakened(old, Some(new)));
    if let Some(refusal) = refuse_weakening(name, &weakened.unwrap_or_default(), writer) {
        return Some(refusal);
    }
    let memory = |pipeline| annotation(pipeline, ADOPTED_ANNOTATION);
    if memory(new).is_some_and(|text| old.and_then(memory) != Some(text)) {
        return Some(format!(
            "the annotation {ADOPTED_ANNOTATION} is written by Sluice"
        ));
    }
    let overrides = |pipeline| annotation(pipeline, OVERRIDE_ANNOTATION);
    if old.and_then(overrides) != overrides(new) && !(writer.may)("override", None) {
        return Some(lacks("override gates of", "override"));
    }
    let request = |pipeline| annotation(pipeline, REQUEST_ANNOTATION);
    let request = request(new).filter(|text| old.and_then(request) != Some(*text))?;
    if !(writer.may)("promote", None) {
        return Some(lacks("ask for promotions of", "promote"));
    }
    let overridden = overrides(new).is_some_and(|text| is_for_request(text, request));
    if overridden && !(writer.may)("override", None) {
        return Some(lacks("override gates of", "override"));
    }
    (!is_by(request, writer.name)).then(|| {
        let who = writer.name;
        format!("a request is by who asks: leave \"by\" out or make it {who}")
    })
}

/// Why a pipeline may not be deleted; `None` if it may.
pub fn refuse_pipeline_deletion(old: &Pipeline, writer: &WritingUser<'_>) -> Option<String> {
    let name = old.metadata.name.as_deref().unwrap_or_default();
    refuse_weakening(name, &weakening::weakened(old, None), writer)
}

fn refuse_weakening(pipeline: &str, weakened: &[&str], writer: &WritingUser<'_>) -> Option<String> {
    let may = |environment: &&str| writer.may_in("approve", environment);
    (!weakened.iter().all(may)).then(|| {
        format!(
            "{} may not weaken or remove what guards {} of pipeline {pipeline}: \
             the verb approve on pipelines is needed",
            writer.name,
            weakened.join(", ")
        )
    })
}

/// Why a Freeze may not be created, edited or deleted; `None` if it may.
pub fn refuse_freeze(name: &str, writer: &WritingUser<'_>) -> Option<String> {
    (!(writer.may)("freeze", None)).then(|| {
        format!(
            "{} may not write the Freeze {name}: the verb freeze on pipelines is needed",
            writer.name
        )
    })
}

/// Why a check run may not be created, edited or, without a new one, deleted; `None` if it may. People add
/// nothing but the result of an external check.
pub fn refuse_check_run(
    old: Option<&CheckRun>,
    new: Option<&CheckRun>,
    writer: &WritingUser<'_>,
) -> Option<String> {
    let (Some(old), Some(new)) = (old, new) else {
        let text =
            "check runs are created and deleted by Sluice; to check a revision again, use retry";
        return Some(text.to_owned());
    };
    if is_moved(&old.metadata, &new.metadata) {
        return Some("the labels and owners of a check run are written by Sluice".to_owned());
    }
    let result = new
        .spec
        .result
        .as_ref()
        .filter(|_| old.spec.result.is_none())?;
    let name = writer.name;
    if result.by.as_deref() != Some(name) || result.signature.is_some() {
        return Some(format!("spec.result.by must be {name}"));
    }
    let (pipeline, environment) = (&new.spec.pipeline, &new.spec.environment);
    (!writer.may_in("report", environment)).then(|| {
        format!(
            "{name} may not report checks of pipeline {pipeline} in {environment}: \
             the verb report on pipelines is needed"
        )
    })
}

/// Whether an object is given to another owner, or is no longer found by the labels that Sluice gave it.
fn is_moved(old: &ObjectMeta, new: &ObjectMeta) -> bool {
    let label = |of: &ObjectMeta, name: &str| of.labels.as_ref()?.get(name).cloned();
    let names = [PIPELINE_LABEL, ENVIRONMENT_LABEL, SITE_LABEL];
    let mut labels = names
        .into_iter()
        .map(|name| label(old, name) == label(new, name));
    old.owner_references != new.owner_references || labels.any(|is_same| !is_same)
}

/// Why a change may not be created so; `None` if it may.
pub fn refuse_change(new: &Change, writer: &WritingUser<'_>) -> Option<String> {
    let by = new.spec.by.as_deref()?;
    (by != writer.name).then(|| format!("spec.by must be {}", writer.name))
}

/// The environments that are suspended or resumed; to remove a suspended one resumes it.
fn suspension_changed<'a>(old: &'a Pipeline, new: &'a Pipeline) -> impl Iterator<Item = &'a str> {
    let now = &new.spec.environments;
    let is_suspended = |name: &str| now.iter().any(|now| now.name == name && now.suspend);
    let before = old.spec.environments.iter();
    let changed = before.filter(move |old| old.suspend != is_suspended(&old.name));
    changed.map(|environment| environment.name.as_str())
}

fn annotation<'a>(pipeline: &'a Pipeline, name: &str) -> Option<&'a str> {
    let annotations = pipeline.metadata.annotations.as_ref()?;
    let value = annotations.get(name).map(String::as_str);
    value.filter(|value| !value.is_empty())
}

/// Whether nobody else is named in a request. What cannot be read asks for nothing.
fn is_by(request: &str, name: &str) -> bool {
    let value: Value = serde_json::from_str(request).unwrap_or_default();
    let mut authors = values_of("by", &value).into_iter();
    authors.all(|by| by.is_null() || by == name)
}

/// Whether an override names one of the requests, so that it would pass the same gates.
fn is_for_request(overriding: &str, request: &str) -> bool {
    let overriding: Value = serde_json::from_str(overriding).unwrap_or_default();
    let request: Value = serde_json::from_str(request).unwrap_or_default();
    let id = overriding.get("request").filter(|id| id.is_string());
    id.is_some_and(|id| values_of("id", &request).contains(&id))
}

/// The values of a field in an object and in the objects in it.
fn values_of<'a>(field: &str, value: &'a Value) -> Vec<&'a Value> {
    let Value::Object(fields) = value else {
        return Vec::new();
    };
    let inner = fields.values().flat_map(|value| values_of(field, value));
    fields.get(field).into_iter().chain(inner).collect()
}

//! Requests that are written with kubectl in an annotation of the pipeline.

use api::{
    Pipeline,
    names::{REQUEST_ANNOTATION, short_hash},
    pipeline::Request,
};
use serde_json::Value;

use super::at;
use crate::plan::input::PlanInput;

/// Why the annotation cannot be read as requests.
pub(in crate::plan) fn warnings(input: &PlanInput<'_>) -> Vec<String> {
    let value = match read(input.pipeline) {
        Ok(Some(value)) => value,
        Ok(None) => return Vec::new(),
        Err(error) => return vec![format!("the annotation {REQUEST_ANNOTATION}: {error}")],
    };
    let mut names = input.environment_names();
    if names.any(|name| for_environment(&value, name).is_some()) {
        return Vec::new();
    }
    vec![format!(
        "the annotation {REQUEST_ANNOTATION} is no request for an environment of this pipeline"
    )]
}

/// The requests in the annotation, by environment.
pub(crate) fn written(pipeline: &Pipeline) -> Vec<(String, Request)> {
    let Ok(Some(value)) = read(pipeline) else {
        return Vec::new();
    };
    let names = pipeline.spec.environments.iter().map(|it| it.name.clone());
    let with_request = |name: String| for_environment(&value, &name).map(|it| (name, it));
    names.filter_map(with_request).collect()
}

/// The annotation as JSON.
pub(super) fn read(pipeline: &Pipeline) -> Result<Option<Value>, serde_json::Error> {
    let annotations = pipeline.metadata.annotations.as_ref();
    let text = annotations.and_then(|annotations| annotations.get(REQUEST_ANNOTATION));
    text.map(|text| serde_json::from_str(text)).transpose()
}

/// The request for an environment: the annotation holds requests by environment, as the status does, or one request that names its
/// environment.
pub(super) fn for_environment(value: &Value, environment: &str) -> Option<Request> {
    let named = value.get("environment").and_then(Value::as_str) == Some(environment);
    let value = if named {
        value
    } else {
        value.get(environment)?
    };
    if !value.is_object() {
        return None;
    }
    let mut request: Request = serde_json::from_value(value.clone()).ok()?;
    if request.id.is_empty() {
        request.id = id_of(environment, &request);
    }
    Some(request)
}

/// The id of a request that has none: a hash of its fields.
fn id_of(environment: &str, request: &Request) -> String {
    let at = at(request.at.as_ref()).to_string();
    let kind = format!(
        "{:?}{}",
        request.kind,
        if request.unseen { " unseen" } else { "" }
    );
    short_hash(&[
        environment,
        &request.revision,
        &kind,
        &at,
        request.by.as_deref().unwrap_or_default(),
        request.note.as_deref().unwrap_or_default(),
    ])
}

//! Converts the spec of a PipelineRun between Tekton's API versions v1 and v1beta1.
//!
//! Runs are created in the version that is served. A field of the template at the other version's
//! path is moved; a field that is already at the right path wins.

use serde_json::{Map, Value, json};

/// The Tekton API versions that runs can be created in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TektonVersion {
    /// `tekton.dev/v1`.
    V1,
    /// `tekton.dev/v1beta1`.
    V1Beta1,
}

impl TektonVersion {
    /// The version of that name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "v1" => Some(Self::V1),
            "v1beta1" => Some(Self::V1Beta1),
            _ => None,
        }
    }

    /// Group and version, as in `apiVersion`.
    pub fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "tekton.dev/v1",
            Self::V1Beta1 => "tekton.dev/v1beta1",
        }
    }
}

type Fields = Map<String, Value>;

/// Moves the fields of a run's spec to their paths in a version.
pub(crate) fn convert(spec: &mut Fields, version: TektonVersion) {
    match version {
        TektonVersion::V1 => to_v1(spec),
        TektonVersion::V1Beta1 => to_v1beta1(spec),
    }
}

/// Sets the service account, replacing any other.
pub(crate) fn set_service_account(spec: &mut Fields, version: TektonVersion, account: &str) {
    match version {
        TektonVersion::V1 => {
            object_field(spec, "taskRunTemplate")
                .insert("serviceAccountName".into(), json!(account));
        }
        TektonVersion::V1Beta1 => {
            spec.insert("serviceAccountName".into(), json!(account));
        }
    }
}

fn to_v1(spec: &mut Fields) {
    for field in ["serviceAccountName", "podTemplate"] {
        if let Some(value) = spec.remove(field) {
            object_field(spec, "taskRunTemplate")
                .entry(field)
                .or_insert(value);
        }
    }
    if let Some(timeout) = spec.remove("timeout") {
        object_field(spec, "timeouts")
            .entry("pipeline")
            .or_insert(timeout);
    }
    for task in elements(spec, "taskRunSpecs") {
        rename(task, "taskServiceAccountName", "serviceAccountName");
        rename(task, "taskPodTemplate", "podTemplate");
    }
    if let Some(Value::Object(reference)) = spec.get_mut("pipelineRef") {
        resolve_bundle(reference);
    }
    if let Some(Value::Object(pipeline)) = spec.get_mut("pipelineSpec") {
        for list in ["tasks", "finally"] {
            for task in elements(pipeline, list) {
                rename_resources(task, "resources", "computeResources");
            }
        }
    }
}

fn to_v1beta1(spec: &mut Fields) {
    if let Some(Value::Object(template)) = spec.remove("taskRunTemplate") {
        for (field, value) in template {
            spec.entry(field).or_insert(value);
        }
    }
    for task in elements(spec, "taskRunSpecs") {
        rename(task, "serviceAccountName", "taskServiceAccountName");
        rename(task, "podTemplate", "taskPodTemplate");
    }
    if let Some(Value::Object(pipeline)) = spec.get_mut("pipelineSpec") {
        for list in ["tasks", "finally"] {
            for task in elements(pipeline, list) {
                rename_resources(task, "computeResources", "resources");
            }
        }
    }
}

/// v1 fetches a bundle by a resolver.
fn resolve_bundle(reference: &mut Fields) {
    let Some(bundle) = reference.remove("bundle") else {
        return;
    };
    let name = reference.remove("name").unwrap_or_default();
    reference.insert("resolver".into(), json!("bundles"));
    reference.insert(
        "params".into(),
        json!([
            { "name": "bundle", "value": bundle },
            { "name": "name", "value": name },
            { "name": "kind", "value": "pipeline" },
        ]),
    );
}

/// A step's compute resources have another name in each version.
fn rename_resources(task: &mut Fields, from: &str, to: &str) {
    let Some(Value::Object(spec)) = task.get_mut("taskSpec") else {
        return;
    };
    for list in ["steps", "sidecars"] {
        for container in elements(spec, list) {
            rename(container, from, to);
        }
    }
    if let Some(Value::Object(template)) = spec.get_mut("stepTemplate") {
        rename(template, from, to);
    }
}

fn object_field<'a>(fields: &'a mut Fields, name: &str) -> &'a mut Fields {
    let value = fields.entry(name).or_insert_with(|| json!({}));
    if !value.is_object() {
        *value = json!({});
    }
    value.as_object_mut().expect("just made an object")
}

fn elements<'a>(fields: &'a mut Fields, list: &str) -> impl Iterator<Item = &'a mut Fields> {
    let list = fields.get_mut(list).and_then(Value::as_array_mut);
    list.into_iter().flatten().filter_map(Value::as_object_mut)
}

fn rename(fields: &mut Fields, from: &str, to: &str) {
    if let Some(value) = fields.remove(from) {
        fields.entry(to).or_insert(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(version: TektonVersion, spec: Value, expected: Value) {
        let Value::Object(mut fields) = spec else {
            panic!("a spec is an object")
        };
        convert(&mut fields, version);
        assert_eq!(Value::Object(fields), expected);
    }

    #[test]
    fn old_fields_move_to_v1() {
        check(
            TektonVersion::V1,
            json!({
                "serviceAccountName": "bot", "podTemplate": {"nodeSelector": {}}, "timeout": "1h",
                "taskRunSpecs": [{"pipelineTaskName": "t", "taskServiceAccountName": "a", "taskPodTemplate": {}}],
                "pipelineRef": {"name": "build", "bundle": "reg/x"}, "kept": 1
            }),
            json!({
                "taskRunTemplate": {"serviceAccountName": "bot", "podTemplate": {"nodeSelector": {}}},
                "timeouts": {"pipeline": "1h"},
                "taskRunSpecs": [{"pipelineTaskName": "t", "serviceAccountName": "a", "podTemplate": {}}],
                "pipelineRef": {"resolver": "bundles", "params": [
                    {"name": "bundle", "value": "reg/x"}, {"name": "name", "value": "build"}, {"name": "kind", "value": "pipeline"}]},
                "kept": 1
            }),
        );
    }

    #[test]
    fn what_is_in_its_place_wins() {
        check(
            TektonVersion::V1,
            json!({"serviceAccountName": "old", "taskRunTemplate": {"serviceAccountName": "new"}}),
            json!({"taskRunTemplate": {"serviceAccountName": "new"}}),
        );
        check(
            TektonVersion::V1,
            json!({"pipelineRef": {"name": "x"}}),
            json!({"pipelineRef": {"name": "x"}}),
        );
    }

    #[test]
    fn new_fields_move_to_v1beta1() {
        check(
            TektonVersion::V1Beta1,
            json!({
                "taskRunTemplate": {"serviceAccountName": "bot", "podTemplate": {}},
                "timeouts": {"pipeline": "1h"},
                "taskRunSpecs": [{"serviceAccountName": "a"}],
                "pipelineSpec": {"tasks": [{"taskSpec": {"steps": [{"computeResources": {}}]}}]}
            }),
            json!({
                "serviceAccountName": "bot", "podTemplate": {},
                "timeouts": {"pipeline": "1h"},
                "taskRunSpecs": [{"taskServiceAccountName": "a"}],
                "pipelineSpec": {"tasks": [{"taskSpec": {"steps": [{"resources": {}}]}}]}
            }),
        );
    }

    #[test]
    fn embedded_steps_follow() {
        check(
            TektonVersion::V1,
            json!({"pipelineSpec": {"tasks": [{"taskSpec": {"steps": [{"resources": {"limits": {}}}], "stepTemplate": {"resources": {}}}}]}}),
            json!({"pipelineSpec": {"tasks": [{"taskSpec": {"steps": [{"computeResources": {"limits": {}}}], "stepTemplate": {"computeResources": {}}}}]}}),
        );
    }
}

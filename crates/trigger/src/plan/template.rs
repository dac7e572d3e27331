//! Reads the run template of a trigger, in any of the notations of its spec.
//!
//! An invalid spec gives the operator's own message where it had one.

use api::trigger::{PipelineTemplate, PipelineTrigger, Template, TriggerSourceKind};
use serde_json::{Map, Value, json};

use super::tekton::TektonVersion;

/// The run that a trigger describes, before an event is filled in.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RunTemplate {
    /// The metadata that the template gives.
    pub(crate) metadata: Map<String, Value>,
    /// The run's spec.
    pub(crate) spec: Map<String, Value>,
    /// The start of the run's name, if the template gives one.
    pub(crate) prefix: Option<String>,
}

impl RunTemplate {
    /// The Tekton Pipeline that must exist in the trigger's namespace.
    pub(crate) fn pipeline(&self) -> Option<&str> {
        let reference = self.spec.get("pipelineRef")?;
        let is_elsewhere = |field: &str| reference.get(field).is_some_and(|value| !value.is_null());
        if is_elsewhere("resolver") || is_elsewhere("bundle") {
            return None;
        }
        reference["name"].as_str().filter(|name| !name.is_empty())
    }
}

/// The trigger's template, or what is wrong with the trigger.
pub(crate) fn run_template(trigger: &PipelineTrigger) -> Result<RunTemplate, String> {
    check_source(trigger)?;
    match trigger.spec.template() {
        Some(Template::Pipeline(pipeline)) => Ok(from_pipeline(trigger, pipeline)),
        Some(Template::RunSpec(spec)) => Ok(RunTemplate {
            spec: spec.clone(),
            ..RunTemplate::default()
        }),
        Some(Template::Run(run)) => from_run(trigger, run),
        None => {
            Err("exactly one of pipeline, pipelineRunSpec and pipelineRun must be given".into())
        }
    }
}

/// Why a trigger can never start a run, as far as its spec alone shows.
pub fn lint(trigger: &PipelineTrigger) -> Option<String> {
    let mut trigger = trigger.clone();
    if trigger.metadata.namespace.is_none() {
        // It may be applied to the namespace that its run names.
        let run = trigger.spec.pipeline_run.as_ref();
        let named = run.and_then(|run| run.get("metadata")?.get("namespace")?.as_str());
        trigger.metadata.namespace = named.map(str::to_owned);
    }
    let template = match run_template(&trigger) {
        Ok(template) => template,
        Err(because) => return Some(because),
    };
    let is_given = |field: &str| {
        template
            .spec
            .get(field)
            .is_some_and(|value| !value.is_null())
    };
    (!is_given("pipelineRef") && !is_given("pipelineSpec")).then(|| {
        let text = "the run names no Tekton pipeline";
        format!("{text}: give a pipelineRef or a pipelineSpec")
    })
}

/// The API group a kind of source belongs to, and its plural name there.
pub fn group_and_plural(kind: TriggerSourceKind) -> (&'static str, &'static str) {
    match kind {
        TriggerSourceKind::GitRepository => (api::flux::SOURCE_GROUP, "gitrepositories"),
        TriggerSourceKind::OCIRepository => (api::flux::SOURCE_GROUP, "ocirepositories"),
        TriggerSourceKind::Bucket => (api::flux::SOURCE_GROUP, "buckets"),
        TriggerSourceKind::HelmChart => (api::flux::SOURCE_GROUP, "helmcharts"),
        TriggerSourceKind::ImagePolicy => (api::flux::IMAGE_GROUP, "imagepolicies"),
        TriggerSourceKind::PullRequest => ("pipeline.jquad.rocks", "pullrequests"),
    }
}

fn check_source(trigger: &PipelineTrigger) -> Result<(), String> {
    let source = &trigger.spec.source;
    if source.name.is_empty() {
        return Err("spec.source.name is empty".into());
    }
    let Some(asked) = &source.api_version else {
        return Ok(());
    };
    let Some(group) = group_of(asked) else {
        return Err("could not split the api version of the source as expected".into());
    };
    let (expected, _) = group_and_plural(source.kind);
    if group != expected && source.kind != TriggerSourceKind::PullRequest {
        let kind = source.kind;
        return Err(format!(
            "spec.source.apiVersion is {asked}, but a {kind:?} is in the API group {expected}"
        ));
    }
    Ok(())
}

fn group_of(api_version: &str) -> Option<&str> {
    match api_version.split('/').collect::<Vec<_>>().as_slice() {
        [group, version] if !group.is_empty() && !version.is_empty() => Some(group),
        _ => None,
    }
}

fn from_run(trigger: &PipelineTrigger, run: &Map<String, Value>) -> Result<RunTemplate, String> {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
    let api_version = text(run.get("apiVersion"));
    if !api_version.is_empty() {
        let Some(group) = group_of(&api_version) else {
            return Err("could not split the api version of the pipelinerun as expected".into());
        };
        if group != api::tekton::GROUP {
            return Err(format!(
                "spec.pipelineRun.apiVersion is {api_version}, but a PipelineRun is in the API group {}",
                api::tekton::GROUP
            ));
        }
    }
    let fields = |name: &str| run.get(name).and_then(Value::as_object).cloned();
    let metadata = fields("metadata").unwrap_or_default();
    let namespace = text(metadata.get("namespace"));
    if !namespace.is_empty() && Some(&namespace) != trigger.metadata.namespace.as_ref() {
        return Err("spec.pipelineRun.metadata.namespace not supported".into());
    }
    let Some(spec) = fields("spec") else {
        return Err("spec.pipelineRun has no spec".into());
    };
    let prefix = ["name", "generateName"].map(|field| text(metadata.get(field)));
    Ok(RunTemplate {
        spec,
        prefix: prefix.into_iter().find(|prefix| !prefix.is_empty()),
        metadata,
    })
}

fn from_pipeline(trigger: &PipelineTrigger, pipeline: &PipelineTemplate) -> RunTemplate {
    let mut spec = Map::new();
    spec.insert("pipelineRef".into(), json!({ "name": pipeline.name }));
    spec.insert("params".into(), json!(pipeline.input_params));
    if let Some(account) = pipeline
        .service_account_name
        .as_ref()
        .filter(|a| !a.is_empty())
    {
        spec.insert("serviceAccountName".into(), json!(account));
    }
    if let Some(context) = pipeline.security_context {
        spec.insert("podTemplate".into(), json!({ "securityContext": context }));
    }
    if let Some(workspace) = workspace(pipeline) {
        spec.insert("workspaces".into(), json!([workspace]));
    }
    RunTemplate {
        spec,
        metadata: Map::new(),
        prefix: trigger.metadata.name.clone(),
    }
}

fn workspace(pipeline: &PipelineTemplate) -> Option<Value> {
    let workspace = pipeline.workspace.as_ref()?;
    let name = workspace.name.as_ref().filter(|name| !name.is_empty())?;
    let access_mode = workspace.access_mode.as_deref().unwrap_or("ReadWriteOnce");
    let mut claim = json!({ "accessModes": [access_mode] });
    if let Some(size) = &workspace.size {
        claim["resources"] = json!({ "requests": { "storage": size } });
    }
    Some(json!({ "name": name, "volumeClaimTemplate": { "spec": claim } }))
}

/// The API version that runs are created in: the newest one served.
pub(crate) fn version_of(served: Option<TektonVersion>) -> Result<TektonVersion, String> {
    served.ok_or_else(|| "Tekton is not installed: nothing serves PipelineRun in tekton.dev".into())
}

//! The PipelineTrigger: which Flux source starts which Tekton run.
//!
//! One definition takes every shape the operator's releases had: the run as
//! `pipeline` (two generations of fields), as `pipelineRunSpec`, or as a whole
//! `pipelineRun`.

mod status;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{
    lenient::{absent_spec_is_empty, is_default, null_as_default},
    schema,
};

pub use status::{
    BranchState, Branches, GitRepositoryState, ImagePolicyState, PipelineTriggerStatus,
};

/// What to watch and what to start.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "pipeline.jquad.rocks",
    version = "v1alpha1",
    kind = "PipelineTrigger",
    namespaced,
    category = "sluice",
    shortname = "pt",
    status = "PipelineTriggerStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Starts a Tekton PipelineRun for each new revision of a source.",
    printcolumn = r#"{"name":"Source","type":"string","jsonPath":".spec.source.name"}"#,
    printcolumn = r#"{"name":"Revision","type":"string","jsonPath":".status.latestEvent"}"#,
    printcolumn = r#"{"name":"LastRun","type":"string","jsonPath":".status.latestPipelineRun"}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!default, extend("x-kubernetes-validations" = [{
    "rule": "(has(self.pipeline) ? 1 : 0) + (has(self.pipelineRunSpec) ? 1 : 0) + (has(self.pipelineRun) ? 1 : 0) == 1",
    "message": "exactly one of pipeline, pipelineRunSpec and pipelineRun must be given"
}]))]
pub struct PipelineTriggerSpec {
    /// The object whose revisions start runs, in the same namespace.
    pub source: TriggerSource,
    /// The run, in the syntax of the trigger operator's first versions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pipeline: Option<PipelineTemplate>,
    /// The spec of the run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::foreign_object", default)]
    pub pipeline_run_spec: Option<Map<String, Value>>,
    /// Tekton's API version for a run given as `pipelineRunSpec`. Default: the newest one
    /// served.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("enum" = ["tekton.dev/v1beta1", "tekton.dev/v1"]))]
    pub tekton_api_version: Option<String>,
    /// The whole run.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::foreign_object", default)]
    pub pipeline_run: Option<Map<String, Value>>,
    /// A ManagedCredential (`credentials.jquad.rocks`) whose service account and Secret the run uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub credentials_ref: Option<CredentialsReference>,
    /// Another name for `credentialsRef`, which takes precedence.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed_credential_ref: Option<CredentialsReference>,
    /// Start no runs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub suspend: bool,
    /// Which revisions start runs. Default: all of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub filters: Option<Filters>,
    /// What to do while an earlier run is not finished. Default: start the next.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<Concurrency>,
}

absent_spec_is_empty!(PipelineTriggerSpec);

/// How the run is described.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Template<'a> {
    /// In the first notation of the trigger operator.
    Pipeline(&'a PipelineTemplate),
    /// By its spec.
    RunSpec(&'a Map<String, Value>),
    /// As a whole object.
    Run(&'a Map<String, Value>),
}

impl PipelineTriggerSpec {
    /// The one template given; nothing when there is none or more than one.
    pub fn template(&self) -> Option<Template<'_>> {
        match (&self.pipeline, &self.pipeline_run_spec, &self.pipeline_run) {
            (Some(pipeline), None, None) => Some(Template::Pipeline(pipeline)),
            (None, Some(spec), None) => Some(Template::RunSpec(spec)),
            (None, None, Some(run)) => Some(Template::Run(run)),
            _ => None,
        }
    }

    /// The ManagedCredential, under either of its names.
    pub fn credentials(&self) -> Option<&CredentialsReference> {
        self.credentials_ref
            .as_ref()
            .or(self.managed_credential_ref.as_ref())
    }
}

/// The object whose revisions start runs.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct TriggerSource {
    /// The object's API group and version. Default: the newest one served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The object's kind.
    pub kind: TriggerSourceKind,
    /// The object's name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// The kinds that can start runs.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum TriggerSourceKind {
    /// An image tag that Flux selects.
    ImagePolicy,
    /// A git repository that Flux fetches.
    #[default]
    GitRepository,
    /// The open pull requests of a repository.
    PullRequest,
    /// An OCI artifact that Flux fetches.
    OCIRepository,
    /// A bucket that Flux fetches.
    Bucket,
    /// A Helm chart that Flux fetches.
    HelmChart,
}

/// The run, in the syntax of the trigger operator's first versions.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PipelineTemplate {
    /// The Tekton Pipeline to run.
    pub name: String,
    /// The service account the run uses.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// Parameters; values may refer to the event.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    pub input_params: Vec<InputParameter>,
    /// A volume made for each run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<Workspace>,
    /// User and groups the run's pods have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_context: Option<SecurityContext>,
    /// How often a failed run is repeated.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10))]
    pub retries: Option<i64>,
    /// How many runs may fail for one event, the first included.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10))]
    pub max_failed_retries: Option<i64>,
    /// How many runs are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 10))]
    pub max_history: Option<i64>,
}

/// One parameter of a run.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct InputParameter {
    /// The parameter's name.
    pub name: String,
    /// A literal value, or a reference into the event.
    pub value: String,
}

/// A volume made for each run.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Workspace {
    /// The workspace's name in the Tekton Pipeline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The volume's size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// The volume's access mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub access_mode: Option<String>,
}

/// User and groups of a run's pods.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct SecurityContext {
    /// The user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_as_user: Option<i64>,
    /// The group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_as_group: Option<i64>,
    /// The group that owns volumes.
    #[serde(rename = "fsGroup", skip_serializing_if = "Option::is_none")]
    pub filesystem_group: Option<i64>,
}

/// A ManagedCredential.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct CredentialsReference {
    /// Accepted and ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Accepted and ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The ManagedCredential's name.
    pub name: String,
    /// Its namespace; without it the trigger's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// Which revisions count. An empty list lets everything through.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Filters {
    /// Globs, one of which the branch must match.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 255)))]
    pub branches: Vec<String>,
    /// Globs, one of which the tag must match.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 255)))]
    pub tags: Vec<String>,
}

/// What to do while an earlier run is not finished: start the next one beside it (`Allow`, the default), wait
/// (`Forbid`), or cancel it (`Replace`).
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Concurrency {
    /// Start the next one beside it.
    Allow,
    /// Wait until it is finished.
    Forbid,
    /// Cancel it and start the next one.
    Replace,
}

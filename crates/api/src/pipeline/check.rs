//! Checks that a pipeline defines, and which of them an environment needs to pass.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Duration,
    lenient::{is_default, null_as_default},
    reference::LocalReference,
};

/// A check: one of `prometheus`, `http`, `job` and `external`, and how often it is measured.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, extend("x-kubernetes-validations" = [{
    "rule": "[has(self.prometheus), has(self.http), has(self.job), has(self.external)].filter(it, it).size() == 1",
    "message": "a check is exactly one of prometheus, http, job and external"
}]))]
pub struct Check {
    /// The name that environments refer to.
    #[schemars(
        length(min = 1, max = 63),
        regex(pattern = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    )]
    pub name: String,
    /// Ask a Prometheus server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prometheus: Option<PrometheusCheck>,
    /// Send a GET request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http: Option<HttpCheck>,
    /// Run a Job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job: Option<JobCheck>,
    /// Wait for a result that somebody else reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<ExternalCheck>,
    /// How long to wait before the first measurement. Default: none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_delay: Option<Duration>,
    /// How often `prometheus` and `http` measure. If it is set, they also measure after they have passed, while
    /// the revision soaks. Default: every 30 seconds, until they have passed or failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<Duration>,
    /// How many measurements in a row must pass. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub success_threshold: Option<i64>,
    /// How many failed measurements in a row fail the check. Default: 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1000))]
    pub failure_threshold: Option<i64>,
    /// Time after which a check that has not passed fails. Default: 15 minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
}

/// The kinds of check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckKind {
    /// A query of a Prometheus server.
    Prometheus,
    /// A GET request.
    Http,
    /// A Job.
    Job,
    /// A result that somebody else reports.
    External,
}

impl CheckKind {
    /// The kind as it is written in a check.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Prometheus => "prometheus",
            Self::Http => "http",
            Self::Job => "job",
            Self::External => "external",
        }
    }
}

impl Check {
    /// The kinds that it names; a valid check names one.
    pub fn kinds(&self) -> Vec<CheckKind> {
        [
            self.prometheus.as_ref().map(|_| CheckKind::Prometheus),
            self.http.as_ref().map(|_| CheckKind::Http),
            self.job.as_ref().map(|_| CheckKind::Job),
            self.external.as_ref().map(|_| CheckKind::External),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// A query of a Prometheus server.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PrometheusCheck {
    /// The URL of the server. The controller must allow its host.
    #[schemars(length(min = 1, max = 2048))]
    pub address: String,
    /// The query; `${environment}`, `${revision}`, `${version}` and `${pipeline}` are filled in.
    #[schemars(length(min = 1, max = 4096))]
    pub query: String,
    /// A CEL expression over `value`, the first result, and `values`, all of them.
    #[schemars(length(min = 1, max = 1024))]
    pub pass_expr: String,
    /// Secret with credentials for the server. Its annotation `pipelines.weave.works/host` must name the
    /// host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
}

/// A GET request.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct HttpCheck {
    /// The URL; `${environment}`, `${revision}`, `${version}` and `${pipeline}` are filled in. The
    /// controller must allow its host.
    #[schemars(length(min = 1, max = 2048))]
    pub url: String,
    /// A CEL expression over `status`, `body`, `json` and `headers`.
    #[schemars(length(min = 1, max = 1024))]
    pub pass_expr: String,
    /// Secret with credentials for the server. Its annotation `pipelines.weave.works/host` must name the
    /// host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
}

/// A Job that is made from the template of a CronJob.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct JobCheck {
    /// A suspended CronJob of the pipeline's namespace with the annotation
    /// `pipelines.weave.works/check: "true"`.
    pub cron_job_ref: LocalReference,
}

/// A result that somebody else reports.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ExternalCheck {
    /// Secret with the key `hmac-key` that signs results of this check. Without it, only people with the
    /// verb `report` can report them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
}

/// What a revision must pass in an environment before it goes on.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Verify {
    /// The names of the checks.
    #[serde(deserialize_with = "null_as_default")]
    #[schemars(length(min = 1, max = 16), inner(length(min = 1, max = 63)))]
    pub checks: Vec<String>,
    /// What happens when a check fails: the revision does not go on (`Hold`, the default), or the environment is also
    /// rolled back to the last revision that passed its checks (`Rollback`).
    #[serde(skip_serializing_if = "is_default")]
    #[schemars(default)]
    pub on_failure: OnFailure,
}

/// What happens when a check of an environment fails.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// The revision does not go on.
    #[default]
    Hold,
    /// The environment is also rolled back to the last revision that passed its checks.
    Rollback,
}

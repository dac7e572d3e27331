//! The spec of a Pipeline.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    check::{Check, Verify},
    promotion::{ForgeKind, PromotionSettings},
};
use crate::{
    LabelSelector,
    lenient::{absent_spec_is_empty, is_default, null_as_default},
    reference::LocalReference,
    schema,
};

/// The environments of one application, in the order in which revisions pass through them.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "pipelines.weave.works",
    version = "v1alpha1",
    kind = "Pipeline",
    namespaced,
    category = "sluice",
    shortname = "pipe",
    status = "super::PipelineStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "Promotes revisions of one application through its environments.",
    printcolumn = r#"{"name":"State","type":"string","jsonPath":".status.state"}"#,
    printcolumn = r#"{"name":"Runs","type":"string","jsonPath":".status.runs"}"#,
    printcolumn = r#"{"name":"App Kind","type":"string","jsonPath":".spec.appRef.kind","priority":1}"#,
    printcolumn = r#"{"name":"App Name","type":"string","jsonPath":".spec.appRef.name","priority":1}"#,
    printcolumn = r#"{"name":"Ready","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"}"#,
    printcolumn = r#"{"name":"Status","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].message","priority":1}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!default)]
pub struct PipelineSpec {
    /// The object that runs the application; it has the same kind and name in every target.
    /// Without it the labelled HelmReleases, Kustomizations and workloads of each target are shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub app_ref: Option<AppReference>,
    /// Environments in the order of promotion, unless an environment has `after`.
    #[serde(deserialize_with = "null_as_default")]
    pub environments: Vec<Environment>,
    /// The promotion settings of all environments that have none of their own. The `promotion` of an environment
    /// replaces them as a whole; the two are not merged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promotion: Option<PromotionSettings>,
    /// Neither start nor continue promotions into any environment.
    #[serde(default, skip_serializing_if = "is_default")]
    pub suspend: bool,
    /// What proposes revisions for the first environment. Without it, Sluice does not promote into that
    /// one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// Promote the tag or digest of an image instead of the chart version or commit of the app.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub track: Option<Track>,
    /// The repository of the application's source code, to show which commits a promotion brings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changelog: Option<Changelog>,
    /// Checks that environments can name in `verify` and `promotion.checks`.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    #[schemars(length(max = 16))]
    pub checks: Vec<Check>,
}

absent_spec_is_empty!(PipelineSpec);

impl PipelineSpec {
    /// The settings for promotions into an environment: those of the first environment of that
    /// name that has any, else the pipeline's.
    pub fn promotion_into(&self, environment: &str) -> Option<&PromotionSettings> {
        let own = |candidate: &&Environment| {
            candidate.name == environment && candidate.promotion.is_some()
        };
        match self.environments.iter().find(own) {
            Some(environment) => environment.promotion.as_ref(),
            None => self.promotion.as_ref(),
        }
    }

    /// The check of a name.
    pub fn check(&self, name: &str) -> Option<&Check> {
        self.checks.iter().find(|check| check.name == name)
    }

    /// The names of the checks that a revision must pass in an environment before it goes on.
    pub fn verify_checks(&self, environment: &str) -> &[String] {
        let mut environments = self.environments.iter();
        let verify = environments
            .find(|it| it.name == environment)
            .and_then(|it| it.verify.as_ref());
        verify.map(|it| it.checks.as_slice()).unwrap_or_default()
    }
}

/// Which object runs the application.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct AppReference {
    /// The object's API group and version.
    pub api_version: String,
    /// The object's kind.
    pub kind: String,
    /// The object's name, the same in every target.
    pub name: String,
}

/// One environment.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Environment {
    /// The name of the environment.
    pub name: String,
    /// The names of the environments that revisions come from. By default that is the one before in the
    /// list, and none for the first. With several, the newest revision that is verified in each of them is
    /// promoted. With an empty list nothing is promoted into an environment that is not the first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16), inner(length(max = 253)))]
    pub after: Option<Vec<String>>,
    /// The targets: clusters and namespaces that the application runs in.
    #[serde(deserialize_with = "null_as_default")]
    pub targets: Vec<Target>,
    /// The promotion settings of this environment, instead of the pipeline's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promotion: Option<PromotionSettings>,
    /// The checks that a revision must pass here before it goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verify: Option<Verify>,
    /// Neither start nor continue promotions into this environment.
    #[serde(default, skip_serializing_if = "is_default")]
    pub suspend: bool,
}

/// A cluster and a namespace in it.
// The two ways to name clusters exclude each other by `not`, not by CEL: environments and targets
// are unbounded lists, and no rule inside them stays within the API server's cost limit.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, extend("not" = { "required": ["clusterRef", "clusterSelector"] }))]
pub struct Target {
    /// The namespace of the application on that cluster.
    pub namespace: String,
    /// The cluster; without it and without `clusterSelector`, the hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_ref: Option<ClusterReference>,
    /// One target for each GitopsCluster with these labels, instead of `clusterRef`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::label_selector", default)]
    pub cluster_selector: Option<LabelSelector>,
}

/// Which cluster a target is on.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ClusterReference {
    /// Accepted and ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Always a GitopsCluster.
    #[schemars(extend("enum" = ["GitopsCluster"]))]
    pub kind: String,
    /// The GitopsCluster's name.
    pub name: String,
    /// The GitopsCluster's namespace; without it the pipeline's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// What proposes revisions for the first environment.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self.kind == 'Hook' || has(self.name)",
    "message": "a source other than Hook needs a name"
}]))]
pub struct Source {
    /// The kind of object, or `Hook` for revisions that a signed call to `/release` proposes.
    pub kind: SourceKind,
    /// The object's name, in the pipeline's namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub name: Option<String>,
}

/// The kinds that can propose revisions.
#[derive(
    Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord,
)]
pub enum SourceKind {
    /// A Helm chart that Flux fetches.
    HelmChart,
    /// An OCI artifact that Flux fetches.
    OCIRepository,
    /// A git repository that Flux fetches.
    GitRepository,
    /// An image tag that Flux selects.
    ImagePolicy,
    /// A signed HTTP call.
    Hook,
}

/// Promote the tag or digest of one image instead of the chart version or commit of the app.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Track {
    /// The image's name without tag or digest.
    #[schemars(length(min = 1, max = 255))]
    pub image: String,
}

/// The repository of the application's source code. Nothing is ever written to it.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Changelog {
    /// The kind of the forge.
    #[serde(rename = "type")]
    pub forge: ForgeKind,
    /// HTTPS URL of the repository.
    #[schemars(length(min = 1, max = 2048))]
    pub url: String,
    /// Secret with the token that lists commits. Without it, there is only a link that compares them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
}

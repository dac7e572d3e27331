//! The promotion settings of a pipeline or an environment.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    approval_policy::ApprovalPolicy,
    rfc_spelling::{RfcPullRequest, RfcWebhook},
    rollout::Rollout,
};
use crate::{
    Duration,
    lenient::{is_default, null_as_default},
    reference::LocalReference,
};

/// When and how an environment is promoted.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!default)]
pub struct PromotionSettings {
    /// Wait for a person's approval of each revision.
    #[serde(default, skip_serializing_if = "is_default")]
    pub manual: bool,
    /// Who must approve each revision, and how many of them. `manual` alone asks for one approval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_policy: Option<ApprovalPolicy>,
    /// How a promotion is carried out; exactly one strategy.
    #[serde(default)]
    pub strategy: Strategy,
    /// How much of the previous environment must run the revision. Default: all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<When>,
    /// How long the previous environment must have been ready at the revision, without a break. Default: `0s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soak: Option<Duration>,
    /// The names of the checks that a revision must pass before it enters the environment.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    #[schemars(length(max = 16), inner(length(min = 1, max = 63)))]
    pub checks: Vec<String>,
    /// Promote only revisions whose signature Flux verified in the previous environment: the OCIRepository or
    /// GitRepository there has `verify`, and its condition `SourceVerified` is true for the revision.
    #[serde(default, skip_serializing_if = "is_default")]
    pub require_verified_source: bool,
    /// What one promotion covers. Default: the environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// Go through the targets of the environment in waves. Not with `scope: Target`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
    /// How long the deployment may take after the change was made (merged, pushed, tagged or sent). Default: one
    /// hour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deploy_timeout: Option<Duration>,
    /// A pull request in the syntax of RFC-0003, instead of `strategy`: to GitHub, with the credentials in the
    /// Secret `git-credentials`. Defaults: `scope: Target` and `when: AnyTargetReady`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<RfcPullRequest>,
    /// A webhook in the syntax of RFC-0003, instead of `strategy`. Defaults: `scope: Target` and
    /// `when: AnyTargetReady`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<RfcWebhook>,
}

impl PromotionSettings {
    /// Whether people must approve each revision.
    pub fn needs_approval(&self) -> bool {
        self.manual || self.approval_policy.is_some()
    }
}

/// How much of the previous environment must be ready at a revision: all targets (`AllTargetsReady`, the default) or
/// one (`AnyTargetReady`).
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Every target.
    AllTargetsReady,
    /// One target is enough.
    AnyTargetReady,
}

/// What one promotion covers: the whole `Environment` (the default), or one `Target`, each with its own.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The whole environment.
    Environment,
    /// One target; each has its own promotion.
    Target,
}

/// How a promotion is carried out.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Strategy {
    /// Propose the change in a pull request.
    #[serde(rename = "pull-request", skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<PullRequestStrategy>,
    /// Push the change to a branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<Commit>,
    /// Emit an event, and leave the change to its receiver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notification: Option<Notification>,
    /// Call a URL, and leave the change to its receiver.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Webhook>,
    /// Point a tag of an OCI repository at what the previous environment runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oci: Option<Oci>,
    /// Publish the revision as an input that Flux Operator on the clusters polls.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_set_inputs: Option<ResourceSetInputs>,
    /// Secret with the key `hmac-key`, with which webhook requests are signed: reports, approvals and proposed
    /// revisions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
}

/// Propose the change in a pull request.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PullRequestStrategy {
    /// The kind of the forge.
    #[serde(rename = "type")]
    pub forge: ForgeKind,
    /// URL the repository is cloned from: `https://…` or `ssh://…`.
    pub url: String,
    /// The branch that the pull request changes.
    pub base_branch: String,
    /// Secret with the credentials for git and for the forge.
    pub secret_ref: LocalReference,
    /// Labels to put on the pull request.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(length(max = 20), inner(length(min = 1, max = 100)))]
    pub labels: Vec<String>,
    /// People or teams asked for review.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(length(max = 20), inner(length(min = 1, max = 100)))]
    pub reviewers: Vec<String>,
    /// Open it as a draft.
    #[serde(default, skip_serializing_if = "is_default")]
    pub draft: bool,
    /// Merge it once the forge's conditions are met and no gate is closed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub auto_merge: bool,
    /// The merge method for `autoMerge`. On GitLab the settings of the project decide about merge commits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merge_method: Option<MergeMethod>,
    /// What the pull request shows while it is open: a commit status, a comment, or both. Default: both.
    /// An empty list shows nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2))]
    pub feedback: Option<Vec<FeedbackKind>>,
    /// The title, instead of the default; `${field}` is filled in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub title: Option<String>,
    /// Text before the metadata block; `${field}` is filled in.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 16384))]
    pub body: Option<String>,
    /// The only files that may change; `${environment}`, `${cluster}` and `${namespace}` are
    /// filled in.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 512)))]
    pub paths: Vec<String>,
}

impl PullRequestStrategy {
    /// What the pull request shows.
    pub fn shown_feedback(&self) -> &[FeedbackKind] {
        self.feedback.as_deref().unwrap_or(&FeedbackKind::ALL)
    }
}

/// What is shown on a pull request.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum FeedbackKind {
    /// The commit status `sluice/<environment>` on the head: pending while a gate is closed.
    CommitStatus,
    /// One comment with what it brings, the gates and the steps, which is edited in place.
    Comment,
}

impl FeedbackKind {
    /// All kinds: what pull requests show by default.
    pub const ALL: [Self; 2] = [Self::CommitStatus, Self::Comment];
}

/// How a pull request is merged with `autoMerge`: with a `merge` commit (the default), as one commit (`squash`),
/// or rebased on the base branch (`rebase`). On GitLab the settings of the project decide about merge commits.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum MergeMethod {
    /// With a merge commit.
    #[default]
    Merge,
    /// As one commit.
    Squash,
    /// Rebased on the base branch.
    Rebase,
}

/// The kinds of forge.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum ForgeKind {
    /// GitHub and GitHub Enterprise Server.
    #[default]
    Github,
    /// GitLab.
    Gitlab,
    /// Bitbucket Server and Data Center.
    BitbucketServer,
    /// Bitbucket Cloud.
    BitbucketCloud,
    /// Gitea and Forgejo.
    Gitea,
    /// Azure DevOps.
    AzureDevops,
}

/// Push the change to a branch.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Commit {
    /// URL the repository is cloned from: `https://…` or `ssh://…`.
    #[schemars(length(min = 1, max = 2048))]
    pub url: String,
    /// The branch to push to.
    #[schemars(length(min = 1, max = 255))]
    pub base_branch: String,
    /// Secret with the credentials for git.
    pub secret_ref: LocalReference,
    /// The only files that may change; `${environment}`, `${cluster}` and `${namespace}` are
    /// filled in.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(length(max = 32), inner(length(min = 1, max = 512)))]
    pub paths: Vec<String>,
}

/// Emit an event. Has no settings.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notification {}

/// Call a URL with the promotion as JSON.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Webhook {
    /// The URL to POST to.
    #[schemars(length(min = 1, max = 2048))]
    pub url: String,
    /// Secret with the key `token` that signs the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
}

/// Point a tag of an OCI repository at the digest that the previous environment runs.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Oci {
    /// The repository as `oci://host/name`. The digest must be in it: nothing is copied from another.
    #[schemars(
        length(min = 1, max = 2048),
        regex(pattern = r"^oci://[^/@?#]+/[^@?#]+$")
    )]
    pub url: String,
    /// The tag that the targets of the environment follow; `${environment}`, `${cluster}`, `${namespace}`
    /// and `${version}` are filled in, `${version}` only if the targets follow exact tags.
    #[schemars(length(min = 1, max = 256))]
    pub tag: String,
    /// Secret with the credentials: `.dockerconfigjson`, or `username` and `password`, or `token`; and
    /// `caFile`. Without it, no credentials.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
    /// Use the workload identity of the controller for a registry of this cloud, instead of a Secret. The
    /// controller must allow it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<OciProvider>,
    /// Reach the registry without TLS.
    #[serde(default, skip_serializing_if = "is_default")]
    pub insecure: bool,
}

/// Publish the revision as an input of Flux Operator's ResourceSets. Clusters ask for it at `/inputs` on the
/// hooks' address, with a ResourceSetInputProvider of the type ExternalService.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ResourceSetInputs {
    /// Secret with the key `inputs-token`: the bearer token that clusters send.
    pub secret_ref: LocalReference,
}

/// A cloud whose workload identity is used instead of a Secret; the controller must allow it. Default: none.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum OciProvider {
    /// Amazon's ECR.
    Aws,
    /// Azure's ACR.
    Azure,
    /// Google's Artifact Registry and Container Registry.
    Gcp,
}

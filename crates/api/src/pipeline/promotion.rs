//! How a revision gets into an environment.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::rfc_spelling::{RfcPullRequest, RfcWebhook};
use crate::{Duration, lenient::is_default, reference::LocalReference};

/// When and how an environment is promoted.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default, remote = "Self")]
#[schemars(!default)]
pub struct PromotionSettings {
    /// Wait for a person's approval of each revision.
    #[serde(default, skip_serializing_if = "is_default")]
    pub manual: bool,
    /// The way a promotion is carried out; exactly one.
    #[serde(default)]
    pub strategy: Strategy,
    /// How much of the source environment must run the revision. All of it unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub when: Option<When>,
    /// How long the source environment must have been ready at the revision, without a break.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soak: Option<Duration>,
    /// What one promotion covers. The environment unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scope: Option<Scope>,
    /// How long after the merge an environment may take to run the revision. One hour unless said
    /// otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deploy_timeout: Option<Duration>,
    /// The first spelling of a pull request, instead of `strategy`: to GitHub, with the credentials
    /// in the Secret `git-credentials`, and with `scope: Target` and `when: AnyTargetReady` unless
    /// said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<RfcPullRequest>,
    /// The first spelling of a webhook, instead of `strategy`: with `scope: Target` and
    /// `when: AnyTargetReady` unless said otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<RfcWebhook>,
}

/// How much of the source environment must run a revision.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Every target.
    AllTargetsReady,
    /// One target is enough.
    AnyTargetReady,
}

/// What one promotion covers.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The whole environment.
    Environment,
    /// One target; each has its own promotion.
    Target,
}

/// The way a promotion is carried out.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Strategy {
    /// Propose the change in a pull request.
    #[serde(rename = "pull-request", skip_serializing_if = "Option::is_none")]
    pub pull_request: Option<PullRequest>,
    /// Push the change straight to a branch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<Commit>,
    /// Emit an event and leave the change to whoever listens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub notification: Option<Notification>,
    /// Call a URL and leave the change to whoever answers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<Webhook>,
    /// Secret with the key `hmac-key` that signs incoming reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
}

/// Propose the change in a pull request.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PullRequest {
    /// The forge's kind.
    #[serde(rename = "type")]
    pub forge: Forge,
    /// HTTPS URL the repository is cloned from.
    pub url: String,
    /// The branch the pull request asks to change.
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
    /// Ask the forge to merge it once its checks pass.
    #[serde(default, skip_serializing_if = "is_default")]
    pub auto_merge: bool,
    /// How it is merged then, where the repository does not allow merge commits. On GitLab the
    /// project says whether there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merge_method: Option<MergeMethod>,
    /// Title, instead of the usual one; `${field}` is filled in.
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

/// How a pull request becomes part of its base.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum MergeMethod {
    /// With a merge commit.
    #[default]
    Merge,
    /// As one commit.
    Squash,
    /// Put on top of the base.
    Rebase,
}

/// The kinds of forge.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Forge {
    /// GitHub, also its enterprise server.
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

/// Push the change straight to a branch.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Commit {
    /// URL the repository is cloned from.
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
    /// Where to POST.
    #[schemars(length(min = 1, max = 2048))]
    pub url: String,
    /// Secret with the key `token` that signs the call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub secret_ref: Option<LocalReference>,
}

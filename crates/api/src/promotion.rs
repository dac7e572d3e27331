//! The Promotion: one attempt to bring one revision into one site, an environment or one target of it.
//!
//! Its spec is fixed when it is created; afterwards only approvals (one per person), a rejection and a
//! withdrawal can be added. Nobody can take an approval back.

mod change;
mod decision;
mod feedback;
mod rollout;

pub use change::{
    ChangeContent, FieldEdit, PromotionChange, SourceCommit, SourceCommits, SourceRange,
    change_digest, edit_hash,
};
pub use decision::{Approval, ObservedApproval, Rejection, Withdrawal};
pub use feedback::{CommitState, ShownCommitStatus, ShownFeedback};
pub use rollout::{Batch, RolloutStatus, RolloutStop, RolloutTarget, WaveStatus};

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    Condition, Time,
    check_run::{CheckCause, CheckVerdict},
    lenient::{is_default, null_as_default},
    pipeline::{ApprovalPolicy, RequestKind, Rollout, Strategy},
    revision, schema,
};

/// The revision to promote, and how.
#[derive(CustomResource, Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[kube(
    group = "pipelines.weave.works",
    version = "v1alpha1",
    kind = "Promotion",
    namespaced,
    category = "sluice",
    shortname = "promo",
    status = "PromotionStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "One attempt to bring one revision into one environment or target.",
    printcolumn = r#"{"name":"Pipeline","type":"string","jsonPath":".spec.pipeline"}"#,
    printcolumn = r#"{"name":"Environment","type":"string","jsonPath":".spec.environment"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Revision","type":"string","jsonPath":".spec.revision"}"#,
    printcolumn = r#"{"name":"URL","type":"string","jsonPath":".status.url","priority":1}"#,
    printcolumn = r#"{"name":"Message","type":"string","jsonPath":".status.message","priority":1}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default, extend("x-kubernetes-validations" = [
    {
        "rule": "self.pipeline == oldSelf.pipeline && self.environment == oldSelf.environment && self.revision == oldSelf.revision && self.version == oldSelf.version && self.ordinal == oldSelf.ordinal && self.strategy == oldSelf.strategy && self.needsApproval == oldSelf.needsApproval",
        "message": "a promotion cannot be edited"
    },
    {
        "rule": "has(self.target) == has(oldSelf.target) && (!has(self.target) || self.target == oldSelf.target) && has(self.replaces) == has(oldSelf.replaces) && (!has(self.replaces) || self.replaces == oldSelf.replaces) && has(self.request) == has(oldSelf.request) && (!has(self.request) || self.request == oldSelf.request) && has(self.digest) == has(oldSelf.digest) && (!has(self.digest) || self.digest == oldSelf.digest) && has(self.replacesDigest) == has(oldSelf.replacesDigest) && (!has(self.replacesDigest) || self.replacesDigest == oldSelf.replacesDigest) && has(self.verifiedAt) == has(oldSelf.verifiedAt) && (!has(self.verifiedAt) || self.verifiedAt == oldSelf.verifiedAt)",
        "message": "a promotion cannot be edited"
    },
    {
        "rule": "has(self.sourceRange) == has(oldSelf.sourceRange) && (!has(self.sourceRange) || self.sourceRange == oldSelf.sourceRange)",
        "message": "a promotion cannot be edited"
    },
    {
        "rule": "has(self.rollout) == has(oldSelf.rollout) && (!has(self.rollout) || self.rollout == oldSelf.rollout)",
        "message": "a promotion cannot be edited"
    },
    {
        "rule": "has(self.cause) == has(oldSelf.cause) && (!has(self.cause) || self.cause == oldSelf.cause)",
        "message": "a promotion cannot be edited"
    },
    {
        "rule": "has(self.approvalPolicy) == has(oldSelf.approvalPolicy) && (!has(self.approvalPolicy) || self.approvalPolicy == oldSelf.approvalPolicy)",
        "message": "a promotion cannot be edited"
    },
    {
        "rule": "has(self.approval) == has(oldSelf.approval) && (!has(self.approval) || self.approval == oldSelf.approval)",
        "message": "approvals are given in spec.approvals"
    },
    {
        "rule": "!has(oldSelf.approvals) || has(self.approvals) && oldSelf.approvals.all(old, self.approvals.exists(new, new.by == old.by))",
        "message": "an approval cannot be taken back; reject the promotion instead"
    },
    {
        "rule": "!has(oldSelf.rejection) || has(self.rejection) && self.rejection == oldSelf.rejection",
        "message": "a promotion is rejected once, and that cannot be changed or taken back"
    },
    {
        "rule": "!has(oldSelf.withdrawn) || has(self.withdrawn)",
        "message": "a withdrawal cannot be taken back"
    }
]))]
pub struct PromotionSpec {
    /// The Pipeline's name, in the same namespace.
    #[schemars(length(min = 1, max = 253))]
    pub pipeline: String,
    /// The environment it leads into.
    #[schemars(length(max = 1024))]
    pub environment: String,
    /// The one target that it covers; without it, the whole environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<PromotionTarget>,
    /// The revision to promote.
    #[serde(deserialize_with = "revision::stored")]
    #[schemars(length(min = 1, max = 256))]
    pub revision: String,
    /// The version of that revision, as it is written to git.
    #[schemars(length(min = 1, max = 256))]
    pub version: String,
    /// The revision that ran in the environment or target when the promotion was created.
    #[serde(
        deserialize_with = "revision::stored_option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(max = 256))]
    pub replaces: Option<String>,
    /// The digest of the OCI artifact, where the revision is a version.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub digest: Option<String>,
    /// The digest of the OCI artifact that it replaces.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub replaces_digest: Option<String>,
    /// Since when the revision could be promoted: when the previous environment had been ready at it for
    /// `soak`. Absent if a person requested it or the source of the pipeline proposed it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub verified_at: Option<Time>,
    /// The commits of the source code that it leads from and to, where the pipeline has a `changelog`
    /// and they are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source_range: Option<SourceRange>,
    /// The number of earlier promotions of the same revision; 0 for the first.
    #[schemars(range(min = 0))]
    pub ordinal: i64,
    /// The strategy of the pipeline at the time.
    pub strategy: Strategy,
    /// The waves and limits of the pipeline at the time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
    /// Whether people must approve first.
    pub needs_approval: bool,
    /// Who must approve, and how many of them; without it one approval is enough.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval_policy: Option<ApprovalPolicy>,
    /// The request that led to it, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request: Option<PromotionRequest>,
    /// The uid of the promotion whose checks failed, if this one rolls it back.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub cause: Option<String>,
    /// Why it was withdrawn. Only the controller sets this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withdrawn: Option<Withdrawal>,
    /// Who approved it; one entry per user, who may replace it.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    #[schemars(length(max = 16), extend(
        "x-kubernetes-list-type" = "map",
        "x-kubernetes-list-map-keys" = ["by"]
    ))]
    pub approvals: Vec<Approval>,
    /// Who rejected it. Set once; ends the promotion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rejection: Option<Rejection>,
    /// The approval as earlier versions of Sluice stored it. It still counts; new ones are in `approvals`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
}

impl PromotionSpec {
    /// The revision for people and for ordering: with its tag where it is a digest.
    pub fn shown_revision(&self) -> String {
        revision::shown(&self.revision, Some(&self.version))
    }

    /// Every approval that was given, also as earlier versions stored it, whether or not it counts.
    pub fn given_approvals(&self) -> impl Iterator<Item = &Approval> {
        self.approval.iter().chain(&self.approvals)
    }

    /// The users who approved, for people to read; nothing if nobody did.
    pub fn approved_by(&self) -> Option<String> {
        let names: Vec<_> = self.given_approvals().map(|it| it.by.as_str()).collect();
        (!names.is_empty()).then(|| names.join(", "))
    }

    /// The digest of the artifact, where it is known.
    pub fn artifact_digest(&self) -> Option<&str> {
        let own = Some(self.revision.as_str()).filter(|it| revision::is_digest(it));
        own.or(self.digest.as_deref())
    }

    /// The digest of the artifact that it replaces, where it is known.
    pub fn replaced_digest(&self) -> Option<&str> {
        let own = self
            .replaces
            .as_deref()
            .filter(|it| revision::is_digest(it));
        own.or(self.replaces_digest.as_deref())
    }
}

/// The target a promotion covers.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PromotionTarget {
    /// The GitopsCluster's name; without it the hub.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub cluster: Option<String>,
    /// The GitopsCluster's namespace; without it the pipeline's.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub cluster_namespace: Option<String>,
    /// The namespace on that cluster.
    #[schemars(length(max = 253))]
    pub namespace: String,
}

/// The request that led to a promotion.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PromotionRequest {
    /// The request's id.
    #[schemars(length(max = 128))]
    pub id: String,
    /// Promote or roll back.
    pub kind: RequestKind,
    /// The user who asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub by: Option<String>,
}

/// The phase of a promotion.
#[derive(
    Serialize, Deserialize, JsonSchema, Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash,
)]
pub enum Phase {
    /// A person must approve first.
    AwaitingApproval,
    /// The strategy is being carried out.
    Running,
    /// A pull request is open.
    WaitingForMerge,
    /// The change is in git, and not deployed yet.
    Deploying,
    /// The revision is deployed, and the checks of the environment have not ended.
    Verifying,
    /// The revision is deployed.
    Succeeded,
    /// The strategy or the deployment failed.
    Failed,
    /// A newer promotion replaced it.
    Superseded,
    /// Its pull request was closed unmerged.
    Abandoned,
    /// The controller withdrew it.
    Withdrawn,
}

impl Phase {
    /// Whether it has ended. A late success still turns `Failed` into `Succeeded`.
    pub fn is_terminal(self) -> bool {
        !matches!(
            self,
            Self::AwaitingApproval
                | Self::Running
                | Self::WaitingForMerge
                | Self::Deploying
                | Self::Verifying
        )
    }

    /// Whether another promotion into the same site may act.
    pub fn lets_successor_act(self) -> bool {
        matches!(self, Self::Deploying | Self::Verifying) || self.is_terminal()
    }
}

/// The state of a promotion.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PromotionStatus {
    /// The generation this status was computed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// A fixed reason for the phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// A message for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The URL of the pull request, or of what the strategy led to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The branch that was pushed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub branch: Option<String>,
    /// The commit that was pushed or merged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
    /// Whether the forge's merge queue merges the pull request, because the base branch requires that.
    #[serde(default, skip_serializing_if = "is_default")]
    pub merge_scheduled: bool,
    /// The number of attempts.
    #[serde(default, skip_serializing_if = "is_default")]
    pub attempts: i64,
    /// When the next attempt is due.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub next_attempt: Option<Time>,
    /// When the controller saw each approval.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    #[schemars(length(max = 16))]
    pub approvals: Vec<ObservedApproval>,
    /// When the first attempt began.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub started_at: Option<Time>,
    /// When the change was merged or pushed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub merged_at: Option<Time>,
    /// When it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub finished_at: Option<Time>,
    /// The verdicts of its checks: those before it enters, and those after it arrived.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    #[schemars(length(max = 32))]
    pub checks: Vec<CheckSummary>,
    /// What it changes, while that is not in git yet. Computed again right before it is pushed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub change: Option<PromotionChange>,
    /// How far it is in its waves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutStatus>,
    /// What was last shown on the pull request.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub feedback: Option<ShownFeedback>,
    /// `Ready`, for tools that wait for it.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    #[schemars(schema_with = "schema::conditions_by_type")]
    pub conditions: Vec<Condition>,
}

/// The verdict of a check about what a promotion brings.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct CheckSummary {
    /// The name of the check.
    #[schemars(length(max = 63))]
    pub check: String,
    /// Why the revision is checked.
    pub cause: CheckCause,
    /// The verdict.
    pub verdict: CheckVerdict,
}

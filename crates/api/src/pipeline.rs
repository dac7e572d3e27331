//! The Pipeline: environments in order, and how revisions move between them.
//!
//! Fields of the Weave pipeline-controller keep their names, types and loose validation; new ones are
//! optional and bounded.

mod approval_policy;
mod check;
mod promotion;
mod request;
mod rfc_spelling;
mod rollout;
mod spec;
mod status;

pub use approval_policy::{ApprovalPolicy, Approver};
pub use check::{
    Check, CheckKind, ExternalCheck, HttpCheck, JobCheck, OnFailure, PrometheusCheck, Verify,
};
pub use promotion::{
    Commit, FeedbackKind, ForgeKind, MergeMethod, Notification, Oci, OciProvider,
    PromotionSettings, PullRequestStrategy, ResourceSetInputs, Scope, Strategy, Webhook, When,
};
pub use request::{HandledRequest, Override, Request, RequestKind, StoredOverride};
pub use rfc_spelling::{RFC_SECRET, RfcPullRequest, RfcWebhook};
pub use rollout::{OnNewRevision, Rollout, TargetLimit, Wave};
pub use spec::{
    AppReference, Changelog, ClusterReference, Environment, Pipeline, PipelineSpec, Source,
    SourceKind, Target, Track,
};
pub use status::{
    AppStatus, CanaryState, CheckStatus, ClusterAppReference, CoveringFreeze, DesiredRevision,
    EarlierStay, EnvironmentStatus, Evidence, FailedRelease, GateStatus, HoldStatus, Origin,
    PipelineStatus, PreflightProblem, PromotionSummary, Proposal, RanRevision, Report,
    ReportedRevision, RolloutOrders, RolloutSummary, TargetProblem, TargetStatus, WaitingApproval,
    WaveSummary,
};

/// Condition type: something keeps the next environment from being promoted.
pub const PROMOTION_PENDING: &str = "PromotionPending";

/// Condition type: whether the strategies of all environments can be used. Absent while nothing is wrong.
pub const STRATEGY_READY: &str = "StrategyReady";

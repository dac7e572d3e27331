//! The status of a Pipeline: what was observed, and why promotions wait.
//!
//! The controller writes all of it except `reports` and `requests`, which only the server writes. No field
//! is a heartbeat.

mod desired;
mod gates;
mod ran;
mod rollout;
mod target;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::request::{HandledRequest, Request, StoredOverride};
use crate::{
    Condition, Time,
    lenient::{is_default, null_as_default},
    promotion::Phase,
    revision, schema,
};
pub use desired::DesiredRevision;
pub use gates::{CheckStatus, CoveringFreeze, GateStatus, HoldStatus, WaitingApproval};
pub use ran::{EarlierStay, RanRevision};
pub use rollout::{RolloutOrders, RolloutSummary, WaveSummary};
pub use target::{
    AppStatus, CanaryState, ClusterAppReference, Evidence, Origin, TargetProblem, TargetStatus,
};

/// The state of every environment.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PipelineStatus {
    /// The generation this status was computed from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// `Ready`, `PromotionPending` while something holds a promotion, and `StrategyReady` if it is false.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The state in a few words, such as `prod awaiting approval`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 320))]
    pub state: Option<String>,
    /// What each environment runs, such as `dev 1.1.0 > prod 1.0.0`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub runs: Option<String>,
    /// The value of the annotation `reconcile.fluxcd.io/requestedAt` when the pipeline was last reconciled.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub last_handled_reconcile_at: Option<String>,
    /// When the status was rebuilt from Promotions, because it had been lost, as on a hub that was restored
    /// without it. Of the Promotions without a status that are older, only the last one of each environment or
    /// target goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub rebuilt_at: Option<Time>,
    /// What the pipeline's source proposes for the first environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proposal: Option<Proposal>,
    /// State by environment name.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    pub environments: BTreeMap<String, EnvironmentStatus>,
    /// The newest report of each environment or target, by `environment/cluster or -/namespace`.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    pub reports: BTreeMap<String, Report>,
    /// What would keep the next promotion into an environment, or its checks, from succeeding, as far as that can be
    /// checked before, by environment name.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    pub preflight: BTreeMap<String, PreflightProblem>,
    /// What cannot be checked of a strategy before a promotion, and what promotions go on without, by environment
    /// name.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    pub not_checked: BTreeMap<String, PreflightProblem>,
    /// The Freezes that cover an environment, those that are closed first.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    #[schemars(length(max = 16))]
    pub freezes: Vec<CoveringFreeze>,
    /// Pending requests, by environment name.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    pub requests: BTreeMap<String, Request>,
}

/// Why promotions into an environment would fail, or might.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PreflightProblem {
    /// A fixed reason.
    #[schemars(length(max = 256))]
    pub reason: String,
    /// What is wrong, and what resolves it.
    #[schemars(length(max = 1024))]
    pub message: String,
}

/// The state of one environment.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct EnvironmentStatus {
    /// The revision that waits for approval, if any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting_approval: Option<WaitingApproval>,
    /// State by target, in the order of the spec; a selector's targets follow each other by name.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    pub targets: Vec<TargetStatus>,
    /// What a report that names no target said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reported: Option<ReportedRevision>,
    /// The promotion in progress into this environment, else the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promotion: Option<PromotionSummary>,
    /// Why no promotion into this environment starts or goes on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<HoldStatus>,
    /// The gates that do not pass for the next revision, in their order.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    #[schemars(length(max = 20))]
    pub gates: Vec<GateStatus>,
    /// Revisions that ran here, newest first.
    #[serde(
        default,
        deserialize_with = "ran::stored",
        skip_serializing_if = "is_default"
    )]
    #[schemars(length(max = 20))]
    pub ran: Vec<RanRevision>,
    /// Revisions that were rolled back, rejected or cancelled, or whose pull request was closed, newest first.
    #[serde(
        default,
        deserialize_with = "revision::stored_list",
        skip_serializing_if = "is_default"
    )]
    #[schemars(length(max = 20), inner(length(max = 256)))]
    pub rejected: Vec<String>,
    /// Revisions that failed here, newest first.
    #[serde(default, skip_serializing_if = "is_default")]
    #[schemars(length(max = 20))]
    pub failures: Vec<FailedRelease>,
    /// The checks of what runs here and of what is to enter.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    #[schemars(length(max = 64))]
    pub checks: Vec<CheckStatus>,
    /// The revision that is published for the clusters (`strategy.resourceSetInputs`). Where a target has a value
    /// of its own, the later one counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired: Option<DesiredRevision>,
    /// The rollout in progress into this environment, else the last one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<RolloutSummary>,
    /// What people requested for that rollout.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout_orders: Option<RolloutOrders>,
    /// The last request that was handled, and its result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_request: Option<HandledRequest>,
    /// Overrides, newest first.
    #[serde(
        default,
        deserialize_with = "null_as_default",
        skip_serializing_if = "is_default"
    )]
    #[schemars(length(max = 8))]
    pub overrides: Vec<StoredOverride>,
}

impl EnvironmentStatus {
    /// The revisions that ran here, newest first.
    pub fn ran_revisions(&self) -> impl Iterator<Item = &str> {
        self.ran.iter().map(|ran| ran.revision.as_str())
    }
}

/// A release that failed in an environment.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct FailedRelease {
    /// The revision that failed.
    #[schemars(length(max = 256))]
    pub revision: String,
    /// The target where it was first seen to fail.
    #[schemars(length(max = 512))]
    pub target: String,
    /// The message of the app.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
    /// When that was first seen, by the hub's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub at: Option<Time>,
    /// When all targets were ready again, at whatever revision.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub ended_at: Option<Time>,
}

/// What the pipeline's source proposes for the first environment.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Proposal {
    /// The newest revision; nothing while the source has none.
    #[serde(
        deserialize_with = "revision::stored_option",
        skip_serializing_if = "Option::is_none"
    )]
    #[schemars(length(max = 256))]
    pub revision: Option<String>,
    /// The version of that revision, as it is written to git.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub version: Option<String>,
    /// Whether Flux verified the signature of that revision.
    #[serde(default, skip_serializing_if = "is_default")]
    pub signed: bool,
    /// Why the source could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub error: Option<String>,
}

/// What a report that names no target said about an environment.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct ReportedRevision {
    /// The revision that some target runs.
    #[serde(deserialize_with = "revision::stored")]
    #[schemars(length(max = 256))]
    pub revision: String,
    /// Since when that is known, by the hub's clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub ready_since: Option<Time>,
}

/// The promotion in progress into an environment, else the last one.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq, Eq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct PromotionSummary {
    /// The Promotion's name.
    pub name: String,
    /// The revision it brings.
    #[serde(deserialize_with = "revision::stored")]
    pub revision: String,
    /// The phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// A fixed reason why it does not go on; absent where the phase says everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub reason: Option<String>,
    /// Why it does not go on, and what resolves that.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    pub message: Option<String>,
    /// The URL of the pull request, or of what the strategy led to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// What people should know before they approve it: that the revision failed or was rejected, and whose request
    /// skips that.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub caution: Option<String>,
}

/// What a webhook said about an environment or a target.
#[derive(Serialize, Deserialize, JsonSchema, Clone, Debug, Default, PartialEq)]
#[serde(rename_all = "camelCase", default)]
#[schemars(!default)]
pub struct Report {
    /// The revision the event names.
    #[schemars(length(max = 256))]
    pub revision: String,
    /// When the event happened, by the clock of its sender.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::time", default)]
    pub at: Option<Time>,
    /// The event's severity.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub severity: Option<String>,
    /// The event's reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub reason: Option<String>,
    /// The event's message, truncated where it is long.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub message: Option<String>,
    /// The uid of the object the event is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 128))]
    pub uid: Option<String>,
    /// Whether the report carried a valid signature.
    #[serde(default, skip_serializing_if = "is_default")]
    pub signed: bool,
}

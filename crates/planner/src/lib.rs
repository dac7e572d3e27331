//! Decides what happens to pipelines and promotions: pure functions from stored objects and observations
//! to plans, statuses and texts.
//!
//! | function | question |
//! | --- | --- |
//! | [`fold()`] | the status of a pipeline after its targets were observed |
//! | [`plan()`] | which promotions start, which are withdrawn, and why the others wait |
//! | [`apply`] | the status with the plan |
//! | [`pull_request_lookup`], [`attempt()`], [`conclude`] | the next external action of one promotion |
//! | [`measure_at`], [`judge`] | when a check is measured, and what its measurements mean |
//! | [`fold_checks`], [`surplus_checks`], [`measures_on`] | how checks stand, and which are not needed any more |
//! | [`change`] | the next action for a Change: a file to propose in git |
//! | [`hook`] | what a webhook call means, and what became of it |
//! | [`explain()`] | a plan as text for people |
//! | [`forecast()`] | when each environment gets its next revision, and what it needs besides time |
//! | [`environment_state`], [`completion`] | the state of a target, an environment or a pipeline in one word |
//! | [`deployments()`], [`delivery_figures`] | what ran where and when, and how deliveries went |
//! | [`summarised`], [`runs_text`], [`shortened`] | one line about a pipeline, as lists show it |
//! | [`adopt`] | how a Pipeline of the group pipelines.wego.weave.works and its copy are kept equal |
//! | [`lint()`], [`lint_together`] | mistakes in the spec of a pipeline, and of several beside each other |
//! | [`named_objects()`], [`existence_finding`] | objects that a spec names, and what it means if they are missing |
//! | [`promoted_apps`], [`shared_target_warning`] | targets that two pipelines promote into |
//! | [`promotion_diff()`] | what the next promotion into an environment brings |
//! | [`approvable`], [`request_annotation`] | what people can approve and request |
//!
//! The crate does no I/O, reads no clock and draws no random numbers: `now` and the seed of the jitter
//! are arguments. The same input gives the same answer, so that every program that shows a plan shows
//! the one that is carried out.
#![warn(missing_docs)]

mod access;
mod adoption;
mod approved;
mod attempt;
pub mod change;
mod check_definition;
mod checks;
mod completion;
mod conditions;
mod deployments;
mod events;
mod evidence;
mod explain;
mod failure;
mod fold;
mod forecast;
mod freeze;
mod gate;
mod hold;
pub mod hook;
mod inputs;
mod likeness;
mod lint;
mod measurement;
mod named_objects;
mod observation;
mod overrides;
mod overview;
mod people;
mod plan;
mod promotion_diff;
mod promotion_phase;
mod release;
mod requests;
mod rights;
mod rollout;
mod shared_targets;
mod site;
mod site_state;
mod sources;
mod suggestion;
mod summary;
mod time;
mod validity;
mod version_order;

pub use access::{refuse_cluster, refuse_group, refuse_hub_namespace};
pub use adoption::{Adoption, EditableFields, adopt};
pub use approved::{approved_already, approved_promotion, waits_after_approval};
pub use attempt::{
    AttemptInput, AttemptPlan, BRANCH_CHANGED_BY_OTHERS, CHANGE_DIFFERS, CHECK_FAILED,
    DEPLOY_FAILED, ExternalAction, Failure, FeedbackUpdate, MERGE_NOT_ALLOWED,
    MERGE_QUEUE_REQUIRED, NOT_MERGEABLE, NOTHING_REPORTS, ObservedPullRequest, Outcome,
    PromotionProblem, PullRequestLookup, Remedy, SECRET_MISSING, STRATEGY_CHANGED,
    TAG_CHANGED_BY_OTHERS, WantedComment, attempt, conclude, feedback_update, freeze_hold,
    is_first_refusal, is_resolved_by_repository_edit, must_read_change,
    observed_after_failed_lookup, promotion_caution, promotion_problem, pull_request_lookup,
    replaceable_digests, skipped_gates, status_after_failed_lookup, with_change,
};
pub use check_definition::{
    CHECK_HOST_NOT_ALLOWED, CheckUrl, check_problem, check_urls, condition_of, condition_text,
    http_url, is_about_checks, prometheus_query,
};
pub use checks::{CheckProgress, fold_checks, measures_on, surplus_checks};
pub use completion::{Completion, completion};
pub use deployments::{
    DAYS, DeliveryFigures, Deployment, DeploymentKind, delivery_figures, deployments,
};
pub use events::{PipelineEvent, pipeline_events, promotion_events};
pub use evidence::is_reported;
pub use explain::{explain, explain_environment, promotion_lines};
pub use failure::{EnvironmentFailure, environment_failure};
pub use fold::{fold, needs_images};
pub use forecast::{
    EnvironmentForecast, MissingCondition, TimedWait, forecast, forecast_environment,
};
pub use freeze::{
    FreezeScope, FreezeState, covering_freezes, freeze_state, lint_freeze, lint_freeze_namespace,
    unknown_environment, weakens_freeze,
};
pub use gate::{
    GateAnswer, GateVerdict, SkippedGate,
    approvals::{
        ApprovalState, NotCounted, approval_state, is_change_pending, needs_another_person,
        unknown_change,
    },
    freeze::{frozen_and_removal, frozen_because, frozen_now, frozen_promotion},
    gate_names, holds_requests,
};
pub use hold::{Hold, HoldReason, closed_label, hold_label, waits_further};
pub use inputs::{
    InputQuestion, InputsRefusal, PublishedInput, inputs_secret, published_input,
    published_revisions, with_desired,
};
pub use lint::{LintFinding, TEXT_FIELDS, lint, lint_together, secrets_of, strategies_in_use};
pub use measurement::{Measurement, MeasurementProgress, judge, measure_at, timeout_of};
pub use named_objects::{Existence, NamedObject, existence_finding, named_objects};
pub use observation::{
    ClusterLabels, ObservedApp, ObservedCanaries, ObservedEnvironment, ObservedPipeline,
    ObservedSource, ObservedTarget, TargetState,
};
pub use overrides::{override_of, refuse_override};
pub use overview::{
    hold_text, preflight_text, running_revisions, runs_text, shortened, state_text, summarised,
};
pub use people::{ended_because, people};
pub use plan::{
    EnvironmentPlan, Plan, RetryTarget, Step, apply, cancellable, cancellation, plan, rebuild,
    retryable, successor, superseded_by, surplus, version_for,
};
pub use promotion_diff::{ImageDiff, PromotionDiff, SoakProgress, promotion_diff};
pub use release::{failed_release, failed_revision, failure_message, release};
pub use requests::{
    ConflictingRequest, RollbackTarget, approvable, caution, previous_revision, rejectable,
    rejection_effect, request_annotation, rollback_targets, sort_choices,
};
pub use rights::{
    WritingUser, approving_group, refuse_change, refuse_check_run, refuse_freeze, refuse_pipeline,
    refuse_pipeline_deletion, refuse_promotion,
};
pub use rollout::{RolloutState, RolloutView, TargetView, WaveView, rollout_view};
pub use shared_targets::{PromotedApp, promoted_apps, shared_target_warning};
pub use site::{
    RELEASE_REPORT, cluster_key, environment_report_key, marker, site_of, sites, target_key,
    target_name, target_report_key, targets_of,
};
pub use sources::{
    environment_columns, followers, is_chain, receives_nothing, sources, takes_proposals,
};
pub use suggestion::{SuggestedAction, suggested_action};
pub use summary::{
    PipelineSummary, Severity, SummaryState, environment_message, environment_state,
    pipeline_summary, target_state,
};
pub use time::Timestamp;

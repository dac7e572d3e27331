//! The planner's rules, each as a drawing: a small picture of the world in, the answer out.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
#![expect(
    clippy::panic,
    reason = "a drawing outside the notation is a mistake in the test"
)]

mod adoption;
mod approved_change;

mod approvals;
mod approved;
mod arrival;
mod attempt;
mod canary;
mod change;
mod check_definition;
mod checks;
mod checks_started;
mod deployments;
mod drawing;
mod explain;
mod feedback;
mod fold;
mod fold_details;
mod forecast;
mod freeze;
mod gates;
mod glance;
mod goes_on;
mod graph;
mod hook;
mod hook_result;
mod identity;
mod inputs;
mod lint_findings;
mod measurement;
mod outcomes;
mod people;
mod plan;
mod properties;
mod reported_check;
mod reported_target;
mod reports;
mod requests;
mod restored;
mod retry;
mod rights;
mod rollouts;
mod show;
mod signature;
mod signed_approval;
mod simulation;
mod skipped;
mod source_evidence;
mod started_as;
mod suggestion;
mod tags;
mod taken_back;
mod told;
mod unsigned;
mod upgrade;
mod verified_sources;
mod ways_out;
mod weave_defects;

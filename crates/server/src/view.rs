//! The status of pipelines and promotions, as lists and pages show it.
//!
//! States and messages come from `planner`.

use std::collections::BTreeSet;

use api::{
    Pipeline, Promotion, Time,
    app::AppType,
    pipeline::{AppStatus, EnvironmentStatus, PipelineStatus, TargetStatus},
    promotion::Phase,
    revision::SourceRevision,
};
use planner::SummaryState;

/// An environment in the row of a pipeline.
pub(crate) struct Cell<'a> {
    pub(crate) name: &'a str,
    pub(crate) state: SummaryState,
    pub(crate) revision: String,
    /// The one version that all targets run or failed to run, if it is one.
    pub(crate) version: Option<String>,
    /// The revision of the current promotion.
    pub(crate) incoming: Option<&'a str>,
    pub(crate) message: Option<String>,
}

/// A cell for each environment, in the order of promotion.
pub(crate) fn cells(pipeline: &Pipeline) -> Vec<Cell<'_>> {
    let environments = pipeline.spec.environments.iter();
    environments
        .map(|environment| {
            let status = status_of(pipeline, &environment.name);
            let promotion = status.and_then(|status| status.promotion.as_ref());
            let current = promotion.filter(|it| it.phase.is_none_or(|phase| !phase.is_terminal()));
            Cell {
                name: &environment.name,
                state: environment_state(pipeline, &environment.name),
                revision: running_text(status),
                version: only_version(status),
                incoming: current.map(|it| it.revision.as_str()),
                message: planner::environment_message(status),
            }
        })
        .collect()
}

pub(crate) fn status_of<'a>(
    pipeline: &'a Pipeline,
    environment: &str,
) -> Option<&'a EnvironmentStatus> {
    pipeline.status.as_ref()?.environments.get(environment)
}

/// The state of an environment.
pub(crate) fn environment_state(pipeline: &Pipeline, environment: &str) -> SummaryState {
    let unobserved = PipelineStatus::default();
    let model = pipeline.status.as_ref().unwrap_or(&unobserved);
    planner::environment_state(pipeline, model, environment)
}

/// The identifier of an environment's state in REST, which has `unknown` for one without targets.
pub(crate) fn environment_state_id(pipeline: &Pipeline, environment: &str) -> &'static str {
    match environment_state(pipeline, environment) {
        SummaryState::Empty => SummaryState::Unknown.id(),
        state => state.id(),
    }
}

/// The state of a pipeline.
pub(crate) fn pipeline_state(pipeline: &Pipeline) -> SummaryState {
    let unobserved = PipelineStatus::default();
    let model = pipeline.status.as_ref().unwrap_or(&unobserved);
    planner::pipeline_summary(pipeline, model).state
}

/// The revision of an environment, or how many there are; a failed release is named.
fn running_text(status: Option<&EnvironmentStatus>) -> String {
    let targets = status.map(|it| it.targets.as_slice()).unwrap_or_default();
    let mut releases: BTreeSet<_> = targets.iter().filter_map(planner::release).collect();
    if releases.is_empty() {
        releases = revisions(status).into_iter().map(str::to_owned).collect();
    }
    match (releases.len(), releases.first()) {
        (1, Some(only)) => only.clone(),
        (0, _) | (_, None) => "–".to_owned(),
        (several, _) => format!("{several} revisions"),
    }
}

/// The version of all targets, with the one that failed instead of what runs.
fn only_version(status: Option<&EnvironmentStatus>) -> Option<String> {
    let targets = status.map(|it| it.targets.as_slice()).unwrap_or_default();
    let version = |target: &TargetStatus| {
        let failed = planner::failed_revision(target).map(str::to_owned);
        failed.or_else(|| target.shown_revision())
    };
    let versions: BTreeSet<_> = targets.iter().filter_map(version).collect();
    let reported = status.and_then(|it| it.reported.as_ref());
    match versions.len() {
        0 => reported.map(|it| it.revision.clone()),
        1 => versions.into_iter().next(),
        _ => None,
    }
}

/// The revisions that run in an environment.
pub(crate) fn revisions(status: Option<&EnvironmentStatus>) -> BTreeSet<&str> {
    let targets = status.map(|it| it.targets.as_slice()).unwrap_or_default();
    let reported = status.and_then(|it| it.reported.as_ref());
    let mut observed: BTreeSet<_> = targets.iter().flat_map(revisions_of_target).collect();
    if let Some(reported) = reported.filter(|_| observed.is_empty()) {
        observed.insert(&reported.revision);
    }
    observed
}

/// The revisions of a target: apps that are found by label may each have their own.
fn revisions_of_target(target: &TargetStatus) -> Vec<&str> {
    match &target.revision {
        Some(revision) => vec![revision],
        None => target
            .apps
            .iter()
            .filter_map(|app| app.revision.as_deref())
            .collect(),
    }
}

/// What is written to git for the revision of an app. The status stores it once per target if all its
/// apps have the same revision.
pub(crate) fn version_of(app: &AppStatus, target: &TargetStatus) -> Option<String> {
    if app.revision.is_none() || app.revision == target.revision {
        return target.version.clone();
    }
    let revision = app.revision.as_deref()?;
    match AppType::of(&app.api_version, &app.kind) {
        AppType::Kustomization => SourceRevision::parse(revision)
            .git_version()
            .map(str::to_owned),
        _ => Some(revision.to_owned()),
    }
}

/// The cluster and the namespace of a target.
pub(crate) fn target_label(target: &TargetStatus) -> String {
    let app = target.cluster_app_ref.as_ref();
    let cluster = app.and_then(|app| app.cluster_ref.as_ref());
    let cluster = cluster.map_or("this cluster", |cluster| &cluster.name);
    format!("{cluster} / {}", target.namespace.as_deref().unwrap_or("–"))
}

/// When something in a pipeline last became ready, or failed.
pub(crate) fn last_change(pipeline: &Pipeline) -> Option<Time> {
    let environments = pipeline
        .status
        .iter()
        .flat_map(|it| it.environments.values());
    let failed = environments.clone().flat_map(|it| &it.failures);
    let failed = failed.filter_map(|failure| failure.at.clone());
    let targets = environments.flat_map(|environment| &environment.targets);
    let ready = targets.filter_map(|target| target.ready_since.clone());
    ready.chain(failed).max()
}

/// Whether a promotion awaits approval.
pub(crate) fn is_awaiting_approval(promotion: &Promotion) -> bool {
    let spec = &promotion.spec;
    let promotions = std::slice::from_ref(promotion);
    !planner::approvable(promotions, &spec.pipeline, &spec.environment).is_empty()
}

/// The phase of a promotion, as people read it.
pub(crate) fn phase_of(promotion: &Promotion) -> &'static str {
    let status = promotion.status.as_ref();
    let phase = status.and_then(|status| status.phase);
    let has_pull_request = status.is_some_and(|status| status.url.is_some());
    match phase {
        Some(Phase::Abandoned | Phase::Withdrawn) if promotion.spec.rejection.is_some() => {
            "rejected"
        }
        Some(Phase::Abandoned) if !has_pull_request => "abandoned",
        None => "starting",
        Some(Phase::AwaitingApproval) => "awaiting approval",
        Some(Phase::Running) => "running",
        Some(Phase::WaitingForMerge) => "waiting for the merge",
        Some(Phase::Deploying) => "merged, not deployed yet",
        Some(Phase::Verifying) => "deployed, being checked",
        Some(Phase::Succeeded) => "succeeded",
        Some(Phase::Failed) => "failed",
        Some(Phase::Superseded) => "superseded",
        Some(Phase::Abandoned) => "abandoned: the pull request was closed",
        Some(Phase::Withdrawn) => "withdrawn",
    }
}

#[cfg(test)]
mod tests {
    use api::pipeline::Environment;

    use super::*;

    #[test]
    fn a_failed_release_is_named_in_its_cell() {
        let mut pipeline = Pipeline::default();
        pipeline.spec.environments.push(Environment {
            name: "dev".to_owned(),
            ..Environment::default()
        });
        let target = TargetStatus {
            revision: Some("1.0.0".to_owned()),
            failed: Some("2.0.0".to_owned()),
            apps: vec![AppStatus {
                message: Some("timed out".to_owned()),
                ..AppStatus::default()
            }],
            ..TargetStatus::default()
        };
        let dev = EnvironmentStatus {
            targets: vec![target],
            ..EnvironmentStatus::default()
        };
        pipeline.status = Some(PipelineStatus {
            environments: [("dev".to_owned(), dev)].into(),
            ..PipelineStatus::default()
        });
        let cells = cells(&pipeline);
        assert_eq!(cells[0].state, SummaryState::Failed);
        assert_eq!(cells[0].revision, "2.0.0 failed (last good 1.0.0)");
        let message = cells[0].message.as_deref();
        assert_eq!(message, Some("2.0.0 failed: timed out"));
    }
}

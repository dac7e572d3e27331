//! Folds an observation into the status of a pipeline.
//!
//! The status holds the last known state of every target, and since when it has been so. Folding the same
//! observation twice changes nothing, and the state of a target that could not be read is kept. Nothing
//! here decides about promotions.

mod canary;
mod failures;
mod ran;
mod report;
mod tags;
mod target;
mod waves;

pub(crate) use ran::{REMEMBERED, push_front};
pub(crate) use report::{ReportMeaning, revision_and_version};
pub(crate) use target::is_absence;

use api::{
    Pipeline,
    app::AppType,
    pipeline::{
        AppStatus, EnvironmentStatus, PipelineSpec, PipelineStatus, Proposal, SourceKind,
        TargetStatus,
    },
};

use crate::{
    conditions,
    observation::{
        ClusterLabels, ObservedApp, ObservedEnvironment, ObservedPipeline, ObservedSource,
    },
    site::{RELEASE_REPORT, environment_report_key},
    time::Timestamp,
};

/// The longest error or message, in bytes. A status with a thousand failing targets must fit into an
/// object.
const LONGEST_TEXT: usize = 150;

/// The status of a pipeline after an observation.
pub fn fold(pipeline: &Pipeline, seen: &ObservedPipeline, now: Timestamp) -> PipelineStatus {
    let before = pipeline.status.clone().unwrap_or_default();
    let mut after = PipelineStatus {
        observed_generation: pipeline.metadata.generation,
        proposal: proposal(&pipeline.spec, &before, seen),
        environments: Default::default(),
        ..before.clone()
    };
    let context = FoldContext {
        pipeline,
        before: &before,
        tags: tags::KnownDigests::of(seen, after.proposal.as_ref()),
        trusts_unsigned: seen.trusts_unsigned_reports,
        cluster_labels: &seen.cluster_labels,
        now,
    };
    for environment in &pipeline.spec.environments {
        if after.environments.contains_key(&environment.name) {
            continue;
        }
        let observed = seen
            .environments
            .iter()
            .find(|observed| observed.name == environment.name);
        let folded = context.environment(&environment.name, observed);
        after.environments.insert(environment.name.clone(), folded);
    }
    let order: Vec<_> = names(&pipeline.spec).collect();
    conditions::set_readable(&mut after, &order, now);
    after
}

/// Whether an app's images must be read: once for each change of its revision or readiness.
pub fn needs_images(known: Option<&AppStatus>, app: &ObservedApp) -> bool {
    let Some(known) = known else { return true };
    let revision = app
        .reading
        .revision
        .as_ref()
        .map(|revision| revision.as_str());
    known.ready != app.reading.ready || known.revision.as_deref() != revision
}

fn names(spec: &PipelineSpec) -> impl Iterator<Item = &str> {
    spec.environments
        .iter()
        .map(|environment| environment.name.as_str())
}

/// The input of one call of `fold`.
struct FoldContext<'a> {
    pipeline: &'a Pipeline,
    before: &'a PipelineStatus,
    tags: tags::KnownDigests,
    trusts_unsigned: bool,
    cluster_labels: &'a ClusterLabels,
    now: Timestamp,
}

impl FoldContext<'_> {
    fn namespace(&self) -> &str {
        self.pipeline
            .metadata
            .namespace
            .as_deref()
            .unwrap_or_default()
    }

    fn environment(&self, name: &str, seen: Option<&ObservedEnvironment>) -> EnvironmentStatus {
        let before = self.before.environments.get(name);
        let mut after = before.cloned().unwrap_or_default();
        let Some(seen) = seen else { return after };
        let known = std::mem::take(&mut after.targets);
        let waves = waves::WaveSelectors::of(self.pipeline, name, self.cluster_labels);
        let folded = seen
            .targets
            .iter()
            .enumerate()
            .map(|(at, target)| TargetStatus {
                matching_waves: waves.matching(target.cluster.as_ref()),
                ..self.target(name, target, target::known_at(at, target, &known))
            });
        after.targets = folded.collect();
        after.reported = self.reported(name, seen, after.reported.as_ref());
        ran::remember(&mut after.ran, &known, &after.targets, self.now);
        failures::remember(&mut after.failures, &known, &after.targets, self.now);
        after
    }

    /// What reports say that name the environment and no target.
    fn reported(
        &self,
        name: &str,
        seen: &ObservedEnvironment,
        known: Option<&api::pipeline::ReportedRevision>,
    ) -> Option<api::pipeline::ReportedRevision> {
        let relies = seen.targets.iter().any(|target| target.relies_on_reports);
        let key = environment_report_key(name);
        let counts = relies && !self.reports_name_another_revision();
        let report = self.before.reports.get(&key).filter(|_| counts)?;
        report::environment(report, known, self)
    }
}

fn proposal(
    spec: &PipelineSpec,
    before: &PipelineStatus,
    seen: &ObservedPipeline,
) -> Option<Proposal> {
    let source = spec.source.as_ref()?;
    if source.kind == SourceKind::Hook {
        let report = before.reports.get(RELEASE_REPORT)?;
        let (revision, version) = proposed_revision_and_version(spec, &report.revision);
        return report.signed.then(|| Proposal {
            version: Some(version).filter(|version| *version != revision),
            revision: Some(revision),
            ..Proposal::default()
        });
    }
    match &seen.source {
        ObservedSource::NotQueried => before.proposal.clone(),
        ObservedSource::Proposes {
            revision,
            version,
            signed,
        } => Some(Proposal {
            revision: Some(revision.as_str().to_owned()),
            version: Some(version.clone()),
            signed: *signed,
            error: None,
        }),
        ObservedSource::Nothing { because } => Some(Proposal {
            error: Some(conditions::cut(because, LONGEST_TEXT)),
            ..Proposal::default()
        }),
    }
}

/// The revision that CI proposed, and what to write to git for it. The version of a chart is not
/// changed.
pub(crate) fn proposed_revision_and_version(spec: &PipelineSpec, text: &str) -> (String, String) {
    let app = spec.app_ref.clone().unwrap_or_default();
    match AppType::of(&app.api_version, &app.kind) {
        AppType::HelmRelease => (text.to_owned(), text.to_owned()),
        _ => revision_and_version(spec, text),
    }
}

//! What the next promotion into an environment brings: versions, edits, images, commits, and checks and soak
//! so far.
//!
//! Computed from stored objects, so that CLI, server and controller say the same. What only git or a
//! forge knows is in the promotion's status.

use std::collections::{BTreeMap, BTreeSet};

use api::{
    Pipeline, Promotion, Time,
    image::Image,
    pipeline::{PipelineStatus, TargetStatus},
    promotion::{FieldEdit, Phase, PromotionChange, PromotionSpec, SourceCommits, SourceRange},
    revision::{SourceRevision, identity, shown},
};
use serde::Serialize;

use crate::{
    attempt::promotion_caution,
    checks::{self, CheckProgress},
    plan::{CandidateSource, PlanInput},
    promotion_phase::{creation_order, is_unmerged, name_of, phase_of, rollback_clause},
    site::site_of,
    sources::sources,
    time::{Timestamp, later, stored},
};

/// What a promotion brings.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PromotionDiff {
    /// The environment that it leads into.
    pub environment: String,
    /// The one target that it covers, as `cluster/namespace`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// The Promotion's name; none before it is created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub promotion: Option<String>,
    /// Its phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<Phase>,
    /// That it is a rollback, and who requested it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollback: Option<String>,
    /// What to know before it is approved: that the revision failed or was rejected, and whose request skips that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub caution: Option<String>,
    /// The revision that runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The revision that is promoted.
    pub to: String,
    /// The digest of what it changes, which approvals name; none while that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// The values that are edited, as many as are stored.
    pub edits: Vec<FieldEdit>,
    /// How many more values are edited.
    pub more_edits: i64,
    /// The commits of the source code that it brings, where they are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub commits: Option<SourceCommits>,
    /// The images that differ.
    pub images: Vec<ImageDiff>,
    /// How the checks of the revision stand: in the environments that it has reached, and before it enters.
    pub checks: Vec<CheckProgress>,
    /// How long the revision has been ready in the source environment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub soak: Option<SoakProgress>,
    /// Why the edits are not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// An image whose version differs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageDiff {
    /// Its name.
    pub name: String,
    /// The versions that run; empty where it is new.
    pub from: Vec<String>,
    /// The versions of the promoted revision; empty where it is gone.
    pub to: Vec<String>,
}

/// How long a revision has been ready in the source environment; of several, in the last one.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SoakProgress {
    /// That environment.
    pub environment: String,
    /// Since when all its targets at the revision have been ready.
    pub since: Time,
    /// When the soak ends; none where there is no soak.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
}

/// What is under way into an environment, or comes next; empty if it has everything that could come.
pub fn promotion_diff(
    pipeline: &Pipeline,
    environment: &str,
    promotions: &[Promotion],
) -> Vec<PromotionDiff> {
    let is_here = |it: &&Promotion| {
        Some(&it.spec.pipeline) == pipeline.metadata.name.as_ref()
            && it.spec.environment == environment
            && is_unmerged(it)
    };
    let mut here: Vec<&Promotion> = promotions.iter().filter(is_here).collect();
    here.sort_by_key(|it| creation_order(it));
    if !here.is_empty() {
        let diffs = here.into_iter().map(|it| of(pipeline, it, promotions));
        return diffs.collect();
    }
    next(pipeline, environment).into_iter().collect()
}

fn of(pipeline: &Pipeline, promotion: &Promotion, promotions: &[Promotion]) -> PromotionDiff {
    let (spec, status) = (&promotion.spec, promotion.status.as_ref());
    let namespace = pipeline.metadata.namespace.as_deref().unwrap_or_default();
    let target = site_of(spec, namespace).target;
    let message = status.and_then(|status| status.message.clone());
    let diff = match status.and_then(|status| status.change.clone()) {
        Some(change) => with_change(from_spec(pipeline, spec), change),
        None => PromotionDiff {
            note: message,
            ..from_spec(pipeline, spec)
        },
    };
    PromotionDiff {
        target: target.map(|(cluster, namespace)| match cluster {
            Some(cluster) => format!("{cluster}/{namespace}"),
            None => namespace,
        }),
        promotion: Some(name_of(promotion)),
        phase: phase_of(promotion),
        rollback: rollback_clause(promotion),
        caution: promotion_caution(promotion, pipeline, promotions),
        ..diff
    }
}

fn with_change(diff: PromotionDiff, change: PromotionChange) -> PromotionDiff {
    PromotionDiff {
        digest: Some(change.digest),
        edits: change.edits,
        more_edits: change.more_edits,
        commits: change.commits.or(diff.commits),
        ..diff
    }
}

/// The revision of the source environments, or what the pipeline's source proposes.
fn next(pipeline: &Pipeline, environment: &str) -> Option<PromotionDiff> {
    let model = pipeline.status.as_ref()?;
    pipeline.spec.promotion_into(environment)?;
    let (revision, version) = match sources(&pipeline.spec, environment).as_slice() {
        [source] => {
            let newest = targets(model, &source.name)
                .filter(|it| it.ready && it.revision.is_some())
                .max_by_key(|it| it.ready_since.as_ref().map(|at| at.0))?;
            (newest.revision.clone()?, newest.version.clone())
        }
        [] => {
            let proposal = model.proposal.as_ref()?;
            (proposal.revision.clone()?, proposal.version.clone())
        }
        _ => common(pipeline, model, environment)?,
    };
    let running: BTreeSet<_> = targets(model, environment)
        .map(|it| it.revision.as_deref())
        .collect();
    if running == BTreeSet::from([Some(revision.as_str())]) {
        return None;
    }
    let spec = PromotionSpec {
        environment: environment.to_owned(),
        version: version.unwrap_or_else(|| revision.clone()),
        revision,
        replaces: running.into_iter().flatten().next().map(str::to_owned),
        ..PromotionSpec::default()
    };
    let status = model.environments.get(environment);
    let hold = status.and_then(|status| status.hold.as_ref());
    let because = hold.map(|hold| format!(" ({})", hold.message));
    let note = format!(
        "no promotion has started{}; its edits are known once it has",
        because.unwrap_or_default()
    );
    Some(PromotionDiff {
        note: Some(note),
        ..from_spec(pipeline, &spec)
    })
}

/// The newest revision that several source environments have in common.
fn common(
    pipeline: &Pipeline,
    model: &PipelineStatus,
    environment: &str,
) -> Option<(String, Option<String>)> {
    let input = PlanInput::new(pipeline, model, &[], Timestamp::MAX);
    let settings = input.settings(environment)?;
    let mut environments = pipeline.spec.environments.iter();
    let environment = environments.find(|it| it.name == environment)?;
    let next = CandidateSource::new(&input, environment, settings, &|_| false).prospect()?;
    Some((next.revision, Some(next.version)))
}

/// What the pipeline's status says.
fn from_spec(pipeline: &Pipeline, spec: &PromotionSpec) -> PromotionDiff {
    let nothing = PipelineStatus::default();
    let model = pipeline.status.as_ref().unwrap_or(&nothing);
    let replaced = spec.replaces.as_deref();
    let range = spec.source_range.clone();
    let range = range.or_else(|| source_range(model, spec));
    let commits = range.map(|SourceRange { from, to }| SourceCommits {
        from,
        to,
        ..SourceCommits::default()
    });
    PromotionDiff {
        environment: spec.environment.clone(),
        from: replaced.map(|revision| shown_in(model, revision)),
        to: spec.shown_revision(),
        commits,
        images: images(model, spec),
        checks: checks::progress(&pipeline.spec, model, &spec.environment, &spec.revision),
        soak: soak(pipeline, model, spec),
        ..PromotionDiff::default()
    }
}

fn targets<'a>(
    model: &'a PipelineStatus,
    environment: &str,
) -> impl Iterator<Item = &'a TargetStatus> {
    let environment = model.environments.get(environment);
    environment.into_iter().flat_map(|it| &it.targets)
}

fn all_targets(model: &PipelineStatus) -> impl Iterator<Item = &TargetStatus> {
    model.environments.values().flat_map(|it| &it.targets)
}

fn shown_in(model: &PipelineStatus, revision: &str) -> String {
    let runs = |it: &&TargetStatus| it.revision.as_deref() == Some(revision);
    let version = all_targets(model)
        .find(runs)
        .and_then(|it| it.version.as_deref());
    shown(revision, version)
}

/// The images that targets run, by name.
fn images_of<'a>(
    targets: impl Iterator<Item = &'a TargetStatus>,
) -> BTreeMap<String, BTreeSet<String>> {
    let mut images: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let all = targets
        .flat_map(|target| &target.apps)
        .flat_map(|app| &app.images);
    for image in all.filter_map(|image| Image::parse(image)) {
        let versions = images.entry(image.name().to_owned()).or_default();
        versions.insert(image.version().to_owned());
    }
    images
}

/// The images that differ between the environment and the targets that run the promoted revision.
fn images(model: &PipelineStatus, spec: &PromotionSpec) -> Vec<ImageDiff> {
    let promoted = images_of(
        all_targets(model).filter(|it| it.revision.as_deref() == Some(spec.revision.as_str())),
    );
    if promoted.is_empty() {
        return Vec::new();
    }
    let running = images_of(targets(model, &spec.environment));
    let names: BTreeSet<_> = promoted.keys().chain(running.keys()).collect();
    let versions = |images: &BTreeMap<String, BTreeSet<String>>, name: &str| -> Vec<String> {
        images.get(name).into_iter().flatten().cloned().collect()
    };
    let images = names.into_iter().map(|name| ImageDiff {
        name: name.clone(),
        from: versions(&running, name),
        to: versions(&promoted, name),
    });
    images.filter(|image| image.from != image.to).collect()
}

fn soak(pipeline: &Pipeline, model: &PipelineStatus, spec: &PromotionSpec) -> Option<SoakProgress> {
    let since = |source: &str| -> Option<Timestamp> {
        let at_revision = targets(model, source)
            .filter(|it| it.ready && it.revision.as_deref() == Some(spec.revision.as_str()));
        at_revision
            .filter_map(|it| Some(it.ready_since.as_ref()?.0))
            .max()
    };
    // Of several source environments, the one where it lasts longest.
    let sources = sources(&pipeline.spec, &spec.environment);
    let since = sources
        .iter()
        .filter_map(|it| Some((*it, since(&it.name)?)));
    let (source, since) = since.max_by_key(|(_, since)| *since)?;
    let settings = pipeline.spec.promotion_into(&spec.environment);
    let soak = settings.and_then(|settings| settings.soak.clone());
    Some(SoakProgress {
        environment: source.name.clone(),
        since: stored(since),
        until: soak.map(|soak| stored(later(since, soak.length()))),
    })
}

/// The commits of the source code that run and that are promoted, where both are known and differ.
fn source_range(model: &PipelineStatus, spec: &PromotionSpec) -> Option<SourceRange> {
    let from = commit_of(model, spec.replaces.as_deref()?)?;
    let to = commit_of(model, &spec.revision)?;
    (from != to).then_some(SourceRange { from, to })
}

/// The same for a new promotion, where the pipeline has a changelog.
pub(crate) fn source_range_of_new(
    pipeline: &Pipeline,
    model: &PipelineStatus,
    spec: &PromotionSpec,
) -> Option<SourceRange> {
    pipeline.spec.changelog.as_ref()?;
    source_range(model, spec)
}

/// The commit of a revision: what an artifact says about its source code, else the one in the revision.
fn commit_of(model: &PipelineStatus, revision: &str) -> Option<String> {
    let runs = |it: &&TargetStatus| it.revision.as_deref() == Some(identity(revision));
    let apps = all_targets(model).filter(runs).flat_map(|it| &it.apps);
    let mut recorded = apps.filter_map(|app| app.source_commit.clone());
    recorded.next().or_else(|| {
        let source = SourceRevision::parse(revision);
        let commit = source.commit().map(str::to_owned);
        commit.filter(|_| source.content_digest().is_none())
    })
}

#[cfg(test)]
mod tests;

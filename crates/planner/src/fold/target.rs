//! Folds the observed state of one target into its known state.

use api::{
    Revision,
    app::AppReading,
    pipeline::{AppStatus, ClusterAppReference, Evidence, TargetProblem, TargetStatus},
    revision::{is_digest, reads_like_version},
};

use super::{FoldContext, LONGEST_TEXT, canary::AnalysedApp};
use crate::{
    conditions::cut,
    observation::{ObservedApp, ObservedTarget, TargetState},
    site::{cluster_of_status, cluster_text},
    time::stored,
};

impl FoldContext<'_> {
    pub(super) fn target(
        &self,
        environment: &str,
        seen: &ObservedTarget,
        known: Option<&TargetStatus>,
    ) -> TargetStatus {
        let blank = self.blank(seen);
        let is_unreadable = seen.state.is_not_readable() && !seen.relies_on_reports;
        let unreadable_since = is_unreadable.then(|| self.unreadable_since(known));
        let report = self.report(environment, seen, known, unreadable_since.as_ref());
        let after = match (&seen.state, report) {
            (TargetState::Observed(apps), _) => self.observed(apps, blank, known),
            (TargetState::Refused { .. }, _) => blank,
            (_, Some(report)) => self.reported_target(report, blank, known),
            (TargetState::NotWatched, None) => blank,
            (state, None) if is_observed_absence(state) => blank,
            (_, None) => last_known(blank, known),
        };
        // Where only reports count, one is enough to know the target.
        let is_enough = report.is_some() && seen.relies_on_reports;
        let problem = seen.state.problem().filter(|_| !is_enough);
        TargetStatus {
            error: problem
                .map(|problem| self.why(seen, problem))
                .or(after.error),
            problem,
            unreadable_since,
            desired: known.and_then(|known| known.desired.clone()),
            ..after
        }
    }

    /// Since when the target cannot be read: since the pipeline was created, if it never could be.
    fn unreadable_since(&self, known: Option<&TargetStatus>) -> api::Time {
        let was_read = known.is_some_and(|known| {
            let is_blank = known.revision.is_none() && known.failed.is_none();
            let is_absent = known.problem.is_none_or(is_absence);
            !is_blank || is_absent
        });
        let now = stored(self.now);
        let created = self.pipeline.metadata.creation_timestamp.clone();
        let since = known.and_then(|known| known.unreadable_since.clone());
        since.unwrap_or_else(|| match was_read {
            true => now,
            false => created.unwrap_or(now),
        })
    }

    /// The target before anything is known about it.
    fn blank(&self, seen: &ObservedTarget) -> TargetStatus {
        let app = self.pipeline.spec.app_ref.clone().unwrap_or_default();
        let evidence = if seen.relies_on_reports {
            Evidence::Report
        } else {
            Evidence::Watch
        };
        TargetStatus {
            cluster_app_ref: Some(ClusterAppReference {
                api_version: app.api_version,
                kind: app.kind,
                name: app.name,
                cluster_ref: seen.cluster.clone(),
            }),
            namespace: Some(seen.namespace.clone()),
            source: Some(evidence),
            ..TargetStatus::default()
        }
    }

    fn observed(
        &self,
        apps: &[ObservedApp],
        blank: TargetStatus,
        known: Option<&TargetStatus>,
    ) -> TargetStatus {
        let known_apps = known.map(|known| known.apps.as_slice()).unwrap_or_default();
        let apps: Vec<_> = apps
            .iter()
            .map(|app| self.with_canaries(app, find(app, known_apps), known))
            .collect();
        let mut reading = together(&apps);
        self.tags.resolve(&mut reading, known);
        let revision = reading.revision.as_ref().map(ToString::to_string);
        let has_failed = reading.failed && !reading.ready;
        let failed = reading.attempted.as_ref().filter(|_| has_failed);
        TargetStatus {
            ready: reading.ready,
            ready_since: reading
                .ready
                .then(|| self.ready_since(revision.as_deref(), known)),
            revision,
            digest: artifact_digest(&reading),
            version: version(&reading, known),
            failed: failed.map(ToString::to_string),
            signed: together_signed(&apps),
            follows: apps.first().and_then(|app| app.seen.follows.clone()),
            error: reading.error.map(|error| cut(&error, LONGEST_TEXT)),
            apps: apps
                .into_iter()
                .map(|app| app_status(app, known_apps))
                .collect(),
            ..blank
        }
    }

    /// Since when the target has been ready at that revision. A time in which it could not be read does
    /// not count as a break. A timestamp in the future, from before a clock was set back, is now.
    pub(super) fn ready_since(
        &self,
        revision: Option<&str>,
        known: Option<&TargetStatus>,
    ) -> api::Time {
        let now = stored(self.now);
        known
            .filter(|known| known.revision.as_deref() == revision)
            .and_then(|known| known.ready_since.clone())
            .map_or(now.clone(), |since| since.min(now))
    }

    /// Why the target could not be read, in a sentence.
    fn why(&self, seen: &ObservedTarget, problem: TargetProblem) -> String {
        let app = self.pipeline.spec.app_ref.clone().unwrap_or_default();
        let cluster = seen.cluster.as_ref().map(cluster_text).unwrap_or_default();
        let text = match problem {
            TargetProblem::AppMissing if app.name.is_empty() => {
                format!(
                    "no app of this pipeline found in namespace {}",
                    seen.namespace
                )
            }
            TargetProblem::AppMissing => {
                format!(
                    "{} {:?} not found in namespace {}",
                    app.kind, app.name, seen.namespace
                )
            }
            TargetProblem::NamespaceMissing => format!("namespace {:?} not found", seen.namespace),
            TargetProblem::KindMissing => {
                format!(
                    "the cluster has no kind {} in {}",
                    app.kind, app.api_version
                )
            }
            TargetProblem::ClusterMissing => format!("Target cluster '{cluster}' not found"),
            TargetProblem::ClusterNotReady => format!("Target cluster '{cluster}' not ready"),
            TargetProblem::NotSynced => "Target cluster client is not synced".to_owned(),
            TargetProblem::Unreachable | TargetProblem::Forbidden => because(&seen.state),
        };
        cut(&text, LONGEST_TEXT)
    }
}

fn because(state: &TargetState) -> String {
    match state {
        TargetState::Unreachable { because } => format!("not reachable: {because}"),
        TargetState::Forbidden { because } | TargetState::Refused { because } => {
            format!("not allowed: {because}")
        }
        _ => String::new(),
    }
}

/// What is known about a target. It is mostly at the same place as before, which spares a search among
/// all targets for each of them.
pub(super) fn known_at<'a>(
    at: usize,
    seen: &ObservedTarget,
    known: &'a [TargetStatus],
) -> Option<&'a TargetStatus> {
    let here = known.get(at).filter(|known| is_same(known, seen));
    here.or_else(|| known.iter().find(|known| is_same(known, seen)))
}

fn is_same(known: &TargetStatus, seen: &ObservedTarget) -> bool {
    let is_same_cluster = match (cluster_of_status(known), &seen.cluster) {
        (Some(known), Some(seen)) => known.name == seen.name && known.namespace == seen.namespace,
        (None, None) => true,
        _ => false,
    };
    is_same_cluster && known.namespace.as_deref() == Some(seen.namespace.as_str())
}

/// Whether the target could be read and the app does not exist.
fn is_observed_absence(state: &TargetState) -> bool {
    state.problem().is_some_and(is_absence)
}

/// Whether the problem is that there is no app, and not that the target cannot be read.
pub(crate) fn is_absence(problem: TargetProblem) -> bool {
    let absent = [
        TargetProblem::AppMissing,
        TargetProblem::NamespaceMissing,
        TargetProblem::KindMissing,
    ];
    absent.contains(&problem)
}

/// The last known state of a target that cannot be read; it is not ready. Why it cannot be read
/// replaces its error.
fn last_known(blank: TargetStatus, known: Option<&TargetStatus>) -> TargetStatus {
    let Some(known) = known.cloned() else {
        return blank;
    };
    TargetStatus {
        cluster_app_ref: blank.cluster_app_ref,
        source: blank.source,
        ready: false,
        ..known
    }
}

/// The version of what runs. Where only a moving tag is known of a digest, the version that was known
/// of it before says more.
fn version(reading: &AppReading, known: Option<&TargetStatus>) -> Option<String> {
    let revision = reading.revision.as_ref().map(Revision::as_str);
    let is_same = |known: &&TargetStatus| known.revision.as_deref() == revision;
    let before = known
        .filter(is_same)
        .and_then(|known| known.version.clone());
    let is_tag = |version: &String| revision.is_some_and(is_digest) && !reads_like_version(version);
    let own = reading.version.clone();
    own.clone().filter(|own| !is_tag(own)).or(before).or(own)
}

/// The digest of the OCI artifact, where the revision is a version.
fn artifact_digest(reading: &AppReading) -> Option<String> {
    let revision = reading.revision.as_ref()?.as_str();
    let digest = reading.digest.as_deref().filter(|it| is_digest(it))?;
    (!is_digest(revision)).then(|| digest.to_owned())
}

/// The apps of a target as one: ready when all are, at a revision when they share it.
fn together(apps: &[AnalysedApp<'_>]) -> AppReading {
    let Some((first, rest)) = apps.split_first() else {
        return AppReading::default();
    };
    let mut whole = first.reading.clone();
    for app in rest {
        let reading = &app.reading;
        if reading.revision != whole.revision {
            whole.revision = None;
            whole.version = None;
        }
        if reading.digest != whole.digest {
            whole.digest = None;
        }
        whole.ready &= reading.ready;
        whole.error = whole.error.or_else(|| reading.error.clone());
        if reading.failed && !whole.failed {
            whole.failed = true;
            whole.attempted.clone_from(&reading.attempted);
        }
    }
    whole
}

/// Whether all apps of a target are signed; not, if one of them is not.
fn together_signed(apps: &[AnalysedApp<'_>]) -> Option<bool> {
    let mut signed = apps.iter().map(|app| app.seen.signed);
    let first = signed.next()??;
    signed.try_fold(first, |all, it| Some(all && it?))
}

fn find<'a>(app: &ObservedApp, known: &'a [AppStatus]) -> Option<&'a AppStatus> {
    known.iter().find(|known| {
        known.kind == app.kind && known.name == app.name && known.api_version == app.api_version
    })
}

fn app_status(analysed: AnalysedApp<'_>, known: &[AppStatus]) -> AppStatus {
    let AnalysedApp {
        seen: app,
        reading,
        canary,
    } = analysed;
    let known = find(app, known);
    let images = app.images.clone();
    AppStatus {
        api_version: app.api_version.clone(),
        kind: app.kind.clone(),
        name: app.name.clone(),
        ready: reading.ready,
        revision: reading.revision.as_ref().map(ToString::to_string),
        message: reading
            .message
            .as_deref()
            .filter(|_| !reading.ready)
            .map(|message| cut(message, LONGEST_TEXT)),
        note: match images {
            Some(_) => app.note.clone(),
            None => app.note.clone().or_else(|| known?.note.clone()),
        },
        source_commit: reading
            .source_commit
            .clone()
            .filter(|commit| commit.len() <= 64),
        origin: app.origin.clone().or_else(|| known?.origin.clone()),
        canary,
        images: images
            .or_else(|| Some(known?.images.clone()))
            .unwrap_or_default(),
    }
}

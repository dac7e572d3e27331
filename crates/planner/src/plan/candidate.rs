//! Which revision an environment should get next, by what its source environment runs.

use std::collections::BTreeSet;

use api::{
    pipeline::{Environment, PromotionSettings, Reported, SourceKind, TargetStatus, When},
    revision::shown,
};

use super::input::PlanInput;
use crate::{
    evidence::relies_on_reports,
    fold::told,
    hold::{Hold, HoldReason, and_more, list},
    hook::{how_to_sign, unsigned_report},
    release::failed_release,
    site::{environment_report_key, target_name},
    time::{Timestamp, later},
    validity, version_order,
};

/// A revision that may go on, and where it was verified.
#[derive(Clone, Debug)]
pub(super) struct Candidate<'a> {
    pub(super) revision: String,
    pub(super) version: String,
    /// When that was; not known when a source proposes it.
    pub(super) verified_at: Option<Timestamp>,
    /// The targets that vouch for it; none when a source proposes it.
    pub(super) vouched_by: Vec<&'a TargetStatus>,
    /// A younger revision that is not old enough yet.
    pub(super) soaking: Option<Hold>,
}

/// What is to go into the environment next: nothing where others move it.
pub(super) fn candidate<'a>(
    world: &PlanInput<'a>,
    index: usize,
    settings: &PromotionSettings,
) -> Result<Option<Candidate<'a>>, Hold> {
    let Some(source) = world.source_of(index) else {
        return proposed(world);
    };
    if let Some(hold) = unknown_source(world, source) {
        return Err(hold);
    }
    let targets = world.targets(&source.name);
    let reported = world
        .status(&source.name)
        .and_then(|status| status.reported.as_ref());
    let vote = SourceVotes {
        source,
        targets,
        reported,
        reported_version: reported.and_then(|reported| version_reported(world, source, reported)),
        soak: settings
            .soak
            .as_ref()
            .map_or(std::time::Duration::ZERO, |soak| soak.length()),
        now: world.now,
    };
    let candidate = match settings.when.unwrap_or_else(|| usual_when(targets)) {
        When::AllTargetsReady => vote.all(),
        When::AnyTargetReady => vote.any(),
    };
    match candidate {
        Ok(candidate) => Ok(Some(candidate)),
        Err(hold) => Err(not_signed(world, source, &hold).unwrap_or(hold)),
    }
}

/// What to write to git for what a report says that names no target, by the report itself.
fn version_reported(
    world: &PlanInput<'_>,
    source: &Environment,
    reported: &Reported,
) -> Option<String> {
    let report = world
        .model
        .reports
        .get(&environment_report_key(&source.name))?;
    let (revision, version) = told(world.spec, &report.revision);
    (revision == reported.revision).then_some(version)
}

/// That a source environment is not ready because what it reported does not count, if that is so.
fn not_signed(world: &PlanInput<'_>, source: &Environment, hold: &Hold) -> Option<Hold> {
    let is_unready = matches!(
        hold.reason,
        HoldReason::SourceNotDeployed
            | HoldReason::SourceNotReady
            | HoldReason::SourceTargetsDiffer
    );
    let name = &source.name;
    let report = unsigned_report(world.pipeline, world.model, name).filter(|_| is_unready)?;
    let revision = &report.revision;
    let how = how_to_sign(world.pipeline, name);
    Some(Hold::new(
        HoldReason::ReportNotSigned,
        format!("{name} reported {revision} without a signature, which does not count"),
        format!("a signed report lifts this: {how}"),
    ))
}

/// Why nothing is known about a source environment.
fn unknown_source<'a>(world: &PlanInput<'a>, source: &'a Environment) -> Option<Hold> {
    let name = &source.name;
    if let Some(namespace) = world.unmatched_selector(source) {
        return Some(Hold::new(
            HoldReason::SourceNotReady,
            format!("no cluster matches the selector of {name} for namespace {namespace}"),
            format!("a cluster that matches and is ready in {name} lifts this"),
        ));
    }
    world.targets(name).is_empty().then(|| {
        Hold::new(
            HoldReason::SourceNotDeployed,
            format!("{name} has not been looked at yet"),
            "the first look at it lifts this",
        )
    })
}

/// Where reports are all there is, one is enough, as it was for the ancestor.
fn usual_when(targets: &[TargetStatus]) -> When {
    if targets.iter().all(relies_on_reports) {
        When::AnyTargetReady
    } else {
        When::AllTargetsReady
    }
}

/// What the pipeline's source proposes for the first environment.
fn proposed<'a>(world: &PlanInput<'a>) -> Result<Option<Candidate<'a>>, Hold> {
    let Some(source) = &world.spec.source else {
        return Ok(None);
    };
    if let Some(text) = validity::invalid_source(world.spec) {
        let lifted_by = "an edit of the pipeline's source lifts this";
        return Err(Hold::new(HoldReason::InvalidSource, text, lifted_by));
    }
    let Some(proposal) = &world.model.proposal else {
        return Ok(None);
    };
    if let Some(error) = &proposal.error {
        let name = source.name.as_deref().unwrap_or_default();
        return Err(Hold::new(
            HoldReason::SourceUnreadable,
            format!("the {:?} {name} proposes nothing: {error}", source.kind),
            match source.kind {
                SourceKind::Hook => "the next call lifts this",
                _ => "its next revision lifts this",
            },
        ));
    }
    Ok(proposal.revision.clone().map(|revision| Candidate {
        version: proposal.version.clone().unwrap_or_else(|| revision.clone()),
        revision,
        verified_at: None,
        vouched_by: Vec::new(),
        soaking: None,
    }))
}

/// The targets of a source environment, asked for the revision they vouch for.
struct SourceVotes<'a> {
    source: &'a Environment,
    targets: &'a [TargetStatus],
    reported: Option<&'a Reported>,
    /// What to write to git for what was reported.
    reported_version: Option<String>,
    soak: std::time::Duration,
    now: Timestamp,
}

/// One target's word for a revision, or a report's that names no target.
struct TargetVote<'a> {
    revision: &'a str,
    version: Option<String>,
    since: Timestamp,
    target: Option<&'a TargetStatus>,
}

impl TargetVote<'_> {
    fn version(&self) -> &str {
        self.version.as_deref().unwrap_or(self.revision)
    }

    fn shown(&self) -> String {
        shown(self.revision, self.version.as_deref())
    }
}

impl<'a> SourceVotes<'a> {
    fn all(&self) -> Result<Candidate<'a>, Hold> {
        let revision = self.shared_revision()?;
        let version = version_on(self.targets.first(), revision);
        let shown = shown(revision, Some(&version));
        let unready: Vec<_> = self.targets.iter().filter(|it| !it.ready).collect();
        if let Some(target) = unready.first() {
            return Err(self.not_ready(target, unready.len(), &shown));
        }
        let voices = self.targets.iter().filter_map(|target| self.voice(target));
        let since = voices.map(|voice| voice.since).max().unwrap_or(self.now);
        let opens_at = later(since, self.soak);
        if self.now < opens_at {
            return Err(self.soaking(&shown, opens_at));
        }
        Ok(Candidate {
            revision: revision.to_owned(),
            version,
            verified_at: Some(opens_at),
            vouched_by: self.targets.iter().collect(),
            soaking: None,
        })
    }

    fn any(&self) -> Result<Candidate<'a>, Hold> {
        let mut voices: Vec<_> = self
            .targets
            .iter()
            .filter(|target| target.ready)
            .filter_map(|target| self.voice(target))
            .chain(self.reported.map(|reported| self.unattributed(reported)))
            .collect();
        // The most recently ready one first.
        voices.sort_by(|one, other| {
            let by_age = other.since.cmp(&one.since);
            by_age.then_with(|| version_order::total(&other.shown(), &one.shown()))
        });
        let name = &self.source.name;
        let Some(youngest) = voices.first() else {
            let failed = self.targets.iter().find_map(failed_release);
            let because = failed.map(|text| format!(": {text}")).unwrap_or_default();
            return Err(Hold::new(
                HoldReason::SourceNotReady,
                format!("no target of {name} is ready{because}"),
                format!("one ready target of {name} lifts this"),
            ));
        };
        let opens_at = later(youngest.since, self.soak);
        let soaking = (self.now < opens_at).then(|| self.soaking(&youngest.shown(), opens_at));
        let is_old_enough = |voice: &&TargetVote<'_>| later(voice.since, self.soak) <= self.now;
        match voices.iter().find(is_old_enough) {
            Some(voice) => Ok(Candidate {
                revision: voice.revision.to_owned(),
                version: voice.version().to_owned(),
                verified_at: Some(later(voice.since, self.soak)),
                vouched_by: voice.target.into_iter().collect(),
                soaking: soaking.filter(|_| youngest.revision != voice.revision),
            }),
            None => Err(self.earliest_soaking(&voices)),
        }
    }

    fn earliest_soaking(&self, voices: &[TargetVote<'_>]) -> Hold {
        let oldest = voices.iter().min_by_key(|voice| voice.since);
        let revision = oldest.map(TargetVote::shown).unwrap_or_default();
        let since = oldest.map_or(self.now, |voice| voice.since);
        self.soaking(&revision, later(since, self.soak))
    }

    /// The one revision all targets run.
    fn shared_revision(&self) -> Result<&'a str, Hold> {
        let name = &self.source.name;
        let mut running: Vec<_> = self
            .targets
            .iter()
            .filter_map(|target| Some((target.shown_revision()?, target.revision.as_deref()?)))
            .collect();
        running.sort_by(|(one, _), (other, _)| version_order::total(one, other));
        // Two tags of one digest need not be neighbours.
        let mut known = BTreeSet::new();
        running.retain(|(_, revision)| known.insert(*revision));
        if running.len() > 1 {
            let shown: Vec<_> = running.into_iter().map(|(shown, _)| shown).collect();
            let failed = |target: &TargetStatus| {
                let text = failed_release(target)?;
                Some(format!(" ({}: {text})", target_name(target)))
            };
            let failed = self.targets.iter().find_map(failed).unwrap_or_default();
            return Err(Hold::new(
                HoldReason::SourceTargetsDiffer,
                format!("{name} targets run {}{failed}", list(&shown)),
                format!("one revision on all targets of {name} lifts this"),
            ));
        }
        let silent = self.targets.iter().find(|target| target.revision.is_none());
        match (silent, running.first()) {
            (None, Some((_, revision))) => Ok(revision),
            (silent, _) => Err(self.not_deployed(silent)),
        }
    }

    fn not_deployed(&self, target: Option<&TargetStatus>) -> Hold {
        let name = &self.source.name;
        if let Some(reported) = self.reported {
            let revision = &reported.revision;
            return Hold::new(
                HoldReason::TargetsNotDistinguishable,
                format!("reports say that {name} runs {revision}, but not on which of its targets"),
                "the metadata field `cluster` on the alerts, or `when: AnyTargetReady`, lifts this",
            );
        }
        let sentence = match target {
            Some(target) => {
                let because = target.error.clone().or_else(|| failed_release(target));
                let because = because.unwrap_or("no revision is known".to_owned());
                format!("{name} target {}: {because}", target_name(target))
            }
            None => format!("no revision of {name} is known"),
        };
        let lifted_by = format!("one revision on all targets of {name} lifts this");
        Hold::new(HoldReason::SourceNotDeployed, sentence, lifted_by)
    }

    fn not_ready(&self, target: &TargetStatus, count: usize, revision: &str) -> Hold {
        let more = and_more(count);
        let because = match target.error.clone().or_else(|| failed_release(target)) {
            Some(error) => format!("{more}: {error}"),
            None if count > 1 => format!("{more} are not ready at {revision}"),
            None => format!(" is not ready at {revision}"),
        };
        let name = &self.source.name;
        Hold::new(
            HoldReason::SourceNotReady,
            format!("{name} target {}{because}", target_name(target)),
            format!("all targets of {name} being ready lifts this"),
        )
    }

    fn soaking(&self, revision: &str, opens_at: Timestamp) -> Hold {
        let sentence = format!(
            "{revision} has not been ready in {} for long enough",
            self.source.name
        );
        Hold {
            opens_at: Some(opens_at),
            ..Hold::new(
                HoldReason::Soaking,
                sentence,
                format!("lifts at {opens_at:.0}"),
            )
        }
    }

    fn voice(&self, target: &'a TargetStatus) -> Option<TargetVote<'a>> {
        Some(TargetVote {
            revision: target.revision.as_deref()?,
            version: target.version.clone(),
            since: target.ready_since.as_ref().map_or(self.now, |time| time.0),
            target: Some(target),
        })
    }

    fn unattributed(&self, reported: &'a Reported) -> TargetVote<'a> {
        TargetVote {
            revision: &reported.revision,
            version: self.reported_version.clone(),
            since: reported
                .ready_since
                .as_ref()
                .map_or(self.now, |time| time.0),
            target: None,
        }
    }
}

fn version_on(target: Option<&TargetStatus>, revision: &str) -> String {
    let version = target.and_then(|target| target.version.clone());
    version.unwrap_or_else(|| revision.to_owned())
}

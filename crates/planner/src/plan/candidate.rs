//! Which revision an environment should get next: what the source environment runs, or what the
//! pipeline's source proposes.

use std::{collections::BTreeSet, time::Duration};

use api::{
    Pipeline,
    pipeline::{
        Environment, PipelineSpec, PipelineStatus, PromotionSettings, Proposal, ReportedRevision,
        TargetStatus, When,
    },
    revision::shown,
};

use super::{common_revision::SourceEnvironments, input::PlanInput};
use crate::{
    checks::CheckStates,
    evidence::relies_on_reports,
    fold::revision_and_version,
    gate::soak,
    hold::Hold,
    site::environment_report_key,
    sources::{sources, takes_proposals},
    time::{Timestamp, later},
    version_order,
};

/// A revision that may be promoted, and what verified it.
#[derive(Clone, Debug)]
pub(crate) struct Candidate<'a> {
    pub(crate) revision: String,
    pub(crate) version: String,
    /// Since when it may be promoted; not known when the pipeline's source proposes it.
    pub(crate) verified_at: Option<Timestamp>,
    /// The targets that run it; none when the pipeline's source proposes it.
    pub(crate) vouched_by: Vec<&'a TargetStatus>,
    /// The digests that source environments have recorded for it, where they are not those of their targets.
    pub(crate) digests: Vec<&'a str>,
    /// The hold of a newer revision that is not verified yet.
    pub(crate) newer: Option<Hold>,
}

/// Where the next revision of an environment comes from.
pub(crate) enum CandidateSource<'a> {
    /// Nowhere: Sluice does not promote into it by itself.
    Nothing,
    /// The pipeline's source, for the first environment.
    Proposal {
        spec: &'a PipelineSpec,
        proposal: Option<&'a Proposal>,
    },
    /// The environment that it comes after.
    Environment(SourceVotes<'a>),
    /// The environments that it comes after.
    Environments(SourceEnvironments<'a>),
}

impl<'a> CandidateSource<'a> {
    /// `runs` says whether every site of the environment runs a revision.
    pub(crate) fn new(
        input: &PlanInput<'a>,
        environment: &Environment,
        settings: &PromotionSettings,
        runs: &dyn Fn(&str) -> bool,
    ) -> Self {
        let sources = sources(input.spec, &environment.name);
        let votes = |source| SourceVotes::new(input, source, settings, runs);
        match sources.as_slice() {
            [source] => Self::Environment(votes(source)),
            [] => Self::of_pipeline(input, environment),
            several => Self::Environments(SourceEnvironments::new(
                several.iter().copied().map(votes).collect(),
            )),
        }
    }

    /// What comes into an environment that comes after no other.
    fn of_pipeline(input: &PlanInput<'a>, environment: &Environment) -> Self {
        let takes_proposals = takes_proposals(input.spec, &environment.name);
        match input.spec.source.as_ref().filter(|_| takes_proposals) {
            None => Self::Nothing,
            Some(_) => Self::Proposal {
                spec: input.spec,
                proposal: input.model.proposal.as_ref(),
            },
        }
    }

    /// The revision that passes the gates of its source.
    pub(super) fn candidate(&self) -> Option<Candidate<'a>> {
        match self {
            Self::Nothing => None,
            Self::Environment(votes) => votes.candidate(),
            Self::Environments(sources) => sources.candidate(),
            Self::Proposal { proposal, .. } => {
                let proposal = proposal.as_ref()?;
                let revision = proposal.revision.clone()?;
                Some(Candidate {
                    version: proposal.version.clone().unwrap_or_else(|| revision.clone()),
                    revision,
                    verified_at: None,
                    vouched_by: Vec::new(),
                    digests: Vec::new(),
                    newer: None,
                })
            }
        }
    }
}

impl<'a> CandidateSource<'a> {
    /// The revision that the environment gets next once its source passes the gates: the newest that the
    /// source has, whether or not it is ready or has soaked. Where one ready target is enough, what the
    /// environment runs already is left out if there is another.
    pub(crate) fn prospect(&self) -> Option<Candidate<'a>> {
        match self {
            Self::Environment(votes) => votes.prospect(),
            Self::Environments(sources) => sources.prospect(),
            _ => self.candidate(),
        }
    }

    /// The revision of which the gate `soak` tells, where that may be another than the prospect.
    pub(super) fn soaking_revision(&self) -> Option<&'a str> {
        match self {
            Self::Environment(votes) if votes.when == When::AnyTargetReady => {
                Some(votes.soaking_vote()?.revision)
            }
            _ => None,
        }
    }

    /// When the next revision has soaked, also one that the environment runs already.
    pub(super) fn next_soaked_at(&self) -> Option<Timestamp> {
        let Self::Environment(votes) = self else {
            return None;
        };
        let soaked = votes.checked().into_iter().map(|it| votes.opens_at(&it));
        soaked.filter(|at| *at > votes.now).min()
    }

    /// The revision of which the gate `verified` tells, where that may be another than the prospect.
    pub(super) fn checked_revision(&self) -> Option<&'a str> {
        match self {
            Self::Environment(votes) if votes.when == When::AnyTargetReady => {
                Some(votes.newest_first().first()?.revision)
            }
            _ => None,
        }
    }
}

/// Where reports are all there is, one is enough, as for the Weave pipeline-controller.
pub(crate) fn default_when(targets: &[TargetStatus]) -> When {
    match targets.iter().all(relies_on_reports) {
        true => When::AnyTargetReady,
        false => When::AllTargetsReady,
    }
}

/// The targets of a source environment, and the revisions that they are ready at.
pub(crate) struct SourceVotes<'a> {
    pub(crate) pipeline: &'a Pipeline,
    pub(crate) model: &'a PipelineStatus,
    pub(crate) source: &'a Environment,
    pub(crate) targets: &'a [TargetStatus],
    /// What is reported about the environment without naming a target.
    pub(crate) reported: Option<&'a ReportedRevision>,
    pub(crate) when: When,
    /// What every site of the environment runs already.
    settled: BTreeSet<&'a str>,
    pub(super) soak: Duration,
    pub(crate) now: Timestamp,
}

/// The revision that one target is ready at, or that a report without a target names.
pub(crate) struct TargetVote<'a> {
    pub(crate) revision: &'a str,
    version: Option<String>,
    pub(crate) since: Timestamp,
    target: Option<&'a TargetStatus>,
}

impl TargetVote<'_> {
    fn version(&self) -> &str {
        self.version.as_deref().unwrap_or(self.revision)
    }

    /// The revision as people read it.
    pub(crate) fn shown(&self) -> String {
        shown(self.revision, self.version.as_deref())
    }
}

impl<'a> SourceVotes<'a> {
    fn new(
        input: &PlanInput<'a>,
        source: &'a Environment,
        settings: &PromotionSettings,
        runs: &dyn Fn(&str) -> bool,
    ) -> Self {
        let targets = input.targets(&source.name);
        let status = input.status(&source.name);
        let reported = status.and_then(|status| status.reported.as_ref());
        let revisions = targets.iter().filter_map(|it| it.revision.as_deref());
        let mut settled: BTreeSet<_> = revisions.collect();
        settled.extend(reported.map(|it| it.revision.as_str()));
        settled.retain(|it| runs(it));
        let soak = settings.soak.as_ref();
        Self {
            pipeline: input.pipeline,
            model: input.model,
            source,
            targets,
            reported,
            settled,
            when: settings.when.unwrap_or_else(|| default_when(targets)),
            soak: soak.map_or(Duration::ZERO, |soak| soak.length()),
            now: input.now,
        }
    }

    /// Whether it runs the revision, and every site of the environment does.
    pub(super) fn is_settled(&self, revision: &str) -> bool {
        self.settled.contains(revision)
    }

    /// The revision that has been ready for long enough.
    pub(crate) fn candidate(&self) -> Option<Candidate<'a>> {
        match self.when {
            When::AllTargetsReady => self.of_all_targets(),
            When::AnyTargetReady => self.of_any_target(),
        }
    }

    fn of_all_targets(&self) -> Option<Candidate<'a>> {
        let revision = self.shared_revision().ok()?;
        let opens_at = self.all_opens_at();
        (opens_at <= self.now).then(|| Candidate {
            revision: revision.to_owned(),
            version: self.version(revision),
            verified_at: Some(opens_at),
            vouched_by: self.targets.iter().collect(),
            digests: Vec::new(),
            newer: None,
        })
    }

    /// If a newer revision is still soaking, its hold is reported; the older candidate proceeds.
    fn of_any_target(&self) -> Option<Candidate<'a>> {
        let votes = self.newest_first();
        let may_go_on = |vote: &&TargetVote<'_>| {
            self.opens_at(vote) <= self.now && self.checks(vote.revision).have_passed()
        };
        let vote = votes.iter().find(may_go_on)?;
        let mut newer = votes.iter().take_while(|it| !may_go_on(it));
        let soaking = newer.find(|it| it.revision != vote.revision && self.now < self.opens_at(it));
        Some(Candidate {
            revision: vote.revision.to_owned(),
            version: vote.version().to_owned(),
            verified_at: Some(self.opens_at(vote)),
            vouched_by: vote.target.into_iter().collect(),
            digests: Vec::new(),
            newer: soaking.map(|it| soak::hold(self, &it.shown(), self.opens_at(it))),
        })
    }

    /// The newest revision of the source: of its ready targets, where one is enough and there is one, else
    /// of all of them.
    fn prospect(&self) -> Option<Candidate<'a>> {
        let mut ready = match self.when {
            When::AnyTargetReady => self.newest_first(),
            When::AllTargetsReady => Vec::new(),
        };
        // Stable: the newest of the others is first.
        ready.sort_by_key(|vote| self.is_settled(vote.revision));
        let ready = ready.into_iter().next();
        let all = self.targets.iter().filter_map(|target| self.vote(target));
        let newest = all.max_by(|one, other| version_order::total(&one.shown(), &other.shown()));
        let vote = ready.or(newest)?;
        let runs = |target: &&TargetStatus| target.revision.as_deref() == Some(vote.revision);
        Some(Candidate {
            revision: vote.revision.to_owned(),
            version: vote.version().to_owned(),
            verified_at: None,
            vouched_by: self.targets.iter().filter(runs).collect(),
            digests: Vec::new(),
            newer: None,
        })
    }

    /// How the checks of the source environment stand for a revision.
    pub(crate) fn checks(&self, revision: &str) -> CheckStates<'a> {
        let name = &self.source.name;
        let status = self.model.environments.get(name);
        CheckStates::verify(&self.pipeline.spec, name, status, revision)
    }

    /// Whether a revision of the source environment has yet to be ready for long enough.
    pub(crate) fn is_soaking(&self, revision: &str) -> bool {
        match self.when {
            When::AllTargetsReady => {
                self.shared_revision() == Ok(revision) && self.now < self.all_opens_at()
            }
            When::AnyTargetReady => {
                let mut votes = self.newest_first().into_iter();
                votes.any(|it| it.revision == revision && self.now < self.opens_at(&it))
            }
        }
    }

    /// The votes of ready targets for revisions whose checks passed; the one that became ready last first.
    pub(crate) fn checked(&self) -> Vec<TargetVote<'a>> {
        let mut votes = self.newest_first();
        votes.retain(|it| self.checks(it.revision).have_passed());
        votes
    }

    /// The vote that soaks next: the oldest for a revision that does not run everywhere yet, if there is one.
    pub(crate) fn soaking_vote(&self) -> Option<TargetVote<'a>> {
        let votes = self.checked().into_iter();
        votes.min_by_key(|it| (self.is_settled(it.revision), it.since))
    }

    /// When a revision has soaked.
    pub(crate) fn opens_at(&self, vote: &TargetVote<'_>) -> Timestamp {
        later(vote.since, self.soak)
    }

    /// When the revision of all targets has soaked.
    pub(crate) fn all_opens_at(&self) -> Timestamp {
        let votes = self.targets.iter().filter_map(|target| self.vote(target));
        let since = votes.map(|vote| vote.since).max().unwrap_or(self.now);
        later(since, self.soak)
    }

    /// The votes of ready targets, and the report's; the one that became ready last first.
    pub(crate) fn newest_first(&self) -> Vec<TargetVote<'a>> {
        let ready = self.targets.iter().filter(|target| target.ready);
        let votes = ready.filter_map(|target| self.vote(target));
        let mut votes: Vec<_> = votes.chain(self.reported_vote()).collect();
        votes.sort_by(|one, other| {
            let by_age = other.since.cmp(&one.since);
            by_age.then_with(|| version_order::total(&other.shown(), &one.shown()))
        });
        votes
    }

    /// The one revision that all targets run; else the revisions that they run, as they are shown.
    pub(crate) fn shared_revision(&self) -> Result<&'a str, Vec<String>> {
        let mut running: Vec<_> = self
            .targets
            .iter()
            .filter_map(|target| Some((target.shown_revision()?, target.revision.as_deref()?)))
            .collect();
        running.sort_by(|(one, _), (other, _)| version_order::total(one, other));
        // Two tags of one digest need not be neighbours.
        let mut known = BTreeSet::new();
        running.retain(|(_, revision)| known.insert(*revision));
        let is_everywhere = self.targets.iter().all(|target| target.revision.is_some());
        match running.as_slice() {
            [(_, revision)] if is_everywhere => Ok(revision),
            _ => Err(running.into_iter().map(|(shown, _)| shown).collect()),
        }
    }

    /// The shared revision as people read it.
    pub(crate) fn shown(&self, revision: &str) -> String {
        shown(revision, Some(&self.version(revision)))
    }

    fn version(&self, revision: &str) -> String {
        let first = self.targets.first();
        let version = first.and_then(|target| target.version.clone());
        version.unwrap_or_else(|| revision.to_owned())
    }

    fn vote(&self, target: &'a TargetStatus) -> Option<TargetVote<'a>> {
        Some(TargetVote {
            revision: target.revision.as_deref()?,
            version: target.version.clone(),
            since: target.ready_since.as_ref().map_or(self.now, |time| time.0),
            target: Some(target),
        })
    }

    fn reported_vote(&self) -> Option<TargetVote<'a>> {
        let reported = self.reported?;
        let since = reported.ready_since.as_ref();
        Some(TargetVote {
            revision: &reported.revision,
            version: self.reported_version(reported),
            since: since.map_or(self.now, |time| time.0),
            target: None,
        })
    }

    /// What to write to git for a reported revision, by the report itself.
    fn reported_version(&self, reported: &ReportedRevision) -> Option<String> {
        let key = environment_report_key(&self.source.name);
        let report = self.model.reports.get(&key)?;
        let (revision, version) = revision_and_version(&self.pipeline.spec, &report.revision);
        (revision == reported.revision).then_some(version)
    }
}

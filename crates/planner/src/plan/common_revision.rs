//! Which revision an environment that comes after several others should get: the newest that each of them
//! vouches for and none of them rejected.
//!
//! What a source environment has left for a newer revision still counts, as long as it was verified there and
//! has not failed since: otherwise environments that move at different times would starve the next one.

use api::{
    pipeline::{EnvironmentStatus, RanRevision, TargetStatus, When},
    revision::shown,
};

use super::candidate::{Candidate, SourceVotes};
use crate::{
    gate::{readiness, soak, verified},
    hold::Hold,
    time::{Timestamp, later},
    version_order,
};

/// The source environments of an environment that has several.
pub(crate) struct SourceEnvironments<'a> {
    pub(crate) all: Vec<SourceVotes<'a>>,
    /// The revisions that each of them runs or vouches for and none rejected, newest first.
    common: Vec<CommonRevision<'a>>,
}

/// A revision that every source environment runs or vouches for.
pub(crate) struct CommonRevision<'a> {
    pub(crate) revision: &'a str,
    version: String,
    /// When it was ready in the last of them, as far as that is known.
    arrived_at: Timestamp,
    /// How it stands in each of them.
    pub(crate) standings: Vec<Standing>,
}

/// How a revision stands in one source environment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It is ready there, and has soaked at that time.
    Ready(Timestamp),
    /// It was verified there before the environment moved on: it had soaked at that time.
    MovedOn(Timestamp),
    /// It runs there and is not ready.
    NotReady,
    /// It is not known there, or does not count.
    Absent,
}

impl CommonRevision<'_> {
    /// The revision as people read it.
    pub(crate) fn shown(&self) -> String {
        shown(self.revision, Some(&self.version))
    }

    /// When it has soaked in all of them, if it is ready there.
    fn opens_at(&self) -> Option<Timestamp> {
        let opens_at = self.standings.iter().map(|standing| match standing {
            Standing::Ready(at) | Standing::MovedOn(at) => Some(*at),
            Standing::NotReady | Standing::Absent => None,
        });
        opens_at.collect::<Option<Vec<_>>>()?.into_iter().max()
    }
}

impl<'a> SourceEnvironments<'a> {
    pub(super) fn new(all: Vec<SourceVotes<'a>>) -> Self {
        let common = common(&all);
        Self { all, common }
    }

    /// The revision that passes the gates of every source environment.
    pub(crate) fn candidate(&self) -> Option<Candidate<'a>> {
        let common = self.common.iter().find(|it| self.hold(it).is_none())?;
        let is_settled = |revision| self.all.iter().any(|votes| votes.is_settled(revision));
        let newer = self.newest().filter(|it| it.revision != common.revision);
        // What a person requested may have failed there, and holds nothing where it runs.
        let newer = newer.filter(|it| !is_settled(it.revision));
        Some(Candidate {
            verified_at: common.opens_at(),
            newer: newer.and_then(|it| self.hold(it)),
            ..self.described(common)
        })
    }

    /// The newest revision that every source environment has, whether or not it passes the gates.
    pub(super) fn prospect(&self) -> Option<Candidate<'a>> {
        self.newest().map(|it| self.described(it))
    }

    /// The newest revision that every source environment has.
    pub(crate) fn newest(&self) -> Option<&CommonRevision<'a>> {
        self.common.first()
    }

    /// The first gate that a common revision does not pass in some source environment.
    fn hold(&self, common: &CommonRevision<'_>) -> Option<Hold> {
        readiness::of_common(self, common)
            .or_else(|| verified::of_common(self, common).hold())
            .or_else(|| soak::of_common(self, common))
    }

    /// How a common revision stands in each source environment.
    pub(crate) fn standings<'b>(
        &'b self,
        common: &'b CommonRevision<'_>,
    ) -> impl Iterator<Item = (&'b SourceVotes<'a>, Standing)> {
        self.all.iter().zip(common.standings.iter().copied())
    }

    fn described(&self, common: &CommonRevision<'_>) -> Candidate<'a> {
        let revision = common.revision;
        let targets = self.all.iter().flat_map(|votes| votes.targets);
        let ran = self.all.iter().filter_map(|votes| votes.entry(revision));
        Candidate {
            revision: revision.to_owned(),
            version: common.version.clone(),
            verified_at: None,
            vouched_by: targets
                .filter(|target| target.revision.as_deref() == Some(revision))
                .collect(),
            digests: ran.filter_map(|ran| ran.digest.as_deref()).collect(),
            newer: None,
        }
    }
}

/// The revisions that every source environment has and none rejected, newest first.
fn common<'a>(all: &[SourceVotes<'a>]) -> Vec<CommonRevision<'a>> {
    let Some(first) = all.first() else {
        return Vec::new();
    };
    let is_rejected = |revision: &str| all.iter().any(|votes| votes.rejects(revision));
    let mut common: Vec<_> = first
        .revisions()
        .into_iter()
        .filter(|revision| !is_rejected(revision))
        .map(|revision| CommonRevision {
            revision,
            version: version(all, revision),
            arrived_at: arrived_at(all, revision),
            standings: all.iter().map(|votes| votes.standing(revision)).collect(),
        })
        .filter(|it| !it.standings.contains(&Standing::Absent))
        .collect();
    let by_arrival = |one: &CommonRevision<'_>, other: &CommonRevision<'_>| {
        let by_time = other.arrived_at.cmp(&one.arrived_at);
        by_time.then_with(|| version_order::total(&other.shown(), &one.shown()))
    };
    common.sort_by(by_arrival);
    let mut shown = common.iter().map(CommonRevision::shown);
    match shown.all(|it| version_order::has_version(&it)) {
        true => common.sort_by(|one, other| version_order::compare(&other.shown(), &one.shown())),
        false => common = in_order_of_arrival(all, common),
    }
    common
}

/// Newest first: what arrived later in every source environment is newer, whatever the clock said. Where they
/// do not agree, the order stays as it is.
fn in_order_of_arrival<'a>(
    all: &[SourceVotes<'_>],
    mut left: Vec<CommonRevision<'a>>,
) -> Vec<CommonRevision<'a>> {
    let arrived_later = |one: &str, other: &str| {
        let mut sources = all.iter();
        sources.all(|votes| votes.position(one) < votes.position(other))
    };
    let mut ordered = Vec::new();
    while !left.is_empty() {
        let is_newest = |it: &CommonRevision<'_>| {
            let mut others = left.iter();
            !others.any(|other| arrived_later(other.revision, it.revision))
        };
        let newest = left.iter().position(is_newest).unwrap_or_default();
        ordered.push(left.remove(newest));
    }
    ordered
}

/// What to write to git for a revision, by any of the source environments.
fn version(all: &[SourceVotes<'_>], revision: &str) -> String {
    let targets = all.iter().flat_map(|votes| votes.targets);
    let mut running = targets.filter(|it| it.revision.as_deref() == Some(revision));
    let ran = all.iter().filter_map(|votes| votes.entry(revision));
    let version = running.find_map(|target| target.version.clone());
    let version = version.or_else(|| ran.into_iter().find_map(|ran| ran.version.clone()));
    version.unwrap_or_else(|| revision.to_owned())
}

/// When a revision was ready in the last source environment that it reached.
fn arrived_at(all: &[SourceVotes<'_>], revision: &str) -> Timestamp {
    let ready_at = all.iter().filter_map(|votes| {
        let recorded = votes.entry(revision).and_then(|ran| votes.ready_at(ran));
        recorded.or_else(|| votes.ready_since(revision))
    });
    ready_at.max().unwrap_or(Timestamp::MIN)
}

impl<'a> SourceVotes<'a> {
    /// How a revision stands here.
    fn standing(&self, revision: &str) -> Standing {
        if let Some(since) = self.ready_since(revision) {
            return Standing::Ready(later(since, self.soak));
        }
        let is_whole = match self.when {
            When::AllTargetsReady => self.shared_revision() == Ok(revision),
            When::AnyTargetReady => self.runs(revision),
        };
        let moved_on = self.verified_before(revision).filter(|_| !is_whole);
        match moved_on {
            Some(at) => Standing::MovedOn(at),
            None if self.runs(revision) => Standing::NotReady,
            None => Standing::Absent,
        }
    }

    /// Since when the environment has been ready at a revision without a break, if it is now.
    fn ready_since(&self, revision: &str) -> Option<Timestamp> {
        let votes = self.newest_first();
        let mut since = votes
            .iter()
            .filter(|vote| vote.revision == revision)
            .map(|vote| vote.since);
        match self.when {
            When::AnyTargetReady => since.min(),
            When::AllTargetsReady => {
                let are_ready = self.targets.iter().all(|target| target.ready);
                let is_shared = self.shared_revision() == Ok(revision);
                (are_ready && is_shared).then(|| since.by_ref().max())?
            }
        }
    }

    /// When a revision had soaked here that the environment has moved on from: it was ready, passed its
    /// checks and has not failed since. Not if an older one has replaced it: somebody took it back.
    fn verified_before(&self, revision: &str) -> Option<Timestamp> {
        let status = self.status()?;
        let entry = self.entry(revision)?;
        let ready_at = self.ready_at(entry)?;
        let opens_at = later(ready_at, self.soak);
        let has_passed = entry.checked_at.is_some() && entry.failed_check.is_none();
        let is_checked =
            self.source.verify.is_none() || has_passed && self.checks(revision).failed().is_none();
        let own = shown(revision, entry.version.as_deref());
        let is_older = |target: &TargetStatus| {
            let running = target.shown_revision();
            running.is_some_and(|running| version_order::is_older(&running, &own))
        };
        let is_taken_back = self.targets.iter().any(is_older);
        let failed = || readiness::failed_since(status, revision, Some(ready_at), self.when);
        let counts = is_checked && !is_taken_back && opens_at <= self.left_at(entry);
        (counts && failed().is_none()).then_some(opens_at)
    }

    /// When a revision was ready here, by `when`.
    fn ready_at(&self, ran: &RanRevision) -> Option<Timestamp> {
        let ready_at = match self.when {
            When::AllTargetsReady => &ran.all_ready_at,
            When::AnyTargetReady => &ran.first_ready_at,
        };
        ready_at.as_ref().map(|at| at.0)
    }

    /// Until when the environment was at a revision: on all targets, a later revision ends that.
    fn left_at(&self, ran: &RanRevision) -> Timestamp {
        let left_at = ran.left_at.as_ref().map_or(self.now, |at| at.0);
        let is_it = |it: &&RanRevision| it.revision != ran.revision;
        let later = self.ran().iter().take_while(is_it);
        let replaced_at = later.filter_map(|it| Some(it.first_ready_at.as_ref()?.0));
        match self.when {
            When::AllTargetsReady => replaced_at.min().map_or(left_at, |at| at.min(left_at)),
            When::AnyTargetReady => left_at,
        }
    }

    /// The revisions that are known here.
    fn revisions(&self) -> Vec<&'a str> {
        let running = self.targets.iter().filter_map(|it| it.revision.as_deref());
        let reported = self.reported.map(|it| it.revision.as_str());
        let ran = self.ran().iter().map(|it| it.revision.as_str());
        let mut all: Vec<_> = running.chain(reported).chain(ran).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    /// The newest revision that is known here, and how people read it.
    pub(crate) fn newest_known(&self) -> Option<(&'a str, String)> {
        let last = self.ran().first();
        let last = last.map(|it| {
            (
                it.revision.as_str(),
                shown(&it.revision, it.version.as_deref()),
            )
        });
        let running = self.targets.iter();
        let running =
            running.filter_map(|it| Some((it.revision.as_deref()?, it.shown_revision()?)));
        running
            .max_by(|(_, one), (_, other)| version_order::total(one, other))
            .or(last)
            .or_else(|| {
                let reported = self.reported?.revision.as_str();
                Some((reported, reported.to_owned()))
            })
    }

    pub(crate) fn rejects(&self, revision: &str) -> bool {
        let status = self.status();
        status.is_some_and(|it| it.rejected.iter().any(|it| it == revision))
    }

    /// Whether a target runs a revision. What a report says is ready, where one target is enough.
    fn runs(&self, revision: &str) -> bool {
        let mut targets = self.targets.iter();
        targets.any(|it| it.revision.as_deref() == Some(revision))
    }

    /// How many revisions arrived here later; nothing where only a report tells of it.
    fn position(&self, revision: &str) -> Option<usize> {
        self.ran().iter().position(|it| it.revision == revision)
    }

    fn entry(&self, revision: &str) -> Option<&'a RanRevision> {
        self.ran().iter().find(|it| it.revision == revision)
    }

    fn ran(&self) -> &'a [RanRevision] {
        self.status()
            .map(|it| it.ran.as_slice())
            .unwrap_or_default()
    }

    fn status(&self) -> Option<&'a EnvironmentStatus> {
        self.model.environments.get(&self.source.name)
    }
}

//! Why a revision is not proposed again, as far as its promotions still tell.

use api::{
    Promotion,
    pipeline::{EnvironmentStatus, RequestKind},
    promotion::Phase,
};

use crate::{
    plan::{cancelled_by, rejects_revision, was_taken_back},
    promotion_phase::{is_rejected, phase_of},
};

/// A rejected revision and where it was rejected.
pub(super) struct RejectedRevision<'a> {
    pub(super) revision: &'a str,
    /// As people read it.
    pub(super) shown: &'a str,
    pub(super) environment: &'a str,
    pub(super) status: Option<&'a EnvironmentStatus>,
}

impl RejectedRevision<'_> {
    /// What happened last, as a clause.
    pub(super) fn sentence(&self, promotions: &[&Promotion]) -> String {
        let newest_first = promotions.iter().rev();
        let told = newest_first.filter_map(|it| self.told_by(it)).next();
        told.unwrap_or_else(|| match self.failed_check() {
            Some(check) => format!(
                "{} failed the check {check} in {}",
                self.shown, self.environment
            ),
            None => format!(
                "{} was rolled back, rejected or cancelled in {}, or its pull request was closed",
                self.shown, self.environment
            ),
        })
    }

    /// What happened to it since it last succeeded, as a clause; nothing where its promotions tell of nothing.
    pub(super) fn told_since_success(&self, promotions: &[&Promotion]) -> Option<String> {
        let has_succeeded = |it: &&&Promotion| {
            it.spec.revision == self.revision && phase_of(it) == Some(Phase::Succeeded)
        };
        let mut newest_first = promotions.iter().rev().take_while(|it| !has_succeeded(it));
        newest_first.find_map(|it| self.told_by(it))
    }

    fn told_by(&self, promotion: &Promotion) -> Option<String> {
        let spec = &promotion.spec;
        if spec.revision == self.revision {
            return self.told_by_own(promotion);
        }
        if spec.replaces.as_deref() != Some(self.revision) || was_taken_back(promotion) {
            return None;
        }
        let (shown, environment) = (self.shown, self.environment);
        // Where the environment went on from there, that is another story.
        let to = spec.shown_revision();
        let to = Some(to).filter(|_| !self.has_moved_on(promotion));
        let request = spec.request.as_ref();
        match request.filter(|it| it.kind == RequestKind::Rollback) {
            Some(request) => {
                let by = request.by.as_deref().unwrap_or("somebody");
                let to = to.map(|to| format!(" to {to}")).unwrap_or_default();
                Some(format!("{by} rolled {environment} back from {shown}{to}"))
            }
            None if spec.cause.is_some() => {
                let check = match self.failed_check() {
                    Some(check) => format!("the check {check}"),
                    None => "a check".to_owned(),
                };
                let to = to.map(|to| format!(", which was rolled back to {to}"));
                let to = to.unwrap_or_default();
                Some(format!("{shown} failed {check} in {environment}{to}"))
            }
            None => None,
        }
    }

    /// Whether the environment no longer runs what a rollback brought.
    fn has_moved_on(&self, rollback: &Promotion) -> bool {
        let targets = self.status.into_iter().flat_map(|it| &it.targets);
        let mut running = targets.filter_map(|it| it.revision.as_ref()).peekable();
        let is_known = running.peek().is_some();
        let has_ended = phase_of(rollback).is_some_and(Phase::is_terminal);
        has_ended && is_known && !running.any(|it| *it == rollback.spec.revision)
    }

    /// Who takes a rollback back does not reject what it was to bring.
    fn told_by_own(&self, promotion: &Promotion) -> Option<String> {
        if !rejects_revision(promotion, self.status) {
            return None;
        }
        let (shown, environment) = (self.shown, self.environment);
        let rejection = promotion.spec.rejection.as_ref();
        // A rollout may be rejected after its first batches are in git.
        let has_ended = phase_of(promotion) == Some(Phase::Abandoned);
        if let Some(rejection) = rejection.filter(|_| has_ended || is_rejected(promotion)) {
            let note = rejection.note.as_deref().filter(|note| !note.is_empty());
            let note = note.map(|note| format!(": {note}")).unwrap_or_default();
            return Some(format!(
                "{} rejected {shown} in {environment}{note}",
                rejection.by
            ));
        }
        if let Some(by) = cancelled_by(promotion) {
            return Some(format!("{shown} was cancelled in {environment} by {by}"));
        }
        (phase_of(promotion) == Some(Phase::Abandoned)).then(|| {
            format!("the pull request of {shown} into {environment} was closed without a merge")
        })
    }

    fn failed_check(&self) -> Option<&str> {
        let mut ran = self.status?.ran.iter();
        let entry = ran.find(|it| it.revision == self.revision)?;
        entry.failed_check.as_deref()
    }
}

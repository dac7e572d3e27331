//! The phases of a promotion: `AwaitingApproval → Running → WaitingForMerge → Deploying → Verifying →
//! Succeeded`, and how it ends otherwise.

use std::{ops::ControlFlow, time::Duration};

use api::{
    Promotion,
    promotion::{Phase, PromotionStatus},
};

use super::{
    AttemptPlan, CHECK_FAILED, DEPLOY_FAILED, ExternalAction, NOTHING_REPORTS, STRATEGY_CHANGED,
    change::dropped_at_end,
    context::{AttemptContext, AttemptInput, ObservedPullRequest},
    outcome::with_condition,
    rollout::land_batch,
};
use crate::{
    gate::approvals,
    plan::{successor, withdrawal_clause},
    promotion_phase::{STATUS_LOST, is_rollback},
    time::{Timestamp, later, stored},
};

/// How often an open pull request is polled.
pub(super) const FOLLOW: Duration = Duration::from_secs(60);
/// How long a deployment may take unless the pipeline sets `deployTimeout`.
pub(crate) const DEPLOY_TIMEOUT: Duration = Duration::from_secs(3600);

/// The next external action of a promotion, and its status.
pub fn attempt(promotion: &Promotion, input: &AttemptInput<'_>, now: Timestamp) -> AttemptPlan {
    let status = promotion.status.clone().unwrap_or_default();
    let Some(pipeline) = input.live_pipeline() else {
        return stay(status);
    };
    let context = AttemptContext::new(promotion, pipeline, input, now);
    if !context.may_begin() {
        return stay(status);
    }
    let is_over = status.phase.is_some_and(Phase::is_terminal);
    let checks = (!is_over).then(|| context.check_summaries());
    let mut next = Attempt {
        context,
        status,
        now,
    }
    .next();
    if let Some(checks) = checks {
        next.status.checks = checks;
    }
    next.status = with_condition(dropped_at_end(next.status), now);
    next.status.approvals = approvals::observe(promotion, now);
    next.status.observed_generation = promotion.metadata.generation;
    next
}

pub(super) fn stay(status: PromotionStatus) -> AttemptPlan {
    AttemptPlan {
        action: ExternalAction::Nothing,
        status,
        requeue_at: None,
        approved_change: None,
    }
}

pub(super) struct Attempt<'a> {
    pub(super) context: AttemptContext<'a>,
    pub(super) status: PromotionStatus,
    pub(super) now: Timestamp,
}

impl Attempt<'_> {
    fn next(mut self) -> AttemptPlan {
        if self.context.has_lost_its_end() {
            let name = &self.context.promotion.spec.environment;
            let message = format!("its status was lost, and nobody knows what it did to {name}");
            return self.end(Phase::Superseded, STATUS_LOST, message);
        }
        let phase = self.status.phase.unwrap_or(Phase::AwaitingApproval);
        let is_deployed = self.context.is_deployed();
        if phase.is_terminal() {
            let is_late =
                phase == Phase::Failed && self.status.reason.as_deref() == Some(DEPLOY_FAILED);
            return match is_late && is_deployed && self.context.checks().have_passed() {
                true => self.succeed(),
                false => stay(self.status),
            };
        }
        if let Some(rejection) = self.rejection(phase) {
            self.note_landed_batch();
            return self.close(Phase::Abandoned, "Rejected", rejection);
        }
        if self.context.promotion.spec.withdrawn.is_some() {
            return self.end_withdrawn(is_deployed);
        }
        if self.context.promotion.spec.rollout.is_some() {
            return self.roll_out(phase);
        }
        if is_deployed {
            return self.arrive();
        }
        match phase {
            Phase::Verifying => self.verify(),
            Phase::WaitingForMerge => self.follow(),
            Phase::Deploying => self.deploy(),
            _ => self.run(),
        }
    }

    /// A batch of a rollout that was merged before its rejection was seen is in git.
    fn note_landed_batch(&mut self) {
        if matches!(
            self.context.input.pull_request,
            ObservedPullRequest::Merged { .. }
        ) {
            self.note_merge();
            land_batch(&mut self.status, self.now);
        }
    }

    /// Who rejected it, unless its change is in git; a rollout can be rejected until it is everywhere.
    fn rejection(&self, phase: Phase) -> Option<String> {
        let pull_request = &self.context.input.pull_request;
        let is_merged = matches!(pull_request, ObservedPullRequest::Merged { .. });
        let is_in_git = match self.context.promotion.spec.rollout {
            Some(_) => phase == Phase::Verifying,
            None => is_merged || phase == Phase::Deploying || self.status.merged_at.is_some(),
        };
        if is_in_git {
            return None;
        }
        let rejection = self.context.promotion.spec.rejection.as_ref()?;
        let note = rejection.note.as_deref().filter(|note| !note.is_empty());
        let note = note.map(|note| format!(": {note}"));
        let note = note.unwrap_or_default();
        let what = match is_rollback(self.context.promotion) {
            true => "this rollback",
            false => "it",
        };
        Some(format!("{} rejected {what}{note}", rejection.by))
    }

    /// The site runs the revision, by this promotion or by other means.
    pub(super) fn succeed(self) -> AttemptPlan {
        let name = &self.context.promotion.spec.environment;
        let without = self.left_out();
        let message = format!(
            "{name} runs {}{without}",
            self.context.promotion.spec.revision
        );
        self.close(Phase::Succeeded, "Deployed", message)
    }

    /// It was withdrawn: for a successor, which takes over the pull request, or without one.
    fn end_withdrawn(mut self, is_deployed: bool) -> AttemptPlan {
        self.note_merge();
        if is_deployed && self.status.merged_at.is_some() {
            if let Some(message) = self.failed_check() {
                return self.end(Phase::Failed, CHECK_FAILED, message);
            }
            if self.context.checks().have_passed() {
                return self.succeed();
            }
        }
        let withdrawn = self.context.promotion.spec.withdrawn.as_ref();
        let reason = withdrawn.map_or("", |withdrawn| withdrawn.reason.as_str());
        match successor(reason) {
            // The forge must not merge what the successor pushes to the branch.
            Some(_) if self.may_be_merged_by_itself() && self.is_open() => {
                let due = self.too_early();
                AttemptPlan {
                    action: match due {
                        Some(_) => ExternalAction::Nothing,
                        None => ExternalAction::CancelScheduledMerge,
                    },
                    requeue_at: Some(due.unwrap_or(later(self.now, FOLLOW))),
                    ..stay(self.status)
                }
            }
            // Each batch has a branch of its own, which the successor does not take over.
            Some(_) if self.status.rollout.is_some() => {
                self.close(Phase::Superseded, "Superseded", reason.to_owned())
            }
            Some(_) => match self.context.input.pull_request.clone() {
                ObservedPullRequest::Closed { url } => self.abandon(url),
                _ => self.end(Phase::Superseded, "Superseded", reason.to_owned()),
            },
            None => {
                let environment = &self.context.promotion.spec.environment;
                let message = withdrawal_clause(reason, environment);
                self.close(Phase::Withdrawn, "Withdrawn", message)
            }
        }
    }

    /// Before the change is proposed.
    pub(super) fn run(mut self) -> AttemptPlan {
        let approvals = self.context.approvals();
        // Later batches are part of what was approved, unless they turned out to differ from it.
        let is_asked =
            self.status.merged_at.is_none() || self.status.phase == Some(Phase::AwaitingApproval);
        if let Some(hold) = approvals.hold().filter(|_| is_asked) {
            // Why what it changes could not be read is shown until that is tried again.
            if let (None, Some(requeue_at)) = (&self.status.change, self.too_early()) {
                return AttemptPlan {
                    requeue_at: Some(requeue_at),
                    ..stay(self.status)
                };
            }
            self.set(Phase::AwaitingApproval, hold.reason.word(), hold.message());
            return AttemptPlan {
                requeue_at: approvals.state().and_then(|state| state.expires_at),
                ..stay(self.status)
            };
        }
        let mut attempt = match self.follow_pull_request() {
            ControlFlow::Break(plan) => return plan,
            ControlFlow::Continue(attempt) => attempt,
        };
        if let Some(text) = attempt.context.refusal() {
            return attempt.refuse(text);
        }
        if let Some(hold) = attempt.context.hold() {
            attempt.set(Phase::Running, hold.reason.word(), hold.message());
            return AttemptPlan {
                requeue_at: hold.opens_at,
                ..stay(attempt.status)
            };
        }
        match &attempt.status.rollout {
            None if attempt.context.promotion.spec.rollout.is_some() => attempt.begin_rollout(),
            _ => attempt.carry_out(),
        }
    }

    /// The settings of the pipeline differ from it. If only the strategy does, the pipeline's next plan
    /// starts the promotion again with the new one.
    pub(super) fn refuse(mut self, text: String) -> AttemptPlan {
        if self.context.settings().is_none() {
            return self.end(Phase::Failed, STRATEGY_CHANGED, text);
        }
        self.status.next_attempt = None;
        self.set(Phase::Running, STRATEGY_CHANGED, text);
        stay(self.status)
    }

    /// Carries the strategy out, unless the retry is not due yet.
    fn carry_out(mut self) -> AttemptPlan {
        if let Some(requeue_at) = self.too_early() {
            self.status.phase = Some(Phase::Running);
            return AttemptPlan {
                requeue_at: Some(requeue_at),
                ..stay(self.status)
            };
        }
        self.status.started_at = self.status.started_at.or(Some(stored(self.now)));
        let message = "the strategy is being carried out".to_owned();
        self.set(Phase::Running, "Running", message);
        let change = self.status.change.as_ref();
        let change = change.filter(|_| self.context.needs_approval());
        AttemptPlan {
            action: ExternalAction::CarryOut,
            approved_change: change.map(|change| change.digest.clone()),
            ..stay(self.status)
        }
    }

    /// When the next attempt is due, unless that is now.
    pub(super) fn too_early(&self) -> Option<Timestamp> {
        let due = self.status.next_attempt.as_ref()?.0;
        (self.now < due && !self.context.input.edited).then_some(due)
    }

    /// The change is in git.
    pub(super) fn deploy(mut self) -> AttemptPlan {
        if self.status.rollout.is_some() {
            return self.batch_landed();
        }
        if let Some(text) = self.context.failure() {
            return self.end(Phase::Failed, DEPLOY_FAILED, text);
        }
        let merged_at = self.status.merged_at.clone().unwrap_or(stored(self.now));
        self.status.merged_at = Some(merged_at.clone());
        if let Some(text) = self.context.nothing_reports() {
            return self.end(Phase::Succeeded, NOTHING_REPORTS, text);
        }
        let timeout = self
            .context
            .settings()
            .and_then(|settings| settings.deploy_timeout.clone());
        let timeout = timeout.map_or(DEPLOY_TIMEOUT, |timeout| timeout.length());
        let deadline = later(merged_at.0, timeout);
        let spec = &self.context.promotion.spec;
        if self.now >= deadline {
            let text = format!("{} did not run {} in time", spec.environment, spec.revision);
            return self.end(Phase::Failed, DEPLOY_FAILED, text);
        }
        let message = format!("{} does not run {} yet", spec.environment, spec.revision);
        self.set(Phase::Deploying, "Deploying", message);
        AttemptPlan {
            requeue_at: Some(deadline),
            ..stay(self.status)
        }
    }

    /// Ends it after closing its pull request, where one is open or may be.
    fn close(self, phase: Phase, reason: &str, message: String) -> AttemptPlan {
        if !self.is_open() {
            let message = self.with_open_pull_request(message);
            return self.end(phase, reason, message);
        }
        if let Some(requeue_at) = self.too_early() {
            return AttemptPlan {
                requeue_at: Some(requeue_at),
                ..stay(self.status)
            };
        }
        AttemptPlan {
            action: ExternalAction::ClosePullRequest,
            ..self.end(phase, reason, message)
        }
    }

    pub(super) fn end(mut self, phase: Phase, reason: &str, message: String) -> AttemptPlan {
        self.status.finished_at = Some(stored(self.now));
        self.status.next_attempt = None;
        self.set(phase, reason, message);
        stay(self.status)
    }

    pub(super) fn set(&mut self, phase: Phase, reason: &str, message: String) {
        self.status.phase = Some(phase);
        self.status.reason = Some(reason.to_owned());
        self.status.message = Some(message);
    }
}

//! `AwaitingApproval → Running → WaitingForMerge → Deploying → Succeeded`, and the other ends.

use std::{ops::ControlFlow, time::Duration};

use api::{
    Promotion,
    promotion::{Phase, PromotionStatus},
};

use super::{
    AttemptPlan, BRANCH_CHANGED_BY_OTHERS, DEPLOY_FAILED, ExternalAction, NOTHING_REPORTS,
    STRATEGY_CHANGED,
    context::{AttemptContext, AttemptInput, ObservedPullRequest},
    outcome::{WAITS_TO_BE_MERGED, with_condition},
};
use crate::{
    plan::successor,
    time::{Timestamp, later, stored},
};

/// How often an open pull request is looked at.
const FOLLOW: Duration = Duration::from_secs(60);
/// How long an environment may take unless the pipeline says otherwise.
const DEPLOY_TIMEOUT: Duration = Duration::from_secs(3600);

/// What comes next for a promotion.
pub fn attempt(promotion: &Promotion, around: &AttemptInput<'_>, now: Timestamp) -> AttemptPlan {
    let status = promotion.status.clone().unwrap_or_default();
    let Some(pipeline) = around.staying_pipeline() else {
        return stay(status);
    };
    let scene = AttemptContext {
        promotion,
        pipeline,
        around,
    };
    let mut next = Attempt { scene, status, now }.next();
    next.status = with_condition(next.status, now);
    next.status.observed_generation = promotion.metadata.generation;
    next
}

fn stay(status: PromotionStatus) -> AttemptPlan {
    AttemptPlan {
        action: ExternalAction::Nothing,
        status,
        requeue_at: None,
    }
}

struct Attempt<'a> {
    scene: AttemptContext<'a>,
    status: PromotionStatus,
    now: Timestamp,
}

impl Attempt<'_> {
    fn next(self) -> AttemptPlan {
        let phase = self.status.phase.unwrap_or(Phase::AwaitingApproval);
        let has_arrived = self.scene.has_arrived();
        if phase.is_terminal() {
            let is_late =
                phase == Phase::Failed && self.status.reason.as_deref() == Some(DEPLOY_FAILED);
            return match is_late && has_arrived {
                true => self.arrive(),
                false => stay(self.status),
            };
        }
        if self.scene.promotion.spec.withdrawn.is_some() {
            return self.leave(has_arrived);
        }
        if has_arrived {
            return self.arrive();
        }
        match phase {
            Phase::WaitingForMerge => self.follow(),
            Phase::Deploying => self.deploy(),
            _ => self.run(),
        }
    }

    /// The place runs the revision, by this promotion or by other means.
    fn arrive(self) -> AttemptPlan {
        let name = &self.scene.promotion.spec.environment;
        let message = format!("{name} runs {}", self.scene.promotion.spec.revision);
        self.close(Phase::Succeeded, "Deployed", message)
    }

    /// It was taken back: for a successor, which takes over the pull request, or for good.
    fn leave(mut self, has_arrived: bool) -> AttemptPlan {
        self.note_merge();
        if has_arrived && self.status.merged_at.is_some() {
            return self.arrive();
        }
        let withdrawn = self.scene.promotion.spec.withdrawn.as_ref();
        let reason = withdrawn.map_or("", |withdrawn| withdrawn.reason.as_str());
        match successor(reason) {
            Some(_) => {
                let message = reason.to_owned();
                self.end(Phase::Superseded, "Superseded", message)
            }
            None => {
                let message = format!("it was taken back: {reason}");
                self.close(Phase::Withdrawn, "Withdrawn", message)
            }
        }
    }

    /// Before the change is proposed.
    fn run(mut self) -> AttemptPlan {
        let spec = &self.scene.promotion.spec;
        if self.scene.lacks_approval() {
            let message = format!("{} waits for approval", spec.revision);
            self.say(Phase::AwaitingApproval, "AwaitingApproval", message);
            return stay(self.status);
        }
        let mut step = match self.meet_pull_request() {
            ControlFlow::Break(next) => return next,
            ControlFlow::Continue(step) => step,
        };
        if let Some(text) = step.scene.refusal() {
            return step.refuse(text);
        }
        if let Some((reason, text)) = step.scene.pause() {
            step.say(Phase::Running, reason, text);
            return stay(step.status);
        }
        step.carry_out()
    }

    /// It is not what the pipeline asks for. Where that is only another strategy now, the pipeline's
    /// next plan starts it again with that one.
    fn refuse(mut self, text: String) -> AttemptPlan {
        if self.scene.settings().is_none() {
            return self.end(Phase::Failed, STRATEGY_CHANGED, text);
        }
        self.status.next_attempt = None;
        self.say(Phase::Running, STRATEGY_CHANGED, text);
        stay(self.status)
    }

    /// Carries the strategy out, once it is time.
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
        self.say(Phase::Running, "Running", message);
        AttemptPlan {
            action: ExternalAction::CarryOut,
            ..stay(self.status)
        }
    }

    /// When the next attempt is due, unless that is now.
    fn too_early(&self) -> Option<Timestamp> {
        let due = self.status.next_attempt.as_ref()?.0;
        (self.now < due && !self.scene.around.edited).then_some(due)
    }

    /// A pull request that was found decides, also where a crash left it unwritten.
    fn meet_pull_request(mut self) -> ControlFlow<AttemptPlan, Self> {
        let next = match self.scene.around.pull_request.clone() {
            ObservedPullRequest::Merged { url, .. } => {
                self.note_merge();
                self.status.url = Some(url);
                self.deploy()
            }
            ObservedPullRequest::Closed { url } => {
                self.status.url = Some(url);
                let message = "its pull request was closed without being merged".to_owned();
                self.end(Phase::Abandoned, "Closed", message)
            }
            // Somebody else's push is not overwritten, whatever it left of the change.
            ObservedPullRequest::Open {
                url,
                is_current,
                changed_by_others,
            } if is_current || changed_by_others => {
                self.status.url = Some(url);
                self.wait_for_merge(changed_by_others)
            }
            _ => return ControlFlow::Continue(self),
        };
        ControlFlow::Break(next)
    }

    fn wait_for_merge(mut self, changed_by_others: bool) -> AttemptPlan {
        self.status.next_attempt = None;
        let (reason, message) = match (changed_by_others, self.scene.unmergeable()) {
            (true, _) => (
                BRANCH_CHANGED_BY_OTHERS,
                "somebody else pushed to the branch; it is followed and not pushed to any more"
                    .to_owned(),
            ),
            (false, Some((reason, text))) => (reason, format!("it is not merged now: {text}")),
            (false, None) => ("WaitingForMerge", WAITS_TO_BE_MERGED.to_owned()),
        };
        // What was left out when it was opened goes on being said.
        let said = self.status.message.take();
        let said = said.filter(|said| said.starts_with(&message));
        let message = said.unwrap_or(message);
        self.say(Phase::WaitingForMerge, reason, message);
        let action = match changed_by_others || !self.scene.may_merge() {
            true => ExternalAction::Nothing,
            false => ExternalAction::AskForMerge,
        };
        AttemptPlan {
            action,
            requeue_at: Some(later(self.now, FOLLOW)),
            ..stay(self.status)
        }
    }

    /// A pull request is open.
    fn follow(self) -> AttemptPlan {
        let step = match self.meet_pull_request() {
            ControlFlow::Break(next) => return next,
            ControlFlow::Continue(step) => step,
        };
        match step.scene.around.pull_request {
            ObservedPullRequest::NotQueried | ObservedPullRequest::Unanswered => AttemptPlan {
                requeue_at: Some(later(step.now, FOLLOW)),
                ..stay(step.status)
            },
            _ => step.run(),
        }
    }

    /// The change is in git.
    fn deploy(mut self) -> AttemptPlan {
        if let Some(text) = self.scene.failure() {
            return self.end(Phase::Failed, DEPLOY_FAILED, text);
        }
        let merged_at = self.status.merged_at.clone().unwrap_or(stored(self.now));
        self.status.merged_at = Some(merged_at.clone());
        if let Some(text) = self.scene.silence() {
            return self.end(Phase::Succeeded, NOTHING_REPORTS, text);
        }
        let timeout = self
            .scene
            .settings()
            .and_then(|settings| settings.deploy_timeout.clone());
        let timeout = timeout.map_or(DEPLOY_TIMEOUT, |timeout| timeout.length());
        let deadline = later(merged_at.0, timeout);
        let spec = &self.scene.promotion.spec;
        if self.now >= deadline {
            let text = format!("{} did not run {} in time", spec.environment, spec.revision);
            return self.end(Phase::Failed, DEPLOY_FAILED, text);
        }
        let message = format!("{} does not run {} yet", spec.environment, spec.revision);
        self.say(Phase::Deploying, "Deploying", message);
        AttemptPlan {
            requeue_at: Some(deadline),
            ..stay(self.status)
        }
    }

    /// Ends it after closing its pull request, where one is open or may be.
    fn close(self, phase: Phase, reason: &str, message: String) -> AttemptPlan {
        let may_be_open = matches!(
            self.scene.around.pull_request,
            ObservedPullRequest::Open { .. } | ObservedPullRequest::Unanswered
        );
        if !may_be_open {
            let message = self.with_what_is_left(message);
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

    /// A pull request that could not be looked at and may be open is named, so that people close it.
    fn with_what_is_left(&self, message: String) -> String {
        let is_merged = self.status.merged_at.is_some();
        match (&self.scene.around.pull_request, &self.status.url) {
            (ObservedPullRequest::NotQueried, Some(url)) if !is_merged => {
                format!("{message}; its pull request may still be open, close it: {url}")
            }
            _ => message,
        }
    }

    fn end(mut self, phase: Phase, reason: &str, message: String) -> AttemptPlan {
        self.status.finished_at = Some(stored(self.now));
        self.status.next_attempt = None;
        self.say(phase, reason, message);
        stay(self.status)
    }

    fn say(&mut self, phase: Phase, reason: &str, message: String) {
        self.status.phase = Some(phase);
        self.status.reason = Some(reason.to_owned());
        self.status.message = Some(message);
    }

    /// Records that the change is in git.
    fn note_merge(&mut self) {
        let ObservedPullRequest::Merged { commit, .. } = &self.scene.around.pull_request else {
            return;
        };
        let now = stored(self.now);
        self.status.merged_at.get_or_insert(now);
        self.status.next_attempt = None;
        if commit.is_some() {
            self.status.commit.clone_from(commit);
        }
    }
}

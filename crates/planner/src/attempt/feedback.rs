//! What a promotion's pull request shows people on the forge: the commit status of its head and one
//! comment.
//!
//! Both are texts that follow from the stored objects, and are written only when they differ from what the
//! status says was written last. The commit status is `Success` when nothing but a merge is missing. A
//! commit that somebody else pushed to the branch gets none.

mod comment;

use std::time::Duration;

use api::{
    Promotion,
    names::sha256,
    pipeline::FeedbackKind,
    promotion::{CommitState, Phase, PromotionStatus, ShownCommitStatus, ShownFeedback},
};

use super::{
    BRANCH_CHANGED_BY_OTHERS,
    context::{AttemptContext, AttemptInput},
};
use crate::{
    conditions::cut,
    gate::GateVerdict,
    time::{Timestamp, later},
};

/// How long after its end a promotion's pull request is still brought up to date.
const AFTER_THE_END: Duration = Duration::from_secs(3600);
/// The longest description of a commit status, in bytes. Forges cut it further.
const LONGEST_DESCRIPTION: usize = 1000;

/// What to write on a pull request now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FeedbackUpdate {
    /// What was written before.
    pub shown: ShownFeedback,
    /// The context of the commit status.
    pub context: String,
    /// The commit status, if it differs.
    pub commit_status: Option<ShownCommitStatus>,
    /// The comment, if it differs.
    pub comment: Option<WantedComment>,
}

/// The comment that a pull request should have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedComment {
    /// Its text, in Markdown. One line of it is `marker`.
    pub text: String,
    /// The line that it is found by, the same for every promotion into the site: a newer one takes over
    /// the pull request and its comment.
    pub marker: String,
    /// The SHA-256 of the text.
    pub digest: String,
}

/// What to write on the promotion's pull request now; nothing while what was written last still holds.
/// `status` is about to be stored. `dashboard` is where people reach the dashboard.
pub fn feedback_update(
    promotion: &Promotion,
    status: &PromotionStatus,
    input: &AttemptInput<'_>,
    dashboard: Option<&str>,
    now: Timestamp,
) -> Option<FeedbackUpdate> {
    let pipeline = input.live_pipeline()?;
    let strategy = promotion.spec.strategy.pull_request.as_ref()?;
    let kinds = strategy.shown_feedback();
    if kinds.is_empty() {
        return None;
    }
    let before = promotion.status.as_ref().and_then(|it| it.phase);
    let promotion = &Promotion {
        status: Some(status.clone()),
        ..promotion.clone()
    };
    let shown = status.feedback.clone().unwrap_or_default();
    let feedback = PullRequestFeedback {
        context: AttemptContext::new(promotion, pipeline, input, now),
        status,
        shown: &shown,
        now,
    };
    if !feedback.is_due(before) {
        return None;
    }
    let commit_status = feedback.commit_status();
    let is_new = |wanted: &ShownCommitStatus| shown.commit_status.as_ref() != Some(wanted);
    let commit_status = commit_status
        .filter(|_| kinds.contains(&FeedbackKind::CommitStatus))
        .filter(is_new);
    let comment = kinds.contains(&FeedbackKind::Comment);
    let comment = comment.then(|| feedback.comment(dashboard));
    let is_new = |wanted: &WantedComment| shown.comment_digest.as_ref() != Some(&wanted.digest);
    let comment = comment.filter(is_new);
    let is_needed = commit_status.is_some() || comment.is_some();
    is_needed.then(|| FeedbackUpdate {
        context: format!("sluice/{}", promotion.spec.environment),
        shown,
        commit_status,
        comment,
    })
}

/// Whether a forge refused to show something that it had not refused before: neither this promotion, nor the
/// latest other one into its environment that was shown. People are told once, not for every promotion.
pub fn is_first_refusal(
    promotion: &Promotion,
    before: &ShownFeedback,
    now: &ShownFeedback,
    promotions: &[Promotion],
) -> bool {
    let name = &promotion.metadata.name;
    let environment = &promotion.spec.environment;
    let others = promotions
        .iter()
        .filter(|it| it.metadata.name != *name && it.spec.environment == *environment)
        .filter(|it| shown_of(it).is_some());
    let latest = others.max_by_key(|it| &it.metadata.creation_timestamp);
    let latest = latest.and_then(shown_of);
    let is_known = |kind: &FeedbackKind| {
        before.refused.contains(kind) || latest.is_some_and(|it| it.refused.contains(kind))
    };
    now.refused.iter().any(|kind| !is_known(kind))
}

fn shown_of(promotion: &Promotion) -> Option<&ShownFeedback> {
    promotion.status.as_ref()?.feedback.as_ref()
}

struct PullRequestFeedback<'a> {
    context: AttemptContext<'a>,
    status: &'a PromotionStatus,
    shown: &'a ShownFeedback,
    now: Timestamp,
}

impl PullRequestFeedback<'_> {
    fn phase(&self) -> Phase {
        self.status.phase.unwrap_or(Phase::AwaitingApproval)
    }

    /// Whether the pull request may differ from what it should show: while it is open, and at the end.
    /// In between, while the change is being deployed and verified, it stays as it is.
    fn is_due(&self, before: Option<Phase>) -> bool {
        let has_begun = *self.shown != ShownFeedback::default();
        match self.phase() {
            Phase::WaitingForMerge => true,
            Phase::AwaitingApproval | Phase::Running => has_begun,
            Phase::Deploying | Phase::Verifying => false,
            // Its successor takes over the pull request, and writes from then on.
            Phase::Superseded => has_begun && before != Some(Phase::Superseded),
            _ => {
                let ended = self.status.finished_at.as_ref();
                let is_recent = |it: Timestamp| self.now < later(it, AFTER_THE_END);
                has_begun && ended.is_some_and(|it| is_recent(it.0))
            }
        }
    }

    /// The commit status that our commit should have; none where there is nothing to say about it.
    fn commit_status(&self) -> Option<ShownCommitStatus> {
        let (state, description) = self.verdict()?;
        let last = self.shown.commit_status.as_ref();
        let commit = match self.phase().is_terminal() {
            // The commit of the status may be the merge commit by now.
            true => last.map(|it| it.commit.clone()),
            false => self.status.commit.clone(),
        };
        Some(ShownCommitStatus {
            commit: commit?,
            state,
            description: cut(&description, LONGEST_DESCRIPTION),
        })
    }

    /// What the commit status says.
    fn verdict(&self) -> Option<(CommitState, String)> {
        match self.phase() {
            Phase::WaitingForMerge => Some(self.open_verdict()),
            Phase::AwaitingApproval | Phase::Running | Phase::Superseded => {
                Some((CommitState::Pending, self.sentence()))
            }
            Phase::Abandoned | Phase::Withdrawn => Some((CommitState::Failure, self.sentence())),
            _ => None,
        }
    }

    /// How the promotion stands.
    fn sentence(&self) -> String {
        let reason = self.status.reason.as_deref().unwrap_or_default();
        match self.phase() {
            Phase::WaitingForMerge => self.open_verdict().1,
            // The message of an error may count down.
            _ if self.status.next_attempt.is_some() => {
                format!("Sluice cannot go on and tries again ({reason})")
            }
            _ => self.status.message.clone().unwrap_or_default(),
        }
    }

    /// What is to be said about an open pull request: whatever gate is closed, also where people merge.
    fn open_verdict(&self) -> (CommitState, String) {
        if self.is_changed_by_others() {
            let text = "somebody else pushed to the branch after this commit";
            return (CommitState::Failure, text.to_owned());
        }
        let answers = self.context.gate_answers();
        let closed = answers.into_iter().map(|answer| answer.verdict);
        let mut closed: Vec<_> = closed.filter(GateVerdict::is_closed).collect();
        closed.sort_by_key(|verdict| !matches!(verdict, GateVerdict::Fail(_)));
        match closed.into_iter().next() {
            Some(GateVerdict::Fail(hold)) => (CommitState::Failure, hold.message()),
            Some(GateVerdict::Wait(hold)) => (CommitState::Pending, hold.message()),
            _ if self.context.is_automatic() => {
                let text = "ready: Sluice merges it once the forge's conditions are met";
                (CommitState::Success, text.to_owned())
            }
            _ => (CommitState::Success, "ready to be merged".to_owned()),
        }
    }

    fn is_changed_by_others(&self) -> bool {
        self.status.reason.as_deref() == Some(BRANCH_CHANGED_BY_OTHERS)
    }

    fn comment(&self, dashboard: Option<&str>) -> WantedComment {
        let marker = comment::marker(&self.context);
        let text = format!("{}\n{marker}\n", comment::text(self, dashboard));
        WantedComment {
            digest: sha256(&[&text]),
            marker,
            text,
        }
    }
}

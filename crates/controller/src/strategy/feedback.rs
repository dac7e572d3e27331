//! Writes on a promotion's pull request how it stands: the commit status of its head, and one comment.
//!
//! Writing twice changes nothing: a commit status is replaced by its context, and a comment whose id is not
//! stored is looked for before one is added. What the forge refuses, such as a missing scope of the token,
//! is a warning and keeps nothing from going on.

use api::{
    pipeline::{FeedbackKind, PullRequestStrategy},
    promotion::{CommitState as State, ShownCommitStatus, ShownFeedback},
};
use git::{
    forge::{CommentId, CommitState, CommitStatus, PullRequestHead},
    names::{BranchName, ObjectId},
};
use planner::{Failure, FeedbackUpdate, Remedy, WantedComment};

use super::{
    PromotionTask, Strategies, StrategyKind, failure::transient, forge_repository::OpenPullRequest,
    proposal::OpenProposal, pull_request::PullRequests, secrets::SecretContents,
};

/// What a pull request shows after an update.
pub(crate) struct FeedbackResult {
    /// What is to be stored.
    pub(crate) shown: ShownFeedback,
    /// What the forge did not accept now; it is tried again.
    pub(crate) postponed: Option<Failure>,
}

impl FeedbackResult {
    pub(super) fn unchanged(update: FeedbackUpdate) -> Self {
        Self {
            shown: update.shown,
            postponed: None,
        }
    }

    pub(super) fn postponed(update: FeedbackUpdate, failure: Failure) -> Self {
        Self {
            shown: update.shown,
            postponed: Some(failure),
        }
    }

    /// Records the answer to one write: that it was done, or why never. True if it need not be repeated.
    fn record(&mut self, kind: FeedbackKind, answer: Result<(), Failure>) -> bool {
        let shown = &mut self.shown;
        match answer {
            Ok(()) => {
                shown.refused.retain(|refused| *refused != kind);
                if shown.refused.is_empty() {
                    shown.warning = None;
                }
                true
            }
            Err(failure) if failure.remedy == Remedy::WaitForEdit => {
                shown.warning = Some(failure.message);
                if !shown.refused.contains(&kind) {
                    shown.refused.push(kind);
                }
                true
            }
            Err(failure) => {
                self.postponed = Some(failure);
                false
            }
        }
    }
}

impl Strategies {
    /// Writes on the promotion's pull request how it stands.
    pub(crate) async fn show_feedback(
        &self,
        task: PromotionTask<'_>,
        update: FeedbackUpdate,
    ) -> FeedbackResult {
        let Ok(StrategyKind::PullRequest(to)) = task.strategy() else {
            return FeedbackResult::unchanged(update);
        };
        match self.secrets.read_for(task, &to.secret_ref).await {
            Ok(secret) => {
                let pulls = &self.pull_requests;
                pulls.show_feedback(task, to, &secret, update).await
            }
            Err(failure) => FeedbackResult::postponed(update, failure),
        }
    }

    /// Where people reach the dashboard.
    pub(crate) fn dashboard(&self) -> Option<&str> {
        self.pull_requests.dashboard.as_deref()
    }
}

impl PullRequests {
    /// Writes what differs.
    pub(super) async fn show_feedback(
        &self,
        task: PromotionTask<'_>,
        to: &PullRequestStrategy,
        secret: &SecretContents,
        update: FeedbackUpdate,
    ) -> FeedbackResult {
        let open = match self.open(task, to, secret) {
            Ok(open) => open,
            Err(failure) => return FeedbackResult::postponed(update, failure),
        };
        let number = match self.pull_request_number(&open, &update.shown).await {
            Ok(number) => number,
            Err(failure) => return FeedbackResult::postponed(update, failure),
        };
        let mut result = FeedbackResult {
            shown: ShownFeedback {
                pull_request: i64::try_from(number).ok(),
                ..update.shown
            },
            postponed: None,
        };
        if let Some(wanted) = update.commit_status {
            let status = self.commit_status(task, update.context, &wanted);
            let head = head(task, number, &wanted);
            let answer = self.set_status(&open, head, &status).await;
            if result.record(FeedbackKind::CommitStatus, answer) {
                result.shown.commit_status = Some(wanted);
            }
        }
        if let Some(wanted) = update.comment {
            self.show_comment(&open, number, wanted, &mut result).await;
        }
        result
    }

    async fn set_status(
        &self,
        open: &OpenProposal,
        head: Option<PullRequestHead>,
        status: &CommitStatus,
    ) -> Result<(), Failure> {
        let Some(head) = head else {
            return Ok(());
        };
        let set = open.forge.forge.set_commit_status(&head, status);
        open.forge.call_as_leader(&self.guard, set).await
    }

    /// The number of the open pull request, from the list of open ones where it is not stored.
    async fn pull_request_number(
        &self,
        open: &OpenProposal,
        shown: &ShownFeedback,
    ) -> Result<u64, Failure> {
        let stored = shown.pull_request.and_then(|it| u64::try_from(it).ok());
        if let Some(number) = stored {
            return Ok(number);
        }
        match self.proposals.find_open(open).await?.pull_request {
            OpenPullRequest::Listed(pull) => Ok(pull.number),
            _ => Err(transient(
                "PullRequestNotListed",
                "the forge does not list the pull request yet",
            )),
        }
    }

    fn commit_status(
        &self,
        task: PromotionTask<'_>,
        context: String,
        wanted: &ShownCommitStatus,
    ) -> CommitStatus {
        let metadata = &task.pipeline.metadata;
        let namespace = metadata.namespace.as_deref().unwrap_or_default();
        let name = metadata.name.as_deref().unwrap_or_default();
        let home = self.dashboard.as_deref().map(|it| it.trim_end_matches('/'));
        CommitStatus {
            context,
            state: match wanted.state {
                State::Pending => CommitState::Pending,
                State::Success => CommitState::Success,
                State::Failure => CommitState::Failure,
            },
            description: wanted.description.clone(),
            url: home.map(|home| format!("{home}/pipelines/{namespace}/{name}")),
        }
    }

    /// Edits the comment, or adds it if there is none.
    async fn show_comment(
        &self,
        open: &OpenProposal,
        number: u64,
        wanted: WantedComment,
        result: &mut FeedbackResult,
    ) {
        let known = result.shown.comment_id.as_ref().map(CommentId::new);
        let written = self.write_comment(open, number, known, &wanted).await;
        let answer = written.map(|id| result.shown.comment_id = Some(id.as_str().to_owned()));
        if result.record(FeedbackKind::Comment, answer) {
            result.shown.comment_digest = Some(wanted.digest);
        }
    }

    async fn write_comment(
        &self,
        open: &OpenProposal,
        number: u64,
        known: Option<CommentId>,
        wanted: &WantedComment,
    ) -> Result<CommentId, Failure> {
        let forge = &open.forge;
        let existing = match known {
            Some(id) => Some(id),
            None => {
                let find = forge.forge.find_comment(number, &wanted.marker);
                forge.call(find).await?
            }
        };
        let Some(id) = existing else {
            let add = forge.forge.comment(number, &wanted.text);
            return forge.call_as_leader(&self.guard, add).await;
        };
        let edit = forge.forge.edit_comment(number, &id, &wanted.text);
        forge.call_as_leader(&self.guard, edit).await?;
        Ok(id)
    }
}

/// The head that a commit status is about; none if the stored names are not valid ones.
fn head(
    task: PromotionTask<'_>,
    number: u64,
    wanted: &ShownCommitStatus,
) -> Option<PullRequestHead> {
    let status = task.promotion.status.as_ref()?;
    Some(PullRequestHead {
        number,
        url: status.url.clone()?,
        branch: BranchName::new(status.branch.clone()?).ok()?,
        commit: ObjectId::new(wanted.commit.clone()).ok()?,
    })
}

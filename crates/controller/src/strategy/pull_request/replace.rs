//! Replacing what others pushed to a promotion's branch, once it was merged.

use git::{
    forge::{PullRequest, State},
    names::ObjectId,
    propose::{self, Proposal, branch_beside},
};
use planner::Failure;

use super::{Opened, PullRequests};

impl PullRequests {
    /// Brings the change to its branch. What others pushed there is replaced once it is merged.
    pub(super) async fn propose(&self, opened: &Opened) -> Result<propose::Outcome, Failure> {
        let (repository, proposal) = (&opened.repository, &opened.words.proposal);
        let proposed = self.repositories.propose(repository, proposal).await;
        let is_foreign = |failure: &Failure| failure.reason == planner::BRANCH_CHANGED_BY_OTHERS;
        if !proposed.as_ref().is_err_and(is_foreign) {
            return proposed;
        }
        let replaceable = opened.last_merged().await?;
        if replaceable.is_none() {
            return proposed;
        }
        let over = Proposal {
            replaceable,
            ..proposal.clone()
        };
        self.repositories.propose(repository, &over).await
    }
}

impl Opened {
    /// The last commit of our branch, or of the one beside it, that was merged into our base.
    async fn last_merged(&self) -> Result<Option<ObjectId>, Failure> {
        let proposal = &self.words.proposal;
        let beside = branch_beside(&proposal.branch, &proposal.message.owner);
        let is_merged =
            |pull: &PullRequest| pull.state == State::Merged && pull.base == proposal.base.as_str();
        for branch in [&proposal.branch, &beside] {
            let found = self.channel.want(self.channel.forge.find(branch)).await?;
            // Newest first; one that is open holds the branch.
            let last = found.into_iter().next().filter(is_merged);
            if let Some(last) = last {
                return Ok(last.head_commit);
            }
        }
        Ok(None)
    }
}

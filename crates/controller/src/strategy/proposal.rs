//! A change on a branch of its own, and the pull request that proposes it: what promotions and
//! Changes have in common.
//!
//! The pull request is found again by its branch and by its owner's uid in the text, whatever crashed
//! in between, so there is never a second one. Commits that others pushed to the branch are not
//! overwritten before they are merged.

use std::{sync::Arc, time::Duration};

use git::{
    forge::{ForgeProduct, NewPullRequest, PullRequest, PullRequestState, PullRequestUpdate},
    names::{BranchName, ObjectId},
    propose::{self, EditAcceptance, Proposal, ProposedBranch, branch_for_owner},
};
use planner::{Failure, ObservedPullRequest, PullRequestLookup};

use super::{
    PromotionTask, PullRequestObservation,
    batch_edits::EditLimits,
    failure::transient,
    forge_repository::{ForgeRepositories, ForgeRepository, OpenLookup, OpenPullRequest},
    promotion_proposal::RepositoryStrategy,
    refreshed_text::refreshed,
    repositories::{GitRepositories, RepositoryAccess},
    secrets::SecretContents,
    side_effect_guard::SideEffectGuard,
};
use crate::Settings;

/// Pushes branches and opens, follows and closes their pull requests.
#[derive(Clone)]
pub(super) struct Proposals {
    repositories: Arc<GitRepositories>,
    forges: Arc<ForgeRepositories>,
    guard: SideEffectGuard,
    /// How old a list of open pull requests may be.
    pub(super) follow_every: Duration,
}

/// What to propose, and the text of the pull request.
pub(super) struct PullRequestContent {
    pub(super) proposal: Proposal,
    pub(super) title: String,
    pub(super) body: String,
    pub(super) draft: bool,
}

/// The promotion or Change that a pull request belongs to.
pub(super) struct PullRequestOwner {
    /// What stands before the uid in the text of the pull request.
    pub(super) trailer: &'static str,
    pub(super) uid: String,
    /// The URL of the pull request, if the owner's status has it.
    pub(super) url: Option<String>,
    /// The branch that was pushed, if the owner's status has it.
    pub(super) branch: Option<String>,
}

/// A proposal whose repository and forge can be used.
pub(super) struct OpenProposal {
    repository: RepositoryAccess,
    pub(super) forge: Arc<ForgeRepository>,
    pub(super) content: PullRequestContent,
    owner: PullRequestOwner,
}

/// The uid of the owner in the text of a pull request.
pub(super) fn owner_in<'a>(body: &'a str, trailer: &str) -> Option<&'a str> {
    let mut lines = body.lines().rev();
    lines.find_map(|line| line.trim().strip_prefix(trailer))
}

impl PullRequestOwner {
    /// Whether a pull request belongs to this owner: by the uid in its text, or, where somebody
    /// removed that, by its URL.
    fn owns(&self, pull: &PullRequest) -> bool {
        match owner_in(&pull.body, self.trailer) {
            Some(uid) => uid == self.uid,
            None => self.url.as_ref() == Some(&pull.url),
        }
    }
}

impl Proposals {
    pub(super) fn new(
        repositories: Arc<GitRepositories>,
        forges: Arc<ForgeRepositories>,
        guard: SideEffectGuard,
        settings: &Settings,
    ) -> Self {
        Self {
            repositories,
            forges,
            guard,
            follow_every: settings.follow_every,
        }
    }

    /// A repository on its forge. Touches no network.
    pub(super) fn forge(
        &self,
        kind: ForgeProduct,
        repository: &RepositoryAccess,
    ) -> Result<Arc<ForgeRepository>, Failure> {
        let (url, credentials) = (&repository.url, &repository.credentials);
        self.forges.open(kind, url, credentials)
    }

    /// Checks the URL and the credentials. Touches no network.
    pub(super) fn open(
        &self,
        (kind, url): (ForgeProduct, &str),
        secret: &SecretContents,
        content: PullRequestContent,
        owner: PullRequestOwner,
    ) -> Result<OpenProposal, Failure> {
        let repository = self.repositories.open(url, secret)?;
        let (url, credentials) = (&repository.url, &repository.credentials);
        Ok(OpenProposal {
            forge: self.forges.open(kind, url, credentials)?,
            repository,
            content,
            owner,
        })
    }

    /// What the forge shows of the owner's pull request.
    pub(super) async fn observe(
        &self,
        open: &OpenProposal,
        lookup: PullRequestLookup,
        observed: impl Fn(PullRequest) -> ObservedPullRequest,
    ) -> Result<PullRequestObservation, Failure> {
        if lookup == PullRequestLookup::Cached {
            let listed = self.find_open(open).await?;
            let pull_request = match listed.pull_request {
                OpenPullRequest::Listed(pull) => Some(observed(*pull)),
                OpenPullRequest::ListingUnderWay => Some(ObservedPullRequest::Unanswered),
                OpenPullRequest::NotListed => None,
            };
            if let Some(pull_request) = pull_request {
                return Ok(PullRequestObservation {
                    pull_request,
                    recheck_after: listed.recheck_after,
                });
            }
        }
        let own = open.find_own().await?;
        Ok(PullRequestObservation {
            pull_request: own.map_or(ObservedPullRequest::Missing, observed),
            recheck_after: self.follow_every,
        })
    }

    /// What a push of a promotion may edit.
    pub(super) async fn edit_limits<'a>(
        &self,
        task: PromotionTask<'a>,
        strategy: &RepositoryStrategy<'_>,
        secret: &SecretContents,
    ) -> Result<EditLimits<'a>, Failure> {
        let repository = self.repositories.open(strategy.url, secret)?;
        EditLimits::of(task, strategy, &self.repositories, &repository).await
    }

    /// Looks for the owner's pull request among the open ones that were last listed.
    pub(super) async fn find_open(&self, open: &OpenProposal) -> Result<OpenLookup, Failure> {
        let is_own = |pull: &PullRequest| open.owner.owns(pull);
        open.forge.find_open(self.follow_every, is_own).await
    }

    /// Pushes the change to its branch, if its edits are accepted. Commits of others on that branch are
    /// replaced if they were merged.
    pub(super) async fn push(
        &self,
        open: &OpenProposal,
        acceptance: EditAcceptance<'_>,
    ) -> Result<propose::ProposalResult, Failure> {
        let (repository, proposal) = (&open.repository, &open.content.proposal);
        let repositories = &self.repositories;
        let pushed = repositories.propose(repository, proposal, acceptance).await;
        let is_foreign = |failure: &Failure| failure.reason == planner::BRANCH_CHANGED_BY_OTHERS;
        if !pushed.as_ref().is_err_and(is_foreign) {
            return pushed;
        }
        let replaceable = open.last_merged().await?;
        if replaceable.is_none() {
            return pushed;
        }
        let replacing = Proposal {
            replaceable,
            ..proposal.clone()
        };
        repositories
            .propose(repository, &replacing, acceptance)
            .await
    }

    /// The pull request for a branch that was pushed: the one there is, brought up to date, or a new
    /// one.
    pub(super) async fn ensure_pull_request(
        &self,
        open: &OpenProposal,
        pushed: &ProposedBranch,
    ) -> Result<PullRequest, Failure> {
        let all = open.find_on(&pushed.branch).await?;
        let has_ended =
            |pull: &PullRequest| open.owner.owns(pull) && pull.state != PullRequestState::Open;
        if all.iter().any(has_ended) {
            let text = "the pull request was merged or closed in the meantime";
            return Err(transient("PullRequestChanged", text));
        }
        let mut pull = match open.open_among(all) {
            Some(pull) => self.bring_up_to_date(open, pull).await?,
            None => {
                let new = open.content.new_pull_request(&pushed.branch);
                let create = open.forge.forge.create(&new);
                open.forge.call_as_leader(&self.guard, create).await?
            }
        };
        pull.head_commit = Some(pushed.commit.clone());
        open.forge.remember(&pull);
        Ok(pull)
    }

    /// Sets title and text. If the pull request is the owner's already, people may have edited them: then
    /// only what it changes and who approved it is brought up to date.
    async fn bring_up_to_date(
        &self,
        open: &OpenProposal,
        pull: PullRequest,
    ) -> Result<PullRequest, Failure> {
        let (owner, content) = (&open.owner, &open.content);
        let differs =
            |is: &str, should: &str| (is.trim() != should.trim()).then(|| should.to_owned());
        let is_own = owner_in(&pull.body, owner.trailer) == Some(&owner.uid);
        let changes = match is_own {
            true => PullRequestUpdate {
                body: refreshed(&pull.body, &content.body, owner.trailer),
                ..PullRequestUpdate::default()
            },
            false => PullRequestUpdate {
                title: differs(&pull.title, &content.title),
                body: differs(&pull.body, &content.body),
                open: None,
            },
        };
        if changes == PullRequestUpdate::default() {
            return Ok(pull);
        }
        let update = open.forge.forge.update(pull.number, &changes);
        open.forge.call_as_leader(&self.guard, update).await
    }

    /// Closes a pull request.
    pub(super) async fn close(
        &self,
        open: &OpenProposal,
        pull: &PullRequest,
    ) -> Result<(), Failure> {
        let close = PullRequestUpdate {
            open: Some(false),
            ..PullRequestUpdate::default()
        };
        let close = open.forge.forge.update(pull.number, &close);
        open.forge.call_as_leader(&self.guard, close).await?;
        tracing::info!(url = pull.url, "pull request closed");
        Ok(())
    }
}

impl PullRequestContent {
    fn new_pull_request(&self, head: &BranchName) -> NewPullRequest {
        NewPullRequest {
            head: head.clone(),
            base: self.proposal.base.clone(),
            title: self.title.clone(),
            body: self.body.clone(),
            draft: self.draft,
        }
    }
}

impl OpenProposal {
    /// Every pull request from a branch, newest first.
    pub(super) async fn find_on(&self, branch: &BranchName) -> Result<Vec<PullRequest>, Failure> {
        self.forge.call(self.forge.forge.find(branch)).await
    }

    /// The owner's pull request, the newest if there are several.
    pub(super) async fn find_own(&self) -> Result<Option<PullRequest>, Failure> {
        let pushed = self.owner.branch.as_deref();
        let pushed = pushed.and_then(|branch| BranchName::new(branch).ok());
        let branch = pushed.as_ref().unwrap_or(&self.content.proposal.branch);
        let found = self.find_on(branch).await?;
        let is_taken = !found.is_empty();
        let own = found.into_iter().find(|pull| self.owner.owns(pull));
        if own.is_some() || pushed.is_some() || !is_taken {
            return Ok(own);
        }
        let found = self.find_on(&self.alternative_branch()).await?;
        Ok(found.into_iter().find(|pull| self.owner.owns(pull)))
    }

    /// The owner's pull request if it is open.
    pub(super) async fn find_own_open(&self) -> Result<Option<PullRequest>, Failure> {
        let own = self.find_own().await?;
        Ok(own.filter(|pull| pull.state == PullRequestState::Open))
    }

    /// The open one into our base.
    pub(super) fn open_among(&self, all: Vec<PullRequest>) -> Option<PullRequest> {
        let base = self.content.proposal.base.as_str();
        let mut all = all.into_iter();
        all.find(|pull| pull.state == PullRequestState::Open && pull.base == base)
    }

    /// The branch that is used where the usual one belongs to somebody else.
    fn alternative_branch(&self) -> BranchName {
        let proposal = &self.content.proposal;
        branch_for_owner(&proposal.branch, &proposal.message.owner)
    }

    /// The last commit of our branch, or of the alternative one, that was merged into our base.
    async fn last_merged(&self) -> Result<Option<ObjectId>, Failure> {
        let proposal = &self.content.proposal;
        let is_merged = |pull: &PullRequest| {
            pull.state == PullRequestState::Merged && pull.base == proposal.base.as_str()
        };
        for branch in [&proposal.branch, &self.alternative_branch()] {
            // Newest first; an open one needs the branch.
            let newest = self.find_on(branch).await?.into_iter().next();
            if let Some(merged) = newest.filter(is_merged) {
                return Ok(merged.head_commit);
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::owner_in;

    #[test]
    fn the_last_trailer_counts() {
        let trailer = "Sluice-Promotion: ";
        let body = "Sluice-Promotion: a\n\nSluice-Promotion: b\n";
        assert_eq!(owner_in(body, trailer), Some("b"));
        assert_eq!(owner_in("no trailer", trailer), None);
    }
}

//! The strategy pull-request: proposes a promotion as a pull request, follows it, and has it merged
//! where the strategy asks for that.

mod merge_answers;
mod replaced_commits;

use std::sync::Arc;

use api::pipeline::{ForgeKind, MergeMethod as Method, PullRequestStrategy};
use git::{
    forge::{
        ForgeProduct, MergeMethod, MergeOptions, MergeResult, PullRequest, PullRequestMetadata,
        PullRequestState,
    },
    names::ObjectId,
    propose::{ProposalResult, ProposedEdit},
};
use planner::{Failure, ObservedPullRequest, Outcome, PullRequestLookup, Remedy};

use super::{
    MergeRoute, PromotionTask, PullRequestObservation, StrategyResult,
    forge_repository::{ForgeRepository, OpenPullRequest},
    freeze_guard::FreezeGuard,
    promotion_change::{self, field_edits, of_edits},
    promotion_description::{PromotionDescription, TRAILER},
    promotion_proposal::{PromotionProposal, RepositoryStrategy},
    proposal::{OpenProposal, Proposals, PullRequestContent, PullRequestOwner, owner_in},
    repositories::RepositoryAccess,
    secrets::SecretContents,
    side_effect_guard::SideEffectGuard,
};
use crate::Settings;
use merge_answers::MergeAnswers;
use replaced_commits::ReplacedCommits;

/// The comment on a pull request whose promotion was deleted.
const ORPHANED: &str = "The pipeline that asked for this is gone, and this pull request is no longer \
                        followed. It stays open; merge or close it as you see fit.";

/// Carries out promotions by pull request.
pub(super) struct PullRequests {
    pub(super) proposals: Proposals,
    pub(super) guard: SideEffectGuard,
    freezes: FreezeGuard,
    merge_answers: MergeAnswers,
    replaced_commits: ReplacedCommits,
    /// Where people reach the dashboard.
    pub(super) dashboard: Option<String>,
}

impl PullRequests {
    pub(super) fn new(
        proposals: Proposals,
        guard: SideEffectGuard,
        freezes: FreezeGuard,
        settings: &Settings,
    ) -> Self {
        Self {
            proposals,
            guard,
            freezes,
            merge_answers: MergeAnswers::default(),
            replaced_commits: ReplacedCommits::default(),
            dashboard: settings.dashboard_url.clone(),
        }
    }

    /// The repository on its forge. Touches no network.
    pub(super) fn forge(
        &self,
        to: &PullRequestStrategy,
        repository: &RepositoryAccess,
    ) -> Result<Arc<ForgeRepository>, Failure> {
        self.proposals.forge(kind(to.forge), repository)
    }

    pub(super) fn open(
        &self,
        task: PromotionTask<'_>,
        to: &PullRequestStrategy,
        secret: &SecretContents,
    ) -> Result<OpenProposal, Failure> {
        let strategy = RepositoryStrategy::from(to).linked(self.dashboard.as_deref());
        let PromotionProposal {
            proposal,
            title,
            body,
        } = PromotionProposal::of(task, &strategy)?;
        let content = PullRequestContent {
            proposal,
            title,
            body,
            draft: to.draft,
        };
        let status = task.promotion.status.as_ref();
        let owner = PullRequestOwner {
            trailer: TRAILER,
            uid: task.uid(),
            url: status.and_then(|status| status.url.clone()),
            branch: status.and_then(|status| status.branch.clone()),
        };
        let repository = (kind(to.forge), to.url.as_str());
        self.proposals.open(repository, secret, content, owner)
    }

    /// What the forge shows of the promotion's pull request.
    pub(super) async fn observe(
        &self,
        task: PromotionTask<'_>,
        to: &PullRequestStrategy,
        secret: &SecretContents,
        lookup: PullRequestLookup,
    ) -> Result<PullRequestObservation, Failure> {
        let open = self.open(task, to, secret)?;
        let observed = |pull| {
            let pull = self.replaced_commits.hide(&task.uid(), pull);
            observed_pull_request(task, pull)
        };
        self.proposals.observe(&open, lookup, observed).await
    }

    /// Pushes the change to its branch and proposes it.
    pub(super) async fn carry_out(
        &self,
        task: PromotionTask<'_>,
        to: &PullRequestStrategy,
        secret: &SecretContents,
    ) -> Result<StrategyResult, Failure> {
        let strategy = RepositoryStrategy::from(to);
        let limits = self.proposals.edit_limits(task, &strategy, secret).await?;
        let mut open = self.open(limits.task, to, secret)?;
        let acceptance = |edits: &[ProposedEdit]| limits.accept(edits);
        let pushed = match self.proposals.push(&open, &acceptance).await? {
            ProposalResult::NothingToChange { .. } => {
                self.close_stale(task, &open).await?;
                return Ok(Outcome::AlreadyThere.into());
            }
            ProposalResult::NotAccepted { edits } => return limits.refusal(&edits),
            ProposalResult::Proposed(pushed) => pushed,
        };
        open.content.body += &promotion_change::as_text(task, &pushed.edits);
        let replaced = pushed.replaced.as_ref();
        self.replaced_commits.record(&task.uid(), replaced);
        self.freezes.permit(task).await?;
        let pull = self.proposals.ensure_pull_request(&open, &pushed).await?;
        let notes = self.set_metadata(to, &open, &pull).await?;
        // The forge must be asked to merge the commit that is there now.
        self.merge_answers.forget(&task.uid());
        tracing::info!(url = pull.url, branch = %pushed.branch, "created PR");
        let outcome = Outcome::Opened {
            url: pull.url,
            branch: pushed.branch.as_str().to_owned(),
            commit: Some(pushed.commit.as_str().to_owned()),
            notes,
        };
        Ok(StrategyResult {
            outcome,
            change: Some(of_edits(task, &field_edits(&pushed.edits))),
        })
    }

    /// Sets labels and reviewers. What the forge will never grant does not keep the pull request from
    /// being followed; the answer says what was left out.
    async fn set_metadata(
        &self,
        to: &PullRequestStrategy,
        open: &OpenProposal,
        pull: &PullRequest,
    ) -> Result<Vec<String>, Failure> {
        let metadata = PullRequestMetadata {
            labels: to.labels.clone(),
            reviewers: to.reviewers.clone(),
        };
        if metadata == PullRequestMetadata::default() {
            return Ok(Vec::new());
        }
        let set = open.forge.forge.add_metadata(pull.number, &metadata);
        let notes = match open.forge.call_as_leader(&self.guard, set).await {
            // Anything transient is retried together with the rest.
            Err(failure) if failure.remedy == Remedy::WaitForEdit => vec![failure.message],
            notes => notes?,
        };
        for because in &notes {
            tracing::warn!(url = pull.url, because, "a label or reviewer was left out");
        }
        Ok(notes)
    }

    /// Has the forge merge the promotion's pull request if its head is still the commit that we pushed.
    /// Where it cannot yet, it is asked again, as often as open pull requests are listed.
    pub(super) async fn merge(
        &self,
        task: PromotionTask<'_>,
        to: &PullRequestStrategy,
        secret: &SecretContents,
        route: MergeRoute,
    ) -> Result<Outcome, Failure> {
        if let Some(because) = self.merge_answers.recent(&task.uid()) {
            return Ok(Outcome::AskedForMerge { because });
        }
        let open = self.open(task, to, secret)?;
        let listed = self.proposals.find_open(&open).await?.pull_request;
        let status = task.promotion.status.as_ref();
        let head = status.and_then(|status| ObjectId::new(status.commit.as_deref()?).ok());
        let (OpenPullRequest::Listed(pull), Some(head)) = (listed, head) else {
            return Ok(Outcome::AskedForMerge { because: None });
        };
        let merge = MergeOptions {
            head,
            method: method(to.merge_method.unwrap_or_default()),
        };
        let merged = match route {
            MergeRoute::Direct => {
                let merge = open.forge.forge.merge(pull.number, &merge);
                open.forge.call_as_leader(&self.guard, merge).await
            }
            MergeRoute::Queue => {
                let schedule = open.forge.forge.schedule_merge(pull.number, &merge);
                let scheduled = open.forge.call_as_leader(&self.guard, schedule).await;
                scheduled.map(|()| MergeResult::UnderWay)
            }
        };
        let because = match merged {
            Ok(MergeResult::Merged) => return Ok(Outcome::Merged),
            Ok(MergeResult::UnderWay) => None,
            // The queue is asked next.
            Err(failure) if failure.reason == planner::MERGE_QUEUE_REQUIRED => {
                let because = Some(failure);
                return Ok(Outcome::AskedForMerge { because });
            }
            Err(failure) => Some(failure),
        };
        let interval = self.proposals.follow_every;
        self.merge_answers
            .record(&task.uid(), because.as_ref(), interval);
        Ok(Outcome::AskedForMerge { because })
    }

    /// Keeps the forge from merging the promotion's pull request by itself, if it is open.
    pub(super) async fn cancel_scheduled_merge(
        &self,
        task: PromotionTask<'_>,
        to: &PullRequestStrategy,
        secret: &SecretContents,
    ) -> Result<(), Failure> {
        let open = self.open(task, to, secret)?;
        self.merge_answers.forget(&task.uid());
        let Some(mut pull) = open.find_own_open().await? else {
            return Ok(());
        };
        let cancel = open.forge.forge.cancel_scheduled_merge(pull.number);
        open.forge.call_as_leader(&self.guard, cancel).await?;
        pull.is_merge_scheduled = false;
        open.forge.remember(&pull);
        tracing::info!(
            url = pull.url,
            "the forge does not merge the pull request by itself any more"
        );
        Ok(())
    }

    /// The base branch has what is wanted, so an open pull request on the branch proposes something
    /// else.
    async fn close_stale(
        &self,
        task: PromotionTask<'_>,
        open: &OpenProposal,
    ) -> Result<(), Failure> {
        let all = open.find_on(&open.content.proposal.branch).await?;
        let is_same_environment = |pull: &PullRequest| names_environment(task, &pull.body);
        match open.open_among(all).filter(is_same_environment) {
            Some(pull) => self.proposals.close(open, &pull).await,
            None => Ok(()),
        }
    }

    /// Closes the promotion's pull request if it is open. If a person rejected or cancelled the promotion, one
    /// comment says so first, which is found again after a crash in between.
    pub(super) async fn close(
        &self,
        task: PromotionTask<'_>,
        to: &PullRequestStrategy,
        secret: &SecretContents,
    ) -> Result<(), Failure> {
        let open = self.open(task, to, secret)?;
        let Some(pull) = open.find_own_open().await? else {
            return Ok(());
        };
        if let Some(text) = PromotionDescription::of(task).why_closed() {
            let found = open.forge.forge.find_comment(pull.number, &text);
            if open.forge.call(found).await?.is_none() {
                let comment = open.forge.forge.comment(pull.number, &text);
                open.forge.call_as_leader(&self.guard, comment).await?;
            }
        }
        self.proposals.close(&open, &pull).await
    }

    /// Comments on the promotion's pull request, if it is open, that nobody follows it any more.
    pub(super) async fn comment_on_orphan(
        &self,
        task: PromotionTask<'_>,
        to: &PullRequestStrategy,
        secret: &SecretContents,
    ) -> Result<(), Failure> {
        let open = self.open(task, to, secret)?;
        let Some(pull) = open.find_own_open().await? else {
            return Ok(());
        };
        let status = task.promotion.status.as_ref();
        if status.is_some_and(|status| status.merge_scheduled) {
            let cancel = open.forge.forge.cancel_scheduled_merge(pull.number);
            open.forge.call_as_leader(&self.guard, cancel).await?;
        }
        let comment = open.forge.forge.comment(pull.number, ORPHANED);
        let commented = open.forge.call_as_leader(&self.guard, comment).await;
        commented.map(drop)
    }
}

/// Whether the text of a pull request names the environment that the promotion leads into.
fn names_environment(task: PromotionTask<'_>, body: &str) -> bool {
    let environment = PromotionDescription::of(task).environment();
    let is_named = body.lines().any(|line| line.trim() == environment);
    is_named && owner_in(body, TRAILER).is_some()
}

/// What a pull request on the forge means for the promotion.
fn observed_pull_request(task: PromotionTask<'_>, pull: PullRequest) -> ObservedPullRequest {
    let url = pull.url;
    match pull.state {
        PullRequestState::Merged => ObservedPullRequest::Merged {
            url,
            commit: pull.merge_commit.map(|commit| commit.as_str().to_owned()),
        },
        PullRequestState::Closed => ObservedPullRequest::Closed { url },
        PullRequestState::Open => {
            let status = task.promotion.status.clone().unwrap_or_default();
            let is_merge_scheduled = pull.is_merge_scheduled;
            let tip = pull.head_commit.as_ref().map(ObjectId::as_str);
            let (is_current, changed_by_others) = match (&status.commit, tip) {
                (Some(ours), Some(tip)) => (ours == tip, ours != tip),
                (Some(_), None) => (true, false),
                // Nothing is known to be pushed: git says whether the branch's commit is ours.
                (None, _) => (
                    false,
                    status.reason.as_deref() == Some(planner::BRANCH_CHANGED_BY_OTHERS),
                ),
            };
            ObservedPullRequest::Open {
                url,
                is_current,
                changed_by_others,
                is_merge_scheduled,
            }
        }
    }
}

fn method(method: Method) -> MergeMethod {
    match method {
        Method::Merge => MergeMethod::Merge,
        Method::Squash => MergeMethod::Squash,
        Method::Rebase => MergeMethod::Rebase,
    }
}

pub(super) fn kind(forge: ForgeKind) -> ForgeProduct {
    match forge {
        ForgeKind::Github => ForgeProduct::GitHub,
        ForgeKind::Gitlab => ForgeProduct::GitLab,
        ForgeKind::BitbucketServer => ForgeProduct::BitbucketServer,
        ForgeKind::BitbucketCloud => ForgeProduct::BitbucketCloud,
        ForgeKind::Gitea => ForgeProduct::Gitea,
        ForgeKind::AzureDevops => ForgeProduct::AzureDevOps,
    }
}

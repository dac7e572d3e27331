//! The strategy commit: pushes a promotion directly to the branch.
//!
//! Promotions to one branch are serialised, so that their pushes do not race; a push of somebody else
//! in between is rebased upon. A change that the branch has already is not pushed again.

use std::{collections::HashMap, sync::Arc};

use api::pipeline::Commit as CommitStrategy;
use git::propose::{ProposalResult, ProposedEdit};
use parking_lot::Mutex;
use planner::{Failure, Outcome};
use tokio::time::timeout;

use super::{
    PromotionTask, StrategyResult,
    batch_edits::EditLimits,
    failure::transient,
    promotion_change::{field_edits, of_edits},
    promotion_proposal::{PromotionProposal, RepositoryStrategy},
    repositories::GitRepositories,
    secrets::SecretContents,
    side_effect_guard::SideEffectGuard,
};

/// One lock per URL and branch, held during a push.
type BranchLocks = HashMap<(String, String), Arc<tokio::sync::Mutex<()>>>;

/// Carries out promotions by commit.
pub(super) struct Commits {
    repositories: Arc<GitRepositories>,
    guard: SideEffectGuard,
    branch_locks: Mutex<BranchLocks>,
}

impl Commits {
    pub(super) fn new(repositories: Arc<GitRepositories>, guard: SideEffectGuard) -> Self {
        Self {
            repositories,
            guard,
            branch_locks: Mutex::default(),
        }
    }

    /// Pushes the change, unless the branch has it.
    pub(super) async fn carry_out(
        &self,
        task: PromotionTask<'_>,
        to: &CommitStrategy,
        secret: &SecretContents,
    ) -> Result<StrategyResult, Failure> {
        let repository = self.repositories.open(&to.url, secret)?;
        let strategy = RepositoryStrategy::from(to);
        let lock = self.branch_lock(to);
        // A repository that hangs must not occupy every worker.
        let lock = timeout(self.guard.timeout(), lock.lock()).await;
        let busy = |_| {
            transient(
                "BranchBusy",
                "other promotions to the branch are in progress",
            )
        };
        let _lock = lock.map_err(busy)?;
        let limits = EditLimits::of(task, &strategy, &self.repositories, &repository).await?;
        let proposal = PromotionProposal::of(limits.task, &strategy)?.proposal;
        let acceptance = |edits: &[ProposedEdit]| limits.accept(edits);
        let proposed = self
            .repositories
            .propose(&repository, &proposal, &acceptance);
        let pushed = match proposed.await? {
            ProposalResult::NothingToChange { .. } => return Ok(Outcome::AlreadyThere.into()),
            ProposalResult::NotAccepted { edits } => return limits.refusal(&edits),
            ProposalResult::Proposed(pushed) => pushed,
        };
        let branch = pushed.branch.as_str().to_owned();
        let commit = pushed.commit.as_str().to_owned();
        Ok(StrategyResult {
            outcome: Outcome::Pushed { branch, commit },
            change: Some(of_edits(task, &field_edits(&pushed.edits))),
        })
    }

    fn branch_lock(&self, to: &CommitStrategy) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = self.branch_locks.lock();
        locks.retain(|_, lock| Arc::strong_count(lock) > 1);
        let key = (to.url.clone(), to.base_branch.clone());
        locks.entry(key).or_default().clone()
    }
}

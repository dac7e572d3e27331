//! What a promotion depends on, as a text that differs after somebody edited it.
//!
//! Many promotions share a lookup of the same branch.

use git::propose::branch_for_owner;

use super::{
    PromotionTask, Strategies, StrategyKind, manifest_edit,
    promotion_proposal::{PromotionProposal, RepositoryStrategy},
    secrets::SecretContents,
};

impl Strategies {
    /// A text that differs when the promotion may change something else than before: its Secret, its
    /// pipeline, its targets or the base branch are different. Promotions to one branch share a lookup.
    pub(crate) async fn change_inputs(&self, task: PromotionTask<'_>) -> String {
        let Some(strategy) = RepositoryStrategy::of(&task.promotion.spec.strategy) else {
            return String::new();
        };
        let secret = self.secrets.read_for(task, strategy.secret_ref).await.ok();
        let head = match &secret {
            Some(secret) => self.base_head(task, &strategy, secret).await,
            None => None,
        };
        inputs(task, secret.as_deref(), &head.unwrap_or_default())
    }

    async fn base_head(
        &self,
        task: PromotionTask<'_>,
        strategy: &RepositoryStrategy<'_>,
        secret: &SecretContents,
    ) -> Option<String> {
        let repository = self.repositories.open(strategy.url, secret).ok()?;
        let proposal = PromotionProposal::of(task, strategy).ok()?.proposal;
        let branches = [&proposal.base];
        Some(self.repositories.branch_heads(&repository, &branches).await)
    }

    /// A text that differs after somebody edited what a promotion depends on: its Secret, its
    /// pipeline, or its repository where that is at fault; and when more is known about where its
    /// targets are built.
    pub(crate) async fn dependencies(&self, task: PromotionTask<'_>) -> String {
        let strategy = task.strategy().ok();
        let secret = match strategy.and_then(StrategyKind::secret) {
            Some(reference) => self.secrets.read_for(task, reference).await.ok(),
            None => None,
        };
        let heads = match &secret {
            Some(secret) => self.branch_heads(task, secret).await.unwrap_or_default(),
            None => String::new(),
        };
        inputs(task, secret.as_deref(), &heads)
    }

    /// The commits that the branches of a promotion point to, where its last failure is one that an
    /// edit of the repository resolves.
    async fn branch_heads(
        &self,
        task: PromotionTask<'_>,
        secret: &SecretContents,
    ) -> Option<String> {
        let reason = task.promotion.status.as_ref()?.reason.as_deref()?;
        if !planner::is_resolved_by_repository_edit(reason) {
            return None;
        }
        let strategy = RepositoryStrategy::of(&task.promotion.spec.strategy)?;
        let repository = self.repositories.open(strategy.url, secret).ok()?;
        let proposal = PromotionProposal::of(task, &strategy).ok()?.proposal;
        let alternative = branch_for_owner(&proposal.branch, &proposal.message.owner);
        // Many promotions share a lookup of the base branch alone.
        let branches = match reason == planner::BRANCH_CHANGED_BY_OTHERS {
            true => vec![&proposal.base, &proposal.branch, &alternative],
            false => vec![&proposal.base],
        };
        Some(self.repositories.branch_heads(&repository, &branches).await)
    }
}

/// What a promotion depends on, as a text.
fn inputs(task: PromotionTask<'_>, secret: Option<&SecretContents>, heads: &str) -> String {
    let version = secret.map_or("-", |secret| secret.version.as_str());
    let generation = task.pipeline.metadata.generation;
    let locations = manifest_edit::known_locations(task);
    format!("{version} {generation:?} {locations} {heads}")
}

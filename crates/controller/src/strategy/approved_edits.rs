//! The edits that people approved for a rollout. Their hashes are stored before the first batch is pushed,
//! because afterwards the repository does not say any more what the whole change was.

use api::promotion::{FieldEdit, PromotionChange, edit_hash};
use planner::Failure;

use super::{
    PromotionTask, Strategies, StrategyKind, no_strategy, oci,
    promotion_change::{field_edits, of_edits},
    promotion_proposal::{PromotionProposal, RepositoryStrategy},
    rollout_part::{RolloutPart, TargetBatch},
};

/// How many hashes a status holds.
const MAX_EDITS: usize = 5000;

/// Whether what a rollout changes is what people approved.
pub(crate) enum ApprovedEdits {
    /// It is stored which edits they approved, or nobody has to.
    Known,
    /// It is what they approved: the hashes of the edits are to be stored.
    Approved(Vec<String>),
    /// It is something else: what it changes now.
    Differs(PromotionChange),
}

impl Strategies {
    /// Compares what the targets need whose change has not landed with what people approved, where it is
    /// not stored which edits these are.
    pub(crate) async fn approved_edits(
        &self,
        task: PromotionTask<'_>,
    ) -> Result<ApprovedEdits, Failure> {
        let (Some(approved), Some(batch)) = (task.approved_change, TargetBatch::of(task.promotion))
        else {
            return Ok(ApprovedEdits::Known);
        };
        let is_known = batch.has_joined() || !batch.approved_edits().is_empty();
        if is_known || !task.strategy()?.has_edits() {
            return Ok(ApprovedEdits::Known);
        }
        let commits = self.changelogs.commits(task, &self.secrets).await;
        let task = PromotionTask {
            commits: commits.as_ref(),
            ..task
        };
        let edits = self.edits_to_approve(task).await?;
        let change = of_edits(task, &edits);
        if edits.is_empty() {
            // The base branch has it all already.
            return Ok(ApprovedEdits::Known);
        }
        let hashes = edits.iter().take(MAX_EDITS).map(edit_hash);
        Ok(match change.digest == approved {
            true => ApprovedEdits::Approved(hashes.collect()),
            false => ApprovedEdits::Differs(change),
        })
    }

    /// The values that a promotion edits, of every target whose change has not landed.
    pub(super) async fn edits_to_approve(
        &self,
        task: PromotionTask<'_>,
    ) -> Result<Vec<FieldEdit>, Failure> {
        let task = task.with_part(RolloutPart::NotLanded);
        if let StrategyKind::Oci(to) = task.strategy()? {
            return oci::planned_edits(task, to);
        }
        let strategy = RepositoryStrategy::of(&task.promotion.spec.strategy);
        let strategy = strategy.ok_or_else(no_strategy)?;
        let secret = self.secrets.read_for(task, strategy.secret_ref).await?;
        let repository = self.repositories.open(strategy.url, &secret)?;
        let proposal = PromotionProposal::of(task, &strategy)?.proposal;
        let edits = self.repositories.edits(&repository, &proposal).await?;
        Ok(field_edits(&edits))
    }
}

impl StrategyKind<'_> {
    /// Whether what it changes is a list of values, and not left to a receiver.
    fn has_edits(self) -> bool {
        matches!(self, Self::PullRequest(_) | Self::Commit(_) | Self::Oci(_))
    }
}

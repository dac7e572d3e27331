//! The edits of a batch: that they are among those that people approved, and that none of them also
//! changes a target that has not been started.

use api::promotion::FieldEdit;
use git::propose::ProposedEdit;
use planner::{Failure, Outcome, Remedy};

use super::{
    PromotionTask, StrategyResult,
    failure::needs_edit,
    promotion_change::{self, field_edits},
    promotion_proposal::{PromotionProposal, RepositoryStrategy},
    repositories::{GitRepositories, RepositoryAccess},
    rollout_part::{RolloutPart, TargetBatch, some_of},
};

/// A batch and a target of a later one share a field.
const SHARED: &str = "TargetsShareField";

/// What a push of a promotion may edit.
pub(super) struct EditLimits<'a> {
    pub(super) task: PromotionTask<'a>,
    /// The edits for the targets that have not been started.
    later: Vec<FieldEdit>,
}

impl<'a> EditLimits<'a> {
    pub(super) async fn of(
        task: PromotionTask<'a>,
        strategy: &RepositoryStrategy<'_>,
        repositories: &GitRepositories,
        repository: &RepositoryAccess,
    ) -> Result<Self, Failure> {
        let rest = task.with_part(RolloutPart::NotStarted);
        let mut limits = Self {
            task,
            later: Vec::new(),
        };
        let keys = rest.part.keys(task.promotion).unwrap_or_default();
        if TargetBatch::of(task.promotion).is_none() || keys.is_empty() {
            return Ok(limits);
        }
        let edits = async {
            let proposal = PromotionProposal::of(rest, strategy)?.proposal;
            repositories.edits(repository, &proposal).await
        };
        match edits.await {
            Ok(later) => limits.later = field_edits(&later),
            // A manifest of theirs cannot be found. That must not hold up this batch, which then edits
            // nothing in their folders.
            Err(failure) if failure.remedy == Remedy::WaitForEdit => {
                limits.task = task.with_part(RolloutPart::BatchAlone);
            }
            Err(failure) => return Err(failure),
        }
        Ok(limits)
    }

    /// Whether these edits may be pushed.
    pub(super) fn accept(&self, edits: &[ProposedEdit]) -> bool {
        let edits = field_edits(edits);
        shared_field(self.task, &edits, &self.later).is_none()
            && promotion_change::is_approved(self.task, &edits)
    }

    /// Why they may not.
    pub(super) fn refusal(&self, edits: &[ProposedEdit]) -> Result<StrategyResult, Failure> {
        let fields = field_edits(edits);
        match shared_field(self.task, &fields, &self.later) {
            Some(failure) => Err(failure),
            None => Ok(StrategyResult {
                outcome: Outcome::ChangeDiffers,
                change: Some(promotion_change::of_edits(self.task, &fields)),
            }),
        }
    }
}

/// A failure if an edit of the batch is also one for a target that has not been started.
pub(super) fn shared_field(
    task: PromotionTask<'_>,
    edits: &[FieldEdit],
    later: &[FieldEdit],
) -> Option<Failure> {
    let is_same =
        |one: &FieldEdit, other: &FieldEdit| one.file == other.file && one.path == other.path;
    let is_shared = |edit: &&FieldEdit| later.iter().any(|other| is_same(edit, other));
    let FieldEdit { file, path, .. } = edits.iter().find(is_shared)?;
    let batch = TargetBatch::of(task.promotion)?;
    let of = |part: RolloutPart| part.keys(task.promotion).unwrap_or_default();
    let (own, others) = (of(RolloutPart::Batch), of(RolloutPart::NotStarted));
    let text = format!(
        "{path} in {file} belongs to targets of batch {} ({}) and to targets of later ones ({}), which \
         cannot be changed separately; give each cluster its own file with ${{cluster}} in paths, or \
         remove rollout",
        batch.number(),
        some_of(&own),
        some_of(&others),
    );
    Some(needs_edit(SHARED, text))
}

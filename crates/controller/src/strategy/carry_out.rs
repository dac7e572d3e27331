//! Carries out a promotion by its strategy, and computes what it changes.
//!
//! Nothing is changed that people did not approve, where they have to: what is compared is the whole change,
//! or, for a batch of a rollout, each of its edits.

use std::sync::Arc;

use api::{Promotion, promotion::PromotionChange, reference::LocalReference};
use planner::{Failure, Outcome};

use super::{
    PromotionTask, Strategies, StrategyKind, StrategyResult,
    failure::transient,
    oci, promotion_change,
    promotion_description::PromotionDescription,
    rollout_part::{RolloutPart, TargetBatch},
    secrets::SecretContents,
};

/// How often the targets of a batch are looked for that are not there.
const LOOKS_FOR_TARGETS: i64 = 3;

impl Strategies {
    /// Carries out the promotion. `promotions` are all of its pipeline.
    pub(crate) async fn carry_out(
        &self,
        task: PromotionTask<'_>,
        promotions: &[Promotion],
    ) -> StrategyResult {
        let commits = self.changelogs.commits(task, &self.secrets).await;
        let commits = commits.as_ref();
        let task = PromotionTask { commits, ..task };
        let done = self.try_carry_out(task, promotions).await;
        let done = done.unwrap_or_else(|failure| Outcome::Failed(failure).into());
        self.with_whole_change(task, done).await
    }

    async fn try_carry_out(
        &self,
        task: PromotionTask<'_>,
        promotions: &[Promotion],
    ) -> Result<StrategyResult, Failure> {
        self.freezes.permit(task).await?;
        if let Some(outcome) = without_targets(task)? {
            return Ok(outcome.into());
        }
        let fixed = fixed_change(task)?;
        let (change, is_approved) = fixed.map_or((None, true), |(change, is_approved)| {
            (Some(change), is_approved)
        });
        if !is_approved {
            let outcome = Outcome::ChangeDiffers;
            return Ok(StrategyResult { outcome, change });
        }
        let outcome = match task.strategy()? {
            StrategyKind::PullRequest(to) => {
                let secret = self.secrets.read_for(task, &to.secret_ref).await?;
                return self.pull_requests.carry_out(task, to, &secret).await;
            }
            StrategyKind::Commit(to) => {
                let secret = self.secrets.read_for(task, &to.secret_ref).await?;
                return self.commits.carry_out(task, to, &secret).await;
            }
            StrategyKind::Notification => self.notifications.carry_out(task).await?,
            StrategyKind::Webhook(to) => {
                let secret = self.optional_secret(task, to.secret_ref.as_ref()).await?;
                self.webhooks.carry_out(task, to, secret).await?
            }
            StrategyKind::Oci(to) => {
                let secret = self.optional_secret(task, to.secret_ref.as_ref()).await?;
                let oci_tags = &self.oci_tags;
                oci_tags.carry_out(task, to, secret, promotions).await?
            }
            // The pipeline loop stores it for the clusters once the promotion says so.
            StrategyKind::Inputs(_) => Outcome::Published,
        };
        Ok(StrategyResult { outcome, change })
    }

    /// Approvals name the whole change, of which a batch is a part: that stays, unless it is not what they
    /// approved.
    async fn with_whole_change(
        &self,
        task: PromotionTask<'_>,
        done: StrategyResult,
    ) -> StrategyResult {
        let is_part = task.approved_change.is_some() && TargetBatch::of(task.promotion).is_some();
        let change = match &done.outcome {
            _ if !is_part => done.change,
            Outcome::ChangeDiffers => self.read_change(task).await.ok(),
            _ => None,
        };
        StrategyResult { change, ..done }
    }

    /// What the promotion would change now. Changes nothing.
    pub(crate) async fn read_change(
        &self,
        task: PromotionTask<'_>,
    ) -> Result<PromotionChange, Failure> {
        let commits = self.changelogs.commits(task, &self.secrets).await;
        let commits = commits.as_ref();
        let task = PromotionTask { commits, ..task };
        match fixed_change(task.with_part(RolloutPart::NotLanded))? {
            Some((change, _)) => Ok(change),
            None => {
                let edits = self.edits_to_approve(task).await?;
                Ok(promotion_change::of_edits(task, &edits))
            }
        }
    }

    async fn optional_secret(
        &self,
        task: PromotionTask<'_>,
        reference: Option<&LocalReference>,
    ) -> Result<Option<Arc<SecretContents>>, Failure> {
        match reference {
            Some(reference) => self.secrets.read_for(task, reference).await.map(Some),
            None => Ok(None),
        }
    }
}

/// What a promotion changes by a strategy that edits no repository, and whether that is what people
/// approved: it follows from the promotion and its targets alone.
fn fixed_change(task: PromotionTask<'_>) -> Result<Option<(PromotionChange, bool)>, Failure> {
    Ok(match task.strategy()? {
        StrategyKind::PullRequest(_) | StrategyKind::Commit(_) => None,
        StrategyKind::Notification | StrategyKind::Webhook(_) | StrategyKind::Inputs(_) => {
            let change = promotion_change::delegated(task);
            let approved = task.approved_change;
            let is_approved = approved.is_none_or(|approved| approved == change.digest);
            Some((change, is_approved))
        }
        StrategyKind::Oci(to) => {
            let edits = oci::planned_edits(task, to)?;
            let is_approved = promotion_change::is_approved(task, &edits);
            Some((promotion_change::of_edits(task, &edits), is_approved))
        }
    })
}

/// The outcome of a batch none of whose targets is there any more. The status of the pipeline may be
/// older than the promotion, so that it is looked at again first.
fn without_targets(task: PromotionTask<'_>) -> Result<Option<Outcome>, Failure> {
    if PromotionDescription::of(task).has_targets() {
        return Ok(None);
    }
    let status = task.promotion.status.as_ref();
    match status.is_some_and(|status| status.attempts >= LOOKS_FOR_TARGETS) {
        true => Ok(Some(Outcome::AlreadyThere)),
        false => {
            let text = "no target of the batch is known";
            Err(transient("NotObserved", text))
        }
    }
}

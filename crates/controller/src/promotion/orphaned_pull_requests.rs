//! Comments on open pull requests whose promotion or pipeline was deleted. They stay open.

use std::sync::Arc;

use api::{Pipeline, Promotion, promotion::Phase};
use runtime::ObjectKey;
use tokio::sync::{Mutex, mpsc};

use super::{PromotionReconciler, SiteKey};
use crate::{caches::pipeline_of, strategy::PromotionTask};

/// How many comments may be queued.
const QUEUE: usize = 256;

/// Promotions that were deleted while their pull request was open.
pub(super) struct OrphanedPullRequests {
    sender: mpsc::Sender<(Pipeline, Promotion)>,
    receiver: Mutex<mpsc::Receiver<(Pipeline, Promotion)>>,
}

impl OrphanedPullRequests {
    pub(super) fn new() -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let receiver = Mutex::new(receiver);
        Self { sender, receiver }
    }
}

impl PromotionReconciler {
    /// Drops everything about a pipeline that was deleted.
    pub(super) fn forget_pipeline(&self, key: &ObjectKey, pipeline: &Pipeline) {
        for promotion in self.caches.promotions.children(key) {
            self.queue_comment(pipeline, &promotion);
            self.workers.forget(&SiteKey::of(&promotion));
        }
        self.telemetry.metrics.promotions().forget(key);
    }

    /// Drops everything about a promotion that was deleted.
    pub(super) fn forget_promotion(&self, promotion: &Promotion) {
        let uid = promotion.metadata.uid.clone().unwrap_or_default();
        self.failure_dependencies.forget(&uid);
        self.change_inputs.forget(&uid);
        self.phases.lock().remove(&uid);
        if let Some(pipeline) = self.pipelines.get(&pipeline_of(promotion)) {
            self.queue_comment(&pipeline, promotion);
        }
    }

    /// Queues a comment if the pull request is open.
    fn queue_comment(&self, pipeline: &Pipeline, promotion: &Promotion) {
        let phase = promotion.status.as_ref().and_then(|status| status.phase);
        let settings = pipeline.spec.promotion_into(&promotion.spec.environment);
        let has_strategy = settings.is_some_and(|it| it.strategy == promotion.spec.strategy);
        if phase != Some(Phase::WaitingForMerge) || !has_strategy {
            return;
        }
        let orphan = (pipeline.clone(), promotion.clone());
        if self.orphaned_pull_requests.sender.try_send(orphan).is_err() {
            let url = promotion.status.as_ref().and_then(|it| it.url.as_ref());
            tracing::warn!(
                url,
                "will not comment on the orphaned pull request: too many are queued"
            );
        }
    }
}

/// Comments on orphaned pull requests until dropped.
pub(super) async fn comment(reconciler: Arc<PromotionReconciler>) {
    let mut orphans = reconciler.orphaned_pull_requests.receiver.lock().await;
    while let Some((pipeline, promotion)) = orphans.recv().await {
        let task = PromotionTask::new(&pipeline, &promotion);
        if let Err(failure) = reconciler.strategies.comment_on_orphan(task).await {
            let (url, because) = (promotion.status.and_then(|it| it.url), failure.message);
            tracing::warn!(
                url,
                because,
                "could not comment on the orphaned pull request"
            );
        }
    }
}

//! Pull requests whose pipeline goes: they stay open, with a word about it where possible.

use std::sync::Arc;

use api::{Pipeline, Promotion, promotion::Phase};
use tokio::sync::{Mutex, mpsc};

use super::{PlaceKey, Promoter};
use runtime::ObjectKey;

use crate::{promotions::pipeline_of, strategy::PromotionTask};

/// How many may wait. More than that are left without a word.
const QUEUE: usize = 256;

type Parting = (Pipeline, Promotion);

/// Promotions that went while their pull request was open.
pub(super) struct Farewells {
    sender: mpsc::Sender<Parting>,
    receiver: Mutex<mpsc::Receiver<Parting>>,
}

impl Farewells {
    pub(super) fn new() -> Self {
        let (sender, receiver) = mpsc::channel(QUEUE);
        let receiver = Mutex::new(receiver);
        Self { sender, receiver }
    }
}

impl Promoter {
    /// Forgets a pipeline and what belongs to it.
    pub(super) fn forget_pipeline(&self, key: &ObjectKey) {
        let Some(pipeline) = self.pipelines.get(key) else {
            return;
        };
        for promotion in self.promotions.of(key) {
            self.part(&pipeline, &promotion);
            self.queue.forget(&PlaceKey::of(&promotion));
        }
        self.pipelines.remove(key);
        self.telemetry.metrics.promotions().forget(key);
    }

    /// Forgets a promotion.
    pub(super) fn forget(&self, promotion: &Promotion) {
        let uid = promotion.metadata.uid.clone().unwrap_or_default();
        self.faults.forget(&uid);
        self.phases.lock().remove(&uid);
        if let Some(pipeline) = self.pipelines.get(&pipeline_of(promotion)) {
            self.part(&pipeline, promotion);
        }
    }

    /// Has a word said on a pull request that is open.
    fn part(&self, pipeline: &Pipeline, promotion: &Promotion) {
        let phase = promotion.status.as_ref().and_then(|status| status.phase);
        let settings = pipeline.spec.promotion_into(&promotion.spec.environment);
        let is_asked_for = settings.is_some_and(|it| it.strategy == promotion.spec.strategy);
        if phase == Some(Phase::WaitingForMerge) && is_asked_for {
            // A full queue means that hundreds went at once.
            let _ = self
                .farewells
                .sender
                .try_send((pipeline.clone(), promotion.clone()));
        }
    }
}

/// Says farewell where it is due, until dropped.
pub(super) async fn say(promoter: Arc<Promoter>) {
    let mut partings = promoter.farewells.receiver.lock().await;
    while let Some((pipeline, promotion)) = partings.recv().await {
        let task = PromotionTask {
            pipeline: &pipeline,
            promotion: &promotion,
        };
        if let Err(failure) = promoter.strategies.comment_on_orphan(task).await {
            let (url, because) = (promotion.status.and_then(|it| it.url), failure.message);
            tracing::warn!(url, because, "a pull request is left without a word");
        }
    }
}

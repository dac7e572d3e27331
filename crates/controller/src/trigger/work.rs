//! The triggers that wait to be looked at, and what is told about the work on them.

use std::time::Duration;

use crate::Context;
use runtime::{
    ObjectKey, WorkQueue, WorkerMetrics,
    health::ReconcilerProgress,
    worker_metrics::{ReconcileResult, RunningReconcile},
};

/// The name of the queue in metrics, as the operator's.
const NAME: &str = "pipelinetrigger";

pub(super) struct Work {
    queue: WorkQueue<ObjectKey>,
    metrics: WorkerMetrics,
    progress: ReconcilerProgress,
}

impl Work {
    pub(super) fn new(context: &Context) -> Self {
        Self {
            queue: WorkQueue::new(),
            metrics: context
                .metrics
                .of_controller(NAME, context.settings.concurrent),
            progress: context.health.progress(NAME),
        }
    }

    pub(super) fn add(&self, key: ObjectKey) {
        self.queue.add(key);
        self.metrics.queued();
        self.tell_depth();
    }

    pub(super) fn add_after(&self, key: &ObjectKey, wait: Duration) {
        self.queue.add_after(key.clone(), wait);
    }

    /// Comes again after a failure.
    pub(super) fn retry(&self, key: &ObjectKey, wait: Duration) {
        self.metrics.retried();
        self.add_after(key, wait);
    }

    pub(super) fn forget(&self, key: &ObjectKey) {
        self.queue.forget(key);
    }

    /// The next trigger; ends with [`Work::finish`].
    pub(super) async fn next(&self) -> (ObjectKey, RunningReconcile) {
        let (key, waited) = self.queue.next().await;
        (key, self.metrics.begin(waited))
    }

    pub(super) fn finish(&self, key: &ObjectKey, pass: RunningReconcile, outcome: ReconcileResult) {
        self.queue.done(key);
        pass.finish(outcome);
        self.progress.made_progress();
        self.tell_depth();
    }

    fn tell_depth(&self) {
        let depth = self.queue.depth();
        self.metrics.set_depth(depth);
        self.progress.set_has_work(depth > 0);
    }
}

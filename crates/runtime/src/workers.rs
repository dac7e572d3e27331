//! Runs the reconcile function of one controller for the keys of its work queue.
//!
//! Each key is reconciled by at most one worker at a time and again if it was enqueued meanwhile.
//! Queue depth, durations, results and progress are reported here, so that a reconcile function only
//! says when its object is to be reconciled again.

use std::{fmt::Debug, hash::Hash, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::{
    WorkQueue, WorkerMetrics, health::ReconcilerProgress, worker_metrics::ReconcileResult,
};

/// When a key is reconciled again, unless something changes before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequeueAction {
    /// Only when something changes.
    AwaitChange,
    /// After this time.
    After(Duration),
    /// After this time, because something could not be done yet. Counts as a retry.
    RetryIncomplete(Duration),
    /// After this time, because it failed. Counts as a retry and as an error.
    RetryError(Duration),
}

impl RequeueAction {
    fn delay(self) -> Option<Duration> {
        match self {
            Self::AwaitChange => None,
            Self::After(delay) | Self::RetryIncomplete(delay) | Self::RetryError(delay) => {
                Some(delay)
            }
        }
    }

    fn is_retry(self) -> bool {
        matches!(self, Self::RetryIncomplete(_) | Self::RetryError(_))
    }

    fn result(self) -> ReconcileResult {
        match self {
            Self::AwaitChange => ReconcileResult::Success,
            Self::After(_) | Self::RetryIncomplete(_) => ReconcileResult::RequeueAfter,
            Self::RetryError(_) => ReconcileResult::Error,
        }
    }
}

/// The work queue of one controller and the workers that empty it.
pub struct Workers<K> {
    queue: WorkQueue<K>,
    metrics: WorkerMetrics,
    progress: Option<ReconcilerProgress>,
    concurrency: usize,
    /// Held while the depth of the queue is read and reported.
    reporting: Mutex<()>,
}

impl<K: Clone + Debug + Eq + Hash + Ord + Send + Sync + 'static> Workers<K> {
    /// An empty queue for `concurrency` workers. A process that serves probes passes `progress`.
    pub fn new(
        metrics: WorkerMetrics,
        progress: Option<ReconcilerProgress>,
        concurrency: usize,
    ) -> Self {
        Self {
            queue: WorkQueue::new(),
            metrics,
            progress,
            concurrency: concurrency.max(1),
            reporting: Mutex::new(()),
        }
    }

    /// Enqueues a key.
    pub fn enqueue(&self, key: K) {
        self.queue.add(key);
        self.metrics.queued();
        self.report_depth();
    }

    /// Enqueues a key after a delay. An earlier time that is set already stays.
    pub fn enqueue_after(&self, key: K, delay: Duration) {
        self.queue.add_after(key, delay);
    }

    /// Drops the delayed reconcile of a key.
    pub fn forget(&self, key: &K) {
        self.queue.forget(key);
    }

    /// How many keys are ready for a worker.
    pub fn depth(&self) -> usize {
        self.queue.depth()
    }

    /// Runs the workers until dropped.
    pub async fn run<F, R>(self: Arc<Self>, reconcile: F)
    where
        F: Fn(K) -> R + Clone + Send + Sync + 'static,
        R: Future<Output = RequeueAction> + Send,
    {
        let mut tasks = JoinSet::new();
        let workers = self.clone();
        tasks.spawn(async move { workers.queue.deliver_delayed().await });
        for _ in 0..self.concurrency {
            let (workers, reconcile) = (self.clone(), reconcile.clone());
            tasks.spawn(async move {
                loop {
                    workers.reconcile_next(&reconcile).await;
                }
            });
        }
        tasks.join_all().await;
    }

    async fn reconcile_next<R>(&self, reconcile: &impl Fn(K) -> R)
    where
        R: Future<Output = RequeueAction>,
    {
        let (key, queued) = self.queue.next().await;
        let taken = TakenKey {
            queue: &self.queue,
            key: &key,
        };
        let running = self.metrics.begin(queued);
        let action = reconcile(key.clone()).await;
        if action.is_retry() {
            self.metrics.retried();
        }
        if let Some(delay) = action.delay() {
            self.queue.add_after(key.clone(), delay);
        }
        drop(taken);
        running.finish(action.result());
        if let Some(progress) = &self.progress {
            progress.made_progress();
        }
        self.report_depth();
    }

    fn report_depth(&self) {
        // A depth that was read earlier must not be reported later.
        let _reporting = self.reporting.lock();
        let depth = self.queue.depth();
        self.metrics.set_depth(depth);
        if let Some(progress) = &self.progress {
            progress.set_has_work(depth > 0);
        }
    }
}

/// A key that a worker has, until this is dropped: also when the worker is stopped in the middle.
struct TakenKey<'a, K: Clone + Eq + Hash + Ord> {
    queue: &'a WorkQueue<K>,
    key: &'a K,
}

impl<K: Clone + Eq + Hash + Ord> Drop for TakenKey<'_, K> {
    fn drop(&mut self) {
        self.queue.done(self.key);
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use prometheus_client::{encoding::text, registry::Registry};
    use tokio::time::{Instant, sleep};

    use super::*;
    use crate::{Health, worker_metrics::WorkerMetricFamilies};

    #[tokio::test(start_paused = true)]
    async fn results_decide_when_a_key_is_reconciled_again_and_what_is_counted() {
        let mut registry = Registry::default();
        let families = WorkerMetricFamilies::register(&mut registry);
        let workers = Arc::new(Workers::new(families.of_controller("test", 2), None, 2));
        let reconciled = Arc::new(Mutex::new(Vec::new()));
        let (start, log) = (Instant::now(), reconciled.clone());
        let actions = Mutex::new(vec![
            RequeueAction::AwaitChange,
            RequeueAction::RetryError(Duration::from_secs(5)),
            RequeueAction::RetryIncomplete(Duration::from_secs(2)),
            RequeueAction::After(Duration::from_secs(60)),
        ]);
        let actions = Arc::new(actions);
        workers.enqueue("a");
        let running = tokio::spawn(workers.clone().run(move |key: &str| {
            log.lock().push((key, start.elapsed().as_secs()));
            let action = actions.lock().pop().unwrap();
            async move { action }
        }));
        sleep(Duration::from_secs(600)).await;
        running.abort();
        assert_eq!(
            *reconciled.lock(),
            [("a", 0), ("a", 60), ("a", 62), ("a", 67)]
        );
        let mut page = String::new();
        text::encode(&mut page, &registry).unwrap();
        for line in [
            r#"controller_runtime_reconcile_total{controller="test",result="requeue_after"} 2"#,
            r#"controller_runtime_reconcile_total{controller="test",result="error"} 1"#,
            r#"controller_runtime_reconcile_total{controller="test",result="success"} 1"#,
            r#"workqueue_retries_total{name="test",controller="test"} 2"#,
            r#"workqueue_adds_total{name="test",controller="test"} 1"#,
            r#"controller_runtime_reconcile_errors_total{controller="test"} 1"#,
            r#"controller_runtime_active_workers{controller="test"} 0"#,
            r#"workqueue_depth{name="test",controller="test"} 0"#,
            r#"workqueue_longest_running_processor_seconds{name="test",controller="test"} 0.0"#,
        ] {
            assert!(page.contains(line), "{line} is not in {page}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_queued_and_what_takes_long_is_reported() {
        let mut registry = Registry::default();
        let families = WorkerMetricFamilies::register(&mut registry);
        let health = Health::new(Duration::from_secs(60));
        let progress = Some(health.progress("test"));
        let workers = Workers::new(families.of_controller("test", 1), progress, 1);
        let workers = Arc::new(workers);
        let page = || {
            let mut page = String::new();
            text::encode(&mut page, &registry).unwrap();
            page
        };
        workers.enqueue("a");
        workers.enqueue("b");
        assert_eq!(workers.depth(), 2);
        assert!(page().contains(r#"workqueue_depth{name="test",controller="test"} 2"#));
        let stuck = tokio::spawn(workers.clone().run(|_| std::future::pending()));
        sleep(Duration::from_secs(90)).await;
        assert_eq!(
            health.stalled(),
            [("test".to_owned(), Duration::from_secs(90))]
        );
        let longest =
            "workqueue_longest_running_processor_seconds{name=\"test\",controller=\"test\"} 90.0";
        assert!(page().contains(longest), "{}", page());
        stuck.abort();
        let _ = stuck.await;
        let running = tokio::spawn(workers.clone().run(async |_| RequeueAction::AwaitChange));
        sleep(Duration::from_secs(90)).await;
        assert_eq!(health.stalled(), []);
        running.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_delayed_key_is_reconciled_then_unless_it_is_forgotten() {
        let families = WorkerMetricFamilies::register(&mut Registry::default());
        let workers = Arc::new(Workers::new(families.of_controller("test", 1), None, 1));
        let (start, reconciled) = (Instant::now(), Arc::new(Mutex::new(Vec::new())));
        let log = reconciled.clone();
        workers.enqueue_after("a", Duration::from_secs(5));
        workers.enqueue_after("b", Duration::from_secs(7));
        workers.forget(&"a");
        let running = tokio::spawn(workers.run(move |key: &str| {
            log.lock().push((key, start.elapsed().as_secs()));
            async { RequeueAction::AwaitChange }
        }));
        sleep(Duration::from_secs(60)).await;
        running.abort();
        assert_eq!(*reconciled.lock(), [("b", 7)]);
    }

    #[tokio::test(start_paused = true)]
    async fn keys_are_reconciled_at_the_same_time_up_to_the_concurrency() {
        let families = WorkerMetricFamilies::register(&mut Registry::default());
        let workers = Arc::new(Workers::new(families.of_controller("test", 2), None, 2));
        for key in ["a", "b", "c"] {
            workers.enqueue(key);
        }
        let (start, ends) = (Instant::now(), Arc::new(Mutex::new(Vec::new())));
        let log = ends.clone();
        let running = tokio::spawn(workers.clone().run(move |_| {
            let log = log.clone();
            async move {
                sleep(Duration::from_secs(1)).await;
                log.lock().push(start.elapsed().as_secs());
                RequeueAction::AwaitChange
            }
        }));
        sleep(Duration::from_secs(10)).await;
        running.abort();
        assert_eq!(*ends.lock(), [1, 1, 2]);
        assert_eq!(workers.depth(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_whose_worker_was_stopped_can_be_reconciled_by_the_next_workers() {
        let families = WorkerMetricFamilies::register(&mut Registry::default());
        let workers = Arc::new(Workers::new(families.of_controller("test", 1), None, 1));
        workers.enqueue("a");
        let stopped = tokio::spawn(workers.clone().run(|_| std::future::pending()));
        sleep(Duration::from_secs(1)).await;
        stopped.abort();
        let _ = stopped.await;
        workers.enqueue("a");
        let (done, mut reconciled) = tokio::sync::mpsc::unbounded_channel();
        let running = tokio::spawn(workers.run(move |key| {
            let done = done.clone();
            async move {
                done.send(key).unwrap();
                RequeueAction::AwaitChange
            }
        }));
        let key = tokio::time::timeout(Duration::from_secs(60), reconciled.recv()).await;
        assert_eq!(key, Ok(Some("a")));
        running.abort();
    }
}

//! Metrics of work queues and workers, under the names of controller-runtime and client-go.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::{
        MetricType,
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};
use tokio::time::Instant;

/// controller-runtime's buckets for the duration of a reconcile.
const RECONCILE_BUCKETS: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
    1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0,
    25.0, 30.0, 40.0, 50.0, 60.0,
];

/// How a reconcile of one object ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReconcileResult {
    /// Nothing more to do until something changes.
    Success,
    /// To be reconciled again at a certain time.
    RequeueAfter,
    /// It failed and is retried.
    Error,
}

impl ReconcileResult {
    fn label(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::RequeueAfter => "requeue_after",
            Self::Error => "error",
        }
    }
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByController {
    controller: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByResult {
    controller: &'static str,
    result: &'static str,
}

/// Both labels of client-go's work queues.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByQueue {
    name: &'static str,
    controller: &'static str,
}

/// When each running reconcile began, by controller.
type Running = Arc<Mutex<BTreeMap<&'static str, BTreeMap<u64, Instant>>>>;

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// The metrics of all controllers of the process. Cloning shares it.
#[derive(Clone)]
pub struct WorkerMetricFamilies {
    reconciles: Family<ByResult, Counter>,
    errors: Family<ByController, Counter>,
    reconcile_time: Histograms<ByController>,
    active: Family<ByController, Gauge>,
    workers: Family<ByController, Gauge>,
    depth: Family<ByQueue, Gauge>,
    adds: Family<ByQueue, Counter>,
    retries: Family<ByQueue, Counter>,
    waited: Histograms<ByQueue>,
    worked: Histograms<ByQueue>,
    running: Running,
}

impl WorkerMetricFamilies {
    /// Registers them, at zero.
    pub fn register(registry: &mut Registry) -> Self {
        let reconcile_time: fn() -> Histogram = || Histogram::new(RECONCILE_BUCKETS);
        let queue_time: fn() -> Histogram = || Histogram::new(exponential_buckets(1e-8, 10.0, 12));
        let families = Self {
            reconciles: Family::default(),
            errors: Family::default(),
            reconcile_time: Family::new_with_constructor(reconcile_time),
            active: Family::default(),
            workers: Family::default(),
            depth: Family::default(),
            adds: Family::default(),
            retries: Family::default(),
            waited: Family::new_with_constructor(queue_time),
            worked: Family::new_with_constructor(queue_time),
            running: Running::default(),
        };
        families.register_reconciles(registry);
        families.register_queues(registry);
        registry.register_collector(Box::new(LongestRunning(families.running.clone())));
        families
    }

    fn register_reconciles(&self, registry: &mut Registry) {
        registry.register(
            "controller_runtime_reconcile",
            "Reconciles, by result",
            self.reconciles.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_errors",
            "Reconciles that failed",
            self.errors.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_time_seconds",
            "Duration of a reconcile",
            self.reconcile_time.clone(),
        );
        registry.register(
            "controller_runtime_active_workers",
            "Running reconciles",
            self.active.clone(),
        );
        registry.register(
            "controller_runtime_max_concurrent_reconciles",
            "How many reconciles may run at the same time",
            self.workers.clone(),
        );
    }

    fn register_queues(&self, registry: &mut Registry) {
        registry.register(
            "workqueue_depth",
            "Objects in the work queue",
            self.depth.clone(),
        );
        registry.register(
            "workqueue_adds",
            "Objects added to the work queue",
            self.adds.clone(),
        );
        registry.register(
            "workqueue_retries",
            "Objects added to the work queue again after a failure",
            self.retries.clone(),
        );
        registry.register(
            "workqueue_queue_duration_seconds",
            "How long objects stay in the work queue",
            self.waited.clone(),
        );
        registry.register(
            "workqueue_work_duration_seconds",
            "How long processing an object takes",
            self.worked.clone(),
        );
    }

    /// The metrics of one controller, whose work queue has the same name.
    pub fn of_controller(&self, controller: &'static str, workers: usize) -> WorkerMetrics {
        let by_controller = ByController { controller };
        let by_queue = ByQueue {
            name: controller,
            controller,
        };
        let workers = i64::try_from(workers).unwrap_or(i64::MAX);
        self.workers.get_or_create(&by_controller).set(workers);
        self.running.lock().entry(controller).or_default();
        let results = [
            ReconcileResult::Success,
            ReconcileResult::RequeueAfter,
            ReconcileResult::Error,
        ];
        for result in results.map(ReconcileResult::label) {
            drop(
                self.reconciles
                    .get_or_create(&ByResult { controller, result }),
            );
        }
        WorkerMetrics {
            controller,
            reconciles: self.reconciles.clone(),
            errors: self.errors.get_or_create_owned(&by_controller),
            reconcile_time: self.reconcile_time.get_or_create_owned(&by_controller),
            active: self.active.get_or_create_owned(&by_controller),
            depth: self.depth.get_or_create_owned(&by_queue),
            adds: self.adds.get_or_create_owned(&by_queue),
            retries: self.retries.get_or_create_owned(&by_queue),
            waited: self.waited.get_or_create_owned(&by_queue),
            worked: self.worked.get_or_create_owned(&by_queue),
            running: self.running.clone(),
        }
    }
}

/// The metrics of one controller. Cloning shares it.
#[derive(Clone)]
pub struct WorkerMetrics {
    controller: &'static str,
    reconciles: Family<ByResult, Counter>,
    errors: Counter,
    reconcile_time: Histogram,
    active: Gauge,
    depth: Gauge,
    adds: Counter,
    retries: Counter,
    waited: Histogram,
    worked: Histogram,
    running: Running,
}

impl WorkerMetrics {
    /// An object was added to the queue.
    pub fn queued(&self) {
        self.adds.inc();
    }

    /// An object was added to the queue again after a failure.
    pub fn retried(&self) {
        self.retries.inc();
    }

    /// Sets how many objects are queued.
    pub fn set_depth(&self, waiting: usize) {
        self.depth.set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }

    /// A reconcile begins of an object that was queued for so long. It ends with [`RunningReconcile::finish`].
    pub fn begin(&self, waited: Duration) -> RunningReconcile {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        self.waited.observe(waited.as_secs_f64());
        self.active.inc();
        let began = Instant::now();
        let mut running = self.running.lock();
        running
            .entry(self.controller)
            .or_default()
            .insert(number, began);
        drop(running);
        RunningReconcile {
            metrics: self.clone(),
            began,
            number,
        }
    }
}

/// A running reconcile. Dropped without a result it was cancelled and counts as neither success nor
/// failure.
#[must_use]
pub struct RunningReconcile {
    metrics: WorkerMetrics,
    began: Instant,
    number: u64,
}

impl RunningReconcile {
    /// The reconcile ended.
    pub fn finish(self, result: ReconcileResult) {
        let by_result = ByResult {
            controller: self.metrics.controller,
            result: result.label(),
        };
        self.metrics.reconciles.get_or_create(&by_result).inc();
        if result == ReconcileResult::Error {
            self.metrics.errors.inc();
        }
        let took = self.began.elapsed().as_secs_f64();
        self.metrics.reconcile_time.observe(took);
        self.metrics.worked.observe(took);
    }
}

impl Drop for RunningReconcile {
    fn drop(&mut self) {
        self.metrics.active.dec();
        let mut running = self.metrics.running.lock();
        if let Some(reconciles) = running.get_mut(self.metrics.controller) {
            reconciles.remove(&self.number);
        }
    }
}

/// Computes the durations of running reconciles at each scrape.
#[derive(Debug)]
struct LongestRunning(Running);

impl Collector for LongestRunning {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let running = self.0.lock().clone();
        let ages = |reconciles: &BTreeMap<u64, Instant>| {
            let ages = reconciles
                .values()
                .map(|began| began.elapsed().as_secs_f64());
            ages.collect::<Vec<_>>()
        };
        let longest = Family::<ByQueue, Gauge<f64, AtomicU64>>::default();
        let unfinished = Family::<ByQueue, Gauge<f64, AtomicU64>>::default();
        for (name, reconciles) in &running {
            let by_queue = ByQueue {
                name,
                controller: name,
            };
            let ages = ages(reconciles);
            let most = ages.iter().copied().fold(0.0, f64::max);
            longest.get_or_create(&by_queue).set(most);
            unfinished.get_or_create(&by_queue).set(ages.iter().sum());
        }
        longest.encode(encoder.encode_descriptor(
            "workqueue_longest_running_processor_seconds",
            "Duration of the longest running reconcile",
            None,
            MetricType::Gauge,
        )?)?;
        unfinished.encode(encoder.encode_descriptor(
            "workqueue_unfinished_work_seconds",
            "Total duration of all running reconciles",
            None,
            MetricType::Gauge,
        )?)
    }
}

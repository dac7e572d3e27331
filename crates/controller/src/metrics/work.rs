//! What a loop counts: its queue, its workers, its passes.

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
        gauge::{ConstGauge, Gauge},
        histogram::{Histogram, exponential_buckets},
    },
    registry::Registry,
};
use tokio::time::Instant;

/// controller-runtime's buckets for the time of a reconcile.
const RECONCILE_BUCKETS: [f64; 40] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9,
    1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 15.0, 20.0,
    25.0, 30.0, 40.0, 50.0, 60.0,
];

/// How a pass over one object ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing more to do until something changes.
    Success,
    /// To be looked at again at a certain time.
    LookAgain,
    /// It failed and is tried again.
    Error,
}

impl Outcome {
    fn result(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::LookAgain => "requeue_after",
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

/// client-go's queues carry both.
#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByQueue {
    name: &'static str,
    controller: &'static str,
}

/// When each pass that is under way began, by loop.
type Running = Arc<Mutex<BTreeMap<&'static str, BTreeMap<u64, Instant>>>>;

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

#[derive(Clone)]
pub(super) struct Families {
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

impl Families {
    pub(super) fn register(registry: &mut Registry) -> Self {
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
        families.register_passes(registry);
        families.register_queues(registry);
        registry.register_collector(Box::new(LongestRunning(families.running.clone())));
        families
    }

    fn register_passes(&self, registry: &mut Registry) {
        registry.register(
            "controller_runtime_reconcile",
            "Passes over an object, by how they ended",
            self.reconciles.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_errors",
            "Passes over an object that failed",
            self.errors.clone(),
        );
        registry.register(
            "controller_runtime_reconcile_time_seconds",
            "How long a pass over an object took",
            self.reconcile_time.clone(),
        );
        registry.register(
            "controller_runtime_active_workers",
            "Passes under way",
            self.active.clone(),
        );
        registry.register(
            "controller_runtime_max_concurrent_reconciles",
            "How many passes may be under way at once",
            self.workers.clone(),
        );
    }

    fn register_queues(&self, registry: &mut Registry) {
        registry.register("workqueue_depth", "Objects that wait", self.depth.clone());
        registry.register(
            "workqueue_adds",
            "Objects that were put into the queue",
            self.adds.clone(),
        );
        registry.register(
            "workqueue_retries",
            "Objects that were put back after a failure",
            self.retries.clone(),
        );
        registry.register(
            "workqueue_queue_duration_seconds",
            "How long an object waited",
            self.waited.clone(),
        );
        registry.register(
            "workqueue_work_duration_seconds",
            "How long an object was worked on",
            self.worked.clone(),
        );
    }

    pub(super) fn of_loop(&self, controller: &'static str, workers: usize) -> LoopMetrics {
        let by_controller = ByController { controller };
        let by_queue = ByQueue {
            name: controller,
            controller,
        };
        let workers = i64::try_from(workers).unwrap_or(i64::MAX);
        self.workers.get_or_create(&by_controller).set(workers);
        self.running.lock().entry(controller).or_default();
        let outcomes = [Outcome::Success, Outcome::LookAgain, Outcome::Error];
        for result in outcomes.map(Outcome::result) {
            drop(
                self.reconciles
                    .get_or_create(&ByResult { controller, result }),
            );
        }
        LoopMetrics {
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

/// What one loop counts. Cloning shares it.
#[derive(Clone)]
pub struct LoopMetrics {
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

impl LoopMetrics {
    /// An object was put into the queue.
    pub fn queued(&self) {
        self.adds.inc();
    }

    /// An object was put back into the queue after a failure.
    pub fn retried(&self) {
        self.retries.inc();
    }

    /// So many objects wait.
    pub fn set_depth(&self, waiting: usize) {
        self.depth.set(i64::try_from(waiting).unwrap_or(i64::MAX));
    }

    /// A pass over an object begins that waited so long. It ends with [`Pass::finish`].
    pub fn begin(&self, waited: Duration) -> Pass {
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
        Pass {
            metrics: self.clone(),
            began,
            number,
        }
    }
}

/// A pass over one object that is under way. Dropped without an outcome it was called off and counts
/// as neither success nor failure.
#[must_use]
pub struct Pass {
    metrics: LoopMetrics,
    began: Instant,
    number: u64,
}

impl Pass {
    /// The pass ended.
    pub fn finish(self, outcome: Outcome) {
        let by_result = ByResult {
            controller: self.metrics.controller,
            result: outcome.result(),
        };
        self.metrics.reconciles.get_or_create(&by_result).inc();
        if outcome == Outcome::Error {
            self.metrics.errors.inc();
        }
        let took = self.began.elapsed().as_secs_f64();
        self.metrics.reconcile_time.observe(took);
        self.metrics.worked.observe(took);
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.metrics.active.dec();
        let mut running = self.metrics.running.lock();
        if let Some(passes) = running.get_mut(self.metrics.controller) {
            passes.remove(&self.number);
        }
    }
}

/// Says at each scrape how long the passes under way have been so.
#[derive(Debug)]
struct LongestRunning(Running);

impl Collector for LongestRunning {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), std::fmt::Error> {
        let running = self.0.lock().clone();
        let ages = |passes: &BTreeMap<u64, Instant>| {
            let ages = passes.values().map(|began| began.elapsed().as_secs_f64());
            ages.collect::<Vec<_>>()
        };
        let longest = Family::<ByQueue, Gauge<f64, AtomicU64>>::default();
        let unfinished = Family::<ByQueue, Gauge<f64, AtomicU64>>::default();
        for (name, passes) in &running {
            let by_queue = ByQueue {
                name,
                controller: name,
            };
            let ages = ages(passes);
            let most = ages.iter().copied().fold(0.0, f64::max);
            longest.get_or_create(&by_queue).set(most);
            unfinished.get_or_create(&by_queue).set(ages.iter().sum());
        }
        longest.encode(encoder.encode_descriptor(
            "workqueue_longest_running_processor_seconds",
            "How long the longest pass under way has been so",
            None,
            MetricType::Gauge,
        )?)?;
        unfinished.encode(encoder.encode_descriptor(
            "workqueue_unfinished_work_seconds",
            "How long all passes under way have been so, together",
            None,
            MetricType::Gauge,
        )?)
    }
}

/// One number without labels, read at the scrape.
pub(super) fn encode_gauge(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    value: f64,
) -> Result<(), std::fmt::Error> {
    let metric = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
    ConstGauge::new(value).encode(metric)
}

//! The figures the operator showed, and those its dashboard reads.
//!
//! Series of triggers and branches that are gone go with them. Labels come from enums and from the
//! names of objects only.

use std::{
    collections::{BTreeSet, HashMap},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use api::trigger::TriggerSourceKind;
use parking_lot::Mutex;
use planner::trigger::Signal;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use tokio::time::Instant;

use super::process::ProcessFigures;

/// The operator's three statuses; one of them is 1.
const STATUSES: [&str; 3] = ["True", "False", "Unknown"];
const BUCKETS: [f64; 9] = [0.000_1, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0];
const QUEUE: &str = "pipelinetrigger";

/// The labels of the operator's gauge, in its order.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EncodeLabelSet)]
struct ConditionLabels {
    kind: &'static str,
    name: String,
    namespace: String,
    sourcekind: String,
    repo: String,
    r#type: String,
    status: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    method: &'static str,
    code: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabels {
    name: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ErrorLabels {
    controller: &'static str,
    reason: &'static str,
}

/// The figures. Cloning shares them.
#[derive(Clone)]
pub struct Metrics(Arc<Inner>);

struct Inner {
    condition: Family<ConditionLabels, Gauge>,
    calls: Family<CallLabels, Counter>,
    all_calls: AtomicU64,
    work: Family<QueueLabels, Histogram, fn() -> Histogram>,
    longest: Family<QueueLabels, Gauge<f64, AtomicU64>>,
    errors: Family<ErrorLabels, Counter>,
    shown: Mutex<HashMap<(String, String), BTreeSet<ConditionLabels>>>,
    running: Mutex<Vec<Instant>>,
}

impl Default for Metrics {
    fn default() -> Self {
        let histogram: fn() -> Histogram = || Histogram::new(BUCKETS);
        Self(Arc::new(Inner {
            condition: Family::default(),
            calls: Family::default(),
            all_calls: AtomicU64::new(0),
            work: Family::new_with_constructor(histogram),
            longest: Family::default(),
            errors: Family::default(),
            shown: Mutex::default(),
            running: Mutex::default(),
        }))
    }
}

impl Metrics {
    /// Registers what no other loop counts.
    pub(crate) fn register_own(&self, registry: &mut Registry) {
        registry.register(
            "pipelinetrigger_reconcile_condition",
            "How the newest run of a trigger is doing",
            self.0.condition.clone(),
        );
    }

    /// Registers everything, for a process that runs this loop alone.
    pub fn register(&self, registry: &mut Registry) {
        let inner = &self.0;
        registry.register(
            "pipelinetrigger_reconcile_condition",
            "How the newest run of a trigger is doing",
            inner.condition.clone(),
        );
        registry.register(
            "workqueue_work_duration_seconds",
            "How long reconciling one object took",
            inner.work.clone(),
        );
        registry.register(
            "workqueue_longest_running_processor_seconds",
            "How long the longest reconcile under way has taken so far",
            inner.longest.clone(),
        );
        registry.register(
            "rest_client_requests",
            "Calls to the API server by method and status code",
            inner.calls.clone(),
        );
        registry.register_collector(Box::new(ProcessFigures));
        registry.register(
            "controller_runtime_reconcile_errors",
            "Reconciles that could not do their job",
            inner.errors.clone(),
        );
    }

    pub(super) fn count_call(&self, method: &'static str, code: u16) {
        let labels = CallLabels { method, code };
        self.0.calls.get_or_create(&labels).inc();
        self.0.all_calls.fetch_add(1, Ordering::Relaxed);
    }

    /// How many calls have been made.
    pub fn calls(&self) -> u64 {
        self.0.all_calls.load(Ordering::Relaxed)
    }

    pub(super) fn count_error(&self, reason: &'static str) {
        let labels = ErrorLabels {
            controller: QUEUE,
            reason,
        };
        self.0.errors.get_or_create(&labels).inc();
    }

    pub(super) fn time_reconcile(&self) -> Timer {
        let started = Instant::now();
        self.0.running.lock().push(started);
        Timer {
            metrics: self.clone(),
            started,
        }
    }

    /// Shows a trigger's signals and nothing else of it.
    pub(super) fn show(
        &self,
        namespace: &str,
        name: &str,
        kind: TriggerSourceKind,
        signals: &[Signal],
    ) {
        let key = (namespace.to_owned(), name.to_owned());
        let mut shown = self.0.shown.lock();
        let before = shown.remove(&key).unwrap_or_default();
        let mut now = BTreeSet::new();
        for signal in signals {
            for status in STATUSES {
                let labels = ConditionLabels {
                    kind: "PipelineTrigger",
                    name: name.to_owned(),
                    namespace: namespace.to_owned(),
                    sourcekind: format!("{kind:?}"),
                    repo: signal.repository.clone(),
                    r#type: signal.type_.clone(),
                    status,
                };
                let value = i64::from(signal.status == status);
                self.0.condition.get_or_create(&labels).set(value);
                now.insert(labels);
            }
        }
        for labels in before.difference(&now) {
            self.0.condition.remove(labels);
        }
        shown.insert(key, now);
    }

    pub(super) fn forget(&self, namespace: &str, name: &str) {
        let key = (namespace.to_owned(), name.to_owned());
        let gone = self.0.shown.lock().remove(&key);
        for labels in gone.into_iter().flatten() {
            self.0.condition.remove(&labels);
        }
    }
}

/// Ends with the reconcile it times.
pub(super) struct Timer {
    metrics: Metrics,
    started: Instant,
}

impl Drop for Timer {
    fn drop(&mut self) {
        let inner = &self.metrics.0;
        let labels = QueueLabels { name: QUEUE };
        let took = self.started.elapsed().as_secs_f64();
        inner.work.get_or_create(&labels).observe(took);
        let mut running = inner.running.lock();
        if let Some(at) = running.iter().position(|started| *started == self.started) {
            running.swap_remove(at);
        }
        let longest = running.iter().min().map(Instant::elapsed);
        let longest = longest.unwrap_or_default().as_secs_f64();
        inner.longest.get_or_create(&labels).set(longest);
    }
}

//! What the process counts and measures.
//!
//! Names are controller-runtime's where dashboards expect them, and `sluice_…` for our own. Labels
//! are fixed words, never text from an object. Counting never fails and never waits for anything.

mod process;
mod promotions;
mod requests;
pub(crate) mod rollouts;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use runtime::{WorkerMetrics, events::EventMetrics, worker_metrics::WorkerMetricFamilies};
use tokio::time::Instant;

pub use promotions::Promotions;
pub use requests::{CountRequests, RequestsLayer};

/// Everything that is counted and measured. Cloning shares it.
#[derive(Clone)]
pub struct Metrics(Arc<MetricSet>);

struct MetricSet {
    registry: Registry,
    work: WorkerMetricFamilies,
    requests: requests::Requests,
    leading: Family<ByName, Gauge>,
    targets: Family<ByState, Gauge>,
    oldest_observation: Arc<Mutex<Option<Instant>>>,
    leaf_event_to_status: Histogram,
    events: EventMetrics,
    promotions: Promotions,
    rollouts: rollouts::Rollouts,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByName {
    name: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByState {
    state: &'static str,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All of them, at zero.
    pub fn new() -> Self {
        Self::beside(Registry::default())
    }

    /// All of them, at zero, on one page with what others have registered.
    pub fn beside(mut registry: Registry) -> Self {
        let work = WorkerMetricFamilies::register(&mut registry);
        let requests = requests::Requests::register(&mut registry);
        let leading = Family::<ByName, Gauge>::default();
        registry.register(
            "leader_election_master_status",
            "Whether this process leads (1) or stands by (0), by Lease",
            leading.clone(),
        );
        let targets = Family::<ByState, Gauge>::default();
        registry.register("sluice_targets", "Targets, by state", targets.clone());
        let leaf_event_to_status = Histogram::new(LATENCY_BUCKETS);
        registry.register(
            "sluice_leaf_event_to_status_seconds",
            "From a change in a leaf cluster to the pipeline's status that shows it",
            leaf_event_to_status.clone(),
        );
        let events = EventMetrics::register(&mut registry);
        let oldest_observation = Arc::default();
        registry.register_collector(Box::new(process::Process::new(&oldest_observation)));
        Self(Arc::new(MetricSet {
            promotions: Promotions::register(&mut registry),
            rollouts: rollouts::Rollouts::register(&mut registry),
            registry,
            work,
            requests,
            leading,
            targets,
            oldest_observation,
            leaf_event_to_status,
            events,
        }))
    }

    /// What is counted about promotions.
    pub fn promotions(&self) -> &Promotions {
        &self.0.promotions
    }

    /// What is counted about rollouts.
    pub(crate) fn rollouts(&self) -> &rollouts::Rollouts {
        &self.0.rollouts
    }

    /// The metrics of one controller, which also names its queue.
    pub fn of_controller(&self, controller: &'static str, workers: usize) -> WorkerMetrics {
        self.0.work.of_controller(controller, workers)
    }

    /// Counts the requests of a client to `host`; goes into the client's stack as a layer.
    pub fn count_requests(&self, host: &str) -> RequestsLayer {
        self.0.requests.layer(host)
    }

    /// Whether this process leads by that Lease.
    pub fn set_leading(&self, lease: &str, leads: bool) {
        let name = ByName {
            name: lease.to_owned(),
        };
        self.0.leading.get_or_create(&name).set(i64::from(leads));
    }

    /// How many targets are in a state.
    pub fn set_targets(&self, state: &'static str, count: usize) {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.0.targets.get_or_create(&ByState { state }).set(count);
    }

    /// When the target that was seen longest ago was last seen; none if there are no targets.
    pub fn set_oldest_observation(&self, seen: Option<Instant>) {
        *self.0.oldest_observation.lock() = seen;
    }

    /// How long a change in a leaf took until the pipeline's status showed it.
    pub fn observe_leaf_event_to_status(&self, took: Duration) {
        self.0.leaf_event_to_status.observe(took.as_secs_f64());
    }

    /// Counts events that could not be delivered.
    pub fn events(&self) -> &EventMetrics {
        &self.0.events
    }

    /// The metrics page, in OpenMetrics text.
    pub fn page(&self) -> String {
        let mut page = String::new();
        // Writing to a String cannot fail, but a collector's numbers might not format.
        if let Err(error) = text::encode(&mut page, &self.0.registry) {
            tracing::error!(%error, "the metrics page is incomplete");
        }
        page
    }
}

/// From what feels like at once to what somebody would complain about.
const LATENCY_BUCKETS: [f64; 14] = [
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
];

//! Counts events that could not be delivered.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct BySink {
    sink: &'static str,
}

/// Counts lost events by where they were to be delivered. Cloning shares it.
#[derive(Clone, Default)]
pub struct EventMetrics(Family<BySink, Counter>);

impl EventMetrics {
    /// Registers the counters, at zero.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        // The library itself appends _total to counters.
        registry.register(
            "sluice_events_lost",
            "Events that could not be delivered, by sink",
            metrics.0.clone(),
        );
        metrics
    }

    /// An event could not be delivered to a sink.
    pub fn count_lost(&self, sink: &'static str) {
        self.0.get_or_create(&BySink { sink }).inc();
    }
}

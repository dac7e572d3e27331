//! What is counted of calls. Labels are fixed words and codes, never text from a call.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

/// What the door counts. Cloning shares it.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    hooks: Family<Call, Counter>,
    requests: Family<Call, Counter>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Call {
    route: &'static str,
    code: u16,
}

impl Metrics {
    /// All of them, registered, at zero.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        // The library itself appends _total to counters.
        registry.register(
            "sluice_hooks",
            "Calls of hooks, by route and the code of the answer",
            metrics.hooks.clone(),
        );
        registry.register(
            "sluice_rest_requests",
            "Calls of REST, by method and the code of the answer",
            metrics.requests.clone(),
        );
        metrics
    }

    pub(crate) fn count_hook(&self, route: &'static str, code: u16) {
        self.hooks.get_or_create(&Call { route, code }).inc();
    }

    pub(crate) fn count_request(&self, route: &'static str, code: u16) {
        self.requests.get_or_create(&Call { route, code }).inc();
    }
}

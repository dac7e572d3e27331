//! Metrics of the server. Labels are fixed words and status codes, never text from a request.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

/// The metrics of the server. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    hooks: Family<RequestLabels, Counter>,
    requests: Family<RequestLabels, Counter>,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    route: &'static str,
    code: u16,
}

impl Metrics {
    /// Registers all metrics at zero.
    pub fn register(registry: &mut Registry) -> Self {
        let metrics = Self::default();
        // The library appends _total to counters.
        registry.register(
            "sluice_hooks",
            "Webhook requests by route and response code",
            metrics.hooks.clone(),
        );
        registry.register(
            "sluice_rest_requests",
            "REST requests by method and response code",
            metrics.requests.clone(),
        );
        metrics
    }

    pub(crate) fn count_hook(&self, route: &'static str, code: u16) {
        self.hooks
            .get_or_create(&RequestLabels { route, code })
            .inc();
    }

    pub(crate) fn count_request(&self, route: &'static str, code: u16) {
        self.requests
            .get_or_create(&RequestLabels { route, code })
            .inc();
    }
}

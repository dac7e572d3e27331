//! What every reconciler has: the hub, its caches, the settings, a clock, and where it writes and reports.
//!
//! A reconciler dereferences to it, so that its steps read `reconciler.clock` and `reconciler.caches`.

use std::sync::Arc;

use kube::Client;
use runtime::{Clock, LeaderGuard, StatusWriter};

use crate::{
    Caches, Context, FIELD_MANAGER, Metrics, Settings,
    strategy::{self, Strategies},
    telemetry::Telemetry,
};

/// The part that all reconcilers share.
pub struct ReconcilerBase {
    pub(crate) hub: Client,
    pub(crate) status: StatusWriter,
    pub(crate) settings: Arc<Settings>,
    pub(crate) clock: Clock,
    pub(crate) caches: Caches,
    pub(crate) telemetry: Telemetry,
    /// Whether the reconciler itself feeds the caches it uses.
    feeds_caches: bool,
}

impl ReconcilerBase {
    /// Of a reconciler on its own, with caches and metrics of its own. It writes only while `leader`
    /// leads.
    pub(crate) fn alone(hub: Client, settings: Settings, leader: LeaderGuard) -> Self {
        let telemetry = Telemetry::alone().led_by(leader);
        Self {
            feeds_caches: true,
            ..Self::with(hub, Arc::new(settings), Caches::new(), telemetry)
        }
    }

    /// Of a reconciler of the process.
    pub(crate) fn of(context: &Context) -> Self {
        let (hub, settings) = (context.client.clone(), context.settings.clone());
        let caches = context.caches.clone();
        Self::with(hub, settings, caches, Telemetry::of(context))
    }

    fn with(hub: Client, settings: Arc<Settings>, caches: Caches, telemetry: Telemetry) -> Self {
        let leader = telemetry.leader.clone();
        Self {
            status: StatusWriter::new(hub.clone(), leader, FIELD_MANAGER),
            hub,
            settings,
            clock: Clock::start(),
            caches,
            telemetry,
            feeds_caches: false,
        }
    }

    /// Repositories and forges of the reconciler's own.
    pub(crate) fn strategies(&self) -> Result<Arc<Strategies>, strategy::Error> {
        let (hub, leader) = (self.hub.clone(), self.telemetry.leader.clone());
        Strategies::new(hub, &self.settings, leader, &self.telemetry.metrics).map(Arc::new)
    }

    /// Its metrics.
    pub fn metrics(&self) -> &Metrics {
        &self.telemetry.metrics
    }

    /// Feeds the caches if nothing else does, until dropped.
    pub(crate) fn feed_caches(&self) -> impl Future<Output = ()> + Send + 'static {
        let watch = self
            .feeds_caches
            .then(|| self.caches.clone().watch(self.hub.clone(), &self.settings));
        async move {
            if let Some(watch) = watch {
                watch.await;
            }
        }
    }
}

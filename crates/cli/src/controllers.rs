//! Runs all controllers of the process: those of `controller` and the one of PipelineTriggers. The HTTP
//! server reads the same caches: there is one watch per kind and process.

use std::sync::Arc;

use api::PipelineTrigger;
use controller::{Caches, Context, Metrics, Settings, controllers::Controller, run::ProcessParts};
use kube::Client;
use runtime::ObjectCache;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use trigger::controller::{NAME, TriggerContext, TriggerMetrics, TriggerSettings};

/// The caches for the HTTP server: those of the reconcilers, and one of PipelineTriggers, which the
/// controller of triggers reads too.
pub(crate) fn server_caches(
    caches: &Caches,
    client: &Client,
    settings: &Settings,
    stop: &CancellationToken,
) -> server::Caches {
    server::Caches {
        pipelines: caches.pipelines.clone(),
        promotions: caches.promotions.clone(),
        changes: caches.changes.clone(),
        freezes: caches.freezes.clone(),
        check_runs: caches.check_runs.clone(),
        clusters: caches.clusters.clone(),
        triggers: server::caches::watched_triggers(client, settings.namespace.as_deref(), stop),
    }
}

/// Runs all controllers until `shutdown`.
pub(crate) async fn run(
    client: Client,
    settings: Settings,
    (caches, cache_watch): (Caches, AbortOnDropHandle<()>),
    triggers: Arc<ObjectCache<PipelineTrigger>>,
    metrics: (Metrics, TriggerMetrics),
    shutdown: CancellationToken,
) -> Result<(), controller::run::Error> {
    let (metrics, trigger_metrics) = metrics;
    let mut controllers = controller::controllers::all();
    controllers.push(Controller::new("trigger", move |context| {
        let triggers = (triggers.clone(), trigger_metrics.clone());
        trigger::controller::run(trigger_context(context, triggers))
    }));
    let process = ProcessParts {
        client,
        settings,
        caches,
        cache_watch,
        metrics,
    };
    process.run(shutdown, controllers).await
}

fn trigger_context(
    context: Context,
    (triggers, metrics): (Arc<ObjectCache<PipelineTrigger>>, TriggerMetrics),
) -> TriggerContext {
    let settings = &context.settings;
    let filter = settings.flux_events.clone();
    let flux = settings.events_address.clone();
    TriggerContext {
        settings: TriggerSettings {
            namespace: settings.namespace.clone(),
            label_selector: settings.label_selector.clone(),
            concurrency: settings.concurrent,
            election: settings.election.clone(),
            flux: flux.map(|address| (address, filter)),
        },
        worker_metrics: context.metrics.of_controller(NAME, settings.concurrent),
        event_metrics: context.metrics.events().clone(),
        client: context.client,
        triggers,
        leader: context.leader,
        metrics,
        health: context.health,
        stop: context.stop,
    }
}

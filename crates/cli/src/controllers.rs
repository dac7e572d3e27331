//! Runs all controllers of the process: those of `controller` and the one of PipelineTriggers.

use controller::{Caches, Context, Metrics, Settings, loops::Loop, run::ProcessParts};
use kube::Client;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use trigger::controller::{NAME, TriggerContext, TriggerMetrics, TriggerSettings};

/// Runs all controllers until `shutdown`.
pub(crate) async fn run(
    client: Client,
    settings: Settings,
    metrics: (Metrics, TriggerMetrics),
    shutdown: CancellationToken,
) -> Result<(), controller::run::Error> {
    let (metrics, trigger_metrics) = metrics;
    let mut controllers = controller::loops::all();
    controllers.push(Loop::new("trigger", move |context| {
        trigger::controller::run(trigger_context(context, trigger_metrics.clone()))
    }));
    let caches = Caches::new();
    let watching = caches
        .clone()
        .watch(client.clone(), settings.namespace.clone());
    let _watching = AbortOnDropHandle::new(runtime::spawn(watching));
    let process = ProcessParts {
        client,
        settings,
        caches,
        metrics,
    };
    process.run(shutdown, controllers).await
}

fn trigger_context(context: Context, metrics: TriggerMetrics) -> TriggerContext {
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
        leader: context.leader,
        metrics,
        health: context.health,
        stop: context.stop,
    }
}

//! `sluice controller`: validates the flags, starts logging, connects to the hub, starts the HTTP server
//! and runs the reconcilers until a signal. Every replica runs the HTTP server; only the leader runs the
//! reconcilers.

pub(crate) mod logs;
mod selector;
pub(crate) mod server_settings;
pub(crate) mod settings;
pub(crate) mod signals;

use anyhow::Context;
use controller::{Caches, Metrics};
use kube::{Config, client::ClientBuilder};
use prometheus_client::registry::Registry;
use trigger::controller::TriggerMetrics;

use crate::{
    args::controller::Arguments, controllers, kubeconfig, leaf_connector::leaf_connector,
    listen_error,
};

/// The flag that sets each listen address.
const FLAGS: listen_error::AddressFlags<'_> = &[
    ("hooks", "--promotion-hook-bind-address"),
    ("REST", "--rest-bind-address"),
    ("probes", "--health-probe-bind-address"),
    ("metrics", "--metrics-bind-address"),
];

/// Runs the controller.
pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    settings::refuse_second_cluster(arguments)?;
    logs::start(settings::logging(arguments));
    for warning in settings::without_effect(arguments) {
        tracing::warn!("{warning}");
    }
    let config = kubeconfig::load(arguments.kubeconfig.as_deref()).await?;
    let settings = settings::check(arguments, &config.default_namespace)?;
    let mut server_settings = server_settings::check(arguments, &settings)?;
    server_settings.oidc = arguments.oidc.check(
        settings.dashboard_url.as_deref(),
        settings.allow_internal_urls,
        settings.proxy.clone(),
    )?;
    let mut registry = Registry::default();
    let calls = server::Metrics::register(&mut registry);
    let trigger_metrics = TriggerMetrics::register(&mut registry);
    let metrics = Metrics::beside(registry);
    let client = client(config, &metrics)?;
    server_settings.leaf_connector = leaf_connector(&client, settings.kubeconfigs);
    let shutdown = signals::shutdown().context("cannot listen for signals")?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "starting");
    let stop = shutdown.child_token();
    let caches = Caches::watched(&client, &settings);
    let server_caches = controllers::server_caches(&caches.0, &client, &settings, &stop);
    let triggers = server_caches.triggers.clone();
    let serving = server::start_with_caches(
        client.clone(),
        server_caches,
        server_settings,
        calls,
        stop.clone(),
    )
    .await;
    let serving = serving.map_err(|error| listen_error::of_server(error, FLAGS))?;
    let outcome = controllers::run(
        client,
        settings,
        caches,
        triggers,
        (metrics, trigger_metrics),
        shutdown,
    )
    .await;
    stop.cancel();
    serving.ended().await;
    outcome.map_err(|error| listen_error::of_controller(error, FLAGS))?;
    tracing::info!("stopped");
    Ok(())
}

fn client(config: Config, metrics: &Metrics) -> anyhow::Result<kube::Client> {
    let host = config.cluster_url.authority().map(ToString::to_string);
    let count = metrics.count_requests(&host.unwrap_or_default());
    let builder = ClientBuilder::try_from(config).context("cannot create the Kubernetes client")?;
    Ok(builder.with_layer(&count).build())
}

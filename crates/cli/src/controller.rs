//! `sluice controller`: reads the settings, starts logging, connects, opens the door and runs the
//! loops until it is told to stop. The door is open on every replica, whoever leads.

pub(crate) mod door;
pub(crate) mod logs;
mod selector;
mod settings;
pub(crate) mod signals;

use anyhow::Context;
use controller::Metrics;
use kube::{Config, client::ClientBuilder};
use prometheus_client::registry::Registry;

use crate::{args::controller::Arguments, kubeconfig, reach::reach, sockets};

/// Which flags choose the addresses of the sockets.
const FLAGS: sockets::Flags<'_> = &[
    ("hooks", "--promotion-hook-bind-address"),
    ("REST", "--rest-bind-address"),
    ("probes", "--health-probe-bind-address"),
    ("metrics", "--metrics-bind-address"),
];

/// Runs the controller.
pub(crate) async fn run(arguments: &Arguments) -> anyhow::Result<()> {
    settings::refuse_what_cannot_work(arguments)?;
    logs::start(settings::logging(arguments));
    for warning in settings::without_effect(arguments) {
        tracing::warn!("{warning}");
    }
    // TLS needs to be told whose cryptography to use before the first connection.
    drop(rustls::crypto::ring::default_provider().install_default());
    let config = kubeconfig::load(arguments.kubeconfig.as_deref()).await?;
    let settings = settings::check(arguments, &config.default_namespace)?;
    let mut door = door::check(arguments, settings.authoring.as_ref())?;
    let mut registry = Registry::default();
    let calls = server::Metrics::register(&mut registry);
    let metrics = Metrics::beside(registry);
    let client = client(config, &metrics)?;
    door.reach = reach(&client, settings.kubeconfigs);
    let shutdown = signals::shutdown().context("cannot listen for signals")?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), "starting");
    let stop = shutdown.child_token();
    let serving = server::start(client.clone(), door, calls, stop.clone()).await;
    let serving = serving.map_err(|error| sockets::of_server(error, FLAGS))?;
    let outcome = controller::run(client, settings, metrics, shutdown).await;
    stop.cancel();
    serving.ended().await;
    outcome.map_err(|error| sockets::of_controller(error, FLAGS))?;
    tracing::info!("ended");
    Ok(())
}

fn client(config: Config, metrics: &Metrics) -> anyhow::Result<kube::Client> {
    let host = config.cluster_url.authority().map(ToString::to_string);
    let count = metrics.count_requests(&host.unwrap_or_default());
    let builder = ClientBuilder::try_from(config).context("cannot set up the connection")?;
    Ok(builder.with_layer(&count).build())
}

//! The controller process: checks the installed CRDs, serves probes and metrics, takes part in leader
//! election, and runs the controllers while it is the leader.
//!
//! Controllers stop before the Lease is released, so that two leaders never overlap. Losing the Lease
//! stops the controllers, not the process.

mod elections;
#[cfg(test)]
mod tests;

use std::{collections::HashMap, io, net::SocketAddr, sync::Arc, time::Duration};

use kube::Client;
use tokio::{
    task::{Id, JoinError, JoinHandle, JoinSet},
    time::{sleep, timeout},
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};
use tracing::{error, info, warn};

use crate::{
    Caches, EVENT_SOURCE, Metrics, Settings,
    controllers::{Context, Controller, ControllerError},
    installed,
};
use elections::Elections;
use runtime::{
    EventRecorder, Health,
    events::EventReporter,
    health::{self},
};

/// How often definitions that lack something are looked at again.
const DEFINITIONS_AGAIN: Duration = Duration::from_secs(15);
/// How long controllers may take to stop after the Lease is lost. Less than what is left of it then.
const GRACE_AFTER_LOSS: Duration = Duration::from_millis(500);
/// How long the last events may take.
const LAST_EVENTS: Duration = Duration::from_secs(2);

/// Why the process ended although nobody asked it to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A port is taken or may not be used.
    #[error("cannot listen on {address} for {purpose}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What for.
        purpose: &'static str,
        /// Why.
        source: io::Error,
    },
    /// Events cannot be sent to Flux.
    #[error("cannot set up sending events")]
    Events(#[source] net::AddressError),
    /// A controller ended by itself. A restart may help.
    #[error("the controller {name} ended unexpectedly")]
    ControllerEnded {
        /// The controller.
        name: &'static str,
        /// Why, if it said so.
        source: Option<ControllerError>,
    },
}

/// Runs every reconciler until `shutdown`, with caches of its own.
pub async fn run(
    client: Client,
    settings: Settings,
    metrics: Metrics,
    shutdown: CancellationToken,
) -> Result<(), Error> {
    run_controllers(
        client,
        settings,
        metrics,
        shutdown,
        crate::controllers::all(),
    )
    .await
}

/// Runs these reconcilers until `shutdown`, with caches of their own.
pub async fn run_controllers(
    client: Client,
    settings: Settings,
    metrics: Metrics,
    shutdown: CancellationToken,
    controllers: Vec<Controller>,
) -> Result<(), Error> {
    let (caches, cache_watch) = Caches::watched(&client, &settings);
    let process = ProcessParts {
        client,
        settings,
        caches,
        cache_watch,
        metrics,
    };
    process.run(shutdown, controllers).await
}

/// What the process consists of before it runs.
pub struct ProcessParts {
    /// The hub.
    pub client: Client,
    /// The settings of the process.
    pub settings: Settings,
    /// The caches, which others may share.
    pub caches: Caches,
    /// Feeds the caches until it is dropped.
    pub cache_watch: AbortOnDropHandle<()>,
    /// The metrics of the process.
    pub metrics: Metrics,
}

impl ProcessParts {
    /// Runs these reconcilers until `shutdown`.
    pub async fn run(
        self,
        shutdown: CancellationToken,
        controllers: Vec<Controller>,
    ) -> Result<(), Error> {
        let Self {
            client,
            settings,
            caches,
            cache_watch,
            metrics,
        } = self;
        let health = Health::new(settings.stall_after);
        let servers = CancellationToken::new();
        let _servers = servers.clone().drop_guard();
        serve(&settings, &health, &metrics, &servers).await?;

        tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(()),
            () = check_definitions(&client, &health, &settings) => {}
        }
        let (reporter, flux) = (reporter(&settings), settings.flux());
        let (events, deliveries) =
            EventRecorder::start(client.clone(), reporter, flux, metrics.events().clone())
                .map_err(Error::Events)?;
        let elections = Elections::start(&client, &settings);
        let context = Context {
            client,
            settings: Arc::new(settings),
            metrics,
            events,
            leader: elections.leader.clone(),
            caches,
            health,
            stop: shutdown,
        };
        let outcome = tokio::select! {
            biased;
            outcome = run_while_leader(&context, &controllers) => outcome,
            // With caches that nothing feeds the process would see nothing any more.
            ended = cache_watch => Err(Error::ControllerEnded {
                name: "caches",
                source: ended.err().map(ControllerError::from),
            }),
        };
        drop(context);
        elections.release().await;
        deliver_last_events(deliveries).await;
        outcome
    }
}

async fn serve(
    settings: &Settings,
    health: &Health,
    metrics: &Metrics,
    stop: &CancellationToken,
) -> Result<(), Error> {
    let probes = health::probes(health.clone());
    let page = {
        let metrics = metrics.clone();
        health::metrics_page(move || metrics.page())
    };
    let servers = [
        (settings.probe_address, "probes", probes),
        (settings.metrics_address, "metrics", page),
    ];
    for (address, purpose, router) in servers {
        let Some(address) = address else { continue };
        let bound = health::serve(address, router, stop.clone())
            .await
            .map_err(|source| Error::Listen {
                address,
                purpose,
                source,
            })?;
        info!(address = %bound, purpose, "listening");
    }
    Ok(())
}

/// Returns once the installed definitions have every field of ours, or nobody lets us see them.
async fn check_definitions(client: &Client, health: &Health, settings: &Settings) {
    let known = settings.replacements.definitions.clone();
    loop {
        let compared = match &known {
            Some(known) => installed::compare_with(client, known).await,
            None => installed::compare(client).await,
        };
        let obstacle = match compared {
            Ok(lacking) if lacking.is_empty() => return health.set_not_ready(None),
            Ok(lacking) => lacking.to_string(),
            Err(forbidden @ installed::Error::Forbidden { .. }) => {
                warn!(%forbidden, "cannot check whether the installed CustomResourceDefinitions are recent enough");
                return health.set_not_ready(None);
            }
            Err(error) => match std::error::Error::source(&error) {
                Some(cause) => format!("{error}: {cause}"),
                None => error.to_string(),
            },
        };
        error!(reason = %obstacle, "will not lead: the CustomResourceDefinitions are outdated");
        health.set_not_ready(Some(obstacle));
        sleep(DEFINITIONS_AGAIN).await;
    }
}

fn reporter(settings: &Settings) -> EventReporter {
    let election = settings.election.as_ref();
    EventReporter {
        controller: EVENT_SOURCE.to_owned(),
        instance: election.map_or(EVENT_SOURCE.to_owned(), |election| {
            election.identity.clone()
        }),
    }
}

/// Runs the controllers each time this process leads, until it is told to stop or one of them ends.
async fn run_while_leader(context: &Context, controllers: &[Controller]) -> Result<(), Error> {
    let lease = elections::name(&context.settings);
    loop {
        set_leading(context, lease, false);
        tokio::select! {
            biased;
            () = context.stop.cancelled() => return Ok(()),
            () = context.leader.acquired() => {}
        }
        set_leading(context, lease, true);
        let outcome = lead(context, controllers).await;
        set_leading(context, lease, false);
        outcome?;
    }
}

fn set_leading(context: &Context, lease: Option<&str>, leads: bool) {
    if let Some(lease) = lease {
        context.metrics.set_leading(lease, leads);
    }
}

/// Runs the controllers until it no longer leads, the process is told to stop, or one of them ends.
async fn lead(context: &Context, controllers: &[Controller]) -> Result<(), Error> {
    let stop = context.stop.child_token();
    let mut running = JoinSet::new();
    let mut names = HashMap::new();
    for each in controllers {
        let context = Context {
            stop: stop.clone(),
            ..context.clone()
        };
        names.insert(running.spawn(each.start(context)).id(), each.name);
    }
    info!(controllers = controllers.len(), "started the controllers");
    let (grace, outcome) = tokio::select! {
        biased;
        () = context.stop.cancelled() => (context.settings.grace, Ok(())),
        () = context.leader.lost() => (GRACE_AFTER_LOSS, Ok(())),
        Some(ended) = running.join_next_with_id() => {
            (context.settings.grace, Err(ended_on_its_own(ended, &names)))
        }
    };
    stop.cancel();
    let all_end = async { while running.join_next().await.is_some() {} };
    if timeout(grace, all_end).await.is_err() {
        warn!("aborted the controllers that did not stop in time");
        running.shutdown().await;
    }
    info!("stopped the controllers");
    outcome
}

fn ended_on_its_own(
    ended: Result<(Id, Result<(), ControllerError>), JoinError>,
    names: &HashMap<Id, &'static str>,
) -> Error {
    let (id, source) = match ended {
        Ok((id, outcome)) => (id, outcome.err()),
        Err(panic) => (panic.id(), Some(panic.into())),
    };
    let name = names.get(&id).copied().unwrap_or("without a name");
    Error::ControllerEnded { name, source }
}

/// Delivers the last events, within a time limit.
async fn deliver_last_events(deliveries: Vec<JoinHandle<()>>) {
    let delivered = futures::future::join_all(deliveries);
    if timeout(LAST_EVENTS, delivered).await.is_err() {
        warn!("could not deliver the last events in time");
    }
}

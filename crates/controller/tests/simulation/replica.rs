//! One replica of Sluice: the whole process with all its controllers and its server, again and again.

use std::{sync::Arc, time::Duration};

use axum::body::Body;
use controller::{Caches, Connector, Metrics, Replacements, Settings, run::ProcessParts};
use futures::FutureExt;
use http::{Method, Request, StatusCode};
use runtime::leader::{LeaderElection, LeaseTiming};
use serde_json::Value;
use tempfile::TempDir;
use tokio::{task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

use crate::{
    cluster_client,
    forge::{ForgeTransport, HOST},
    git_executor::{Disk, InProcessGit},
    link::{Destination, Link},
    watchdog::LEASE,
    world::{DEFINITIONS, PERSON_TOKEN, World},
};

/// A replica and what outlives its processes.
pub(crate) struct Replica {
    number: usize,
    starts: usize,
    disk: Arc<Disk>,
    folder: TempDir,
    process: Option<Process>,
    restart_at: Option<Instant>,
}

struct Process {
    link: Arc<Link>,
    task: JoinHandle<()>,
    stop: CancellationToken,
    rest: axum::Router,
    hooks: axum::Router,
}

impl Process {
    /// Ends it wherever it is.
    fn kill(&self, how: &str) {
        self.link.die(how);
        self.task.abort();
        self.stop.cancel();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.link.die("with the run");
        self.task.abort();
        self.stop.cancel();
    }
}

impl Replica {
    pub(crate) fn new(number: usize) -> Self {
        Self {
            number,
            starts: 0,
            disk: Arc::default(),
            folder: tempfile::tempdir().unwrap(),
            process: None,
            restart_at: None,
        }
    }

    pub(crate) fn link(&self) -> Option<&Arc<Link>> {
        let process = self.process.as_ref()?;
        process.link.is_alive().then_some(&process.link)
    }

    pub(crate) fn kill(&mut self, how: &str) {
        if let Some(process) = &self.process {
            process.kill(how);
        }
    }

    /// Starts the process if it is not running and was not for a while.
    pub(crate) async fn keep_running(&mut self, world: &World) {
        let has_ended = |process: &Process| !process.link.is_alive() || process.task.is_finished();
        if self.process.as_ref().is_some_and(has_ended) {
            if let Some(process) = self.process.take() {
                process.kill("by itself");
            }
            self.restart_at = Some(Instant::now() + world.dice.seconds(90));
        }
        let is_due = self.restart_at.is_none_or(|at| at <= Instant::now());
        if self.process.is_none() && is_due {
            self.start(world);
        }
    }

    fn start(&mut self, world: &World) {
        self.starts += 1;
        let name = format!("replica{}.{}", self.number + 1, self.starts);
        let dice = world.dice.clone();
        let link = Link::new(name, dice, world.story.clone(), world.weather.clone());
        let link = Arc::new(link);
        world.story.tell(link.name(), "starts");
        let client = cluster_client::client(&world.hub_server, Destination::Hub, &link);
        let settings = self.settings(world, &link);
        let (caches, cache_watch) = Caches::watched(&client, &settings);
        let stop = CancellationToken::new();
        let (rest, hooks) = routers(&client, &caches, &stop);
        let process = ProcessParts {
            client,
            settings,
            caches,
            cache_watch,
            metrics: Metrics::new(),
        };
        let (story, who) = (world.story.clone(), link.name().to_owned());
        let (shutdown, ended) = (stop.clone(), link.clone());
        let task = tokio::spawn(async move {
            let outcome = process.run(shutdown, controller::controllers::all()).await;
            if ended.is_alive() {
                story.tell(&who, format!("ends: {outcome:?}"));
            }
        });
        self.process = Some(Process {
            link,
            task,
            stop,
            rest,
            hooks,
        });
    }

    fn settings(&self, world: &World, link: &Arc<Link>) -> Settings {
        let seconds = Duration::from_secs;
        let timing = LeaseTiming::new(seconds(60), seconds(40), seconds(20)).unwrap();
        Settings {
            // Resolves no host name, because the proxy would.
            proxy: Some(net::Proxy::new("https://proxy.example", "").unwrap()),
            git_folder: Some(self.folder.path().to_owned()),
            concurrent: 2,
            check_hosts: net::HostPatterns::parse([HOST]).unwrap(),
            election: Some(LeaderElection {
                namespace: "default".to_owned(),
                name: LEASE.to_owned(),
                identity: link.name().to_owned(),
                timing,
            }),
            replacements: Replacements {
                git_executor: Some(Arc::new(InProcessGit {
                    forge: world.forge.clone(),
                    disk: self.disk.clone(),
                    link: link.clone(),
                })),
                http_transport: Some(Arc::new(ForgeTransport {
                    forge: world.forge.clone(),
                    link: link.clone(),
                })),
                leaf_connector: Some(connector(world, link)),
                seed: Some(world.dice.below(u64::MAX)),
                definitions: Some(DEFINITIONS.clone()),
                probe_interval: Some(seconds(60)),
            },
            ..Settings::default()
        }
    }

    /// A person uses the REST API of this replica; the status of the answer.
    pub(crate) async fn rest(&self, method: Method, path: &str, body: Value) -> Option<StatusCode> {
        let request = Request::builder()
            .method(method)
            .uri(format!("/api/v1{path}"))
            .header("authorization", format!("Bearer {PERSON_TOKEN}"))
            .header("content-type", "application/json")
            .header("x-request-id", "simulated")
            .body(Body::from(body.to_string()))
            .unwrap();
        self.answer(|process| &process.rest, request).await
    }

    /// A program sends a webhook to this replica; the status of the answer.
    pub(crate) async fn hook(&self, request: Request<Body>) -> Option<StatusCode> {
        self.answer(|process| &process.hooks, request).await
    }

    async fn answer(
        &self,
        router: fn(&Process) -> &axum::Router,
        request: Request<Body>,
    ) -> Option<StatusCode> {
        let process = self.process.as_ref().filter(|it| it.link.is_alive())?;
        let answered = router(process).clone().oneshot(request);
        let answered = tokio::time::timeout(Duration::from_secs(30), answered).await;
        Some(answered.ok()?.ok()?.status())
    }
}

/// REST and webhooks of the process, with the same caches.
fn routers(
    client: &kube::Client,
    caches: &Caches,
    stop: &CancellationToken,
) -> (axum::Router, axum::Router) {
    let caches = server::Caches {
        pipelines: caches.pipelines.clone(),
        promotions: caches.promotions.clone(),
        changes: caches.changes.clone(),
        freezes: caches.freezes.clone(),
        check_runs: caches.check_runs.clone(),
        clusters: caches.clusters.clone(),
        triggers: server::caches::watched_triggers(client, None, stop),
    };
    let (settings, metrics) = (server::Settings::default(), server::Metrics::default());
    let state = server::AppState::with_caches(client.clone(), caches, settings, metrics, stop);
    (
        server::web::router(state.clone()),
        server::hooks::router(state),
    )
}

fn connector(world: &World, link: &Arc<Link>) -> Connector {
    let client = cluster_client::client(&world.leaf_server, Destination::Leaf, link);
    Arc::new(move |_| std::future::ready(Ok(client.clone())).boxed())
}

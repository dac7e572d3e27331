//! The hub, the clusters, and the receiver of the webhook.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Instant,
};

use crate::{
    VERSION,
    objects::{self, kubeconfig, listen, set_status},
};
use api::{Pipeline, Promotion};
use apiserver::{Server, User};
use axum::{
    Router,
    extract::{Json, Request},
    middleware,
};
use futures::{StreamExt, TryStreamExt, stream};
use kube::{Api, Client, api::ListParams, runtime::watcher};
use parking_lot::Mutex;
use serde_json::{Value, json};
use testbed::{
    objects::apply,
    real::{Assets, ControlPlane},
};

/// One of so many targets fails.
const FAILS: usize = 250;
const AT_ONCE: usize = 16;

/// What happens on the clusters.
struct Clusters {
    clients: Vec<Client>,
    /// When the last of them came to run the new version.
    last: Mutex<Option<Instant>>,
}

pub(crate) struct World {
    hub: Client,
    pub(crate) kubeconfig: String,
    dev: Client,
    clusters: Arc<Clusters>,
    /// Requests to an embedded hub by the process under measurement, and how many of them write.
    counters: Option<Arc<[AtomicUsize; 2]>>,
    /// How often the Pipeline and its Promotions were changed.
    changes: Arc<AtomicUsize>,
    _real: Option<ControlPlane>,
}

impl World {
    pub(crate) async fn build(targets: usize, is_real: bool) -> Self {
        testbed::tls::install_provider();
        let (address, mut clients) = objects::clusters(targets + 1).await;
        let dev = clients.pop().expect("a cluster");
        let (hub, kubeconfig, counters, real) = match is_real {
            true => real_hub().await,
            false => embedded_hub().await,
        };
        let world = Self {
            hub,
            kubeconfig,
            dev,
            clusters: Arc::new(Clusters {
                clients,
                last: Mutex::default(),
            }),
            counters,
            changes: Arc::default(),
            _real: real,
        };
        world.fill(&address).await;
        world.count_changes();
        world
    }

    async fn fill(&self, address: &str) {
        let definitions = api::crds().into_iter().map(|it| json!(it));
        apply(&self.hub, definitions.collect()).await;
        let clusters = self.clusters.clients.iter().chain([&self.dev]).enumerate();
        let fill = async |(number, client): (usize, &Client)| {
            objects::install_app(client).await;
            self.register(number, address).await;
        };
        let all: Vec<_> = clusters.collect();
        stream::iter(all).for_each_concurrent(AT_ONCE, fill).await;
        let url = listen(receiver(self.clusters.clone())).await;
        apply(&self.hub, vec![pipeline(&url)]).await;
    }

    async fn register(&self, number: usize, address: &str) {
        let count = self.clusters.clients.len();
        let name = if number == count {
            "dev".to_owned()
        } else {
            format!("c{number}")
        };
        let ring = match number {
            _ if number == count => "none",
            _ if number.is_multiple_of(50) => "canary",
            _ => "rest",
        };
        let server = format!("{address}/c{number}");
        let objects = objects::registered(&name, &server, json!({"ring": ring}));
        apply(&self.hub, objects).await;
    }

    /// Counts every change of the Pipeline and of Promotions, by a watch.
    fn count_changes(&self) {
        let count = |changes: &AtomicUsize| {
            changes.fetch_add(1, Ordering::Relaxed);
            std::future::ready(Ok(()))
        };
        let pipelines: Api<Pipeline> = Api::namespaced(self.hub.clone(), "default");
        let promotions: Api<Promotion> = Api::namespaced(self.hub.clone(), "default");
        let (one, other) = (self.changes.clone(), self.changes.clone());
        tokio::spawn(async move {
            let stream = watcher(pipelines, watcher::Config::default());
            let _ = stream.try_for_each(|_| count(&one)).await;
        });
        tokio::spawn(async move {
            let stream = watcher(promotions, watcher::Config::default());
            let _ = stream.try_for_each(|_| count(&other)).await;
        });
    }

    pub(crate) async fn pipeline(&self) -> Pipeline {
        let pipelines: Api<Pipeline> = Api::namespaced(self.hub.clone(), "default");
        pipelines.get("app").await.expect("the pipeline")
    }

    pub(crate) async fn promotion(&self) -> Option<Promotion> {
        let promotions: Api<Promotion> = Api::namespaced(self.hub.clone(), "default");
        let all = promotions.list(&ListParams::default()).await;
        // Clusters that answer late at first may get what the others run already, by another one.
        let is_ours = |it: &Promotion| it.spec.revision == VERSION;
        all.expect("promotions").items.into_iter().find(is_ours)
    }

    pub(crate) async fn are_observed(&self, targets: usize) -> bool {
        let status = self.pipeline().await.status.unwrap_or_default();
        let fleet = status.environments.get("fleet");
        let ready = fleet.map(|it| it.targets.iter().filter(|it| it.ready).count());
        ready == Some(targets)
    }

    /// Dev runs the new version.
    pub(crate) async fn release(&self) {
        self.changes.store(0, Ordering::Relaxed);
        set_status(&self.dev, VERSION, true).await;
    }

    /// Requests to the hub and writes among them, where the hub is embedded.
    pub(crate) fn counts(&self) -> Option<(usize, usize)> {
        let [all, writes] = &**self.counters.as_ref()?;
        Some((all.load(Ordering::Relaxed), writes.load(Ordering::Relaxed)))
    }

    pub(crate) fn changes(&self) -> usize {
        self.changes.load(Ordering::Relaxed)
    }

    /// When a cluster last came to run the new version.
    pub(crate) fn last_deployment(&self) -> Option<Instant> {
        *self.clusters.last.lock()
    }
}

type Hub = (
    Client,
    String,
    Option<Arc<[AtomicUsize; 2]>>,
    Option<ControlPlane>,
);

async fn real_hub() -> Hub {
    let assets = Assets::from_env().expect("KUBEBUILDER_ASSETS names a folder with the programs");
    let hub = ControlPlane::start(&assets).await.expect("a hub");
    let kubeconfig = hub.kubeconfig().to_owned();
    (hub.client(), kubeconfig, None, Some(hub))
}

async fn embedded_hub() -> Hub {
    let server = Server::in_memory();
    let counters: Arc<[AtomicUsize; 2]> = Arc::default();
    let counted = counters.clone();
    let count = move |request: Request, next: middleware::Next| {
        counted[0].fetch_add(1, Ordering::Relaxed);
        if request.method() != http::Method::GET {
            counted[1].fetch_add(1, Ordering::Relaxed);
        }
        next.run(request)
    };
    let api = Router::new().fallback_service(server.router(User::in_process()));
    let address = listen(api.layer(middleware::from_fn(count))).await;
    (server.client(), kubeconfig(&address), Some(counters), None)
}

/// Brings the targets of each call to the new version, one after the other. Some fail.
fn receiver(clusters: Arc<Clusters>) -> Router {
    let deploy = async move |Json(body): Json<Value>| {
        if body["version"] != VERSION {
            return;
        }
        let targets = body["targets"].as_array().cloned().unwrap_or_default();
        let names = targets
            .iter()
            .filter_map(|it| it["cluster"].as_str()?.strip_prefix('c'));
        let numbers: Vec<usize> = names.filter_map(|it| it.parse().ok()).collect();
        tokio::spawn(async move {
            for number in numbers {
                let fails = number % FAILS == 1;
                set_status(&clusters.clients[number], VERSION, !fails).await;
                *clusters.last.lock() = Some(Instant::now());
            }
        });
    };
    Router::new().fallback(deploy)
}

fn pipeline(url: &str) -> Value {
    let selector = |operator: &str| {
        let ring = json!({"key": "ring", "operator": operator, "values": ["none"]});
        json!([{"namespace": "app", "clusterSelector": {"matchExpressions": [ring]}}])
    };
    json!({
        "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Pipeline",
        "metadata": {"name": "app", "namespace": "default"},
        "spec": {
            "appRef": {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "app"},
            "environments": [
                {"name": "dev", "targets": selector("In")},
                {"name": "fleet", "targets": selector("NotIn")},
            ],
            "promotion": {
                "strategy": {"webhook": {"url": url}},
                "rollout": {
                    "waves": [
                        {"selector": {"matchLabels": {"ring": "canary"}}},
                        {"percent": 20, "maxConcurrent": 50},
                        {"maxConcurrent": 100},
                    ],
                    "maxFailures": "1%",
                },
            },
        },
    })
}

//! The hub, the clusters and whoever receives the calls: in the process that is not killed.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use api::{Pipeline, Promotion, promotion::Phase};
use apiserver::User;
use axum::{Router, extract::Json, http::HeaderMap};
use futures::{StreamExt, stream};
use kube::{
    Api, Client,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};
use testbed::objects::apply;

use crate::{
    FAILING_BATCH, MAX_CONCURRENT, PATIENCE, STOPPED_BATCH, TARGETS,
    ledger::Ledger,
    objects::{clusters, install_app, kubeconfig, listen, registered, set_status},
};

/// What the rollout brings.
const VERSION: &str = "1.1.0";
const AT_ONCE: usize = 16;
/// How long a target takes.
const DEPLOYMENT: Duration = Duration::from_millis(100);
/// The reason of a promotion whose rollout is stopped.
const STOPPED: &str = "RolloutStopped";

pub(crate) struct Fleet {
    pub(crate) hub: Client,
    pub(crate) kubeconfig: String,
    pub(crate) ledger: Arc<Ledger>,
    dev: Client,
}

impl Fleet {
    pub(crate) async fn start() -> Self {
        testbed::tls::install_provider();
        let server = testbed::hub::server();
        let hub = server.client();
        let router = Router::new().fallback_service(server.router(User::in_process()));
        let kubeconfig = kubeconfig(&listen(router).await);
        let (address, mut clients) = clusters(TARGETS + 1).await;
        let all: Vec<_> = clients.iter().enumerate().collect();
        let register = async |(number, client): (usize, &Client)| {
            install_app(client).await;
            let (name, ring) = match number {
                TARGETS => ("dev".to_owned(), "none"),
                _ if number % 50 == 0 => (format!("c{number}"), "canary"),
                _ => (format!("c{number}"), "rest"),
            };
            let server = format!("{address}/c{number}");
            apply(&hub, registered(&name, &server, json!({"ring": ring}))).await;
        };
        stream::iter(all)
            .for_each_concurrent(AT_ONCE, register)
            .await;
        let dev = clients.pop().unwrap();
        let ledger = Arc::new(Ledger::default());
        let url = listen(receiver(ledger.clone(), clients.into())).await;
        apply(&hub, vec![pipeline(&url)]).await;
        Self {
            hub,
            kubeconfig,
            ledger,
            dev,
        }
    }

    async fn pipeline(&self) -> Pipeline {
        let pipelines: Api<Pipeline> = Api::namespaced(self.hub.clone(), "default");
        pipelines.get("app").await.unwrap()
    }

    async fn promotion(&self) -> Option<Promotion> {
        let promotions: Api<Promotion> = Api::namespaced(self.hub.clone(), "default");
        let all = promotions.list(&ListParams::default()).await;
        // Clusters that answer late at first may get what the others run already, by another one.
        let is_ours = |it: &Promotion| it.spec.revision == VERSION;
        all.unwrap().items.into_iter().find(is_ours)
    }

    /// The targets of batches that the promotion stores.
    pub(crate) async fn stored_targets(&self) -> BTreeSet<String> {
        let status = self.promotion().await.and_then(|it| it.status);
        let rollout = status.and_then(|it| it.rollout).unwrap_or_default();
        let started = rollout.targets.into_iter().filter(|it| it.batch.is_some());
        let clusters = started.map(|it| it.target.strip_suffix("/app").unwrap().to_owned());
        clusters.collect()
    }

    pub(crate) async fn until_observed(&self) {
        let is_observed = async || {
            let status = self.pipeline().await.status.unwrap_or_default();
            let fleet = status.environments.get("fleet");
            let ready = fleet.map(|it| it.targets.iter().filter(|it| it.ready).count());
            ready == Some(TARGETS)
        };
        self.until("all clusters are observed", is_observed).await;
    }

    /// Dev runs the new version.
    pub(crate) async fn release(&self) {
        set_status(&self.dev, VERSION, true).await;
    }

    pub(crate) async fn has_ended(&self) -> bool {
        let status = self.promotion().await.and_then(|it| it.status);
        let phase = status.and_then(|it| it.phase);
        let has_failed = phase.is_some_and(|it| it.is_terminal() && it != Phase::Succeeded);
        assert!(!has_failed, "{}", self.describe().await);
        phase == Some(Phase::Succeeded)
    }

    /// Whether it is time for the first stop, by a failed target, or for the second, by a person.
    pub(crate) async fn is_to_stop(&self, stops: usize) -> bool {
        match stops {
            0 => self.ledger.batches() >= FAILING_BATCH,
            _ => self.ledger.batches() >= STOPPED_BATCH,
        }
    }

    async fn reason(&self) -> Option<String> {
        self.promotion().await?.status?.reason
    }

    pub(crate) async fn until_stopped(&self) {
        let is_stopped = async || self.reason().await.as_deref() == Some(STOPPED);
        self.until("it is stopped", is_stopped).await;
    }

    pub(crate) async fn until_resumed(&self) {
        let is_resumed = async || self.reason().await.as_deref() != Some(STOPPED);
        self.until("it is resumed", is_resumed).await;
    }

    /// A person orders something, by way of the server.
    pub(crate) async fn order(&self, id: &str, kind: &str) {
        let request = json!({"id": id, "kind": kind, "by": "ann"});
        let patch = json!({"status": {"requests": {"fleet": request}}});
        let pipelines: Api<Pipeline> = Api::namespaced(self.hub.clone(), "default");
        let patched = pipelines
            .patch_status("app", &PatchParams::default(), &Patch::Merge(patch))
            .await;
        patched.unwrap();
    }

    pub(crate) async fn describe(&self) -> String {
        let status = self.promotion().await.and_then(|it| it.status);
        json!(status).to_string()
    }

    async fn until(&self, what: &str, mut is_so: impl AsyncFnMut() -> bool) {
        let began = std::time::Instant::now();
        while !is_so().await {
            self.ledger.assert_sound();
            assert!(
                began.elapsed() < PATIENCE,
                "{what}: {}",
                self.describe().await
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Brings the targets of each new batch to the new version. One target fails.
fn receiver(ledger: Arc<Ledger>, clients: Arc<[Client]>) -> Router {
    let receive = async move |headers: HeaderMap, Json(body): Json<Value>| {
        let targets = body["targets"].as_array().cloned().unwrap_or_default();
        let clusters = targets.iter().filter_map(|it| it["cluster"].as_str());
        let clusters: Vec<String> = clusters.map(str::to_owned).collect();
        let key = headers["idempotency-key"].to_str().unwrap();
        if body["version"] != VERSION {
            return;
        }
        if let Some(batch) = ledger.enter(key, &clusters) {
            tokio::spawn(deploy(ledger, clients, clusters, batch));
        }
    };
    Router::new().fallback(receive)
}

async fn deploy(ledger: Arc<Ledger>, clients: Arc<[Client]>, clusters: Vec<String>, batch: usize) {
    let one_fails = batch == FAILING_BATCH;
    for (at, cluster) in clusters.iter().enumerate() {
        // Deployments take their time, so that leaders die while targets are in flight.
        tokio::time::sleep(DEPLOYMENT).await;
        while batch == STOPPED_BATCH && at == 0 && ledger.stops() < 2 {
            tokio::time::sleep(DEPLOYMENT).await;
        }
        let number: usize = cluster.strip_prefix('c').unwrap().parse().unwrap();
        // Entered first: the leader starts others as soon as it sees this.
        ledger.land(cluster);
        set_status(&clients[number], VERSION, !(one_fails && at == 0)).await;
    }
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
                "rollout": {"waves": [
                    {"selector": {"matchLabels": {"ring": "canary"}}},
                    {"percent": 25, "maxConcurrent": MAX_CONCURRENT},
                    {"maxConcurrent": MAX_CONCURRENT},
                ]},
            },
        },
    })
}

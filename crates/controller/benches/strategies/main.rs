//! The reconcilers of pipelines and promotions with a hub, two leaf clusters, real git behind six forges,
//! and the receiver of a webhook: the time from a change on the leaf to an opened pull request, one at a
//! time; and the cost of a promotion by each forge and strategy, all pipelines of one at once, then all.
//!
//! `PROMOTE_PIPELINES` sets the number of pipelines.
#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]
#![expect(clippy::unwrap_used, reason = "a failing benchmark is a panic")]

mod doubles;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use api::{Promotion, promotion::Phase};
use apiserver::Server;
use axum::{Router, body::Bytes, extract::State};
use controller::{Connector, PipelineReconciler, PromotionReconciler, Settings};
use futures::{FutureExt, StreamExt};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
    runtime::{WatchStreamExt, watcher},
};
use runtime::LeaderGuard;
use serde_json::{Value, json};
use testbed::forge::Forge;
use tokio::{net::TcpListener, sync::mpsc};

use doubles::ForgeAccess;

/// Pull requests on six forges, and the other strategies.
const STRATEGIES: usize = 6 + OTHER_STRATEGIES.len();
const OTHER_STRATEGIES: [&str; 3] = ["commit", "notification", "webhook"];
/// Which of them is Gitea, whose forge here merges with real git.
const GITEA: usize = 2;
/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(120);

/// How many requests and bytes were received.
#[derive(Default)]
struct Calls {
    count: AtomicU64,
    bytes: AtomicU64,
}

struct World {
    hub: Client,
    dev: Client,
    forge: Forge,
    calls: Arc<Calls>,
    /// Promotions that were carried out: pipeline and revision.
    carried_out: mpsc::UnboundedReceiver<(String, String)>,
    ways: Vec<&'static str>,
    pipelines: usize,
}

#[tokio::main]
async fn main() {
    let count = std::env::var("PROMOTE_PIPELINES").ok();
    let pipelines = count.and_then(|count| count.parse().ok()).unwrap_or(100);
    let mut world = World::start(pipelines).await;
    println!(
        "{pipelines} pipelines, six forges and three other strategies in turn, git on loopback"
    );
    world.one_at_a_time().await;
    for (strategy_index, name) in world.ways.clone().into_iter().enumerate() {
        let all: Vec<usize> = (0..pipelines)
            .filter(|it| it % STRATEGIES == strategy_index)
            .collect();
        world.at_once(name, &all, "1.2.0").await;
    }
    let all: Vec<usize> = (0..pipelines).collect();
    world.at_once("all together", &all, "1.3.0").await;
}

impl World {
    async fn start(pipelines: usize) -> Self {
        testbed::tls::install_provider();
        let [hub, dev, prod] = [(); 3].map(|()| Server::in_memory().client());
        for definition in api::crds() {
            create(&hub, &serde_json::to_value(definition).unwrap()).await;
        }
        let forge = Forge::start_with_tls().await.unwrap();
        let files: Vec<_> = (0..pipelines)
            .map(|it| (format!("{it}.yaml"), manifest(it)))
            .collect();
        let files: Vec<_> = files
            .iter()
            .map(|(path, text)| (path.as_str(), text.as_str()))
            .collect();
        let accesses = doubles::start(&forge, &files).await;
        let calls = Arc::new(Calls::default());
        let receiver = receive(calls.clone()).await;
        for access in &accesses {
            let mut entries = json!({
                "username": "sluice", "password": forge.token(), "token": access.token,
                "caFile": forge.certificate_authority().unwrap(),
            });
            if let Some(api) = &access.api {
                entries["apiURL"] = json!(api);
            }
            secret(&hub, access.kind, entries).await;
        }
        secret(&hub, "hook", json!({"token": "a key"})).await;
        for (name, client) in [("dev", &dev), ("prod", &prod)] {
            create(client, &releases()).await;
            create(
                client,
                &json!({
                    "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name},
                }),
            )
            .await;
            cluster(&hub, name).await;
            for number in 0..pipelines {
                let release = release(name, number);
                create(client, &release).await;
                deploy(client, &release, "1.0.0").await;
            }
        }
        for number in 0..pipelines {
            let strategy = strategy(number, &accesses, &receiver);
            create(&hub, &pipeline(number, &strategy)).await;
        }
        run(&hub, &dev, &prod, &receiver);
        let carried_out = follow(&hub);
        let world = Self {
            hub,
            dev,
            forge,
            calls,
            carried_out,
            ways: accesses
                .iter()
                .map(|access| access.kind)
                .chain(OTHER_STRATEGIES)
                .collect(),
            pipelines,
        };
        world.observed().await;
        world
    }

    /// Waits until every pipeline was looked at.
    async fn observed(&self) {
        let api: Api<api::Pipeline> = Api::all(self.hub.clone());
        let began = Instant::now();
        loop {
            let all = api.list(&Default::default()).await.unwrap().items;
            let is_seen = |it: &api::Pipeline| {
                it.status
                    .as_ref()
                    .is_some_and(|it| it.environments.len() == 2)
            };
            if all.iter().filter(|it| is_seen(it)).count() == self.pipelines {
                return;
            }
            assert!(began.elapsed() < PATIENCE, "not all are seen");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// From the change on the leaf to the pull request that proposes it.
    async fn one_at_a_time(&mut self) {
        let mut taken = Vec::new();
        for number in (GITEA..self.pipelines).step_by(STRATEGIES) {
            let began = Instant::now();
            deploy(&self.dev, &release("dev", number), "1.1.0").await;
            self.wait().await;
            taken.push(began.elapsed());
        }
        report("leaf change to opened pull request, one at a time", &taken);
    }

    /// Changes the apps of these pipelines at once and waits until each promotion was carried out.
    async fn at_once(&mut self, name: &str, pipelines: &[usize], version: &str) {
        let before = self.spent();
        let began = Instant::now();
        let changes = pipelines.iter().map(|number| async {
            deploy(&self.dev, &release("dev", *number), version).await;
        });
        futures::future::join_all(changes).await;
        let mut taken = Vec::new();
        for _ in pipelines {
            self.wait().await;
            taken.push(began.elapsed());
        }
        let after = self.spent();
        let each = |index: usize| (after[index] - before[index]) as f64 / pipelines.len() as f64;
        report(&format!("{name}, {} at once", pipelines.len()), &taken);
        println!(
            "  each: {:.1} calls, {:.0} bytes of content",
            each(0),
            each(1)
        );
    }

    /// Calls and bytes so far, of the forge and of who is called.
    fn spent(&self) -> [u64; 2] {
        let calls = &self.calls;
        [
            self.forge.requests() + calls.count.load(Ordering::SeqCst),
            self.forge.bytes() + calls.bytes.load(Ordering::SeqCst),
        ]
    }

    /// Waits until one more promotion was carried out.
    async fn wait(&mut self) {
        let next = tokio::time::timeout(PATIENCE, self.carried_out.recv()).await;
        if next.is_err() {
            self.print_unfinished().await;
        }
        next.expect("a promotion is not carried out").unwrap();
    }

    /// What the promotions wait for that were not carried out.
    async fn print_unfinished(&self) {
        let api: Api<Promotion> = Api::all(self.hub.clone());
        for it in api.list(&Default::default()).await.unwrap() {
            let (spec, status) = (it.spec, it.status.unwrap_or_default());
            let (phase, reason, message) = (status.phase, status.reason, status.message);
            if !is_carried_out(phase) {
                let (pipeline, revision) = (spec.pipeline, spec.revision);
                eprintln!("{pipeline} {revision}: {phase:?} {reason:?} {message:?}");
            }
        }
    }
}

/// Starts both reconcilers.
fn run(hub: &Client, dev: &Client, prod: &Client, receiver: &str) {
    let settings = Settings {
        allow_internal_urls: true,
        events_address: Some(format!("{receiver}/flux")),
        ..Settings::default()
    };
    let hosts = BTreeMap::from([("dev", dev.clone()), ("prod", prod.clone())]);
    let connector: Connector = Arc::new(move |kubeconfig| {
        let cluster = kubeconfig.clusters[0].cluster.as_ref().unwrap();
        let server = cluster.server.clone().unwrap();
        let host = server
            .trim_start_matches("https://")
            .trim_end_matches(".example");
        std::future::ready(Ok(hosts[host].clone())).boxed()
    });
    let shared = PipelineReconciler::new(hub.clone(), connector, settings.clone());
    tokio::spawn(controller::pipeline::run(shared));
    let promoter = PromotionReconciler::new(hub.clone(), settings, LeaderGuard::without_election());
    tokio::spawn(controller::promotion::run(promoter.unwrap()));
}

fn is_carried_out(phase: Option<Phase>) -> bool {
    matches!(phase, Some(Phase::WaitingForMerge | Phase::Deploying))
}

/// Tells of each promotion once, when it has been carried out.
fn follow(hub: &Client) -> mpsc::UnboundedReceiver<(String, String)> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let api: Api<Promotion> = Api::all(hub.clone());
    let told = Mutex::new(std::collections::BTreeSet::new());
    tokio::spawn(async move {
        let events = watcher(api, watcher::Config::default()).default_backoff();
        let mut promotions = std::pin::pin!(events.applied_objects());
        while let Some(promotion) = promotions.next().await {
            let Ok(promotion) = promotion else { continue };
            let phase = promotion.status.as_ref().and_then(|status| status.phase);
            let is_done = is_carried_out(phase);
            let key = (
                promotion.spec.pipeline.clone(),
                promotion.spec.revision.clone(),
            );
            if is_done && told.lock().unwrap().insert(key.clone()) {
                let _ = sender.send(key);
            }
        }
    });
    receiver
}

/// The receiver of the webhook strategy.
async fn receive(calls: Arc<Calls>) -> String {
    async fn take(State(calls): State<Arc<Calls>>, body: Bytes) {
        calls.count.fetch_add(1, Ordering::SeqCst);
        calls.bytes.fetch_add(body.len() as u64, Ordering::SeqCst);
    }
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().fallback(take).with_state(calls);
    tokio::spawn(async move { axum::serve(listener, router).await });
    format!("http://{address}")
}

fn strategy(number: usize, accesses: &[ForgeAccess], receiver: &str) -> Value {
    let git = |access: &ForgeAccess| {
        json!({
            "url": access.url, "baseBranch": "main", "secretRef": {"name": access.kind},
        })
    };
    if let Some(access) = accesses.get(number % STRATEGIES) {
        let mut pull_request = git(access);
        pull_request["type"] = json!(access.kind);
        return json!({"pull-request": pull_request});
    }
    match OTHER_STRATEGIES[number % STRATEGIES - accesses.len()] {
        "commit" => json!({"commit": git(&accesses[GITEA])}),
        "notification" => json!({"notification": {}}),
        _ => json!({"webhook": {"url": format!("{receiver}/hook"), "secretRef": {"name": "hook"}}}),
    }
}

fn pipeline(number: usize, strategy: &Value) -> Value {
    let environment = |name: &str| {
        let cluster = json!({"kind": "GitopsCluster", "name": name});
        json!({"name": name, "targets": [{"namespace": name, "clusterRef": cluster}]})
    };
    json!({
        "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Pipeline",
        "metadata": {"name": format!("app-{number}"), "namespace": "default"},
        "spec": {
            "appRef": {
                "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
                "name": format!("app-{number}"),
            },
            "environments": [environment("dev"), environment("prod")],
            "promotion": {"strategy": strategy},
        },
    })
}

fn manifest(number: usize) -> String {
    format!("version: 1.0.0 # {{\"$promotion\": \"default:app-{number}:prod\"}}\n")
}

fn release(namespace: &str, number: usize) -> Value {
    json!({
        "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
        "metadata": {"name": format!("app-{number}"), "namespace": namespace}, "spec": {},
    })
}

fn releases() -> Value {
    let definitions = testbed::flux::definitions();
    definitions.into_iter().next().unwrap()
}

async fn cluster(hub: &Client, name: &str) {
    let kubeconfig = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\n\
         clusters: [{{name: c, cluster: {{server: 'https://{name}.example'}}}}]\n\
         users: [{{name: u, user: {{token: t}}}}]\n\
         contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n"
    );
    secret(hub, name, json!({"value": kubeconfig})).await;
    create(hub, &json!({
        "apiVersion": "gitops.weave.works/v1alpha1", "kind": "GitopsCluster",
        "metadata": {"name": name, "namespace": "default"}, "spec": {"secretRef": {"name": name}},
    }))
    .await;
}

async fn secret(hub: &Client, name: &str, entries: Value) {
    create(
        hub,
        &json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "namespace": "default"}, "stringData": entries,
        }),
    )
    .await;
}

fn api_of(client: &Client, object: &Value) -> Api<DynamicObject> {
    let api_version = object["apiVersion"].as_str().unwrap();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = object["kind"].as_str().unwrap();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

async fn create(client: &Client, object: &Value) {
    let parsed: DynamicObject = serde_json::from_value(object.clone()).unwrap();
    let created = api_of(client, object)
        .create(&PostParams::default(), &parsed)
        .await;
    created.unwrap();
}

/// Flux has brought the app to a version.
async fn deploy(client: &Client, release: &Value, version: &str) {
    let status = json!({
        "observedGeneration": 1,
        "conditions": [{
            "type": "Ready", "status": "True", "reason": "UpgradeSucceeded", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
        "history": [{"chartVersion": version, "status": "deployed"}],
        "lastAttemptedRevision": version,
    });
    let name = release["metadata"]["name"].as_str().unwrap();
    let patch = Patch::Merge(json!({"status": status}));
    let api = api_of(client, release);
    let patched = api
        .patch_status(name, &PatchParams::default(), &patch)
        .await;
    patched.unwrap();
}

fn report(name: &str, taken: &[Duration]) {
    let mut sorted = taken.to_vec();
    sorted.sort();
    let at = |part: f64| {
        let last = sorted.len().saturating_sub(1) as f64;
        sorted
            .get((last * part).round() as usize)
            .copied()
            .unwrap_or_default()
    };
    println!("{name}: p50 {:.0?}, p99 {:.0?}", at(0.5), at(0.99));
}

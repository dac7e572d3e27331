//! Clusters that ask what to run: a thousand of them, ten thousand times in a minute's worth of requests, over
//! real sockets. Prints how many answers per second, how long one takes, what the process spends on the
//! required rate, and how many requests reach the API server.
#![expect(clippy::unwrap_used, reason = "a failing benchmark is a panic")]
#![expect(clippy::print_stdout, reason = "a benchmark prints its figures")]

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use api::Pipeline;
use apiserver::Server;
use axum::body::Body;
use http::Request;
use k8s_openapi::{
    api::core::v1::Secret,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams, PostParams},
    runtime::wait::{await_condition, conditions::is_crd_established},
};
use serde_json::{Value, json};
use server::{Metrics, Settings};
use testbed::real::{Assets, ControlPlane};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

const CLUSTERS: usize = 1000;
/// What a minute brings.
const POLLS: usize = 10_000;
/// How many ask at the same time when it goes as fast as it can.
const AT_ONCE: usize = 100;
/// How long the paced round takes: a sixth of a minute, with a sixth of its requests.
const PACED: Duration = Duration::from_secs(10);
const TOKEN: &str = "the token of the benchmark";

/// The paths of requests to the API.
type Calls = Arc<Mutex<Vec<String>>>;

#[tokio::main]
async fn main() {
    testbed::tls::install_provider();
    let is_real = std::env::args().any(|word| word == "--real");
    let calls = Calls::default();
    if is_real {
        let assets = Assets::from_env().unwrap();
        let control_plane = ControlPlane::start(&assets).await.unwrap();
        println!("on a real kube-apiserver");
        measure(control_plane.client(), control_plane.client(), None).await;
    } else {
        let server = Server::in_memory();
        println!("on the embedded API, in memory, in this process");
        measure(server.client(), counting(&server, &calls), Some(&calls)).await;
    }
}

async fn measure(client: Client, of_server: Client, calls: Option<&Calls>) {
    prepare(&client).await;
    let stop = CancellationToken::new();
    let settings = Settings {
        hooks_address: Some(SocketAddr::from(([127, 0, 0, 1], 0))),
        rate_limit: 0,
        ..Settings::default()
    };
    let serving = server::start(of_server, settings, Metrics::default(), stop.clone());
    let address = serving.await.unwrap().hooks.unwrap();
    let clusters = (0..CLUSTERS).map(|index| Cluster::new(address, index));
    let clusters = clusters.collect();
    let clusters = paced(clusters, calls).await;
    at_once(clusters, calls).await;
    stop.cancel();
}

/// The required rate, spread evenly over time.
async fn paced(clusters: Vec<Cluster>, calls: Option<&Calls>) -> Vec<Cluster> {
    forget(calls);
    let count = POLLS / 6;
    let (cpu, started) = (cpu_seconds(), Instant::now());
    let mut polls = JoinSet::new();
    for (index, cluster) in clusters.into_iter().enumerate() {
        polls.spawn(async move {
            let mut times = Vec::new();
            for poll in (index..count).step_by(CLUSTERS) {
                let at = PACED.mul_f64(poll as f64 / count as f64);
                tokio::time::sleep_until(started + at).await;
                times.push(cluster.poll().await);
            }
            (cluster, times)
        });
    }
    let (clusters, times): (Vec<_>, Vec<_>) = polls.join_all().await.into_iter().unzip();
    let took = started.elapsed().as_secs_f64();
    let cpu = cpu_seconds() - cpu;
    let rate = count as f64 / took * 60.0;
    println!("{CLUSTERS} clusters, {rate:.0} polls per minute for {took:.0} s: all answered");
    print_times(times.concat());
    println!("  processor time: {:.1} % of one core", 100.0 * cpu / took);
    print_calls(calls, count);
    clusters
}

/// As fast as it goes.
async fn at_once(clusters: Vec<Cluster>, calls: Option<&Calls>) {
    forget(calls);
    let started = Instant::now();
    let mut polls = JoinSet::new();
    for cluster in clusters.into_iter().take(AT_ONCE) {
        polls.spawn(async move {
            let mut times = Vec::new();
            for _ in 0..POLLS / AT_ONCE {
                times.push(cluster.poll().await);
            }
            times
        });
    }
    let times = polls.join_all().await.concat();
    let took = started.elapsed().as_secs_f64();
    println!(
        "{POLLS} polls, {AT_ONCE} at a time: {took:.1} s, {:.0}/s",
        POLLS as f64 / took
    );
    print_times(times);
    print_calls(calls, POLLS);
}

fn print_times(mut times: Vec<Duration>) {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!(
        "  response time: p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms",
        at(0.5),
        at(0.99),
        at(1.0)
    );
}

fn forget(calls: Option<&Calls>) {
    if let Some(calls) = calls {
        calls.lock().unwrap().clear();
    }
}

fn print_calls(calls: Option<&Calls>, polls: usize) {
    let Some(calls) = calls else { return };
    let calls = calls.lock().unwrap();
    let of = |part: &str| calls.iter().filter(|path| path.contains(part)).count();
    let (pipelines, secrets) = (of("/pipelines/"), of("/secrets/"));
    println!(
        "  requests to the API: {pipelines} for the pipeline ({:.2} per poll), {secrets} for the Secret",
        pipelines as f64 / polls as f64
    );
}

/// User and system time of this process in seconds.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let fields: Vec<&str> = fields.split_whitespace().collect();
    let ticks: f64 = fields[11..13]
        .iter()
        .map(|it| it.parse::<f64>().unwrap())
        .sum();
    ticks / 100.0
}

async fn prepare(client: &Client) {
    let parameters = PostParams::default();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in api::crds() {
        definitions.create(&parameters, &definition).await.unwrap();
        let name = definition.name_any();
        let is_there = await_condition(definitions.clone(), &name, is_crd_established());
        is_there.await.unwrap();
    }
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    let secret = json!({"metadata": {"name": "inputs"}, "stringData": {"inputs-token": TOKEN}});
    let secret = serde_json::from_value(secret).unwrap();
    secrets.create(&parameters, &secret).await.unwrap();
    let pipelines: Api<Pipeline> = Api::namespaced(client.clone(), "default");
    let pipeline = serde_json::from_value(pipeline()).unwrap();
    pipelines.create(&parameters, &pipeline).await.unwrap();
    let status = Patch::Merge(json!({"status": status()}));
    let parameters = PatchParams::default();
    let written = pipelines.patch_status("app", &parameters, &status).await;
    written.unwrap();
}

fn pipeline() -> Value {
    json!({
        "metadata": {"name": "app", "namespace": "default"},
        "spec": {
            "appRef": {
                "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "app",
            },
            "environments": [
                {"name": "dev", "targets": [{"namespace": "dev"}]},
                {"name": "prod", "targets": [{
                    "namespace": "prod", "clusterSelector": {"matchLabels": {"tier": "edge"}},
                }]},
            ],
            "promotion": {"strategy": {"resourceSetInputs": {"secretRef": {"name": "inputs"}}}},
        },
    })
}

/// What is known of a thousand targets.
fn status() -> Value {
    let target = |index: usize| {
        json!({
            "clusterAppRef": {
                "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "app",
                "clusterRef": {"kind": "GitopsCluster", "name": format!("edge-{index}")},
            },
            "namespace": "prod", "ready": true, "revision": "1.1.0", "version": "1.1.0",
            "readySince": "2026-01-01T00:00:00Z",
            "apps": [{
                "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "app",
                "ready": true, "revision": "1.1.0", "images": ["registry.example/app:1.1.0"],
            }],
        })
    };
    let targets: Vec<Value> = (0..CLUSTERS).map(target).collect();
    let desired = json!({
        "revision": "1.1.0", "version": "1.1.0", "since": "2026-01-01T00:00:00Z",
    });
    json!({"environments": {"prod": {"targets": targets, "desired": desired}}})
}

/// A cluster, which opens a connection for each poll.
struct Cluster {
    address: SocketAddr,
    request: String,
}

impl Cluster {
    fn new(address: SocketAddr, index: usize) -> Self {
        let path = format!("/inputs/default/app/prod?cluster=edge-{index}");
        let headers = format!("Host: bench\r\nAuthorization: Bearer {TOKEN}\r\nConnection: close");
        let request = format!("GET {path} HTTP/1.1\r\n{headers}\r\n\r\n");
        Self { address, request }
    }

    /// How long the answer takes.
    async fn poll(&self) -> Duration {
        let started = Instant::now();
        let mut stream = TcpStream::connect(self.address).await.unwrap();
        stream.write_all(self.request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let is_answer =
            answer.starts_with("HTTP/1.1 200") && answer.contains(r#""version":"1.1.0""#);
        assert!(is_answer, "{answer}");
        started.elapsed()
    }
}

fn counting(server: &Server, calls: &Calls) -> Client {
    let calls = calls.clone();
    let service = server.router(apiserver::User::in_process()).map_request(
        move |request: Request<kube::client::Body>| {
            calls.lock().unwrap().push(request.uri().path().to_owned());
            request.map(Body::new)
        },
    );
    Client::new(service, "default")
}

//! Hooks over real sockets: how many signed ones are stored, beside how many plain merge patches of
//! a status the same API takes in the same run; and what ten thousand wrong signatures cost.
//!
//! `SLUICE_BENCH_HOOKS` sets how many calls a round has.
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
use hmac::{Hmac, KeyInit, Mac};
use http::{Method, Request};
use k8s_openapi::{
    api::core::v1::Secret,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt,
    api::{Patch, PatchParams, PostParams},
    runtime::wait::{await_condition, conditions::is_crd_established},
};
use serde_json::json;
use server::{Metrics, Settings};
use sha2::Sha256;
use testbed::real::{Assets, ControlPlane};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::Instant,
};
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

const PIPELINES: usize = 50;
const CALLERS: usize = 16;
const ROUNDS: usize = 5;
const WRONG: usize = 10_000;
const KEY: &str = "a key of the benchmark";

type Calls = Arc<Mutex<Vec<(Method, String)>>>;

#[tokio::main]
async fn main() {
    testbed::tls::install_provider();
    let is_real = std::env::args().any(|word| word == "--real");
    let calls = Calls::default();
    if is_real {
        let control_plane = ControlPlane::start(&Assets::from_env().unwrap())
            .await
            .unwrap();
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
        wait: Duration::ZERO,
        ..Settings::default()
    };
    let serving = server::start(of_server, settings, Metrics::default(), stop.clone());
    let address = serving.await.unwrap().hooks.unwrap();
    let count = std::env::var("SLUICE_BENCH_HOOKS");
    let count = count.map_or(4000, |count| count.parse().unwrap());
    store(address, 0, CALLERS * 4).await;
    let (mut plain, mut hooks) = (Vec::new(), Vec::new());
    for round in 1..=ROUNDS {
        plain.push(patch(&client, round, count).await);
        hooks.push(store(address, round, count).await);
    }
    let (plain, hooks) = (median(plain), median(hooks));
    println!(
        "plain status merge patches: {plain:.0}/s (median of {ROUNDS} rounds of {count}, {CALLERS} callers)"
    );
    println!(
        "signed requests stored:     {hooks:.0}/s, {:.0} % of the plain patches",
        100.0 * hooks / plain
    );
    if let Some(calls) = calls {
        let stored = (ROUNDS * count + CALLERS * 4) as f64;
        let each = calls.lock().unwrap().len() as f64 / stored;
        println!("calls of the API for each:  {each:.2}, watches included");
    }
    refuse(address, calls).await;
    stop.cancel();
}

async fn prepare(client: &Client) {
    let parameters = PostParams::default();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in api::crds() {
        definitions.create(&parameters, &definition).await.unwrap();
        let name = definition.name_any();
        let is_there = is_crd_established();
        await_condition(definitions.clone(), &name, is_there)
            .await
            .unwrap();
    }
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    let secret = json!({"metadata": {"name": "keys"}, "stringData": {"hmac-key": KEY}});
    let secret = serde_json::from_value(secret).unwrap();
    secrets.create(&parameters, &secret).await.unwrap();
    let pipelines: Api<Pipeline> = Api::namespaced(client.clone(), "default");
    for index in 0..PIPELINES {
        let pipeline = serde_json::from_value(pipeline(index)).unwrap();
        pipelines.create(&parameters, &pipeline).await.unwrap();
    }
}

fn pipeline(index: usize) -> serde_json::Value {
    json!({
        "metadata": {"name": format!("app-{index}"), "namespace": "default"},
        "spec": {
            "appRef": {
                "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "app",
            },
            "environments": [
                {"name": "dev", "targets": [{"namespace": "dev"}]},
                {"name": "prod", "targets": [{"namespace": "prod"}]},
            ],
            "promotion": {"strategy": {"notification": {}, "secretRef": {"name": "keys"}}},
        },
    })
}

/// Plain writes of what a hook would store, with the version that was seen last; per second.
async fn patch(client: &Client, round: usize, count: usize) -> f64 {
    let started = Instant::now();
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        let pipelines: Api<Pipeline> = Api::namespaced(client.clone(), "default");
        callers.spawn(async move {
            for call in (caller..count).step_by(CALLERS) {
                let report = json!({
                    "revision": format!("0.{round}.{call}"),
                    "at": "2026-02-08T12:34:13Z",
                    "severity": "info",
                    "reason": "UpgradeSucceeded",
                    "message": "Helm upgrade succeeded",
                    "uid": "a-uid",
                    "signed": true,
                });
                let patch = Patch::Merge(json!({"status": {"reports": {"dev/-/dev": report}}}));
                let name = format!("app-{}", call % PIPELINES);
                let parameters = PatchParams::apply("bench");
                pipelines
                    .patch_status(&name, &parameters, &patch)
                    .await
                    .unwrap();
            }
        });
    }
    callers.join_all().await;
    count as f64 / started.elapsed().as_secs_f64()
}

/// Signed hooks, all of which must be stored; per second.
async fn store(address: SocketAddr, round: usize, count: usize) -> f64 {
    let started = Instant::now();
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        callers.spawn(async move {
            let mut connection = Connection::open(address).await;
            for call in (caller..count).step_by(CALLERS) {
                let body = event(&format!("1.{round}.{call}")).to_string();
                let path = format!("/promotion/default/app-{}/dev", call % PIPELINES);
                let code = connection.post(&path, &body, &sign(KEY, &body)).await;
                assert_eq!(code, 202);
            }
        });
    }
    callers.join_all().await;
    count as f64 / started.elapsed().as_secs_f64()
}

async fn refuse(address: SocketAddr, calls: Option<&Calls>) {
    if let Some(calls) = calls {
        calls.lock().unwrap().clear();
    }
    let started = Instant::now();
    let mut callers = JoinSet::new();
    for caller in 0..CALLERS {
        callers.spawn(async move {
            let mut connection = Connection::open(address).await;
            let body = event("9.9.9").to_string();
            let wrong = sign("another key", &body);
            for _ in (caller..WRONG).step_by(CALLERS) {
                let code = connection
                    .post("/promotion/default/app-0/dev", &body, &wrong)
                    .await;
                assert_eq!(code, 401);
            }
        });
    }
    callers.join_all().await;
    let took = started.elapsed().as_secs_f64();
    println!("wrong signatures: {WRONG} in {took:.1} s, all 401");
    if let Some(calls) = calls {
        let calls = calls.lock().unwrap();
        let writes = calls
            .iter()
            .filter(|(method, _)| *method != Method::GET)
            .count();
        let reads = calls
            .iter()
            .filter(|(_, path)| path.contains("/secrets/"))
            .count();
        let allowed = (took / 10.0).ceil() as usize + 1;
        println!(
            "they cost {reads} reads of the Secret (at most {allowed} expected) and {writes} writes"
        );
        assert!(writes == 0 && reads <= allowed);
    }
}

fn event(revision: &str) -> serde_json::Value {
    json!({
        "involvedObject": {
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "app",
            "namespace": "dev", "uid": "a-uid",
        },
        "severity": "info",
        "timestamp": "2026-02-08T12:34:13Z",
        "message": "Helm upgrade succeeded",
        "reason": "UpgradeSucceeded",
        "metadata": {"revision": revision},
    })
}

fn sign(key: &str, body: &str) -> String {
    let mut mac = <Hmac<Sha256> as KeyInit>::new_from_slice(key.as_bytes()).unwrap();
    mac.update(body.as_bytes());
    let bytes = mac.finalize().into_bytes();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256={hex}")
}

/// A connection that is used again and again, as notification-controller's.
struct Connection(TcpStream);

impl Connection {
    async fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self(stream)
    }

    /// The code of the answer, which has no body.
    async fn post(&mut self, path: &str, body: &str, signature: &str) -> u16 {
        let length = body.len();
        let request = format!(
            "POST {path} HTTP/1.1\r\nHost: bench\r\nX-Signature: {signature}\r\nContent-Length: {length}\r\n\r\n{body}"
        );
        self.0.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            assert!(self.0.read_buf(&mut answer).await.unwrap() > 0);
        }
        let line = String::from_utf8_lossy(&answer[..12]);
        line[9..].parse().unwrap()
    }
}

fn counting(server: &Server, calls: &Calls) -> Client {
    let calls = calls.clone();
    let service = server.router(apiserver::User::in_process()).map_request(
        move |request: Request<kube::client::Body>| {
            let call = (request.method().clone(), request.uri().path().to_owned());
            calls.lock().unwrap().push(call);
            request.map(Body::new)
        },
    );
    Client::new(service, "default")
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures[figures.len() / 2]
}

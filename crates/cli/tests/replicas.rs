//! Two replicas of the binary: both serve webhooks and probes, whichever is the leader.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failing test is a panic"
)]

use std::{
    net::{SocketAddr, TcpListener},
    path::Path,
    process::Stdio,
    time::Duration,
};

use api::Pipeline;
use apiserver::{ServeOptions, Server};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, Client, api::PostParams};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    process::{Child, Command},
    time::timeout,
};

const BOUND: Duration = Duration::from_secs(120);

struct Replica {
    hooks: SocketAddr,
    rest: SocketAddr,
    probes: SocketAddr,
    metrics: SocketAddr,
    _process: Child,
}

impl Replica {
    fn start(kubeconfig: &Path) -> Self {
        let [hooks, rest, probes, metrics] = free_addresses();
        let process = Command::new(env!("CARGO_BIN_EXE_sluice"))
            .arg("controller")
            .arg(format!("--kubeconfig={}", kubeconfig.display()))
            .arg(format!("--promotion-hook-bind-address={hooks}"))
            .arg(format!("--rest-bind-address={rest}"))
            .arg(format!("--health-probe-bind-address={probes}"))
            .arg(format!("--metrics-bind-address={metrics}"))
            .arg("--promotion-hook-wait=10ms")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        Self {
            hooks,
            rest,
            probes,
            metrics,
            _process: process,
        }
    }
}

/// Addresses nobody listened on a moment ago.
fn free_addresses() -> [SocketAddr; 4] {
    let listeners = [(); 4].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap())
}

async fn ask(address: SocketAddr, request: &str, body: &str) -> Option<String> {
    let length = body.len();
    let text = format!(
        "{request} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"
    );
    let mut stream = TcpStream::connect(address).await.ok()?;
    stream.write_all(text.as_bytes()).await.ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.ok()?;
    Some(answer)
}

/// Asks again until the answer holds the words.
async fn until(address: SocketAddr, request: &str, body: &str, words: &str) {
    let asked = async {
        loop {
            let answer = ask(address, request, body).await.unwrap_or_default();
            if answer.contains(words) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let answered = timeout(BOUND, asked).await;
    answered.unwrap_or_else(|_| panic!("{request} never answered {words:?}"));
}

async fn prepare(client: Client) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in api::crds() {
        let parameters = PostParams::default();
        definitions.create(&parameters, &definition).await.unwrap();
    }
    let pipelines: Api<Pipeline> = Api::namespaced(client, "default");
    let pipeline = serde_json::from_value(json!({
        "metadata": {"name": "app"},
        "spec": {
            "appRef": {
                "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "app",
            },
            "environments": [
                {"name": "dev", "targets": [{"namespace": "dev"}]},
                {"name": "prod", "targets": [{"namespace": "prod"}]},
            ],
            "promotion": {"strategy": {"notification": {}}},
        },
    }));
    let pipeline = pipeline.unwrap();
    pipelines
        .create(&PostParams::default(), &pipeline)
        .await
        .unwrap();
}

#[tokio::test]
async fn every_replica_serves_webhooks() {
    let folder = tempfile::tempdir().unwrap();
    let server = Server::in_memory();
    let served = server
        .serve(ServeOptions::new(folder.path()))
        .await
        .unwrap();
    prepare(server.client()).await;
    let replicas = [(); 2].map(|()| Replica::start(served.kubeconfig()));
    let event = json!({
        "involvedObject": {
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "app",
            "namespace": "dev",
        },
        "timestamp": "2026-02-08T12:34:13Z",
        "metadata": {"revision": "1.0.0"},
    });
    for replica in &replicas {
        let hook = "POST /promotion/default/app/dev";
        until(replica.hooks, hook, &event.to_string(), " 202 Accepted").await;
        until(replica.probes, "GET /readyz", "", " 200 OK").await;
        until(
            replica.rest,
            "GET /api/v1/pipelines",
            "",
            " 401 Unauthorized",
        )
        .await;
        let counted = r#"sluice_hooks_total{route="promotion",code="202"} 1"#;
        until(replica.metrics, "GET /metrics", "", counted).await;
    }
    let pipelines: Api<Pipeline> = Api::namespaced(server.client(), "default");
    let status = pipelines.get("app").await.unwrap().status.unwrap();
    assert_eq!(status.reports["dev/-/dev"].revision, "1.0.0");
}

//! What is asked of each server.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use futures::AsyncBufReadExt;
use http::{Method, Request};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{
    OBJECTS, SPEC_BYTES,
    client::{BenchConnector, BenchRequest},
};

pub(crate) const THINGS: &str = "/apis/bench.example.com/v1/namespaces/default/things";
/// How long a rate is measured.
const WHILE: Duration = Duration::from_secs(4);
/// How long to wait for a log to be rewritten.
const STORM: Duration = Duration::from_secs(60);
/// How many changes the latency is measured with.
const CHANGES: usize = 100;

/// The definition of the objects.
pub(crate) fn definition() -> String {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"spec": open, "status": open}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "things.bench.example.com"},
        "spec": {
            "group": "bench.example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
    .to_string()
}

/// Defines the kind of the objects and waits until it is served.
pub(crate) async fn define(connector: &BenchConnector) {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions".to_owned();
    let mut connection = connector.connect().await;
    let bench_request = BenchRequest::new(Method::POST, path, definition());
    connection.send(bench_request).await;
    loop {
        let request = Request::get(THINGS).body(Body::empty()).unwrap();
        let response = connector.client.send(request).await.unwrap();
        if response.status().is_success() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A Thing that looks like a pipeline: environments with targets, in [`SPEC_BYTES`].
pub(crate) fn thing(number: usize) -> Value {
    let mut environments = Vec::new();
    while json!(environments).to_string().len() < SPEC_BYTES - 60 {
        let name = format!("environment-{}", environments.len());
        let target = json!({"namespace": format!("team-{number}"), "clusterRef": {"kind": "GitopsCluster", "name": name}});
        environments.push(
            json!({"name": name, "targets": [target], "promotion": {"strategy": "pull-request"}}),
        );
    }
    let spec =
        json!({"appRef": {"kind": "HelmRelease", "name": "podinfo"}, "environments": environments});
    json!({
        "apiVersion": "bench.example.com/v1", "kind": "Thing",
        "metadata": {"name": format!("thing-{number:05}")}, "spec": spec,
    })
}

/// A patch of the status; what a client pays for making one is no concern of ours, so it is text.
pub(crate) fn status(step: usize, sent: Option<usize>) -> String {
    let environments = [0, 1, 2].map(|at| {
        format!(r#"{{"name":"environment-{at}","revision":"{step:040x}","ready":true}}"#)
    });
    let sent = sent.map_or_else(|| "null".to_owned(), |sent| sent.to_string());
    let environments = environments.join(",");
    format!(r#"{{"status":{{"step":{step},"sent":{sent},"environments":[{environments}]}}}}"#)
}

/// Creates all objects; gives the number of them.
pub(crate) async fn creates(
    connector: &BenchConnector,
    clients: usize,
    bodies: Arc<Vec<Bytes>>,
) -> usize {
    let next = Arc::new(AtomicUsize::new(0));
    let work = (0..clients).map(|_| {
        let (connector, next, bodies) = (connector.clone(), next.clone(), bodies.clone());
        tokio::spawn(async move {
            let mut connection = connector.connect().await;
            while let Some(body) = bodies.get(next.fetch_add(1, Ordering::Relaxed)) {
                let bench_request =
                    BenchRequest::new(Method::POST, THINGS.to_owned(), body.clone());
                connection.send(bench_request).await;
            }
        })
    });
    for done in work.collect::<Vec<_>>() {
        done.await.unwrap();
    }
    bodies.len()
}

/// Asks for a while with so many clients at once; gives the number of answers.
async fn repeat(
    connector: &BenchConnector,
    clients: usize,
    bench_request: impl Fn(usize, usize) -> BenchRequest + Copy + Send + 'static,
) -> usize {
    let started = Instant::now();
    let work = (0..clients).map(|worker| {
        let connector = connector.clone();
        tokio::spawn(async move {
            let mut connection = connector.connect().await;
            let mut count = 0;
            while started.elapsed() < WHILE {
                connection.send(bench_request(worker, count)).await;
                count += 1;
            }
            count
        })
    });
    let mut total = 0;
    for done in work.collect::<Vec<_>>() {
        total += done.await.unwrap();
    }
    total
}

/// Each worker has its own part of the objects.
fn place(worker: usize, count: usize) -> String {
    let number = worker * (OBJECTS / 16) + count % (OBJECTS / 16);
    format!("{THINGS}/thing-{number:05}")
}

pub(crate) async fn gets(connector: &BenchConnector, clients: usize) -> usize {
    let bench_request = |worker, count| BenchRequest::new(Method::GET, place(worker, count), "");
    repeat(connector, clients, bench_request).await
}

/// Never what is there already: a patch that changes nothing is another thing.
fn patch(worker: usize, count: usize, step: usize) -> BenchRequest {
    let path = format!("{}/status", place(worker, count));
    BenchRequest::new(Method::PATCH, path, status(step + count, None))
}

pub(crate) async fn patches(connector: &BenchConnector, clients: usize) -> usize {
    let bench_request = move |worker, count| patch(worker, count, clients * 1_000_000);
    repeat(connector, clients, bench_request).await
}

/// Applies another label to one object after the other.
pub(crate) async fn applies(connector: &BenchConnector, clients: usize) -> usize {
    let bench_request = |worker, count| {
        let path = format!("{}?fieldManager=bench&force=true", place(worker, count));
        let round = count / (OBJECTS / 16);
        let body = format!(
            r#"{{"apiVersion":"bench.example.com/v1","kind":"Thing","metadata":{{"labels":{{"round":"{round}"}}}}}}"#
        );
        BenchRequest::new(Method::PATCH, path, body)
    };
    repeat(connector, clients, bench_request).await
}

/// Patches until `is_enough` says so, a while at most; gives the number of patches and the
/// milliseconds that the 99th of 100 and the slowest took.
pub(crate) async fn storm(
    connector: &BenchConnector,
    is_enough: impl Fn() -> bool,
) -> (usize, f64, f64) {
    let started = Instant::now();
    let is_over = Arc::new(AtomicUsize::new(0));
    let work = (0..16).map(|worker| {
        let (connector, is_over) = (connector.clone(), is_over.clone());
        tokio::spawn(async move {
            let mut connection = connector.connect().await;
            let mut waits = Vec::new();
            while is_over.load(Ordering::Relaxed) == 0 {
                let sent = Instant::now();
                let bench_request = patch(worker, waits.len(), 99_000_000);
                connection.send(bench_request).await;
                waits.push(sent.elapsed().as_secs_f64() * 1000.0);
            }
            waits
        })
    });
    let work: Vec<_> = work.collect();
    while !is_enough() && started.elapsed() < STORM {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    is_over.store(1, Ordering::Relaxed);
    let mut waits = Vec::new();
    for done in work {
        waits.extend(done.await.unwrap());
    }
    waits.sort_by(f64::total_cmp);
    let last = waits.last().copied().unwrap();
    (waits.len(), waits[waits.len() * 99 / 100], last)
}

/// Lists all objects; gives the seconds of the best of three, and the bytes.
pub(crate) async fn list(connector: &BenchConnector) -> (f64, usize) {
    let mut connection = connector.connect().await;
    let mut best = f64::INFINITY;
    let mut bytes = 0;
    for _ in 0..3 {
        let started = Instant::now();
        let bench_request = BenchRequest::new(Method::GET, THINGS.to_owned(), "");
        bytes = connection.send(bench_request).await.len();
        best = best.min(started.elapsed().as_secs_f64());
    }
    (best, bytes)
}

/// Changes one object again and again; gives the median and the 99th percentile of the milliseconds
/// from sending a change to its arrival at a watcher.
pub(crate) async fn latency(connector: &BenchConnector, watchers: usize) -> (f64, f64) {
    let (arrived, mut arrivals) = mpsc::unbounded_channel();
    let mut tasks = Vec::new();
    for _ in 0..watchers {
        let path = format!("{THINGS}?watch=true&fieldSelector=metadata.name%3Dthing-00000");
        let request = Request::get(path).body(Vec::new()).unwrap();
        let mut lines = connector
            .client
            .request_stream(request)
            .await
            .unwrap()
            .lines();
        let arrived = arrived.clone();
        tasks.push(tokio::spawn(async move {
            use futures::StreamExt;
            while let Some(Ok(line)) = lines.next().await {
                let event: Value = serde_json::from_str(&line).unwrap();
                let sent = event["object"]["status"]["sent"].as_u64();
                if arrived.send((sent, Instant::now())).is_err() {
                    return;
                }
            }
        }));
    }
    // Every watch begins with the object as it is.
    for _ in 0..watchers {
        arrivals.recv().await.unwrap();
    }
    let mut waited = Vec::new();
    let mut connection = connector.connect().await;
    let path = format!("{THINGS}/thing-00000/status");
    for change in 0..CHANGES {
        let number = watchers * 1000 + change;
        let started = Instant::now();
        let body = status(number, Some(number));
        let bench_request = BenchRequest::new(Method::PATCH, path.clone(), body);
        connection.send(bench_request).await;
        let mut missing = watchers;
        while missing > 0 {
            let (sent, at) = arrivals.recv().await.unwrap();
            if sent == Some(number as u64) {
                waited.push(at.duration_since(started).as_secs_f64() * 1000.0);
                missing -= 1;
            }
        }
    }
    tasks.iter().for_each(tokio::task::JoinHandle::abort);
    waited.sort_by(f64::total_cmp);
    (waited[waited.len() / 2], waited[waited.len() * 99 / 100])
}

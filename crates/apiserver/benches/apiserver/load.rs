//! What is asked of each server.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures::AsyncBufReadExt;
use http::{Method, Request};
use http_body_util::BodyExt;
use kube::{Client, client::Body};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use crate::{OBJECTS, SPEC_BYTES};

pub(crate) const THINGS: &str = "/apis/bench.example.com/v1/namespaces/default/things";
/// How long a rate is measured.
const WHILE: Duration = Duration::from_secs(4);
/// How long to wait for a log to be rewritten.
const STORM: Duration = Duration::from_secs(60);
/// How many changes the latency is measured with.
const CHANGES: usize = 100;

/// What a body of a request is in.
pub(crate) fn content_type(method: &Method) -> &'static str {
    match *method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    }
}

async fn send(client: &Client, method: Method, path: &str, body: String) -> Vec<u8> {
    let content_type = match path.contains("fieldManager=") {
        true => "application/apply-patch+yaml",
        false => content_type(&method),
    };
    let request = Request::builder().method(method).uri(path);
    let request = request.header("content-type", content_type);
    let request = request.body(Body::from(body.into_bytes())).unwrap();
    let response = client.send(request).await.unwrap();
    let code = response.status();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    assert!(
        code.is_success(),
        "{path}: {code} {}",
        String::from_utf8_lossy(&bytes)
    );
    bytes.to_vec()
}

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
pub(crate) async fn define(client: &Client) {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    send(client, Method::POST, path, definition()).await;
    loop {
        let request = Request::get(THINGS).body(Body::empty()).unwrap();
        if client.send(request).await.unwrap().status().is_success() {
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

pub(crate) fn status(step: usize, sent: Option<usize>) -> String {
    let environments: Vec<Value> = (0..3)
        .map(|at| json!({"name": format!("environment-{at}"), "revision": format!("{step:040x}"), "ready": true}))
        .collect();
    json!({"status": {"step": step, "sent": sent, "environments": environments}}).to_string()
}

/// Creates all objects; gives the rate.
pub(crate) async fn creates(client: &Client, clients: usize) -> f64 {
    let next = Arc::new(AtomicUsize::new(0));
    let started = Instant::now();
    let work = (0..clients).map(|_| {
        let (client, next) = (client.clone(), next.clone());
        tokio::spawn(async move {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= OBJECTS {
                    return;
                }
                send(&client, Method::POST, THINGS, thing(number).to_string()).await;
            }
        })
    });
    for done in work.collect::<Vec<_>>() {
        done.await.unwrap();
    }
    OBJECTS as f64 / started.elapsed().as_secs_f64()
}

/// Repeats something for a while with so many clients at once; gives the rate.
async fn rate<F: Future<Output = ()> + Send>(
    client: &Client,
    clients: usize,
    once: impl Fn(Client, usize, usize) -> F + Copy + Send + 'static,
) -> f64 {
    let started = Instant::now();
    let work = (0..clients).map(|worker| {
        let client = client.clone();
        tokio::spawn(async move {
            let mut count = 0;
            while started.elapsed() < WHILE {
                once(client.clone(), worker, count).await;
                count += 1;
            }
            count
        })
    });
    let mut total = 0;
    for done in work.collect::<Vec<_>>() {
        total += done.await.unwrap();
    }
    total as f64 / started.elapsed().as_secs_f64()
}

/// Each worker has its own part of the objects.
fn place(worker: usize, count: usize) -> String {
    let number = worker * (OBJECTS / 16) + count % (OBJECTS / 16);
    format!("{THINGS}/thing-{number:05}")
}

pub(crate) async fn gets(client: &Client, clients: usize) -> f64 {
    rate(client, clients, |client, worker, count| async move {
        send(&client, Method::GET, &place(worker, count), String::new()).await;
    })
    .await
}

pub(crate) async fn patches(client: &Client, clients: usize) -> f64 {
    rate(client, clients, move |client, worker, count| async move {
        let path = format!("{}/status", place(worker, count));
        // Never what is there already: a patch that changes nothing is another thing.
        let step = count + clients * 1_000_000;
        send(&client, Method::PATCH, &path, status(step, None)).await;
    })
    .await
}

/// Applies another label to one object after the other.
pub(crate) async fn applies(client: &Client, clients: usize) -> f64 {
    rate(client, clients, |client, worker, count| async move {
        let path = format!("{}?fieldManager=bench&force=true", place(worker, count));
        let labels = json!({"round": (count / (OBJECTS / 16)).to_string()});
        let object = json!({
            "apiVersion": "bench.example.com/v1", "kind": "Thing", "metadata": {"labels": labels},
        });
        send(&client, Method::PATCH, &path, object.to_string()).await;
    })
    .await
}

/// Patches until `is_enough` says so, a while at most; gives the number of patches and the
/// milliseconds that the 99th of 100 and the slowest took.
pub(crate) async fn storm(client: &Client, is_enough: impl Fn() -> bool) -> (usize, f64, f64) {
    let started = Instant::now();
    let is_over = Arc::new(AtomicUsize::new(0));
    let work = (0..16).map(|worker| {
        let (client, is_over) = (client.clone(), is_over.clone());
        tokio::spawn(async move {
            let mut waits = Vec::new();
            while is_over.load(Ordering::Relaxed) == 0 {
                let path = format!("{}/status", place(worker, waits.len()));
                let sent = Instant::now();
                let step = waits.len() + 99_000_000;
                send(&client, Method::PATCH, &path, status(step, None)).await;
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
pub(crate) async fn list(client: &Client) -> (f64, usize) {
    let mut best = f64::INFINITY;
    let mut bytes = 0;
    for _ in 0..3 {
        let started = Instant::now();
        bytes = send(client, Method::GET, THINGS, String::new()).await.len();
        best = best.min(started.elapsed().as_secs_f64());
    }
    (best, bytes)
}

/// Changes one object again and again; gives the median and the 99th percentile of the milliseconds
/// from sending a change to its arrival at a watcher.
pub(crate) async fn latency(client: &Client, watchers: usize) -> (f64, f64) {
    let (arrived, mut arrivals) = mpsc::unbounded_channel();
    let mut tasks = Vec::new();
    for _ in 0..watchers {
        let path = format!("{THINGS}?watch=true&fieldSelector=metadata.name%3Dthing-00000");
        let request = Request::get(path).body(Vec::new()).unwrap();
        let mut lines = client.request_stream(request).await.unwrap().lines();
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
    let path = format!("{THINGS}/thing-00000/status");
    for change in 0..CHANGES {
        let number = watchers * 1000 + change;
        let started = Instant::now();
        send(client, Method::PATCH, &path, status(number, Some(number))).await;
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

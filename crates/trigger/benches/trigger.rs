//! 1,000 triggers against the embedded API in one process: how long from a source's event to the
//! created run, how many calls an event costs, how much memory everything takes.

use std::{collections::HashMap, time::Duration};

use apiserver::Server;
use controller::Metrics;
use futures::StreamExt;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    client::Body,
    core::{ApiResource, DynamicObject, GroupVersionKind},
    runtime::{WatchStreamExt, watcher},
};
use runtime::{CacheConfig, Health, LeaderGuard, ObjectCache};
use serde_json::{Value, json};
use tokio::{sync::mpsc, time::Instant};
use tokio_util::sync::CancellationToken;
use tower::ServiceBuilder;
use trigger::controller::{NAME, TriggerContext, TriggerMetrics, TriggerSettings};

const TRIGGERS: usize = 1000;
/// Events under way at once in the second round.
const AT_ONCE: usize = 50;

type Kind = (&'static str, &'static str, &'static str, &'static str);
const GIT: Kind = (
    "source.toolkit.fluxcd.io",
    "v1",
    "GitRepository",
    "gitrepositories",
);
const RUN: Kind = ("tekton.dev", "v1", "PipelineRun", "pipelineruns");
const TRIGGER: Kind = (
    "pipeline.jquad.rocks",
    "v1alpha1",
    "PipelineTrigger",
    "pipelinetriggers",
);

#[tokio::main]
async fn main() {
    let memory_before = resident_megabytes();
    let server = Server::in_memory();
    let client = server.client();
    prepare(&client).await;
    let memory_with_objects = resident_megabytes();
    let metrics = Metrics::new();
    let mut created = watch_runs(&client);
    let started = Instant::now();
    tokio::spawn(trigger::controller::run(context(&server, &metrics)));
    for _ in 0..TRIGGERS {
        created.recv().await;
    }
    report(&format!(
        "first run of {TRIGGERS} triggers: {:.0?}",
        started.elapsed()
    ));

    settle(&metrics).await;
    let calls = writes(&metrics);
    let single = round(&client, &mut created, 1, "b").await;
    settle(&metrics).await;
    let calls_single = writes(&metrics) - calls;
    report(&format!("one event at a time: {}", figures(single)));
    let burst = round(&client, &mut created, AT_ONCE, "c").await;
    report(&format!("{AT_ONCE} events at once: {}", figures(burst)));
    let calls = calls_single as f64 / TRIGGERS as f64;
    report(&format!(
        "writes per event: {calls:.2} (the run, the status, a Kubernetes event); nothing is read"
    ));
    let memory = resident_megabytes();
    report(&format!(
        "memory: {memory_before:.0} MB at first, {memory_with_objects:.0} MB with objects in the embedded API, {memory:.0} MB at the end"
    ));
}

#[expect(
    clippy::print_stdout,
    reason = "a benchmark's figures go to the terminal"
)]
fn report(line: &str) {
    println!("{line}");
}

/// What the controller needs; its requests are counted.
fn context(server: &Server, metrics: &Metrics) -> TriggerContext {
    let counted = ServiceBuilder::new()
        .layer(metrics.count_requests("hub"))
        .map_request(|request: http::Request<Body>| request.map(axum::body::Body::new))
        .service(server.router(apiserver::User::in_process()));
    let client = Client::new(counted, "default");
    let settings = TriggerSettings {
        concurrency: 20,
        ..TriggerSettings::default()
    };
    let triggers = ObjectCache::new(CacheConfig::default());
    let (fed, hub) = (triggers.clone(), client.clone());
    tokio::spawn(async move { fed.watch(hub, None, watcher::Config::default()).await });
    TriggerContext {
        client,
        triggers,
        worker_metrics: metrics.of_controller(NAME, settings.concurrency),
        settings,
        event_metrics: metrics.events().clone(),
        metrics: TriggerMetrics::default(),
        leader: LeaderGuard::without_election(),
        health: Health::new(Duration::from_secs(300)),
        stop: CancellationToken::new(),
    }
}

/// How many writes the controller sent.
fn writes(metrics: &Metrics) -> u64 {
    let page = metrics.page();
    let requests = page
        .lines()
        .filter(|line| line.starts_with("rest_client_requests_total{"))
        .filter(|line| !line.contains("method=\"GET\""));
    let count = requests.filter_map(|line| line.rsplit_once(' ')?.1.parse::<u64>().ok());
    count.sum()
}

fn objects(client: &Client, (group, version, kind, plural): Kind) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(group, version, kind);
    let resource = ApiResource::from_gvk_with_plural(&kind, plural);
    Api::default_namespaced_with(client.clone(), &resource)
}

async fn prepare(client: &Client) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let foreign = [GIT, RUN].map(definition);
    for definition in api::crds().into_iter().chain(foreign) {
        let created = definitions
            .create(&PostParams::default(), &definition)
            .await;
        created.expect("a valid definition");
    }
    for number in 0..TRIGGERS {
        let name = format!("t{number}");
        let source = json!({ "metadata": { "name": name }, "spec": { "url": "https://git.example/shop.git" } });
        create(client, GIT, source).await;
        push(client, number, "a").await;
        let trigger = json!({ "metadata": { "name": name }, "spec": {
            "source": { "kind": "GitRepository", "name": name },
            "pipelineRun": { "spec": { "pipelineSpec": {}, "params": [
                { "name": "commit", "value": "$.commitId" }, { "name": "branch", "value": "$(branch)" }] } },
        } });
        create(client, TRIGGER, trigger).await;
    }
}

async fn create(client: &Client, kind: Kind, mut object: Value) {
    object["apiVersion"] = json!(format!("{}/{}", kind.0, kind.1));
    object["kind"] = json!(kind.2);
    let object: DynamicObject = serde_json::from_value(object).expect("an object");
    let created = objects(client, kind)
        .create(&PostParams::default(), &object)
        .await;
    created.expect("a valid object");
}

async fn push(client: &Client, number: usize, commit: &str) {
    let name = format!("t{number}");
    let artifact = json!({ "revision": format!("main@sha1:{commit}{number}"), "path": format!("gitrepository/default/{name}/x") });
    let patch = Patch::Merge(json!({ "status": { "artifact": artifact } }));
    let sources = objects(client, GIT);
    let pushed = sources
        .patch_status(&name, &PatchParams::default(), &patch)
        .await;
    pushed.expect("a status");
}

/// Says the trigger of each run when it appears.
fn watch_runs(client: &Client) -> mpsc::UnboundedReceiver<(String, Instant)> {
    let (tell, told) = mpsc::unbounded_channel();
    let runs = watcher(objects(client, RUN), watcher::Config::default()).default_backoff();
    tokio::spawn(runs.applied_objects().for_each(move |run| {
        if let Ok(run) = run {
            let owners = run.metadata.owner_references.unwrap_or_default();
            let owner = owners.first().map(|owner| owner.name.clone());
            let _ = tell.send((owner.unwrap_or_default(), Instant::now()));
        }
        std::future::ready(())
    }));
    told
}

/// One event for every trigger, so many at a time; how long each took.
async fn round(
    client: &Client,
    created: &mut mpsc::UnboundedReceiver<(String, Instant)>,
    at_once: usize,
    commit: &str,
) -> Vec<Duration> {
    let mut times = Vec::new();
    for first in (0..TRIGGERS).step_by(at_once) {
        let batch: Vec<usize> = (first..TRIGGERS.min(first + at_once)).collect();
        let mut pushed = HashMap::new();
        for number in &batch {
            pushed.insert(format!("t{number}"), Instant::now());
            push(client, *number, commit).await;
        }
        for _ in &batch {
            let (trigger, at) = created.recv().await.expect("the watch goes on");
            times.push(at.duration_since(pushed[&trigger]));
        }
    }
    times
}

/// Waits until no calls are made any more.
async fn settle(metrics: &Metrics) {
    let mut before = u64::MAX;
    while writes(metrics) != before {
        before = writes(metrics);
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
}

fn figures(mut times: Vec<Duration>) -> String {
    times.sort();
    let at = |share: usize| times[(times.len() * share / 100).min(times.len() - 1)];
    format!(
        "p50 {:.2?}, p99 {:.2?}, max {:.2?}",
        at(50),
        at(99),
        at(100)
    )
}

fn resident_megabytes() -> f64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text
        .split_whitespace()
        .nth(1)
        .and_then(|pages| pages.parse::<f64>().ok());
    pages.unwrap_or_default() * 4096.0 / 1e6
}

fn definition((group, version, kind, plural): Kind) -> CustomResourceDefinition {
    let anything = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let schema =
        json!({ "type": "object", "properties": { "spec": anything, "status": anything } });
    let definition = json!({
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": { "kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List") },
            "versions": [{
                "name": version, "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": schema }
            }]
        }
    });
    serde_json::from_value(definition).expect("a definition")
}

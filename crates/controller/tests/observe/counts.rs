//! What a change and a rest cost, counted in requests: figures that do not depend on the machine.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use controller::Settings;
use http::Request;
use kube::{Client, client::Body};
use serde_json::{Value, json};

use crate::world::{World, create, deploy, namespace, release, released, set_status, spec};

/// Requests by cluster, verb and resource.
#[derive(Clone, Default)]
struct Requests(Arc<Mutex<BTreeMap<String, usize>>>);

impl Requests {
    /// A client whose requests are counted.
    fn count(&self, cluster: &'static str, inner: &Client) -> Client {
        let (requests, inner) = (self.clone(), inner.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (requests, inner) = (requests.clone(), inner.clone());
            async move {
                requests.record(cluster, &request);
                inner.send(request).await
            }
        });
        Client::new(service, "default")
    }

    fn record(&self, cluster: &str, request: &Request<Body>) {
        let query = request.uri().query().unwrap_or_default();
        let verb = match query.contains("watch=true") {
            true => "WATCH",
            false => request.method().as_str(),
        };
        let path = request.uri().path();
        let what = format!("{cluster} {verb} {path}");
        *self.0.lock().unwrap().entry(what).or_default() += 1;
    }

    fn take(&self) -> Vec<String> {
        let counts = std::mem::take(&mut *self.0.lock().unwrap());
        let shown = counts.iter().map(|(what, count)| format!("{count} {what}"));
        shown.collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_costs_one_write_and_a_rest_none() {
    let mut world = World::new().await;
    let leaf = world.leaf("dev").await.client();
    namespace(&leaf, "x").await;
    deploy(&leaf, &release("x", "app", "1.0.0")).await;
    let requests = Requests::default();
    world.serve("dev", requests.count("leaf", &leaf));
    let hub = requests.count("hub", &world.hub.client());
    world.restart_through(hub, Settings::default());
    world.pipeline("p", spec("dev=dev/x")).await;
    world.expect("p", "dev[1.0.0 ok]").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    requests.take();
    for patch in 1..=10 {
        let version = format!("1.0.{patch}");
        let app = release("x", "app", "");
        set_status(&leaf, &app, &released(&version, true)).await;
        world.expect("p", &format!("dev[{version} ok]")).await;
        let status = "1 hub PATCH /apis/pipelines.weave.works/v1alpha1/namespaces/default/pipelines/p/status";
        assert_eq!(without_probes(requests.take()), [status]);
        tokio::time::sleep(Duration::from_secs(5)).await;
        // Which images run: the status did not wait for it, because the app had no workloads before.
        let lists = ["daemonsets", "deployments", "statefulsets"];
        let lists = lists.map(|kind| format!("1 leaf GET /apis/apps/v1/{kind}"));
        assert_eq!(without_probes(requests.take()), lists);
    }
    tokio::time::sleep(Duration::from_secs(3600)).await;
    // Watches that begin again, whether the leaf answers, and whether its credentials are still the same.
    let is_read = |it: &&String| it.contains(" GET ") || it.contains(" WATCH ");
    let rest = requests.take();
    let (reads, writes): (Vec<&String>, _) = rest.iter().partition(is_read);
    assert_eq!(writes, [""; 0]);
    let counts = reads.iter().filter_map(|it| it.split(' ').next());
    let reads_in_all: usize = counts.map(|it| it.parse::<usize>().unwrap()).sum();
    assert!(reads_in_all <= 400, "{reads:?}");
}

/// Every 30 seconds a leaf is probed and its Secret read, whatever changes.
fn without_probes(mut requests: Vec<String>) -> Vec<String> {
    requests.retain(|it| !it.ends_with("/version") && !it.ends_with("/secrets/dev-kubeconfig"));
    requests
}

#[tokio::test(start_paused = true)]
async fn images_of_another_kind_of_workload_follow() {
    let mut world = World::new().await;
    let leaf = world.leaf("dev").await.client();
    namespace(&leaf, "x").await;
    deploy(&leaf, &release("x", "app", "1.0.0")).await;
    create(&leaf, &workload("Deployment", "web", "example.com/web:1")).await;
    world.pipeline("p", spec("dev=dev/x")).await;
    world.expect("p", "dev[1.0.0 ok]").await;
    assert_eq!(images(&world).await, ["example.com/web:1"]);
    create(&leaf, &workload("StatefulSet", "db", "example.com/db:7")).await;
    set_status(&leaf, &release("x", "app", ""), &released("1.1.0", true)).await;
    world.expect("p", "dev[1.1.0 ok]").await;
    assert_eq!(images(&world).await, ["example.com/web:1"]);
    tokio::time::sleep(Duration::from_secs(5)).await;
    let all = ["example.com/db:7", "example.com/web:1"];
    assert_eq!(images(&world).await, all);
    // It is known to have both kinds now.
    set_status(&leaf, &release("x", "app", ""), &released("1.2.0", true)).await;
    world.expect("p", "dev[1.2.0 ok]").await;
    assert_eq!(images(&world).await, all);
}

async fn images(world: &World) -> Vec<String> {
    let pipeline = world.pipelines().get("p").await.unwrap();
    let status = pipeline.status.unwrap();
    status.environments["dev"].targets[0].apps[0].images.clone()
}

fn workload(kind: &str, name: &str, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": kind,
        "metadata": {"name": name, "namespace": "x", "labels": {
            "helm.toolkit.fluxcd.io/name": "app", "helm.toolkit.fluxcd.io/namespace": "x",
        }},
        "spec": {
            "serviceName": name, "selector": {"matchLabels": {"a": name}},
            "template": {
                "metadata": {"labels": {"a": name}},
                "spec": {"containers": [{"name": "c", "image": image}]},
            },
        },
    })
}

/// The pipelines of the next test.
const PIPELINES: usize = 50;
/// The size of the status of a pipeline with one target, as JSON.
const STATUS_BYTES: usize = 900;
/// Reads of the hub for the first sync: lists and watches of each kind, and the Secret of the leaf.
const FIRST_READS: usize = 30;

/// How many requests are writes, and how many are reads, of the hub.
fn hub_writes_and_reads(requests: &[String]) -> (usize, usize) {
    let mut counts = (0, 0);
    for line in requests {
        let (count, what) = line.split_once(' ').unwrap();
        let count: usize = count.parse().unwrap();
        match what {
            _ if !what.starts_with("hub ") => {}
            _ if what.contains(" GET ") || what.contains(" WATCH ") => counts.1 += count,
            _ => counts.0 += count,
        }
    }
    counts
}

#[tokio::test(start_paused = true)]
async fn fifty_pipelines_cost_one_write_each_at_first_and_at_each_change() {
    let mut world = World::new().await;
    world.stop();
    let leaf = world.leaf("dev").await.client();
    for number in 0..PIPELINES {
        let name = format!("app-{number}");
        namespace(&leaf, &name).await;
        deploy(&leaf, &release(&name, "app", "1.0.0")).await;
        world
            .pipeline(&name, spec(&format!("dev=dev/{name}")))
            .await;
    }
    let requests = Requests::default();
    world.serve("dev", requests.count("leaf", &leaf));
    let hub = requests.count("hub", &world.hub.client());
    world.restart_through(hub, Settings::default());
    for number in 0..PIPELINES {
        world
            .expect(&format!("app-{number}"), "dev[1.0.0 ok]")
            .await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    let first = requests.take();
    let (writes, reads) = hub_writes_and_reads(&first);
    // Each status, and that of the cluster.
    assert!(writes <= PIPELINES + 2, "{writes} writes: {first:#?}");
    assert!(reads <= FIRST_READS, "{reads} reads: {first:#?}");
    for pipeline in world.pipelines().list(&Default::default()).await.unwrap() {
        let bytes = serde_json::to_vec(&pipeline.status).unwrap().len();
        assert!(
            bytes <= STATUS_BYTES,
            "{bytes} bytes: {:?}",
            pipeline.status
        );
    }
    for number in 0..PIPELINES {
        let app = release(&format!("app-{number}"), "app", "");
        set_status(&leaf, &app, &released("1.0.1", true)).await;
    }
    for number in 0..PIPELINES {
        world
            .expect(&format!("app-{number}"), "dev[1.0.1 ok]")
            .await;
    }
    let changed = requests.take();
    let (writes, reads) = hub_writes_and_reads(&changed);
    assert!(writes <= PIPELINES, "{writes} writes: {changed:#?}");
    assert_eq!(reads, 0, "{changed:#?}");
}

//! What one promotion by pull request costs, counted in requests: figures that do not depend on the machine.

use std::sync::{Arc, Mutex};

use http::Request;
use kube::{Client, client::Body};
use testbed::forge::Forge;

use crate::world::{World, manifest, settings, spec};

const PROD: &str = "prod/app.yaml";
/// Writes to the hub: statuses of both clusters, the pipeline and the promotion, and the promotion itself. Ten are
/// usual; a status is written once more if something else changes meanwhile.
const HUB_WRITES: usize = 12;
/// Reads of the hub beside watches: lists, Secrets, and what is asked before each side effect. 21 are usual.
const HUB_READS: usize = 24;
/// Requests to the forge, those of git among them, with two looks at the open pull request a second. 19 are
/// usual; a slow machine looks more often.
const FORGE_REQUESTS: u64 = 26;

/// Methods and paths, without watches.
type Requests = Arc<Mutex<Vec<String>>>;

fn counted(inner: &Client, requests: &Requests) -> Client {
    let (requests, inner) = (requests.clone(), inner.clone());
    let service = tower::service_fn(move |request: Request<Body>| {
        let (requests, inner) = (requests.clone(), inner.clone());
        async move {
            let is_watch = request
                .uri()
                .query()
                .is_some_and(|it| it.contains("watch="));
            if !is_watch {
                let line = format!("{} {}", request.method(), request.uri().path());
                requests.lock().unwrap().push(line);
            }
            inner.send(request).await
        }
    });
    Client::new(service, "default")
}

#[tokio::test]
async fn a_promotion_costs_few_requests() {
    let hub = testbed::hub::server().client();
    let forge = Arc::new(Forge::start_with_tls().await.unwrap());
    let files = [(PROD, manifest("1.0.0", "default:app:prod"))];
    let files = files.each_ref().map(|(path, text)| (*path, text.as_str()));
    let repository = forge.create_repository("team/config", &files).await;
    let requests = Requests::default();
    let reached = counted(&hub, &requests);
    let mut world = World::idle(hub, reached, forge, repository.unwrap()).await;
    world.leaf("dev", "app", "1.0.0").await;
    world.leaf("prod", "app", "1.0.0").await;
    world.restart(settings());
    let spec = spec("dev=dev/app > prod=prod/app", &world.promotion());
    world.pipeline("app", spec).await;
    world.expect_hold("app", "prod", "").await;
    world.deploy("dev", "app", "1.1.0").await;
    world.expect("prod 1.1.0 WaitingForMerge").await;
    world.repository.merge(1).await.unwrap();
    world.sync(PROD, "prod", "app").await;
    world.expect("prod 1.1.0 Succeeded").await;
    let all = std::mem::take(&mut *requests.lock().unwrap());
    let (reads, writes): (Vec<_>, Vec<_>) = all.iter().partition(|it| it.starts_with("GET "));
    assert!(writes.len() <= HUB_WRITES, "{}: {writes:#?}", writes.len());
    assert!(reads.len() <= HUB_READS, "{}: {reads:#?}", reads.len());
    let asked = world.forge.requests();
    assert!(asked <= FORGE_REQUESTS, "{asked} requests to the forge");
}

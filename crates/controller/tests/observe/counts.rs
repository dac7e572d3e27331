//! What a change costs, counted in requests: figures that do not depend on the machine.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::Request;
use kube::{Client, client::Body};

use crate::world::{World, deploy, namespace, release, released, set_status, spec};

/// Requests by verb and resource.
#[derive(Clone, Default)]
struct Counts(Arc<Mutex<BTreeMap<String, usize>>>);

impl Counts {
    /// A client whose requests are counted.
    fn client(&self, name: &'static str, inner: &Client) -> Client {
        let (counts, inner) = (self.clone(), inner.clone());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (counts, inner) = (counts.clone(), inner.clone());
            async move {
                counts.record(name, &request);
                inner.send(request).await
            }
        });
        Client::new(service, "default")
    }

    fn record(&self, name: &str, request: &Request<Body>) {
        let path = request.uri().path();
        let mut parts = path.rsplit('/');
        let last = parts.next().unwrap_or_default();
        let resource = match (last, request.method().as_str()) {
            ("status", _) => format!("{}/status", parts.nth(1).unwrap_or_default()),
            _ => last.to_owned(),
        };
        let query = request.uri().query().unwrap_or_default();
        let verb = match query.contains("watch=true") {
            true => "WATCH",
            false => request.method().as_str(),
        };
        let mut counts = self.0.lock().unwrap();
        *counts
            .entry(format!("{name} {verb} {resource}"))
            .or_default() += 1;
    }

    fn take(&self) -> String {
        let counts = std::mem::take(&mut *self.0.lock().unwrap());
        let shown = counts.iter().map(|(what, count)| format!("{count} {what}"));
        shown.collect::<Vec<_>>().join(", ")
    }
}

/// Ten changes on a leaf, then an hour without one.
#[tokio::test(start_paused = true)]
async fn a_change_costs_one_write_and_rest_costs_nothing() {
    let mut world = World::new().await;
    let leaf = world.leaf("dev").await.client();
    namespace(&leaf, "x").await;
    deploy(&leaf, &release("x", "app", "1.0.0")).await;
    let counts = Counts::default();
    world.serve("dev", counts.client("leaf", &leaf));
    let hub = counts.client("hub", &world.hub.client());
    world.restart_through(hub).await;
    world.pipeline("p", spec("dev=dev/x")).await;
    world.expect("p", "dev[1.0.0 ok]").await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    counts.take();
    for patch in 1..=10 {
        let version = format!("1.0.{patch}");
        let app = release("x", "app", "");
        set_status(&leaf, &app, &released(&version, true)).await;
        world.expect("p", &format!("dev[{version} ok]")).await;
    }
    assert_eq!(counts.take(), "");
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert_eq!(counts.take(), "");
}

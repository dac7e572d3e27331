//! Clusters and hubs with many failures: they do not disturb the others.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use apiserver::{FaultRates, Options, Server};
use axum::body::Body;
use http::{Request, Response, StatusCode};
use kube::{
    Client,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;
use tower::ServiceExt;

use crate::world::{World, define_flux, deploy, namespace, release, released, set_status, spec};

/// A cluster that can die and come back.
#[derive(Clone)]
pub(crate) struct Mortal {
    server: Server,
    is_dead: Arc<AtomicBool>,
}

impl Mortal {
    pub(crate) fn new(server: Server) -> Self {
        Self {
            server,
            is_dead: Arc::default(),
        }
    }

    pub(crate) fn server(&self) -> &Server {
        &self.server
    }

    pub(crate) fn kill(&self) {
        self.is_dead.store(true, Ordering::Relaxed);
    }

    pub(crate) fn revive(&self) {
        self.is_dead.store(false, Ordering::Relaxed);
    }

    pub(crate) fn client(&self) -> Client {
        let this = self.clone();
        client(move |request| {
            let this = this.clone();
            async move {
                if this.is_dead.load(Ordering::Relaxed) {
                    return answer(StatusCode::BAD_GATEWAY, "dead");
                }
                this.server
                    .router(apiserver::User::in_process())
                    .oneshot(request)
                    .await
                    .unwrap()
            }
        })
    }
}

/// A client whose every request is answered by a function.
pub(crate) fn client<F, A>(respond: F) -> Client
where
    F: Fn(Request<Body>) -> A + Clone + Send + 'static,
    A: Future<Output = Response<Body>> + Send + 'static,
{
    let service = tower::service_fn(move |request: Request<kube::client::Body>| {
        let answer = respond(request.map(Body::new));
        async move { Ok::<_, std::convert::Infallible>(answer.await) }
    });
    Client::new(service, "default")
}

fn answer(code: StatusCode, text: &'static str) -> Response<Body> {
    let mut response = Response::new(Body::from(text));
    *response.status_mut() = code;
    response
}

fn hanging() -> Client {
    client(|_| std::future::pending())
}

#[tokio::test(start_paused = true)]
async fn thirty_bad_clusters_do_not_disturb_twenty_good_ones() {
    let mut world = World::new().await;
    let mut bad = Vec::new();
    for index in 0..30 {
        let name = format!("bad-{index}");
        match index {
            0..10 => {} // connection refused
            10..15 => world.serve(&name, hanging()),
            15..20 => world.serve(
                &name,
                client(|_| async { answer(StatusCode::INTERNAL_SERVER_ERROR, "broken") }),
            ),
            20..25 => world.serve(
                &name,
                client(|_| async { answer(StatusCode::OK, "\u{0}\u{1}<html>not json") }),
            ),
            _ => world.serve(
                &name,
                client(|_| async { answer(StatusCode::UNAUTHORIZED, "who are you?") }),
            ),
        }
        world.register(&name, json!({})).await;
        bad.push(name);
    }
    for (index, bad) in bad.iter().take(20).enumerate() {
        let leaf = world.leaf(&format!("good-{index}")).await.client();
        namespace(&leaf, "x").await;
        deploy(&leaf, &release("x", "app", "1.0.0")).await;
        let drawing = format!("dev=good-{index}/x > prod={bad}/x");
        world.pipeline(&format!("p-{index}"), spec(&drawing)).await;
    }
    for (index, name) in bad.iter().enumerate() {
        world
            .pipeline(&format!("bad-{index}"), spec(&format!("dev={name}/x")))
            .await;
    }
    for index in 0..20 {
        let pipeline = format!("p-{index}");
        wait_for(&world, &pipeline, |drawn| {
            drawn.starts_with("dev[1.0.0 ok] > prod[- not reachable")
        })
        .await;
    }
    for index in 0..30 {
        wait_for(&world, &format!("bad-{index}"), |drawn| {
            drawn.contains("not reachable")
        })
        .await;
    }
}

/// A status names every target, however many of them have a long reason why they cannot be read.
#[tokio::test(start_paused = true)]
async fn two_hundred_refused_clusters_in_one_pipeline() {
    let world = World::new().await;
    let mut targets = Vec::new();
    for index in 0..201 {
        let name = format!("refused-{index}");
        world.register(&name, json!({"fleet": "edge"})).await;
        targets.push(format!("{name}/x"));
    }
    world
        .pipeline("p", spec(&format!("dev={}", targets.join(","))))
        .await;
    wait_for(&world, "p", |drawn| {
        drawn.matches("not reachable").count() == 201
    })
    .await;
    // The same by a selector, in waves.
    let selected =
        json!([{"namespace": "x", "clusterSelector": {"matchLabels": {"fleet": "edge"}}}]);
    let mut fleet = spec("dev=refused-0/x > fleet=");
    fleet["environments"][1]["targets"] = selected;
    fleet["promotion"] = json!({
        "strategy": {"webhook": {"url": "https://deploy.example/hook"}},
        "rollout": {"waves": [{"percent": 10, "maxConcurrent": 5}, {}], "maxFailures": "1%"},
    });
    world.pipeline("q", fleet).await;
    wait_for(&world, "q", |drawn| {
        drawn.matches("not reachable").count() == 202
    })
    .await;
}

async fn wait_for(world: &World, name: &str, is_right: impl Fn(&str) -> bool) {
    let mut drawn = String::new();
    for _ in 0..600 {
        drawn = crate::world::draw(&world.pipelines().get(name).await.unwrap());
        if is_right(&drawn) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    panic!("{name} is {drawn}");
}

#[tokio::test(start_paused = true)]
async fn a_leaf_that_drops_its_watches() {
    let mut world = World::new().await;
    let leaf = world.leaf("dev").await;
    namespace(&leaf.client(), "x").await;
    deploy(&leaf.client(), &release("x", "app", "1.0.0")).await;
    world.pipeline("p", spec("dev=dev/x")).await;
    world.expect("p", "dev[1.0.0 ok]").await;
    for round in 1..=20 {
        leaf.inject_faults(FaultRates {
            seed: round,
            dropped_watch: 1.0,
            stale_list: 0.3,
            ..FaultRates::default()
        });
        let version = format!("1.0.{round}");
        let app = release("x", "app", &version);
        set_status(&leaf.client(), &app, &released(&version, true)).await;
        world.expect("p", &format!("dev[{version} ok]")).await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_expired_resource_version() {
    let world = World::new().await;
    let leaf = Server::new(Options {
        history: 4,
        ..Options::default()
    });
    let mortal = Mortal::new(leaf.clone());
    define_flux(&leaf.client()).await;
    world.serve("dev", mortal.client());
    world.register("dev", json!({})).await;
    namespace(&leaf.client(), "x").await;
    deploy(&leaf.client(), &release("x", "app", "1.0.0")).await;
    world.pipeline("p", spec("dev=dev/x")).await;
    world.expect("p", "dev[1.0.0 ok]").await;
    mortal.kill();
    for round in 0..20 {
        let version = format!("2.0.{round}");
        set_status(
            &leaf.client(),
            &release("x", "app", ""),
            &released(&version, true),
        )
        .await;
    }
    mortal.revive();
    world.expect("p", "dev[2.0.19 ok]").await;
}

#[tokio::test(start_paused = true)]
async fn a_release_with_a_huge_status() {
    let mut world = World::new().await;
    let leaf = world.leaf("dev").await.client();
    namespace(&leaf, "x").await;
    let mut app = release("x", "app", "1.0.0");
    app["status"]["inventory"] = json!("x".repeat(1_000_000));
    deploy(&leaf, &app).await;
    world.pipeline("p", spec("dev=dev/x")).await;
    world.expect("p", "dev[1.0.0 ok]").await;
    let pipeline = world.pipelines().get("p").await.unwrap();
    assert!(serde_json::to_string(&pipeline).unwrap().len() < 10_000);
}

#[tokio::test(start_paused = true)]
async fn a_pipeline_with_a_thousand_targets() {
    let mut world = World::new().await;
    let leaf = world.leaf("dev").await.client();
    let mut targets = Vec::new();
    for index in 0..1000 {
        let name = format!("team-{index}");
        namespace(&leaf, &name).await;
        deploy(&leaf, &release(&name, "app", "1.0.0")).await;
        targets.push(format!("dev/{name}"));
    }
    world
        .pipeline("p", spec(&format!("dev={}", targets.join(","))))
        .await;
    let all = vec!["1.0.0 ok"; 1000].join(", ");
    world.expect("p", &format!("dev[{all}]")).await;
    let status = world.pipelines().get("p").await.unwrap().status;
    let size = serde_json::to_string(&status).unwrap().len();
    assert!(size < 700_000, "{size} bytes");
}

#[tokio::test(start_paused = true)]
async fn a_pipeline_that_is_edited_all_the_time() {
    let mut world = World::new().await;
    let leaf = world.leaf("dev").await.client();
    for name in ["a", "b"] {
        namespace(&leaf, name).await;
        deploy(&leaf, &release(name, "app", "1.0.0")).await;
    }
    world.pipeline("p", spec("dev=dev/a")).await;
    for round in 0..51 {
        let target = ["dev=dev/a", "dev=dev/b", "dev=dev/a,dev/b"][round % 3];
        let patch = Patch::Merge(json!({"spec": spec(target)}));
        world
            .pipelines()
            .patch("p", &PatchParams::default(), &patch)
            .await
            .unwrap();
        tokio::task::yield_now().await;
    }
    world.expect("p", "dev[1.0.0 ok, 1.0.0 ok]").await;
    let pipeline = world.pipelines().get("p").await.unwrap();
    assert_eq!(
        pipeline.status.unwrap().observed_generation,
        pipeline.metadata.generation
    );
}

#[tokio::test(start_paused = true)]
async fn a_hub_full_of_conflicts_and_errors() {
    for seed in 1..=10 {
        println!("seed {seed}");
        let mut world = World::new().await;
        let leaf = world.leaf("dev").await.client();
        namespace(&leaf, "x").await;
        deploy(&leaf, &release("x", "app", "1.0.0")).await;
        world.pipeline("p", spec("dev=dev/x")).await;
        world.hub.inject_faults(FaultRates {
            seed,
            conflict: 0.5,
            server_error: 0.1,
            timeout: 0.1,
            dropped_watch: 0.3,
            stale_list: 0.2,
        });
        for round in 1..=10 {
            let version = format!("1.1.{round}");
            set_status(&leaf, &release("x", "app", ""), &released(&version, true)).await;
            tokio::time::sleep(Duration::from_secs(7)).await;
        }
        world.hub.inject_faults(FaultRates::default());
        world.expect("p", "dev[1.1.10 ok]").await;
    }
}

#[tokio::test(start_paused = true)]
async fn everything_deleted_at_once() {
    let mut world = World::new().await;
    let leaf = world.leaf("dev").await.client();
    namespace(&leaf, "x").await;
    deploy(&leaf, &release("x", "app", "1.0.0")).await;
    for index in 0..10 {
        world
            .pipeline(&format!("p-{index}"), spec("dev=dev/x"))
            .await;
    }
    world.expect("p-9", "dev[1.0.0 ok]").await;
    let everything = Default::default();
    world
        .pipelines()
        .delete_collection(&DeleteParams::default(), &everything)
        .await
        .unwrap();
    let clusters: kube::Api<api::GitopsCluster> =
        kube::Api::namespaced(world.hub.client(), "default");
    clusters
        .delete_collection(&DeleteParams::default(), &everything)
        .await
        .unwrap();
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!((world.shared.supervised(), world.shared.waiting()), (0, 0));
    let leaf = world.leaf("again").await.client();
    namespace(&leaf, "x").await;
    deploy(&leaf, &release("x", "app", "2.0.0")).await;
    world.pipeline("p-0", spec("dev=again/x")).await;
    world.expect("p-0", "dev[2.0.0 ok]").await;
}

/// The older controller's status stays readable, and what only it wrote stays where it is.
#[tokio::test(start_paused = true)]
async fn a_status_of_the_older_controller() {
    let mut world = World::new().await;
    let leaf = world.leaf("dev").await.client();
    namespace(&leaf, "x").await;
    deploy(&leaf, &release("x", "app", "2.0.0")).await;
    let reference = json!({
        "apiVersion": "helm.toolkit.fluxcd.io/v2beta1", "kind": "HelmRelease", "name": "app",
        "clusterRef": {"kind": "GitopsCluster", "name": "dev"},
    });
    world.pipeline("p", spec("dev=dev/x")).await;
    let old = json!({"status": {
        "observedGeneration": 1,
        "conditions": [{
            "type": "Ready", "status": "False", "reason": "TargetNotReadable",
            "message": "One or more targets was not reachable or not present",
            "lastTransitionTime": "2023-01-01T00:00:00Z",
        }],
        "environments": {
            "dev": {"waitingApproval": {"revision": ""}, "targets": [
                {"clusterAppRef": reference, "ready": false, "revision": "1.0.0", "error": "not synced"},
            ]},
            "gone": {"waitingApproval": {"revision": "0.9.0"}},
        },
    }});
    let parameters = PatchParams {
        field_manager: Some("pipeline-controller".to_owned()),
        ..Default::default()
    };
    world
        .pipelines()
        .patch_status("p", &parameters, &Patch::Merge(old))
        .await
        .unwrap();
    world.expect("p", "dev[2.0.0 ok]").await;
    let status = world.pipelines().get("p").await.unwrap().status.unwrap();
    assert!(
        !status.environments.contains_key("gone"),
        "environments go with the spec"
    );
    let ready = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == "Ready")
        .unwrap();
    assert_eq!(
        (ready.status.as_str(), ready.reason.as_str()),
        ("True", "ReconciliationSucceeded")
    );
}

//! Apps whose workloads Flagger analyses: Flux calls them ready at once, Flagger decides later.

use std::sync::{Arc, Mutex};

use api::Promotion;
use apiserver::Server;
use http::StatusCode;
use kube::{Api, Client, api::ListParams};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::{
    failing_clusters::client,
    rights::guarded,
    world::{
        World, app_definition, create, define_flux, deploy, namespace, release, released,
        set_status, spec,
    },
};

const BEFORE: &str = "2020-01-01T00:00:00Z";
const LATER: &str = "2099-01-01T00:00:00Z";

async fn define_flagger(client: &Client) {
    create(
        client,
        &app_definition("flagger.app", "Canary", &["v1beta1"]),
    )
    .await;
}

/// A Deployment that a HelmRelease made, in whichever namespace the release put it.
fn deployment(namespace: &str, name: &str, labels: Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": 0, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [
                {"name": "app", "image": "example.com/app:1"},
            ]}},
        },
    })
}

fn made_by_app() -> Value {
    json!({"helm.toolkit.fluxcd.io/name": "app", "helm.toolkit.fluxcd.io/namespace": "shop"})
}

fn canary(namespace: &str, target: &str) -> Value {
    json!({
        "apiVersion": "flagger.app/v1beta1", "kind": "Canary",
        "metadata": {"name": target, "namespace": namespace},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": target},
            "analysis": {"interval": "1m"},
        },
    })
}

fn phase(phase: &str, at: &str) -> Value {
    json!({
        "phase": phase, "lastTransitionTime": at, "lastAppliedSpec": "b", "lastPromotedSpec": "a",
        "conditions": [{"type": "Promoted", "status": "False", "message": "checks failed"}],
    })
}

/// A leaf with Flagger and the app at 1.0.0, analysed long ago, and the pipeline `p` dev > prod.
async fn world() -> (World, Client) {
    let mut world = World::new().await;
    let leaf = world.leaf("dev").await.client();
    define_flagger(&leaf).await;
    for name in ["shop", "elsewhere"] {
        namespace(&leaf, name).await;
    }
    let other = canary("elsewhere", "web");
    create(&leaf, &other).await;
    set_status(&leaf, &other, &phase("Failed", LATER)).await;
    create(&leaf, &deployment("shop", "web", made_by_app())).await;
    create(&leaf, &canary("shop", "web")).await;
    set_status(&leaf, &canary("shop", "web"), &phase("Succeeded", BEFORE)).await;
    deploy(&leaf, &release("shop", "app", "1.0.0")).await;
    with_prod(&world).await;
    (world, leaf)
}

async fn with_prod(world: &World) {
    let hub = world.hub.client();
    namespace(&hub, "prod").await;
    deploy(&hub, &release("prod", "app", "1.0.0")).await;
    let mut spec = spec("dev=dev/shop > prod=prod");
    spec["promotion"] = json!({"strategy": {"notification": {}}});
    world.pipeline("p", spec).await;
}

/// What was started for prod.
async fn promoted(world: &World) -> Vec<String> {
    let api: Api<Promotion> = Api::namespaced(world.hub.client(), "default");
    let all = api.list(&ListParams::default()).await.unwrap();
    all.iter().map(|it| it.spec.revision.clone()).collect()
}

async fn hold(world: &World) -> String {
    let status = world.pipelines().get("p").await.unwrap().status.unwrap();
    let hold = status.environments["prod"].hold.clone();
    hold.map(|hold| hold.message).unwrap_or_default()
}

#[tokio::test(start_paused = true)]
async fn a_failed_canary_keeps_a_ready_release_out_of_prod() {
    let (world, leaf) = world().await;
    world.expect("p", "dev[1.0.0 ok] > prod[1.0.0 ok]").await;
    let (app, web) = (release("shop", "app", ""), canary("shop", "web"));
    set_status(&leaf, &web, &phase("Progressing", LATER)).await;
    set_status(&leaf, &app, &released("2.0.0", true)).await;
    world
        .expect(
            "p",
            "dev[2.0.0 canary web is Progressing at 2.0.0] > prod[1.0.0 ok]",
        )
        .await;
    set_status(&leaf, &web, &phase("Failed", LATER)).await;
    world
        .expect(
            "p",
            "dev[2.0.0 canary web failed: checks failed] > prod[1.0.0 ok]",
        )
        .await;
    let status = world.pipelines().get("p").await.unwrap().status.unwrap();
    let target = &status.environments["dev"].targets[0];
    assert_eq!(target.failed.as_deref(), Some("2.0.0"));
    assert!(
        hold(&world).await.contains("canary web failed"),
        "{}",
        hold(&world).await
    );
    assert!(promoted(&world).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_canary_that_succeeds_lets_the_release_go_on() {
    let (world, leaf) = world().await;
    world.expect("p", "dev[1.0.0 ok] > prod[1.0.0 ok]").await;
    let (app, web) = (release("shop", "app", ""), canary("shop", "web"));
    set_status(&leaf, &web, &phase("Progressing", LATER)).await;
    set_status(&leaf, &app, &released("2.0.0", true)).await;
    world
        .expect(
            "p",
            "dev[2.0.0 canary web is Progressing at 2.0.0] > prod[1.0.0 ok]",
        )
        .await;
    assert!(promoted(&world).await.is_empty());
    set_status(&leaf, &web, &phase("Succeeded", LATER)).await;
    world.expect("p", "dev[2.0.0 ok] > prod[1.0.0 ok]").await;
    assert_eq!(promoted(&world).await, ["2.0.0"]);
}

/// Nothing but time passes: Flagger finds the same pods and has nothing to analyse.
#[tokio::test(start_paused = true)]
async fn flagger_that_does_nothing_is_waited_for_for_two_intervals() {
    let (world, leaf) = world().await;
    world.expect("p", "dev[1.0.0 ok] > prod[1.0.0 ok]").await;
    let app = release("shop", "app", "");
    set_status(&leaf, &app, &released("1.0.1", true)).await;
    world
        .expect(
            "p",
            "dev[1.0.1 canary web has not analysed 1.0.1 yet] > prod[1.0.0 ok]",
        )
        .await;
    world.expect("p", "dev[1.0.1 ok] > prod[1.0.0 ok]").await;
}

/// Deployments may be apps themselves.
#[tokio::test(start_paused = true)]
async fn a_deployment_with_a_failed_canary_is_not_ready() {
    let world = World::new().await;
    let hub = world.hub.client();
    define_flagger(&hub).await;
    namespace(&hub, "shop").await;
    let mut web = deployment("shop", "web", json!({}));
    web["status"] = json!({"observedGeneration": 1});
    deploy(&hub, &web).await;
    create(&hub, &canary("shop", "web")).await;
    set_status(&hub, &canary("shop", "web"), &phase("Failed", LATER)).await;
    let mut spec = spec("dev=shop");
    spec["appRef"] = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    world.pipeline("p", spec).await;
    world
        .expect("p", "dev[1 canary web failed: checks failed]")
        .await;
    let succeeded = phase("Succeeded", LATER);
    set_status(&hub, &canary("shop", "web"), &succeeded).await;
    world.expect("p", "dev[1 ok]").await;
}

/// A cluster gets Flagger after it was connected.
#[tokio::test(start_paused = true)]
async fn flagger_that_is_installed_later_is_noticed() {
    let mut world = World::new().await;
    let leaf = world.leaf("dev").await.client();
    namespace(&leaf, "shop").await;
    create(&leaf, &deployment("shop", "web", made_by_app())).await;
    deploy(&leaf, &release("shop", "app", "1.0.0")).await;
    with_prod(&world).await;
    world.expect("p", "dev[1.0.0 ok] > prod[1.0.0 ok]").await;
    define_flagger(&leaf).await;
    create(&leaf, &canary("shop", "web")).await;
    set_status(&leaf, &canary("shop", "web"), &phase("Failed", LATER)).await;
    world
        .expect(
            "p",
            "dev[1.0.0 canary web failed: checks failed] > prod[1.0.0 ok]",
        )
        .await;
}

/// The only Canary comes after Flagger was found and nothing was known about workloads.
#[tokio::test(start_paused = true)]
async fn the_first_canary_of_a_cluster_is_noticed() {
    let mut world = World::new().await;
    let leaf = world.leaf("dev").await.client();
    define_flagger(&leaf).await;
    namespace(&leaf, "shop").await;
    create(&leaf, &deployment("shop", "web", made_by_app())).await;
    deploy(&leaf, &release("shop", "app", "1.0.0")).await;
    with_prod(&world).await;
    world.expect("p", "dev[1.0.0 ok] > prod[1.0.0 ok]").await;
    create(&leaf, &canary("shop", "web")).await;
    world
        .expect(
            "p",
            "dev[1.0.0 canary web is not initialized yet] > prod[1.0.0 ok]",
        )
        .await;
}

/// What nobody has installed costs nothing per app and change.
#[tokio::test(start_paused = true)]
async fn a_cluster_without_flagger_is_not_asked_for_canaries() {
    let world = World::new().await;
    let leaf = Server::in_memory();
    define_flux(&leaf.client()).await;
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let (kept, server) = (asked.clone(), leaf.clone());
    let counted = client(move |request| {
        kept.lock().unwrap().push(request.uri().path().to_owned());
        let server = server.clone();
        async move {
            server
                .router(apiserver::User::in_process())
                .oneshot(request)
                .await
                .unwrap()
        }
    });
    world.serve("dev", counted);
    world.register("dev", json!({})).await;
    namespace(&leaf.client(), "shop").await;
    let app = release("shop", "app", "1.0.0");
    deploy(&leaf.client(), &app).await;
    with_prod(&world).await;
    world.expect("p", "dev[1.0.0 ok] > prod[1.0.0 ok]").await;
    for version in ["2.0.0", "3.0.0", "4.0.0"] {
        set_status(&leaf.client(), &app, &released(version, true)).await;
        let expected = format!("dev[{version} ok] > prod[1.0.0 ok]");
        world.expect("p", &expected).await;
    }
    let asked = asked.lock().unwrap().clone();
    let of_flagger = asked.iter().filter(|path| path.contains("flagger.app"));
    assert_eq!(of_flagger.count(), 0, "{asked:?}");
    // Which kinds there are: once for each kind that is looked for.
    let discoveries = asked.iter().filter(|path| *path == "/apis").count();
    assert!(discoveries <= 3, "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn canaries_that_may_not_be_read_are_left_out_with_a_note() {
    let world = World::new().await;
    let leaf = Server::in_memory();
    define_flux(&leaf.client()).await;
    define_flagger(&leaf.client()).await;
    let refuse = guarded(&leaf, |request| {
        let is_canary = request.uri().path().contains("/canaries");
        is_canary.then_some((StatusCode::FORBIDDEN, "no"))
    });
    world.serve("dev", refuse);
    world.register("dev", json!({})).await;
    namespace(&leaf.client(), "shop").await;
    deploy(&leaf.client(), &release("shop", "app", "1.0.0")).await;
    with_prod(&world).await;
    world.expect("p", "dev[1.0.0 ok] > prod[1.0.0 ok]").await;
    let status = world.pipelines().get("p").await.unwrap().status.unwrap();
    let note = |environment: &str| {
        status.environments[environment].targets[0].apps[0]
            .note
            .clone()
    };
    assert_eq!(
        note("dev").as_deref(),
        Some("canaries are left out: reading them is not allowed")
    );
    // Where there is no Flagger, there is nothing to say.
    assert_eq!(note("prod"), None);
}

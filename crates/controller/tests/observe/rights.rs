//! RBAC on leaf clusters, references across namespaces, and old API servers.

use std::collections::BTreeMap;

use apiserver::Server;
use axum::{body::Body, response::IntoResponse};
use controller::{Detect, Settings};
use http::{Request, Response, StatusCode};
use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::{
    failing_clusters::client,
    world::{World, create, define_flux, deploy, kubeconfig, namespace, release, spec},
};

/// A leaf some of whose answers are replaced.
pub(crate) fn guarded(
    server: &Server,
    refuse: fn(&Request<Body>) -> Option<(StatusCode, &'static str)>,
) -> Client {
    let server = server.clone();
    client(move |request| {
        let server = server.clone();
        async move {
            match refuse(&request) {
                Some((code, message)) => refusal(code, message),
                None => server
                    .router(apiserver::User::in_process())
                    .oneshot(request)
                    .await
                    .unwrap(),
            }
        }
    })
}

fn refusal(code: StatusCode, message: &str) -> Response<Body> {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": "Forbidden", "code": code.as_u16(),
    });
    (code, axum::Json(status)).into_response()
}

async fn guarded_leaf(
    world: &World,
    refuse: fn(&Request<Body>) -> Option<(StatusCode, &'static str)>,
) -> Client {
    let leaf = Server::in_memory();
    define_flux(&leaf.client()).await;
    world.serve("dev", guarded(&leaf, refuse));
    world.register("dev", json!({})).await;
    for name in ["mine", "theirs"] {
        namespace(&leaf.client(), name).await;
        deploy(&leaf.client(), &release(name, "app", "1.0.0")).await;
    }
    leaf.client()
}

#[tokio::test(start_paused = true)]
async fn where_only_some_namespaces_may_be_read() {
    let world = World::new().await;
    let leaf = guarded_leaf(&world, |request| {
        let path = request.uri().path();
        let is_app = path.contains("/helmreleases");
        (is_app && !path.contains("/namespaces/mine/"))
            .then_some((StatusCode::FORBIDDEN, "not yours"))
    })
    .await;
    world.pipeline("p", spec("a=dev/mine > b=dev/theirs")).await;
    world
        .expect("p", "a[1.0.0 ok] > b[- not allowed: not yours]")
        .await;
    let app = release("mine", "app", "");
    crate::world::set_status(&leaf, &app, &crate::world::released("1.1.0", true)).await;
    world
        .expect("p", "a[1.1.0 ok] > b[- not allowed: not yours]")
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_server_too_old_to_stream_its_lists() {
    let world = World::new().await;
    guarded_leaf(&world, |request| {
        let query = request.uri().query().unwrap_or_default();
        query.contains("sendInitialEvents").then_some((
            StatusCode::UNPROCESSABLE_ENTITY,
            "ListOptions.meta.k8s.io \"\" is invalid: sendInitialEvents: Forbidden: \
             sendInitialEvents is forbidden for watch unless the WatchList feature injector is enabled",
        ))
    })
    .await;
    world.pipeline("p", spec("a=dev/mine")).await;
    world.expect("p", "a[1.0.0 ok]").await;
}

#[tokio::test(start_paused = true)]
async fn images_that_may_not_be_read_are_left_out() {
    let world = World::new().await;
    guarded_leaf(&world, |request| {
        request
            .uri()
            .path()
            .contains("/apps/v1")
            .then_some((StatusCode::FORBIDDEN, "no"))
    })
    .await;
    world.pipeline("p", spec("a=dev/mine")).await;
    world.expect("p", "a[1.0.0 ok]").await;
    let status = world.pipelines().get("p").await.unwrap().status.unwrap();
    let app = &status.environments["a"].targets[0].apps[0];
    assert!(app.images.is_empty());
    assert!(
        app.note.as_deref().unwrap().contains("not allowed"),
        "{:?}",
        app.note
    );
}

#[tokio::test(start_paused = true)]
async fn clusters_of_other_namespaces() {
    let settings = Settings {
        no_cross_namespace_refs: true,
        ..Settings::default()
    };
    let world = World::with(settings).await;
    let leaf = Server::in_memory();
    define_flux(&leaf.client()).await;
    namespace(&leaf.client(), "x").await;
    deploy(&leaf.client(), &release("x", "app", "1.0.0")).await;
    world.serve("shared", leaf.client());
    let hub = world.hub.client();
    namespace(&hub, "platform").await;
    for (name, annotations) in [
        ("closed", json!({})),
        (
            "open",
            json!({"pipelines.weave.works/allowed-namespaces": "default"}),
        ),
    ] {
        cluster(
            &hub,
            "platform",
            name,
            annotations,
            json!({"stringData": {"kubeconfig": kubeconfig("shared")}}),
        )
        .await;
    }
    let target = |name: &str| {
        json!({
            "namespace": "x", "clusterRef": {"kind": "GitopsCluster", "name": name, "namespace": "platform"},
        })
    };
    let mut spec = spec("a=");
    spec["environments"][0]["targets"] = json!([target("closed"), target("open")]);
    world.pipeline("p", spec).await;
    world
        .expect(
            "p",
            "a[- not allowed: clusters of namespace platform may not be used from namespace default, 1.0.0 ok]",
        )
        .await;
}

/// A pipeline of `default` with a target in `team-a` of the hub, where an app runs.
async fn looking_into_team_a(settings: Settings, annotations: Value) -> World {
    let world = World::with(settings).await;
    let hub = world.hub.client();
    let team = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": "team-a", "annotations": annotations},
    });
    create(&hub, &team).await;
    deploy(&hub, &release("team-a", "app", "1.0.0")).await;
    deploy(&hub, &release("default", "app", "2.0.0")).await;
    world.pipeline("p", spec("a=team-a > b=default")).await;
    world
}

#[tokio::test(start_paused = true)]
async fn namespaces_of_the_hub_that_are_not_ones_own() {
    let only_own = || Settings {
        no_cross_namespace_refs: true,
        ..Settings::default()
    };
    let not_own = "a[- not allowed: apps of namespace team-a may not be looked at from namespace \
                   default] > b[2.0.0 ok]";
    let not_listed = "a[- not allowed: namespace team-a does not allow pipelines of namespace \
                      default] > b[2.0.0 ok]";
    let seen = "a[1.0.0 ok] > b[2.0.0 ok]";
    let listing = |names: &str| json!({"pipelines.weave.works/allowed-namespaces": names});
    for (settings, annotations, expected) in [
        (Settings::default(), json!({}), seen),
        (Settings::default(), listing("other"), not_listed),
        (only_own(), json!({}), not_own),
        (only_own(), listing("other, default"), seen),
    ] {
        let world = looking_into_team_a(settings, annotations).await;
        world.expect("p", expected).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_namespace_that_closes_is_forgotten_and_can_open_again() {
    let world = looking_into_team_a(Settings::default(), json!({})).await;
    world.expect("p", "a[1.0.0 ok] > b[2.0.0 ok]").await;
    let namespaces: Api<Namespace> = Api::all(world.hub.client());
    let say = async |names: Value| {
        let annotations = json!({"pipelines.weave.works/allowed-namespaces": names});
        let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        let parameters = PatchParams::default();
        let patched = namespaces.patch("team-a", &parameters, &patch).await;
        patched.unwrap();
    };
    say(json!("")).await;
    let refused = "a[- not allowed: namespace team-a does not allow pipelines of namespace default] > \
                   b[2.0.0 ok]";
    world.expect("p", refused).await;
    let status = world.pipelines().get("p").await.unwrap().status.unwrap();
    assert!(status.environments["a"].targets[0].apps.is_empty());
    say(Value::Null).await;
    world.expect("p", "a[1.0.0 ok] > b[2.0.0 ok]").await;
}

async fn cluster(hub: &Client, namespace: &str, name: &str, annotations: Value, secret: Value) {
    let mut object = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": namespace},
    });
    object["stringData"] = secret["stringData"].clone();
    create(hub, &object).await;
    create(
        hub,
        &json!({
            "apiVersion": "gitops.weave.works/v1alpha1", "kind": "GitopsCluster",
            "metadata": {"name": name, "namespace": namespace, "annotations": annotations},
            "spec": {"secretRef": {"name": name}},
        }),
    )
    .await;
}

#[tokio::test(start_paused = true)]
async fn kubeconfigs_where_others_put_them() {
    let world = World::new().await;
    let leaf = Server::in_memory();
    define_flux(&leaf.client()).await;
    namespace(&leaf.client(), "x").await;
    deploy(&leaf.client(), &release("x", "app", "1.0.0")).await;
    world.serve("leaf", leaf.client());
    let hub = world.hub.client();
    let config = kubeconfig("leaf");
    let exec = config.replace(
        "token: t",
        "exec: {apiVersion: client.authentication.k8s.io/v1, command: sh}",
    );
    for (name, data) in [
        ("a", json!({"value": config})),
        ("b", json!({"value.yaml": config})),
        ("c", json!({"kubeconfig": config})),
        ("d", json!({"other": config})),
        ("e", json!({"value": "nonsense: ["})),
        ("f", json!({"value": exec})),
    ] {
        cluster(
            &hub,
            "default",
            name,
            json!({}),
            json!({"stringData": data}),
        )
        .await;
    }
    create(
        &hub,
        &json!({
            "apiVersion": "v1", "kind": "Secret", "stringData": {"value": config},
            "metadata": {"name": "capi-kubeconfig", "namespace": "default"},
        }),
    )
    .await;
    create(&hub, &json!({
        "apiVersion": "gitops.weave.works/v1alpha1", "kind": "GitopsCluster",
        "metadata": {"name": "g", "namespace": "default"}, "spec": {"capiClusterRef": {"name": "capi"}},
    }))
    .await;
    world
        .pipeline("p", spec("all=a/x,b/x,c/x,d/x,e/x,f/x,g/x"))
        .await;
    world
        .expect(
            "p",
            "all[1.0.0 ok, 1.0.0 ok, 1.0.0 ok, \
             - not reachable: Secret \"d\" has none of the keys value, value.yaml, kubeconfig, \
             - not reachable: Secret \"e\" does not hold a readable kubeconfig, \
             - not reachable: the kubeconfig in Secret \"f\" is refused: it would run a program (exec), \
             1.0.0 ok]",
        )
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_shard_looks_only_at_its_pipelines() {
    let settings = Settings {
        label_selector: Some("shard=one".to_owned()),
        ..Settings::default()
    };
    let world = World::with(settings).await;
    namespace(&world.hub.client(), "x").await;
    deploy(&world.hub.client(), &release("x", "app", "1.0.0")).await;
    for name in ["one", "two"] {
        create(&world.hub.client(), &json!({
            "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Pipeline",
            "metadata": {"name": name, "namespace": "default", "labels": {"shard": name}}, "spec": spec("dev=x"),
        }))
        .await;
    }
    world.expect("one", "dev[1.0.0 ok]").await;
    world.expect("two", "dev[]").await;
}

#[tokio::test(start_paused = true)]
async fn with_webhooks_only_clusters_are_checked() {
    let settings = Settings {
        detect: Detect::Webhook,
        ..Settings::default()
    };
    let mut world = World::with(settings).await;
    world.leaf("dev").await;
    world.pipeline("p", spec("dev=dev/x > prod=gone/x")).await;
    world
        .expect(
            "p",
            "dev[- Target cluster 'GitopsCluster/dev' not ready] > \
             prod[- Target cluster 'GitopsCluster/gone' not found]",
        )
        .await;
    assert_eq!(world.shared.supervised(), 0, "nothing is watched");
    let conditions = world
        .pipelines()
        .get("p")
        .await
        .unwrap()
        .status
        .unwrap()
        .conditions;
    let reasons: BTreeMap<_, _> = conditions
        .iter()
        .map(|it| (it.type_.as_str(), it.status.as_str()))
        .collect();
    assert_eq!(reasons.get("Ready"), Some(&"False"));
}

/// An app whose own revision is the configuration's: what counts is the tag of its image.
#[tokio::test(start_paused = true)]
async fn an_image_is_tracked() {
    let world = World::new().await;
    let hub = world.hub.client();
    namespace(&hub, "x").await;
    let deployment = |image: &str| {
        json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "app", "namespace": "x"},
            "spec": {
                "replicas": 1, "selector": {"matchLabels": {"a": "b"}},
                "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [
                    {"name": "proxy", "image": "example.com/proxy:9"}, {"name": "app", "image": image},
                ]}},
            },
            "status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
                "conditions": [{"type": "Available", "status": "True"}]},
        })
    };
    deploy(&hub, &deployment("example.com/app:1.4.0")).await;
    let mut spec = spec("dev=x");
    spec["appRef"] = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "app"});
    spec["track"] = json!({"image": "example.com/app"});
    world.pipeline("p", spec.clone()).await;
    world.expect("p", "dev[1.4.0 ok]").await;
    spec["track"] = json!({"image": "example.com/nobody"});
    world.pipeline("q", spec).await;
    world
        .expect(
            "q",
            "dev[- no workload of the app runs the image example.com/nobody]",
        )
        .await;
}

//! Two leaf clusters, and what REST tells of them: the objects behind a target, and every app.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use api::GitopsCluster;
use apiserver::Server;
use axum::body::Body;
use http::{HeaderValue, Request};
use kube::{Api, Client, ResourceExt, api::PostParams};
use serde_json::{Value, json};
use server::{Settings, leaf::LeafConnector};
use tower::ServiceExt;

use crate::{
    leaf::{deployment, helm_labels, leaf, put, put_pod, ready, release, source},
    rest::{get, grant},
    world::{World, ask, unlimited},
};

const TREE: &str = "/api/v1/pipelines/default/app/environments/prod/tree";

/// What was asked of the leaf clusters.
type Asked = Arc<Mutex<Vec<String>>>;

struct Fleet {
    world: World,
    one: Server,
    two: Server,
    asked: Asked,
}

impl Fleet {
    /// Clusters `one` and `two`, a third that refuses connections and a fourth that never answers.
    async fn new() -> Self {
        let (one, two) = (leaf().await, leaf().await);
        let asked = Asked::default();
        let clients: HashMap<_, _> = [("one", &one), ("two", &two)]
            .map(|(name, server)| (name, client(server, &asked)))
            .into();
        let leaf_connector = LeafConnector::new(move |cluster| {
            let client = clients.get(cluster.name_any().as_str()).cloned();
            Box::pin(async move {
                if cluster.name_any() == "silent" {
                    std::future::pending::<()>().await;
                }
                client.ok_or_else(|| "connection refused".to_owned())
            })
        });
        let settings = Settings {
            leaf_connector,
            ..unlimited()
        };
        let world = World::with(settings).await;
        for name in ["one", "two", "lost", "silent"] {
            register(&world, "default", name, &json!({})).await;
        }
        grant(&world, "vera", &["get", "list"], "pipelines").await;
        Self {
            world,
            one,
            two,
            asked,
        }
    }

    /// Sets the targets of prod, each of which runs a HelmRelease `app`.
    async fn targets(&self, clusters: &[&str]) {
        let targets: Vec<Value> = clusters.iter().map(|name| target(name)).collect();
        let status = json!({"environments": {"prod": {"targets": targets}}});
        self.world.edit_status(status).await;
    }

    async fn tree(&self, query: &str) -> Value {
        let answer = get(&self.world, "vera", &format!("{TREE}{query}")).await;
        assert_eq!(answer.code, 200, "{}", answer.body);
        serde_json::from_str(&answer.body).unwrap()
    }
}

/// A client that notes what it asks, as a user who is named in the test.
fn client(server: &Server, asked: &Asked) -> Client {
    let asked = asked.clone();
    let service = server.router(apiserver::User::in_process()).map_request(
        move |mut request: Request<kube::client::Body>| {
            asked.lock().unwrap().push(request.uri().path().to_owned());
            let headers = request.headers_mut();
            headers.insert("Impersonate-User", HeaderValue::from_static("sluice"));
            request.map(Body::new)
        },
    );
    Client::new(service, "default")
}

/// Lets Sluice read what its documentation says it needs, or less.
async fn allow(server: &Server, rules: &Value) {
    let name = json!({"name": "sluice"});
    put(
        server,
        &json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": name,
            "rules": rules,
        }),
    )
    .await;
    put(server, &json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": name,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "sluice"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "sluice"}],
    }))
    .await;
}

/// The rights on a leaf cluster, out of the guide that people copy them from.
fn documented() -> Value {
    let guide = include_str!("../../../../docs/clusters.md");
    let mut blocks = guide.split("```yaml applied\n").skip(1);
    let yaml = blocks.find(|it| it.contains("name: sluice-leaf"));
    let yaml = yaml.unwrap().split("```").next().unwrap();
    let role: Value = serde_saphyr::from_str(yaml).unwrap();
    role["rules"].clone()
}

async fn register(world: &World, namespace: &str, name: &str, annotations: &Value) {
    let api: Api<GitopsCluster> = Api::namespaced(world.client.clone(), namespace);
    let cluster = json!({
        "metadata": {"name": name, "annotations": annotations}, "spec": {"secretRef": {"name": name}},
    });
    let cluster = serde_json::from_value(cluster).unwrap();
    api.create(&PostParams::default(), &cluster).await.unwrap();
    world.settle().await;
}

fn target(cluster: &str) -> Value {
    let app = json!({
        "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "app", "ready": true,
    });
    let mut reference = app.clone();
    reference["clusterRef"] = json!({"kind": "GitopsCluster", "name": cluster});
    json!({"clusterAppRef": reference, "namespace": "shop", "ready": true, "apps": [app]})
}

/// A tree as lines, one below the other.
fn draw(node: &Value) -> Vec<String> {
    let text = |key: &str| {
        node[key]
            .as_str()
            .map(|it| format!(" {it}"))
            .unwrap_or_default()
    };
    let images = node["images"].as_array().into_iter().flatten();
    let images: String = images
        .map(|it| format!(" [{}]", it.as_str().unwrap()))
        .collect();
    let own = format!(
        "{}{}{}{}{images}{}{}",
        node["kind"].as_str().unwrap(),
        text("name"),
        text("state"),
        text("revision"),
        text("message"),
        node["note"]
            .as_str()
            .map(|it| format!(" ({it})"))
            .unwrap_or_default(),
    );
    let below = node["below"]
        .as_array()
        .into_iter()
        .flatten()
        .flat_map(draw);
    std::iter::once(own)
        .chain(below.map(|line| format!("  {line}")))
        .collect()
}

fn drawn(answer: &Value) -> String {
    let apps = answer["items"][0]["apps"].as_array().unwrap();
    apps.iter().flat_map(draw).collect::<Vec<_>>().join("\n")
}

#[tokio::test(start_paused = true)]
async fn a_target_shows_what_it_is_made_of() {
    let fleet = Fleet::new().await;
    allow(&fleet.one, &documented()).await;
    fleet.targets(&["one", "two"]).await;
    let entries = json!({"inventory": {"entries": [
        {"id": "shop_keys__Secret", "v": "v1"},
        {"id": "shop_web_apps_Deployment", "v": "v1"},
        {"id": "shop_gone_apps_StatefulSet", "v": "v1"},
        {"id": "_web_rbac.authorization.k8s.io_ClusterRole", "v": "v1"},
    ]}});
    put(&fleet.one, &source()).await;
    put(&fleet.one, &release(entries)).await;
    put(
        &fleet.one,
        &deployment("web", json!({}), "registry.example/web:5.0.0"),
    )
    .await;
    let well = json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]});
    put_pod(&fleet.one, "web", "web-7f9-a", well).await;
    let stuck = json!({"phase": "Pending", "containerStatuses": [{
        "name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": "ImagePullBackOff"}},
    }]});
    put_pod(&fleet.one, "web", "web-7f9-b", stuck).await;
    put_pod(
        &fleet.one,
        "other",
        "other-7f9-a",
        json!({"phase": "Running"}),
    )
    .await;
    let answer = fleet.tree("?cluster=one").await;
    assert_eq!(
        drawn(&answer),
        "GitRepository charts ready main@sha1:ab stored\n  \
         HelmRelease app ready 5.0.0 Helm upgrade succeeded\n    \
         Deployment web ready [registry.example/web:5.0.0]\n      \
         Pod web-7f9-a ready [registry.example/web:5.0.0]\n      \
         Pod web-7f9-b notReady [registry.example/web:5.0.0] main: ImagePullBackOff\n    \
         StatefulSet gone missing\n    \
         ClusterRole web unknown\n    \
         Secret keys unknown"
    );
    let asked = fleet.asked.lock().unwrap().clone();
    let is_data = |path: &&String| path.contains("/secrets") || path.contains("/configmaps");
    assert_eq!(asked.iter().find(is_data), None);
    // Another replica, which knows nothing of the first, says the same.
    let request =
        Request::get(format!("{TREE}?cluster=one")).header("Authorization", "Bearer vera");
    let replica = fleet.world.rest_replica();
    fleet.world.settle().await;
    let other = ask(&replica, request.body(String::new())).await;
    assert_eq!(serde_json::from_str::<Value>(&other.body).unwrap(), answer);
    assert_eq!(get(&fleet.world, "nobody", TREE).await.code, 401);
    grant(&fleet.world, "paul", &["list"], "pipelines").await;
    assert_eq!(get(&fleet.world, "paul", TREE).await.code, 403);
    let none = TREE.replace("prod", "nowhere");
    assert_eq!(get(&fleet.world, "vera", &none).await.code, 404);
}

#[tokio::test(start_paused = true)]
async fn without_an_inventory_labels_tell_and_what_is_forbidden_is_said() {
    let fleet = Fleet::new().await;
    fleet.targets(&["one"]).await;
    put(&fleet.one, &release(json!({}))).await;
    put(
        &fleet.one,
        &deployment("web", helm_labels(), "registry.example/web:5.0.0"),
    )
    .await;
    put(
        &fleet.one,
        &deployment("other", json!({}), "registry.example/other:1"),
    )
    .await;
    assert_eq!(
        drawn(&fleet.tree("").await),
        "HelmRelease app unknown (reading is not allowed)"
    );
    tokio::time::advance(Duration::from_secs(6)).await;
    let flux =
        json!({"apiGroups": ["helm.toolkit.fluxcd.io"], "resources": ["*"], "verbs": ["get"]});
    let apps = json!({"apiGroups": ["apps"], "resources": ["deployments"], "verbs": ["list"]});
    allow(&fleet.one, &json!([flux, apps])).await;
    assert_eq!(
        drawn(&fleet.tree("").await),
        "GitRepository charts unknown (reading is not allowed)\n  \
         HelmRelease app ready 5.0.0 Helm upgrade succeeded (the release has no inventory: \
         workloads with its labels are shown; StatefulSets could not be read: reading is not allowed; \
         DaemonSets could not be read: reading is not allowed)\n    \
         Deployment web ready [registry.example/web:5.0.0] (pods could not be read: reading is not allowed)"
    );
}

#[tokio::test(start_paused = true)]
async fn kustomizations_hold_others_and_themselves() {
    let fleet = Fleet::new().await;
    allow(&fleet.one, &documented()).await;
    let mut target = target("one");
    let app = json!([{"apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "name": "app", "ready": true}]);
    target["apps"] = app;
    fleet
        .world
        .edit_status(json!({"environments": {"prod": {"targets": [target]}}}))
        .await;
    let kustomization = |name: &str, spec: Value, entries: Value| {
        json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": {"name": name, "namespace": "shop"}, "spec": spec,
            "status": {
                "observedGeneration": 1, "conditions": ready("Applied"),
                "lastAppliedRevision": "main@sha1:ab", "inventory": {"entries": entries},
            },
        })
    };
    let from = json!({"sourceRef": {"kind": "GitRepository", "name": "charts"}});
    let entries = json!([
        {"id": "shop_app_kustomize.toolkit.fluxcd.io_Kustomization", "v": "v1"},
        {"id": "shop_far_kustomize.toolkit.fluxcd.io_Kustomization", "v": "v1"},
        {"id": "shop_app_helm.toolkit.fluxcd.io_HelmRelease", "v": "v2"},
    ]);
    put(&fleet.one, &source()).await;
    put(&fleet.one, &kustomization("app", from, entries)).await;
    let far = json!({"kubeConfig": {"secretRef": {"name": "far"}}});
    put(
        &fleet.one,
        &kustomization(
            "far",
            far,
            json!([{"id": "shop_x_apps_Deployment", "v": "v1"}]),
        ),
    )
    .await;
    let inventory =
        json!({"inventory": {"entries": [{"id": "shop_settings__ConfigMap", "v": "v1"}]}});
    put(&fleet.one, &release(inventory)).await;
    assert_eq!(
        drawn(&fleet.tree("").await),
        "GitRepository charts ready main@sha1:ab stored\n  \
         Kustomization app ready main@sha1:ab Applied\n    \
         HelmRelease app ready 5.0.0 Helm upgrade succeeded\n      \
         ConfigMap settings unknown\n    \
         Kustomization app ready main@sha1:ab Applied\n    \
         Kustomization far ready main@sha1:ab Applied (it deploys to another cluster by spec.kubeConfig, \
         which is not read)"
    );
}

#[tokio::test(start_paused = true)]
async fn clusters_that_cannot_be_looked_into_say_why() {
    let fleet = Fleet::new().await;
    let ops = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ops"}});
    put(&fleet.world.server, &ops).await;
    let others = json!({"pipelines.weave.works/allowed-namespaces": "team-a, team-b"});
    register(&fleet.world, "ops", "one", &others).await;
    let mut closed = target("one");
    closed["clusterAppRef"]["clusterRef"]["namespace"] = json!("ops");
    let targets = [target("lost"), target("silent"), target("missing"), closed];
    let status = json!({"environments": {"prod": {"targets": targets}}});
    fleet.world.edit_status(status).await;
    let answer = fleet.tree("").await;
    let problems = answer["items"].as_array().unwrap().iter();
    let problems: Vec<_> = problems.map(|it| it["problem"].as_str().unwrap()).collect();
    assert_eq!(
        problems,
        [
            "connection refused",
            "the cluster did not answer within 10 s",
            "there is no GitopsCluster default/missing",
            "the cluster does not allow pipelines of namespace default",
        ]
    );
    assert_eq!(*fleet.asked.lock().unwrap(), Vec::<String>::new());
    let page = fleet.tree("?limit=2").await;
    assert_eq!(page["items"].as_array().unwrap().len(), 2);
    let rest = fleet
        .tree(&format!(
            "?limit=2&continue={}",
            page["continue"].as_str().unwrap()
        ))
        .await;
    assert_eq!(rest["items"][0]["cluster"], "missing");
}

#[tokio::test(start_paused = true)]
async fn a_namespace_of_the_hub_that_is_closed_is_not_looked_into() {
    let listing = |names: &str| json!({"pipelines.weave.works/allowed-namespaces": names});
    let not_own = "apps of namespace shop may not be looked at from namespace default";
    let not_listed = "namespace shop does not allow pipelines of namespace default";
    for (only_own, annotations, expected) in [
        (false, json!({}), None),
        (false, listing("other"), Some(not_listed)),
        (true, json!({}), Some(not_own)),
        (true, listing("default"), None),
    ] {
        let world = World::with(Settings {
            no_cross_namespace_refs: only_own,
            ..unlimited()
        })
        .await;
        grant(&world, "vera", &["get", "list"], "pipelines").await;
        let metadata = json!({"name": "shop", "annotations": annotations});
        let shop = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata});
        put(&world.server, &shop).await;
        let mut target = target("");
        target["clusterAppRef"]["clusterRef"] = Value::Null;
        let status = json!({"environments": {"prod": {"targets": [target]}}});
        world.edit_status(status).await;
        let answer = get(&world, "vera", TREE).await;
        let answer: Value = serde_json::from_str(&answer.body).unwrap();
        let behind = &answer["items"][0];
        assert_eq!(behind["problem"].as_str(), expected, "{answer}");
        let shown = behind["apps"].as_array().map(Vec::len);
        assert_eq!(shown, Some(usize::from(expected.is_none())), "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_not_ready_is_not_asked() {
    let fleet = Fleet::new().await;
    fleet.targets(&["one"]).await;
    let ready = json!({
        "type": "Ready", "status": "False", "reason": "Away", "message": "no answer",
        "lastTransitionTime": "2026-11-01T10:00:00Z",
    });
    let cluster = json!({
        "apiVersion": "gitops.weave.works/v1alpha1", "kind": "GitopsCluster",
        "metadata": {"name": "one", "namespace": "default"}, "spec": {"secretRef": {"name": "one"}},
        "status": {"conditions": [ready]},
    });
    put(&fleet.world.server, &cluster).await;
    fleet.world.settle().await;
    let answer = fleet.tree("").await;
    assert_eq!(
        answer["items"][0]["problem"],
        "the cluster is not ready: no answer"
    );
    assert_eq!(*fleet.asked.lock().unwrap(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn what_holds_very_much_is_read_in_part() {
    let fleet = Fleet::new().await;
    allow(&fleet.one, &documented()).await;
    fleet.targets(&["one"]).await;
    let entry = |number: usize| json!({"id": format!("shop_d{number}_apps_Deployment"), "v": "v1"});
    let entries: Vec<Value> = (0..400).map(entry).collect();
    put(
        &fleet.one,
        &release(json!({"inventory": {"entries": entries}})),
    )
    .await;
    let tree = drawn(&fleet.tree("").await);
    assert!(tree.starts_with("GitRepository"), "{tree}");
    assert!(tree.contains("(only 300 objects were read)"), "{tree}");
    assert_eq!(tree.lines().count(), 402);
    assert!(fleet.asked.lock().unwrap().len() < 320);
}

#[tokio::test(start_paused = true)]
async fn every_app_on_every_cluster_for_who_may_inspect() {
    let fleet = Fleet::new().await;
    fleet.targets(&["one"]).await;
    for server in [&fleet.one, &fleet.two] {
        allow(server, &documented()).await;
        put(server, &release(json!({}))).await;
        put(
            server,
            &deployment("web", helm_labels(), "registry.example/web:5.0.0"),
        )
        .await;
        put(
            server,
            &deployment("lonely", json!({}), "registry.example/lonely:1"),
        )
        .await;
    }
    let versions = "/api/v1/versions?scope=clusters";
    let refused = get(&fleet.world, "vera", versions).await;
    assert_eq!(refused.code, 403);
    assert!(
        refused.body.contains("inspect on gitopsclusters"),
        "{}",
        refused.body
    );
    inspector(&fleet.world, "ina").await;
    grant(&fleet.world, "ina", &["get", "list"], "pipelines").await;
    let items = async |query: &str| {
        let answer = get(&fleet.world, "ina", &format!("/api/v1/{query}")).await;
        assert_eq!(answer.code, 200, "{query}: {}", answer.body);
        serde_json::from_str::<Value>(&answer.body).unwrap()
    };
    for (query, count) in [
        ("versions?scope=clusters", 4),
        ("versions?scope=clusters&version=5.0.0", 2),
        ("versions?scope=clusters&chart=web&cluster=two", 1),
        ("versions?scope=clusters&outside=true", 3),
        ("versions?scope=clusters&outside=true&kind=HelmRelease", 1),
        ("images?scope=clusters", 4),
        ("images?scope=clusters&image=registry.example/lonely", 2),
        ("images?scope=clusters&tag=5.0.0&pipeline=app", 1),
        ("images?scope=clusters&targetNamespace=elsewhere", 0),
    ] {
        assert_eq!(
            items(query).await["items"].as_array().unwrap().len(),
            count,
            "{query}"
        );
    }
    let all = items("versions?scope=clusters&limit=1").await;
    assert_eq!(
        all["items"][0],
        json!({
            "namespace": "default", "pipeline": "app", "environment": "prod", "cluster": "one",
            "clusterNamespace": "default", "targetNamespace": "shop",
            "kind": "HelmRelease", "app": "app", "chart": "web",
            "version": "5.0.0", "revision": "5.0.0", "ready": true,
        })
    );
    assert_eq!(all["continue"], "1");
    assert_eq!(
        all["unread"],
        json!([
            {"cluster": "lost", "clusterNamespace": "default", "because": "connection refused"},
            {"cluster": "silent", "clusterNamespace": "default", "because": "the cluster did not answer within 10 s"},
        ])
    );
}

/// Somebody who may look into the clusters of the namespace.
async fn inspector(world: &World, user: &str) {
    world
        .server
        .add_token(user, apiserver::User::new(user, &[]));
    let rules = json!([{
        "apiGroups": ["gitops.weave.works"], "resources": ["gitopsclusters"], "verbs": ["inspect"],
    }]);
    let metadata = json!({"name": "inspector", "namespace": "default"});
    put(&world.server, &json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": metadata, "rules": rules,
    }))
    .await;
    put(&world.server, &json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding", "metadata": metadata,
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "inspector"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
    }))
    .await;
}

#[tokio::test(start_paused = true)]
async fn what_sets_a_pipeline_in_motion_is_listed() {
    let fleet = Fleet::new().await;
    let world = &fleet.world;
    put(&world.server, &json!({
        "apiVersion": "pipeline.jquad.rocks/v1alpha1", "kind": "PipelineTrigger",
        "metadata": {"name": "build", "namespace": "default", "labels": {"pipelines.weave.works/pipeline": "app"}},
        "spec": {"source": {"kind": "GitRepository", "name": "code"}, "pipeline": {"name": "build"}},
        "status": {"latestEvent": "main@sha1:ab", "latestPipelineRun": "build-1"},
    }))
    .await;
    world.settle().await;
    let path = "/api/v1/pipelines/default/app/triggers";
    let names = async |user: &str| {
        let answer = get(world, user, path).await;
        let answer: Value = serde_json::from_str(&answer.body).unwrap();
        let items = answer["items"].as_array().unwrap().clone();
        items
            .iter()
            .map(|it| format!("{} {}", it["kind"], it["run"]))
            .collect::<Vec<_>>()
    };
    // Whoever may not list triggers sees the hooks only.
    let hooks = vec!["\"Hook\" null"; 3];
    assert_eq!(names("vera").await, hooks);
    world
        .server
        .add_token("olga", apiserver::User::new("olga", &["system:masters"]));
    assert_eq!(names("olga").await[0], "\"PipelineTrigger\" \"build-1\"");
}

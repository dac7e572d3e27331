//! A hub and leaf clusters in one process.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use api::{Pipeline, pipeline::TargetStatus};
use apiserver::Server;
use controller::{Connector, PipelineReconciler, Settings};
use futures::FutureExt;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};
use tokio::task::AbortHandle;

/// Clusters by the host in their kubeconfig.
type Hosts = Arc<Mutex<BTreeMap<String, Client>>>;

pub(crate) struct World {
    pub(crate) hub: Server,
    pub(crate) shared: Arc<PipelineReconciler>,
    hosts: Hosts,
    leaves: BTreeMap<String, Server>,
    task: AbortHandle,
}

impl Drop for World {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A kind of app, served in one version.
pub(crate) fn app_definition(group: &str, kind: &str, versions: &[&str]) -> Value {
    let plural = ApiResource::from_gvk(&GroupVersionKind::gvk(group, "", kind)).plural;
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let versions: Vec<Value> = versions
        .iter()
        .enumerate()
        .map(|(index, name)| {
            json!({
                "name": name, "served": true, "storage": index == 0, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": open, "status": open},
                }},
            })
        })
        .collect();
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced", "versions": versions,
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind},
        },
    })
}

pub(crate) async fn create(client: &Client, object: &Value) -> Value {
    let parsed: DynamicObject = serde_json::from_value(object.clone()).unwrap();
    let created = api_of(client, object)
        .create(&PostParams::default(), &parsed)
        .await
        .unwrap();
    serde_json::to_value(created).unwrap()
}

pub(crate) fn api_of(client: &Client, object: &Value) -> Api<DynamicObject> {
    let api_version = object["apiVersion"].as_str().unwrap();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = object["kind"].as_str().unwrap();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

impl World {
    /// A hub with our kinds and HelmReleases on it, and the loop running.
    pub(crate) async fn new() -> Self {
        Self::with(Settings::default()).await
    }

    pub(crate) async fn with(settings: Settings) -> Self {
        let hub = testbed::hub::server();
        define_flux(&hub.client()).await;
        let hosts: Hosts = Arc::default();
        let shared = PipelineReconciler::new(hub.client(), connector(&hosts), settings);
        let task = tokio::spawn(controller::pipeline::run(shared.clone())).abort_handle();
        Self {
            hub,
            shared,
            hosts,
            leaves: BTreeMap::new(),
            task,
        }
    }

    /// Ends the loop.
    pub(crate) fn stop(&mut self) {
        self.task.abort();
    }

    /// The same hub and leaves with a fresh loop, as after a restart.
    pub(crate) async fn restart(&mut self, settings: Settings) {
        self.restart_through(self.hub.client(), settings);
    }

    /// The same with another client for the hub.
    pub(crate) fn restart_through(&mut self, hub: Client, settings: Settings) {
        self.task.abort();
        self.shared = PipelineReconciler::new(hub, connector(&self.hosts), settings);
        self.task = tokio::spawn(controller::pipeline::run(self.shared.clone())).abort_handle();
    }

    /// A leaf cluster with its GitopsCluster and Secret in namespace `default`.
    pub(crate) async fn leaf(&mut self, name: &str) -> Server {
        let leaf = Server::in_memory();
        define_flux(&leaf.client()).await;
        self.serve(name, leaf.client());
        self.leaves.insert(name.to_owned(), leaf.clone());
        self.register(name, json!({})).await;
        leaf
    }

    /// Makes a cluster reachable under its name.
    pub(crate) fn serve(&self, name: &str, client: Client) {
        self.hosts.lock().unwrap().insert(name.to_owned(), client);
    }

    /// Makes a cluster unreachable.
    pub(crate) fn cut_off(&self, name: &str) {
        self.hosts.lock().unwrap().remove(name);
    }

    /// Creates a GitopsCluster and its Secret.
    pub(crate) async fn register(&self, name: &str, labels: Value) {
        let secret = format!("{name}-kubeconfig");
        create(
            &self.hub.client(),
            &json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": secret, "namespace": "default"},
                "stringData": {"value": kubeconfig(name)},
            }),
        )
        .await;
        create(
            &self.hub.client(),
            &json!({
                "apiVersion": "gitops.weave.works/v1alpha1", "kind": "GitopsCluster",
                "metadata": {"name": name, "namespace": "default", "labels": labels},
                "spec": {"secretRef": {"name": secret}},
            }),
        )
        .await;
    }

    pub(crate) async fn pipeline(&self, name: &str, spec: Value) {
        create(
            &self.hub.client(),
            &json!({
                "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Pipeline",
                "metadata": {"name": name, "namespace": "default"}, "spec": spec,
            }),
        )
        .await;
    }

    pub(crate) fn pipelines(&self) -> Api<Pipeline> {
        Api::namespaced(self.hub.client(), "default")
    }

    /// Waits until the drawing of a pipeline is as expected.
    pub(crate) async fn expect(&self, name: &str, expected: &str) {
        let mut drawn = String::new();
        for _ in 0..600 {
            drawn = draw(&self.pipelines().get(name).await.unwrap());
            if drawn == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        panic!("{name} is\n  {drawn}\nand not\n  {expected}");
    }
}

pub(crate) async fn define_flux(client: &Client) {
    create(
        client,
        &app_definition("helm.toolkit.fluxcd.io", "HelmRelease", &["v2"]),
    )
    .await;
    create(
        client,
        &app_definition("kustomize.toolkit.fluxcd.io", "Kustomization", &["v1"]),
    )
    .await;
}

pub(crate) fn kubeconfig(host: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\n\
         clusters: [{{name: c, cluster: {{server: 'https://{host}.example'}}}}]\n\
         users: [{{name: u, user: {{token: t}}}}]\n\
         contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n"
    )
}

fn connector(hosts: &Hosts) -> Connector {
    let hosts = hosts.clone();
    Arc::new(move |kubeconfig| {
        let cluster = kubeconfig.clusters[0].cluster.as_ref().unwrap();
        let server = cluster.server.clone().unwrap();
        let host = server
            .trim_start_matches("https://")
            .trim_end_matches(".example");
        let found = hosts.lock().unwrap().get(host).cloned();
        let outcome = found.ok_or_else(|| format!("connection to {host} refused"));
        std::future::ready(outcome).boxed()
    })
}

/// The spec of a pipeline of one HelmRelease: `dev=cluster/namespace,… > prod=…`.
pub(crate) fn spec(drawing: &str) -> Value {
    let environments: Vec<Value> = drawing
        .split(" > ")
        .map(|environment| {
            let (name, targets) = environment.split_once('=').unwrap();
            let targets: Vec<Value> = targets
                .split(',')
                .filter(|it| !it.is_empty())
                .map(target)
                .collect();
            json!({"name": name, "targets": targets})
        })
        .collect();
    json!({
        "appRef": {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "app"},
        "environments": environments,
    })
}

fn target(text: &str) -> Value {
    match text.split_once('/') {
        Some((cluster, namespace)) => json!({
            "namespace": namespace, "clusterRef": {"kind": "GitopsCluster", "name": cluster},
        }),
        None => json!({"namespace": text}),
    }
}

pub(crate) async fn namespace(client: &Client, name: &str) {
    create(
        client,
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
    )
    .await;
}

/// A HelmRelease that Flux deployed.
pub(crate) fn release(namespace: &str, name: &str, version: &str) -> Value {
    json!({
        "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"chart": {"spec": {"chart": "app", "version": version}}},
        "status": released(version, true),
    })
}

pub(crate) fn released(version: &str, ready: bool) -> Value {
    json!({
        "observedGeneration": 1,
        "conditions": [{
            "type": "Ready", "status": if ready { "True" } else { "False" },
            "reason": if ready { "InstallSucceeded" } else { "InstallFailed" },
            "message": if ready { "all is well" } else { "it did not work" },
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
        "history": [{"chartVersion": version, "status": if ready { "deployed" } else { "failed" }}],
        "lastAttemptedRevision": version,
    })
}

/// Creates an app with its status, as Flux would.
pub(crate) async fn deploy(client: &Client, app: &Value) {
    create(client, app).await;
    set_status(client, app, &app["status"]).await;
}

pub(crate) async fn set_status(client: &Client, app: &Value, status: &Value) {
    let name = app["metadata"]["name"].as_str().unwrap();
    let patch = Patch::Merge(json!({"status": status}));
    api_of(client, app)
        .patch_status(name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// `dev[6.1.8 ok, cluster: not ready] > prod[…]`, with errors in words.
pub(crate) fn draw(pipeline: &Pipeline) -> String {
    let status = pipeline.status.clone().unwrap_or_default();
    let environments = pipeline.spec.environments.iter().map(|environment| {
        let state = status
            .environments
            .get(&environment.name)
            .cloned()
            .unwrap_or_default();
        let targets: Vec<String> = state.targets.iter().map(draw_target).collect();
        format!("{}[{}]", environment.name, targets.join(", "))
    });
    environments.collect::<Vec<_>>().join(" > ")
}

fn draw_target(target: &TargetStatus) -> String {
    let revision = target.revision.as_deref().unwrap_or("-");
    match (&target.error, target.ready) {
        (Some(error), _) => format!("{revision} {error}"),
        (None, true) => format!("{revision} ok"),
        (None, false) => format!("{revision} not ready"),
    }
}

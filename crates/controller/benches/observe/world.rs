//! The clusters of the benchmark and what is on them.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use api::Pipeline;
use apiserver::Server;
use futures::{StreamExt, stream};
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};
use testbed::real::{Assets, ControlPlane};

/// Each pipeline has so many environments of one target.
pub(crate) const ENVIRONMENTS: usize = 3;
const AT_ONCE: usize = 16;

pub(crate) struct Scale {
    pub(crate) pipelines: usize,
    pub(crate) leaves: usize,
    pub(crate) is_real: bool,
    /// Whether each app has a Deployment.
    pub(crate) has_workloads: bool,
}

impl Scale {
    pub(crate) fn describe(&self) -> String {
        let clusters = match self.leaves {
            1 => "cluster",
            _ => "clusters",
        };
        let servers = match self.is_real {
            true => "real kube-apiservers",
            false => "in-process clusters",
        };
        let workloads = match self.has_workloads {
            true => "",
            false => ", apps without workloads",
        };
        format!(
            "{} pipelines, {ENVIRONMENTS} environments each, {} leaf {clusters}, {servers}{workloads}",
            self.pipelines, self.leaves
        )
    }
}

pub(crate) struct Cluster {
    pub(crate) client: Client,
    pub(crate) kubeconfig: String,
}

pub(crate) struct World {
    pub(crate) hub: Cluster,
    pub(crate) leaves: Vec<Cluster>,
    connections: Arc<AtomicUsize>,
    /// Counts what was measured here, so that each sees new versions.
    round: usize,
    _real: Vec<ControlPlane>,
}

impl World {
    pub(crate) async fn build(scale: &Scale) -> Self {
        let connections = Arc::new(AtomicUsize::new(0));
        let mut world = if scale.is_real {
            real().await
        } else {
            in_process(scale.leaves, connections).await
        };
        for definition in api::crds() {
            create(
                &world.hub.client,
                serde_json::to_value(definition).expect("JSON"),
            )
            .await;
        }
        for leaf in &world.leaves {
            create(&leaf.client, helm_release_definition()).await;
            for environment in 0..ENVIRONMENTS {
                create(&leaf.client, json!({
                    "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": format!("env-{environment}")},
                }))
                .await;
            }
        }
        tokio::time::sleep(std::time::Duration::from_secs(if scale.is_real {
            3
        } else {
            0
        }))
        .await;
        world.fill(scale).await;
        world
    }

    async fn fill(&mut self, scale: &Scale) {
        for (index, leaf) in self.leaves.iter().enumerate() {
            let name = format!("leaf-{index}");
            create(
                &self.hub.client,
                json!({
                    "apiVersion": "v1", "kind": "Secret",
                    "metadata": {"name": name, "namespace": "default"},
                    // The Weave controller reads another key.
                    "stringData": {"value": leaf.kubeconfig, "kubeconfig": leaf.kubeconfig},
                }),
            )
            .await;
            let cluster = json!({
                "apiVersion": "gitops.weave.works/v1alpha1", "kind": "GitopsCluster",
                "metadata": {"name": name, "namespace": "default"}, "spec": {"secretRef": {"name": name}},
            });
            create(&self.hub.client, cluster.clone()).await;
            // The Weave controller waits for it.
            set_status(
                &self.hub.client,
                &cluster,
                json!({"conditions": [ready("ClusterFound")]}),
            )
            .await;
        }
        stream::iter(0..scale.pipelines)
            .for_each_concurrent(AT_ONCE, |index| {
                self.add_pipeline(index, scale.has_workloads)
            })
            .await;
    }

    async fn add_pipeline(&self, index: usize, has_workloads: bool) {
        let mut environments = Vec::new();
        for environment in 0..ENVIRONMENTS {
            let leaf = self.leaf_of(index, environment);
            create(&self.leaves[leaf].client, release(environment, index)).await;
            if has_workloads {
                create(&self.leaves[leaf].client, deployment(environment, index)).await;
            }
            self.deploy(index, environment, "1.0.0").await;
            environments.push(json!({
                "name": format!("env-{environment}"),
                "targets": [{
                    "namespace": format!("env-{environment}"),
                    "clusterRef": {"kind": "GitopsCluster", "name": format!("leaf-{leaf}")},
                }],
            }));
        }
        create(&self.hub.client, json!({
            "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Pipeline",
            "metadata": {"name": format!("p-{index}"), "namespace": "default"},
            "spec": {
                "appRef": {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": format!("app-{index}")},
                "environments": environments,
            },
        }))
        .await;
    }

    fn leaf_of(&self, pipeline: usize, environment: usize) -> usize {
        (pipeline * ENVIRONMENTS + environment) % self.leaves.len()
    }

    /// Sets what a pipeline's app runs in an environment.
    pub(crate) async fn deploy(&self, pipeline: usize, environment: usize, version: &str) {
        let leaf = &self.leaves[self.leaf_of(pipeline, environment)].client;
        let app = release(environment, pipeline);
        let status = json!({
            "observedGeneration": 1,
            "conditions": [ready("UpgradeSucceeded")],
            "history": [{"chartVersion": version, "status": "deployed"}],
            // The Weave controller reads only this.
            "lastAppliedRevision": version,
        });
        set_status(leaf, &app, status).await;
    }

    /// A version that nothing has run yet, by the number of a measurement and of a change.
    pub(crate) fn version(&self, measurement: usize, number: usize) -> String {
        format!("{}.{measurement}.{number}", self.round + 2)
    }

    /// Removes the statuses, for the next that is measured.
    pub(crate) async fn begin_another_round(&mut self, scale: &Scale) {
        self.round += 1;
        let pipelines: Api<Pipeline> = Api::namespaced(self.hub.client.clone(), "default");
        let nothing = Patch::Merge(json!({"status": null}));
        let remove = async |index: usize| {
            let name = format!("p-{index}");
            let parameters = PatchParams::default();
            let removed = pipelines.patch_status(&name, &parameters, &nothing);
            removed.await.expect("a status patch");
        };
        stream::iter(0..scale.pipelines)
            .for_each_concurrent(AT_ONCE, remove)
            .await;
    }

    pub(crate) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

async fn real() -> World {
    let assets = Assets::from_env().expect("KUBEBUILDER_ASSETS names a folder with the programs");
    let hub = ControlPlane::start(&assets).await.expect("a hub");
    let leaf = ControlPlane::start(&assets).await.expect("a leaf");
    let cluster = |plane: &ControlPlane| Cluster {
        client: plane.client(),
        kubeconfig: plane.kubeconfig().to_owned(),
    };
    World {
        hub: cluster(&hub),
        leaves: vec![cluster(&leaf)],
        connections: Arc::default(),
        round: 0,
        _real: vec![hub, leaf],
    }
}

/// All clusters behind one loopback port, told apart by the first part of the path.
async fn in_process(leaves: usize, connections: Arc<AtomicUsize>) -> World {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a free port");
    let address = listener.local_addr().expect("a bound address");
    let mut router = axum::Router::new();
    let mut clusters = Vec::new();
    for index in 0..=leaves {
        let server = Server::in_memory();
        let path = format!("/c{index}");
        router = router.nest_service(&path, server.router(apiserver::User::in_process()));
        clusters.push(Cluster {
            client: server.client(),
            kubeconfig: kubeconfig(&format!("http://{address}{path}")),
        });
    }
    let listener = Counting {
        listener,
        connections: connections.clone(),
    };
    tokio::spawn(async move { axum::serve(listener, router).await });
    let hub = clusters.remove(0);
    World {
        hub,
        leaves: clusters,
        connections,
        round: 0,
        _real: Vec::new(),
    }
}

/// Counts the connections that are open.
struct Counting {
    listener: tokio::net::TcpListener,
    connections: Arc<AtomicUsize>,
}

impl axum::serve::Listener for Counting {
    type Io = Counted;
    type Addr = std::net::SocketAddr;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        let (stream, address) = axum::serve::Listener::accept(&mut self.listener).await;
        let _ = stream.set_nodelay(true);
        self.connections.fetch_add(1, Ordering::Relaxed);
        let counted = Counted {
            stream,
            connections: self.connections.clone(),
        };
        (counted, address)
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        self.listener.local_addr()
    }
}

struct Counted {
    stream: tokio::net::TcpStream,
    connections: Arc<AtomicUsize>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }
}

impl tokio::io::AsyncRead for Counted {
    fn poll_read(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        buffer: &mut tokio::io::ReadBuf<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::pin::Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl tokio::io::AsyncWrite for Counted {
    fn poll_write(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> std::task::Poll<std::io::Result<usize>> {
        std::pin::Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::pin::Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::pin::Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

fn kubeconfig(server: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\n\
         clusters: [{{name: c, cluster: {{server: '{server}'}}}}]\nusers: [{{name: u, user: {{}}}}]\n\
         contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n"
    )
}

fn release(environment: usize, pipeline: usize) -> Value {
    json!({
        "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
        "metadata": {"name": format!("app-{pipeline}"), "namespace": format!("env-{environment}")},
        "spec": {"chart": {"spec": {"chart": "app"}}},
    })
}

/// What the app deployed: Sluice also reads the images of workloads.
fn deployment(environment: usize, pipeline: usize) -> Value {
    let (name, namespace) = (format!("app-{pipeline}"), format!("env-{environment}"));
    let labels = json!({
        "helm.toolkit.fluxcd.io/name": name, "helm.toolkit.fluxcd.io/namespace": namespace,
    });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "app", "image": "registry.example.com/app:1.0.0"}]},
            },
        },
    })
}

fn helm_release_definition() -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "helmreleases.helm.toolkit.fluxcd.io"},
        "spec": {
            "group": "helm.toolkit.fluxcd.io", "scope": "Namespaced",
            "names": {"plural": "helmreleases", "singular": "helmrelease", "kind": "HelmRelease"},
            "versions": [{
                "name": "v2", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}},
            }],
        },
    })
}

fn ready(reason: &str) -> Value {
    json!({
        "type": "Ready", "status": "True", "reason": reason, "message": "done",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

async fn set_status(client: &Client, object: &Value, status: Value) {
    let patch = Patch::Merge(json!({"status": status}));
    let name = object["metadata"]["name"].as_str().expect("a name");
    api_of(client, object)
        .patch_status(name, &PatchParams::default(), &patch)
        .await
        .expect("a status patch");
}

async fn create(client: &Client, object: Value) {
    let parsed: DynamicObject = serde_json::from_value(object.clone()).expect("an object");
    let created = api_of(client, &object)
        .create(&PostParams::default(), &parsed)
        .await;
    if let Err(error) = created {
        eprintln!(
            "cannot create {} {}: {error}",
            object["kind"], object["metadata"]["name"]
        );
        std::process::exit(1);
    }
}

fn api_of(client: &Client, object: &Value) -> Api<DynamicObject> {
    let text = |pointer| {
        object
            .pointer(pointer)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let (group, version) = text("/apiVersion")
        .split_once('/')
        .unwrap_or(("", text("/apiVersion")));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text("/kind")));
    match text("/metadata/namespace") {
        "" => Api::all_with(client.clone(), &resource),
        namespace => Api::namespaced_with(client.clone(), namespace, &resource),
    }
}

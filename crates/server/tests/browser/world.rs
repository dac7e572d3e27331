//! A server on a port over the embedded API, with reconcilers beside it.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use api::{GitopsCluster, Pipeline, Promotion};
use apiserver::{Server, User};
use futures::StreamExt;
use k8s_openapi::api::{
    core::v1::{Event, Namespace},
    rbac::v1::{Role, RoleBinding},
};
use kube::{
    Api, Client, ResourceExt,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use server::{Metrics, Settings, leaf::LeafConnector, settings::Authoring};
use tempfile::TempDir;
use testbed::{
    browser::{Chromium, TIMEOUT},
    oidc_provider::OidcProvider,
};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    runtime::Runtime,
    task::JoinSet,
};
use tokio_util::sync::CancellationToken;

use crate::{
    leaf::{leaf, put},
    loops::{self, Strategy},
    oidc_settings::oidc_settings,
};

/// The token of whoever may do anything.
pub(crate) const OWNER: &str = "owner-token";

pub(crate) struct World {
    pub(crate) runtime: Runtime,
    pub(crate) server: Server,
    pub(crate) client: Client,
    /// Where the browser goes: a relay that can be cut.
    pub(crate) address: String,
    is_cut: Arc<AtomicBool>,
    stop: CancellationToken,
    leaves: Leaves,
    /// Whom people sign in with, where they do not use tokens.
    provider: Option<(OidcProvider, TempDir)>,
}

/// The clusters that can be reached, by name.
type Leaves = Arc<Mutex<HashMap<String, Server>>>;

impl World {
    pub(crate) fn new() -> Self {
        Self::start(false)
    }

    /// A world whose people sign in with an OpenID provider.
    pub(crate) fn with_provider() -> Self {
        Self::start(true)
    }

    pub(crate) fn provider(&self) -> &OidcProvider {
        &self.provider.as_ref().unwrap().0
    }

    fn start(has_provider: bool) -> Self {
        let runtime = Runtime::new().unwrap();
        let (server, client) = {
            let _inside = runtime.enter();
            let server = testbed::hub::server();
            let client = server.client();
            (server, client)
        };
        server.add_token(OWNER, User::new("olivia", &["system:masters"]));
        let stop = CancellationToken::new();
        let is_cut = Arc::new(AtomicBool::new(false));
        let leaves = Leaves::default();
        let reachable = leaves.clone();
        let (address, provider) = runtime.block_on(async {
            let namespaces: Api<Namespace> = Api::all(client.clone());
            for name in ["shop", "platform"] {
                let namespace = json!({"metadata": {"name": name}});
                let namespace = serde_json::from_value(namespace).unwrap();
                let parameters = PostParams::default();
                namespaces.create(&parameters, &namespace).await.unwrap();
            }
            let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
            let address = format!("http://{}", listener.local_addr().unwrap());
            let (oidc, provider) = match has_provider {
                true => {
                    let redirect_url = format!("{address}/login/oidc/callback");
                    let provider = OidcProvider::start(&redirect_url).await;
                    let (oidc, files) = oidc_settings(&provider, redirect_url);
                    (Some(oidc), Some((provider, files)))
                }
                false => (None, None),
            };
            let settings = Settings {
                oidc,
                rest_address: Some(([127, 0, 0, 1], 0).into()),
                rate_limit: 0,
                leaf_connector: leaf_connector(reachable),
                authoring: Some(authoring()),
                ..Settings::default()
            };
            let started =
                server::start(client.clone(), settings, Metrics::default(), stop.clone()).await;
            relay(listener, started.unwrap().rest.unwrap(), is_cut.clone());
            (address, provider)
        });
        Self {
            runtime,
            server,
            client,
            address,
            is_cut,
            stop,
            leaves,
            provider,
        }
    }

    /// A cluster that can be reached, and its GitopsCluster.
    pub(crate) fn create_leaf(&self, name: &str) -> Server {
        let server = self.runtime.block_on(leaf());
        self.leaves
            .lock()
            .unwrap()
            .insert(name.to_owned(), server.clone());
        self.create_cluster(name, "True", "");
        server
    }

    /// Runs the reconcilers beside the server.
    pub(crate) fn promotes(&self, strategy: Strategy) {
        let loops = loops::run(self.client.clone(), strategy);
        let running = self.stop.clone().run_until_cancelled_owned(loops);
        self.runtime.spawn(running);
    }

    /// Breaks every connection, or lets them through again.
    pub(crate) fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::SeqCst);
    }

    /// A pipeline, and its status where it has one.
    pub(crate) fn create(&self, pipeline: &Value) {
        self.runtime.block_on(async {
            let object: Pipeline = serde_json::from_value(pipeline.clone()).unwrap();
            let namespace = object.metadata.namespace.clone().unwrap();
            let api: Api<Pipeline> = Api::namespaced(self.client.clone(), &namespace);
            api.create(&PostParams::default(), &object).await.unwrap();
        });
        if !pipeline["status"].is_null() {
            let name = pipeline["metadata"]["name"].as_str().unwrap();
            self.set_status(name, &pipeline["status"]);
        }
    }

    /// Many pipelines with their statuses, some at a time.
    pub(crate) fn create_many(&self, count: usize, pipeline: impl Fn(usize) -> Value) {
        let api: Api<Pipeline> = Api::namespaced(self.client.clone(), "shop");
        let all = (0..count).map(|number| {
            let (api, pipeline) = (api.clone(), pipeline(number));
            async move {
                let object: Pipeline = serde_json::from_value(pipeline.clone()).unwrap();
                let name = object.metadata.name.clone().unwrap();
                api.create(&PostParams::default(), &object).await.unwrap();
                let patch = Patch::Merge(json!({"status": pipeline["status"]}));
                let parameters = PatchParams::default();
                api.patch_status(&name, &parameters, &patch).await.unwrap();
            }
        });
        let work = futures::stream::iter(all).buffer_unordered(16).count();
        assert_eq!(self.runtime.block_on(work), count);
    }

    pub(crate) fn set_status(&self, name: &str, status: &Value) {
        let patch = Patch::Merge(json!({"status": status}));
        self.runtime.block_on(async {
            let api: Api<Pipeline> = Api::namespaced(self.client.clone(), "shop");
            let parameters = PatchParams::default();
            api.patch_status(name, &parameters, &patch).await.unwrap();
        });
    }

    pub(crate) fn create_cluster(&self, name: &str, status: &str, message: &str) {
        let condition = json!({
            "type": "ClusterConnectivity", "status": status, "reason": "Probed", "message": message,
            "lastTransitionTime": "2026-11-01T10:00:00Z",
        });
        let cluster = json!({
            "metadata": {"name": name}, "spec": {"secretRef": {"name": "kubeconfig"}},
        });
        self.runtime.block_on(async {
            let api: Api<GitopsCluster> = Api::namespaced(self.client.clone(), "shop");
            let object = serde_json::from_value(cluster).unwrap();
            api.create(&PostParams::default(), &object).await.unwrap();
            let patch = Patch::Merge(json!({"status": {"conditions": [condition]}}));
            let parameters = PatchParams::default();
            api.patch_status(name, &parameters, &patch).await.unwrap();
        });
    }

    /// A trigger that feeds a pipeline.
    pub(crate) fn create_trigger(&self, name: &str, pipeline: &str) {
        let trigger = json!({
            "apiVersion": "pipeline.jquad.rocks/v1alpha1", "kind": "PipelineTrigger",
            "metadata": {"name": name, "namespace": "shop", "labels": {"pipelines.weave.works/pipeline": pipeline}},
            "spec": {"source": {"kind": "GitRepository", "name": "code"}, "pipeline": {"name": "build"}},
            "status": {"latestEvent": "main@sha1:ab", "latestPipelineRun": format!("{name}-1")},
        });
        self.runtime.block_on(put(&self.server, &trigger));
    }

    /// A Kubernetes Event about a pipeline.
    pub(crate) fn create_event(&self, pipeline: &str, message: &str) {
        let event = json!({
            "metadata": {"name": format!("{pipeline}.1")}, "type": "Warning", "reason": "PromotionHeld",
            "message": message, "count": 3, "lastTimestamp": "2026-11-01T10:00:00Z",
            "involvedObject": {
                "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Pipeline", "name": pipeline,
                "namespace": "shop",
            },
        });
        let events: Api<Event> = Api::namespaced(self.client.clone(), "shop");
        let event = serde_json::from_value(event).unwrap();
        let parameters = PostParams::default();
        let created = events.create(&parameters, &event);
        self.runtime.block_on(created).unwrap();
    }

    pub(crate) fn promotions(&self) -> Vec<Promotion> {
        self.runtime.block_on(async {
            let api: Api<Promotion> = Api::all(self.client.clone());
            api.list(&ListParams::default()).await.unwrap().items
        })
    }

    pub(crate) fn pipeline(&self, name: &str) -> Pipeline {
        self.runtime.block_on(async {
            let api: Api<Pipeline> = Api::namespaced(self.client.clone(), "shop");
            api.get(name).await.unwrap()
        })
    }

    /// Waits for something to be stored.
    pub(crate) fn until(&self, what: &str, is_so: impl Fn(&Self) -> bool) {
        let deadline = std::time::Instant::now() + TIMEOUT;
        while !is_so(self) {
            assert!(std::time::Instant::now() < deadline, "never: {what}");
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Somebody whose token is their name, with these verbs on pipelines in `shop`.
    pub(crate) fn grant(&self, user: &str, verbs: &[&str]) {
        self.server.add_token(user, User::new(user, &[]));
        let role = json!({
            "metadata": {"name": user},
            "rules": [{"apiGroups": ["pipelines.weave.works"], "resources": ["pipelines"], "verbs": verbs}],
        });
        let binding = json!({
            "metadata": {"name": user},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": user},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}],
        });
        self.runtime.block_on(async {
            let roles: Api<Role> = Api::namespaced(self.client.clone(), "shop");
            let bindings: Api<RoleBinding> = Api::namespaced(self.client.clone(), "shop");
            let parameters = PostParams::default();
            let role = serde_json::from_value(role).unwrap();
            roles.create(&parameters, &role).await.unwrap();
            let binding = serde_json::from_value(binding).unwrap();
            bindings.create(&parameters, &binding).await.unwrap();
        });
    }

    pub(crate) fn sign_in(&self, browser: &mut Chromium, token: &str) {
        browser.go(&format!("{}/pipelines", self.address));
        browser.fill("#token", token);
        browser.press("Sign in");
    }

    pub(crate) fn go(&self, browser: &mut Chromium, path: &str) {
        browser.go(&format!("{}{path}", self.address));
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// Where the form for a new pipeline proposes it.
fn authoring() -> Authoring {
    Authoring {
        url: "https://forge.example/fleet.git".to_owned(),
        branch: "main".to_owned(),
        folders: vec!["pipelines".to_owned()],
    }
}

fn leaf_connector(leaves: Leaves) -> LeafConnector {
    LeafConnector::new(move |cluster| {
        let found = leaves.lock().unwrap().get(&cluster.name_any()).cloned();
        let found = found.map(|server| server.client());
        Box::pin(async move { found.ok_or_else(|| "connection refused".to_owned()) })
    })
}

/// Passes connections on, and ends them all when it is cut.
fn relay(listener: TcpListener, to: SocketAddr, is_cut: Arc<AtomicBool>) {
    tokio::spawn(async move {
        let mut connections = JoinSet::new();
        loop {
            let look = tokio::time::sleep(Duration::from_millis(50));
            tokio::select! {
                Ok((mut browser, _)) = listener.accept() => {
                    if is_cut.load(Ordering::SeqCst) { continue; }
                    connections.spawn(async move {
                        if let Ok(mut server) = TcpStream::connect(to).await {
                            drop(copy_bidirectional(&mut browser, &mut server).await);
                        }
                    });
                }
                () = look => if is_cut.load(Ordering::SeqCst) { connections.abort_all() },
            }
        }
    });
}

/// dev and prod, each with one target; nothing enters prod without approval.
pub(crate) fn pipeline(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {
            "appRef": {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": name},
            "environments": [
                {"name": "dev", "targets": [{"namespace": "dev"}]},
                {"name": "prod", "targets": [{"namespace": "prod"}]},
            ],
            "promotion": {"manual": true, "strategy": {"pull-request": {
                "type": "github", "url": "https://forge.example/shop.git", "baseBranch": "main",
                "secretRef": {"name": "forge"},
            }}},
        },
    })
}

/// What a report from Flux leaves behind.
pub(crate) fn report(revision: &str) -> Value {
    json!({"revision": revision, "at": "2026-11-01T10:00:00Z", "severity": "info", "signed": true})
}

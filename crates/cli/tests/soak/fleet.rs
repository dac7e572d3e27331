//! The hub, a leaf cluster with the Flux stand-in for each environment, the forge with a repository for each
//! app, and the pipelines.

use std::{path::Path, time::Duration};

use api::{Pipeline, Promotion, pipeline::EnvironmentStatus};
use apiserver::{MASTERS, Options, ServeHandle, ServeOptions, Server, User};
use kube::{Api, Client};
use serde_json::{Value, json};
use testbed::{
    flux::{AppEndpoint, Flux, FluxTiming, definitions},
    forge::{Forge, Repository},
    objects::apply,
};

use crate::leaf_proxy::LeafProxy;

pub(crate) const ENVIRONMENTS: [&str; 3] = ["dev", "staging", "prod"];
/// The first version of every app.
pub(crate) const FIRST: &str = "1.0.0";
/// The bearer token of the people who read.
pub(crate) const TOKEN: &str = "a-token-of-a-reader";

const TIMING: FluxTiming = FluxTiming {
    poll_interval: Duration::from_secs(1),
    release_duration: Duration::from_millis(300),
};

struct Leaf {
    server: Server,
    served: ServeHandle,
    proxy: LeafProxy,
}

/// An app with its repository.
struct App {
    name: String,
    repository: Repository,
    endpoint: AppEndpoint,
    _flux: Vec<Flux>,
}

/// Everything that the binary talks to. Stops on drop.
pub(crate) struct Fleet {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) forge: Forge,
    hub: Server,
    served: ServeHandle,
    leaves: Vec<Leaf>,
    apps: Vec<App>,
}

impl Fleet {
    pub(crate) async fn start(apps: usize) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let hub = Server::open(folder.path().join("hub-store"), Options::default()).await;
        let hub = hub.unwrap();
        hub.add_token(TOKEN, User::new("reader", &[MASTERS]));
        let served = hub.serve(ServeOptions::new(folder.path().join("hub")));
        let served = served.await.unwrap();
        apply(&hub.client(), crds()).await;
        let mut leaves = Vec::new();
        for name in ENVIRONMENTS {
            let leaf = Leaf::start(&folder.path().join(name)).await;
            register(&hub.client(), name, &leaf).await;
            leaves.push(leaf);
        }
        let forge = Forge::start_with_tls().await.unwrap();
        apply(&hub.client(), vec![secret(&forge)]).await;
        let mut fleet = Self {
            folder,
            forge,
            hub,
            served,
            leaves,
            apps: Vec::new(),
        };
        for number in 0..apps {
            let app = fleet.app(&format!("app-{number}")).await;
            fleet.apps.push(app);
        }
        for app in &fleet.apps {
            apply(&fleet.hub.client(), vec![app.pipeline()]).await;
        }
        fleet
    }

    async fn app(&self, name: &str) -> App {
        let files = ENVIRONMENTS.map(|it| (path(name, it), manifest(name, it, FIRST)));
        let files = files
            .each_ref()
            .map(|(path, text)| (path.as_str(), text.as_str()));
        let project = format!("team/{name}");
        let repository = self.forge.create_repository(&project, &files).await;
        let repository = repository.unwrap();
        let leaves = || ENVIRONMENTS.iter().zip(&self.leaves);
        let flux = leaves().map(|(environment, leaf)| {
            let folder = format!("clusters/{environment}/{name}");
            Flux::start(repository.clone(), &folder, leaf.server.client(), TIMING)
        });
        let flux = flux.collect();
        let clusters = leaves().map(|(name, leaf)| ((*name).to_owned(), leaf.server.client()));
        let endpoint = AppEndpoint::start(name, clusters).await.unwrap();
        App {
            name: name.to_owned(),
            repository,
            endpoint,
            _flux: flux,
        }
    }

    pub(crate) fn hub(&self) -> Client {
        self.hub.client()
    }

    pub(crate) fn kubeconfig(&self) -> &Path {
        self.served.kubeconfig()
    }

    pub(crate) fn promotions(&self) -> Api<Promotion> {
        Api::namespaced(self.hub(), "default")
    }

    /// The hosts of all apps, for checks.
    pub(crate) fn check_hosts(&self) -> String {
        let hosts: Vec<_> = self.apps.iter().map(|it| it.endpoint.host()).collect();
        hosts.join(",")
    }

    pub(crate) fn set_leaf_connected(&self, leaf: usize, is_connected: bool) {
        self.leaves[leaf].proxy.set_connected(is_connected);
    }

    pub(crate) fn app_count(&self) -> usize {
        self.apps.len()
    }

    pub(crate) fn app_name(&self, app: usize) -> &str {
        &self.apps[app].name
    }

    /// Releases a version to dev, as CI would.
    pub(crate) async fn push(&self, app: usize, version: &str) {
        let App {
            name, repository, ..
        } = &self.apps[app];
        let (path, text) = (path(name, "dev"), manifest(name, "dev", version));
        let files = [(path.as_str(), text.as_str())];
        let message = format!("Release {version}");
        repository.commit("main", &message, &files).await.unwrap();
    }

    /// What the pipeline of an app says about an environment.
    pub(crate) async fn environment(&self, app: usize, name: &str) -> Option<EnvironmentStatus> {
        let pipelines: Api<Pipeline> = Api::namespaced(self.hub(), "default");
        let pipeline = pipelines.get_opt(self.app_name(app)).await.ok()??;
        pipeline.status?.environments.get(name).cloned()
    }
}

impl Leaf {
    async fn start(folder: &Path) -> Self {
        let server = Server::in_memory();
        apply(&server.client(), definitions()).await;
        let served = server.serve(ServeOptions::new(folder)).await.unwrap();
        let proxy = LeafProxy::start(served.address()).await;
        Self {
            server,
            served,
            proxy,
        }
    }

    /// A kubeconfig that leads through the proxy.
    fn kubeconfig(&self) -> String {
        let text = std::fs::read_to_string(self.served.kubeconfig()).unwrap();
        let (direct, proxied) = (self.served.address(), self.proxy.address);
        text.replace(&direct.to_string(), &proxied.to_string())
    }
}

impl App {
    fn pipeline(&self) -> Value {
        let strategy = json!({"pull-request": {
            "type": "gitea", "url": self.repository.url(), "baseBranch": "main",
            "secretRef": {"name": "git"}, "autoMerge": true,
        }});
        let target = |cluster: &str| json!([{"namespace": self.name, "clusterRef": {"kind": "GitopsCluster", "name": cluster}}]);
        let url = format!("http://{}/${{environment}}/healthz", self.endpoint.host());
        json!({
            "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Pipeline",
            "metadata": {"name": self.name, "namespace": "default"},
            "spec": {
                "appRef": {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": self.name},
                "promotion": {"strategy": strategy},
                "checks": [{"name": "smoke", "http": {"url": url, "passExpr": "status == 200"}}],
                "environments": [
                    {"name": "dev", "targets": target("dev")},
                    {"name": "staging", "targets": target("staging"), "verify": {
                        "checks": ["smoke"], "onFailure": "Rollback",
                    }},
                    {"name": "prod", "targets": target("prod"), "promotion": {
                        "approvalPolicy": {"count": 2}, "strategy": strategy,
                    }},
                ],
            },
        })
    }
}

fn crds() -> Vec<Value> {
    let ours = api::crds().into_iter().map(|definition| {
        let mut value = serde_json::to_value(definition).unwrap();
        value["apiVersion"] = json!("apiextensions.k8s.io/v1");
        value["kind"] = json!("CustomResourceDefinition");
        value
    });
    ours.collect()
}

async fn register(hub: &Client, name: &str, leaf: &Leaf) {
    let secret = format!("{name}-kubeconfig");
    let objects = vec![
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": secret, "namespace": "default"},
            "stringData": {"value": leaf.kubeconfig()},
        }),
        json!({
            "apiVersion": "gitops.weave.works/v1alpha1", "kind": "GitopsCluster",
            "metadata": {"name": name, "namespace": "default"},
            "spec": {"secretRef": {"name": secret}},
        }),
    ];
    apply(hub, objects).await;
}

fn secret(forge: &Forge) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "git", "namespace": "default"},
        "stringData": {
            "username": "sluice", "password": forge.token(), "token": forge.token(),
            "caFile": forge.certificate_authority(),
        },
    })
}

fn path(app: &str, environment: &str) -> String {
    format!("clusters/{environment}/{app}/release.yaml")
}

fn manifest(app: &str, environment: &str, version: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {app}\n---\n\
         apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\n\
         metadata:\n  name: {app}\n  namespace: {app}\n\
         spec:\n  interval: 1m\n  chart:\n    spec:\n      chart: {app}\n      \
         version: {version} # {{\"$promotion\": \"default:{app}:{environment}\"}}\n"
    )
}

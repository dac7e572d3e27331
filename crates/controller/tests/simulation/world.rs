//! The hub, the leaf cluster, the forge and the processes of one run.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use api::{Pipeline, Promotion};
use apiserver::{MASTERS, Options, Server, User};
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use testbed::forge_doubles::TOKEN;

use crate::{
    dice::Dice,
    forge::{Forge, MAIN},
    hooks::SignedReport,
    layout::{ENVIRONMENTS, FLEET, Layout, TICKET, manifest, manifest_path, version_in},
    link::SharedWeather,
    replica::Replica,
    story::Story,
    watchdog::Watchdog,
};

/// The bearer token of the person who uses the REST API.
pub(crate) const PERSON_TOKEN: &str = "the-token-of-ann";
/// The key of those who report the check `ticket`.
pub(crate) const TICKET_KEY: &str = "the-key-of-the-ticket-system";
/// The key of Flux's notifications.
pub(crate) const HOOK_KEY: &str = "the-key-of-the-notifications";
/// When every run begins.
pub(crate) const START: i64 = 1_800_000_000;

/// The definitions of our kinds.
pub(crate) static DEFINITIONS: LazyLock<Arc<Vec<CustomResourceDefinition>>> =
    LazyLock::new(|| Arc::new(api::crds()));

/// Hub and leaf at the beginning of every run. Definitions take longer to compile than a run takes.
pub(crate) static BEGINNING: LazyLock<(Server, Server)> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    runtime.unwrap().block_on(async {
        let (hub, leaf) = (Server::new(options(0)), Server::new(options(1)));
        set_up(&hub.client(), &leaf.client()).await;
        (hub, leaf)
    })
});

fn options(seed: u64) -> Options {
    Options {
        history: 256,
        seed: Some(seed),
        start: Some(Timestamp::from_second(START).unwrap()),
        ..Options::default()
    }
}

/// Everything of one run.
pub(crate) struct World {
    pub(crate) dice: Dice,
    pub(crate) story: Story,
    pub(crate) weather: SharedWeather,
    pub(crate) layout: Layout,
    pub(crate) hub_server: Server,
    pub(crate) leaf_server: Server,
    /// The hub and the leaf in any weather.
    pub(crate) hub: Client,
    pub(crate) leaf: Client,
    pub(crate) watchdog: Arc<Watchdog>,
    pub(crate) forge: Arc<Forge>,
    pub(crate) replicas: Vec<Replica>,
    /// Reports that were signed, and may be sent again.
    pub(crate) sent: Mutex<Vec<SignedReport>>,
}

impl World {
    pub(crate) async fn new(seed: u64) -> Self {
        let start = Timestamp::from_second(START).unwrap();
        runtime::wall_clock::simulate(start);
        let dice = Dice::new(seed);
        let story = Story::begin();
        let layout = Layout::drawn(&dice);
        story.tell("seed", format!("{seed}: {layout:?}"));
        let (hub, leaf) = &*BEGINNING;
        let hub_server = hub.fork(options(seed));
        hub_server.add_token(PERSON_TOKEN, User::new("ann", &[MASTERS]));
        let leaf_server = leaf.fork(options(seed + 1));
        let hub = hub_server.client();
        let watchdog = Watchdog::new(hub.clone(), story.clone(), layout.clone());
        let watchdog = Arc::new(watchdog);
        let file = |target: String| (manifest_path(&target), manifest(&target, "1.0.0"));
        let files: Vec<_> = layout.targets().into_iter().map(file).collect();
        create(&hub, &layout.pipeline()).await;
        Self {
            forge: Arc::new(Forge::new(&files, watchdog.clone())),
            sent: Mutex::default(),
            replicas: (0..2).map(Replica::new).collect(),
            weather: SharedWeather::default(),
            leaf: leaf_server.client(),
            dice,
            story,
            layout,
            hub_server,
            leaf_server,
            hub,
            watchdog,
        }
    }

    pub(crate) async fn pipeline(&self) -> Pipeline {
        let pipelines: Api<Pipeline> = Api::namespaced(self.hub.clone(), "default");
        pipelines.get("app").await.unwrap()
    }

    pub(crate) async fn promotions(&self) -> Vec<Promotion> {
        let promotions: Api<Promotion> = Api::namespaced(self.hub.clone(), "default");
        let all = promotions.list(&ListParams::default()).await;
        all.unwrap().items
    }

    /// Flux says what it made of a release.
    pub(crate) async fn set_release(&self, target: &str, status: &Value) {
        let kind = GroupVersionKind::gvk("helm.toolkit.fluxcd.io", "v2", "HelmRelease");
        let resource = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> = Api::namespaced_with(self.leaf.clone(), target, &resource);
        let patch = Patch::Merge(json!({"status": status}));
        let parameters = PatchParams::default();
        let patched = api.patch_status("app", &parameters, &patch).await;
        patched.unwrap();
    }

    /// The version that git asks for.
    pub(crate) fn version_in_git(&self, target: &str) -> String {
        let content = self.forge.read(MAIN, &manifest_path(target));
        version_in(&content.unwrap_or_default())
    }

    /// Starts the processes that are not running.
    pub(crate) async fn start_replicas(&mut self) {
        let mut replicas = std::mem::take(&mut self.replicas);
        for replica in &mut replicas {
            replica.keep_running(self).await;
        }
        self.replicas = replicas;
    }

    pub(crate) async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}

async fn set_up(hub: &Client, leaf: &Client) {
    for definition in DEFINITIONS.iter() {
        create(hub, &json!(definition)).await;
    }
    let git = json!({
        "username": "sluice", "password": TOKEN, "token": TOKEN, "hmac-key": HOOK_KEY,
    });
    create(hub, &secret("git", &git)).await;
    create(hub, &secret(TICKET, &json!({"hmac-key": TICKET_KEY}))).await;
    create(leaf, &helm_releases()).await;
    for name in ENVIRONMENTS.into_iter().chain(FLEET) {
        let kubeconfig = json!({"value": kubeconfig(name)});
        create(hub, &secret(name, &kubeconfig)).await;
        let cluster = json!({
            "apiVersion": "gitops.weave.works/v1alpha1", "kind": "GitopsCluster",
            "metadata": {"name": name, "namespace": "default", "labels": {"ring": ring(name)}},
            "spec": {"secretRef": {"name": name}},
        });
        create(hub, &cluster).await;
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        create(leaf, &namespace).await;
        let release = json!({
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
            "metadata": {"name": "app", "namespace": name}, "spec": {},
        });
        create(leaf, &release).await;
    }
}

fn ring(cluster: &str) -> &'static str {
    match cluster == FLEET[0] {
        true => "canary",
        false => "rest",
    }
}

fn secret(name: &str, data: &Value) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": "default"}, "stringData": data,
    })
}

fn kubeconfig(host: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: x\n\
         clusters: [{{name: c, cluster: {{server: 'https://{host}.example'}}}}]\n\
         users: [{{name: u, user: {{token: t}}}}]\n\
         contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\n"
    )
}

fn helm_releases() -> Value {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"spec": open, "status": open}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "helmreleases.helm.toolkit.fluxcd.io"},
        "spec": {
            "group": "helm.toolkit.fluxcd.io", "scope": "Namespaced",
            "names": {"plural": "helmreleases", "singular": "helmrelease", "kind": "HelmRelease"},
            "versions": [{
                "name": "v2", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

async fn create(client: &Client, object: &Value) {
    let api_version = object["apiVersion"].as_str().unwrap();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = object["kind"].as_str().unwrap();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    let parsed = serde_json::from_value(object.clone()).unwrap();
    let created = api.create(&PostParams::default(), &parsed).await;
    assert!(created.is_ok(), "{object}: {created:?}");
}

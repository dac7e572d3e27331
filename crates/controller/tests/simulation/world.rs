//! The hub, the leaf cluster, the forge and the processes of one run.

use std::{
    sync::{Arc, LazyLock},
    time::Duration,
};

use api::{Pipeline, Promotion};
use apiserver::{MASTERS, Options, Server, User};
use jiff::Timestamp;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};
use testbed::forge_doubles::TOKEN;

use crate::{
    dice::Dice,
    forge::{Forge, HOST, REPOSITORY},
    link::SharedWeather,
    replica::Replica,
    story::Story,
    watchdog::Watchdog,
};

/// The environments in their order.
pub(crate) const ENVIRONMENTS: [&str; 3] = ["dev", "staging", "prod"];
/// The bearer token of the person who uses the REST API.
pub(crate) const PERSON_TOKEN: &str = "the-token-of-ann";
/// When every run begins.
pub(crate) const START: i64 = 1_800_000_000;

/// The definitions of our kinds, which take longer to compute than a minute of a run.
static DEFINITIONS: LazyLock<Vec<Value>> = LazyLock::new(|| {
    let definitions = api::crds().into_iter();
    definitions.map(|definition| json!(definition)).collect()
});

/// What the pipeline of a run asks for.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// How staging is changed.
    pub(crate) staging: StagingStrategy,
    /// Whether people approve what enters prod.
    pub(crate) is_manual: bool,
    /// How long the environment before must have been ready, in seconds.
    pub(crate) soak: u64,
    /// Whether a check must pass in staging, which is rolled back otherwise.
    pub(crate) has_check: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StagingStrategy {
    MergedByPeople,
    MergedBySluice,
    Commit,
}

impl Layout {
    pub(crate) fn drawn(dice: &Dice) -> Self {
        use StagingStrategy::{Commit, MergedByPeople, MergedBySluice};
        Self {
            staging: *dice.pick(&[MergedByPeople, MergedBySluice, MergedBySluice, Commit]),
            is_manual: dice.happens(500),
            soak: *dice.pick(&[0, 0, 60]),
            has_check: dice.happens(500),
        }
    }

    pub(crate) fn merges_itself(&self, environment: &str) -> bool {
        environment == "staging" && self.staging == StagingStrategy::MergedBySluice
    }

    pub(crate) fn commits_itself(&self, environment: &str) -> bool {
        environment == "staging" && self.staging == StagingStrategy::Commit
    }

    pub(crate) fn is_manual(&self, environment: &str) -> bool {
        environment == "prod" && self.is_manual
    }

    /// Whether a version must pass a check in the environment before it goes on.
    pub(crate) fn is_checked(&self, environment: &str) -> bool {
        environment == "staging" && self.has_check
    }

    /// The environment before.
    pub(crate) fn source_of(&self, environment: &str) -> &'static str {
        match environment {
            "prod" => "staging",
            _ => "dev",
        }
    }

    fn strategy(&self, environment: &str) -> Value {
        let common = json!({
            "url": REPOSITORY, "baseBranch": "main", "secretRef": {"name": "git"},
        });
        if self.commits_itself(environment) {
            return json!({"commit": common});
        }
        let mut pull_request = common;
        pull_request["type"] = json!("gitea");
        pull_request["autoMerge"] = json!(self.merges_itself(environment));
        json!({"pull-request": pull_request})
    }

    fn pipeline(&self) -> Value {
        let environment = |name: &&str| {
            let cluster = json!({"kind": "GitopsCluster", "name": name});
            let mut environment = json!({
                "name": name, "targets": [{"namespace": name, "clusterRef": cluster}],
            });
            if *name != "dev" {
                environment["promotion"] = json!({
                    "strategy": self.strategy(name), "manual": self.is_manual(name),
                    "soak": format!("{}s", self.soak),
                });
            }
            if self.is_checked(name) {
                environment["verify"] = json!({"checks": ["smoke"], "onFailure": "Rollback"});
            }
            environment
        };
        let environments: Vec<Value> = ENVIRONMENTS.iter().map(environment).collect();
        json!({
            "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Pipeline",
            "metadata": {"name": "app", "namespace": "default"},
            "spec": {
                "appRef": {
                    "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "app",
                },
                "checks": [{
                    "name": "smoke", "failureThreshold": 3,
                    "http": {
                        "url": format!("https://{HOST}/checks/${{environment}}/${{version}}"),
                        "passExpr": "status == 200",
                    },
                }],
                "environments": environments,
            },
        })
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
}

impl World {
    pub(crate) async fn new(seed: u64) -> Self {
        let start = Timestamp::from_second(START).unwrap();
        runtime::wall_clock::simulate(start);
        let dice = Dice::new(seed);
        let story = Story::begin();
        let layout = Layout::drawn(&dice);
        story.tell("seed", format!("{seed}: {layout:?}"));
        let options = |seed| Options {
            history: 256,
            seed: Some(seed),
            start: Some(start),
            ..Options::default()
        };
        let hub_server = Server::new(options(seed));
        hub_server.add_token(PERSON_TOKEN, User::new("ann", &[MASTERS]));
        let leaf_server = Server::new(options(seed + 1));
        let hub = hub_server.client();
        let watchdog = Watchdog::new(hub.clone(), story.clone(), layout.clone());
        let watchdog = Arc::new(watchdog);
        let files = ENVIRONMENTS.map(|name| (manifest_path(name), manifest(name, "1.0.0")));
        let mut world = Self {
            forge: Arc::new(Forge::new(&files, watchdog.clone())),
            replicas: Vec::new(),
            weather: SharedWeather::default(),
            leaf: leaf_server.client(),
            dice,
            story,
            layout,
            hub_server,
            leaf_server,
            hub,
            watchdog,
        };
        world.set_up().await;
        for number in 0..2 {
            world.replicas.push(Replica::new(number));
        }
        world
    }

    async fn set_up(&self) {
        for definition in DEFINITIONS.iter() {
            create(&self.hub, definition).await;
        }
        let git = json!({"username": "sluice", "password": TOKEN, "token": TOKEN});
        create(&self.hub, &secret("git", &git)).await;
        create(&self.leaf, &helm_releases()).await;
        for name in ENVIRONMENTS {
            let kubeconfig = json!({"value": kubeconfig(name)});
            create(&self.hub, &secret(name, &kubeconfig)).await;
            let cluster = json!({
                "apiVersion": "gitops.weave.works/v1alpha1", "kind": "GitopsCluster",
                "metadata": {"name": name, "namespace": "default"},
                "spec": {"secretRef": {"name": name}},
            });
            create(&self.hub, &cluster).await;
            let namespace =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            create(&self.leaf, &namespace).await;
            let release = json!({
                "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
                "metadata": {"name": "app", "namespace": name}, "spec": {},
            });
            create(&self.leaf, &release).await;
        }
        create(&self.hub, &self.layout.pipeline()).await;
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
    pub(crate) async fn set_release(&self, environment: &str, status: &Value) {
        let kind = GroupVersionKind::gvk("helm.toolkit.fluxcd.io", "v2", "HelmRelease");
        let resource = ApiResource::from_gvk(&kind);
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.leaf.clone(), environment, &resource);
        let patch = Patch::Merge(json!({"status": status}));
        let parameters = PatchParams::default();
        let patched = api.patch_status("app", &parameters, &patch).await;
        patched.unwrap();
    }

    /// The version that git asks for.
    pub(crate) fn version_in_git(&self, environment: &str) -> String {
        let content = self
            .forge
            .read("refs/heads/main", &manifest_path(environment));
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

pub(crate) fn manifest_path(environment: &str) -> String {
    format!("clusters/{environment}/app.yaml")
}

/// The manifests of the application and of one that another pipeline promotes.
pub(crate) fn manifest(environment: &str, version: &str) -> String {
    format!(
        "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\n\
         metadata:\n  name: app\n  namespace: {environment}\n\
         spec:\n  chart:\n    spec:\n      chart: app\n      \
         version: {version} # {{\"$promotion\": \"default:app:{environment}\"}}\n\
         ---\napiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\n\
         metadata:\n  name: other\n  namespace: {environment}\n\
         spec:\n  chart:\n    spec:\n      chart: other\n      \
         version: 0.1.0 # {{\"$promotion\": \"default:other:{environment}\"}}\n"
    )
}

pub(crate) fn version_in(manifest: &str) -> String {
    let mut lines = manifest.lines();
    let version = lines.find_map(|line| line.trim().strip_prefix("version: "));
    let version = version.and_then(|it| it.split_whitespace().next());
    version.unwrap_or_default().to_owned()
}

/// The number in `1.N.0`.
pub(crate) fn number(version: &str) -> u64 {
    let number = version.split('.').nth(1);
    number.and_then(|it| it.parse().ok()).unwrap_or_default()
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

//! A hub, leaf clusters, a forge with one repository, and both loops.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use api::{Pipeline, Promotion, promotion::Phase};
use apiserver::Server;
use controller::{
    AdoptionReconciler, Connector, KubeconfigPolicy, PipelineReconciler, PromotionReconciler,
    Settings, network_connector,
};
use futures::FutureExt;
use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};
use runtime::LeaderGuard;
use serde_json::{Value, json};
use testbed::{
    flux::{Flux, FluxTiming},
    forge::{Forge, Repository},
    real::{Assets, ControlPlane},
};
use tokio::task::AbortHandle;

/// How long anything may take, on a machine that has much else to do.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// What signs calls.
pub(crate) const HOOK_KEY: &str = "the key of the hook";

/// Clusters by the host in their kubeconfig.
type Hosts = Arc<Mutex<BTreeMap<String, Client>>>;

pub(crate) struct World {
    pub(crate) hub: Client,
    /// The hub as the loops reach it.
    pub(crate) reached: Client,
    pub(crate) forge: Arc<Forge>,
    pub(crate) repository: Repository,
    pub(crate) promoter: Arc<PromotionReconciler>,
    /// The namespace of pipelines, promotions and their Secrets.
    pub(crate) home: &'static str,
    /// The namespace of GitopsClusters.
    pub(crate) fleet: &'static str,
    hosts: Hosts,
    clusters: Clusters,
    tasks: Vec<AbortHandle>,
    flux: Vec<Flux>,
}

/// What the clusters are.
enum Clusters {
    Embedded,
    /// The hub; leaves are embedded, so that each is a cluster of its own.
    RealHub {
        _hub: Box<ControlPlane>,
    },
    /// The hub, and a leaf that goes by every name.
    Real(Box<(ControlPlane, ControlPlane)>),
}

impl Drop for World {
    fn drop(&mut self) {
        self.stop();
    }
}

pub(crate) fn settings() -> Settings {
    Settings {
        allow_internal_urls: true,
        follow_every: Duration::from_secs(1),
        ..Settings::default()
    }
}

impl World {
    /// A forge with these files on `main`, and the loops running, on embedded servers.
    pub(crate) async fn with(files: &[(&str, &str)]) -> Self {
        Self::on_hub(testbed::hub::server().client(), files).await
    }

    /// The same on an embedded server of the test's own, which has our kinds.
    pub(crate) async fn on_hub(hub: Client, files: &[(&str, &str)]) -> Self {
        Self::on(hub, Clusters::Embedded, files).await
    }

    /// The same on the servers that `SLUICE_TEST_API` names.
    pub(crate) async fn anywhere(files: &[(&str, &str)]) -> Self {
        if std::env::var("SLUICE_TEST_API").as_deref() != Ok("real") {
            return Self::with(files).await;
        }
        let assets = Assets::from_env().unwrap();
        let hub = ControlPlane::start(&assets).await.unwrap();
        let leaf = ControlPlane::start(&assets).await.unwrap();
        define(&leaf.client(), &helm_releases()).await;
        define_ours(&hub.client()).await;
        Self::on(hub.client(), Clusters::Real(Box::new((hub, leaf))), files).await
    }

    /// On the hub that `SLUICE_TEST_API` names, with embedded leaves.
    pub(crate) async fn on_any_hub(files: &[(&str, &str)]) -> Self {
        if std::env::var("SLUICE_TEST_API").as_deref() != Ok("real") {
            return Self::with(files).await;
        }
        let hub = ControlPlane::start(&Assets::from_env().unwrap()).await;
        let hub = Box::new(hub.unwrap());
        define_ours(&hub.client()).await;
        Self::on(hub.client(), Clusters::RealHub { _hub: hub }, files).await
    }

    async fn on(hub: Client, clusters: Clusters, files: &[(&str, &str)]) -> Self {
        let forge = Arc::new(Forge::start_with_tls().await.unwrap());
        let repository = forge.create_repository("team/config", files).await.unwrap();
        let mut world = Self::idle(hub.clone(), hub, forge, repository).await;
        world.clusters = clusters;
        world.run(settings());
        world
    }

    /// Without loops, on a hub that has our kinds.
    pub(crate) async fn idle(
        hub: Client,
        reached: Client,
        forge: Arc<Forge>,
        repository: Repository,
    ) -> Self {
        let world = Self {
            promoter: promoter(&reached, settings()),
            home: "default",
            fleet: "default",
            hosts: Hosts::default(),
            tasks: Vec::new(),
            flux: Vec::new(),
            clusters: Clusters::Embedded,
            hub,
            reached,
            forge,
            repository,
        };
        world.secret("git").await;
        world
    }

    /// Starts both loops.
    fn run(&mut self, settings: Settings) {
        let connector = match &self.clusters {
            Clusters::Real(_) => network_connector(KubeconfigPolicy::LOCAL),
            _ => connector(&self.hosts),
        };
        let shared = PipelineReconciler::new(self.reached.clone(), connector, settings);
        self.tasks = vec![
            tokio::spawn(controller::pipeline::run(shared)).abort_handle(),
            tokio::spawn(controller::promotion::run(self.promoter.clone())).abort_handle(),
        ];
    }

    /// Starts the adoption loop beside them.
    pub(crate) fn adopt(&mut self) {
        let adopter = AdoptionReconciler::new(self.reached.clone(), settings());
        let task = tokio::spawn(controller::adoption::run(adopter));
        self.tasks.push(task.abort_handle());
    }

    /// Labels the app in a namespace as one of a pipeline.
    pub(crate) async fn label_app(&self, cluster: &str, namespace: &str, pipeline: &str) {
        let mut labelled = release(namespace);
        labelled["metadata"]["labels"] = json!({"pipelines.weave.works/pipeline": pipeline});
        apply(&self.cluster(cluster), &labelled).await;
    }

    /// Ends the loops wherever they are.
    pub(crate) fn stop(&mut self) {
        for task in self.tasks.drain(..) {
            task.abort();
        }
    }

    /// Starts both loops anew, as after a restart.
    pub(crate) fn restart(&mut self, settings: Settings) {
        self.restart_led_by(settings, LeaderGuard::without_election());
    }

    /// The same with a promotion loop that may not lead.
    pub(crate) fn restart_led_by(&mut self, settings: Settings, leadership: LeaderGuard) {
        self.stop();
        let promoter = PromotionReconciler::new(self.reached.clone(), settings.clone(), leadership);
        self.promoter = promoter.unwrap();
        self.run(settings);
    }

    /// The Secret for the forge.
    pub(crate) async fn secret(&self, name: &str) {
        let token = self.forge.token();
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "namespace": self.home},
            "stringData": {
                "username": "sluice", "password": token, "token": token,
                "caFile": self.forge.certificate_authority().unwrap(),
            },
        });
        apply(&self.hub, &secret).await;
    }

    /// A leaf cluster with a namespace and the app in it at a version.
    pub(crate) async fn leaf(&self, cluster: &str, namespace: &str, version: &str) {
        let kubeconfig = match &self.clusters {
            Clusters::Embedded | Clusters::RealHub { .. } => {
                let is_new = !self.hosts.lock().unwrap().contains_key(cluster);
                if is_new {
                    let client = Server::in_memory().client();
                    define(&client, &helm_releases()).await;
                    let mut hosts = self.hosts.lock().unwrap();
                    hosts.insert(cluster.to_owned(), client);
                }
                kubeconfig(cluster)
            }
            Clusters::Real(planes) => planes.1.kubeconfig().to_owned(),
        };
        self.register(cluster, &kubeconfig).await;
        let client = self.cluster(cluster);
        let named = json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace},
        });
        apply(&client, &named).await;
        apply(&client, &release(namespace)).await;
        self.deploy(cluster, namespace, version).await;
    }

    async fn register(&self, cluster: &str, kubeconfig: &str) {
        apply(
            &self.hub,
            &json!({
                "apiVersion": "v1", "kind": "Secret",
                "metadata": {"name": cluster, "namespace": self.fleet},
                "stringData": {"value": kubeconfig},
            }),
        )
        .await;
        apply(
            &self.hub,
            &json!({
                "apiVersion": "gitops.weave.works/v1alpha1", "kind": "GitopsCluster",
                "metadata": {"name": cluster, "namespace": self.fleet},
                "spec": {"secretRef": {"name": cluster}},
            }),
        )
        .await;
    }

    /// Another name for an embedded leaf cluster, with the label that selectors choose by.
    pub(crate) async fn alias(&self, cluster: &str, of: &str) {
        let client = self.cluster(of);
        let name = cluster.to_owned();
        self.hosts.lock().unwrap().insert(name, client);
        self.register(cluster, &kubeconfig(cluster)).await;
        self.label(cluster).await;
    }

    /// Labels a cluster `tier: edge`.
    pub(crate) async fn label(&self, cluster: &str) {
        let labelled = json!({
            "apiVersion": "gitops.weave.works/v1alpha1", "kind": "GitopsCluster",
            "metadata": {"name": cluster, "namespace": "default", "labels": {"tier": "edge"}},
            "spec": {"secretRef": {"name": cluster}},
        });
        apply(&self.hub, &labelled).await;
    }

    /// An embedded leaf cluster on which Flux deploys what is in these folders of `main`.
    pub(crate) async fn flux(&mut self, cluster: &str, folders: &[&str]) {
        let client = Server::in_memory().client();
        for definition in testbed::flux::definitions() {
            define(&client, &definition).await;
        }
        self.hosts
            .lock()
            .unwrap()
            .insert(cluster.to_owned(), client.clone());
        self.register(cluster, &kubeconfig(cluster)).await;
        let pace = FluxTiming {
            poll_interval: Duration::from_millis(100),
            release_duration: Duration::ZERO,
        };
        for folder in folders {
            let repository = self.repository.clone();
            self.flux
                .push(Flux::start(repository, folder, client.clone(), pace));
            let name = folder.rsplit('/').next().unwrap();
            let kustomization = json!({
                "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
                "metadata": {"name": name, "namespace": "flux-system"},
            });
            let is_there = async || {
                let api = api_of(&client, &kustomization);
                api.get_opt(name).await.unwrap().is_some()
            };
            assert!(wait_for(is_there).await, "{folder} is not deployed");
        }
    }

    pub(crate) fn cluster(&self, name: &str) -> Client {
        match &self.clusters {
            Clusters::Real(planes) => planes.1.client(),
            _ => self.hosts.lock().unwrap()[name].clone(),
        }
    }

    /// Flux has brought the app to a version.
    pub(crate) async fn deploy(&self, cluster: &str, namespace: &str, version: &str) {
        self.set_status(cluster, namespace, &released(version, true))
            .await;
    }

    pub(crate) async fn set_status(&self, cluster: &str, namespace: &str, status: &Value) {
        set_status(&self.cluster(cluster), &release(namespace), status).await;
    }

    /// Flux brings to a cluster what its file on `main` says.
    pub(crate) async fn sync(&self, path: &str, cluster: &str, namespace: &str) {
        let file = self.repository.read("main", path).await.unwrap();
        self.deploy(cluster, namespace, &version_in(&file)).await;
    }

    /// The version a file on a branch asks for.
    pub(crate) async fn version(&self, branch: &str, path: &str) -> String {
        version_in(&self.repository.read(branch, path).await.unwrap())
    }

    pub(crate) async fn pipeline(&self, name: &str, spec: Value) {
        let pipeline = json!({
            "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Pipeline",
            "metadata": {"name": name, "namespace": "default"}, "spec": spec,
        });
        apply(&self.hub, &pipeline).await;
    }

    /// The settings for promotions by pull request.
    pub(crate) fn promotion(&self) -> Value {
        json!({"strategy": {"pull-request": {
            "type": "gitea", "url": self.repository.url(), "baseBranch": "main",
            "secretRef": {"name": "git"},
        }}})
    }

    /// The settings for promotions straight to `main`.
    pub(crate) fn commit(&self) -> Value {
        json!({"strategy": {"commit": {
            "url": self.repository.url(), "baseBranch": "main", "secretRef": {"name": "git"},
        }}})
    }

    /// The Secret that signs calls.
    pub(crate) async fn hook_secret(&self, name: &str) {
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret",
            "metadata": {"name": name, "namespace": self.home},
            "stringData": {"token": HOOK_KEY},
        });
        apply(&self.hub, &secret).await;
    }

    pub(crate) fn pipelines(&self) -> Api<Pipeline> {
        Api::namespaced(self.hub.clone(), self.home)
    }

    pub(crate) fn promotions(&self) -> Api<Promotion> {
        Api::namespaced(self.hub.clone(), self.home)
    }

    /// All promotions: by revision, repeated attempts in their order, `test` before `prod`.
    pub(crate) async fn all_promotions(&self) -> Vec<Promotion> {
        let listed = self.promotions().list(&ListParams::default()).await;
        let mut all = listed.unwrap().items;
        all.sort_by_key(|it| {
            let environment = Reverse(it.spec.environment.clone());
            (it.spec.revision.clone(), it.spec.ordinal, environment)
        });
        all
    }

    /// Waits until the promotions are as drawn: `prod 1.1.0 Running/ForgeUnavailable, …`. A phase
    /// without a reason stands for any reason.
    pub(crate) async fn expect(&self, expected: &str) -> Vec<Promotion> {
        let mut promotions = Vec::new();
        let wait = async || {
            promotions = self.all_promotions().await;
            let drawn: Vec<_> = promotions.iter().map(|it| draw(it, expected)).collect();
            drawn.join(", ") == expected
        };
        if wait_for(wait).await {
            return promotions;
        }
        let drawn: Vec<_> = promotions.iter().map(|it| draw(it, "/")).collect();
        let status = self.pipelines().list(&ListParams::default()).await.unwrap();
        let statuses: Vec<_> = status
            .iter()
            .map(|it| json!(it.status).to_string())
            .collect();
        let messages: Vec<_> = promotions
            .iter()
            .map(|it| json!(it.status).to_string())
            .collect();
        panic!(
            "the promotions are\n  {}\nand not\n  {expected}\n{}\n{}",
            drawn.join(", "),
            messages.join("\n"),
            statuses.join("\n")
        );
    }

    /// Waits until there are these promotions, in whatever order.
    pub(crate) async fn expect_all(&self, expected: &[&str]) {
        let wanted = expected.join(", ");
        let mut sorted = expected.to_vec();
        sorted.sort_unstable();
        let mut drawn: Vec<String> = Vec::new();
        let wait = async || {
            let promotions = self.all_promotions().await;
            drawn = promotions.iter().map(|it| draw(it, &wanted)).collect();
            drawn.sort();
            drawn == sorted
        };
        assert!(
            wait_for(wait).await,
            "the promotions are {drawn:?} and not {expected:?}"
        );
    }

    /// Waits until a pipeline's environment is held for a reason, or for none (`""`).
    pub(crate) async fn expect_hold(&self, pipeline: &str, environment: &str, reason: &str) {
        let mut hold = String::new();
        let wait = async || {
            let status = self.pipelines().get(pipeline).await.unwrap().status;
            let status = status.unwrap_or_default();
            let held = status
                .environments
                .get(environment)
                .and_then(|it| it.hold.clone());
            hold = held.map(|hold| hold.reason).unwrap_or_default();
            hold == reason && !status.environments.is_empty()
        };
        assert!(
            wait_for(wait).await,
            "{environment} is held for {hold:?} and not {reason:?}"
        );
    }

    pub(crate) async fn patch_pipeline(&self, name: &str, patch: Value) {
        let (api, patch) = (self.pipelines(), Patch::Merge(patch));
        let patched = api.patch(name, &PatchParams::default(), &patch).await;
        patched.unwrap();
    }

    /// What the server writes into a pipeline's status.
    pub(crate) async fn patch_status(&self, name: &str, status: Value) {
        let (api, patch) = (self.pipelines(), Patch::Merge(json!({"status": status})));
        let patched = api
            .patch_status(name, &PatchParams::default(), &patch)
            .await;
        patched.unwrap();
    }

    /// A person asks, by way of the server.
    pub(crate) async fn request(&self, pipeline: &str, environment: &str, request: Value) {
        let requests = json!({"requests": {environment: request}});
        self.patch_status(pipeline, requests).await;
    }

    /// As if nothing had ever been written about a promotion.
    pub(crate) async fn forget_status(&self, promotion: &Promotion) {
        let name = promotion.metadata.name.as_deref().unwrap();
        let patch = Patch::Merge(json!({"status": null}));
        let api = self.promotions();
        let patched = api
            .patch_status(name, &PatchParams::default(), &patch)
            .await;
        patched.unwrap();
    }

    /// A person approves a promotion.
    pub(crate) async fn approve(&self, promotion: &Promotion) {
        let name = promotion.metadata.name.as_deref().unwrap();
        let api = self.promotions();
        let status = api.get(name).await.unwrap().status.unwrap_or_default();
        let digest = status.change.map(|change| change.digest);
        let approval = json!({"by": "ann", "changeDigest": digest});
        let patch = Patch::Merge(json!({"spec": {"approvals": [approval]}}));
        let patched = api.patch(name, &PatchParams::default(), &patch).await;
        patched.unwrap();
    }
}

fn promoter(hub: &Client, settings: Settings) -> Arc<PromotionReconciler> {
    PromotionReconciler::new(hub.clone(), settings, LeaderGuard::without_election()).unwrap()
}

/// Looks again and again until it is so, but not for ever.
pub(crate) async fn wait_for(mut is_so: impl AsyncFnMut() -> bool) -> bool {
    let began = Instant::now();
    while began.elapsed() < PATIENCE {
        if is_so().await {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    false
}

fn draw(promotion: &Promotion, expected: &str) -> String {
    let spec = &promotion.spec;
    let status = promotion.status.clone().unwrap_or_default();
    let phase = status
        .phase
        .map_or("-".to_owned(), |phase: Phase| format!("{phase:?}"));
    let target = spec.target.as_ref().map(|target| {
        let cluster = target.cluster.as_deref().unwrap_or("-");
        format!("/{cluster}/{}", target.namespace)
    });
    let place = format!("{}{}", spec.environment, target.unwrap_or_default());
    let long = format!(
        "{place} {} {phase}/{}",
        spec.revision,
        status.reason.unwrap_or_default()
    );
    match expected.contains(&long) || expected == "/" {
        true => long,
        false => format!("{place} {} {phase}", spec.revision),
    }
}

/// `dev=cluster/namespace,… > prod=…`, for one HelmRelease.
pub(crate) fn spec(drawing: &str, promotion: &Value) -> Value {
    let target = |text: &str| {
        let (cluster, namespace) = text.split_once('/').unwrap();
        let cluster = json!({"kind": "GitopsCluster", "name": cluster});
        json!({"namespace": namespace, "clusterRef": cluster})
    };
    let environment = |text: &str| {
        let (name, targets) = text.split_once('=').unwrap();
        let targets: Vec<_> = targets.split(',').map(target).collect();
        json!({"name": name, "targets": targets})
    };
    json!({
        "appRef": {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "app"},
        "environments": drawing.split(" > ").map(environment).collect::<Vec<_>>(),
        "promotion": promotion,
    })
}

/// A manifest whose version carries a marker.
pub(crate) fn manifest(version: &str, marker: &str) -> String {
    format!(
        "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nspec:\n  chart:\n    spec:\n      \
         version: {version} # {{\"$promotion\": \"{marker}\"}}\n"
    )
}

fn version_in(file: &[u8]) -> String {
    let text = String::from_utf8_lossy(file);
    let line = text
        .lines()
        .find_map(|line| line.trim().strip_prefix("version:"));
    line.unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .trim_matches('"')
        .to_owned()
}

pub(crate) fn release(namespace: &str) -> Value {
    json!({
        "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
        "metadata": {"name": "app", "namespace": namespace}, "spec": {},
    })
}

/// The status of a HelmRelease that Flux brought to a version, or failed to.
pub(crate) fn released(version: &str, ready: bool) -> Value {
    let (status, history) = if ready {
        ("True", "deployed")
    } else {
        ("False", "failed")
    };
    json!({
        "observedGeneration": 1,
        "conditions": [{
            "type": "Ready", "status": status,
            "reason": if ready { "UpgradeSucceeded" } else { "UpgradeFailed" },
            "message": if ready { "all is well" } else { "it did not work" },
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
        "history": [{"chartVersion": version, "status": history}],
        "lastAttemptedRevision": version,
    })
}

pub(crate) fn helm_releases() -> Value {
    definition("helm.toolkit.fluxcd.io", "HelmRelease", "v2")
}

/// A kind that takes anything.
pub(crate) fn definition(group: &str, kind: &str, version: &str) -> Value {
    let (singular, plural) = (kind.to_lowercase(), format!("{}s", kind.to_lowercase()));
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"spec": open, "status": open}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": plural, "singular": singular, "kind": kind},
            "versions": [{
                "name": version, "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

/// Creates the definitions of our kinds.
pub(crate) async fn define_ours(hub: &Client) {
    for definition in api::crds() {
        define(hub, &serde_json::to_value(definition).unwrap()).await;
    }
}

/// Creates a definition and waits until it is served.
pub(crate) async fn define(client: &Client, definition: &Value) {
    apply(client, definition).await;
    let name = definition["metadata"]["name"].as_str().unwrap();
    let definitions = api_of(client, definition);
    let is_established = async || {
        let object = definitions.get(name).await.unwrap();
        let conditions = object.data["status"]["conditions"].as_array().cloned();
        let is_so = |it: &Value| it["type"] == "Established" && it["status"] == "True";
        conditions.unwrap_or_default().iter().any(is_so)
    };
    assert!(wait_for(is_established).await, "{name} is not served");
}

fn api_of(client: &Client, object: &Value) -> Api<DynamicObject> {
    let api_version = object["apiVersion"].as_str().unwrap();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let kind = object["kind"].as_str().unwrap();
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, kind));
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    }
}

/// Creates an object; one that is there already gets what is written here.
pub(crate) async fn apply(client: &Client, object: &Value) {
    let parsed: DynamicObject = serde_json::from_value(object.clone()).unwrap();
    let api = api_of(client, object);
    match api.create(&PostParams::default(), &parsed).await {
        Ok(_) => {}
        Err(kube::Error::Api(refusal)) if refusal.is_already_exists() => {
            let name = object["metadata"]["name"].as_str().unwrap();
            let patch = Patch::Merge(object);
            api.patch(name, &PatchParams::default(), &patch)
                .await
                .unwrap();
        }
        Err(error) => panic!("{object}: {error}"),
    }
}

pub(crate) async fn set_status(client: &Client, object: &Value, status: &Value) {
    let name = object["metadata"]["name"].as_str().unwrap();
    let (api, patch) = (
        api_of(client, object),
        Patch::Merge(json!({"status": status})),
    );
    let patched = api
        .patch_status(name, &PatchParams::default(), &patch)
        .await;
    patched.unwrap();
}

fn kubeconfig(host: &str) -> String {
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

//! A hub with Flux, a forge, and the binary beside them.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use api::{Promotion, promotion::Phase};
use kube::{
    Api, Client, Discovery,
    api::{DynamicObject, ListParams, Patch, PatchParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};
use testbed::{
    flux::{Flux, FluxTiming, definitions},
    forge::{Forge, PullState, Repository},
};

/// Applies objects of any kind, as kubectl would; waits for kinds that are only being defined.
pub(crate) async fn apply(client: &Client, objects: Vec<Value>) {
    let mut discovery = Discovery::new(client.clone()).run().await.unwrap();
    for object in objects {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let api_version = text(&object["apiVersion"]);
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let kind = GroupVersionKind::gvk(group, version, &text(&object["kind"]));
        while discovery.resolve_gvk(&kind).is_none() {
            tokio::time::sleep(Duration::from_millis(200)).await;
            discovery = Discovery::new(client.clone()).run().await.unwrap();
        }
        let (resource, _) = discovery.resolve_gvk(&kind).unwrap();
        let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        let parameters = PatchParams::apply("test").force();
        let name = text(&object["metadata"]["name"]);
        while let Err(error) = api.patch(&name, &parameters, &Patch::Apply(&object)).await {
            // A real server asks for patience while a definition is new.
            let is_early = matches!(&error, kube::Error::Api(status) if status.code == 429);
            assert!(is_early, "{name}: {error}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

pub(crate) struct World {
    pub(crate) hub: Client,
    /// Where the binary takes hooks.
    pub(crate) hooks: SocketAddr,
    /// Where it shows metrics.
    pub(crate) metrics: SocketAddr,
    pub(crate) repository: Repository,
    #[expect(dead_code, reason = "it ends with the world")]
    forge: Forge,
    folder: tempfile::TempDir,
    _flux: [Flux; 2],
}

/// The key of the pipeline's hooks.
pub(crate) const KEY: &str = "the-key-of-the-hooks";

pub(crate) struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn manifest(environment: &str, version: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: shop-{environment}\n---\n\
         apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\n\
         metadata:\n  name: shop\n  namespace: shop-{environment}\n\
         spec:\n  chart:\n    spec:\n      chart: shop\n      \
         version: {version} # {{\"$promotion\": \"default:shop:{environment}\"}}\n"
    )
}

fn pipeline(repository: &Repository) -> Value {
    json!({
        "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Pipeline",
        "metadata": {"name": "shop", "namespace": "default"},
        "spec": {
            "appRef": {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "shop"},
            "promotion": {"strategy": {"secretRef": {"name": "git"}, "pull-request": {
                "type": "gitea", "url": repository.url(), "baseBranch": "main",
                "secretRef": {"name": "git"},
            }}},
            "environments": [
                {"name": "dev", "targets": [{"namespace": "shop-dev"}]},
                {"name": "prod", "targets": [{"namespace": "shop-prod"}]},
            ],
        },
    })
}

impl World {
    /// On a hub that knows our kinds: Flux at work there, and a pipeline from dev to prod.
    pub(crate) async fn on(hub: Client, versions: [&str; 2], spec: Value) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        apply(&hub, definitions()).await;
        let forge = Forge::start_with_tls().await.unwrap();
        let files = [
            ("clusters/dev/shop.yaml", manifest("dev", versions[0])),
            ("clusters/prod/shop.yaml", manifest("prod", versions[1])),
        ];
        let files = files.each_ref().map(|(path, text)| (*path, text.as_str()));
        let repository = forge
            .create_repository("team/config", &files)
            .await
            .unwrap();
        let timing = FluxTiming {
            poll_interval: Duration::from_millis(200),
            release_duration: Duration::from_millis(200),
        };
        let flux = ["clusters/dev", "clusters/prod"]
            .map(|folder| Flux::start(repository.clone(), folder, hub.clone(), timing));
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "git", "namespace": "default"},
            "stringData": {
                "username": "sluice", "password": forge.token(), "token": forge.token(),
                "caFile": forge.certificate_authority().unwrap(), "hmac-key": KEY,
            },
        });
        let mut pipeline = pipeline(&repository);
        for (field, value) in spec.as_object().unwrap() {
            pipeline["spec"][field] = value.clone();
        }
        apply(&hub, vec![secret, pipeline]).await;
        Self {
            hub,
            forge,
            repository,
            hooks: free_address(),
            metrics: free_address(),
            folder: tempfile::tempdir().unwrap(),
            _flux: flux,
        }
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder().join("log")).unwrap_or_default()
    }

    /// The binary with these arguments, as whoever the kubeconfig is for. What a test needs besides is
    /// in its environment.
    pub(crate) fn start(&self, kubeconfig: &Path, arguments: &[&str]) -> Running {
        let child = Command::new(env!("CARGO_BIN_EXE_sluice"))
            .args(arguments)
            .env("SLUICE_KUBECONFIG", kubeconfig)
            .env("SLUICE_ALLOW_INTERNAL_URLS", "true")
            .env("SLUICE_FOLLOW_EVERY", "1s")
            .env("SLUICE_PROMOTION_HOOK_BIND_ADDRESS", self.hooks.to_string())
            .env("SLUICE_METRICS_BIND_ADDRESS", self.metrics.to_string())
            .env("SLUICE_HEALTH_PROBE_BIND_ADDRESS", "0")
            .env("SLUICE_REST_BIND_ADDRESS", "0")
            .stdout(Stdio::null())
            .stderr(fs::File::create(self.folder().join("log")).unwrap())
            .spawn();
        Running(child.unwrap())
    }

    /// Merges the next pull request that is open, as a person would.
    pub(crate) async fn merge(&self) {
        let number = self
            .until("there is no pull request", async || {
                let all = self.repository.pull_requests().await;
                let open = all.into_iter().find(|pull| pull.state == PullState::Open);
                open.map(|pull| pull.number)
            })
            .await;
        self.repository.merge(number).await.unwrap();
    }

    /// Waits until a revision was promoted into an environment.
    pub(crate) async fn promoted(&self, environment: &str, revision: &str) {
        let promotions: Api<Promotion> = Api::namespaced(self.hub.clone(), "default");
        self.until("it was not promoted", async || {
            let all = promotions.list(&ListParams::default()).await.ok()?;
            let is_done = |promotion: &Promotion| {
                let phase = promotion.status.as_ref().and_then(|status| status.phase);
                let spec = &promotion.spec;
                phase == Some(Phase::Succeeded)
                    && (spec.environment.as_str(), spec.revision.as_str())
                        == (environment, revision)
            };
            all.into_iter().find(is_done)
        })
        .await;
    }

    pub(crate) async fn until<T>(&self, what: &str, look: impl AsyncFn() -> Option<T>) -> T {
        for _ in 0..600 {
            if let Some(seen) = look().await {
                return seen;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        unreachable!("{what}; the log:\n{}", self.log());
    }
}

fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

//! The pipeline `shop` from dev to prod on a hub with the Flux stand-in and a forge, and the binary that
//! reconciles it.
//!
//! Failures panic, as in a test.

use std::{
    fs,
    net::{SocketAddr, TcpListener},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use crate::{
    flux::{Flux, FluxTiming, definitions},
    forge::{Forge, PullState, Repository},
    objects::apply,
    tls,
};
use api::{Promotion, promotion::Phase};
use kube::{Api, Client, api::ListParams};
use serde_json::{Value, json};

/// The pipeline `shop` and what it needs. Everything stops on drop.
pub struct ShopPipeline {
    /// The hub cluster.
    pub hub: Client,
    /// The address of the webhooks of the binary.
    pub hooks: SocketAddr,
    /// The address of its metrics.
    pub metrics: SocketAddr,
    /// The repository that Flux deploys and promotions change.
    pub repository: Repository,
    _forge: Forge,
    folder: tempfile::TempDir,
    _flux: [Flux; 2],
}

/// The key of the pipeline's webhooks.
pub const HOOK_KEY: &str = "the-key-of-the-hooks";

/// A running binary, killed on drop.
pub struct RunningBinary(Child);

impl Drop for RunningBinary {
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

impl ShopPipeline {
    /// Creates the pipeline on a hub that has our CRDs. `spec` overrides fields of its spec.
    pub async fn create(hub: Client, versions: [&str; 2], spec: Value) -> Self {
        tls::install_provider();
        apply(&hub, definitions()).await;
        let forge = Forge::start_with_tls()
            .await
            .expect("a forge can be started");
        let files = [
            ("clusters/dev/shop.yaml", manifest("dev", versions[0])),
            ("clusters/prod/shop.yaml", manifest("prod", versions[1])),
        ];
        let files = files.each_ref().map(|(path, text)| (*path, text.as_str()));
        let repository = forge
            .create_repository("team/config", &files)
            .await
            .expect("a repository can be created");
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
                "caFile": forge.certificate_authority(), "hmac-key": HOOK_KEY,
            },
        });
        let mut pipeline = pipeline(&repository);
        for (field, value) in spec.as_object().into_iter().flatten() {
            pipeline["spec"][field] = value.clone();
        }
        apply(&hub, vec![secret, pipeline]).await;
        Self {
            hub,
            _forge: forge,
            repository,
            hooks: free_address(),
            metrics: free_address(),
            folder: tempfile::tempdir().expect("a temporary folder can be created"),
            _flux: flux,
        }
    }

    /// A temporary folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The log of the binary.
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder().join("log")).unwrap_or_default()
    }

    /// Starts the binary with a kubeconfig and arguments. Settings for tests are in its environment.
    pub fn start(&self, binary: &Path, kubeconfig: &Path, arguments: &[&str]) -> RunningBinary {
        let log = fs::File::create(self.folder().join("log")).expect("a log can be created");
        let child = Command::new(binary)
            .args(arguments)
            .env("SLUICE_KUBECONFIG", kubeconfig)
            .env("SLUICE_ALLOW_INTERNAL_URLS", "true")
            .env("SLUICE_FOLLOW_EVERY", "1s")
            .env("SLUICE_PROMOTION_HOOK_BIND_ADDRESS", self.hooks.to_string())
            .env("SLUICE_METRICS_BIND_ADDRESS", self.metrics.to_string())
            .env("SLUICE_HEALTH_PROBE_BIND_ADDRESS", "0")
            .env("SLUICE_REST_BIND_ADDRESS", "0")
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("the binary can be started");
        RunningBinary(child)
    }

    /// Waits for an open pull request and merges it.
    pub async fn merge_next(&self) {
        let number = self
            .until("there is no pull request", async || {
                let all = self.repository.pull_requests().await;
                let open = all.into_iter().find(|pull| pull.state == PullState::Open);
                open.map(|pull| pull.number)
            })
            .await;
        let merged = self.repository.merge(number).await;
        merged.expect("an open pull request can be merged");
    }

    /// Waits until the promotion of a revision into an environment has succeeded.
    pub async fn wait_for_promotion(&self, environment: &str, revision: &str) {
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

    /// Waits until `read` returns a value. `error` says what did not happen in time.
    pub async fn until<T>(&self, error: &str, read: impl AsyncFn() -> Option<T>) -> T {
        for _ in 0..600 {
            if let Some(value) = read().await {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        unreachable!("{error}; the log:\n{}", self.log());
    }
}

fn free_address() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port exists");
    listener.local_addr().expect("a listener has an address")
}

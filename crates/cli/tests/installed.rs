//! The binary on a real API server with exactly the rights that the manifests give it: from a new
//! release in dev to a merged pull request to prod.
#![expect(clippy::unwrap_used, reason = "a failing test is a panic")]

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::Duration,
};

use api::{Promotion, promotion::Phase};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{
    Api, Client, Discovery,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
    config::Kubeconfig,
    core::GroupVersionKind,
};
use serde_json::{Value, json};
use testbed::{
    flux::{Flux, Pace, definitions},
    forge::{Forge, PullState, Repository},
    real::{Assets, ControlPlane},
};

const MANIFESTS: [&str; 4] = [
    include_str!("../../../deploy/manifests/namespace.yaml"),
    include_str!("../../../deploy/manifests/access.yaml"),
    include_str!("../../../deploy/manifests/roles.yaml"),
    include_str!("../../../deploy/manifests/policy.yaml"),
];

/// Applies objects of any kind, as kubectl would; waits for kinds that are only being defined.
async fn apply(client: &Client, objects: Vec<Value>) {
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
        api.patch(&name, &parameters, &Patch::Apply(&object))
            .await
            .unwrap();
    }
}

fn crds() -> Vec<Value> {
    let ours = api::crds().into_iter().map(|definition| {
        let mut value = serde_json::to_value(definition).unwrap();
        value["apiVersion"] = json!("apiextensions.k8s.io/v1");
        value["kind"] = json!("CustomResourceDefinition");
        value
    });
    ours.chain(definitions()).collect()
}

/// A kubeconfig for the service account of the install, in a file.
async fn kubeconfig(plane: &ControlPlane, folder: &Path) -> PathBuf {
    let accounts: Api<ServiceAccount> = Api::namespaced(plane.client(), "pipeline-system");
    let request = TokenRequest {
        spec: TokenRequestSpec {
            expiration_seconds: Some(3600),
            ..Default::default()
        },
        ..Default::default()
    };
    let parameters = PostParams::default();
    let made = accounts.create_token_request("pipeline-controller", &parameters, &request);
    let token = made.await.unwrap().status.unwrap().token;
    let mut kubeconfig = Kubeconfig::from_yaml(plane.kubeconfig()).unwrap();
    kubeconfig.auth_infos[0].auth_info = None;
    let context = kubeconfig.contexts[0].context.as_mut().unwrap();
    context.namespace = Some("pipeline-system".to_owned());
    let file = folder.join("kubeconfig");
    let mut value = serde_json::to_value(&kubeconfig).unwrap();
    value["users"][0]["user"] = json!({"token": token});
    fs::write(&file, value.to_string()).unwrap();
    file
}

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn start(kubeconfig: &Path, log: &Path) -> Running {
    let address = || {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().to_string()
    };
    let child = Command::new(env!("CARGO_BIN_EXE_sluice"))
        .args(["controller", "--allow-internal-urls", "--follow-every=1s"])
        .arg(format!("--kubeconfig={}", kubeconfig.display()))
        .arg(format!("--metrics-bind-address={}", address()))
        .arg(format!("--health-probe-bind-address={}", address()))
        .arg(format!("--promotion-hook-bind-address={}", address()))
        .arg(format!("--rest-bind-address={}", address()))
        .stdout(Stdio::null())
        .stderr(fs::File::create(log).unwrap())
        .spawn();
    Running(child.unwrap())
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
            "promotion": {"strategy": {"pull-request": {
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

async fn until<T>(what: &str, log: &Path, look: impl AsyncFn() -> Option<T>) -> T {
    for _ in 0..600 {
        if let Some(seen) = look().await {
            return seen;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    unreachable!("{what}; the log:\n{}", fs::read_to_string(log).unwrap());
}

#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn the_rights_of_the_install_suffice() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let folder = tempfile::tempdir().unwrap();
    let plane = ControlPlane::start(&Assets::from_env().unwrap())
        .await
        .unwrap();
    let hub = plane.client();
    apply(&hub, crds()).await;
    for manifest in MANIFESTS {
        apply(&hub, serde_saphyr::from_multiple(manifest).unwrap()).await;
    }
    let forge = Forge::start_with_tls().await.unwrap();
    let files = [
        ("clusters/dev/shop.yaml", manifest("dev", "1.1.0")),
        ("clusters/prod/shop.yaml", manifest("prod", "1.0.0")),
    ];
    let files = files.each_ref().map(|(path, text)| (*path, text.as_str()));
    let repository = forge
        .create_repository("team/config", &files)
        .await
        .unwrap();
    let pace = Pace {
        look: Duration::from_millis(200),
        release: Duration::from_millis(200),
    };
    let _dev = Flux::follow(repository.clone(), "clusters/dev", hub.clone(), pace);
    let _prod = Flux::follow(repository.clone(), "clusters/prod", hub.clone(), pace);
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "git", "namespace": "default"},
        "stringData": {
            "username": "sluice", "password": forge.token(), "token": forge.token(),
            "caFile": forge.certificate_authority().unwrap(),
        },
    });
    apply(&hub, vec![secret, pipeline(&repository)]).await;

    let log = folder.path().join("log");
    let _running = start(&kubeconfig(&plane, folder.path()).await, &log);
    let number = until("no pull request", &log, async || {
        let all = repository.pull_requests().await;
        all.into_iter()
            .find(|pull| pull.state == PullState::Open)
            .map(|pull| pull.number)
    })
    .await;
    repository.merge(number).await.unwrap();
    let promotions: Api<Promotion> = Api::namespaced(hub, "default");
    until("not promoted", &log, async || {
        let all = promotions.list(&ListParams::default()).await.unwrap();
        let is_done = |promotion: &Promotion| {
            let phase = promotion.status.as_ref().and_then(|status| status.phase);
            phase == Some(Phase::Succeeded) && promotion.spec.revision == "1.1.0"
        };
        all.into_iter().find(is_done)
    })
    .await;
    let log = fs::read_to_string(&log).unwrap();
    assert!(!log.to_lowercase().contains("forbidden"), "{log}");
}

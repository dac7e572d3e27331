//! `sluice standalone` with a forge behind a proxy, and pipelines that stop at different points.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use api::{CheckRun, Promotion};
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};
use testbed::forge::{Forge, Repository};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use crate::{Running, start_command, upgrade::all};

pub(super) const FLEET: &str = "fleet";
pub(super) const PIPELINES: [&str; 6] = ["bill", FLEET, "frozen", "parked", "shop", "tested"];
/// Where the forge was when the store was made. In tests nothing listens there: a proxy leads to their forge.
const FORGE: &str = "127.0.0.1:9443";
const MANIFEST: &str = "prod/shop.yaml";

pub(super) struct Scene {
    pub(super) data: PathBuf,
    pub(super) repository: Repository,
    forge: Forge,
    running: Option<(Running, Client)>,
}

/// Leads every connection to one address: as a proxy, or as if it was there.
async fn lead_to(address: SocketAddr, from: &str, is_proxy: bool) -> String {
    let listener = TcpListener::bind(from).await.unwrap();
    let own = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut head = Vec::new();
                while is_proxy && !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await?);
                }
                if is_proxy {
                    stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await?;
                }
                let mut forge = TcpStream::connect(address).await?;
                tokio::io::copy_bidirectional(&mut stream, &mut forge).await
            });
        }
    });
    format!("http://{own}")
}

fn git(folder: &Path, arguments: &[&str]) {
    let status = Command::new("git")
        .args(arguments)
        .current_dir(folder)
        .status();
    assert!(status.unwrap().success(), "git {arguments:?}");
}

fn app(name: &str, namespace: &str) -> Value {
    json!({
        "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
        "metadata": {"name": name, "namespace": namespace},
    })
}

/// Longer than the store is kept: nothing in it fails because of its age.
const NEVER: &str = "876000h";

/// The settings for promotions of a pipeline into prod.
fn promotion(pipeline: &str) -> Value {
    let notification = json!({"notification": {}});
    let mut promotion = match pipeline {
        "bill" => json!({
            "manual": true, "approvalPolicy": {"count": 2}, "strategy": notification,
        }),
        FLEET => json!({
            "strategy": {"resourceSetInputs": {"secretRef": {"name": "inputs"}}},
            "rollout": {"waves": [{"percent": 25}, {"maxConcurrent": 1}]},
        }),
        "shop" => json!({"strategy": {"pull-request": {
            "type": "gitea", "url": format!("https://{FORGE}/team/config.git"), "baseBranch": "main", "secretRef": {"name": "git"},
        }}}),
        _ => json!({"strategy": notification}),
    };
    promotion["deployTimeout"] = json!(NEVER);
    promotion
}

/// The namespaces of prod.
fn prod(pipeline: &str) -> Vec<String> {
    match pipeline {
        FLEET => (1..=4).map(|it| format!("{FLEET}-prod-{it}")).collect(),
        _ => vec![format!("{pipeline}-prod")],
    }
}

fn pipeline(name: &str) -> Value {
    let targets: Vec<Value> = prod(name)
        .iter()
        .map(|it| json!({"namespace": it}))
        .collect();
    let mut dev = json!({"name": "dev", "targets": [{"namespace": format!("{name}-dev")}]});
    let mut spec = json!({
        "appRef": {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": name},
        "suspend": name == "parked",
    });
    if name == "tested" {
        dev["verify"] = json!({"checks": ["ticket"]});
        spec["checks"] = json!([{"name": "ticket", "external": {}, "timeout": NEVER}]);
    }
    spec["environments"] =
        json!([dev, {"name": "prod", "targets": targets, "promotion": promotion(name)}]);
    json!({
        "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Pipeline",
        "metadata": {"name": name, "namespace": "default"}, "spec": spec,
    })
}

fn others() -> Vec<Value> {
    let rbac = "rbac.authorization.k8s.io";
    vec![
        json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "inputs", "namespace": "default"},
            "stringData": {"token": "a token of a test, long enough"},
        }),
        json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "ann", "namespace": "default"},
            "roleRef": {
                "apiGroup": rbac, "kind": "ClusterRole", "name": "pipeline-controller-approver",
            },
            "subjects": [{"apiGroup": rbac, "kind": "User", "name": "ann"}],
        }),
    ]
}

impl Scene {
    /// A forge with a repository; Sluice is not started yet.
    pub(super) async fn prepare(folder: &Path) -> Self {
        let forge = Forge::start_with_tls().await.unwrap();
        let manifest = "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nspec:\n  chart:\n    spec:\n      \
                        version: 1.0.0 # {\"$promotion\": \"default:shop:prod\"}\n";
        let files = [(MANIFEST, manifest)];
        let repository = forge.create_repository("team/config", &files);
        Self {
            data: folder.join("data"),
            repository: repository.await.unwrap(),
            forge,
            running: None,
        }
    }

    /// Starts a binary on the store.
    pub(super) async fn start(mut self, program: &str) -> Self {
        let mut command = Command::new(program);
        let proxy = lead_to(self.forge.address(), "127.0.0.1:0", true).await;
        command.env("HTTPS_PROXY", proxy);
        command.env("SLUICE_ALLOW_INTERNAL_URLS", "true");
        let (running, client, _) = start_command(command, &self.data).await;
        self.running = Some((running, client));
        // The forge of this test has another certificate and another token than the one before.
        let token = self.forge.token();
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "git", "namespace": "default"},
            "stringData": {
                "username": "sluice", "password": token, "token": token,
                "caFile": self.forge.certificate_authority().unwrap(),
            },
        });
        testbed::objects::apply(self.client(), vec![secret]).await;
        self
    }

    pub(super) fn client(&self) -> &Client {
        &self.running.as_ref().unwrap().1
    }

    /// For the older version, which uses no proxy: the forge is where it is stored.
    pub(super) async fn serve_forge(&self) {
        lead_to(self.forge.address(), FORGE, false).await;
    }

    /// Ends it as a crash does.
    pub(super) fn kill(&mut self) {
        self.running = None;
    }

    /// Everything, with all apps at 1.0.0.
    pub(super) async fn define(&self) {
        testbed::objects::apply(self.client(), testbed::flux::definitions()).await;
        for name in PIPELINES {
            let dev = format!("{name}-dev");
            for namespace in prod(name).iter().chain([&dev]) {
                let own = json!({
                    "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace},
                });
                testbed::objects::apply(self.client(), vec![own, app(name, namespace)]).await;
                self.deploy(name, namespace, "1.0.0").await;
            }
        }
        testbed::objects::apply(self.client(), others()).await;
        testbed::objects::apply(self.client(), PIPELINES.map(pipeline).to_vec()).await;
    }

    /// Flux brings an app in a namespace to a version.
    pub(super) async fn deploy(&self, app: &str, namespace: &str, version: &str) {
        let kind = GroupVersionKind::gvk("helm.toolkit.fluxcd.io", "v2", "HelmRelease");
        let resource = ApiResource::from_gvk(&kind);
        let apps: Api<DynamicObject> =
            Api::namespaced_with(self.client().clone(), namespace, &resource);
        let status = json!({"status": {
            "observedGeneration": 1,
            "conditions": [{
                "type": "Ready", "status": "True", "reason": "UpgradeSucceeded", "message": "it runs",
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }],
            "lastAttemptedRevision": version,
            "history": [{"chartVersion": version, "status": "deployed"}],
        }});
        let (parameters, patch) = (PatchParams::default(), Patch::Merge(&status));
        let patched = apps.patch_status(app, &parameters, &patch).await;
        patched.unwrap();
    }

    /// The targets of the fleet that were started, by batch.
    pub(super) async fn started(&self) -> BTreeMap<i64, String> {
        let promotions: Vec<Promotion> = all(self.client()).await;
        let status = promotions.into_iter().filter_map(|it| it.status?.rollout);
        let targets = status.flat_map(|it| it.targets);
        let started = targets.filter_map(|it| Some((it.batch?, it.target)));
        started.collect()
    }

    /// Waits until a batch of the fleet was started, and brings its target to 1.1.0.
    pub(super) async fn deploy_batch(&self, number: i64) {
        let is_started = async || self.started().await.contains_key(&number);
        self.until(&format!("batch {number}"), is_started).await;
        let target = self.started().await.remove(&number).unwrap();
        self.deploy(FLEET, target.trim_start_matches("-/"), "1.1.0")
            .await;
    }

    /// Waits until there are a check run and a second batch of the fleet.
    pub(super) async fn until_under_way(&self) {
        let is_there = async || {
            let has_check = !all::<CheckRun>(self.client()).await.is_empty();
            has_check && self.started().await.len() == 2
        };
        self.until("a check run and a batch", is_there).await;
    }

    async fn until(&self, what: &str, mut is_so: impl AsyncFnMut() -> bool) {
        for _ in 0..600 {
            if is_so().await {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        unreachable!("{what} is not there");
    }

    /// The repository and the pull request of the older version.
    pub(super) async fn restore_repository(&self, from: &Path) {
        let bundle = from.join("repository.bundle");
        let bundle = bundle.to_str().unwrap();
        let folder = self.repository.folder();
        git(
            &folder,
            &[
                "fetch",
                "-q",
                "--force",
                "--update-head-ok",
                bundle,
                "+refs/heads/*:refs/heads/*",
            ],
        );
        let text = std::fs::read_to_string(from.join("pull-request.md")).unwrap();
        let mut parts = text.splitn(3, "\n\n");
        let (title, branch) = (parts.next().unwrap(), parts.next().unwrap());
        let number = self.repository.open(title, branch, "main").await.unwrap();
        let body = parts.next().unwrap();
        self.repository.rewrite(number, body).await.unwrap();
    }

    /// Keeps the store, the repository and the pull request: title, branch and text.
    pub(super) async fn store_into(&self, folder: &Path) {
        let packed = Command::new("gzip")
            .args(["-9cn"])
            .arg(self.data.join("store"))
            .output();
        std::fs::write(folder.join("store.gz"), packed.unwrap().stdout).unwrap();
        let bundle = folder.join("repository.bundle");
        let bundle = bundle.to_str().unwrap();
        git(
            &self.repository.folder(),
            &["bundle", "create", "-q", bundle, "--all"],
        );
        let pulls = self.repository.pull_requests().await;
        let [pull] = pulls.as_slice() else {
            unreachable!("one pull request: {pulls:?}");
        };
        let text = format!("{}\n\n{}\n\n{}", pull.title, pull.head, pull.body);
        std::fs::write(folder.join("pull-request.md"), text).unwrap();
    }
}

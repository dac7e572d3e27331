//! A test cluster with one pipeline, and the binary.

use std::{
    path::PathBuf,
    process::{Output, Stdio},
};

use api::{Pipeline, Promotion};
use apiserver::{ServeHandle, ServeOptions, Server, User};
use kube::{
    Api, Client, Resource,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::process::Command;

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_sluice");

pub(crate) struct TestCluster {
    pub(crate) server: Server,
    pub(crate) client: Client,
    served: ServeHandle,
    folder: tempfile::TempDir,
}

/// The output of a run of the binary.
pub(crate) struct CommandOutput {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// The binary with an empty environment.
pub(crate) fn binary() -> Command {
    let mut command = Command::new(BINARY);
    command.env_clear().env("HOME", "/nonexistent");
    command.kill_on_drop(true).stdin(Stdio::null());
    command
}

pub(crate) async fn offline(arguments: &[&str]) -> CommandOutput {
    binary().args(arguments).output().await.unwrap().into()
}

impl TestCluster {
    /// A cluster with our CRDs and no objects.
    pub(crate) async fn empty() -> Self {
        Self::serving(testbed::hub::server()).await
    }

    /// A cluster without our CRDs.
    pub(crate) async fn bare() -> Self {
        Self::serving(Server::in_memory()).await
    }

    async fn serving(server: Server) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let options = ServeOptions::new(folder.path().join("serve"));
        let served = server.serve(options).await.unwrap();
        Self {
            client: server.client(),
            server,
            served,
            folder,
        }
    }

    /// With the pipeline `web`: dev runs 2.0.0, prod 1.0.0, and 2.0.0 waits for approval.
    pub(crate) async fn new() -> Self {
        let cluster = Self::empty().await;
        let pipelines: Api<Pipeline> = Api::default_namespaced(cluster.client.clone());
        let pipeline = serde_json::from_value(pipeline()).unwrap();
        let pipeline = pipelines.create(&PostParams::default(), &pipeline).await;
        let owner = pipeline.unwrap().controller_owner_ref(&()).unwrap();
        cluster.set_status(status()).await;
        let promotions: Api<Promotion> = Api::default_namespaced(cluster.client.clone());
        let mut promotion: Promotion = serde_json::from_value(promotion()).unwrap();
        promotion.metadata.owner_references = Some(vec![owner]);
        promotions
            .create(&PostParams::default(), &promotion)
            .await
            .unwrap();
        cluster.set_phase("AwaitingApproval").await;
        cluster
    }

    pub(crate) async fn set_status(&self, status: Value) {
        let pipelines: Api<Pipeline> = Api::default_namespaced(self.client.clone());
        let patch = Patch::Merge(json!({"status": status}));
        let parameters = PatchParams::default();
        let patched = pipelines.patch_status("web", &parameters, &patch).await;
        patched.unwrap();
    }

    /// Replaces the environments of the pipeline.
    pub(crate) async fn set_environments(&self, environments: Value) {
        let patch = Patch::Merge(json!({"spec": {"environments": environments}}));
        let api: Api<Pipeline> = Api::namespaced(self.client.clone(), "default");
        let patched = api.patch("web", &PatchParams::default(), &patch).await;
        patched.unwrap();
    }

    pub(crate) async fn set_phase(&self, phase: &str) {
        let url = "https://forge.example.com/shop/pulls/7";
        let change = json!({"digest": "sha256:1", "edits": []});
        let status = json!({"phase": phase, "url": url, "change": change});
        self.set_promotion_status(status).await;
    }

    pub(crate) async fn set_promotion_status(&self, status: Value) {
        let promotions: Api<Promotion> = Api::default_namespaced(self.client.clone());
        let patch = Patch::Merge(json!({"status": status}));
        let parameters = PatchParams::default();
        let patched = promotions
            .patch_status("web-prod-1", &parameters, &patch)
            .await;
        patched.unwrap();
    }

    /// Withdraws the promotion, as the controller does.
    pub(crate) async fn withdraw(&self, reason: &str) {
        let promotions: Api<Promotion> = Api::default_namespaced(self.client.clone());
        let patch = Patch::Merge(json!({"spec": {"withdrawn": {"reason": reason}}}));
        let parameters = PatchParams::default();
        let patched = promotions.patch("web-prod-1", &parameters, &patch).await;
        patched.unwrap();
        self.set_phase("Withdrawn").await;
    }

    /// Creates the promotion again as the answer to a request: its spec cannot be edited.
    pub(crate) async fn set_promotion_request(&self, request: Value) {
        let promotions: Api<Promotion> = Api::default_namespaced(self.client.clone());
        let parameters = DeleteParams::default();
        let deleted = promotions.delete("web-prod-1", &parameters).await;
        deleted.unwrap();
        let mut promotion = promotion();
        promotion["spec"]["request"] = request;
        let promotion = serde_json::from_value(promotion).unwrap();
        let created = promotions.create(&PostParams::default(), &promotion).await;
        created.unwrap();
        self.set_phase("AwaitingApproval").await;
    }

    pub(crate) async fn pipeline(&self) -> Pipeline {
        let pipelines: Api<Pipeline> = Api::default_namespaced(self.client.clone());
        pipelines.get("web").await.unwrap()
    }

    pub(crate) async fn promotion(&self) -> Promotion {
        let promotions: Api<Promotion> = Api::default_namespaced(self.client.clone());
        promotions.get("web-prod-1").await.unwrap()
    }

    /// The administrator's kubeconfig.
    pub(crate) fn kubeconfig(&self) -> &std::path::Path {
        self.served.kubeconfig()
    }

    /// A command with the administrator's kubeconfig.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = binary();
        command
            .env("KUBECONFIG", self.served.kubeconfig())
            .args(arguments);
        command
    }

    pub(crate) async fn run(&self, arguments: &[&str]) -> CommandOutput {
        self.command(arguments).output().await.unwrap().into()
    }

    /// The stdout of a run, which must succeed.
    #[track_caller]
    pub(crate) fn prints(&self, arguments: &[&str]) -> impl Future<Output = String> {
        let running = self.run(arguments);
        let typed = arguments.join(" ");
        async move {
            let output = running.await;
            assert_eq!(output.code, 0, "{typed}: {}{}", output.out, output.err);
            output.out
        }
    }

    /// Runs a command as a user with a role in the default namespace.
    pub(crate) async fn run_as(
        &self,
        user: &str,
        rules: Value,
        arguments: &[&str],
    ) -> CommandOutput {
        let token = format!("token-of-{user}");
        self.server.add_token(&token, User::new(user, &[]));
        let path = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
        let role = json!({"metadata": {"name": user}, "rules": rules});
        self.post(&format!("{path}/roles"), role).await;
        let binding = json!({
            "metadata": {"name": user},
            "roleRef": {"kind": "Role", "name": user},
            "subjects": [{"kind": "User", "name": user}],
        });
        self.post(&format!("{path}/rolebindings"), binding).await;
        let text = std::fs::read_to_string(self.served.kubeconfig()).unwrap();
        let admin: PathBuf = self.folder.path().join("serve/identity.json");
        let identity: Value = serde_json::from_slice(&std::fs::read(admin).unwrap()).unwrap();
        let kubeconfig = self.folder.path().join(user);
        let text = text.replace(identity["token"].as_str().unwrap(), &token);
        std::fs::write(&kubeconfig, text).unwrap();
        let mut command = self.command(arguments);
        command.arg("--kubeconfig").arg(kubeconfig);
        command.output().await.unwrap().into()
    }

    async fn post(&self, path: &str, body: Value) {
        let request = http::Request::post(path).header("content-type", "application/json");
        let request = request.body(body.to_string().into_bytes()).unwrap();
        self.client.request::<Value>(request).await.unwrap();
    }
}

pub(crate) fn pipeline() -> Value {
    json!({
        "apiVersion": "pipelines.weave.works/v1alpha1",
        "kind": "Pipeline",
        "metadata": {"name": "web"},
        "spec": {
            "appRef": {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "web"},
            "promotion": {
                "manual": true,
                "strategy": strategy(),
            },
            "environments": [
                {"name": "dev", "targets": [{"namespace": "web-dev"}]},
                {"name": "prod", "targets": [{"namespace": "web", "clusterRef": {"kind": "GitopsCluster", "name": "eu"}}]},
            ],
        },
    })
}

fn strategy() -> Value {
    json!({
        "pull-request": {
            "type": "github",
            "url": "https://github.com/shop/fleet.git",
            "baseBranch": "main",
            "secretRef": {"name": "git"},
        },
        "secretRef": {"name": "hmac"},
    })
}

fn target(namespace: &str, revision: &str, cluster: Option<&str>) -> Value {
    let app = json!({
        "apiVersion": "helm.toolkit.fluxcd.io/v2",
        "kind": "HelmRelease",
        "name": "web",
        "ready": true,
        "revision": revision,
        "images": [format!("registry.example.com/web:{revision}")],
    });
    let mut reference =
        json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "web"});
    if let Some(cluster) = cluster {
        reference["clusterRef"] = json!({"kind": "GitopsCluster", "name": cluster});
    }
    json!({
        "clusterAppRef": reference,
        "namespace": namespace,
        "ready": true,
        "readySince": "2026-01-01T00:00:00Z",
        "revision": revision,
        "version": revision,
        "source": "Watch",
        "apps": [app],
    })
}

pub(crate) fn status() -> Value {
    let hold = json!({
        "reason": "AwaitingApproval",
        "message": "2.0.0 waits for approval to enter prod; resolved by an approval of 2.0.0",
    });
    json!({
        "observedGeneration": 1,
        "conditions": [{
            "type": "Ready",
            "status": "True",
            "reason": "ReconciliationSucceeded",
            "message": "All clusters checked",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }],
        "environments": {
            "dev": {"targets": [target("web-dev", "2.0.0", None)], "ran": [{"revision": "2.0.0"}, {"revision": "1.0.0"}]},
            "prod": {
                "targets": [target("web", "1.0.0", Some("eu"))],
                "ran": [{"revision": "1.0.0"}, {"revision": "0.9.0"}],
                "hold": hold,
                "waitingApproval": {"revision": "2.0.0"},
                "promotion": {"name": "web-prod-1", "revision": "2.0.0", "phase": "AwaitingApproval"},
            },
        },
    })
}

/// The status once prod runs 2.0.0.
pub(crate) fn settled() -> Value {
    json!({"environments": {"prod": {
        "targets": [target("web", "2.0.0", Some("eu"))],
        "hold": null,
        "waitingApproval": null,
        "promotion": {"phase": "Succeeded"},
    }}})
}

fn promotion() -> Value {
    json!({
        "apiVersion": "pipelines.weave.works/v1alpha1",
        "kind": "Promotion",
        "metadata": {"name": "web-prod-1", "labels": {"pipelines.weave.works/pipeline": "web"}},
        "spec": {
            "pipeline": "web",
            "environment": "prod",
            "revision": "2.0.0",
            "version": "2.0.0",
            "replaces": "1.0.0",
            "ordinal": 0,
            "strategy": strategy(),
            "needsApproval": true,
        },
    })
}

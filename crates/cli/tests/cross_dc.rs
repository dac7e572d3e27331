//! The binary itself in two data centres that share a MariaDB: one acts, and hands over when told.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failing test is a panic"
)]

use std::{
    path::Path,
    process::{Child, Command, Stdio},
};

use apiserver::{ServeHandle, ServeOptions, Server};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams, PostParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::{Value, json};
use testbed::mariadb::{MariaDb, PASSWORD, wait_until};

type Kind = (&'static str, &'static str, &'static str, &'static str);
const GIT: Kind = (
    "source.toolkit.fluxcd.io",
    "v1",
    "GitRepository",
    "gitrepositories",
);
const RUN: Kind = ("tekton.dev", "v1", "PipelineRun", "pipelineruns");
const TRIGGER: Kind = (
    "pipeline.jquad.rocks",
    "v1alpha1",
    "PipelineTrigger",
    "pipelinetriggers",
);

/// A cluster with a source, a trigger and Tekton's definition of runs.
struct DataCentre {
    server: Server,
    served: ServeHandle,
    folder: tempfile::TempDir,
}

impl DataCentre {
    async fn start() -> Self {
        let server = Server::in_memory();
        let definitions: Api<CustomResourceDefinition> = Api::all(server.client());
        for definition in api::crds().into_iter().chain([GIT, RUN].map(definition)) {
            let parameters = PostParams::default();
            definitions.create(&parameters, &definition).await.unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        let served = server.serve(ServeOptions::new(folder.path())).await;
        let centre = Self {
            served: served.unwrap(),
            server,
            folder,
        };
        centre.create(GIT, json!({})).await;
        centre.push("a0").await;
        let spec = json!({ "source": { "kind": "GitRepository", "name": "shop" }, "pipelineRunSpec": { "pipelineSpec": {} } });
        centre.create(TRIGGER, spec).await;
        centre
    }

    fn objects(&self, (group, version, kind, plural): Kind) -> Api<DynamicObject> {
        let kind = GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, plural);
        Api::default_namespaced_with(self.server.client(), &resource)
    }

    async fn create(&self, kind: Kind, spec: Value) {
        let object = json!({
            "apiVersion": format!("{}/{}", kind.0, kind.1), "kind": kind.2,
            "metadata": { "name": "shop" }, "spec": spec
        });
        let object = serde_json::from_value(object).unwrap();
        let objects = self.objects(kind);
        let created = objects.create(&PostParams::default(), &object).await;
        created.unwrap();
    }

    async fn push(&self, commit: &str) {
        let artifact = json!({ "revision": format!("main@sha1:{commit}"), "path": "gitrepository/default/shop/x" });
        let patch = Patch::Merge(json!({ "status": { "artifact": artifact } }));
        let sources = self.objects(GIT);
        let parameters = PatchParams::default();
        let pushed = sources.patch_status("shop", &parameters, &patch).await;
        pushed.unwrap();
    }

    async fn runs(&self) -> usize {
        let runs = self.objects(RUN).list(&ListParams::default()).await;
        runs.unwrap().items.len()
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// `sluice controller`, as the operator's Deployment would start it.
    fn sluice(&self, address: &str) -> Sluice {
        let log = std::fs::File::create(self.folder.path().join("log")).unwrap();
        let started = controller(self.served.kubeconfig())
            .env("username", "sluice")
            .env("password", PASSWORD)
            .env("address", address)
            .env("plaintext_connection_allowed", "true")
            .env("ha_enabled", "true")
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        Sluice(started.unwrap())
    }
}

fn controller(kubeconfig: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
    command
        .arg("controller")
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .args(["-leader-elect", "-cross-ds-leader-elect"])
        .args(["--metrics-bind-address=0", "--health-probe-bind-address=0"])
        .args(["--promotion-hook-bind-address=0", "--rest-bind-address=0"]);
    for variable in ["username", "password", "address", "ha_enabled"] {
        command.env_remove(variable);
    }
    command
}

/// A running process; ends with the test.
struct Sluice(Child);

impl Sluice {
    async fn terminate(&mut self) {
        let id = self.0.id().to_string();
        let sent = Command::new("kill").args(["-TERM", &id]).status();
        assert!(sent.unwrap().success());
        for _ in 0..3000 {
            if let Some(status) = self.0.try_wait().unwrap() {
                assert!(status.success(), "{status}");
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
        panic!("the process does not end");
    }
}

impl Drop for Sluice {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn definition((group, version, kind, plural): Kind) -> CustomResourceDefinition {
    let anything = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let definition = json!({
        "metadata": { "name": format!("{plural}.{group}") },
        "spec": {
            "group": group, "scope": "Namespaced", "names": { "kind": kind, "plural": plural },
            "versions": [{
                "name": version, "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": anything, "status": anything } } }
            }]
        }
    });
    serde_json::from_value(definition).unwrap()
}

#[tokio::test]
async fn one_data_centre_acts_and_hands_over_when_told_to_end() {
    let database = MariaDb::start(&[]).await;
    let address = format!("127.0.0.1:{}", database.port);
    let (one, other) = (DataCentre::start().await, DataCentre::start().await);
    let mut acting = one.sluice(&address);
    wait_until("the first acts", async || one.runs().await == 1).await;
    let _standby = other.sluice(&address);
    database.wait_for_waiting_session().await;
    for centre in [&one, &other] {
        centre.push("b0").await;
    }
    wait_until("the first acts again", async || one.runs().await == 2).await;
    assert_eq!(other.runs().await, 0);
    acting.terminate().await;
    wait_until("the other acts", async || other.runs().await == 1).await;
    one.push("c0").await;
    other.push("c0").await;
    wait_until("the other goes on", async || other.runs().await == 2).await;
    assert_eq!(one.runs().await, 2);
    for log in [one.log(), other.log()] {
        assert!(
            log.contains("holding the lock between data centres"),
            "{log}"
        );
        assert!(!log.contains(PASSWORD), "{log}");
    }
}

#[test]
fn without_a_user_it_says_what_is_missing() {
    let folder = tempfile::tempdir().unwrap();
    let kubeconfig = folder.path().join("kubeconfig");
    let text = r#"{"apiVersion":"v1","kind":"Config","current-context":"c",
        "contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
        "clusters":[{"name":"c","cluster":{"server":"http://127.0.0.1:1"}}],"users":[{"name":"u"}]}"#;
    std::fs::write(&kubeconfig, text).unwrap();
    let ended = controller(&kubeconfig)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    let needed = "the environment variable username is needed for --cross-dc-leader-elect";
    assert!(!ended.status.success() && said.contains(needed), "{said}");
}

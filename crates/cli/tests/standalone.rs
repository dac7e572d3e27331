//! `sluice standalone` as a user runs it: a data folder, the Kubernetes API, and the permissions of a cluster.
#![expect(clippy::unwrap_used, reason = "a failing test is a panic")]

#[path = "standalone/under_way.rs"]
mod under_way;
#[path = "standalone/upgrade.rs"]
mod upgrade;

use std::{
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use api::{GitopsCluster, Pipeline, WegoPipeline};
use apiserver::{ServeOptions, Server};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret};
use kube::{
    Api, Client, Config,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn free_port() -> String {
    testbed::ports::free_port().to_string()
}

/// Starts it on a folder and waits until it answers. Gives the port of REST too.
async fn start(folder: &Path) -> (Running, Client, String) {
    start_command(Command::new(env!("CARGO_BIN_EXE_sluice")), folder).await
}

/// The same with a program that may be an older one, or have variables.
async fn start_command(mut program: Command, folder: &Path) -> (Running, Client, String) {
    let ports = [free_port(), free_port(), free_port()];
    let child = program
        .args(["standalone", "--data"])
        .arg(folder)
        .args([
            "--api-port",
            &ports[0],
            "--hooks-port",
            &ports[1],
            "--port",
            &ports[2],
        ])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let running = Running(child.unwrap());
    testbed::tls::install_provider();
    for _ in 0..600 {
        if let Ok(kubeconfig) = Kubeconfig::read_from(folder.join("kubeconfig")) {
            let options = KubeConfigOptions::default();
            let config = Config::from_custom_kubeconfig(kubeconfig, &options)
                .await
                .unwrap();
            let client = Client::try_from(config).unwrap();
            // The door is opened last, when everything is installed.
            let door = TcpStream::connect(format!("127.0.0.1:{}", ports[2])).await;
            if door.is_ok() {
                let [_, _, rest] = ports;
                return (running, client, rest);
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    unreachable!("it does not answer");
}

#[tokio::test]
async fn what_was_stored_is_there_after_a_restart_and_rights_hold() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let (running, client, _) = start(&data).await;
    let pipeline: Pipeline = serde_json::from_value(json!({
        "metadata": {"name": "shop"},
        "spec": {
            "appRef": {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "shop"},
            "environments": [{"name": "dev", "targets": [{"namespace": "shop"}]}],
        },
    }))
    .unwrap();
    let pipelines: Api<Pipeline> = Api::namespaced(client.clone(), "default");
    pipelines
        .create(&PostParams::default(), &pipeline)
        .await
        .unwrap();

    let kind = GroupVersionKind::gvk("pipelines.weave.works", "v1alpha1", "Promotion");
    let promotions: Api<DynamicObject> =
        Api::namespaced_with(client, "default", &ApiResource::from_gvk(&kind));
    let promotion = serde_json::from_value(json!({
        "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Promotion",
        "metadata": {"name": "mine"},
        "spec": {
            "pipeline": "shop", "environment": "dev", "revision": "1", "version": "1", "ordinal": 0,
            "needsApproval": false, "strategy": {"notification": {}},
        },
    }))
    .unwrap();
    let refused = promotions
        .create(&PostParams::default(), &promotion)
        .await
        .unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("promotions are created by Sluice"),
        "{refused}"
    );

    drop(running);
    let (_running, client, _) = start(&data).await;
    let pipelines: Api<Pipeline> = Api::namespaced(client, "default");
    assert_eq!(
        pipelines.get("shop").await.unwrap().spec.environments[0].name,
        "dev"
    );
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&data).unwrap());
    assert_eq!(mode & 0o777, 0o700);
}

/// A client for another user, who may edit pipelines and nothing more.
async fn editor(folder: &Path, owner: &Client) -> Client {
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "ann", "namespace": "default"},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit",
        },
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "ann"}],
    });
    let kind = GroupVersionKind::gvk("rbac.authorization.k8s.io", "v1", "RoleBinding");
    let bindings: Api<DynamicObject> =
        Api::namespaced_with(owner.clone(), "default", &ApiResource::from_gvk(&kind));
    let binding = serde_json::from_value(binding).unwrap();
    bindings
        .create(&PostParams::default(), &binding)
        .await
        .unwrap();
    let kubeconfig = Kubeconfig::read_from(folder.join("kubeconfig")).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = config.unwrap();
    config.auth_info.impersonate = Some("ann".to_owned());
    Client::try_from(config).unwrap()
}

#[tokio::test]
async fn pipelines_of_the_first_proposal_are_adopted_and_guarded() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let (_running, client, _) = start(&data).await;
    let editor = editor(&data, &client).await;
    let early: WegoPipeline = serde_json::from_value(json!({
        "metadata": {"name": "shop"},
        "spec": {
            "environments": [
                {"name": "dev", "targets": [{"namespace": "dev"}]},
                {"name": "prod", "targets": [{"namespace": "prod"}],
                 "promotion": {"manual": true, "strategy": {"notification": {}}}},
            ],
        },
    }))
    .unwrap();
    let originals: Api<WegoPipeline> = Api::namespaced(editor.clone(), "default");
    originals
        .create(&PostParams::default(), &early)
        .await
        .unwrap();
    let copies: Api<Pipeline> = Api::namespaced(client.clone(), "default");
    let copy = until_there(&copies, true).await.unwrap();
    assert!(copy.spec.promotion_into("prod").unwrap().manual);
    for _ in 0..600 {
        let status = originals
            .get("shop")
            .await
            .unwrap()
            .status
            .unwrap_or_default();
        if !status.environments.is_empty() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let status = originals.get("shop").await.unwrap().status.unwrap();
    assert!(status.environments.contains_key("prod"), "{status:?}");

    let weaker = json!({"spec": {"environments": [
        {"name": "dev", "targets": [{"namespace": "dev"}]},
        {"name": "prod", "targets": [{"namespace": "prod"}],
         "promotion": {"strategy": {"notification": {}}}},
    ]}});
    let refused = "ann may not weaken or remove what guards prod of pipeline shop";
    let parameters = PatchParams::default();
    let patched = originals
        .patch("shop", &parameters, &Patch::Merge(&weaker))
        .await;
    let said = patched.unwrap_err().to_string();
    assert!(said.contains(refused), "{said}");
    let copies_of_editor: Api<Pipeline> = Api::namespaced(editor, "default");
    let patched = copies_of_editor
        .patch("shop", &parameters, &Patch::Merge(&weaker))
        .await;
    let said = patched.unwrap_err().to_string();
    assert!(said.contains(refused), "{said}");
    let deleted = originals.delete("shop", &DeleteParams::default()).await;
    let said = deleted.unwrap_err().to_string();
    assert!(said.contains(refused), "{said}");

    // The copy goes with its owner.
    let all: Api<WegoPipeline> = Api::namespaced(client, "default");
    all.delete("shop", &DeleteParams::default()).await.unwrap();
    assert!(until_there(&copies, false).await.is_none());
}

/// Waits until there is a copy, or none.
async fn until_there(copies: &Api<Pipeline>, is_wanted: bool) -> Option<Pipeline> {
    for _ in 0..600 {
        let found = copies.get_opt("shop").await.unwrap();
        if found.is_some() == is_wanted {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    unreachable!("there is {} copy", if is_wanted { "no" } else { "still a" });
}

async fn ask(port: &str, path: &str, token: &str) -> String {
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}"))
        .await
        .unwrap();
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn leaf_clusters_are_looked_into_by_their_kubeconfigs() {
    let folder = tempfile::tempdir().unwrap();
    let leaf = Server::in_memory();
    let served = leaf.serve(ServeOptions::new(folder.path().join("leaf")));
    let served = served.await.unwrap();
    let labels = json!({"app": "web"});
    let container = json!({"name": "web", "image": "registry.example/web:1.2.3"});
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }))
    .unwrap();
    let parameters = PostParams::default();
    let deployments: Api<Deployment> = Api::namespaced(leaf.client(), "default");
    deployments.create(&parameters, &deployment).await.unwrap();

    let data = folder.path().join("data");
    let (_running, client, port) = start(&data).await;
    let kubeconfig = std::fs::read_to_string(served.kubeconfig()).unwrap();
    let secret = json!({"metadata": {"name": "eu"}, "stringData": {"value": kubeconfig}});
    let secret = serde_json::from_value(secret).unwrap();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    secrets.create(&parameters, &secret).await.unwrap();
    let cluster = json!({"metadata": {"name": "eu"}, "spec": {"secretRef": {"name": "eu"}}});
    let cluster = serde_json::from_value(cluster).unwrap();
    let clusters: Api<GitopsCluster> = Api::namespaced(client, "default");
    clusters.create(&parameters, &cluster).await.unwrap();

    let token = std::fs::read_to_string(data.join("token")).unwrap();
    let mut answer = String::new();
    for _ in 0..300 {
        answer = ask(&port, "/api/v1/images?scope=clusters&cluster=eu", &token).await;
        if answer.contains("1.2.3") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    unreachable!("the image on the leaf is never told: {answer}");
}

#[test]
fn a_port_in_use_is_an_error() {
    let flags = ["--api-port", "--hooks-port", "--port"];
    for taken in flags {
        let folder = tempfile::tempdir().unwrap();
        let other = TcpListener::bind("127.0.0.1:0").unwrap();
        let taken_port = other.local_addr().unwrap().port();
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
        command.args(["standalone", "--data"]).arg(folder.path());
        for flag in flags {
            let port = match flag == taken {
                true => taken_port.to_string(),
                false => free_port(),
            };
            command.args([flag, &port]);
        }
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{taken}");
        assert_eq!(String::from_utf8_lossy(&output.stdout), "", "{taken}");
        let errors = String::from_utf8_lossy(&output.stderr);
        let address = format!("127.0.0.1:{taken_port}");
        let advice = format!("choose another with {taken}");
        assert!(errors.contains(&address), "{taken}: {errors}");
        assert!(errors.contains(&advice), "{taken}: {errors}");
    }
}

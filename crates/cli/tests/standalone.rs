//! `sluice standalone` as a person runs it: a folder, kubectl's API, the same rights as on a cluster.
#![expect(clippy::unwrap_used, reason = "a failing test is a panic")]

use std::{
    net::TcpListener,
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use api::Pipeline;
use kube::{
    Api, Client, Config,
    api::{DynamicObject, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::json;

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn free_port() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port().to_string()
}

/// Starts it on a folder and waits until it answers.
async fn start(folder: &Path) -> (Running, Client) {
    let ports = [free_port(), free_port(), free_port()];
    let child = Command::new(env!("CARGO_BIN_EXE_sluice"))
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
    let _ = rustls::crypto::ring::default_provider().install_default();
    for _ in 0..600 {
        if let Ok(kubeconfig) = Kubeconfig::read_from(folder.join("kubeconfig")) {
            let options = KubeConfigOptions::default();
            let config = Config::from_custom_kubeconfig(kubeconfig, &options)
                .await
                .unwrap();
            let client = Client::try_from(config).unwrap();
            let pipelines: Api<Pipeline> = Api::all(client.clone());
            if pipelines.list(&Default::default()).await.is_ok() {
                return (running, client);
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
    let (running, client) = start(&data).await;
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
    let (_running, client) = start(&data).await;
    let pipelines: Api<Pipeline> = Api::namespaced(client, "default");
    assert_eq!(
        pipelines.get("shop").await.unwrap().spec.environments[0].name,
        "dev"
    );
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&data).unwrap());
    assert_eq!(mode & 0o777, 0o700);
}

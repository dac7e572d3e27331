//! `sluice uninstall` and `sluice dashboard`, which find what was installed.

use std::{fs, os::unix::fs::PermissionsExt, process::Stdio};

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::{
    cluster::{TestCluster, offline},
    objects::put,
    read_only::until,
};

/// A cluster on which the objects of `sluice install` are that the embedded API has kinds for.
async fn installed() -> TestCluster {
    let cluster = TestCluster::new().await;
    let printed = offline(&["install"]).await;
    let documents: Vec<Value> = serde_saphyr::from_multiple(&printed.out).unwrap();
    let kinds = [
        "Namespace",
        "ServiceAccount",
        "Deployment",
        "Service",
        "ClusterRole",
    ];
    for object in documents {
        if kinds.contains(&object["kind"].as_str().unwrap()) {
            put(&cluster, &object).await;
        }
    }
    cluster
}

#[tokio::test]
async fn uninstall_deletes_what_install_created_and_keeps_pipelines() {
    let cluster = installed().await;
    let refused = cluster.run(&["uninstall"]).await;
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(
        refused.err.contains("confirm with --yes"),
        "{}",
        refused.err
    );
    let planned = cluster.prints(&["uninstall", "--dry-run"]).await;
    for expected in [
        "would delete deployment pipeline-system/pipeline-controller\n",
        "would delete service pipeline-system/pipeline-dashboard\n",
        "would delete clusterrole pipeline-controller-approver\n",
    ] {
        assert!(planned.contains(expected), "{planned}");
    }
    assert!(!planned.contains("namespace"), "{planned}");
    let deleted = cluster.prints(&["uninstall", "--yes"]).await;
    assert_eq!(deleted, planned.replace("would delete", "deleted"));
    let nothing = cluster.run(&["uninstall", "--yes"]).await;
    assert_eq!(
        (nothing.code, nothing.out.as_str()),
        (0, ""),
        "{}",
        nothing.err
    );
    assert_eq!(
        cluster.pipeline().await.metadata.name.as_deref(),
        Some("web")
    );
    let all = cluster.prints(&["uninstall", "--yes", "--crds"]).await;
    let expected = "deleted crd pipelines.pipelines.weave.works with all its objects\n";
    assert!(all.contains(expected), "{all}");
}

#[tokio::test]
async fn uninstall_leaves_a_helm_release_to_helm() {
    let cluster = TestCluster::new().await;
    let service = serde_json::json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "promotion", "namespace": "default",
            "labels": {"helm.sh/chart": "pipeline-controller-0.1.0"},
            "annotations": {"meta.helm.sh/release-name": "sluice"},
        },
        "spec": {"ports": [{"name": "promotion", "port": 80}]},
    });
    put(&cluster, &service).await;
    let refused = cluster.run(&["uninstall", "--yes"]).await;
    assert_eq!(refused.code, 1);
    let expected = "`helm uninstall sluice --namespace default`";
    assert!(refused.err.contains(expected), "{}", refused.err);
}

#[tokio::test]
async fn dashboard_forwards_a_port_with_kubectl() {
    let cluster = installed().await;
    let folder = tempfile::tempdir().unwrap();
    let kubectl = folder.path().join("kubectl");
    let script = "#!/bin/sh\necho \"$*\" > \"$0.arguments\"\n\
                  echo 'Forwarding from 127.0.0.1:9999 -> 8083'\nexec tail --pid=$PPID -f /dev/null\n";
    fs::write(&kubectl, script).unwrap();
    fs::set_permissions(&kubectl, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", folder.path().display());
    let mut command = cluster.command(&["dashboard", "--no-open", "--port", "9999"]);
    let mut child = command
        .env("PATH", path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    until(&mut lines, "http://127.0.0.1:9999").await;
    child.kill().await.unwrap();
    let typed = fs::read_to_string(folder.path().join("kubectl.arguments")).unwrap();
    let expected = "port-forward --namespace pipeline-system service/pipeline-dashboard 9999:80\n";
    assert_eq!(typed, expected);
    let none = TestCluster::new().await.run(&["dashboard"]).await;
    assert_eq!(none.code, 1);
    assert!(none.err.contains("install Sluice"), "{}", none.err);
}

//! The commands of docs/operating.md.

use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::json;
use testbed::{guide::Guide, ports::free_port, shop::ShopPipeline};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{cluster::Cluster, kubelet, monitoring};

const INSTALL: &str =
    "helm install pipeline-controller deploy/chart -n pipeline-system --create-namespace";

const LEASE: &str = "pipeline-controller-leader-election";

async fn metrics(shop: &ShopPipeline) -> String {
    let mut stream = TcpStream::connect(shop.metrics).await.unwrap();
    let request = b"GET /metrics HTTP/1.1\r\nHost: it\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer.split_once("\r\n\r\n").unwrap().1.to_owned()
}

#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn on_a_cluster() {
    let guide = Guide::read("docs/operating.md").unwrap();
    let mut cluster = Cluster::start().await;
    cluster
        .define(&[
            "servicemonitors.monitoring.coreos.com ServiceMonitor v1",
            "prometheusrules.monitoring.coreos.com PrometheusRule v1",
        ])
        .await;
    cluster.shell.sh(INSTALL).await.unwrap();
    let shop = ShopPipeline::create(cluster.client.clone(), ["1.1.0", "1.0.0"], json!({})).await;
    let running = kubelet::run(&cluster, &shop, "pipeline-system", "pipeline-controller").await;
    shop.merge_next().await;
    shop.wait_for_promotion("prod", "1.1.0").await;
    monitoring::check_page(&metrics(&shop).await);
    cluster
        .shell
        .follow_all(guide.under("Replicas"))
        .await
        .unwrap();
    assert!(
        cluster.shell.output().contains('_'),
        "{}",
        cluster.shell.output()
    );
    drop(running);
    for chapter in ["Shards", "Alerts"] {
        let blocks = guide.under(chapter);
        cluster.shell.follow_all(blocks).await.unwrap();
    }
    backed_up_and_restored(&mut cluster, &guide).await;
    // The shard finds its own objects only, by a Lease of its own.
    let name = "pipeline-controller-payments";
    let _running = kubelet::run(&cluster, &shop, "pipeline-system", name).await;
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), "pipeline-system");
    let has_its_own = async || {
        let all = leases.list(&ListParams::default()).await.unwrap();
        let names = all.into_iter().map(|lease| lease.name_any());
        let mut names = names.filter(|name| name.starts_with(LEASE));
        names.find(|name| name != LEASE)
    };
    shop.until("it does not lead", has_its_own).await;
}

/// What was rejected is still rejected after all objects were lost.
async fn backed_up_and_restored(cluster: &mut Cluster, guide: &Guide) {
    let shell = &mut cluster.shell;
    let reject = r#"kubectl patch pipeline shop --subresource=status --type=merge \
        -p '{"status": {"environments": {"prod": {"rejected": ["0.9.0"]}}}}'"#;
    shell.sh(reject).await.unwrap();
    shell.follow_all(guide.under("Backup")).await.unwrap();
    let lose =
        "kubectl delete promotions --all; kubectl delete pipelines,freezes,gitopsclusters --all -A";
    shell.sh(lose).await.unwrap();
    shell.follow_all(guide.under("Restore")).await.unwrap();
    let rejected =
        "kubectl get pipeline shop -o jsonpath='{.status.environments.prod.rejected[0]}'";
    assert_eq!(shell.sh(rejected).await.unwrap(), "0.9.0");
}

/// Needs kubectl only to look.
#[tokio::test]
#[ignore = "needs kubectl: `cargo xtask test --real`"]
async fn standalone_is_backed_up() {
    let guide = Guide::read("docs/operating.md").unwrap();
    let mut cluster = Cluster::start().await;
    let mut blocks = guide.under("Backup of standalone");
    let shell = &mut cluster.shell;
    for folder in ["sluice-data", "restored"] {
        for port in ["SLUICE_API_PORT", "SLUICE_HOOKS_PORT", "SLUICE_PORT"] {
            shell.set(port, free_port().to_string());
        }
        for block in blocks.by_ref() {
            shell.follow(block).await.unwrap();
            if block.fence == "sh background" {
                break;
            }
        }
        let wait = "until kubectl get pipelines; do sleep 0.2; done";
        shell.set("KUBECONFIG", format!("{folder}/kubeconfig"));
        shell.sh(wait).await.unwrap();
        if folder == "sluice-data" {
            shell
                .sh("kubectl create configmap kept --from-literal=a=b")
                .await
                .unwrap();
        }
    }
    assert!(blocks.next().is_none());
    let said = shell
        .sh("kubectl get configmap kept -o jsonpath='{.data.a}'")
        .await
        .unwrap();
    assert_eq!(said, "b");
}

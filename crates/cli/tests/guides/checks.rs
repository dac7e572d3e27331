//! docs/checks.md on a real cluster: the chart, a real Prometheus, Kubernetes' job controller, and the binary
//! with the rights that the chart gives it.

use std::net::SocketAddr;

use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams},
};
use serde_json::json;
use testbed::{
    guide::Guide,
    real::{Assets, prometheus::RealPrometheus},
    shop::ShopPipeline,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use crate::{cluster::Cluster, kubelet};

/// An app that is well: its metrics, and `ok` for everything else.
async fn app() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut request = vec![0; 16 << 10];
            let read = stream.read(&mut request).await.unwrap_or(0);
            let body = match request[..read].starts_with(b"GET /metrics") {
                true => {
                    "http_errors_total{env=\"dev\"} 0\n\
                     flagger_canary_status{name=\"shop\",namespace=\"shop-dev\"} 1\n"
                }
                false => "ok",
            };
            let length = body.len();
            let head =
                "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nConnection: close";
            let answer = format!("{head}\r\nContent-Length: {length}\r\n\r\n{body}");
            let _ = stream.write_all(answer.as_bytes()).await;
        }
    });
    address
}

/// Ends the Pod of the only Job, as a kubelet would.
async fn complete_job(shop: &ShopPipeline) {
    let pods: Api<Pod> = Api::namespaced(shop.hub.clone(), "default");
    let selector = ListParams::default().labels("batch.kubernetes.io/job-name");
    let find = async || {
        let found = pods.list(&selector).await.ok()?;
        found.items.into_iter().next()?.metadata.name
    };
    let name = shop.until("the check created no Job", find).await;
    let at = "2026-01-01T00:00:00Z";
    let ended = json!({"exitCode": 0, "startedAt": at, "finishedAt": at});
    let status = json!({"status": {"phase": "Succeeded", "containerStatuses": [{
        "name": "e2e", "image": "e2e", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": ended},
    }]}});
    let patch = Patch::Merge(status);
    let parameters = PatchParams::default();
    pods.patch_status(&name, &parameters, &patch).await.unwrap();
}

/// Waits until the check run of this check exists.
async fn wait_for_check(shop: &ShopPipeline, check: &str) {
    let runs: Api<api::CheckRun> = Api::namespaced(shop.hub.clone(), "default");
    let find = async || {
        let found = runs.list(&ListParams::default()).await.ok()?;
        found
            .items
            .into_iter()
            .find(|it| it.spec.check.name == check)
    };
    shop.until("the check did not start", find).await;
}

#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn the_guide_about_checks() {
    let guide = Guide::read("docs/checks.md").unwrap();
    let mut cluster = Cluster::start_with(&["job-controller"]).await;
    let app = app().await;
    let assets = Assets::from_env().unwrap();
    let prometheus = RealPrometheus::start(&assets, &format!("http://{app}"))
        .await
        .unwrap();
    let shell = &mut cluster.shell;
    shell.replace("prometheus.monitoring,*.example.com", "127.0.0.1");
    shell.replace("http://prometheus.monitoring:9090", prometheus.url());
    // The guide has times for production.
    shell.replace("initialDelay: 2m", "initialDelay: 1s");
    shell.replace("interval: 30s", "interval: 1s");
    let url = "https://shop-${environment}.example.com/healthz";
    shell.replace(url, format!("http://{app}/${{environment}}"));
    shell.set("KEY", "not-a-secret");
    shell.follow_all(guide.under("Allow it")).await.unwrap();
    let versions = ["1.1.0", "1.0.0"];
    let shop = ShopPipeline::create(cluster.client.clone(), versions, json!({})).await;
    let shell = &mut cluster.shell;
    shell.replace(
        "https://hooks.example.com",
        format!("http://{}", shop.hooks),
    );
    for section in ["With Prometheus", "Smoke tests", "Credentials"] {
        shell.follow_all(guide.under(section)).await.unwrap();
    }
    let mut ticket = guide.under("A ticket system");
    for _ in 0..2 {
        shell.follow(ticket.next().unwrap()).await.unwrap();
    }
    shell.follow_all(guide.under("With Flagger")).await.unwrap();
    let _running = kubelet::run(&cluster, &shop, "pipeline-system", "pipeline-controller").await;
    complete_job(&shop).await;
    wait_for_check(&shop, "ticket").await;
    cluster.shell.follow_all(ticket).await.unwrap();
    shop.merge_next().await;
    shop.wait_for_promotion("prod", "1.1.0").await;
}

//! `sluice hooks`: the addresses in the objects for Flux.

use k8s_openapi::api::core::v1::Service;
use kube::{Api, api::PostParams};
use serde_json::{Value, json};

use crate::cluster::{TestCluster, offline};

/// Installs a Service with the labels and the port of the plain manifests or the chart.
async fn install(
    cluster: &TestCluster,
    (namespace, name): (&str, &str),
    labels: Value,
    port: Value,
) {
    let services: Api<Service> = Api::namespaced(cluster.client.clone(), namespace);
    let service = json!({
        "metadata": {"name": name, "labels": labels},
        "spec": {"ports": [port]},
    });
    let service = serde_json::from_value(service).unwrap();
    let created = services.create(&PostParams::default(), &service).await;
    created.unwrap();
}

fn of_manifests() -> Value {
    json!({"app.kubernetes.io/name": "pipeline-controller"})
}

/// The addresses of the Providers.
fn addresses(out: &str) -> Vec<&str> {
    let lines = out.lines().map(str::trim);
    lines
        .filter_map(|line| line.strip_prefix("address: "))
        .collect()
}

#[tokio::test]
async fn hooks_point_to_the_service_that_is_installed() {
    let cluster = TestCluster::new().await;
    let out = cluster.prints(&["hooks", "web"]).await;
    let plain = "http://pipeline-promotion.pipeline-system/promotion/default/web/dev";
    assert_eq!(addresses(&out)[0], plain, "nothing is installed: {out}");
    assert!(
        out.contains("the chart names it after the release"),
        "{out}"
    );

    let port = json!({"name": "dashboard", "port": 80});
    install(
        &cluster,
        ("default", "pipeline-dashboard"),
        of_manifests(),
        port,
    )
    .await;
    let other = json!({"app.kubernetes.io/name": "shop"});
    let promotion = json!({"name": "promotion", "port": 8082});
    install(&cluster, ("default", "shop"), other, promotion.clone()).await;
    let labels = json!({
        "app.kubernetes.io/name": "renamed", "helm.sh/chart": "pipeline-controller-0.1.0",
    });
    let service = ("default", "flow-renamed-promotion");
    install(&cluster, service, labels, promotion.clone()).await;
    let out = cluster.prints(&["hooks", "web"]).await;
    let of_chart = "http://flow-renamed-promotion.default:8082/promotion/default/web";
    let expected = [format!("{of_chart}/dev"), format!("{of_chart}/prod")];
    assert_eq!(addresses(&out), expected);
    assert!(
        out.contains("address of its Ingress with --address"),
        "{out}"
    );

    let given = "https://sluice.example.com";
    let out = cluster.prints(&["hooks", "web", "--address", given]).await;
    assert!(
        addresses(&out)[0].starts_with(given) && !out.contains("Ingress"),
        "{out}"
    );

    let bare = ["hooks", "web", "--address", "sluice.example.com"];
    let output = cluster.run(&bare).await;
    assert_eq!(output.code, 2, "{}", output.out);
    let expected = "must begin with https://, as in https://sluice.example.com";
    assert!(output.err.contains(expected), "{}", output.err);

    let port = json!({"name": "promotion", "port": 80});
    install(
        &cluster,
        ("default", "pipeline-promotion"),
        of_manifests(),
        port,
    )
    .await;
    let output = cluster.run(&["hooks", "web"]).await;
    assert_eq!(output.code, 1, "{}", output.out);
    let both = "(http://flow-renamed-promotion.default:8082, http://pipeline-promotion.default)";
    assert!(output.err.contains(both), "{}", output.err);
    assert!(
        output.err.contains("choose one with --address"),
        "{}",
        output.err
    );
}

#[tokio::test]
async fn who_may_not_list_services_is_told_what_was_assumed() {
    let cluster = TestCluster::new().await;
    let rules = json!([{
        "apiGroups": ["pipelines.weave.works"], "resources": ["*"], "verbs": ["get", "list"],
    }]);
    let output = cluster.run_as("ann", rules, &["hooks", "web"]).await;
    assert_eq!(output.code, 0, "{}", output.err);
    assert!(
        output.out.contains("Services cannot be listed"),
        "{}",
        output.out
    );
}

#[tokio::test]
async fn for_a_file_the_plain_manifests_are_assumed() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("web.yaml");
    std::fs::write(&file, crate::cluster::pipeline().to_string()).unwrap();
    let output = offline(&["hooks", file.to_str().unwrap()]).await;
    assert_eq!(output.code, 0, "{}", output.err);
    let is_signed = !output.out.contains("type: generic\n");
    assert_eq!(is_signed, !output.out.contains("# The pipeline has no key"));
    let address = "http://pipeline-promotion.pipeline-system/promotion/default/web/dev";
    assert_eq!(addresses(&output.out)[0], address);
    assert!(
        output.out.contains("the plain manifests' Service"),
        "{}",
        output.out
    );
}

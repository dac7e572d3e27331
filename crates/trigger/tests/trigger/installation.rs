//! Kinds that are not installed yet, that appear, and that go away.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, api::DeleteParams};
use serde_json::json;

use crate::cluster::{Cluster, FOREIGN, NAMESPACE};

#[tokio::test(start_paused = true)]
async fn b17_everything_may_be_installed_later() {
    let cluster = Cluster::bare(1).await;
    cluster.start();
    let manifest = json!({
        "apiVersion": "pipeline.jquad.rocks/v1alpha1", "kind": "PipelineTrigger",
        "metadata": { "name": "shop", "namespace": NAMESPACE },
        "spec": {
            "source": { "apiVersion": "source.toolkit.fluxcd.io/v1beta2", "kind": "GitRepository", "name": "shop" },
            "pipelineRunSpec": { "serviceAccountName": "bot", "pipelineRef": { "name": "build" } }
        }
    });
    cluster.apply(&manifest).await;
    cluster
        .wait_for_ready("shop", "False SourceKindNotInstalled")
        .await;

    let git = FOREIGN[0];
    cluster.install(&git).await;
    cluster.wait_for_ready("shop", "False SourceNotFound").await;
    cluster
        .apply(&json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
            "metadata": { "name": "shop", "namespace": NAMESPACE }, "spec": {},
        }))
        .await;
    cluster
        .wait_for_ready(
            "shop",
            "Unknown NoRevision: GitRepository shop has not fetched anything yet",
        )
        .await;
    cluster.push("shop", "main@sha1:aa").await;
    cluster
        .wait_for_ready("shop", "False TektonNotInstalled")
        .await;

    for kind in FOREIGN.iter().filter(|kind| kind.0 == "tekton.dev") {
        cluster.install(kind).await;
    }
    cluster
        .wait_for_ready(
            "shop",
            "False PipelineNotFound: pipelines.tekton.dev \"build\" not found",
        )
        .await;
    cluster
        .apply(&json!({ "apiVersion": "tekton.dev/v1", "kind": "Pipeline", "metadata": { "name": "build", "namespace": NAMESPACE }, "spec": {} }))
        .await;
    let runs = cluster.wait_for_runs(1).await;
    assert_eq!(
        runs[0]["spec"]["taskRunTemplate"]["serviceAccountName"],
        "bot"
    );

    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client.clone());
    definitions
        .delete(
            "gitrepositories.source.toolkit.fluxcd.io",
            &DeleteParams::default(),
        )
        .await
        .unwrap();
    cluster
        .wait_for_ready("shop", "False SourceKindNotInstalled")
        .await;
}

#[tokio::test(start_paused = true)]
async fn tekton_in_its_old_version_only() {
    let cluster = Cluster::bare(1).await;
    let old = ("tekton.dev", "v1beta1", "PipelineRun", "pipelineruns");
    cluster.install(&old).await;
    cluster.install(&FOREIGN[0]).await;
    cluster.start();
    cluster
        .apply(&json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
            "metadata": { "name": "shop", "namespace": NAMESPACE }, "spec": {},
        }))
        .await;
    cluster.push("shop", "main@sha1:aa").await;
    cluster
        .apply(&json!({
            "apiVersion": "pipeline.jquad.rocks/v1alpha1", "kind": "PipelineTrigger",
            "metadata": { "name": "shop", "namespace": NAMESPACE },
            "spec": {
                "source": { "kind": "GitRepository", "name": "shop" },
                "pipelineRun": { "apiVersion": "tekton.dev/v1", "spec": { "pipelineSpec": {}, "taskRunTemplate": { "serviceAccountName": "bot" } } }
            }
        }))
        .await;
    cluster.wait_for_ready("shop", "Unknown Running").await;
    let kind = kube::core::GroupVersionKind::gvk(old.0, old.1, old.2);
    let resource = kube::core::ApiResource::from_gvk_with_plural(&kind, old.3);
    let runs: Api<kube::core::DynamicObject> =
        Api::namespaced_with(cluster.client.clone(), NAMESPACE, &resource);
    let runs = runs.list(&Default::default()).await.unwrap().items;
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].data["spec"]["serviceAccountName"], "bot");
}

#[tokio::test(start_paused = true)]
async fn a_forbidden_kind_is_reported_on_the_trigger() {
    for plural in ["gitrepositories", "pipelines", "pipelineruns"] {
        let cluster = Cluster::bare(1).await;
        cluster.install_all().await;
        cluster.forbid(Some(plural));
        cluster.start();
        cluster
            .apply(&json!({
                "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
                "metadata": { "name": "shop", "namespace": NAMESPACE }, "spec": {},
            }))
            .await;
        cluster.push("shop", "main@sha1:aa").await;
        cluster
            .apply(&json!({ "apiVersion": "tekton.dev/v1", "kind": "Pipeline", "metadata": { "name": "build", "namespace": NAMESPACE }, "spec": {} }))
            .await;
        cluster
            .apply(&json!({
                "apiVersion": "pipeline.jquad.rocks/v1alpha1", "kind": "PipelineTrigger",
                "metadata": { "name": "shop", "namespace": NAMESPACE },
                "spec": { "source": { "kind": "GitRepository", "name": "shop" }, "pipelineRunSpec": { "pipelineRef": { "name": "build" } } }
            }))
            .await;
        let expected = format!("False Forbidden: {plural} is forbidden: you may not list it");
        cluster.wait_for_ready("shop", &expected).await;
        assert!(cluster.runs().await.is_empty());
        cluster.forbid(None);
        cluster.wait_for_runs(1).await;
    }
}

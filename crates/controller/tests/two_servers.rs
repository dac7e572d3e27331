//! The main paths of the pipeline loop on two real kube-apiservers, a hub and a leaf.
//!
//! Needs `KUBEBUILDER_ASSETS`; `cargo xtask test --real` runs it.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failing test is a panic"
)]

use std::{sync::Arc, time::Duration};

use api::{GitopsCluster, Pipeline};
use controller::{KubeconfigPolicy, PipelineReconciler, Settings, network_connector};
use k8s_openapi::{
    api::core::v1::Secret,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
    core::GroupVersionKind,
    runtime::wait::{await_condition, conditions::is_crd_established},
};
use serde_json::{Value, json};
use testbed::real::{Assets, ControlPlane};

async fn define(client: &Client, definition: CustomResourceDefinition) {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let created = api
        .create(&PostParams::default(), &definition)
        .await
        .unwrap();
    await_condition(api, &created.name_any(), is_crd_established())
        .await
        .unwrap();
}

fn helm_releases() -> CustomResourceDefinition {
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}},
        })
    };
    serde_json::from_value(json!({
        "metadata": {"name": "helmreleases.helm.toolkit.fluxcd.io"},
        "spec": {
            "group": "helm.toolkit.fluxcd.io", "scope": "Namespaced",
            "names": {"plural": "helmreleases", "singular": "helmrelease", "kind": "HelmRelease"},
            "versions": [version("v2", true), version("v2beta2", false)],
        },
    }))
    .unwrap()
}

fn releases(client: &Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("helm.toolkit.fluxcd.io", "v2", "HelmRelease");
    Api::namespaced_with(client.clone(), "default", &ApiResource::from_gvk(&kind))
}

fn status(version: &str) -> Value {
    json!({
        "observedGeneration": 1,
        "conditions": [{"type": "Ready", "status": "True", "reason": "Done", "message": "",
            "lastTransitionTime": "2026-01-01T00:00:00Z"}],
        "history": [{"chartVersion": version, "status": "deployed"}],
    })
}

async fn deploy(client: &Client, version: &str) {
    let patch = Patch::Merge(json!({"status": status(version)}));
    releases(client)
        .patch_status("app", &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// Waits until the pipeline's only target shows a revision, or an error that holds a text.
async fn expect(hub: &Client, is_right: impl Fn(&Pipeline) -> bool) -> Pipeline {
    let api: Api<Pipeline> = Api::namespaced(hub.clone(), "default");
    for _ in 0..600 {
        let pipeline = api.get("p").await.unwrap();
        if is_right(&pipeline) {
            return pipeline;
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    panic!("{:?}", api.get("p").await.unwrap().status);
}

fn runs(pipeline: &Pipeline, version: &str) -> bool {
    let environments = pipeline
        .status
        .iter()
        .flat_map(|it| it.environments.values());
    let mut targets = environments.flat_map(|environment| &environment.targets);
    targets.any(|target| target.ready && target.revision.as_deref() == Some(version))
}

#[tokio::test]
#[ignore = "needs real control planes"]
async fn a_release_is_followed_from_leaf_to_hub() {
    let assets = Assets::from_env().unwrap();
    let hub_plane = ControlPlane::start(&assets).await.unwrap();
    let leaf_plane = ControlPlane::start(&assets).await.unwrap();
    let (hub, leaf) = (hub_plane.client(), leaf_plane.client());
    for definition in api::crds() {
        define(&hub, definition).await;
    }
    define(&leaf, helm_releases()).await;
    let app: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
        "metadata": {"name": "app"}, "spec": {},
    }))
    .unwrap();
    releases(&leaf)
        .create(&PostParams::default(), &app)
        .await
        .unwrap();
    deploy(&leaf, "1.0.0").await;

    let shared = PipelineReconciler::new(
        hub.clone(),
        network_connector(KubeconfigPolicy::LOCAL),
        Settings::default(),
    );
    let running = tokio::spawn(controller::pipeline::run(Arc::clone(&shared)));
    let pipeline: Pipeline = serde_json::from_value(json!({
        "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Pipeline", "metadata": {"name": "p"},
        "spec": {
            // A version that this leaf no longer serves.
            "appRef": {"apiVersion": "helm.toolkit.fluxcd.io/v2beta1", "kind": "HelmRelease", "name": "app"},
            "environments": [{"name": "dev", "targets": [
                {"namespace": "default", "clusterRef": {"kind": "GitopsCluster", "name": "leaf"}},
            ]}],
        },
    }))
    .unwrap();
    let pipelines: Api<Pipeline> = Api::namespaced(hub.clone(), "default");
    pipelines
        .create(&PostParams::default(), &pipeline)
        .await
        .unwrap();
    expect(&hub, |pipeline| draw(pipeline).contains("not found")).await;

    let secret: Secret = serde_json::from_value(json!({
        "metadata": {"name": "leaf"}, "stringData": {"value": leaf_plane.kubeconfig()},
    }))
    .unwrap();
    let secrets: Api<Secret> = Api::namespaced(hub.clone(), "default");
    secrets
        .create(&PostParams::default(), &secret)
        .await
        .unwrap();
    let cluster: GitopsCluster = serde_json::from_value(json!({
        "apiVersion": "gitops.weave.works/v1alpha1", "kind": "GitopsCluster",
        "metadata": {"name": "leaf"}, "spec": {"secretRef": {"name": "leaf"}},
    }))
    .unwrap();
    let clusters: Api<GitopsCluster> = Api::namespaced(hub.clone(), "default");
    clusters
        .create(&PostParams::default(), &cluster)
        .await
        .unwrap();
    expect(&hub, |pipeline| runs(pipeline, "1.0.0")).await;
    deploy(&leaf, "1.1.0").await;
    let pipeline = expect(&hub, |pipeline| runs(pipeline, "1.1.0")).await;
    let status = pipeline.status.unwrap();
    let ran: Vec<_> = status.environments["dev"].ran_revisions().collect();
    assert_eq!(ran, ["1.1.0", "1.0.0"]);
    assert!(clusters.get("leaf").await.unwrap().is_ready());

    // A kubeconfig that trusts somebody else is of no use, and says so.
    let authority = |kubeconfig: &str| -> String {
        let mut lines = kubeconfig.lines().map(str::trim);
        let line = lines.find_map(|line| line.split_once("certificate-authority-data:"));
        line.unwrap().1.trim().to_owned()
    };
    let (right, wrong) = (
        authority(leaf_plane.kubeconfig()),
        authority(hub_plane.kubeconfig()),
    );
    let forged = leaf_plane.kubeconfig().replace(&right, &wrong);
    let patch = Patch::Merge(json!({"stringData": {"value": forged}}));
    secrets
        .patch("leaf", &PatchParams::default(), &patch)
        .await
        .unwrap();
    expect(&hub, |pipeline| {
        draw(pipeline).to_lowercase().contains("certificate")
    })
    .await;
    let patch = Patch::Merge(json!({"stringData": {"value": leaf_plane.kubeconfig()}}));
    secrets
        .patch("leaf", &PatchParams::default(), &patch)
        .await
        .unwrap();
    expect(&hub, |pipeline| runs(pipeline, "1.1.0")).await;

    leaf_plane.stop();
    expect(&hub, |pipeline| draw(pipeline).contains("not reachable")).await;
    running.abort();
}

fn draw(pipeline: &Pipeline) -> String {
    let environments = pipeline
        .status
        .iter()
        .flat_map(|it| it.environments.values());
    let targets = environments.flat_map(|environment| &environment.targets);
    let errors: Vec<_> = targets.filter_map(|target| target.error.clone()).collect();
    errors.join("; ")
}

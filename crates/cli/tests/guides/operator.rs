//! docs/migrate-trigger-operator.md, on a cluster with objects of the trigger operator.

use std::fs;

use kube::{
    Api, Client,
    api::{ApiResource, DynamicObject, ListParams, Patch, PatchParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};
use testbed::{flux, guide::Guide, objects::apply, shop::ShopPipeline};

use crate::{cluster::Cluster, kubelet};

const OBJECTS: &str = include_str!("operator/objects.yaml");
const NEW: &str = "2222222222222222222222222222222222222222";

/// A trigger in a notation that the operator's newest definition refused.
const OLDER: &str = "\
kubectl apply -f - <<'END'
apiVersion: pipeline.jquad.rocks/v1alpha1
kind: PipelineTrigger
metadata: {name: older, namespace: ci}
spec:
  source: {kind: GitRepository, name: app}
  pipeline: {name: build, serviceAccountName: default, retries: 2, maxHistory: 3, inputParams: []}
END";

fn api(client: &Client, group: &str, version: &str, kind: &str) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk(group, version, kind);
    Api::namespaced_with(client.clone(), "ci", &ApiResource::from_gvk(&kind))
}

async fn set_status(client: &Client, object: &Value) {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let api_version = text(&object["apiVersion"]);
    let (group, version) = api_version.split_once('/').unwrap();
    // Flux names them in its own way, which is no English plural.
    let mut resource = ApiResource::from_gvk(&GroupVersionKind::gvk(
        group,
        version,
        &text(&object["kind"]),
    ));
    if resource.kind == "GitRepository" {
        resource.plural = "gitrepositories".to_owned();
    }
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "ci", &resource);
    let patch = Patch::Merge(json!({"status": object["status"]}));
    let name = text(&object["metadata"]["name"]);
    api.patch_status(&name, &PatchParams::default(), &patch)
        .await
        .unwrap();
}

/// The operator, what it worked on, and the statuses that it and Flux wrote.
async fn leftovers(cluster: &mut Cluster) {
    cluster
        .define(&[
            "pipelines.tekton.dev Pipeline v1",
            "pipelineruns.tekton.dev PipelineRun v1",
        ])
        .await;
    apply(&cluster.client, flux::definitions()).await;
    for (name, text) in [
        ("definition.yaml", include_str!("operator/definition.yaml")),
        ("operator.yaml", include_str!("operator/install.yaml")),
        ("objects.yaml", OBJECTS),
    ] {
        fs::write(cluster.shell.folder().join(name), text).unwrap();
    }
    let commands = "kubectl apply -f definition.yaml -f operator.yaml\n\
                    kubectl wait --for=condition=Established crd --all --timeout=60s\n\
                    kubectl apply -f objects.yaml";
    cluster.shell.sh(commands).await.unwrap();
    let objects: Vec<Value> = serde_saphyr::from_multiple(OBJECTS).unwrap();
    for object in objects
        .iter()
        .filter(|object| object.get("status").is_some())
    {
        set_status(&cluster.client, object).await;
    }
}

#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn over_the_trigger_operator() {
    let mut cluster = Cluster::start().await;
    let guide = Guide::read("docs/migrate-trigger-operator.md").unwrap();
    leftovers(&mut cluster).await;
    cluster.shell.sh(&format!("! {OLDER}")).await.unwrap();
    cluster.shell.follow_all(guide.blocks()).await.unwrap();

    let shop = ShopPipeline::create(cluster.client.clone(), ["1.0.0", "1.0.0"], json!({})).await;
    let _running = kubelet::run(&cluster, &shop, "pipeline-system", "pipeline-controller").await;
    cluster.shell.sh(OLDER).await.unwrap();
    let runs = api(&cluster.client, "tekton.dev", "v1", "PipelineRun");
    let started = async |trigger: &'static str| {
        let found = async || {
            let all = runs.list(&ListParams::default()).await.unwrap();
            let owned = |run: &&DynamicObject| {
                let owners = run.metadata.owner_references.iter().flatten();
                owners.into_iter().any(|owner| owner.name == trigger)
            };
            let found: Vec<DynamicObject> = all.iter().filter(owned).cloned().collect();
            (!found.is_empty()).then_some(found)
        };
        shop.until("no run was started", found).await
    };
    // The older trigger is new to Sluice and runs at once; the other one's commit was handled.
    started("older").await;
    let mut repository: Value = serde_saphyr::from_multiple(OBJECTS).unwrap().swap_remove(2);
    repository["status"]["artifact"]["revision"] = json!(format!("main@sha1:{NEW}"));
    set_status(&cluster.client, &repository).await;
    let of_build = started("build").await;
    assert_eq!(of_build.len(), 1);
    assert_eq!(of_build[0].data["spec"]["params"][0]["value"], NEW);
    let log = shop.log();
    assert!(!log.to_lowercase().contains("forbidden"), "{log}");
}

//! The Flux stand-in deploys the objects in git.
#![expect(clippy::unwrap_used, reason = "a failing test is a panic")]

use std::time::Duration;

use apiserver::Server;
use kube::{
    Api, Client,
    api::{DynamicObject, ListParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};
use testbed::{
    flux::{Flux, FluxTiming, definitions},
    forge::Forge,
};

fn manifest(version: &str) -> String {
    format!(
        "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: shop\n---\n\
         apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\n\
         metadata:\n  name: shop\n  namespace: shop\n\
         spec:\n  chart:\n    spec:\n      chart: shop\n      version: {version}\n"
    )
}

fn api(client: &Client, kind: (&str, &str, &str), namespace: &str) -> Api<DynamicObject> {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(kind.0, kind.1, kind.2));
    Api::namespaced_with(client.clone(), namespace, &resource)
}

/// Waits until a release is ready (or not) at a version.
async fn until(client: &Client, version: &str, status: &str) -> Value {
    let releases = api(
        client,
        ("helm.toolkit.fluxcd.io", "v2", "HelmRelease"),
        "shop",
    );
    let mut seen = Value::Null;
    for _ in 0..600 {
        if let Some(release) = releases.get_opt("shop").await.unwrap() {
            seen = release.data["status"].clone();
            let is_there = seen["lastAttemptedRevision"] == version;
            if is_there && seen["conditions"][0]["status"] == status {
                return seen;
            }
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    unreachable!("{version} is not {status}: {seen}")
}

#[tokio::test]
async fn what_is_in_git_is_deployed() {
    let forge = Forge::start().await.unwrap();
    let path = "clusters/dev/shop.yaml";
    let first = manifest("1.0.0");
    let files = [(path, first.as_str()), ("README", "no yaml: {")];
    let repository = forge.create_repository("team/fleet", &files);
    let repository = repository.await.unwrap();
    let client = Server::in_memory().client();
    let kinds = ApiResource::from_gvk(&GroupVersionKind::gvk(
        "apiextensions.k8s.io",
        "v1",
        "CustomResourceDefinition",
    ));
    for definition in definitions() {
        let definition: DynamicObject = serde_json::from_value(definition).unwrap();
        let kinds: Api<DynamicObject> = Api::all_with(client.clone(), &kinds);
        kinds
            .create(&PostParams::default(), &definition)
            .await
            .unwrap();
    }
    let timing = FluxTiming {
        poll_interval: Duration::from_millis(20),
        release_duration: Duration::from_millis(20),
    };
    let _flux = Flux::start(repository.clone(), "clusters/dev", client.clone(), timing);
    until(&client, "1.0.0", "True").await;

    repository
        .commit("main", "Update", &[(path, &manifest("1.1.0"))])
        .await
        .unwrap();
    let status = until(&client, "1.1.0", "True").await;
    assert_eq!(
        status["history"][0],
        json!({"version": 2, "chartVersion": "1.1.0", "status": "deployed"})
    );
    assert_eq!(status["history"][1]["status"], "superseded");
    let workload = api(&client, ("apps", "v1", "Deployment"), "shop")
        .get("shop")
        .await
        .unwrap();
    let container = &workload.data["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(container["image"], "registry.example.com/shop:1.1.0");
    assert_eq!(workload.data["status"]["availableReplicas"], 1);
    let pods = api(&client, ("", "v1", "Pod"), "shop");
    let pods = pods.list(&ListParams::default()).await;
    let mut pods = pods.unwrap().into_iter();
    assert!(pods.any(|pod| {
        let image = &pod.data["spec"]["containers"][0]["image"];
        image == "registry.example.com/shop:1.1.0" && pod.data["status"]["phase"] == "Running"
    }));
    let kustomizations = api(
        &client,
        ("kustomize.toolkit.fluxcd.io", "v1", "Kustomization"),
        "flux-system",
    );
    let tip = repository.tip("main").await.unwrap();
    let mut applied = Value::Null;
    for _ in 0..100 {
        applied =
            kustomizations.get("dev").await.unwrap().data["status"]["lastAppliedRevision"].clone();
        if applied == format!("main@sha1:{tip}") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert_eq!(applied, format!("main@sha1:{tip}"));

    repository
        .commit("main", "Break", &[(path, &manifest("1.2.0-broken"))])
        .await
        .unwrap();
    let status = until(&client, "1.2.0-broken", "False").await;
    assert_eq!(status["history"][0]["status"], "failed");
    assert_eq!(status["history"][1]["status"], "deployed");
}

//! The guide about rollouts in waves, with a fleet of embedded APIs that stand for the clusters.

use apiserver::{ServeHandle, ServeOptions, Server};
use k8s_openapi::{
    api::core::v1::Namespace,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Config,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use testbed::{
    guide::{Guide, Shell},
    ports::free_port,
    real::Assets,
};

use crate::demo::{shell, until};

/// A cluster of the fleet.
struct EdgeCluster {
    client: Client,
    served: ServeHandle,
}

async fn define_flux(client: &Client) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for definition in testbed::flux::definitions() {
        let definition = serde_json::from_value(definition).unwrap();
        let parameters = PostParams::default();
        definitions.create(&parameters, &definition).await.unwrap();
    }
}

async fn create_namespace(client: &Client, name: &str) {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let namespace = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
    let parameters = PostParams::default();
    namespaces.create(&parameters, &namespace).await.unwrap();
}

/// Says that the app is ready at a version, as Flux would.
async fn deploy(client: &Client, namespace: &str, version: &str) {
    let kind = GroupVersionKind::gvk("helm.toolkit.fluxcd.io", "v2", "HelmRelease");
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let object = json!({
        "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
        "metadata": {"name": "shop", "namespace": namespace},
        "spec": {"chart": {"spec": {"chart": "shop", "sourceRef": {"kind": "HelmRepository", "name": "charts"}}}},
    });
    let parameters = PatchParams::apply("test").force();
    let applied = api.patch("shop", &parameters, &Patch::Apply(&object)).await;
    applied.unwrap();
    let condition = json!({
        "type": "Ready", "status": "True", "reason": "UpgradeSucceeded", "message": "upgraded",
    });
    let status: Value = json!({"status": {
        "observedGeneration": 1, "conditions": [condition],
        "history": [{"chartName": "shop", "chartVersion": version, "status": "deployed"}],
    }});
    let parameters = PatchParams::default();
    let patch = Patch::Merge(&status);
    let patched = api.patch_status("shop", &parameters, &patch).await;
    patched.unwrap();
}

/// Six clusters that run 1.4.0, and their GitopsClusters.
async fn fleet(shell: &mut Shell) -> Vec<EdgeCluster> {
    let mut all = Vec::new();
    for number in 1..=6 {
        let server = Server::in_memory();
        let client = server.client();
        define_flux(&client).await;
        create_namespace(&client, "shop").await;
        deploy(&client, "shop", "1.4.0").await;
        let folder = shell.folder().join(format!("edge-{number}"));
        let served = server.serve(ServeOptions::new(folder)).await.unwrap();
        let create = format!(
            "kubectl --namespace shop create secret generic edge-{number}-kubeconfig \
             --from-file value={} && kubectl apply -f - <<END
apiVersion: gitops.weave.works/v1alpha1
kind: GitopsCluster
metadata: {{name: edge-{number}, namespace: shop}}
spec: {{secretRef: {{name: edge-{number}-kubeconfig}}}}
END",
            served.kubeconfig().display()
        );
        shell.sh(&create).await.unwrap();
        all.push(EdgeCluster { client, served });
    }
    all
}

async fn until_shown(shell: &mut Shell, text: &str) {
    let show = format!("sluice rollout shop prod --namespace shop | grep -q '{text}'");
    until(shell, &show).await;
}

async fn hub_client(shell: &Shell) -> Client {
    let kubeconfig = Kubeconfig::read_from(shell.folder().join("data/kubeconfig")).unwrap();
    let options = KubeConfigOptions::default();
    let config = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    Client::try_from(config.unwrap()).unwrap()
}

/// `sluice standalone`, which the shell's kubectl uses from then on.
async fn start_hub(shell: &mut Shell) {
    let kubectl = Assets::from_env().unwrap().program("kubectl");
    shell.program("kubectl", &kubectl).unwrap();
    let [api, hooks, rest] = [(); 3].map(|()| free_port());
    let start = format!(
        "sluice standalone --data data --api-port {api} --hooks-port {hooks} --port {rest}"
    );
    shell.background(&start).unwrap();
    let kubeconfig = shell.folder().join("data/kubeconfig");
    shell.set("KUBECONFIG", kubeconfig.to_str().unwrap());
    until(shell, "kubectl get pipelines >/dev/null 2>&1").await;
    let prepare = "kubectl create namespace shop; kubectl create namespace shop-dev
        kubectl --namespace shop create secret generic inputs --from-literal inputs-token=secret";
    shell.sh(prepare).await.unwrap();
}

#[tokio::test]
#[ignore = "needs kubectl: `cargo xtask test --real`"]
async fn a_revision_goes_through_a_fleet_in_waves() {
    let mut shell = shell();
    start_hub(&mut shell).await;
    let hub = hub_client(&shell).await;
    define_flux(&hub).await;
    deploy(&hub, "shop-dev", "1.4.0").await;
    let fleet = fleet(&mut shell).await;
    let guide = Guide::read("docs/fleets.md").unwrap();
    shell.follow_all(guide.under("Rings")).await.unwrap();
    let explain = "sluice explain shop prod --namespace shop";
    until(
        &mut shell,
        &format!("{explain} | grep -q 'prod: runs 1.4.0, ready'"),
    )
    .await;
    deploy(&hub, "shop-dev", "1.5.0").await;
    until_shown(&mut shell, "0 of 1 ready, 1 in flight").await;
    for heading in ["Follow a rollout", "Stop and resume", "Skip a target"] {
        shell.follow_all(guide.under(heading)).await.unwrap();
    }
    // The second wave begins, with as many targets as may change at the same time.
    until_shown(&mut shell, "0 of 3 ready, 2 in flight").await;
    for cluster in &fleet[1..] {
        deploy(&cluster.client, "shop", "1.5.0").await;
    }
    until_shown(&mut shell, "1.5.0 into prod  ended").await;
    shell.follow_all(guide.under("With git")).await.unwrap();
    assert!(fleet.iter().all(|it| it.served.kubeconfig().exists()));
}

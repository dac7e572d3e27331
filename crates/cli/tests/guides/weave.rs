//! docs/migrate-pipeline-controller.md, on a cluster with objects of the Weave pipeline-controller: all are
//! accepted and kept, and Sluice continues their promotions.

use std::{collections::BTreeMap, fs};

use k8s_openapi::api::coordination::v1::Lease;
use kube::{
    Api, Client, Discovery, ResourceExt,
    api::{DynamicObject, ListParams, Patch, PatchParams},
    core::GroupVersionKind,
};
use serde_json::{Value, json};
use testbed::{guide::Guide, shop::ShopPipeline};

use crate::{cluster::Cluster, kubelet};

const NAMESPACE: &str = "pipeline-system";
const NAME: &str = "pipeline-controller";
const PIPELINES: &str = include_str!("weave/pipelines.yaml");
const CLUSTERS: &str = include_str!("weave/clusters.yaml");
const INSTALL: &str = include_str!("weave/install.yaml");
const OBJECTS: &str = include_str!("weave/objects.yaml");
const CHART: &str =
    "apiVersion: v2\nname: pipeline-controller\nversion: 0.22.0\nappVersion: v0.0.31\n";

/// The names that differed between its chart and its plain manifests.
fn manifests(selector: &str, service: &str, port: [&str; 2]) -> String {
    INSTALL
        .replace("SELECTOR", selector)
        .replace("SERVICE", service)
        .replace("NAME", port[0])
        .replace("PORT", port[1])
}

/// Puts the Weave controller into the cluster by its chart.
async fn helm_release(cluster: &mut Cluster) {
    let labels = "app.kubernetes.io/name: pipeline-controller, \
                  app.kubernetes.io/instance: pipeline-controller";
    let templates = manifests(
        labels,
        "pipeline-controller-promotion",
        ["promotion", "8082"],
    );
    let chart = cluster.shell.folder().join("weave");
    for (path, text) in [
        ("Chart.yaml", CHART),
        (
            "values.yaml",
            include_str!("../../../../deploy/chart/ci/weave.yaml"),
        ),
        ("crds/pipelines.yaml", PIPELINES),
        ("templates/all.yaml", &templates),
    ] {
        let file = chart.join(path);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }
    let command = "helm install pipeline-controller weave -n pipeline-system --create-namespace \
                   -f weave/values.yaml";
    cluster.shell.sh(command).await.unwrap();
}

/// The same by its plain manifests, with kubectl.
async fn plain_manifests(cluster: &mut Cluster) {
    let manifests = manifests(
        "app: pipeline-controller",
        "pipeline-promotion",
        ["http", "80"],
    );
    fs::write(cluster.shell.folder().join("weave.yaml"), manifests).unwrap();
    fs::write(cluster.shell.folder().join("crd.yaml"), PIPELINES).unwrap();
    let commands = "kubectl create namespace pipeline-system\n\
                    kubectl apply -f crd.yaml\n\
                    kubectl apply -n pipeline-system -f weave.yaml";
    cluster.shell.sh(commands).await.unwrap();
}

/// What it had to do with, and the statuses that it wrote.
async fn objects(cluster: &mut Cluster) {
    for (name, text) in [("clusters.yaml", CLUSTERS), ("objects.yaml", OBJECTS)] {
        fs::write(cluster.shell.folder().join(name), text).unwrap();
    }
    let commands = "kubectl apply -f clusters.yaml\n\
                    kubectl wait --for=condition=Established crd --all --timeout=60s\n\
                    kubectl apply -f objects.yaml";
    cluster.shell.sh(commands).await.unwrap();
    let objects: Vec<Value> = serde_saphyr::from_multiple(OBJECTS).unwrap();
    for object in objects
        .iter()
        .filter(|object| object.get("status").is_some())
    {
        let api = api(&cluster.client, object["kind"].as_str().unwrap()).await;
        let parameters = PatchParams::apply("pipeline-controller");
        let patch = Patch::Merge(json!({"status": object["status"]}));
        let name = object["metadata"]["name"].as_str().unwrap();
        let patched = api("team").patch_status(name, &parameters, &patch).await;
        patched.unwrap();
    }
}

/// Our older kinds, in any namespace.
async fn api(client: &Client, kind: &str) -> impl Fn(&str) -> Api<DynamicObject> {
    let group = match kind {
        "GitopsCluster" => "gitops.weave.works",
        _ => "pipelines.weave.works",
    };
    let discovery = Discovery::new(client.clone()).run().await.unwrap();
    let kind = GroupVersionKind::gvk(group, "v1alpha1", kind);
    let (resource, _) = discovery.resolve_gvk(&kind).unwrap();
    let client = client.clone();
    move |namespace| Api::namespaced_with(client.clone(), namespace, &resource)
}

/// Everything that people wrote, by name.
async fn specs(shop: &ShopPipeline) -> BTreeMap<String, Value> {
    let mut specs = BTreeMap::new();
    for kind in ["Pipeline", "GitopsCluster"] {
        let api = api(&shop.hub, kind).await;
        for namespace in ["team", "default"] {
            // The server asks for patience after a definition has changed.
            let list = async || api(namespace).list(&ListParams::default()).await.ok();
            let all = shop.until("they cannot be listed", list).await;
            specs.extend(all.into_iter().map(|each| {
                let spec = each.data["spec"].clone();
                (format!("{kind} {namespace}/{}", each.name_any()), spec)
            }));
        }
    }
    specs
}

async fn migrate(cluster: &mut Cluster, way: &str) {
    let guide = Guide::read("docs/migrate-pipeline-controller.md").unwrap();
    let chapters = [
        "1. Make a backup and check the pipelines",
        "2. Apply the CRDs",
        "3. Stop the Weave controller",
        way,
        "5. Check the result",
        "What changes",
    ];
    for chapter in chapters {
        let blocks = guide.under(chapter);
        cluster.shell.follow_all(blocks).await.unwrap();
    }
}

/// Sluice at work where the Weave controller was: takes the Lease and promotes.
async fn takes_over(cluster: &Cluster, shop: &ShopPipeline) {
    let _running = kubelet::run(cluster, shop, NAMESPACE, NAME).await;
    let is_ours = async || {
        let promotions = api(&cluster.client, "Promotion").await;
        let all = promotions("default").list(&ListParams::default()).await;
        let mut all = all.ok()?.into_iter();
        all.find(|each| each.data["status"]["phase"] == "Deploying")
    };
    shop.until("nothing was told", is_ours).await;
    // Whoever is told brings it to git, and Flux to the cluster.
    let path = "clusters/prod/shop.yaml";
    let manifest = shop.repository.read("main", path).await.unwrap();
    let manifest = String::from_utf8(manifest)
        .unwrap()
        .replace("1.0.0", "1.1.0");
    let files = [(path, manifest.as_str())];
    shop.repository
        .commit("main", "Release 1.1.0", &files)
        .await
        .unwrap();
    shop.wait_for_promotion("prod", "1.1.0").await;
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    let lease = leases
        .get("pipeline-controller-leader-election")
        .await
        .unwrap();
    let holder = lease.spec.unwrap().holder_identity.unwrap();
    assert!(!holder.contains("x2x2x"), "{holder}");
    let log = shop.log();
    assert!(!log.to_lowercase().contains("forbidden"), "{log}");
}

/// What was in statuses, and what Sluice made of it.
async fn check_statuses(client: &Client) {
    let clusters = api(client, "GitopsCluster").await;
    let cluster = clusters("team").get("prod").await.unwrap();
    // Somebody else reports on it, so it is left alone.
    let conditions = &cluster.data["status"]["conditions"];
    assert_eq!(conditions[0]["reason"], "Provisioned", "{conditions}");
    let pipelines = api(client, "Pipeline").await;
    let ready = async |name: &str| {
        let pipeline = pipelines("team").get(name).await.unwrap();
        let conditions = pipeline.data["status"]["conditions"].clone();
        let conditions = conditions.as_array().unwrap().clone();
        let ready = conditions.into_iter().find(|each| each["type"] == "Ready");
        ready.unwrap()["reason"].as_str().unwrap().to_owned()
    };
    assert_eq!(ready("odd").await, "InvalidSpec");
    assert_eq!(ready("level").await, "TargetNotReadable");
    assert_eq!(ready("waiting").await, "TargetNotReadable");
}

async fn migrated(is_helm: bool) {
    let mut cluster = Cluster::start().await;
    let way = if is_helm {
        helm_release(&mut cluster).await;
        "Over a Helm release"
    } else {
        plain_manifests(&mut cluster).await;
        "Over plain manifests"
    };
    objects(&mut cluster).await;
    let spec = json!({"promotion": {"strategy": {"notification": {}}}});
    let shop = ShopPipeline::create(cluster.client.clone(), ["1.1.0", "1.0.0"], spec).await;
    let before = specs(&shop).await;
    migrate(&mut cluster, way).await;
    assert_eq!(specs(&shop).await, before);
    takes_over(&cluster, &shop).await;
    assert_eq!(specs(&shop).await, before);
    check_statuses(&cluster.client).await;
    if is_helm {
        goes_back(&mut cluster).await;
        assert_eq!(specs(&shop).await, before);
    }
}

async fn goes_back(cluster: &mut Cluster) {
    let guide = Guide::read("docs/migrate-pipeline-controller.md").unwrap();
    let blocks = guide.under("Going back");
    cluster.shell.follow_all(blocks).await.unwrap();
    let look = "kubectl -n pipeline-system get deployment pipeline-controller \
                -o jsonpath='{.spec.template.spec.containers[0]}'";
    let container: Value = serde_json::from_str(cluster.shell.sh(look).await.unwrap()).unwrap();
    assert_eq!(container["command"], json!(["/manager"]));
    assert_eq!(
        container["image"],
        "ghcr.io/weaveworks/pipeline-controller:v0.0.31"
    );
}

#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn over_a_helm_release_and_back() {
    migrated(true).await;
}

#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn over_plain_manifests() {
    migrated(false).await;
}

//! `sluice tree --objects`: objects of the leaf clusters, read with the caller's permissions.

use kube::{
    Api,
    api::{DynamicObject, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};

use crate::cluster::TestCluster;

pub(crate) async fn put(cluster: &TestCluster, object: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let api_version = text(&object["apiVersion"]);
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let kind = GroupVersionKind::gvk(group, version, &text(&object["kind"]));
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
        Some(namespace) => Api::namespaced_with(cluster.client.clone(), namespace, &resource),
        None => Api::all_with(cluster.client.clone(), &resource),
    };
    let name = text(&object["metadata"]["name"]);
    let parameters = PatchParams::apply("test").force();
    let patched = api.patch(&name, &parameters, &Patch::Apply(object)).await;
    patched.unwrap();
    if !object["status"].is_null() {
        let status = Patch::Merge(json!({"status": object["status"]}));
        let parameters = PatchParams::default();
        api.patch_status(&name, &parameters, &status).await.unwrap();
    }
}

/// A leaf cluster on which the release `web` runs.
async fn leaf() -> TestCluster {
    let leaf = TestCluster::bare().await;
    for definition in testbed::flux::definitions() {
        put(&leaf, &definition).await;
    }
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "web"}});
    put(&leaf, &namespace).await;
    let source = json!({"kind": "HelmRepository", "name": "charts"});
    put(
        &leaf,
        &json!({
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
            "metadata": {"name": "web", "namespace": "web"},
            "spec": {"chart": {"spec": {"chart": "web", "sourceRef": source}}},
            "status": {
                "observedGeneration": 1,
                "conditions": [{"type": "Ready", "status": "True", "reason": "InstallSucceeded"}],
                "history": [{"chartVersion": "1.0.0", "status": "deployed"}],
                "inventory": {"entries": [
                    {"id": "web_web_apps_Deployment", "v": "v1"}, {"id": "web_keys__Secret", "v": "v1"},
                ]},
            },
        }),
    )
    .await;
    let labels = json!({"app": "web"});
    let container = json!({"name": "web", "image": "registry.example.com/web:1.0.0"});
    put(
        &leaf,
        &json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "namespace": "web"},
            "spec": {
                "selector": {"matchLabels": labels},
                "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
            },
        }),
    )
    .await;
    leaf
}

#[tokio::test]
async fn objects_are_read_by_who_may_read_the_kubeconfig() {
    let (cluster, leaf) = (TestCluster::new().await, leaf().await);
    let kubeconfig = std::fs::read_to_string(leaf.kubeconfig()).unwrap();
    let metadata = json!({"name": "eu", "namespace": "default"});
    put(&cluster, &json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": metadata, "stringData": {"value": kubeconfig},
    }))
    .await;
    put(&cluster, &json!({
        "apiVersion": "gitops.weave.works/v1alpha1", "kind": "GitopsCluster", "metadata": metadata,
        "spec": {"secretRef": {"name": "eu"}},
    }))
    .await;
    let output = cluster.prints(&["tree", "web", "prod", "--objects"]).await;
    let expected = "\
default/web
└─ ◇ prod 1.0.0 (awaiting approval)
   └─ ● eu/web (ready)
      └─ ▲ HelmRepository/charts (missing)
         └─ ● HelmRelease/web 1.0.0
            ├─ ◐ Deployment/web (not ready)
            │  ├─ registry.example.com/web:1.0.0
            │  └─ ! 0 of 1 replicas updated
            └─ ○ Secret/keys
";
    assert_eq!(output, expected, "{output}");
    let rules = json!([
        {"apiGroups": ["pipelines.weave.works"], "resources": ["pipelines"], "verbs": ["get"]},
        {"apiGroups": ["gitops.weave.works"], "resources": ["gitopsclusters"], "verbs": ["get"]},
    ]);
    let refused = cluster
        .run_as("vera", rules, &["tree", "web", "prod", "--objects"])
        .await;
    assert_eq!(refused.code, 0, "{}", refused.err);
    assert!(
        refused
            .out
            .contains("! cannot reach eu: cannot read Secret default/eu"),
        "{}",
        refused.out
    );
    assert!(!refused.out.contains(&kubeconfig), "{}", refused.out);
}

//! `sluice inputs`: what Flux Operator on each cluster needs to ask.

use serde_json::{Value, json};

use crate::cluster::offline;

fn pipeline(app: Value, scope: Option<&str>) -> Value {
    let target = |cluster: &str| json!({"namespace": "shop", "clusterRef": {"kind": "GitopsCluster", "name": cluster}});
    let inputs = json!({"resourceSetInputs": {"secretRef": {"name": "inputs"}}});
    json!({
        "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Pipeline",
        "metadata": {"name": "shop", "namespace": "team"},
        "spec": {
            "appRef": app,
            "promotion": {"strategy": inputs},
            "environments": [
                // Nothing is promoted into the first one.
                {"name": "dev", "targets": [{"namespace": "dev"}]},
                {"name": "prod", "targets": [target("eu"), target("us")],
                    "promotion": {"strategy": inputs, "scope": scope}},
            ],
        },
    })
}

async fn printed(pipeline: &Value) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.yaml");
    std::fs::write(&file, pipeline.to_string()).unwrap();
    let address = ["--address", "https://hooks.example.com/"];
    let output = offline(&[&["inputs", file.to_str().unwrap()][..], &address].concat()).await;
    assert_eq!(output.code, 0, "{}", output.err);
    let documents = output.out.split("---\n").skip(1);
    let documents = documents.map(|text| serde_saphyr::from_str(text).unwrap());
    documents.collect()
}

fn helm() -> Value {
    json!({"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "shop"})
}

#[tokio::test]
async fn each_cluster_gets_a_provider_a_secret_and_a_resource_set() {
    let objects = printed(&pipeline(helm(), None)).await;
    let kinds: Vec<_> = objects
        .iter()
        .map(|it| it["kind"].as_str().unwrap())
        .collect();
    let each = ["ResourceSetInputProvider", "Secret", "ResourceSet"];
    assert_eq!(kinds, [each, each].concat());
    let provider = &objects[0]["spec"];
    assert_eq!(provider["type"], "ExternalService");
    let url = "https://hooks.example.com/inputs/team/shop/prod?cluster=eu";
    assert_eq!(provider["url"], url);
    assert_eq!(provider["insecure"], Value::Null);
    assert_eq!(objects[0]["metadata"]["namespace"], "shop");
    let token = objects[1]["stringData"]["token"].as_str().unwrap();
    assert!(
        token.contains("inputs-token in the Secret team/inputs"),
        "{token}"
    );
    assert_eq!(
        provider["secretRef"]["name"],
        objects[1]["metadata"]["name"]
    );
    let set = &objects[2]["spec"];
    let depends = &set["dependsOn"][0];
    assert_eq!(depends["name"], objects[0]["metadata"]["name"]);
    assert_eq!(
        (&depends["namespace"], &depends["ready"]),
        (&json!("shop"), &json!(true))
    );
    assert_eq!(depends["readyExpr"], "size(status.exportedInputs) > 0");
    let annotations = &set["commonMetadata"]["annotations"];
    assert_eq!(annotations["fluxcd.controlplane.io/prune"], "disabled");
    assert_eq!(
        set["resources"][0]["spec"]["ref"]["tag"],
        "<< inputs.version | quote >>"
    );
    assert_eq!(set["resources"][1]["kind"], "HelmRelease");
}

#[tokio::test]
async fn kustomizations_pin_the_digest_and_targets_name_their_namespace() {
    let app = json!({
        "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "name": "shop",
    });
    let objects = printed(&pipeline(app, Some("Target"))).await;
    let url = objects[0]["spec"]["url"].as_str().unwrap();
    assert!(url.ends_with("?cluster=eu&namespace=shop"), "{url}");
    let resources = &objects[2]["spec"]["resources"];
    assert_eq!(
        resources[0]["spec"]["ref"]["digest"],
        "<< inputs.revision | quote >>"
    );
    assert_eq!(resources[1]["kind"], "Kustomization");
}

#[tokio::test]
async fn a_pipeline_that_publishes_nothing_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("shop.yaml");
    std::fs::write(&file, crate::cluster::pipeline().to_string()).unwrap();
    let output = offline(&["inputs", file.to_str().unwrap()]).await;
    assert_eq!(output.code, 1, "{}", output.out);
    assert!(
        output.err.contains("set strategy.resourceSetInputs"),
        "{}",
        output.err
    );
}

/// The strategy of prod in a pipeline that is created with these flags.
async fn created_strategy(app: &str, flags: &[&str]) -> Value {
    let typed = ["create", "pipeline", "shop", "--export", "--app", app];
    let environments = ["-e", "dev=shop-dev", "-e", "prod=shop@eu"];
    let output = offline(&[&typed[..], &environments, flags].concat()).await;
    assert_eq!(output.code, 0, "{}", output.err);
    let (code, findings) = crate::offline::lint(&output.out, &[]).await;
    assert_eq!((code, findings.as_str()), (0, ""), "{}", output.out);
    let manifest: Value = serde_saphyr::from_str(&output.out).unwrap();
    manifest["spec"]["promotion"]["strategy"].clone()
}

#[tokio::test]
async fn pipelines_without_git_are_created_from_flags() {
    let url = "oci://registry.example.com/shop";
    let flags = ["--url", url, "--secret", "registry"];
    let strategy = created_strategy("Kustomization/shop", &flags).await;
    let typed = [
        "create",
        "pipeline",
        "shop",
        "--export",
        "--app",
        "Kustomization/shop",
    ];
    let unusable = ["-e", "dev=shop", "--feedback", "comment"];
    let refused = offline(&[&typed[..], &flags, &unusable].concat()).await;
    assert_eq!(refused.code, 2, "{}", refused.err);
    assert!(
        refused.err.contains("--feedback is for pull requests"),
        "{}",
        refused.err
    );
    let oci = json!({"url": url, "tag": "${environment}", "secretRef": {"name": "registry"}});
    assert_eq!(strategy, json!({"oci": oci}));
    let flags = ["--inputs", "--secret", "inputs"];
    let strategy = created_strategy("ResourceSet/shop", &flags).await;
    let inputs = json!({"secretRef": {"name": "inputs"}});
    assert_eq!(strategy, json!({"resourceSetInputs": inputs}));
}

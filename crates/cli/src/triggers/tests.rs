use apiserver::Server;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    ResourceExt,
    api::{Patch, PatchParams, PostParams},
    core::GroupVersionKind,
};

use super::*;

fn image_definition(kind: &str, plural: &str) -> CustomResourceDefinition {
    let anything = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
    let definition = json!({
        "metadata": { "name": format!("{plural}.image.toolkit.fluxcd.io") },
        "spec": {
            "group": "image.toolkit.fluxcd.io", "scope": "Namespaced",
            "names": { "kind": kind, "plural": plural },
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": { "status": {} },
                "schema": { "openAPIV3Schema": { "type": "object", "properties": { "spec": anything, "status": anything } } }
            }]
        }
    });
    serde_json::from_value(definition).unwrap()
}

async fn create(client: &Client, resource: (&str, &str, &str, &str), mut object: Value) {
    let (group, version, kind, plural) = resource;
    object["apiVersion"] = json!(format!("{group}/{version}"));
    object["kind"] = json!(kind);
    let kind = GroupVersionKind::gvk(group, version, kind);
    let resource = ApiResource::from_gvk_with_plural(&kind, plural);
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &resource);
    let created: DynamicObject = serde_json::from_value(object.clone()).unwrap();
    let created = api.create(&PostParams::default(), &created).await.unwrap();
    if let Some(status) = object.get("status") {
        let patch = Patch::Merge(json!({ "status": status }));
        api.patch_status(&created.name_any(), &PatchParams::default(), &patch)
            .await
            .unwrap();
    }
}

async fn cluster() -> Client {
    let client = Server::in_memory().client();
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let images = [
        image_definition("ImagePolicy", "imagepolicies"),
        image_definition("ImageUpdateAutomation", "imageupdateautomations"),
    ];
    for definition in api::crds().iter().chain(&images) {
        definitions
            .create(&PostParams::default(), definition)
            .await
            .unwrap();
    }
    let image = |kind, plural| ("image.toolkit.fluxcd.io", "v1", kind, plural);
    let policy = json!({ "metadata": { "name": "shop" }, "status": { "latestRef": { "name": "r.example/shop", "tag": "v2" } } });
    create(&client, image("ImagePolicy", "imagepolicies"), policy).await;
    let automation = json!({ "metadata": { "name": "writer" }, "status": { "observedPolicies": { "shop": {} } } });
    create(
        &client,
        image("ImageUpdateAutomation", "imageupdateautomations"),
        automation,
    )
    .await;
    let pipeline = json!({ "metadata": { "name": "shop" }, "spec": {
        "appRef": { "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization", "name": "shop" },
        "source": { "kind": "Hook" }, "track": { "image": "r.example/shop" },
        "environments": [{ "name": "dev", "targets": [{ "namespace": "shop" }] }]
    } });
    create(
        &client,
        ("pipelines.weave.works", "v1alpha1", "Pipeline", "pipelines"),
        pipeline,
    )
    .await;
    let trigger = json!({
        "metadata": { "name": "delivery", "labels": { "pipelines.weave.works/pipeline": "shop" } },
        "spec": { "source": { "kind": "GitRepository", "name": "code" }, "pipelineRunSpec": {} }
    });
    create(
        &client,
        (
            "pipeline.jquad.rocks",
            "v1alpha1",
            "PipelineTrigger",
            "pipelinetriggers",
        ),
        trigger,
    )
    .await;
    client
}

async fn shown(client: &Client, pipeline: &str, output: TriggersOutput) -> anyhow::Result<String> {
    let arguments = Arguments {
        pipeline: pipeline.to_owned(),
        output,
        hook_url: "https://hooks.example/".to_owned(),
        connection: commands::ClusterFlags::default(),
    };
    let mut out = Vec::new();
    let cluster = Cluster {
        client: client.clone(),
        namespace: "default".to_owned(),
    };
    write(&cluster, &arguments, &mut out).await?;
    Ok(String::from_utf8(out)?)
}

#[tokio::test]
async fn the_table_lists_all_triggers_of_a_pipeline() {
    let client = cluster().await;
    let table = shown(&client, "shop", TriggersOutput::Table).await.unwrap();
    let cells = |line: &str| {
        let cells = line
            .split("  ")
            .map(str::trim)
            .filter(|cell| !cell.is_empty());
        cells.map(str::to_owned).collect::<Vec<_>>().join(" | ")
    };
    assert_eq!(
        table.lines().map(cells).collect::<Vec<_>>(),
        [
            "KIND | NAME | WHAT IT DOES",
            "Hook | https://hooks.example/release/default/shop | proposes revisions to the first environment",
            "ImageUpdateAutomation | default/writer | writes to git what shop chooses",
            "ImagePolicy | default/shop | chooses r.example/shop v2, an image of the pipeline",
            "PipelineTrigger | default/delivery | starts Tekton runs for GitRepository code",
            "Hook | https://hooks.example/promotion/default/shop/dev | takes reports of what runs in dev",
        ]
    );
    let column = table.find("NAME");
    let starts = |line: &str| column.is_some_and(|at| !line[at..].starts_with(' '));
    assert!(table.lines().all(starts), "{table}");
}

#[tokio::test]
async fn json_output_lists_the_same_triggers() {
    let client = cluster().await;
    let text = shown(&client, "shop", TriggersOutput::Json).await.unwrap();
    let list: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(list[3]["kind"], "PipelineTrigger");
    assert_eq!(list[3]["namespace"], "default");
    assert_eq!(list.as_array().unwrap().len(), 5);
    let text = shown(&client, "default/shop", TriggersOutput::Yaml).await;
    let yaml: Value = serde_saphyr::from_str(&text.unwrap()).unwrap();
    assert_eq!(yaml, list);
}

#[tokio::test]
async fn the_error_names_a_missing_pipeline() {
    let client = cluster().await;
    for (name, hint) in [
        ("shpo", "did you mean shop?"),
        ("else", "namespace default has shop"),
    ] {
        let error = shown(&client, name, TriggersOutput::Table).await;
        assert_eq!(
            commands::error_text(&error.unwrap_err()),
            format!("there is no pipeline {name} in namespace default: {hint}")
        );
    }
}

#[tokio::test]
async fn without_flux_image_automation_the_rest_is_listed() {
    let client = cluster().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for plural in ["imagepolicies", "imageupdateautomations"] {
        let name = format!("{plural}.image.toolkit.fluxcd.io");
        definitions
            .delete(&name, &Default::default())
            .await
            .unwrap();
    }
    let table = shown(&client, "shop", TriggersOutput::Table).await.unwrap();
    assert!(table.contains("default/delivery") && !table.contains("ImagePolicy"));
}

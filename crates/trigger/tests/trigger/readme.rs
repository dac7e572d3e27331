//! The two examples of the operator's README: from applied manifests to the described status and run.

use serde_json::json;

use crate::cluster::{Cluster, name};

const PIPELINE: &str = "
apiVersion: tekton.dev/v1
kind: Pipeline
metadata: { name: build-and-push-pipeline, namespace: jq-example-namespace }
spec:
  params: [{ name: repo-url, type: string }]
  tasks: []
";

fn trigger(name: &str, kind: &str, source: &str) -> String {
    format!(
        r#"
apiVersion: pipeline.jquad.rocks/v1alpha1
kind: PipelineTrigger
metadata:
  name: {name}
  namespace: jq-example-namespace
spec:
  source:
    kind: {kind}
    name: {source}
  pipeline:
    name: build-and-push-pipeline
    serviceAccountName: build-bot
    maxHistory: 5
    retries: 3
    workspace:
      name: workspace
      size: 1Gi
      accessMode: ReadWriteOnce
    inputParams:
      - name: "repo-url"
        value: "https://git.example/my-project.git"
      - name: "branch-name"
        value: "main"
      - name: "commit-id"
        value: "03da4fdbf8f3e027fb56dd0d96244c951a24f2b4"
"#
    )
}

#[tokio::test(start_paused = true)]
async fn example_1_a_git_push() {
    push_to_git(&Cluster::whole().await).await;
}

#[tokio::test(start_paused = true)]
async fn example_2_a_new_base_image() {
    release_a_base_image(&Cluster::whole().await).await;
}

/// Tekton and Flux are installed when everything runs already.
#[tokio::test]
#[ignore = "needs a real kube-apiserver: cargo xtask test --real"]
async fn both_examples_on_a_real_server() {
    let cluster = Cluster::real().await;
    cluster.start();
    cluster.install_all().await;
    push_to_git(&cluster).await;
    release_a_base_image(&cluster).await;
}

async fn push_to_git(cluster: &Cluster) {
    let git = json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
        "metadata": { "name": "microservice-code-repo", "namespace": "jq-example-namespace" },
        "spec": { "url": "https://git.example/microservice.git" }
    });
    cluster.apply(&git).await;
    let revision = "main/03da4fdbf8f3e027fb56dd0d96244c951a24f2b4";
    cluster.push("microservice-code-repo", revision).await;
    cluster.apply_yaml(PIPELINE).await;
    let text = trigger(
        "pipelinetrigger-for-git-project",
        "GitRepository",
        "microservice-code-repo",
    )
    .replace("value: \"main\"", "value: \"$(branch)\"")
    .replace(
        "value: \"03da4fdbf8f3e027fb56dd0d96244c951a24f2b4\"",
        "value: \"$(commit)\"",
    );
    cluster.apply_yaml(&text).await;

    let runs = cluster.wait_for_runs(1).await;
    let run = name(&runs[0]);
    assert!(run.starts_with("pipelinetrigger-for-git-project-"), "{run}");
    assert_eq!(
        runs[0]["spec"],
        json!({
            "pipelineRef": { "name": "build-and-push-pipeline" },
            "params": [
                { "name": "repo-url", "value": "https://git.example/my-project.git" },
                { "name": "branch-name", "value": "main" },
                { "name": "commit-id", "value": "03da4fdbf8f3e027fb56dd0d96244c951a24f2b4" }
            ],
            "taskRunTemplate": { "serviceAccountName": "build-bot" },
            "workspaces": [{ "name": "workspace", "volumeClaimTemplate": { "spec": {
                "accessModes": ["ReadWriteOnce"], "resources": { "requests": { "storage": "1Gi" } } } } }]
        })
    );
    cluster.finish(&run, "True", "Succeeded").await;
    let status = cluster
        .wait_for_ready("pipelinetrigger-for-git-project", "True Succeeded")
        .await;
    assert_eq!(status["latestEvent"], revision);
    assert_eq!(status["latestPipelineRun"], json!(run));
    let condition = &status["conditions"][0];
    assert_eq!(
        (
            &condition["type"],
            &condition["status"],
            &condition["reason"],
            &condition["message"]
        ),
        (
            &json!("Success"),
            &json!("True"),
            &json!("Succeded"),
            &json!("")
        )
    );
    assert_eq!(condition["observedGeneration"], 1);

    let note = format!(
        "Source microservice-code-repo in namespace jq-example-namespace got new event {revision}"
    );
    let event = cluster
        .wait_for("the event", async || {
            let events = cluster
                .objects("Event")
                .list(&Default::default())
                .await
                .ok()?;
            let mut events = events.items.into_iter();
            events.find(|event| event.data["note"] == json!(note))
        })
        .await;
    assert_eq!(
        (&event.data["type"], &event.data["reason"]),
        (&json!("Normal"), &json!("Info"))
    );
    assert_eq!(event.data["reportingController"], "PipelineTrigger");
}

async fn release_a_base_image(cluster: &Cluster) {
    cluster.apply_yaml(PIPELINE).await;
    let before = cluster.runs().await.len();
    let text = trigger(
        "pipelinetrigger-sample-image",
        "ImagePolicy",
        "latest-image-notifier",
    );
    cluster.apply_yaml(&text).await;
    cluster
        .wait_for_ready(
            "pipelinetrigger-sample-image",
            "False SourceNotFound: imagepolicies.image.toolkit.fluxcd.io \"latest-image-notifier\" not found",
        )
        .await;
    let policy = json!({
        "apiVersion": "image.toolkit.fluxcd.io/v1", "kind": "ImagePolicy",
        "metadata": { "name": "latest-image-notifier", "namespace": "jq-example-namespace" },
        "spec": { "imageRepositoryRef": { "name": "base" } }
    });
    cluster.apply(&policy).await;
    cluster
        .wait_for_ready("pipelinetrigger-sample-image", "Unknown NoRevision")
        .await;
    let image = json!({ "latestImage": "registry.example/library/base:1.2.0" });
    cluster
        .set_status("ImagePolicy", "latest-image-notifier", image)
        .await;
    let runs = cluster.wait_for_runs(before + 1).await;
    let run = runs.last().unwrap();
    let labels = &run["metadata"]["labels"];
    assert_eq!(labels["pipeline.jquad.rocks/ip.image.name"], "base");
    assert_eq!(labels["pipeline.jquad.rocks/ip.image.version"], "1.2.0");
    cluster.finish(&name(run), "True", "Succeeded").await;
    let status = cluster
        .wait_for_ready("pipelinetrigger-sample-image", "True Succeeded")
        .await;
    assert_eq!(status["latestEvent"], "registry.example/library/base:1.2.0");
    assert_eq!(status["imagePolicy"]["imageVersion"], "1.2.0");
}

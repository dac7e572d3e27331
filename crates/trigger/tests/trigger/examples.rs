//! The manifests under examples/ and in the guide: accepted, and they do what they say.

use serde_json::json;
use testbed::guide::Guide;

use crate::cluster::{Cluster, name};

const SHOP: &str = "shop-ci";
const COMMIT: &str = "5394cb7f48332b2de7c17dd8b8384bbc84b7e738";

async fn apply(cluster: &Cluster, path: &str) {
    let path = format!("{}/../../examples/{path}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    cluster.apply_yaml(&text).await;
}

async fn push(cluster: &Cluster) {
    let artifact = json!({ "revision": format!("main@sha1:{COMMIT}"), "path": "gitrepository/shop-ci/shop/x.tar.gz" });
    cluster
        .set_status("GitRepository", "shop", json!({ "artifact": artifact }))
        .await;
}

/// The commands of the guide, in their order.
fn commands() -> Vec<String> {
    let guide = Guide::read("docs/tekton.md").unwrap();
    let blocks = guide.blocks().iter().filter(|block| block.fence == "sh");
    let text = blocks.map(|block| block.text.as_str()).collect::<String>();
    text.replace("\\\n", " ")
        .lines()
        .map(str::to_owned)
        .collect()
}

/// Does what a command of the guide says; one that nobody tried is refused.
async fn follow(cluster: &Cluster, command: &str) {
    match command.split_whitespace().collect::<Vec<_>>().as_slice() {
        ["kubectl", "apply", "-f", file] => {
            apply(cluster, file.strip_prefix("examples/").unwrap()).await;
        }
        ["kubectl", "create", "namespace", name] => assert_eq!(*name, SHOP),
        ["kubectl", "get", "pipelinetriggers", "-n", namespace] => assert_eq!(*namespace, SHOP),
        [
            "kubectl",
            "annotate",
            "--overwrite",
            "pipelinetrigger",
            name,
            "-n",
            _,
            annotation,
        ] => {
            let (key, value) = annotation.split_once('=').unwrap();
            let patch = json!({ "metadata": { "annotations": { key: value } } });
            cluster.change("PipelineTrigger", name, patch).await;
        }
        // Tried by tests of the command line.
        ["sluice", ..] => {}
        _ => panic!("the guide says {command:?}, which nobody tries"),
    }
}

#[tokio::test(start_paused = true)]
async fn the_guide_from_push_to_run() {
    let cluster = Cluster::whole_in(SHOP).await;
    let commands = commands();
    let (asking, setting_up): (Vec<_>, Vec<_>) =
        commands.iter().partition(|line| line.contains("annotate"));
    for command in setting_up {
        follow(&cluster, command).await;
    }
    push(&cluster).await;
    let runs = cluster.wait_for_runs(1).await;
    assert!(name(&runs[0]).starts_with("shop-delivery-"));
    assert_eq!(
        runs[0]["spec"]["params"],
        json!([
            { "name": "repository", "value": "https://git.example/shop/shop.git" },
            { "name": "commit", "value": COMMIT },
            { "name": "tag", "value": "main-5394cb7" },
        ])
    );
    cluster.finish(&name(&runs[0]), "True", "Succeeded").await;
    cluster
        .wait_for_ready("shop-delivery", "True Succeeded")
        .await;
    assert_eq!(asking.len(), 1);
    follow(&cluster, asking[0]).await;
    cluster.wait_for_runs(2).await;
}

#[tokio::test(start_paused = true)]
async fn the_other_examples() {
    let cluster = Cluster::whole_in(SHOP).await;
    for file in ["gitrepository", "tekton-pipeline", "pipelinetrigger"] {
        apply(&cluster, &format!("git-push/{file}.yaml")).await;
    }
    for file in ["imagerepository", "imagepolicy", "pipelinetrigger"] {
        apply(&cluster, &format!("base-image/{file}.yaml")).await;
    }
    apply(&cluster, "tekton/2-delivery.yaml").await;
    for file in ["pullrequest", "pipelinetrigger"] {
        apply(&cluster, &format!("pull-requests/{file}.yaml")).await;
    }
    push(&cluster).await;
    let image =
        json!({ "name": "registry.example/library/base", "tag": "1.2.0", "digest": "sha256:ab" });
    cluster
        .set_status("ImagePolicy", "base", json!({ "latestRef": image }))
        .await;
    let branch = json!({ "name": "fix", "commit": "0123456789", "details": "{\"head\":{\"sha\":\"0123456789\"}}" });
    cluster
        .set_status(
            "PullRequest",
            "shop",
            json!({ "sourceBranches": { "branches": [branch] } }),
        )
        .await;
    let runs = cluster.wait_for_runs(3).await;
    let parameters = |prefix: &str| {
        let run = runs.iter().find(|run| name(run).starts_with(prefix));
        run.unwrap_or_else(|| panic!("a run {prefix}"))["spec"]["params"].clone()
    };
    assert_eq!(parameters("shop-push-")[1]["value"], COMMIT);
    assert_eq!(
        parameters("shop-base-")[0]["value"],
        "registry.example/library/base:1.2.0@sha256:ab"
    );
    assert_eq!(parameters("shop-base-")[1]["value"], "base-1.2.0");
    assert_eq!(parameters("fix-")[1]["value"], "0123456789");
    assert_eq!(parameters("fix-")[3]["value"], "pull-request-0123456");
}

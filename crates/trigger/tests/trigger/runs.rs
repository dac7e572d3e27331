//! The lifecycle of a trigger in a cluster: retries, history, requests, leadership, deletion.

use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::cluster::{Cluster, NAMESPACE, name, ready};

fn repository(name: &str) -> Value {
    json!({
        "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": { "url": "https://git.example/shop.git" },
        "status": { "artifact": { "revision": "main@sha1:a0", "path": format!("gitrepository/{NAMESPACE}/{name}/x.tar.gz") } }
    })
}

fn trigger(name: &str, spec: Value) -> Value {
    let mut spec = spec;
    spec["source"] = json!({ "kind": "GitRepository", "name": "shop" });
    json!({
        "apiVersion": "pipeline.jquad.rocks/v1alpha1", "kind": "PipelineTrigger",
        "metadata": { "name": name, "namespace": NAMESPACE }, "spec": spec
    })
}

fn whole_run() -> Value {
    json!({ "pipelineRun": { "apiVersion": "tekton.dev/v1", "kind": "PipelineRun", "spec": { "pipelineSpec": { "tasks": [] } } } })
}

async fn shop(spec: Value) -> Cluster {
    let cluster = Cluster::whole().await;
    let pipeline = json!({ "apiVersion": "tekton.dev/v1", "kind": "Pipeline", "metadata": { "name": "build", "namespace": NAMESPACE }, "spec": {} });
    cluster.apply(&pipeline).await;
    cluster.apply(&repository("shop")).await;
    cluster.apply(&trigger("shop", spec)).await;
    cluster
}

#[tokio::test(start_paused = true)]
async fn a_whole_run_from_push_to_success() {
    let cluster = shop(whole_run()).await;
    let runs = cluster.wait_for_runs(1).await;
    let run = name(&runs[0]);
    cluster.wait_for_ready("shop", "Unknown Running").await;
    cluster.finish(&run, "Unknown", "Running").await;
    cluster
        .wait_for_ready("shop", &format!("Unknown Running: {run} is running"))
        .await;
    cluster.finish(&run, "True", "Succeeded").await;
    let status = cluster.wait_for_ready("shop", "True Succeeded").await;
    let block = &status["gitRepository"];
    let types: Vec<_> = block["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["type"].as_str().unwrap())
        .collect();
    assert_eq!(types, ["Unknown", "InProgress", "Success"]);
    assert_eq!(
        block["details"],
        r#"{"branchName":"main","commitId":"a0","repositoryName":"shop"}"#
    );
    assert_eq!(block["latestPipelineRun"], json!(run));
    assert_eq!(
        runs[0]["metadata"]["ownerReferences"][0]["kind"],
        "PipelineTrigger"
    );
    cluster.settle().await;
    assert_eq!(cluster.runs().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn going_back_runs_again_and_an_unchanged_trigger_is_not_written() {
    let cluster = shop(whole_run()).await;
    cluster.wait_for_runs(1).await;
    for (number, commit) in ["b0", "a0", "b0"].into_iter().enumerate() {
        cluster.push("shop", &format!("main@sha1:{commit}")).await;
        cluster.wait_for_runs(number + 2).await;
    }
    cluster.settle().await;
    let version = cluster.trigger("shop").await.metadata.resource_version;
    let writes = cluster.writes();
    // Changes that are none of its business.
    cluster
        .set_status("GitRepository", "shop", json!({ "observedGeneration": 7 }))
        .await;
    cluster.settle().await;
    assert_eq!(
        cluster.trigger("shop").await.metadata.resource_version,
        version
    );
    assert_eq!(cluster.writes(), writes);
}

#[tokio::test(start_paused = true)]
async fn failed_runs_are_retried_and_old_ones_deleted() {
    let pipeline = json!({ "pipeline": { "name": "build", "retries": 3, "maxHistory": 2 } });
    let cluster = shop(pipeline).await;
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..4 {
        let newest = cluster
            .wait_for("another run", async || {
                let runs = cluster.runs().await;
                runs.iter().map(name).find(|run| !seen.contains(run))
            })
            .await;
        cluster.finish(&newest, "False", "Failed").await;
        seen.insert(newest);
    }
    let status = cluster.wait_for_ready("shop", "False Failed").await;
    assert_eq!(status["currentPipelineRetry"], 3);
    cluster.settle().await;
    let left: Vec<String> = cluster.runs().await.iter().map(name).collect();
    assert_eq!(left.len(), 2);
    assert!(
        left.iter().all(|run| seen.contains(run)),
        "no fifth run: {left:?}"
    );
    let status = cluster.status("shop").await;
    assert_eq!(status["conditions"][0]["type"], "Error");
    assert!(left.contains(&status["latestPipelineRun"].as_str().unwrap().to_owned()));
}

#[tokio::test(start_paused = true)]
async fn several_pull_requests_at_once() {
    let cluster = Cluster::whole().await;
    let details = |id: u64| json!({ "id": id }).to_string();
    cluster
        .apply(&json!({
            "apiVersion": "pipeline.jquad.rocks/v1alpha1", "kind": "PullRequest",
            "metadata": { "name": "prs", "namespace": NAMESPACE }, "spec": {},
            "status": { "sourceBranches": { "branches": [
                { "name": "feature/a", "commit": "c1", "details": details(1) },
                { "name": "feature/b", "commit": "c2", "details": details(2) },
            ] } }
        }))
        .await;
    let mut manifest = trigger("prs", whole_run());
    manifest["spec"]["source"] = json!({ "apiVersion": "pipeline.jquad.rocks/v1alpha1", "kind": "PullRequest", "name": "prs" });
    manifest["spec"]["pipelineRun"]["spec"]["params"] = json!([{ "name": "id", "value": "$.id" }]);
    cluster.apply(&manifest).await;
    let runs = cluster.wait_for_runs(2).await;
    let mut shown: Vec<_> = runs
        .iter()
        .map(|run| {
            format!(
                "{} {}",
                run["metadata"]["labels"]["pipeline.jquad.rocks/pr.branch.name"],
                run["spec"]["params"][0]["value"]
            )
        })
        .collect();
    shown.sort();
    assert_eq!(shown, [r#""feature-a" "1""#, r#""feature-b" "2""#]);
    // Its producer forgets and recalls branches.
    for branches in [
        json!([{ "name": "feature/a", "commit": "c1", "details": "{\"id\":1}" }]),
        json!([]),
        json!([{ "name": "feature/b", "commit": "c2", "details": "{\"id\":2}" }]),
    ] {
        cluster
            .set_status(
                "PullRequest",
                "prs",
                json!({ "sourceBranches": { "branches": branches } }),
            )
            .await;
        cluster.settle().await;
        assert_eq!(cluster.runs().await.len(), 2);
    }
    let branches = &cluster.status("prs").await["branches"]["branch"];
    assert_eq!(branches["feature/a"]["commit"], "c1");
}

#[tokio::test(start_paused = true)]
async fn a_request_runs_again() {
    let cluster = shop(whole_run()).await;
    cluster.wait_for_runs(1).await;
    let annotate = json!({ "metadata": { "annotations": { "pipeline.jquad.rocks/requestedAt": "2026-01-01" } } });
    cluster.change("PipelineTrigger", "shop", annotate).await;
    cluster.wait_for_runs(2).await;
    cluster.settle().await;
    assert_eq!(cluster.runs().await.len(), 2);
    assert_eq!(
        cluster.status("shop").await["lastHandledReconcileAt"],
        "2026-01-01"
    );
}

#[tokio::test(start_paused = true)]
async fn runs_go_with_their_trigger() {
    let cluster = shop(whole_run()).await;
    cluster.wait_for_runs(1).await;
    let gone = cluster
        .objects("PipelineTrigger")
        .delete("shop", &DeleteParams::background())
        .await;
    gone.unwrap();
    cluster.wait_for_runs(0).await;
}

#[tokio::test(start_paused = true)]
async fn replace_cancels_the_run_before() {
    let mut spec = whole_run();
    spec["concurrency"] = json!("Replace");
    let cluster = shop(spec).await;
    let first = name(&cluster.wait_for_runs(1).await[0]);
    cluster.push("shop", "main@sha1:b0").await;
    let runs = cluster.wait_for_runs(2).await;
    let cancelled: Vec<_> = runs
        .iter()
        .filter(|run| run["spec"]["status"] == "Cancelled")
        .map(name)
        .collect();
    assert_eq!(cancelled, [first]);
}

#[tokio::test(start_paused = true)]
async fn b2_a_refused_creation_is_retried() {
    let cluster = Cluster::bare(1).await;
    cluster.install_all().await;
    // Another object holds the only name this trigger's first run can have.
    cluster.apply(&repository("shop")).await;
    cluster.apply(&trigger("shop", whole_run())).await;
    let uid = cluster.trigger("shop").await.metadata.uid.unwrap();
    let squatter = format!(
        "main-{}",
        api::names::short_hash(&[&uid, "main@sha1:a0", ""])
    );
    let run = json!({ "apiVersion": "tekton.dev/v1", "kind": "PipelineRun", "metadata": { "name": squatter, "namespace": NAMESPACE }, "spec": {} });
    cluster.apply(&run).await;
    cluster.start();
    let message = format!("pipelineruns.tekton.dev \"{squatter}\" already exists and is not ours");
    let status = cluster.wait_for_ready("shop", "False CreateFailed").await;
    assert_eq!(ready(&status), format!("False CreateFailed: {message}"));
    assert_eq!(status["gitRepository"]["conditions"][0]["type"], "Error");
    cluster
        .objects("PipelineRun")
        .delete(&squatter, &DeleteParams::background())
        .await
        .unwrap();
    cluster.wait_for_ready("shop", "Unknown Running").await;
    let runs = cluster.wait_for_runs(1).await;
    assert_eq!(runs[0]["metadata"]["ownerReferences"][0]["uid"], json!(uid));
}

#[tokio::test(start_paused = true)]
async fn b15_a_managed_credential_changes_the_run() {
    let cluster = Cluster::whole().await;
    cluster
        .apply(&json!({
            "apiVersion": "credentials.jquad.rocks/v1alpha1", "kind": "ManagedCredential",
            "metadata": { "name": "git", "namespace": NAMESPACE }, "spec": {},
            "status": { "serviceAccountRef": { "name": "robot" }, "secretRef": { "name": "token" } }
        }))
        .await;
    cluster.apply(&repository("shop")).await;
    let mut manifest = trigger("shop", whole_run());
    manifest["spec"]["credentialsRef"] = json!({ "name": "git" });
    cluster.apply(&manifest).await;
    let runs = cluster.wait_for_runs(1).await;
    assert_eq!(
        runs[0]["spec"]["taskRunTemplate"]["serviceAccountName"],
        "robot"
    );
    assert_eq!(
        runs[0]["spec"]["workspaces"],
        json!([{ "name": "token", "secret": { "secretName": "token" } }])
    );
}

#[tokio::test(start_paused = true)]
async fn b9_two_triggers_on_one_source_both_run() {
    let cluster = shop(whole_run()).await;
    cluster.apply(&trigger("second", whole_run())).await;
    let runs = cluster.wait_for_runs(2).await;
    let mut owners: Vec<_> = runs
        .iter()
        .map(|run| {
            run["metadata"]["ownerReferences"][0]["name"]
                .as_str()
                .unwrap()
        })
        .collect();
    owners.sort_unstable();
    assert_eq!(owners, ["second", "shop"]);
}

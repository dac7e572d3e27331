//! Commands that only read.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::ChildStdout,
};

use crate::cluster::{TestCluster, offline, settled};

pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);

/// Compares line by line; `…` at the end of an expected line stands for anything.
#[track_caller]
pub(crate) fn check(output: &str, expected: &str) {
    let expected = expected
        .trim()
        .lines()
        .map(|it| it.strip_prefix("        ").unwrap_or(it));
    let expected: Vec<&str> = expected.collect();
    let output: Vec<&str> = output.lines().map(str::trim_end).collect();
    let fits = |(output, expected): (&&str, &&str)| match expected.strip_suffix('…') {
        Some(start) => output.starts_with(start),
        None => output == expected,
    };
    let all_fit = output.len() == expected.len() && output.iter().zip(&expected).all(fits);
    assert!(
        all_fit,
        "output\n{}\nexpected\n{}",
        output.join("\n"),
        expected.join("\n")
    );
}

#[tokio::test]
async fn get_lists_in_every_form() {
    let cluster = TestCluster::new().await;
    check(
        &cluster.prints(&["get", "pipelines"]).await,
        "
        NAME   STATE                      ENVIRONMENTS             APP               AGE
        web    ◇ prod awaiting approval   dev 2.0.0 > prod 1.0.0   HelmRelease/web   …",
    );
    check(
        &cluster
            .prints(&["get", "promotions", "-A", "-o", "wide"])
            .await,
        "
        NAMESPACE   PIPELINE   ENVIRONMENT   PHASE              REVISION   BY   AGE   NAME …
        default     web        prod          AwaitingApproval   2.0.0      -    …",
    );
    let names = cluster.prints(&["get", "pipeline", "-o", "name"]).await;
    assert_eq!(names, "pipeline.pipelines.weave.works/web\n");
    let one = cluster
        .prints(&["get", "pipelines", "web", "-o", "json"])
        .await;
    let one: Value = serde_json::from_str(&one).unwrap();
    assert_eq!(
        (&one["kind"], &one["metadata"]["name"]),
        (&json!("Pipeline"), &json!("web"))
    );
    assert!(one["metadata"].get("managedFields").is_none());
    let yaml = cluster.prints(&["get", "pipelines", "-o", "yaml"]).await;
    let list: Value = serde_saphyr::from_str(&yaml).unwrap();
    assert_eq!(list["items"][0]["spec"]["appRef"]["name"], "web");
    let none = cluster.run(&["get", "pipelines", "-l", "team=other"]).await;
    assert_eq!((none.code, none.out.as_str()), (0, ""));
    assert!(
        none.err.contains("no pipelines in namespace default"),
        "{}",
        none.err
    );
    for kind in ["triggers", "clusters"] {
        assert_eq!(cluster.prints(&["get", kind]).await, "");
    }
}

#[tokio::test]
async fn status_says_what_each_environment_comes_after_where_they_branch() {
    let cluster = TestCluster::new().await;
    let environment = |name: &str, after: &[&str]| json!({"name": name, "targets": [{"namespace": name}], "after": after});
    let environments = json!([
        environment("dev", &[]),
        environment("eu", &["dev"]),
        environment("us", &["dev"]),
        environment("prod", &["eu", "us"]),
    ]);
    cluster.set_environments(environments).await;
    cluster.set_status(settled()).await;
    let shown = cluster.prints(&["status", "web"]).await;
    let after: Vec<_> = shown.lines().filter(|it| it.contains("after")).collect();
    assert_eq!(
        after,
        ["  after dev", "  after dev", "  after eu, us"],
        "{shown}"
    );
    assert!(!shown.contains('▼'), "no arrow from eu to us: {shown}");
    let document = cluster.prints(&["status", "web", "-o", "json"]).await;
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["environments"][3]["after"], json!(["eu", "us"]));
    let explained = cluster.prints(&["explain", "web"]).await;
    assert!(explained.contains("comes after eu and us"), "{explained}");
}

#[tokio::test]
async fn status_tree_history_and_explain_agree() {
    let cluster = TestCluster::new().await;
    check(
        &cluster.prints(&["status", "web"]).await,
        "
        default/web  HelmRelease web

        dev
          2.0.0
          ● ready
          ● web-dev
          ▼
        prod
          1.0.0
          ◇ awaiting approval
          ● eu/web

        ◇ prod
            waits: 2.0.0 waits for approval to enter prod [AwaitingApproval]
            resolved by an approval of 2.0.0
            promotion of 2.0.0: AwaitingApproval
            try: sluice approve web prod -n default",
    );
    check(
        &cluster.prints(&["tree", "default/web"]).await,
        "
        default/web
        ├─ ● dev 2.0.0 (ready)
        │  └─ ● web-dev (ready)
        │     └─ ● HelmRelease/web 2.0.0
        │        └─ registry.example.com/web:2.0.0
        └─ ◇ prod 1.0.0 (awaiting approval)
           └─ ● eu/web (ready)
              └─ ● HelmRelease/web 1.0.0
                 └─ registry.example.com/web:1.0.0",
    );
    check(
        &cluster.prints(&["explain", "web", "prod"]).await,
        "
        prod: runs 1.0.0, ready
          promotion of 2.0.0: AwaitingApproval https://forge.example.com/shop/pulls/7
          waits: 2.0.0 waits for approval to enter prod; resolved by an approval of 2.0.0 [AwaitingApproval]
          gates for 2.0.0: 12 of 13 pass; waiting: approvals
        try: sluice approve web prod -n default",
    );
    let diff = cluster.prints(&["diff", "web", "prod"]).await;
    assert!(diff.starts_with("prod: 1.0.0 → 2.0.0\n"), "{diff}");
    assert!(
        diff.contains("registry.example.com/web: 1.0.0 → 2.0.0"),
        "{diff}"
    );
    let json = cluster.prints(&["diff", "web", "prod", "-o", "json"]).await;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["items"][0]["to"], "2.0.0");
    assert_eq!(json["items"][0]["phase"], "AwaitingApproval");
    let whole = cluster.prints(&["explain", "web"]).await;
    assert!(whole.starts_with("dev: runs 2.0.0, ready\n"), "{whole}");
    let history = cluster.prints(&["history", "web", "prod"]).await;
    let lines: Vec<&str> = history.lines().collect();
    assert_eq!(lines.len(), 3, "{history}");
    assert!(
        lines[1].contains("prod          AwaitingApproval   2.0.0      1.0.0"),
        "{history}"
    );
    assert_eq!(lines[2], "prod ran 1.0.0, 0.9.0");
}

/// The version that failed, what the app says, and what worked before, in every command.
#[tokio::test]
async fn a_failed_release_is_shown_by_all_commands() {
    let cluster = TestCluster::new().await;
    let app = json!({
        "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": "web",
        "ready": false, "revision": "2.0.0", "message": "Helm upgrade failed: timed out",
    });
    let mut dev = crate::cluster::status()["environments"]["dev"]["targets"][0].clone();
    dev["ready"] = json!(false);
    dev["failed"] = json!("2.1.0");
    dev["apps"] = json!([app]);
    let failure = json!({
        "revision": "2.1.0", "target": "web-dev", "at": "2026-01-02T00:00:00Z",
        "message": "Helm upgrade failed: timed out",
    });
    let dev = json!({"targets": [dev], "failures": [failure]});
    cluster
        .set_status(json!({"environments": {"dev": dev}}))
        .await;
    let failed = "2.1.0 failed: Helm upgrade failed: timed out";
    for (command, expected) in [
        (
            &["get", "pipelines"][..],
            "dev 2.1.0 failed (last good 2.0.0)",
        ),
        (&["status", "web"], "2.1.0 failed (last good 2.0.0)"),
        (&["status", "web"], &format!("web-dev: {failed}")),
        (
            &["explain", "web"],
            &format!("dev: runs 2.0.0; not ready: web-dev ({failed})"),
        ),
        (&["history", "web", "dev"], "dev failed 2.1.0 "),
        (
            &["history", "web", "dev"],
            "ago in web-dev: Helm upgrade failed: timed out",
        ),
    ] {
        let output = cluster.prints(command).await;
        assert!(output.contains(expected), "{command:?}: {output}");
    }
}

#[tokio::test]
async fn the_forecast_uses_stored_objects_or_an_edited_pipeline() {
    let cluster = TestCluster::new().await;
    check(
        &cluster.prints(&["forecast", "web"]).await,
        "
        dev: nothing to promote
        prod: 2.0.0 after an approval of 2.0.0",
    );
    let output = cluster
        .prints(&["forecast", "web", "--output", "json"])
        .await;
    let forecast: serde_json::Value = serde_json::from_str(&output).unwrap();
    assert_eq!(forecast["items"][1]["needs"][0]["gate"], "approvals");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("edited.yaml");
    let pipeline = cluster
        .prints(&["get", "pipelines", "web", "-o", "yaml"])
        .await;
    std::fs::write(&file, pipeline.replace("manual: true", "manual: false")).unwrap();
    let file = file.to_str().unwrap();
    let output = cluster.run(&["forecast", "web", "-f", file]).await;
    assert!(
        output.out.contains("prod: 2.0.0 now"),
        "{}{}",
        output.out,
        output.err
    );
    let output = cluster.run(&["forecast", "web", "--at", "tomorrow"]).await;
    assert_eq!(output.code, 2, "{}", output.err);
    let help = "write a time such as 2026-12-24T18:00:00Z or a duration such as 2h";
    assert!(output.err.contains(help), "{}", output.err);
    let at = ["forecast", "web", "prod", "--at", "2h"];
    assert!(cluster.prints(&at).await.starts_with("prod: 2.0.0 after"));
}

#[tokio::test]
async fn without_a_name_the_forecast_is_of_all_pipelines_and_only_of_what_comes() {
    let cluster = TestCluster::new().await;
    let line = "prod: 2.0.0 after an approval of 2.0.0";
    check(
        &cluster.prints(&["forecast"]).await,
        &format!("\nweb {line}"),
    );
    let everywhere = cluster.prints(&["forecast", "-A"]).await;
    check(&everywhere, &format!("\ndefault/web {line}"));
    let output = cluster.prints(&["forecast", "-o", "json"]).await;
    let forecast: serde_json::Value = serde_json::from_str(&output).unwrap();
    let web = &forecast["items"][0];
    assert_eq!(web["pipeline"], "web");
    assert_eq!(web["environments"][1]["needs"][0]["gate"], "approvals");
    let output = cluster.run(&["forecast", "-f", "edited.yaml"]).await;
    assert_eq!(output.code, 2, "{}", output.err);
}

#[tokio::test]
async fn names_that_are_nearly_right_are_answered_with_the_right_ones() {
    let cluster = TestCluster::new().await;
    let output = cluster.run(&["status", "wbe"]).await;
    assert_eq!(output.code, 1);
    let expected = "sluice: there is no pipeline wbe in namespace default: did you mean web?\n";
    assert_eq!(output.err, expected);
    let output = cluster.run(&["explain", "web", "prdo"]).await;
    assert_eq!(
        output.err,
        "sluice: pipeline web has no environment prdo: did you mean prod?\n"
    );
    let output = cluster.run(&["get", "pipelines", "webb"]).await;
    assert!(output.err.contains("did you mean web?"), "{}", output.err);
}

#[tokio::test]
async fn errors_say_what_to_do() {
    let output = offline(&["get", "pipelines"]).await;
    assert_eq!(output.code, 1);
    assert!(
        output.err.contains("--kubeconfig or $KUBECONFIG"),
        "{}",
        output.err
    );
    let output = offline(&["get", "rockets"]).await;
    assert_eq!(output.code, 2);
    let bare = TestCluster::bare().await;
    let output = bare.run(&["get", "pipelines"]).await;
    assert_eq!(output.code, 1);
    assert!(
        output.err.contains("sluice crds | kubectl apply"),
        "{}",
        output.err
    );
    let cluster = TestCluster::new().await;
    let output = cluster
        .run_as("stranger", json!([]), &["status", "web"])
        .await;
    assert_eq!(output.code, 1);
    assert!(
        output.err.contains("User \"stranger\" cannot get"),
        "{}",
        output.err
    );
    assert!(
        output
            .err
            .contains("ClusterRole pipeline-controller-viewer"),
        "{}",
        output.err
    );
}

#[tokio::test]
async fn status_waits_until_the_pipeline_has_settled() {
    let cluster = TestCluster::new().await;
    let output = cluster
        .run(&["status", "web", "--wait", "--timeout", "1s"])
        .await;
    assert_eq!(output.code, 3, "{}", output.err);
    assert!(
        output
            .err
            .contains("still waiting: prod is awaiting approval"),
        "{}",
        output.err
    );
    let waiting = cluster
        .command(&[
            "status",
            "web",
            "--wait",
            "--revision",
            "2.0.0",
            "--timeout",
            "60s",
        ])
        .output();
    let (waiting, ()) = tokio::join!(waiting, cluster.set_status(settled()));
    let waiting = waiting.unwrap();
    assert_eq!(
        waiting.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&waiting.stderr)
    );
}

pub(crate) async fn until(lines: &mut Lines<BufReader<ChildStdout>>, text: &str) {
    let reading = async {
        while let Some(line) = lines.next_line().await.unwrap() {
            if line.contains(text) {
                return;
            }
        }
        panic!("the output ended without {text:?}");
    };
    let found = tokio::time::timeout(TIMEOUT, reading).await;
    found.unwrap_or_else(|_| panic!("nobody output {text:?}"));
}

#[tokio::test]
async fn watch_prints_changes() {
    let cluster = TestCluster::new().await;
    let mut command = cluster.command(&["watch", "web"]);
    let mut child = command
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    until(
        &mut lines,
        "default/web  dev 2.0.0 (ready) > prod 1.0.0 (awaiting approval)",
    )
    .await;
    cluster.set_phase("WaitingForMerge").await;
    until(
        &mut lines,
        "prod: promotion of 2.0.0: WaitingForMerge https://forge",
    )
    .await;
    cluster.set_status(settled()).await;
    until(&mut lines, "prod: eu/web runs 2.0.0").await;
    until(&mut lines, "prod: no longer waits").await;
    child.kill().await.unwrap();
}

//! `sluice check`.

use serde_json::{Value, json};

use crate::{cluster::TestCluster, objects::put};

fn cluster_object(ready: &str) -> Value {
    json!({
        "apiVersion": "gitops.weave.works/v1alpha1", "kind": "GitopsCluster",
        "metadata": {"name": "eu", "namespace": "default"},
        "spec": {"secretRef": {"name": "eu"}},
        "status": {"conditions": [{
            "type": "Ready", "status": ready, "reason": "Checked", "message": "the cluster does not answer",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        }]},
    })
}

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "default"}})
}

#[tokio::test]
async fn check_names_everything_that_is_missing() {
    let cluster = TestCluster::new().await;
    let output = cluster.run(&["check"]).await;
    assert_eq!(output.code, 1);
    for expected in [
        "✔ Kubernetes: v1.",
        "✔ controller embedded: version ",
        "✔ CRDs: complete",
        "in namespace default: may see pipelines, see promotions, approve, promote and roll back, suspend",
        "✖ Secret default/git: does not exist; promotions of web into prod need it",
        "✖ Secret default/hmac: does not exist",
        "✖ GitopsCluster default/eu: does not exist",
    ] {
        assert!(output.out.contains(expected), "{expected}: {}", output.out);
    }
    let failed = "3 checks of namespace default failed";
    assert!(output.err.contains(failed), "{}", output.err);
    for object in [secret("git"), secret("hmac"), cluster_object("False")] {
        put(&cluster, &object).await;
    }
    let output = cluster.run(&["check", "web"]).await;
    assert_eq!(output.code, 1);
    let expected = "✖ GitopsCluster default/eu: the cluster does not answer";
    assert!(output.out.contains(expected), "{}", output.out);
    put(&cluster, &cluster_object("True")).await;
    let output = cluster.run(&["check", "web"]).await;
    assert_eq!(output.code, 0, "{}{}", output.out, output.err);
    assert!(
        output.out.contains("✔ pipeline default/web: "),
        "{}",
        output.out
    );
}

/// The controller looks for a missing Secret once a minute.
#[tokio::test]
async fn a_secret_that_was_created_since_is_no_failure() {
    let cluster = TestCluster::new().await;
    put(&cluster, &cluster_object("True")).await;
    let missing = json!({"reason": "SecretMissing", "message": "there is no Secret default/git"});
    cluster
        .set_status(json!({"preflight": {"prod": missing}}))
        .await;
    let found = "there is no Secret default/git [SecretMissing]";
    for (mark, text, code) in [
        ("✖", found.to_owned(), 1),
        (
            "!",
            format!(
                "the Secret exists by now, and the controller looks again within a minute: {found}"
            ),
            0,
        ),
    ] {
        let output = cluster.run(&["check", "web"]).await;
        let expected = format!("{mark} pipeline default/web, promotions into prod: {text}");
        assert!(output.out.contains(&expected), "{}", output.out);
        assert_eq!(output.code, code, "{}", output.out);
        for name in ["git", "hmac"] {
            put(&cluster, &secret(name)).await;
        }
    }
}

/// Repositories and forges are what the controller found.
#[tokio::test]
async fn check_shows_what_the_controller_found() {
    let cluster = TestCluster::new().await;
    put(&cluster, &cluster_object("True")).await;
    let problem = json!({"reason": "Unreachable", "message": "cannot reach the repository"});
    cluster
        .set_status(json!({"preflight": {"prod": problem}}))
        .await;
    let output = cluster.run(&["check", "web", "-o", "json"]).await;
    assert_eq!(output.code, 1);
    let document: Value = serde_json::from_str(&output.out).unwrap();
    let checks = document["checks"].as_array().unwrap();
    let failed: Vec<&Value> = checks
        .iter()
        .filter(|it| it["result"] == "failed")
        .collect();
    assert_eq!(failed.len(), 1, "{document}");
    assert_eq!(
        failed[0]["subject"],
        "pipeline default/web, promotions into prod"
    );
    assert_eq!(
        failed[0]["text"],
        "cannot reach the repository [Unreachable]"
    );
    // Whoever only looks at the state reads it too.
    for typed in [
        &["status"][..],
        &["status", "web"],
        &["explain", "web"],
        &["explain", "web", "prod"],
    ] {
        let shown = cluster.prints(typed).await;
        let expected = "a promotion would fail: cannot reach the repository [Unreachable]";
        assert!(shown.contains(expected), "{typed:?}: {shown}");
    }
    let untold = json!({"reason": "TokenRightsNotTold", "message": "the forge does not tell"});
    let refused = json!({"reason": "CheckHostNotAllowed", "message": "a.example is not allowed"});
    cluster
        .set_status(json!({
            "preflight": {"dev": refused, "prod": null},
            "notChecked": {"prod": untold},
        }))
        .await;
    let output = cluster.run(&["check", "web"]).await;
    let expected = "✖ pipeline default/web, checks of dev: a.example is not allowed";
    assert!(output.out.contains(expected), "{}", output.out);
    let expected = "! pipeline default/web, promotions into prod: the forge does not tell \
                    [TokenRightsNotTold]";
    assert!(output.out.contains(expected), "{}", output.out);
}

#[tokio::test]
async fn check_without_crds_or_rights_says_so() {
    let output = TestCluster::bare().await.run(&["check"]).await;
    assert_eq!(output.code, 1);
    assert!(output.out.contains("✖ CRDs: "), "{}", output.out);
    assert!(
        output.out.contains("sluice crds | kubectl apply"),
        "{}",
        output.out
    );
    let cluster = TestCluster::new().await;
    let rules = json!([
        {"apiGroups": ["pipelines.weave.works"], "resources": ["pipelines", "promotions"], "verbs": ["get", "list"]},
    ]);
    let output = cluster.run_as("vera", rules, &["check", "web"]).await;
    for expected in [
        "! rights of vera in namespace default: may see pipelines, see promotions; may not approve",
        "! Secret default/git: not checked: you may not read it",
        "! CRDs: not checked",
        "! GitopsCluster default/eu: not checked: you may not read it",
    ] {
        assert!(output.out.contains(expected), "{expected}: {}", output.out);
    }
    let group = json!(["pipelines.weave.works"]);
    let approver = json!([
        {"apiGroups": group, "resources": ["pipelines", "promotions"], "verbs": ["get", "list"]},
        {"apiGroups": group, "resources": ["promotions"], "verbs": ["patch"]},
        {"apiGroups": group, "resources": ["pipelines"], "verbs": ["approve", "promote", "suspend"]},
    ]);
    let output = cluster.run_as("ann", approver, &["check", "web"]).await;
    let expected = "may see pipelines, see promotions, approve; may promote and roll back, suspend on \
                    the dashboard and by REST only: the commands edit the Pipeline";
    assert!(output.out.contains(expected), "{}", output.out);
    let output = cluster.run_as("nora", json!([]), &["check", "web"]).await;
    assert_eq!(output.code, 1);
    for expected in [
        "! rights of nora in namespace default: may nothing",
        "✖ pipelines: cannot read pipeline default/web",
    ] {
        assert!(output.out.contains(expected), "{expected}: {}", output.out);
    }
}

/// The result says where it looked: "passed" about an empty namespace misleads.
#[tokio::test]
async fn check_says_which_namespace_it_checked() {
    let cluster = TestCluster::new().await;
    let output = cluster.run(&["check", "-n", "shop"]).await;
    assert_eq!(output.code, 0, "{}{}", output.out, output.err);
    let expected = "! pipelines: there are none in namespace shop; select another with -n";
    assert!(output.out.contains(expected), "{}", output.out);
    let expected = "no check of namespace shop failed, 1 warning\n";
    assert!(output.err.ends_with(expected), "{}", output.err);
    let output = cluster.run(&["check", "-n", "shop", "default/web"]).await;
    let expected = "rights of admin in namespace default";
    assert!(output.out.contains(expected), "{}", output.out);
}

//! What `sluice lint` says for programs, about broken files, and about a cluster.

use serde_json::{Value, json};

use crate::{
    cluster::{TestCluster, offline},
    objects::put,
    offline::{folder, lint, pipeline_file},
};

const BROKEN: &str = "\
kind: ConfigMap
---
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata:
  name: web
spec:
  environments: [a
  suspend: true
";

#[tokio::test]
async fn broken_yaml_has_the_line_of_the_file() {
    let (code, out) = lint(BROKEN, &[]).await;
    assert_eq!(code, 1);
    assert!(out.starts_with("p.yaml:9: error: invalid YAML: "), "{out}");
    assert_eq!(out.lines().count(), 1, "{out}");
    // A file that was named is reported even if nothing says that it is ours.
    let (code, out) = lint("a: [\n", &[]).await;
    assert_eq!(code, 1);
    assert!(out.contains("invalid YAML"), "{out}");
}

#[tokio::test]
async fn findings_have_the_line_of_their_field() {
    let text = pipeline_file();
    let line = |wanted: &str| 1 + text.lines().position(|line| line.trim() == wanted).unwrap();
    for (from, to, field) in [
        ("type: github", "type: sourceforge", "type: github"),
        ("baseBranch: main", "basebranch: main", "baseBranch: main"),
        (
            "https://github.com/shop/fleet.git",
            "github.com/shop",
            "url: https://github.com/shop/fleet.git",
        ),
    ] {
        let (code, out) = lint(&text.replace(from, to), &[]).await;
        assert_eq!(code, 1, "{to}");
        let expected = format!("p.yaml:{}: error: ", line(field));
        assert!(out.contains(&expected), "{to}: {expected}: {out}");
    }
}

#[tokio::test]
async fn lint_for_programs() {
    let text = pipeline_file().replace("type: github", "typ: github");
    let (code, out) = lint(&text, &["-o", "json"]).await;
    assert_eq!(code, 1);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["objects"], 1);
    assert_eq!(
        report["errors"],
        report["findings"].as_array().unwrap().len()
    );
    assert_eq!(report["findings"][0]["severity"], "error");
    let skipped = report["skipped"].to_string();
    assert!(skipped.contains("correct its errors first"), "{skipped}");
    let (code, out) = lint(&text, &["-o", "github"]).await;
    assert_eq!(code, 1);
    assert!(out.starts_with("::error file=p.yaml,line="), "{out}");
}

#[tokio::test]
async fn lint_says_what_it_did_not_check() {
    let folder = folder(&[("p.yaml", &pipeline_file())]);
    let file = folder.path().join("p.yaml");
    let output = offline(&["lint", file.to_str().unwrap()]).await;
    assert_eq!(output.code, 0, "{}", output.err);
    let expected = "\
not checked: what promotions would change in git; add --checkout FOLDER
not checked: whether Secrets and clusters exist; add --live
1 object checked, no errors, 0 warnings
";
    assert_eq!(output.err, expected);
}

#[tokio::test]
async fn lint_compares_with_a_cluster() {
    let cluster = TestCluster::empty().await;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "hmac", "namespace": "default"},
    });
    put(&cluster, &secret).await;
    let folder = folder(&[("p.yaml", &pipeline_file())]);
    let file = folder.path().join("p.yaml");
    let typed = ["lint", file.to_str().unwrap(), "--live"];
    let output = cluster.run(&typed).await;
    assert_eq!(output.code, 0, "{}", output.err);
    let warnings: Vec<&str> = output.out.lines().collect();
    assert_eq!(warnings.len(), 2, "{}", output.out);
    assert!(
        warnings[0].ends_with("warning: there is no Secret default/git"),
        "{}",
        output.out
    );
    assert!(
        warnings[1].ends_with("warning: there is no GitopsCluster default/eu"),
        "{}",
        output.out
    );
    // Objects among the manifests count as well.
    let git = "apiVersion: v1\nkind: Secret\nmetadata: {name: git}\n";
    let eu = "apiVersion: gitops.weave.works/v1alpha1\nkind: GitopsCluster\nmetadata: {name: eu}\nspec: {secretRef: {name: eu}}\n";
    let more = crate::offline::folder(&[("more.yaml", &format!("{git}---\n{eu}"))]);
    let more = more.path().join("more.yaml");
    let typed = [&typed[..], &[more.to_str().unwrap()]].concat();
    let output = cluster.run(&typed).await;
    assert_eq!(output.out, "", "{}", output.err);
}

/// The controller has asked the forge; a strategy that was edited since is another one.
#[tokio::test]
async fn lint_repeats_what_the_controller_found() {
    let cluster = TestCluster::new().await;
    let problem = json!({"reason": "TokenRightMissing", "message": "the token may not push"});
    cluster
        .set_status(json!({"preflight": {"prod": problem}}))
        .await;
    let found = "warning: the controller found for prod: the token may not push";
    let edited = pipeline_file().replace("baseBranch: main", "baseBranch: trunk");
    for (text, is_same) in [(pipeline_file(), true), (edited, false)] {
        let folder = folder(&[("p.yaml", &text)]);
        let file = folder.path().join("p.yaml");
        let output = cluster
            .run(&["lint", file.to_str().unwrap(), "--live"])
            .await;
        assert_eq!(output.out.contains(found), is_same, "{}", output.out);
    }
}

#[tokio::test]
async fn internal_addresses_need_a_flag_of_the_controller() {
    let text = pipeline_file().replace("github.com/shop", "127.0.0.1/shop");
    let (code, out) = lint(&text, &[]).await;
    assert_eq!(code, 0, "{out}");
    assert!(
        out.contains("127.0.0.1 is an internal address; the controller needs"),
        "{out}"
    );
}

#[tokio::test]
async fn markers_of_other_pipelines_are_not_proposed() {
    let marked = "version: 1.0.0 # {\"$promotion\": \"default:web2:prod\"}\n";
    let checkout = folder(&[("prod/web.yaml", marked)]);
    let typed = ["--checkout", checkout.path().to_str().unwrap()];
    let (_, out) = lint(&pipeline_file(), &typed).await;
    assert!(
        out.contains("add # {\"$promotion\": \"default:web:prod\"}"),
        "{out}"
    );
    assert!(!out.contains("web2"), "{out}");
}

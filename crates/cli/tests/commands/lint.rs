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
    for (text, expected) in [
        (
            "a: 1\na: 2\n",
            "p.yaml:2: error: invalid YAML: duplicate mapping key: a\n",
        ),
        (
            "a: 1\n~: 2\n",
            "p.yaml:2: error: invalid YAML: an empty key\n",
        ),
        (
            "a: 1\n[b]: 2\n",
            "p.yaml:2: error: invalid YAML: a key that is not a string\n",
        ),
        ("a: 1\nb: \"c\n", "p.yaml:2: error: invalid YAML: "),
    ] {
        let (code, out) = lint(text, &[]).await;
        assert_eq!(code, 1);
        assert!(out.starts_with(expected), "{out}");
    }
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

/// `sluice get pipelines -o yaml | sluice lint -`
#[tokio::test]
async fn objects_from_a_cluster_are_checked() {
    let cluster = TestCluster::new().await;
    for typed in [
        &["get", "pipelines", "-o", "yaml"][..],
        &["get", "pipeline/web", "-o", "yaml"],
    ] {
        let printed = cluster.prints(typed).await;
        let (code, out) = lint(&printed, &[]).await;
        assert_eq!((code, out.as_str()), (0, ""), "{printed}");
        let typo = printed.replace("  environments:", "  envronments:");
        let line = 1 + typo
            .lines()
            .position(|it| it.contains("envronments"))
            .unwrap();
        let (code, out) = lint(&typo, &[]).await;
        assert_eq!(code, 1);
        let expected = format!("p.yaml:{line}: error: unknown field spec.envronments");
        assert!(out.contains(&expected), "{expected}: {out}");
    }
}

#[tokio::test]
async fn lint_says_what_it_did_not_check() {
    let folder = folder(&[("p.yaml", &pipeline_file())]);
    let file = folder.path().join("p.yaml");
    let output = offline(&["lint", file.to_str().unwrap()]).await;
    assert_eq!(output.code, 0, "{}", output.err);
    let expected = "\
not checked: what promotions would change in git; add --checkout FOLDER
not checked: whether Secrets and clusters exist, and which Pipelines share a target; add --live
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
    let refused = json!({"reason": "CheckHostNotAllowed", "message": "a.example is not allowed"});
    cluster
        .set_status(json!({"preflight": {"dev": refused, "prod": problem}}))
        .await;
    let found = "warning: the controller found for prod: the token may not push";
    let of_checks = "warning: the controller found for dev: a.example is not allowed";
    let edited = pipeline_file().replace("baseBranch: main", "baseBranch: trunk");
    for (text, is_same) in [(pipeline_file(), true), (edited, false)] {
        let folder = folder(&[("p.yaml", &text)]);
        let file = folder.path().join("p.yaml");
        let output = cluster
            .run(&["lint", file.to_str().unwrap(), "--live"])
            .await;
        assert_eq!(output.out.contains(found), is_same, "{}", output.out);
        // Their checks are the same, and nothing is promoted into the first environment.
        assert!(output.out.contains(of_checks), "{}", output.out);
    }
}

#[tokio::test]
async fn lint_finds_a_pipeline_of_the_cluster_that_promotes_the_same_app() {
    let cluster = TestCluster::new().await;
    let found = "the pipeline default/web promotes the same app in";
    let second = pipeline_file().replacen("name: web", "name: web2", 1);
    for (text, is_shared) in [(pipeline_file(), false), (second, true)] {
        let folder = folder(&[("p.yaml", &text)]);
        let file = folder.path().join("p.yaml");
        let output = cluster
            .run(&["lint", file.to_str().unwrap(), "--live"])
            .await;
        assert_eq!(
            output.out.contains(found),
            is_shared,
            "{text}{}",
            output.out
        );
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

/// A pipeline that promotes into one target, with mistakes where a test puts them.
const SHOP: &str = "\
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata:
  name: shop
  namespace: shop
spec:
  appRef:
    apiVersion: helm.toolkit.fluxcd.io/v2
    kind: HelmRelease
    name: shop
  checks:
    - name: smoke
      http:
        url: https://shop.example.com/healthz
        passExpr: status == 200
  environments:
    - name: dev
      targets:
        - namespace: shop-dev
      verify:
        checks: [smoke]
    - name: prod
      targets:
        - namespace: shop
      promotion:
        soak: 2h
        strategy:
          commit:
            url: https://github.com/shop/fleet.git
            baseBranch: main
            secretRef:
              name: fleet
";

#[tokio::test]
async fn all_errors_of_settings_come_in_one_run_with_their_lines() {
    let (code, out) = lint(SHOP, &[]).await;
    assert_eq!((code, out.as_str()), (0, ""));
    let wrong = SHOP
        .replace("https://github.com", "http://github.com")
        .replace("passExpr: status == 200", "passExpr: value > 1")
        .replace("[smoke]", "[smok]");
    let (code, out) = lint(&wrong, &[]).await;
    assert_eq!(code, 1);
    for (line, text) in [
        (
            29,
            "the promotion of prod has a url that starts with http:/",
        ),
        (15, "the check smoke: passExpr: "),
        (21, "verify of dev names the check \"smok\""),
    ] {
        let expected = format!("p.yaml:{line}: error: {text}");
        assert!(out.contains(&expected), "{expected}: {out}");
    }
    let (_, out) = lint(&wrong, &["-o", "json"]).await;
    let report: Value = serde_json::from_str(&out).unwrap();
    let fields = report["findings"].as_array().unwrap().iter();
    let fields: Vec<&str> = fields.filter_map(|it| it["field"].as_str()).collect();
    let url = "spec.environments[1].promotion.strategy.commit.url";
    assert!(fields.contains(&url), "{fields:?}");
}

#[tokio::test]
async fn durations_are_explained_in_words() {
    for (typed, expected) in [
        ("2 hours", "\"2 hours\" is no duration; write 2h"),
        ("2", "\"2\" is no duration; write one such as 2h or 90s"),
    ] {
        let soak = format!("soak: {typed}");
        let (code, out) = lint(&SHOP.replace("soak: 2h", &soak), &[]).await;
        assert_eq!(code, 1);
        let field = "p.yaml:26: error: spec.environments[1].promotion.soak";
        assert_eq!(out, format!("{field}: {expected}\n"));
    }
}

#[tokio::test]
async fn kinds_and_groups_that_are_almost_ours_are_errors() {
    for (from, to, expected) in [
        (
            "kind: Pipeline",
            "kind: Pipelin",
            "p.yaml:2: error: pipelines.weave.works has no kind Pipelin: did you mean Pipeline?\n",
        ),
        (
            "pipelines.weave.works/",
            "pipelines.weave.work/",
            "p.yaml:1: error: there is no API group pipelines.weave.work: did you mean \
             pipelines.weave.works/v1alpha1?\n",
        ),
        (
            "weave.works/v1alpha1",
            "weave.works/v1",
            "p.yaml:1: error: Pipeline has no version pipelines.weave.works/v1: did you mean \
             pipelines.weave.works/v1alpha1?\n",
        ),
    ] {
        let folder = folder(&[("p.yaml", &SHOP.replace(from, to))]);
        let name = format!("{}/", folder.path().display());
        let output = offline(&["lint", &name]).await;
        assert_eq!(output.code, 1, "{to}");
        assert_eq!(output.out.replace(&name, ""), expected);
    }
    let other = "apiVersion: tekton.dev/v1\nkind: Pipeline\nmetadata: {name: a}\n";
    let (_, out) = lint(&format!("{SHOP}---\n{other}"), &[]).await;
    assert_eq!(out, "", "kinds of others are not ours");
}

#[tokio::test]
async fn broken_files_of_a_folder_are_findings_and_templates_are_named() {
    let files = [
        ("shop.yaml", SHOP),
        ("values.yaml", "a: 1\n\tb: 2\n"),
        (
            "chart/templates/web.yaml",
            "kind: {{ .Values.kind }}\n{{- end }}\n",
        ),
    ];
    let folder = folder(&files);
    let name = format!("{}/", folder.path().display());
    let output = offline(&["lint", &name]).await;
    assert_eq!(output.code, 1, "{}", output.err);
    let found = output.out.replace(&name, "");
    let expected = "values.yaml:2: error: invalid YAML: a tab in the indentation; use spaces\n";
    assert_eq!(found, expected);
    let skipped = output.err.replace(&name, "");
    let template = "not checked: 1 template with {{, such as chart/templates/web.yaml; render";
    assert!(skipped.contains(template), "{skipped}");
    assert!(
        skipped.contains("1 error and 0 warnings in 1 object"),
        "{skipped}"
    );
}

#[tokio::test]
async fn two_pipelines_that_promote_into_one_target_are_a_warning() {
    let other = SHOP.replacen("name: shop", "name: shop-fast", 1);
    let (code, out) = lint(&format!("{SHOP}---\n{other}"), &[]).await;
    assert_eq!(code, 0, "{out}");
    let line = SHOP.lines().count() + 24;
    let expected = format!(
        "p.yaml:{line}: warning: prod: the pipeline shop/shop promotes the same app in namespace shop; "
    );
    assert!(out.starts_with(&expected), "{expected}: {out}");
    assert_eq!(out.lines().count(), 1, "{out}");
}

//! Commands that need no cluster: files in, text out.

use std::{fs, path::Path, process::Stdio};

use serde_json::{Value, json};

use crate::cluster::{BINARY, binary, offline, pipeline};

/// A folder with these files.
pub(crate) fn folder(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (path, content) in files {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    folder
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Lints one file and returns the code and the findings, without the folder's name.
pub(crate) async fn lint(content: &str, more: &[&str]) -> (i32, String) {
    let folder = folder(&[("p.yaml", content)]);
    let file = folder.path().join("p.yaml");
    let mut arguments = vec!["lint", text(&file)];
    arguments.extend(more);
    let output = offline(&arguments).await;
    let place = format!("{}/", text(folder.path()));
    (output.code, output.out.replace(&place, ""))
}

const RELEASE: &str = "\
apiVersion: helm.toolkit.fluxcd.io/v2
kind: HelmRelease
metadata:
  name: web
  namespace: web-dev
spec:
  # Kept as it is.
  chart:
    spec:
      chart: web
      version:   1.0.0
";

pub(crate) fn pipeline_file() -> String {
    serde_saphyr::to_string(&pipeline()).unwrap()
}

#[tokio::test]
async fn a_sound_pipeline_passes() {
    let (code, out) = lint(&pipeline_file(), &[]).await;
    assert_eq!((code, out.as_str()), (0, ""));
}

#[tokio::test]
async fn lint_finds_typos_wrong_values_and_what_can_never_hold() {
    let text = pipeline_file();
    for (from, to, expected) in [
        (
            "environments:",
            "enviroments:",
            "unknown field spec.enviroments: did you mean environments?",
        ),
        (
            "environments:",
            "enviroments:",
            "spec.environments: Required value",
        ),
        ("baseBranch:", "basebranch:", "did you mean baseBranch?"),
        ("type: github", "typ: github", "did you mean type?"),
        (
            "type: github",
            "type: sourceforge",
            "Unsupported value: \"sourceforge\"",
        ),
        ("name: prod", "name: dev", "two environments are called dev"),
        (
            "kind: HelmRelease",
            "kind: ''",
            "appRef needs a kind and a name",
        ),
        (
            "kind: HelmRelease",
            "kind: Helmrelease",
            "helm.toolkit.fluxcd.io has no app of kind Helmrelease: did you mean HelmRelease?",
        ),
    ] {
        let (code, out) = lint(&text.replace(from, to), &[]).await;
        assert_eq!(code, 1, "{to}");
        assert!(out.contains(expected), "{to}: {out}");
    }
    let (_, out) = lint(&text.replace("environments:", "enviroments:"), &[]).await;
    let line = text
        .lines()
        .position(|line| line.trim() == "environments:")
        .unwrap()
        + 1;
    assert!(
        out.contains(&format!("p.yaml:{line}: error: unknown")),
        "{out}"
    );
}

/// What would be refused only when a promotion starts.
#[tokio::test]
async fn lint_refuses_repositories_that_cannot_be_opened() {
    let pipeline = |url: &str| {
        format!(
            "apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {{name: a, namespace: b}}
spec:
  appRef: {{apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, name: a}}
  environments:
  - {{name: dev, targets: [{{namespace: dev}}]}}
  - name: prod
    targets: [{{namespace: prod}}]
    promotion:
      strategy: {{commit: {{url: '{url}', baseBranch: main, secretRef: {{name: git}}}}}}
"
        )
    };
    for url in [
        r"https://127.0.0.2\@127.0.0.1:29443/a/b",
        "https://a%2f@127.0.0.1/a/b",
        "https://user:password@127.0.0.1/a/b",
        "https://",
        "127.0.0.1/a/b",
    ] {
        let (code, out) = lint(&pipeline(url), &[]).await;
        assert_eq!(code, 1, "{url}: {out}");
        let expected = "the promotion of prod has a url that cannot be used: ";
        assert!(out.contains(expected), "{url}: {out}");
        assert!(!out.contains("password"), "{out}");
    }
    for url in [
        "https://127.0.0.1/a/b",
        "ssh://git@127.0.0.1/a/b",
        "git@127.0.0.1:a/b",
    ] {
        let (code, out) = lint(&pipeline(url), &[]).await;
        assert_eq!((code, out.contains("error")), (0, false), "{url}: {out}");
    }
}

#[tokio::test]
async fn lint_refuses_objects_with_nothing_in_them() {
    let trigger =
        "apiVersion: pipeline.jquad.rocks/v1alpha1\nkind: PipelineTrigger\nmetadata: {name: a}\n";
    let cluster =
        "apiVersion: gitops.weave.works/v1alpha1\nkind: GitopsCluster\nmetadata: {name: a}\n";
    let pipeline =
        "apiVersion: pipelines.weave.works/v1alpha1\nkind: Pipeline\nmetadata: {name: a}\n";
    let source = "source: {kind: GitRepository, name: x}";
    for (text, expected) in [
        (trigger.to_owned(), "spec.source: Required value"),
        (format!("{trigger}spec:\n"), "spec.source: Required value"),
        (
            format!("{trigger}spec: {{{source}, pipelineRunSpec: {{}}}}\n"),
            "the run names no Tekton pipeline",
        ),
        (
            format!("{trigger}spec: {{{source}, pipelineRun: {{}}}}\n"),
            "spec.pipelineRun has no spec",
        ),
        (
            cluster.to_owned(),
            "must provide a secretRef or capiClusterRef",
        ),
        (pipeline.to_owned(), "spec.environments: Required value"),
    ] {
        let (code, out) = lint(&text, &[]).await;
        assert_eq!(code, 1, "{text}: {out}");
        assert!(out.contains(expected), "{text}: {out}");
    }
    let sound =
        format!("{trigger}spec: {{{source}, pipelineRunSpec: {{pipelineRef: {{name: p}}}}}}\n");
    let (code, out) = lint(&sound, &[]).await;
    assert_eq!((code, out.as_str()), (0, ""));
}

/// In today's format `branch` is a mistake, and nothing else has to be rewritten because of it.
#[tokio::test]
async fn a_wrong_field_alone_is_no_early_shape() {
    let text = "\
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: search, namespace: search}
spec:
  appRef: {apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, name: search}
  promotion:
    strategy:
      pull-request: {type: github, url: https://github.com/a/b.git, branch: main, secretRef: {name: forge}}
  environments:
  - {name: dev, targets: [{namespace: dev}]}
  - {name: prod, targets: [{namespace: prod}]}
";
    let (code, out) = lint(text, &[]).await;
    assert_eq!(code, 1, "{out}");
    let settings = "spec.promotion.strategy.pull-request";
    for expected in [
        format!("unknown field {settings}.branch"),
        format!("{settings}.baseBranch: Required value"),
    ] {
        assert!(out.contains(&expected), "{expected}: {out}");
    }
    assert!(!out.contains("early format"), "{out}");
}

#[tokio::test]
async fn lint_recognises_early_shapes_and_prints_what_they_became() {
    let early = "\
apiVersion: pipelines.wego.weave.works/v1alpha1
kind: Pipeline
metadata: {name: search, namespace: search}
spec:
  appRef: {apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, name: search}
  promotion:
    pullRequest: {url: https://gitlab.com/a/b.git, branch: main}
  environments:
  - {name: dev, targets: [{namespace: dev}]}
  - name: prod
    targets: [{namespace: prod}]
    promotion: {webhook: {url: https://ci.example.com, secretRef: ci}}
";
    let (code, out) = lint(early, &[]).await;
    assert_eq!(code, 0, "they work as they are: {out}");
    for expected in [
        "early format: the group pipelines.wego.weave.works became pipelines.weave.works",
        "early format: promotion: pullRequest became strategy.pull-request",
        "early format: promotion: branch became baseBranch",
        "early format: the promotion of prod: webhook became strategy.webhook",
    ] {
        assert!(out.contains(expected), "{expected}: {out}");
    }
    let start = out.find("---\n").unwrap();
    let (code, again) = lint(&out[start..], &[]).await;
    assert_eq!((code, again.as_str()), (0, ""), "the rewrite passes: {out}");
    let rewritten: Value = serde_saphyr::from_str(&out[start..]).unwrap();
    let request = &rewritten["spec"]["promotion"]["strategy"]["pull-request"];
    assert_eq!(
        (&request["type"], &request["baseBranch"]),
        (&"gitlab".into(), &"main".into())
    );

    // No version took this one as it is any more.
    let refused = early.replace("pullRequest:", "pull-request:");
    let (code, out) = lint(&refused, &[]).await;
    assert_eq!(code, 1);
    let expected = "error: early format: promotion: pull-request became strategy.pull-request";
    assert!(out.contains(expected), "{out}");
}

#[tokio::test]
async fn lint_only_warns_of_early_shapes_that_the_api_takes() {
    let early = "\
apiVersion: pipelines.weave.works/v1alpha1
kind: Pipeline
metadata: {name: basket, namespace: shop}
spec:
  appRef: {apiVersion: helm.toolkit.fluxcd.io/v2, kind: HelmRelease, name: basket}
  promotion:
    pullRequest: {url: https://github.com/acme/fleet.git, branch: trunk}
  environments:
  - {name: dev, targets: [{namespace: dev}]}
  - {name: prod, targets: [{namespace: prod}]}
";
    let (code, out) = lint(early, &[]).await;
    assert_eq!(code, 0, "{out}");
    assert!(!out.contains("error"), "{out}");
    assert!(
        out.contains("warning: early format: promotion: this format implies scope: Target"),
        "{out}"
    );
    let start = out.find("---\n").unwrap();
    let (code, again) = lint(&out[start..], &[]).await;
    assert_eq!((code, again.as_str()), (0, ""), "the rewrite passes: {out}");
    let spec = |text: &str| -> api::Pipeline { serde_saphyr::from_str(text).unwrap() };
    assert_eq!(
        spec(early).spec,
        spec(&out[start..]).spec,
        "it means the same"
    );

    let both = early.replace(
        "    pullRequest:",
        "    strategy: {notification: {}}\n    pullRequest:",
    );
    let (code, out) = lint(&both, &[]).await;
    assert_eq!(code, 1);
    assert!(out.contains("has strategies in both spellings"), "{out}");
}

#[tokio::test]
async fn lint_holds_markers_against_a_checkout() {
    let marked = format!(
        "{} # {{\"$promotion\": \"default:web:prdo\"}}\n",
        RELEASE.trim_end()
    );
    let checkout = folder(&[("prod/web.yaml", &marked)]);
    let (code, out) = lint(&pipeline_file(), &["--checkout", text(checkout.path())]).await;
    assert_eq!(code, 1);
    assert!(
        out.contains("add # {\"$promotion\": \"default:web:prod\"} after the version"),
        "{out}"
    );
    assert!(
        out.contains("does not name an environment of the pipeline; did you mean prod?"),
        "{out}"
    );
    fs::write(
        checkout.path().join("prod/web.yaml"),
        marked.replace("prdo", "prod"),
    )
    .unwrap();
    let (code, out) = lint(&pipeline_file(), &["--checkout", text(checkout.path())]).await;
    assert_eq!((code, out.as_str()), (0, ""));
}

#[tokio::test]
async fn plan_shows_the_change_and_makes_none() {
    let marked = format!(
        "{} # {{\"$promotion\": \"default:web:prod\"}}\n",
        RELEASE.trim_end()
    );
    let pipeline = pipeline_file();
    let checkout = folder(&[("prod/web.yaml", &marked), ("pipeline.yaml", &pipeline)]);
    let file = checkout.path().join("pipeline.yaml");
    let plan = |revision| {
        let (file, checkout) = (file.clone(), checkout.path().to_owned());
        async move {
            let typed = [
                "plan",
                text(&file),
                "--checkout",
                text(&checkout),
                "-e",
                "prod",
                "-r",
                revision,
            ];
            offline(&typed).await
        }
    };
    let output = plan("2.0.0").await;
    assert_eq!(output.code, 0, "{}", output.err);
    let expected = "\
--- a/prod/web.yaml
+++ b/prod/web.yaml
@@ -8,4 +8,4 @@
   chart:
     spec:
       chart: web
-      version:   1.0.0 # {\"$promotion\": \"default:web:prod\"}
+      version:   2.0.0 # {\"$promotion\": \"default:web:prod\"}
";
    assert_eq!(output.out, expected);
    assert_eq!(output.err, "1 value to change in 1 file: 2.0.0\n");
    assert_eq!(
        fs::read_to_string(checkout.path().join("prod/web.yaml")).unwrap(),
        marked
    );
    let output = plan("1.0.0").await;
    assert_eq!((output.code, output.out.as_str()), (0, ""));
    fs::write(checkout.path().join("prod/web.yaml"), RELEASE).unwrap();
    let output = plan("2.0.0").await;
    assert_eq!(output.code, 1);
    assert!(
        output
            .err
            .contains("no file has the marker \"default:web:prod\""),
        "{}",
        output.err
    );
}

#[tokio::test]
async fn plan_and_lint_do_without_markers_where_paths_say_where_to_look() {
    let mut pipeline = pipeline();
    let request = &mut pipeline["spec"]["promotion"]["strategy"]["pull-request"];
    request["paths"] = json!(["${environment}"]);
    let pipeline = serde_saphyr::to_string(&pipeline).unwrap();
    let own = RELEASE.replace("web-dev", "web");
    let files = [
        ("prod/web.yaml", own.as_str()),
        ("dev/web.yaml", RELEASE),
        ("pipeline.yaml", &pipeline),
    ];
    let checkout = folder(&files);
    let file = checkout.path().join("pipeline.yaml");
    let plan = [
        "plan",
        text(&file),
        "-e",
        "prod",
        "-r",
        "2.0.0",
        "--checkout",
    ];
    let plan = [&plan[..], &[text(checkout.path())]].concat();
    let output = offline(&plan).await;
    assert_eq!(output.err, "1 value to change in 1 file: 2.0.0\n");
    let changed = "-      version:   1.0.0\n+      version:   2.0.0\n";
    assert!(
        output.out.starts_with("--- a/prod/web.yaml\n"),
        "{}",
        output.out
    );
    assert!(output.out.ends_with(changed), "{}", output.out);
    let (code, out) = lint(&pipeline, &["--checkout", text(checkout.path())]).await;
    assert_eq!((code, out.as_str()), (0, ""));
    // Two that could be meant are one too many.
    fs::write(checkout.path().join("prod/more.yaml"), &own).unwrap();
    let output = offline(&plan).await;
    assert_eq!(output.code, 1);
    assert!(
        output
            .err
            .contains("may be any of prod/more.yaml:11, prod/web.yaml:11"),
        "{}",
        output.err
    );
    let (_, out) = lint(&pipeline, &["--checkout", text(checkout.path())]).await;
    assert!(
        out.contains("promotions into prod: the chart version of HelmRelease"),
        "{out}"
    );
}

#[tokio::test]
async fn scaffold_writes_what_is_missing_once() {
    let pipeline = pipeline_file();
    let checkout = folder(&[("dev/web.yaml", RELEASE), ("pipeline.yaml", &pipeline)]);
    let file = checkout.path().join("pipeline.yaml");
    let typed = ["scaffold", text(&file), "--checkout", text(checkout.path())];
    let output = offline(&typed).await;
    assert_eq!(
        output.out, "wrote prod/web.yaml, copied from dev/web.yaml\n",
        "{}",
        output.err
    );
    let written = fs::read_to_string(checkout.path().join("prod/web.yaml")).unwrap();
    let expected = RELEASE
        .replace("web-dev", "web")
        .replace("1.0.0", "1.0.0 # {\"$promotion\": \"default:web:prod\"}");
    assert_eq!(written, expected);
    let again = offline(&typed).await;
    assert_eq!((again.code, again.out.as_str()), (0, ""), "{}", again.err);
    fs::remove_file(checkout.path().join("prod/web.yaml")).unwrap();
    let output = offline(&[&typed[..], &["--change", "--dry-run"]].concat()).await;
    let change: Value = serde_saphyr::from_str(&output.out).unwrap();
    assert_eq!(change["spec"]["path"], "prod/web.yaml");
    assert_eq!(change["spec"]["content"], expected);
    assert!(!checkout.path().join("prod/web.yaml").exists());
}

#[tokio::test]
async fn scaffold_goes_from_environment_to_environment() {
    let mut three = pipeline();
    let staging = json!({"name": "staging", "targets": [{"namespace": "web-staging"}]});
    let environments = three["spec"]["environments"].as_array_mut().unwrap();
    environments.insert(1, staging);
    let pipeline = serde_saphyr::to_string(&three).unwrap();
    let checkout = folder(&[("web/dev.yaml", RELEASE), ("pipeline.yaml", &pipeline)]);
    let file = checkout.path().join("pipeline.yaml");
    let typed = ["scaffold", text(&file), "--checkout", text(checkout.path())];
    let output = offline(&typed).await;
    let expected = "wrote web/staging.yaml, copied from web/dev.yaml\nwrote web/prod.yaml, copied from web/staging.yaml\n";
    assert_eq!(output.out, expected, "{}", output.err);
    let written = fs::read_to_string(checkout.path().join("web/prod.yaml")).unwrap();
    assert!(
        written.contains("default:web:prod") && !written.contains("staging"),
        "{written}"
    );
}

#[tokio::test]
async fn scaffold_never_leaves_the_checkout() {
    let pipeline = pipeline_file().replace("name: prod", "name: ../../prod");
    let checkout = folder(&[("in/dev/web.yaml", RELEASE), ("pipeline.yaml", &pipeline)]);
    let file = checkout.path().join("pipeline.yaml");
    let typed = ["scaffold", text(&file), "--checkout", text(checkout.path())];
    let output = offline(&typed).await;
    assert_eq!(output.code, 1, "{}", output.out);
    assert!(
        output.err.contains("is not a path inside the repository"),
        "{}",
        output.err
    );
}

#[tokio::test]
async fn hooks_name_the_cluster_and_hold_no_key() {
    let folder = folder(&[("p.yaml", &pipeline_file())]);
    let file = folder.path().join("p.yaml");
    let output = offline(&[
        "hooks",
        text(&file),
        "--address",
        "https://sluice.example.com/",
    ])
    .await;
    assert_eq!(output.code, 0, "{}", output.err);
    let documents = output.out.split("---\n").skip(1);
    let objects = documents.map(|text| serde_saphyr::from_str::<Value>(text).unwrap());
    let objects: Vec<Value> = objects.collect();
    let kinds: Vec<&str> = objects
        .iter()
        .map(|it| it["kind"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        ["Provider", "Alert", "Secret", "Provider", "Alert", "Secret"]
    );
    assert!(objects[1]["spec"].get("eventMetadata").is_none());
    assert_eq!(objects[4]["spec"]["eventMetadata"]["cluster"], "eu");
    let provider = &objects[3]["spec"];
    assert_eq!(provider["type"], "generic-hmac");
    assert_eq!(
        provider["address"],
        "https://sluice.example.com/promotion/default/web/prod"
    );
    let token = &objects[5]["stringData"]["token"];
    assert_eq!(*token, "<the value of hmac-key in the Secret default/hmac>");
}

#[tokio::test]
async fn install_version_and_completion_print_for_machines() {
    let output = offline(&["install", "-n", "team", "--image", "example.com/sluice:2"]).await;
    assert_eq!(output.code, 0);
    for document in output.out.split("---\n").skip(1) {
        serde_saphyr::from_str::<Value>(document).unwrap();
    }
    assert!(!output.out.contains("pipeline-system"));
    let output = offline(&["version", "-o", "json"]).await;
    let version: Value = serde_json::from_str(&output.out).unwrap();
    assert_eq!(version["version"], env!("CARGO_PKG_VERSION"));
    let output = offline(&["completion", "bash"]).await;
    assert!(output.out.contains("-F _sluice sluice"), "{}", output.err);
    let output = offline(&["install", "-n", "Not A Name"]).await;
    assert_eq!(output.code, 1);
}

#[tokio::test]
async fn a_closed_pipe_is_no_error() {
    let mut command = binary();
    let mut child = command
        .arg("install")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().await.unwrap();
    assert_eq!(
        (output.status.code(), output.stderr.as_slice()),
        (Some(0), &b""[..])
    );
}

#[tokio::test]
async fn it_is_a_plugin_of_kubectl_under_that_name() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join("kubectl-sluice");
    std::os::unix::fs::symlink(BINARY, &plugin).unwrap();
    let output = tokio::process::Command::new(&plugin)
        .args(["get", "--help"])
        .output()
        .await;
    let help = String::from_utf8(output.unwrap().stdout).unwrap();
    assert!(help.contains("Usage: kubectl sluice get"), "{help}");
}

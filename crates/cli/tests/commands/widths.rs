//! Output in terminals of 60, 80 and 120 columns: no line is wider, and nothing that a person needs is cut.

use std::process::Stdio;

use api::Pipeline;
use k8s_openapi::api::core::v1::Event;
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use tokio::process::Command;
use unicode_width::UnicodeWidthStr;

use crate::{
    cluster::{BINARY, TestCluster},
    offline::{folder, pipeline_file},
};

const WIDTHS: [usize; 3] = [60, 80, 120];
const REASON: &str = "no releases while the data centre in Frankfurt is moved, ask the people on call if it cannot wait";

impl TestCluster {
    /// What a command that succeeds shows in a terminal, without colours.
    async fn shows(&self, columns: usize, arguments: &[&str]) -> String {
        let (is_success, shown) = self.attempt(columns, arguments).await;
        assert!(is_success, "{arguments:?}: {shown}");
        shown
    }

    /// Whether a command succeeds, and what it shows in a terminal on stdout and stderr, without colours.
    /// `script` is the terminal.
    async fn attempt(&self, columns: usize, arguments: &[&str]) -> (bool, String) {
        let quoted = arguments.iter().map(|it| format!("'{it}'"));
        let typed = format!("{BINARY} {}", quoted.collect::<Vec<_>>().join(" "));
        self.attempt_line(columns, &typed).await
    }

    /// The same for a line of the shell.
    async fn attempt_line(&self, columns: usize, typed: &str) -> (bool, String) {
        let mut terminal = Command::new("script");
        terminal
            .args(["--quiet", "--return", "--command", typed, "/dev/null"])
            .env_clear()
            .env("HOME", "/nonexistent")
            .env("TERM", "xterm-256color")
            .env("SHELL", "/bin/sh")
            .env("COLUMNS", columns.to_string())
            .env("KUBECONFIG", self.kubeconfig())
            .kill_on_drop(true)
            // Open until the end: `script` would type the end of its input.
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut running = terminal.spawn().unwrap();
        let _input = running.stdin.take();
        let output = running.wait_with_output().await.unwrap();
        let shown = anstream::adapter::strip_bytes(&output.stdout).into_vec();
        let shown = String::from_utf8(shown).unwrap().replace('\r', "");
        (output.status.success(), shown)
    }
}

/// A pipeline with everything long: names, digests, holds, addresses, events, freezes.
async fn long_winded() -> TestCluster {
    let cluster = TestCluster::new().await;
    let digest = format!("latest@sha256:{}", "0123456789abcdef".repeat(4));
    let hold = format!("prod is frozen by stop ({REASON}), 2.0.0 waits; resolved by deleting it");
    let error =
        "cannot read HelmRelease web in namespace web of cluster eu: the API server did not answer";
    let pipelines: Api<Pipeline> = Api::default_namespaced(cluster.client.clone());
    let status = pipelines.get("web").await.unwrap().status.unwrap();
    let mut targets = json!(status.environments["prod"].targets);
    targets[0]["error"] = json!(error);
    targets[0]["clusterAppRef"]["clusterRef"]["name"] =
        json!("production-of-the-shop-in-europe-west-3-second-half");
    cluster
        .set_status(json!({
            "environments": {"prod": {
                "hold": {"reason": "Frozen", "message": hold},
                "targets": targets,
                "ran": [{"revision": digest}],
            }},
            "freezes": [{"name": "stop", "reason": REASON, "environments": ["prod"], "times": {}}],
        }))
        .await;
    let edits = json!([{
        "file": "clusters/production/europe-west-3/apps/shop/web/release.yaml",
        "path": "spec.chart.spec.version", "old": "1.0.0", "new": "2.0.0",
    }]);
    let url =
        "https://forge.example.com/platform-engineering/fleet-of-the-shop/-/merge_requests/1234567";
    let change = json!({"digest": "sha256:1", "edits": edits});
    cluster
        .set_promotion_status(json!({"url": url, "message": hold, "change": change}))
        .await;
    freeze(&cluster).await;
    event(&cluster, &hold).await;
    cluster
}

async fn freeze(cluster: &TestCluster) {
    let freezes: Api<api::Freeze> = Api::default_namespaced(cluster.client.clone());
    let spec = json!({"reason": REASON, "environments": ["prod"]});
    let freeze = json!({
        "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Freeze",
        "metadata": {"name": "move-of-the-data-centre-in-frankfurt"}, "spec": spec,
    });
    let freeze = serde_json::from_value(freeze).unwrap();
    let created = freezes.create(&PostParams::default(), &freeze).await;
    created.unwrap();
}

async fn event(cluster: &TestCluster, message: &str) {
    let events: Api<Event> = Api::default_namespaced(cluster.client.clone());
    let about = json!({
        "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Promotion", "namespace": "default",
        "name": "web-prod-1-with-a-name-that-goes-on-and-on-until-it-is-long",
    });
    let event: Value = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "frozen"}, "type": "Warning",
        "involvedObject": about, "reason": "PromotionHeldByAFreeze", "message": message,
        "lastTimestamp": "2026-01-01T00:00:00Z",
    });
    let event = serde_json::from_value(event).unwrap();
    let created = events.create(&PostParams::default(), &event).await;
    created.unwrap();
}

fn letters(text: &str) -> String {
    text.split_whitespace().collect()
}

#[track_caller]
fn check_width(shown: &str, columns: usize, typed: &[&str]) {
    assert_ne!(shown, "", "{typed:?}");
    for line in shown.lines() {
        assert!(line.width() <= columns, "{typed:?} at {columns}: {line:?}");
    }
}

#[tokio::test]
async fn no_line_is_wider_than_the_terminal() {
    let cluster = long_winded().await;
    for columns in WIDTHS {
        // Each with something that is not cut off.
        for (typed, expected) in [
            (&["explain", "web"][..], REASON),
            (&["explain"], REASON),
            (&["status", "web"], REASON),
            (&["status"], REASON),
            (&["forecast", "web"], "prod"),
            (&["forecast"], "prod"),
            (
                &["diff", "web", "prod"],
                "clusters/production/europe-west-3/apps/shop/web/release.yaml",
            ),
            (&["events"], REASON),
            (&["events", "web", "--no-headers"], REASON),
            (&["history", "web"], "merge_requests/1234567"),
            (&["history"], "1.0.0"),
            (
                &["tree", "web"],
                "production-of-the-shop-in-europe-west-3-second-half",
            ),
            (&["get", "all"], "dev 2.0.0 > prod 1.0.0"),
            (
                &["get", "pipelines,promotions,freezes", "-A"],
                "dev 2.0.0 > prod 1.0.0",
            ),
            (&["triggers", "web"], "takes reports of what runs in prod"),
            (&["version"], "sluice"),
            (
                &["freeze", "web", "-e", "prod", "--reason", REASON],
                "nothing is pushed",
            ),
            (&["thaw", "web"], REASON),
        ] {
            let shown = cluster.shows(columns, typed).await;
            check_width(&shown, columns, typed);
            let expected = letters(expected);
            assert!(
                letters(&shown).contains(&expected),
                "{typed:?} at {columns}: {shown}"
            );
        }
    }
}

#[tokio::test]
async fn a_pipe_gets_whole_lines() {
    let cluster = long_winded().await;
    for typed in [
        &["explain", "web"][..],
        &["status", "web"],
        &["forecast", "web"],
        &["diff", "web", "prod"],
        &["events"],
        &["get", "freezes"],
    ] {
        let whole = cluster.prints(typed).await;
        let mut narrow = cluster.command(typed);
        let narrow = narrow.env("COLUMNS", "60").output().await.unwrap();
        let narrow = String::from_utf8(narrow.stdout).unwrap();
        // Ages differ.
        assert_eq!(narrow.lines().count(), whole.lines().count(), "{narrow}");
        let widest = whole.lines().map(UnicodeWidthStr::width).max();
        assert!(widest > Some(60), "{typed:?}: {whole}");
    }
}

#[tokio::test]
async fn documents_are_not_wrapped_in_a_terminal() {
    let cluster = long_winded().await;
    for typed in [
        &["explain", "web", "-o", "json"][..],
        &["diff", "web", "prod", "-o", "json"],
        &["events", "-o", "json"],
        &["get", "freezes", "-o", "json"],
    ] {
        let shown = cluster.shows(60, typed).await;
        let document: Result<Value, _> = serde_json::from_str(&shown);
        assert!(document.is_ok(), "{typed:?}: {shown}");
        assert!(
            shown.contains(REASON) || typed[0] == "diff",
            "{typed:?}: {shown}"
        );
    }
    let patch = Patch::Merge(json!({"metadata": {"labels": {"long": "x".repeat(60)}}}));
    let pipelines: Api<Pipeline> = Api::default_namespaced(cluster.client.clone());
    let patched = pipelines
        .patch("web", &PatchParams::default(), &patch)
        .await;
    patched.unwrap();
    let shown = cluster
        .shows(60, &["get", "pipeline/web", "-o", "yaml"])
        .await;
    assert!(
        shown.contains(&format!("long: {}", "x".repeat(60))),
        "{shown}"
    );
}

/// A manifest with an unknown field, and a release without a marker.
fn unmarked() -> tempfile::TempDir {
    let release = "spec:\n  chart:\n    spec:\n      version: 1.0.0\n";
    let typo = pipeline_file().replace("baseBranch:", "basebranchOfTheRepositoryOfTheFleet:");
    let files = [
        ("typo.yaml", typo.as_str()),
        ("pipeline.yaml", &pipeline_file()),
        ("production/europe-west-3/release.yaml", release),
    ];
    folder(&files)
}

/// These fail, and say why on stdout and stderr.
#[tokio::test]
async fn failures_fit_the_terminal() {
    let cluster = long_winded().await;
    let checkout = unmarked();
    let path = |name: &str| checkout.path().join(name).display().to_string();
    let (pipeline, typo, root) = (path("pipeline.yaml"), path("typo.yaml"), path(""));
    let plan = ["plan", &pipeline, "--checkout", &root, "-e", "prod", "-r"];
    let plan = [&plan[..], &["2.0.0"]].concat();
    for columns in WIDTHS {
        for (typed, expected) in [
            (
                &["check"][..],
                "Secret default/git: does not exist; promotions of web into prod need it",
            ),
            (
                &["lint", &typo],
                "unknown field spec.promotion.strategy.pull-request.basebranchOfTheRepositoryOfTheFleet",
            ),
            (
                &["lint", &typo],
                "not checked: the settings of the object at",
            ),
            (
                &["lint", &pipeline, "--checkout", &root],
                "add # {\"$promotion\": \"default:web:prod\"}",
            ),
            (&plan, "no file has the marker \"default:web:prod\""),
            (
                &[
                    "explain",
                    "a-pipeline-that-is-not-there-and-has-a-long-name",
                ],
                "a-pipeline-that-is-not-there-and-has-a-long-name",
            ),
            (
                &[
                    "get",
                    "pipelines",
                    "--kubeconfig",
                    "/nonexistent/folder/of/somebody/else/kubeconfig.yaml",
                ],
                "/nonexistent/folder/of/somebody/else/kubeconfig.yaml",
            ),
        ] {
            let (_, shown) = cluster.attempt(columns, typed).await;
            check_width(&shown, columns, typed);
            assert!(
                letters(&shown).contains(&letters(expected)),
                "{typed:?} at {columns}: {shown}"
            );
        }
    }
}

/// The lines of a patch and of annotations are for programs, and for copying.
#[tokio::test]
async fn patches_and_annotations_are_not_wrapped() {
    let cluster = long_winded().await;
    let field = "versionOfTheChartInProduction";
    let comment = "# {\"$promotion\": \"default:web:prod\"}";
    let release = format!("spec:\n  {field}: 1.0.0 {comment}\n");
    let checkout = folder(&[
        ("release.yaml", &release),
        ("pipeline.yaml", &pipeline_file()),
    ]);
    let root = checkout.path().display().to_string();
    let pipeline = format!("{root}/pipeline.yaml");
    let typed = ["plan", &pipeline, "-e", "prod", "-r", "2.0.0", "--checkout"];
    let shown = cluster.shows(60, &[&typed[..], &[&root]].concat()).await;
    let expected = format!("\n+  {field}: 2.0.0 {comment}\n");
    assert!(expected.width() > 60);
    assert!(shown.contains(&expected), "{shown}");
    let wrong = unmarked();
    let typo = wrong.path().join("typo.yaml").display().to_string();
    let (_, shown) = cluster.attempt(60, &["lint", &typo, "-o", "github"]).await;
    let mut annotations = shown.lines().filter(|it| it.starts_with("::error "));
    let is_whole = |line: &str| line.contains("did you mean") || line.contains("Required value");
    assert!(annotations.any(is_whole), "{shown}");
}

/// Messages are wrapped to the terminal even if the output goes elsewhere.
#[tokio::test]
async fn messages_fit_the_terminal_beside_a_pipe() {
    let cluster = long_winded().await;
    let checkout = folder(&[("pipeline.yaml", &pipeline_file())]);
    let file = checkout.path().join("pipeline.yaml").display().to_string();
    let typed = format!("{BINARY} lint '{file}' > /dev/null");
    let (is_success, shown) = cluster.attempt_line(60, &typed).await;
    assert!(is_success, "{shown}");
    check_width(&shown, 60, &["lint"]);
    let expected = "not checked: what promotions would change in git; add --checkout FOLDER";
    assert!(letters(&shown).contains(&letters(expected)), "{shown}");
}

//! Commands as users of kubectl and flux expect them.

use std::process::Stdio;

use api::Promotion;
use kube::{Api, api::DeleteParams};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use crate::{
    cluster::{TestCluster, offline},
    objects::put,
    read_only::{TIMEOUT, check, until},
};

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[tokio::test]
async fn cluster_flags_stand_before_or_after_the_command() {
    let cluster = TestCluster::new().await;
    let before = cluster
        .prints(&["-n", "default", "get", "pipelines", "-o", "name"])
        .await;
    let after = cluster
        .prints(&["get", "pipelines", "-o", "name", "--namespace=default"])
        .await;
    assert_eq!(before, "pipeline.pipelines.weave.works/web\n");
    assert_eq!(before, after);
    let elsewhere = cluster.run(&["-n", "other", "status", "web"]).await;
    assert!(
        elsewhere.err.contains("in namespace other"),
        "{}",
        elsewhere.err
    );
    let everywhere = cluster
        .prints(&["-A", "get", "pipelines", "-o", "name"])
        .await;
    assert_eq!(before, everywhere);
    for typed in [
        &["-o", "name", "get", "pipelines"][..],
        &["-oname", "--no-headers", "get", "pipelines"],
        &["--output=name", "-n", "default", "get", "pipelines"],
    ] {
        assert_eq!(cluster.prints(typed).await, before, "{typed:?}");
    }
    let impersonated = cluster.run(&["--as", "ann", "get", "pipelines"]).await;
    let after = cluster.run(&["get", "pipelines", "--as", "ann"]).await;
    assert_eq!(impersonated.err, after.err);
    assert!(after.err.contains("ann"), "{}", after.err);
    // Without a command it is said what is missing.
    for (typed, expected) in [
        (&["-n"][..], "-n needs a value, and then a command"),
        (
            &["-n", "shop"],
            "-n needs a command, such as `sluice -n shop get pipelines`",
        ),
        (&["-A"], "-A needs a command"),
    ] {
        let refused = offline(typed).await;
        assert_eq!(refused.code, 2, "{}", refused.err);
        assert!(refused.err.contains(expected), "{}", refused.err);
    }
    // A command without a cluster has no such flag.
    assert_eq!(offline(&["--context", "a", "crds"]).await.code, 2);
}

/// What people read and programs parse: the same in JSON and in YAML.
#[tokio::test]
async fn commands_that_print_text_also_print_json_and_yaml() {
    let cluster = TestCluster::new().await;
    for typed in [
        &["diff", "web", "prod"][..],
        &["tree", "web"],
        &["status", "web"],
        &["explain", "web"],
        &["history", "web"],
    ] {
        let json = cluster.prints(&[typed, &["-o", "json"]].concat()).await;
        let yaml = cluster.prints(&[typed, &["-o", "yaml"]].concat()).await;
        let yaml: Value = serde_saphyr::from_str(&yaml).unwrap();
        assert_eq!(json_of(&json), yaml, "{typed:?}");
    }
    let tree = json_of(&cluster.prints(&["tree", "web", "-o", "json"]).await);
    let dev = &tree["children"][0];
    let expected = json!({"kind": "Environment", "name": "dev", "state": "ready", "runs": "2.0.0"});
    for field in ["kind", "name", "state", "runs"] {
        assert_eq!(dev[field], expected[field], "{dev}");
    }
    assert_eq!(dev["children"][0]["children"][0]["kind"], "HelmRelease");
    let folder = crate::offline::folder(&[("p.yaml", &crate::offline::pipeline_file())]);
    let file = folder.path().join("p.yaml");
    let linted = offline(&["lint", file.to_str().unwrap(), "-o", "yaml"]).await;
    let linted: Value = serde_saphyr::from_str(&linted.out).unwrap();
    assert_eq!(linted["objects"], 1);
}

#[tokio::test]
async fn get_accepts_references_several_kinds_and_no_headers() {
    let cluster = TestCluster::new().await;
    for typed in [&["get", "pipeline/web"][..], &["get", "pipe", "web"]] {
        let output = cluster.prints(&[typed, &["--no-headers"]].concat()).await;
        check(
            &output,
            "web   ◇ prod awaiting approval   dev 2.0.0 > prod 1.0.0   HelmRelease/web   …",
        );
    }
    let one = cluster.prints(&["get", "pipeline/web", "-o", "json"]).await;
    assert_eq!(json_of(&one)["kind"], "Pipeline");
    let names = cluster.prints(&["get", "all", "-o", "name"]).await;
    let expected =
        "pipeline.pipelines.weave.works/web\npromotion.pipelines.weave.works/web-prod-1\n";
    assert_eq!(names, expected);
    let list = cluster.prints(&["get", "pipe,promo", "-o", "json"]).await;
    assert_eq!(json_of(&list)["items"].as_array().unwrap().len(), 2);
    // What exists is printed all the same.
    let typed = ["get", "pipelines", "web", "wep", "-o", "name"];
    let some = cluster.run(&typed).await;
    let expected = "there is no wep among the pipelines of namespace default: did you mean web?";
    assert_eq!(
        (some.code, some.out.as_str()),
        (1, "pipeline.pipelines.weave.works/web\n")
    );
    assert!(some.err.contains(expected), "{}", some.err);
    let both = cluster.run(&["get", "pipelines", "web", "-A"]).await;
    assert_eq!(both.code, 2, "{}", both.err);
    let typo = cluster.run(&["get", "pipelin/web"]).await;
    assert_eq!(typo.code, 2);
    assert!(typo.err.contains("did you mean pipeline?"), "{}", typo.err);
}

#[tokio::test]
async fn get_watch_prints_objects_again_when_they_change() {
    let cluster = TestCluster::new().await;
    let mut command = cluster.command(&["get", "promotions", "--watch"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    until(&mut lines, "PIPELINE   ENVIRONMENT   PHASE").await;
    until(
        &mut lines,
        "web        prod          AwaitingApproval   2.0.0",
    )
    .await;
    // What no column shows is not printed.
    cluster
        .set_promotion_status(json!({"observedGeneration": 1}))
        .await;
    cluster.set_phase("Deploying").await;
    let promotions: Api<Promotion> = Api::default_namespaced(cluster.client.clone());
    let mut next = async || {
        let next = tokio::time::timeout(TIMEOUT, lines.next_line()).await;
        next.expect("a line in time").unwrap().unwrap()
    };
    let expected = "web        prod          Deploying          2.0.0";
    let changed = next().await;
    assert!(changed.starts_with(expected), "{changed}");
    // As kubectl does, it prints what is deleted a last time.
    let parameters = DeleteParams::default();
    promotions.delete("web-prod-1", &parameters).await.unwrap();
    let last = next().await;
    assert!(last.starts_with(expected), "{last}");
    child.kill().await.unwrap();
}

#[tokio::test]
async fn status_explain_and_history_of_all_pipelines() {
    let cluster = TestCluster::new().await;
    check(
        &cluster.prints(&["status"]).await,
        "
        ◇ default/web  prod awaiting approval
            dev 2.0.0 > prod 1.0.0
            prod: 2.0.0 waits for approval to enter prod; resolved by an approval of 2.0.0",
    );
    let explained = cluster.prints(&["explain", "-A"]).await;
    assert!(
        explained.starts_with("default/web\n  dev: runs 2.0.0, ready\n"),
        "{explained}"
    );
    check(
        &cluster.prints(&["history"]).await,
        "
        PIPELINE   AGE   ENVIRONMENT   PHASE              REVISION   INSTEAD OF   TOOK   BY   URL
        web        …",
    );
    let none = cluster.run(&["status", "-n", "other"]).await;
    assert_eq!((none.code, none.out.as_str()), (0, ""));
    assert!(
        none.err.contains("no pipelines in namespace other"),
        "{}",
        none.err
    );
    let usage = cluster.run(&["status", "--wait"]).await;
    assert_eq!(usage.code, 2, "{}", usage.err);
}

#[tokio::test]
async fn status_explain_and_history_for_programs() {
    let cluster = TestCluster::new().await;
    let status = json_of(&cluster.prints(&["status", "web", "-o", "json"]).await);
    assert_eq!(status["state"], "approval");
    assert_eq!(status["environment"], "prod");
    assert_eq!(status["environments"][0]["runs"], "2.0.0");
    assert_eq!(
        status["environments"][1]["hold"]["reason"],
        "AwaitingApproval"
    );
    assert_eq!(status["environments"][1]["targets"][0]["name"], "eu/web");
    let all = json_of(&cluster.prints(&["status", "-o", "json"]).await);
    assert_eq!(all["items"][0], status);
    let explained = cluster
        .prints(&["explain", "web", "prod", "-o", "json"])
        .await;
    let explained = json_of(&explained);
    assert_eq!(explained["environments"].as_array().unwrap().len(), 1);
    assert_eq!(explained["environments"][0]["name"], "prod");
    let text = explained["environments"][0]["text"].as_str().unwrap();
    assert!(text.starts_with("prod: runs 1.0.0, ready"), "{text}");
    let history = json_of(&cluster.prints(&["history", "web", "-o", "json"]).await);
    assert_eq!(history["promotions"][0]["phase"], "AwaitingApproval");
    assert_eq!(history["promotions"][0]["replaces"], "1.0.0");
    assert_eq!(history["environments"][0]["name"], "dev");
    let yaml = cluster.prints(&["status", "web", "-o", "yaml"]).await;
    let yaml: Value = serde_saphyr::from_str(&yaml).unwrap();
    assert_eq!(yaml, status);
}

fn event(name: &str, kind: &str, about: &str, message: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": name, "namespace": "default"},
        "involvedObject": {
            "apiVersion": "pipelines.weave.works/v1alpha1", "kind": kind, "name": about,
            "namespace": "default",
        },
        "type": "Normal", "reason": "Promoted", "message": message, "source": {"component": "sluice"},
        "lastTimestamp": "2026-01-01T00:00:00Z",
    })
}

#[tokio::test]
async fn events_of_one_pipeline_and_of_all() {
    let cluster = TestCluster::new().await;
    let other = json!({
        "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Pipeline",
        "metadata": {"name": "web-api", "namespace": "default"}, "spec": {"environments": []},
    });
    put(&cluster, &other).await;
    let mut foreign = event("d", "Pipeline", "build", "ran");
    foreign["involvedObject"]["apiVersion"] = json!("tekton.dev/v1");
    for object in [
        event("a", "Pipeline", "web", "first"),
        event("b", "Promotion", "web-prod-1", "second"),
        event("c", "Promotion", "web-api-prod-1", "third"),
        foreign,
    ] {
        put(&cluster, &object).await;
    }
    let own = cluster.prints(&["events", "web", "--no-headers"]).await;
    assert_eq!(own.lines().count(), 2, "{own}");
    assert!(own.contains("promotion/web-prod-1"), "{own}");
    let all = cluster.prints(&["events", "-A", "-o", "json"]).await;
    assert_eq!(json_of(&all)["items"].as_array().unwrap().len(), 3);
    let none = cluster.run(&["events", "-n", "other"]).await;
    assert!(none.err.contains("no events"), "{}", none.err);
}

#[tokio::test]
async fn reconcile_waits_for_the_controller() {
    let cluster = TestCluster::new().await;
    let refused = cluster.run(&["reconcile", "web", "--timeout", "1s"]).await;
    assert_eq!(refused.code, 3, "{}", refused.err);
    assert!(refused.err.contains("is it running?"), "{}", refused.err);
    let annotation = "reconcile.fluxcd.io/requestedAt";
    let first = cluster.pipeline().await.metadata.annotations.unwrap()[annotation].clone();
    let controller = async {
        loop {
            let pipeline = cluster.pipeline().await;
            let requested = &pipeline.metadata.annotations.unwrap()[annotation];
            if *requested != first {
                let status = json!({"lastHandledReconcileAt": requested});
                return cluster.set_status(status).await;
            }
            tokio::task::yield_now().await;
        }
    };
    let (output, ()) = tokio::join!(cluster.prints(&["reconcile", "web"]), controller);
    assert_eq!(output, "reconciled web: prod awaiting approval\n");
}

#[tokio::test]
async fn version_shows_the_servers_too() {
    let version = env!("CARGO_PKG_VERSION");
    let alone = offline(&["version"]).await;
    assert_eq!((alone.code, alone.out), (0, format!("sluice {version}\n")));
    let cluster = TestCluster::new().await;
    let both = cluster.prints(&["version"]).await;
    let expected = format!("sluice {version}\ncontroller {version} (embedded)\nkubernetes v1.");
    assert!(both.starts_with(&expected), "{both}");
    let client = cluster.prints(&["version", "--client"]).await;
    assert_eq!(client, format!("sluice {version}\n"));
    let document = json_of(&cluster.prints(&["version", "-o", "json"]).await);
    assert_eq!(document["controllers"][0]["version"], version);
}

#[tokio::test]
async fn create_makes_a_pipeline_that_lint_accepts() {
    let cluster = TestCluster::empty().await;
    let typed = [
        "create",
        "pipeline",
        "shop",
        "--app",
        "helmrelease/shop",
        "-e",
        "dev=shop-dev",
        "-e",
        "prod=shop@eu,shop@us",
        "--url",
        "https://github.com/example/fleet",
        "--secret",
        "fleet",
        "--manual",
        "prod",
        "--after",
        "prod=dev",
        "--feedback",
        "comment",
    ];
    let manifest = offline(&[&typed[..], &["--export", "-n", "shop"]].concat()).await;
    assert_eq!(manifest.code, 0, "{}", manifest.err);
    let (code, findings) = crate::offline::lint(&manifest.out, &[]).await;
    assert_eq!((code, findings.as_str()), (0, ""), "{}", manifest.out);
    let created = cluster.prints(&typed).await;
    assert!(
        created.starts_with("created pipeline default/shop\n"),
        "{created}"
    );
    let stored = cluster
        .prints(&["get", "pipeline/shop", "-o", "json"])
        .await;
    let spec = &json_of(&stored)["spec"];
    assert_eq!(spec["appRef"]["apiVersion"], "helm.toolkit.fluxcd.io/v2");
    assert_eq!(
        spec["environments"][1]["targets"][1]["clusterRef"]["name"],
        "us"
    );
    assert_eq!(spec["environments"][1]["promotion"]["manual"], true);
    assert_eq!(spec["environments"][1]["after"], json!(["dev"]));
    let strategy = &spec["promotion"]["strategy"]["pull-request"];
    assert_eq!(strategy["feedback"], json!(["comment"]));
    let again = cluster.run(&typed).await;
    assert!(
        again.err.trim().ends_with("already exists"),
        "{}",
        again.err
    );
    for (shown, expected) in [(&["--feedback", "none"][..], "feedback: []"), (&[], "")] {
        let mut typed = typed[..typed.len() - 2].to_vec();
        typed.extend(shown);
        let manifest = offline(&[&typed[..], &["--export"]].concat()).await;
        assert_eq!(manifest.code, 0, "{}", manifest.err);
        assert!(manifest.out.contains(expected), "{}", manifest.out);
        let is_set = manifest.out.contains("feedback");
        assert_eq!(is_set, !expected.is_empty(), "{}", manifest.out);
    }
    for (flag, value, expected) in [
        ("--app", "Pod/a", "is not of the form KIND/NAME with one of"),
        ("-e", "dev", "is not of the form NAME=TARGET"),
        (
            "-e",
            "dev=a@",
            "is not of the form NAMESPACE or NAMESPACE@CLUSTER",
        ),
        ("-e", "test=", "environment test has no target"),
        ("--manual", "test", "which is no --environment"),
        ("-e", "dev=a", "two environments are called dev"),
        ("--after", "prod", "is not of the form NAME=NAME"),
        ("--after", "test=dev", "which is no --environment"),
        ("--after", "prod=prod", "names prod itself"),
        ("--after", "prod=de", "did you mean dev?"),
        (
            "--feedback",
            "mail",
            "expected `commit-status` or `comment`",
        ),
    ] {
        let mut typed = typed.to_vec();
        if flag == "--app" {
            typed[4] = value;
        } else {
            typed.extend([flag, value]);
        }
        let refused = offline(&[&typed[..], &["--export"]].concat()).await;
        assert_eq!(refused.code, 2, "{value}: {}", refused.err);
        assert!(refused.err.contains(expected), "{value}: {}", refused.err);
    }
}

/// Flags that make no pipeline, or one that could not work, are refused before anything is printed.
#[tokio::test]
async fn create_does_not_guess() {
    let run = async |name: &str, more: &[&str]| {
        let typed = [
            "create",
            "pipeline",
            name,
            "--app",
            "HelmRelease/shop",
            "--export",
        ];
        let secret = ["--secret", "fleet", "-e", "dev=shop-dev"];
        offline(&[&typed[..], &secret, more].concat()).await
    };
    let prod = ["-e", "prod=shop", "--url"];
    for (url, forge) in [
        ("https://github.com/example/fleet", "github"),
        ("https://gitlab.com/example/fleet.git", "gitlab"),
        ("ssh://git@codeberg.org/example/fleet", "gitea"),
        ("git@bitbucket.org:example/fleet.git", "bitbucket-cloud"),
    ] {
        let made = run("shop", &[&prod[..], &[url]].concat()).await;
        assert_eq!(made.code, 0, "{}", made.err);
        assert!(
            made.out.contains(&format!("type: {forge}\n")),
            "{}",
            made.out
        );
    }
    let own = "https://git.example.com/example/fleet";
    let made = run("shop", &[&prod[..], &[own, "--forge", "gitlab"]].concat()).await;
    assert!(made.out.contains("type: gitlab\n"), "{}", made.err);
    for (name, more, expected) in [
        (
            "shop",
            &[own][..],
            "does not tell which forge it is; add --forge",
        ),
        ("shop", &[own, "--forge", "github-cloud"], "github-cloud"),
        (
            "shop",
            &["github.com/example/fleet"],
            "has a url that cannot be used",
        ),
        (
            "Shop",
            &["https://github.com/example/fleet"],
            "metadata.name",
        ),
    ] {
        let refused = run(name, &[&prod[..], more].concat()).await;
        assert_eq!((refused.code, refused.out.as_str()), (2, ""), "{more:?}");
        assert!(refused.err.contains(expected), "{more:?}: {}", refused.err);
    }
    let alone = run("shop", &[]).await;
    assert_eq!(alone.code, 0, "{}", alone.err);
    let expected = "with one environment nothing is promoted";
    assert!(alone.err.contains(expected), "{}", alone.err);
}

/// A kubeconfig with one context, `a`.
fn kubeconfig(folder: &tempfile::TempDir, server: &str) -> String {
    let file = folder.path().join("kubeconfig");
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "a",
        "clusters": [{"name": "a", "cluster": {"server": server}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "users": [{"name": "a", "user": {}}],
    });
    std::fs::write(&file, text.to_string()).unwrap();
    file.to_str().unwrap().to_owned()
}

/// Wrong contexts, wrong protocols and kubeconfigs of demos that have ended.
#[tokio::test]
async fn errors_about_the_kubeconfig_say_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = TestCluster::new().await;
    let text = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
    let (_, address) = text.split_once("https://").unwrap();
    let address = address.split_whitespace().next().unwrap();
    let address = address.trim_end_matches('"');
    let file = kubeconfig(&folder, &format!("http://{address}"));
    for (typed, expected) in [
        (
            vec!["--kubeconfig", &file, "--context", "nope"],
            "the kubeconfig has no context nope; it has: a",
        ),
        (vec!["--kubeconfig", &file], "has to begin with https://"),
        (
            vec!["--kubeconfig", "/tmp/sluice-demo-none/sluice/kubeconfig"],
            "has ended; start another with `sluice demo`",
        ),
    ] {
        let output = offline(&[&typed[..], &["get", "pipelines"]].concat()).await;
        assert_eq!(output.code, 1);
        assert!(output.err.contains(expected), "{}", output.err);
    }
}

/// A kubeconfig that cannot be parsed is named, and nothing in it is printed.
#[tokio::test]
async fn errors_do_not_print_what_is_in_a_kubeconfig() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("broken");
    let text = "users:\n- name: a\n  user: {token: very-secret\ncontexts: [\n";
    std::fs::write(&file, text).unwrap();
    let file = file.display().to_string();
    let output = offline(&["--kubeconfig", &file, "get", "pipelines"]).await;
    assert_eq!(output.code, 1);
    let expected = format!("cannot read the kubeconfig {file}: it is not valid YAML");
    assert!(output.err.contains(&expected), "{}", output.err);
    assert!(output.err.contains("at line "), "{}", output.err);
    assert!(!output.err.contains("secret"), "{}", output.err);
}

/// Who does not know the kinds learns them from the command.
#[tokio::test]
async fn get_without_a_kind_names_the_kinds() {
    let output = offline(&["get"]).await;
    assert_eq!(output.code, 2);
    let expected = "sluice: name a kind: pipelines, promotions, changes, freezes, checks, triggers, clusters, all";
    assert_eq!(output.err.trim(), expected);
}

/// The causes of an error are named once each.
#[tokio::test]
async fn errors_do_not_repeat_themselves() {
    let folder = tempfile::tempdir().unwrap();
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let file = kubeconfig(&folder, &format!("http://127.0.0.1:{port}"));
    for typed in [&["get", "pipelines"][..], &["get", "pipelines", "--watch"]] {
        let output = offline(&[&["--kubeconfig", &file], typed].concat()).await;
        assert_eq!(output.code, 1);
        let last = output.err.trim().lines().last().unwrap_or_default();
        let parts: Vec<&str> = last.split(": ").collect();
        let distinct: std::collections::BTreeSet<&&str> = parts.iter().collect();
        assert_eq!(parts.len(), distinct.len(), "{}", output.err);
        assert!(
            last.contains(&format!(
                "the cluster at http://127.0.0.1:{port} does not respond"
            )),
            "{}",
            output.err
        );
        assert!(!last.contains("client error"), "{}", output.err);
    }
}

//! apply (both ways), diff, edit, patch, label, annotate, create, delete.

use serde_json::{Value, json};

use crate::run::{Kubectl, thing};

fn deployment(main: &str, side: Option<&str>) -> Value {
    let mut containers =
        vec![json!({"name": "main", "image": main, "ports": [{"containerPort": 80}]})];
    containers.extend(side.map(|image| json!({"name": "side", "image": image})));
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {
        "selector": {"matchLabels": {"app": "d"}},
        "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"containers": containers}},
    }})
}

const IMAGES: &str = "jsonpath={.spec.template.spec.containers[*].image}";

#[tokio::test]
#[ignore = "needs kubectl: `cargo xtask test --real`"]
async fn client_side_apply() {
    let kubectl = Kubectl::start("client-side").await;
    kubectl.define().await;
    let first = deployment("main:1", Some("side:1"));
    assert_eq!(
        kubectl.apply(&[], &first).await,
        "deployment.apps/d created\n"
    );
    assert_eq!(
        kubectl.apply(&[], &first).await,
        "deployment.apps/d unchanged\n"
    );
    kubectl
        .run(&["set", "image", "deployment/d", "side=side:2"])
        .await;
    assert_eq!(
        kubectl.apply(&[], &deployment("main:2", None)).await,
        "deployment.apps/d configured\n"
    );
    assert_eq!(
        kubectl.run(&["get", "deployment/d", "-o", IMAGES]).await,
        "main:2"
    );
    assert_eq!(
        kubectl
            .apply(
                &[],
                &thing("a", json!({"color": "red", "parts": [{"name": "p"}]}))
            )
            .await,
        "thing.kubectl.example.com/a created\n"
    );
    kubectl
        .apply(&[], &thing("a", json!({"color": "blue"})))
        .await;
    assert_eq!(
        kubectl.object("thing/a").await["spec"],
        json!({"color": "blue"})
    );
}

/// As `kubectl get -o yaml` prints several objects.
#[tokio::test]
#[ignore = "needs kubectl: `cargo xtask test --real`"]
async fn a_list_is_applied() {
    let kubectl = Kubectl::start("list").await;
    kubectl.define().await;
    let items = ["a", "b"].map(|name| thing(name, json!({"color": "red"})));
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    assert_eq!(
        kubectl.apply(&[], &list).await,
        "thing.kubectl.example.com/a created\nthing.kubectl.example.com/b created\n"
    );
    let all = kubectl.run(&["get", "things", "-o", "yaml"]).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), all).unwrap();
    let path = file.path().to_str().unwrap();
    kubectl.run(&["replace", "-f", path]).await;
}

#[tokio::test]
#[ignore = "needs kubectl: `cargo xtask test --real`"]
async fn server_side_apply() {
    let kubectl = Kubectl::start("server-side").await;
    kubectl.define().await;
    let server_side = ["--server-side", "--field-manager=one"];
    let config = thing(
        "a",
        json!({"color": "red", "parts": [{"name": "p", "count": 1}]}),
    );
    assert_eq!(
        kubectl.apply(&server_side, &config).await,
        "thing.kubectl.example.com/a serverside-applied\n"
    );
    let other = thing("a", json!({"color": "blue", "parts": [{"name": "q"}]}));
    let refused = kubectl
        .try_apply(&["--server-side", "--field-manager=two"], &other)
        .await;
    assert_eq!(refused.code, 1);
    assert!(
        refused.err.contains("conflict with \"one\": .spec.color"),
        "{}",
        refused.err
    );
    kubectl
        .apply(
            &["--server-side", "--field-manager=two", "--force-conflicts"],
            &other,
        )
        .await;
    kubectl.apply(&server_side, &thing("a", json!({}))).await;
    let spec = &kubectl.object("thing/a").await["spec"];
    assert_eq!(*spec, json!({"color": "blue", "parts": [{"name": "q"}]}));
}

#[tokio::test]
#[ignore = "needs kubectl: `cargo xtask test --real`"]
async fn client_side_becomes_server_side() {
    let kubectl = Kubectl::start("both-sides").await;
    kubectl
        .apply(&[], &deployment("main:1", Some("side:1")))
        .await;
    kubectl
        .apply(&["--server-side"], &deployment("main:2", None))
        .await;
    assert_eq!(
        kubectl.run(&["get", "deployment/d", "-o", IMAGES]).await,
        "main:2"
    );
    let managers = kubectl.object("deployment/d").await;
    let names: Vec<&str> = managers["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|entry| entry["manager"].as_str())
        .collect();
    assert!(names.contains(&"kubectl"), "{names:?}");
    assert!(!names.contains(&"kubectl-client-side-apply"), "{names:?}");
}

#[tokio::test]
#[ignore = "needs kubectl: `cargo xtask test --real`"]
async fn unknown_fields_are_refused() {
    let kubectl = Kubectl::start("strict").await;
    kubectl.define().await;
    let mut bad = deployment("main:1", None);
    bad["spec"]["nope"] = json!(1);
    let refused = kubectl.try_apply(&[], &bad).await;
    assert_eq!(refused.code, 1);
    assert!(
        refused.err.contains("unknown field \"spec.nope\""),
        "{}",
        refused.err
    );
    let refused = kubectl
        .try_apply(&[], &thing("a", json!({"nope": 1})))
        .await;
    assert!(
        refused.err.contains("unknown field \"spec.nope\""),
        "{}",
        refused.err
    );
    let warned = kubectl.try_apply(&["--validate=warn"], &bad).await;
    assert_eq!(warned.code, 0, "{}", warned.err);
    assert!(
        warned.err.contains("Warning: unknown field \"spec.nope\""),
        "{}",
        warned.err
    );
}

#[tokio::test]
#[ignore = "needs kubectl: `cargo xtask test --real`"]
async fn diff_shows_what_would_change() {
    let kubectl = Kubectl::start("diffing").await;
    kubectl.define().await;
    kubectl
        .apply(&[], &thing("a", json!({"color": "red"})))
        .await;
    let changed = thing("a", json!({"color": "blue"})).to_string();
    for flags in [
        &["diff", "-f", "-"][..],
        &["diff", "--server-side", "--force-conflicts", "-f", "-"],
    ] {
        let said = kubectl.with(flags, &changed, &[]).await;
        assert_eq!(said.code, 1, "{}", said.err);
        assert!(
            said.out.contains("-  color: red\n+  color: blue"),
            "{}",
            said.out
        );
    }
    let same = thing("a", json!({"color": "red"})).to_string();
    let said = kubectl.with(&["diff", "-f", "-"], &same, &[]).await;
    assert_eq!((said.code, said.out.as_str()), (0, ""), "{}", said.err);
    assert_eq!(kubectl.object("thing/a").await["spec"]["color"], "red");
}

#[tokio::test]
#[ignore = "needs kubectl: `cargo xtask test --real`"]
async fn edit_patch_label_annotate() {
    let kubectl = Kubectl::start("editing").await;
    kubectl.define().await;
    kubectl
        .apply(&[], &thing("a", json!({"color": "red"})))
        .await;
    kubectl.apply(&[], &deployment("main:1", None)).await;
    for (object, editor) in [
        ("thing/a", "sed -i s/red/green/"),
        ("deployment/d", "sed -i s/main:1/main:2/"),
    ] {
        let said = kubectl
            .with(&["edit", object], "", &[("EDITOR", editor)])
            .await;
        assert!(said.out.contains(" edited"), "{}{}", said.out, said.err);
    }
    assert_eq!(kubectl.object("thing/a").await["spec"]["color"], "green");
    let patch = r#"{"spec":{"template":{"spec":{"containers":[{"name":"main","tty":true}]}}}}"#;
    kubectl.run(&["patch", "deployment/d", "-p", patch]).await;
    let container =
        &kubectl.object("deployment/d").await["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        (&container["image"], &container["tty"]),
        (&json!("main:2"), &json!(true))
    );
    kubectl
        .run(&[
            "patch",
            "thing/a",
            "--type=merge",
            "-p",
            r#"{"spec":{"color":"blue"}}"#,
        ])
        .await;
    kubectl
        .run(&[
            "patch",
            "thing/a",
            "--type=json",
            "-p",
            r#"[{"op":"test","path":"/spec/color","value":"blue"}]"#,
        ])
        .await;
    kubectl.run(&["label", "thing/a", "team=x"]).await;
    kubectl.run(&["annotate", "thing/a", "note=y"]).await;
    let metadata = kubectl.object("thing/a").await["metadata"].clone();
    assert_eq!(metadata["labels"], json!({"team": "x"}));
    assert_eq!(metadata["annotations"]["note"], "y");
    let taken = kubectl.with(&["label", "thing/a", "team=z"], "", &[]).await;
    assert_eq!(taken.code, 1);
    kubectl.run(&["label", "thing/a", "team-"]).await;
    assert_eq!(
        kubectl.object("thing/a").await["metadata"].get("labels"),
        None
    );
}

#[tokio::test]
#[ignore = "needs kubectl: `cargo xtask test --real`"]
async fn delete_in_all_manners() {
    let kubectl = Kubectl::start("deleting").await;
    kubectl.define().await;
    for name in ["a", "b", "c", "d"] {
        kubectl.apply(&[], &thing(name, json!({}))).await;
    }
    kubectl.run(&["delete", "thing", "a"]).await;
    kubectl
        .run(&["delete", "thing", "b", "--cascade=foreground"])
        .await;
    kubectl
        .run(&["delete", "thing", "c", "--cascade=orphan"])
        .await;
    assert_eq!(
        kubectl.run(&["get", "things", "-o", "name"]).await,
        "thing.kubectl.example.com/d\n"
    );
    kubectl.run(&["delete", "things", "--all"]).await;
    assert_eq!(kubectl.run(&["get", "things", "-o", "name"]).await, "");
    let again = kubectl
        .run(&["delete", "thing", "a", "--ignore-not-found"])
        .await;
    assert_eq!(again, "");
}

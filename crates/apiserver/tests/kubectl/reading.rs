//! get in all its forms, describe, explain, events, wait, api-resources.

use serde_json::json;

use crate::run::{Kubectl, thing, words};

#[tokio::test]
#[ignore = "needs kubectl: `cargo xtask test --real`"]
async fn get_prints_tables() {
    let kubectl = Kubectl::start("tables").await;
    kubectl.define().await;
    kubectl
        .apply(
            &[],
            &thing(
                "a",
                json!({"color": "red", "parts": [{"name": "p"}, {"name": "q"}]}),
            ),
        )
        .await;
    let table = kubectl.run(&["get", "things"]).await;
    assert_eq!(words(&table)[0], ["NAME", "COLOR", "READY", "AGE"]);
    assert_eq!(words(&table)[1][..2], ["a", "red"]);
    let status =
        json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}).to_string();
    kubectl
        .run(&[
            "patch",
            "thing/a",
            "--subresource=status",
            "--type=merge",
            "-p",
            &status,
        ])
        .await;
    let table = kubectl.run(&["get", "tg", "-o", "wide"]).await;
    assert_eq!(words(&table)[0], ["NAME", "COLOR", "READY", "PARTS", "AGE"]);
    assert_eq!(words(&table)[1][..3], ["a", "red", "True"]);
    let table = kubectl
        .run(&["get", "things", "-A", "--show-labels", "--no-headers"])
        .await;
    assert_eq!(words(&table)[0][..3], ["tables", "a", "red"]);
    let sorted = kubectl
        .run(&["get", "things", "--sort-by=.metadata.name"])
        .await;
    assert_eq!(words(&sorted).len(), 2);
}

#[tokio::test]
#[ignore = "needs kubectl: `cargo xtask test --real`"]
async fn get_prints_objects() {
    let kubectl = Kubectl::start("objects").await;
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "labels": {"l": "1"}}, "data": {"k": "v"}});
    kubectl.apply(&[], &config).await;
    assert_eq!(
        kubectl.run(&["get", "cm/c", "-o", "name"]).await,
        "configmap/c\n"
    );
    assert_eq!(
        kubectl
            .run(&["get", "cm", "c", "-o", "jsonpath={.data.k}"])
            .await,
        "v"
    );
    let yaml = kubectl.run(&["get", "cm", "c", "-o", "yaml"]).await;
    assert!(yaml.contains("\ndata:\n  k: v\n"), "{yaml}");
    assert!(!yaml.contains("managedFields"), "{yaml}");
    let custom = kubectl
        .run(&[
            "get",
            "cm",
            "-l",
            "l=1",
            "-o",
            "custom-columns=N:.metadata.name,K:.data.k",
        ])
        .await;
    assert_eq!(words(&custom), [["N", "K"], ["c", "v"]]);
    let table = kubectl.run(&["get", "cm", "-l", "l=1"]).await;
    assert_eq!(words(&table)[0], ["NAME", "DATA", "AGE"]);
    assert_eq!(words(&table)[1][..2], ["c", "1"]);
    let missing = kubectl.with(&["get", "cm", "nope"], "", &[]).await;
    assert_eq!(
        missing.err.trim(),
        "Error from server (NotFound): configmaps \"nope\" not found"
    );
    let names = kubectl
        .run(&["get", "ns/objects", "-o", "jsonpath={.status.phase}"])
        .await;
    assert_eq!(names, "Active");
}

#[tokio::test]
#[ignore = "needs kubectl: `cargo xtask test --real`"]
async fn get_watches() {
    let kubectl = Kubectl::start("watching").await;
    let config = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "labels": {"l": "1"}}});
    kubectl.apply(&[], &config("first")).await;
    let watch = kubectl.spawn(&["get", "cm", "-l", "l=1", "-w", "--no-headers"]);
    let first = watch.line().await;
    assert!(first.starts_with("first "), "{first}");
    kubectl.apply(&[], &config("second")).await;
    let second = watch.line().await;
    assert!(second.starts_with("second "), "{second}");
}

#[tokio::test]
#[ignore = "needs kubectl: `cargo xtask test --real`"]
async fn describe_and_events() {
    let kubectl = Kubectl::start("describing").await;
    kubectl.define().await;
    kubectl
        .apply(&[], &thing("a", json!({"color": "red"})))
        .await;
    let uid = kubectl
        .run(&["get", "thing/a", "-o", "jsonpath={.metadata.uid}"])
        .await;
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "a.1", "namespace": "describing"},
        "involvedObject": {"apiVersion": "kubectl.example.com/v1", "kind": "Thing", "name": "a", "namespace": "describing", "uid": uid},
        "reason": "Painted", "message": "it is red now", "type": "Normal", "source": {"component": "painter"},
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:00Z", "count": 1,
    });
    kubectl.apply(&[], &event).await;
    let told = kubectl.run(&["describe", "thing", "a"]).await;
    for line in ["Name:         a", "Color:  red", "Painted", "it is red now"] {
        assert!(told.contains(line), "{line}: {told}");
    }
    let events = kubectl.run(&["events", "--for", "thing/a"]).await;
    assert!(
        events.contains("Painted") && events.contains("it is red now"),
        "{events}"
    );
    let table = kubectl.run(&["get", "events"]).await;
    assert_eq!(
        words(&table)[0],
        ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    );
    assert_eq!(words(&table)[1][1..4], ["Normal", "Painted", "thing/a"]);
    let told = kubectl.run(&["describe", "ns", "describing"]).await;
    assert!(told.contains("Status:       Active"), "{told}");
}

#[tokio::test]
#[ignore = "needs kubectl: `cargo xtask test --real`"]
async fn explain_and_api_resources() {
    let kubectl = Kubectl::start("explaining").await;
    kubectl.define().await;
    let told = kubectl.run(&["explain", "things"]).await;
    for line in [
        "GROUP:      kubectl.example.com",
        "KIND:       Thing",
        "A thing to try things with.",
        "metadata\t<ObjectMeta>",
    ] {
        assert!(told.contains(line), "{line}: {told}");
    }
    let told = kubectl.run(&["explain", "things.spec.parts"]).await;
    assert!(told.contains("count\t<integer>"), "{told}");
    let told = kubectl
        .run(&["explain", "deployment.spec.template.spec.containers.ports"])
        .await;
    assert!(
        told.contains("containerPort\t<integer> -required-"),
        "{told}"
    );
    let unknown = kubectl.with(&["explain", "pods.spec.nope"], "", &[]).await;
    assert_eq!(unknown.code, 1);
    let resources = kubectl.run(&["api-resources", "--no-headers"]).await;
    let rows = words(&resources);
    assert!(
        rows.contains(&vec![
            "things",
            "tg",
            "kubectl.example.com/v1",
            "true",
            "Thing"
        ]),
        "{resources}"
    );
    assert!(
        rows.contains(&vec!["configmaps", "cm", "v1", "true", "ConfigMap"]),
        "{resources}"
    );
    let versions = kubectl.run(&["api-versions"]).await;
    assert!(
        versions
            .lines()
            .any(|line| line == "kubectl.example.com/v1"),
        "{versions}"
    );
}

#[tokio::test]
#[ignore = "needs kubectl: `cargo xtask test --real`"]
async fn wait_waits() {
    let kubectl = Kubectl::start("waiting").await;
    kubectl.define().await;
    kubectl.apply(&[], &thing("a", json!({}))).await;
    let arguments = ["wait", "--for=condition=Ready", "thing/a", "--timeout=60s"];
    let status =
        json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}).to_string();
    let patch = [
        "patch",
        "thing/a",
        "--subresource=status",
        "--type=merge",
        "-p",
        &status,
    ];
    let (waited, _) = tokio::join!(kubectl.run(&arguments), kubectl.run(&patch));
    assert_eq!(waited, "thing.kubectl.example.com/a condition met\n");
    let arguments = ["wait", "--for=delete", "thing/a", "--timeout=60s"];
    let (_, _) = tokio::join!(kubectl.run(&arguments), kubectl.run(&["delete", "thing/a"]));
    let late = kubectl
        .with(
            &["wait", "--for=condition=Ready", "thing/a", "--timeout=1s"],
            "",
            &[],
        )
        .await;
    assert_eq!(late.code, 1);
}

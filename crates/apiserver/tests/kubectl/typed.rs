//! Commands that make built-in objects by themselves, which kubectl sends in the binary encoding.

use serde_json::{Value, json};

use crate::run::Kubectl;

/// What the command makes, as far as the command says what it is.
async fn check(kubectl: &Kubectl, command: &str, made: &str, expected: Value) {
    let words: Vec<&str> = command.split(' ').collect();
    kubectl.run(&words).await;
    let object = kubectl.object(made).await;
    for (field, value) in expected.as_object().unwrap() {
        assert_eq!(object[field], *value, "{command}: {object}");
    }
}

#[tokio::test]
#[ignore = "needs kubectl: `cargo xtask test --real`"]
async fn configuration_and_rights() {
    let kubectl = Kubectl::start("typed").await;
    let namespace = json!({"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}});
    check(
        &kubectl,
        "create namespace other",
        "namespace/other",
        namespace,
    )
    .await;
    let command = "create configmap settings --from-literal=color=red";
    check(
        &kubectl,
        command,
        "configmap/settings",
        json!({"data": {"color": "red"}}),
    )
    .await;
    let command = "create secret generic token --from-literal=token=abc";
    let secret = json!({"data": {"token": "YWJj"}, "type": "Opaque"});
    check(&kubectl, command, "secret/token", secret).await;
    let command = "create serviceaccount robot";
    check(
        &kubectl,
        command,
        "serviceaccount/robot",
        json!({"kind": "ServiceAccount"}),
    )
    .await;
    let token = kubectl.run(&["create", "token", "robot"]).await;
    assert_eq!(token.trim().split('.').count(), 3, "{token}");
    let rules = json!({"rules": [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]},
    ]});
    let command = "create role reader --verb=get,list --resource=configmaps";
    check(&kubectl, command, "role/reader", rules.clone()).await;
    let command = "create clusterrole reader --verb=get,list --resource=configmaps";
    check(&kubectl, command, "clusterrole/reader", rules).await;
    let bound = json!({
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"},
        "subjects": [{"kind": "ServiceAccount", "name": "robot", "namespace": "typed"}],
    });
    let command = "create rolebinding reads --role=reader --serviceaccount=typed:robot";
    check(&kubectl, command, "rolebinding/reads", bound).await;
    let command = "create clusterrolebinding all --clusterrole=reader --user=alice";
    let subjects =
        json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}]);
    check(
        &kubectl,
        command,
        "clusterrolebinding/all",
        json!({"subjects": subjects}),
    )
    .await;
    let asked = [
        "auth",
        "can-i",
        "list",
        "configmaps",
        "--as=system:serviceaccount:typed:robot",
    ];
    assert_eq!(kubectl.run(&asked).await, "yes\n");
    kubectl
        .run(&["delete", "secret", "token", "--wait=false"])
        .await;
}

#[tokio::test]
#[ignore = "needs kubectl: `cargo xtask test --real`"]
async fn workloads() {
    let kubectl = Kubectl::start("workloads").await;
    let command = "create deployment web --image=nginx:1 --replicas=2 --port=80";
    kubectl.run(&command.split(' ').collect::<Vec<_>>()).await;
    let web = kubectl.object("deployment/web").await;
    assert_eq!(web["spec"]["replicas"], 2);
    assert_eq!(
        web["spec"]["selector"],
        json!({"matchLabels": {"app": "web"}})
    );
    let container = &web["spec"]["template"]["spec"]["containers"][0];
    assert_eq!(
        (&container["name"], &container["image"]),
        (&json!("nginx"), &json!("nginx:1"))
    );
    assert_eq!(container["ports"][0]["containerPort"], 80);
    kubectl
        .run(&["set", "image", "deployment/web", "nginx=nginx:2"])
        .await;
    kubectl.run(&["rollout", "restart", "deployment/web"]).await;
    let web = kubectl.object("deployment/web").await;
    let template = &web["spec"]["template"];
    assert_eq!(template["spec"]["containers"][0]["image"], "nginx:2");
    let restarted = &template["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"];
    assert!(restarted.is_string(), "{template}");
    kubectl
        .run(&["scale", "deployment/web", "--replicas=3"])
        .await;
    assert_eq!(
        kubectl.object("deployment/web").await["spec"]["replicas"],
        3
    );
    kubectl
        .run(&[
            "expose",
            "deployment/web",
            "--port=8080",
            "--target-port=80",
        ])
        .await;
    let service = kubectl.object("service/web").await;
    assert_eq!(service["spec"]["selector"], json!({"app": "web"}));
    assert_eq!(service["spec"]["ports"][0]["targetPort"], 80);
    let command = "create job once --image=busybox -- true";
    kubectl.run(&command.split(' ').collect::<Vec<_>>()).await;
    let job = kubectl.object("job/once").await;
    assert_eq!(
        job["spec"]["template"]["spec"]["containers"][0]["command"],
        json!(["true"])
    );
    // On a real server the account comes from a controller, sooner or later.
    let _ = kubectl
        .with(&["create", "serviceaccount", "default"], "", &[])
        .await;
    kubectl
        .run(&["run", "shell", "--image=busybox", "--env=A=b"])
        .await;
    let pod = kubectl.object("pod/shell").await;
    assert_eq!(
        pod["spec"]["containers"][0]["env"],
        json!([{"name": "A", "value": "b"}])
    );
    kubectl.run(&["delete", "pod/shell", "--now"]).await;
}

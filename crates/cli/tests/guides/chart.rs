//! The chart: helm accepts it with any values, a real API server accepts the rendered objects, and they
//! are the same as those of `sluice install`.

use std::{collections::BTreeMap, process::Command};

use serde_json::{Value, json};
use testbed::{guide::repository, real::Assets};

use crate::{binary, cluster::Cluster};

/// Values that a release may have; without any, the defaults.
const VALUES: [Option<&str>; 4] = [
    None,
    Some("weave.yaml"),
    Some("everything.yaml"),
    Some("as-installed.yaml"),
];

fn helm(arguments: &[&str], values: Option<&str>) -> String {
    let mut command = Command::new(Assets::from_env().unwrap().program("helm"));
    command.args(arguments).current_dir(repository());
    if let Some(values) = values {
        command.arg(format!("--values=deploy/chart/ci/{values}"));
    }
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{arguments:?} {values:?}: {said}{complaints}"
    );
    said
}

/// For a cluster that has the Prometheus operator.
fn rendered(values: Option<&str>) -> Vec<Value> {
    rendered_with(&["--api-versions=monitoring.coreos.com/v1"], values)
}

fn rendered_with(flags: &[&str], values: Option<&str>) -> Vec<Value> {
    let arguments = [
        "template",
        "pipeline-controller",
        "deploy/chart",
        "-npipeline-system",
    ];
    objects(&helm(&[&arguments, flags].concat(), values))
}

fn objects(text: &str) -> Vec<Value> {
    let objects: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    objects
        .into_iter()
        .filter(|object| !object.is_null())
        .collect()
}

/// By kind and name, without labels, and without the flags, which `sluice install` has none of.
fn comparable(objects: Vec<Value>) -> BTreeMap<String, Value> {
    let key = |object: &Value| format!("{} {}", object["kind"], object["metadata"]["name"]);
    let others = objects.into_iter().filter(|object| {
        object["kind"] != "CustomResourceDefinition" && object["kind"] != "Namespace"
    });
    let keyed = others.map(|mut object| {
        remove(
            &mut object,
            &["labels", "matchLabels", "selector", "annotations"],
        );
        if object["kind"] == "Deployment" {
            let container = &mut object["spec"]["template"]["spec"]["containers"][0];
            remove(container, &["args", "imagePullPolicy"]);
        }
        if object["kind"] == "Service" {
            remove(&mut object["spec"], &["type"]);
        }
        (key(&object), object)
    });
    keyed.collect()
}

fn remove(value: &mut Value, keys: &[&str]) {
    match value {
        // The rules of alerts have labels that matter.
        Value::Object(object) if !object.contains_key("alert") => {
            object.retain(|key, _| !keys.contains(&key.as_str()));
            object.values_mut().for_each(|value| remove(value, keys));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| remove(item, keys)),
        _ => {}
    }
}

/// Which of these labels a map lacks.
fn are_on(labels: &Value, map: &Value) -> bool {
    let labels = labels.as_object().unwrap();
    !labels.is_empty() && labels.iter().all(|(key, value)| &map[key] == value)
}

/// Every selector finds the pods that it is about, and a Deployment only its own.
fn check_selectors(objects: &[Value]) {
    let of = |kind: &'static str| objects.iter().filter(move |object| object["kind"] == kind);
    let pods: Vec<&Value> = of("Deployment")
        .map(|deployment| &deployment["spec"]["template"]["metadata"]["labels"])
        .collect();
    let found = |labels: &Value| pods.iter().filter(|pod| are_on(labels, pod)).count();
    for deployment in of("Deployment") {
        assert_eq!(found(&deployment["spec"]["selector"]["matchLabels"]), 1);
    }
    for budget in of("PodDisruptionBudget") {
        assert_eq!(found(&budget["spec"]["selector"]["matchLabels"]), 1);
    }
    for policy in of("NetworkPolicy") {
        let labels = &policy["spec"]["podSelector"]["matchLabels"];
        assert_eq!(found(labels), pods.len());
    }
    for service in of("Service") {
        let is_for_all = service["spec"]["ports"][0]["name"] == "metrics";
        let expected = if is_for_all { pods.len() } else { 1 };
        assert_eq!(found(&service["spec"]["selector"]), expected, "{service}");
    }
    for monitor in of("ServiceMonitor") {
        let labels = &monitor["spec"]["selector"]["matchLabels"];
        let services =
            of("Service").filter(|service| are_on(labels, &service["metadata"]["labels"]));
        assert_eq!(services.count(), 1);
    }
}

/// Secrets are read by name, and never listed.
fn check_rights(objects: &[Value]) {
    let rules = objects
        .iter()
        .filter_map(|object| object["rules"].as_array());
    let has = |values: &Value, any_of: &[&str]| {
        let values = values.as_array().into_iter().flatten();
        values
            .filter_map(Value::as_str)
            .any(|value| any_of.contains(&value))
    };
    let mut reads = 0;
    for rule in rules.flatten() {
        let is_about_secrets =
            has(&rule["apiGroups"], &["", "*"]) && has(&rule["resources"], &["secrets", "*"]);
        if is_about_secrets {
            assert!(!has(&rule["verbs"], &["list", "watch", "*"]), "{rule}");
            reads += 1;
        }
    }
    assert_eq!(reads, 3, "to read, to create its own, and to update that");
}

#[test]
#[ignore = "needs helm: `cargo xtask test --real`"]
fn helm_lint_passes() {
    for values in VALUES {
        helm(&["lint", "--strict", "deploy/chart"], values);
        let objects = rendered(values);
        check_selectors(&objects);
        check_rights(&objects);
    }
}

#[test]
#[ignore = "needs helm: `cargo xtask test --real`"]
fn the_chart_renders_what_sluice_install_prints() {
    let printed = Command::new(binary())
        .args([
            "install",
            "--network-policy",
            "--disruption-budget",
            "--monitoring",
        ])
        .output();
    let printed = objects(&String::from_utf8(printed.unwrap().stdout).unwrap());
    check_selectors(&printed);
    let (installed, chart) = (
        comparable(printed),
        comparable(rendered(Some("as-installed.yaml"))),
    );
    assert_eq!(
        installed.keys().collect::<Vec<_>>(),
        chart.keys().collect::<Vec<_>>()
    );
    for (key, object) in installed {
        assert_eq!(object, chart[&key], "{key}");
    }
}

#[test]
#[ignore = "needs helm: `cargo xtask test --real`"]
fn values_of_the_weave_chart_have_the_same_effect() {
    let objects = rendered(Some("weave.yaml"));
    let named = |kind: &str, name: &str| {
        let mut all = objects.iter();
        let found = all.find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
        found.unwrap_or_else(|| unreachable!("{kind} {name}"))
    };
    let deployment = named("Deployment", "pipeline-controller");
    assert_eq!(deployment["spec"]["replicas"], 1);
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let image = format!("sluice:{}", env!("CARGO_PKG_VERSION"));
    assert_eq!(container["image"], image);
    assert_eq!(
        container["args"],
        json!([
            "controller",
            "--log-encoding=console",
            "--log-level=debug",
            "--promotion-hook-rate-limit=50",
            "--promotion-hook-rate-limit-interval=60",
            "--detect=watch",
            "--events-addr=http://notification-controller.flux-system.svc.cluster.local./",
        ])
    );
    assert_eq!(container["resources"]["limits"]["memory"], "128Mi");
    let service = named("Service", "pipeline-controller-promotion");
    assert_eq!(
        service["spec"]["ports"],
        json!([{"name": "promotion", "port": 8082, "targetPort": "promotion", "nodePort": 30082}])
    );
    let ingress = named("Ingress", "pipeline-controller-promotion");
    assert_eq!(ingress["spec"]["ingressClassName"], "nginx");
    // The name of the Service when it was part of Weave GitOps Enterprise.
    let other = helm(&["template", "chart", "deploy/chart"], None);
    assert!(other.contains("\n  name: chart-pipeline-controller-promotion\n"));
}

/// helm refuses a release with kinds that the cluster does not serve, so these are left out.
#[test]
#[ignore = "needs helm: `cargo xtask test --real`"]
fn without_the_prometheus_operator_its_kinds_are_left_out() {
    let kinds = |objects: Vec<Value>| {
        let of_operator = |object: &&Value| object["apiVersion"] == "monitoring.coreos.com/v1";
        let theirs = objects.iter().filter(of_operator);
        let mut kinds: Vec<_> = theirs.map(|object| object["kind"].clone()).collect();
        kinds.sort_by_key(Value::to_string);
        kinds
    };
    let values = Some("everything.yaml");
    assert_eq!(
        kinds(rendered(values)),
        ["PrometheusRule", "ServiceMonitor"]
    );
    let without = rendered_with(&[], values);
    let has_service = without.iter().any(|it| {
        it["kind"] == "Service" && it["metadata"]["name"] == "pipeline-controller-metrics"
    });
    assert!(has_service, "Prometheus can be pointed at it by hand");
    assert_eq!(kinds(without), [""; 0]);
}

#[test]
#[ignore = "needs helm: `cargo xtask test --real`"]
fn events_and_the_dashboards_address_are_flags() {
    let flags = |values: &str| {
        let objects = rendered(Some(values));
        let deployment = objects
            .iter()
            .find(|it| it["kind"] == "Deployment")
            .unwrap();
        deployment["spec"]["template"]["spec"]["containers"][0]["args"].to_string()
    };
    let all = flags("everything.yaml");
    for flag in [
        "--events-reasons=Promote,DeployFailed",
        "--dashboard-url=https://sluice.example.com",
        "--oidc-issuer-url=https://dex.example.com",
        "--oidc-client-secret-file=/oidc/client-secret",
        "--oidc-ca-file=/oidc-ca/ca.crt",
        "--oidc-username-prefix=-",
        "--oidc-required-claim=hd=example.com",
        "--oidc-signing-algs=RS256,ES256",
    ] {
        assert!(all.contains(flag), "{flag}: {all}");
    }
    let few = flags("weave.yaml");
    assert!(!few.contains("--events-reasons") && !few.contains("--oidc"));
}

/// No engine is at hand to build it; at least both sides say the same.
#[test]
fn the_image_is_what_the_deployment_expects() {
    let image = std::fs::read_to_string(repository().join("deploy/Dockerfile")).unwrap();
    for line in [
        "USER 65532:65532",
        "ENTRYPOINT [\"/usr/local/bin/sluice\"]",
        "ENV HOME=/tmp",
        "ENV LD_PRELOAD=libjemalloc.so.2",
    ] {
        assert!(image.lines().any(|found| found == line), "{line}");
    }
    let mut bases = image.lines().filter(|line| line.starts_with("FROM "));
    assert!(
        bases.all(|base| base.contains("_DIGEST}")),
        "a base image without a digest"
    );
    let manifest = std::fs::read_to_string(repository().join("deploy/manifests/controller.yaml"));
    let manifest = manifest.unwrap();
    for line in [
        "runAsUser: 65532",
        "runAsGroup: 65532",
        "command: [/usr/local/bin/sluice]",
        "- {name: mirrors, mountPath: /tmp}",
    ] {
        assert!(manifest.lines().any(|found| found.trim() == line), "{line}");
    }
}

#[tokio::test]
#[ignore = "needs a real control plane: `cargo xtask test --real`"]
async fn every_release_is_accepted() {
    let mut cluster = Cluster::start().await;
    cluster
        .define(&[
            "servicemonitors.monitoring.coreos.com ServiceMonitor v1",
            "prometheusrules.monitoring.coreos.com PrometheusRule v1",
        ])
        .await;
    for values in VALUES {
        let values = values.map_or(String::new(), |file| format!("-f deploy/chart/ci/{file}"));
        // One release, raised from each to the next, as people change their minds.
        let command = "helm upgrade --install it deploy/chart -n here --create-namespace";
        let said = cluster.shell.sh(&format!("{command} {values}")).await;
        let says_what_is_void = said.unwrap().contains("promotion.retry has no effect");
        assert_eq!(says_what_is_void, values.contains("weave"));
    }
    let said = cluster
        .shell
        .sh("helm uninstall it -n here && kubectl get crds")
        .await
        .unwrap();
    assert!(said.contains("pipelines.pipelines.weave.works"), "{said}");
}

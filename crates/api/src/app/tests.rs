//! Each test draws a status and says how it reads.

use kube::core::DynamicObject;
use serde_json::{Value, json};

use super::{AppReading, AppType, read, read_as, read_tracking, source_of};

/// A reading in one line: what runs, then everything else worth a word.
fn line(reading: &AppReading) -> String {
    let mut words = vec![
        reading
            .revision
            .as_ref()
            .map_or("-", |revision| revision.as_str())
            .to_owned(),
    ];
    let mut add = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            words.push(format!("{name}={value}"));
        }
    };
    let revision = reading.revision.as_ref().map(|revision| revision.as_str());
    add(
        "version",
        reading
            .version
            .as_deref()
            .filter(|version| Some(*version) != revision),
    );
    add("digest", reading.digest.as_deref());
    let attempted = reading.attempted.as_ref().map(|revision| revision.as_str());
    add("tried", attempted.filter(|tried| Some(*tried) != revision));
    let flags = [
        (reading.ready, "ready"),
        (reading.lagging, "lagging"),
        (reading.failed, "failed"),
        (reading.suspended, "suspended"),
    ];
    words.extend(
        flags
            .iter()
            .filter(|(is, _)| *is)
            .map(|(_, word)| (*word).to_owned()),
    );
    words.extend(
        reading
            .message
            .as_ref()
            .map(|message| format!("({message})")),
    );
    words.extend(
        reading
            .error
            .as_ref()
            .map(|error| format!("error: {error}")),
    );
    words.join(" ")
}

fn object(api_version: &str, kind: &str, fields: Value) -> DynamicObject {
    let mut object = json!({
        "apiVersion": api_version,
        "kind": kind,
        "metadata": { "name": "app", "generation": 2 },
    });
    for (key, value) in fields.as_object().unwrap() {
        object[key] = value.clone();
    }
    serde_json::from_value(object).unwrap()
}

fn ready(status: &str) -> Value {
    json!([{ "type": "Ready", "status": status }])
}

fn because(reason: &str) -> Value {
    json!([{ "type": "Ready", "status": "False", "reason": reason }])
}

const HELM: &str = "helm.toolkit.fluxcd.io/v2";
const KUSTOMIZE: &str = "kustomize.toolkit.fluxcd.io/v1";

#[track_caller]
fn check_helm(fields: Value, expected: &str) {
    assert_eq!(line(&read(&object(HELM, "HelmRelease", fields))), expected);
}

fn release(version: &str, status: &str) -> Value {
    json!({ "chartVersion": version, "status": status })
}

/// A HelmRelease that has seen its spec, with this much more in its status.
fn helm(conditions: Value, history: Value) -> Value {
    json!({ "status": { "observedGeneration": 2, "conditions": conditions, "history": history } })
}

#[test]
fn helm_reads_the_newest_deployed_release() {
    check_helm(
        helm(
            ready("True"),
            json!([release("6.5.1", "deployed"), release("6.5.0", "superseded")]),
        ),
        "6.5.1 ready",
    );
    check_helm(
        helm(
            ready("Unknown"),
            json!([
                release("6.5.1", "pending-upgrade"),
                release("6.5.0", "deployed")
            ]),
        ),
        "6.5.0",
    );
    check_helm(
        helm(
            ready("Unknown"),
            json!([release("6.5.1", "pending-install")]),
        ),
        "-",
    );
    check_helm(
        helm(
            ready("True"),
            json!([release("6.5.1", "superseded"), release("6.5.0", "deployed")]),
        ),
        "6.5.0",
    );
    check_helm(
        helm(ready("True"), json!([{ "status": "deployed" }])),
        "- error: no release in its history is deployed",
    );
}

#[test]
fn helm_reads_old_api_versions() {
    for version in ["v2beta1", "v2beta2"] {
        let api_version = format!("helm.toolkit.fluxcd.io/{version}");
        let check = |status: Value, expected: &str| {
            let app = object(&api_version, "HelmRelease", json!({ "status": status }));
            assert_eq!(line(&read(&app)), expected, "{version}");
        };
        check(
            json!({ "observedGeneration": 2, "conditions": ready("True"), "lastAppliedRevision": "6.5.0" }),
            "6.5.0 ready",
        );
        check(
            json!({ "conditions": ready("True"), "lastAttemptedRevision": "6.5.0" }),
            "6.5.0 ready",
        );
        check(
            json!({ "conditions": ready("False"), "lastAttemptedRevision": "6.5.0" }),
            "- tried=6.5.0",
        );
        check(
            json!({ "conditions": ready("False"), "lastAppliedRevision": "6.4.0", "lastAttemptedRevision": "6.5.0" }),
            "6.4.0 tried=6.5.0",
        );
        check(
            json!({ "conditions": ready("True"), "lastAppliedRevision": "6.4.0", "history": [release("6.5.0", "deployed")] }),
            "6.5.0 ready",
        );
    }
}

#[test]
fn helm_without_a_revision_says_so_as_ever() {
    check_helm(
        json!({ "status": { "conditions": ready("True") } }),
        "- error: unable to find .status.lastAppliedRevision in ready target object",
    );
    check_helm(
        json!({ "status": { "conditions": ready("True"), "lastAppliedRevision": "" } }),
        "- error: unable to find .status.lastAppliedRevision in ready target object",
    );
    check_helm(json!({ "status": { "conditions": ready("False") } }), "-");
    check_helm(json!({ "status": {} }), "-");
    check_helm(json!({}), "-");
}

#[test]
fn helm_forgets_the_digest_flux_appended() {
    let oci = |chart_ref: Value, version: &str, digest: Value| {
        json!({
            "spec": { "chartRef": chart_ref },
            "status": {
                "observedGeneration": 2,
                "conditions": ready("True"),
                "history": [{ "chartVersion": version, "status": "deployed", "ociDigest": digest }],
                "lastAttemptedRevision": version,
                "lastAttemptedRevisionDigest": digest,
            }
        })
    };
    let chart = json!({ "kind": "OCIRepository", "name": "app" });
    check_helm(
        oci(
            chart.clone(),
            "6.5.0+0123456789ab",
            json!("sha256:0123456789abcdef"),
        ),
        "6.5.0 digest=sha256:0123456789abcdef ready",
    );
    check_helm(
        oci(chart.clone(), "6.5.0+0123456789ab", json!(null)),
        "6.5.0 ready",
    );
    check_helm(
        oci(chart.clone(), "6.5.0", json!("sha256:0123456789abcdef")),
        "6.5.0 digest=sha256:0123456789abcdef ready",
    );
    check_helm(
        oci(chart, "6.5.0+build.7", json!("sha256:0123456789abcdef")),
        "6.5.0+build.7 digest=sha256:0123456789abcdef ready",
    );
    check_helm(
        oci(
            json!({ "kind": "HelmChart", "name": "app" }),
            "6.5.0+0123456789ab",
            json!(null),
        ),
        "6.5.0+0123456789ab ready",
    );
    check_helm(
        oci(json!(null), "6.5.0+0123456789ab", json!(null)),
        "6.5.0+0123456789ab ready",
    );
}

#[test]
fn helm_failures_count_for_the_spec_they_happened_with() {
    let failed = |generation: i64| {
        json!({ "status": {
            "observedGeneration": 1,
            "conditions": because("UpgradeFailed"),
            "history": [release("6.5.1", "failed"), release("6.5.0", "deployed")],
            "lastAttemptedRevision": "6.5.1",
            "lastAttemptedGeneration": generation,
        } })
    };
    check_helm(failed(2), "6.5.0 tried=6.5.1 lagging failed");
    check_helm(failed(1), "6.5.0 tried=6.5.1 lagging");
}

#[test]
fn helm_names_what_failed_and_what_worked_before() {
    let because = || because("UpgradeFailed");
    // The release before the failed one may count as superseded already.
    for state in ["deployed", "superseded"] {
        let history = json!([release("6.5.1", "failed"), release("6.5.0", state)]);
        check_helm(helm(because(), history), "6.5.0 tried=6.5.1 failed");
    }
    let history = json!([release("6.5.1", "failed"), release("6.5.1", "failed")]);
    check_helm(helm(because(), history), "- tried=6.5.1 failed");
    // What was uninstalled does not run, and neither does what came before it.
    let history = json!([
        release("6.5.1", "uninstalled"),
        release("6.5.0", "superseded")
    ]);
    check_helm(helm(because(), history), "- failed");
}

/// While the next release is rolled out, the history still begins with the failure before it.
#[test]
fn helm_does_not_call_a_rollout_a_failure_because_of_the_one_before() {
    let rollout = |attempted: &str| {
        let conditions = json!([
            { "type": "Ready", "status": "Unknown", "reason": "Progressing" },
            { "type": "Remediated", "status": "True" },
        ]);
        let history = json!([release("6.5.1", "failed"), release("6.5.0", "deployed")]);
        let mut fields = helm(conditions, history);
        fields["status"]["lastAttemptedRevision"] = json!(attempted);
        fields
    };
    check_helm(rollout("6.5.2"), "6.5.0 tried=6.5.2");
    check_helm(rollout("6.5.1"), "6.5.0 tried=6.5.1 failed");
}

#[test]
fn helm_knows_what_a_failure_is() {
    let deployed = || json!([release("6.5.0", "deployed")]);
    for reason in [
        "InstallFailed",
        "UpgradeFailed",
        "TestFailed",
        "RollbackFailed",
        "RollbackSucceeded",
        "UninstallSucceeded",
    ] {
        check_helm(helm(because(reason), deployed()), "6.5.0 failed");
    }
    for reason in [
        "ArtifactFailed",
        "DependencyNotReady",
        "Progressing",
        "SourceNotReady",
        "",
    ] {
        check_helm(helm(because(reason), deployed()), "6.5.0");
    }
    check_helm(
        helm(json!([{ "type": "Stalled", "status": "True" }]), deployed()),
        "6.5.0 failed",
    );
    check_helm(
        helm(
            json!([{ "type": "Remediated", "status": "True" }]),
            deployed(),
        ),
        "6.5.0 failed",
    );
    check_helm(
        helm(ready("True"), json!([release("6.5.0", "failed")])),
        "- tried=6.5.0 failed error: no release in its history is deployed",
    );
    check_helm(
        helm(
            because("UninstallFailed"),
            json!([release("6.5.0", "uninstalled")]),
        ),
        "- failed",
    );
}

#[test]
fn lagging_apps_are_not_ready() {
    let check = |observed: Value, expected: &str| {
        check_helm(
            json!({ "status": { "observedGeneration": observed, "conditions": ready("True"), "history": [release("6.5.0", "deployed")] } }),
            expected,
        );
    };
    check(json!(2), "6.5.0 ready");
    check(json!(3), "6.5.0 ready");
    check(json!(1), "6.5.0 lagging");
    check(json!(-1), "6.5.0 lagging");
    check(json!(null), "6.5.0 ready");
    let by_condition = json!([{ "type": "Ready", "status": "True", "observedGeneration": 1 }]);
    check_helm(
        json!({ "status": { "conditions": by_condition, "lastAppliedRevision": "6.5.0" } }),
        "6.5.0 lagging",
    );
}

/// That the release before succeeded does not explain why the next one is not ready.
#[test]
fn a_lagging_app_does_not_tell_of_an_earlier_success() {
    let reading = |status: &str, observed: i64| {
        let ready = json!([{ "type": "Ready", "status": status, "message": "what Flux says" }]);
        let status = json!({
            "observedGeneration": observed, "conditions": ready, "history": [release("6.5.0", "deployed")],
        });
        read(&object(HELM, "HelmRelease", json!({ "status": status }))).message
    };
    assert_eq!(reading("True", 1), None);
    assert_eq!(reading("Unknown", 1).as_deref(), Some("what Flux says"));
    assert_eq!(reading("False", 2).as_deref(), Some("what Flux says"));
}

#[test]
fn messages_suspension_and_deletion_are_told() {
    let conditions = json!([{ "type": "Ready", "status": "True", "message": "all is well" }]);
    let status = json!({ "conditions": conditions, "lastAppliedRevision": "1.0.0" });
    check_helm(
        json!({ "spec": { "suspend": true }, "status": status }),
        "1.0.0 ready suspended (all is well)",
    );
    let mut app = object(HELM, "HelmRelease", json!({ "status": status }));
    app.metadata.deletion_timestamp =
        Some(serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap());
    assert_eq!(line(&read(&app)), "1.0.0 (it is being deleted)");
}

#[track_caller]
fn check_kustomization(source: &str, status: Value, expected: &str) {
    let fields =
        json!({ "spec": { "sourceRef": { "kind": source, "name": "s" } }, "status": status });
    assert_eq!(
        line(&read(&object(KUSTOMIZE, "Kustomization", fields))),
        expected
    );
}

fn applied(revision: &str) -> Value {
    json!({ "observedGeneration": 2, "conditions": ready("True"), "lastAppliedRevision": revision })
}

#[test]
fn kustomization_writes_the_tag_or_the_commit() {
    check_kustomization(
        "GitRepository",
        applied("main@sha1:ab12"),
        "main@sha1:ab12 version=ab12 digest=sha1:ab12 ready",
    );
    check_kustomization(
        "GitRepository",
        applied("v1.2.3@sha1:ab12"),
        "v1.2.3@sha1:ab12 version=v1.2.3 digest=sha1:ab12 ready",
    );
    check_kustomization(
        "GitRepository",
        applied("refs/tags/x@sha1:ab12"),
        "refs/tags/x@sha1:ab12 version=x digest=sha1:ab12 ready",
    );
    check_kustomization(
        "GitRepository",
        applied("sha1:ab12"),
        "sha1:ab12 version=ab12 digest=sha1:ab12 ready",
    );
    check_kustomization(
        "OCIRepository",
        applied("latest@sha256:ab12"),
        "sha256:ab12 version=latest digest=sha256:ab12 ready",
    );
    check_kustomization(
        "OCIRepository",
        applied("sha256:ab12"),
        "sha256:ab12 digest=sha256:ab12 ready",
    );
    let (old, digest) = ("v1/", "5394cb7f48332b2de7c17dd8b8384bbc84b7e738".repeat(2));
    let digest = &digest[..64];
    check_kustomization(
        "OCIRepository",
        applied(&format!("{old}{digest}")),
        &format!("sha256:{digest} version=v1 digest=sha256:{digest} ready"),
    );
    let old = "main/5394cb7f48332b2de7c17dd8b8384bbc84b7e738";
    check_kustomization(
        "GitRepository",
        applied(old),
        &format!(
            "{old} version={} digest=sha1:{} ready",
            &old[5..],
            &old[5..]
        ),
    );
}

#[test]
fn an_artifact_is_its_digest_whatever_tag_is_followed() {
    for tag in ["dev", "1.2.0"] {
        let status = json!({
            "observedGeneration": 2, "conditions": because("BuildFailed"),
            "lastAppliedRevision": format!("{tag}@sha256:a"),
            "lastAttemptedRevision": format!("{tag}@sha256:b"),
        });
        let expected = format!("sha256:a version={tag} digest=sha256:a tried=sha256:b failed");
        check_kustomization("OCIRepository", status, &expected);
    }
}

#[test]
fn kustomization_tells_failures() {
    let status = |reason: &str| json!({ "conditions": because(reason), "lastAppliedRevision": "main@sha1:a", "lastAttemptedRevision": "main@sha1:b" });
    let tried = "main@sha1:a version=a digest=sha1:a tried=main@sha1:b";
    for reason in [
        "BuildFailed",
        "ReconciliationFailed",
        "HealthCheckFailed",
        "PruneFailed",
    ] {
        check_kustomization("GitRepository", status(reason), &format!("{tried} failed"));
    }
    for reason in ["ArtifactFailed", "DependencyNotReady", "Progressing"] {
        check_kustomization("GitRepository", status(reason), tried);
    }
    check_kustomization(
        "GitRepository",
        json!({ "conditions": ready("True") }),
        "- error: unable to find .status.lastAppliedRevision in ready target object",
    );
}

#[test]
fn a_failure_of_an_older_spec_is_no_failure() {
    let status = |generation: i64| {
        let failed = json!([{ "type": "Ready", "status": "False", "reason": "BuildFailed", "observedGeneration": generation }]);
        json!({ "observedGeneration": 1, "conditions": failed, "lastAppliedRevision": "sha1:a" })
    };
    check_kustomization(
        "GitRepository",
        status(2),
        "sha1:a version=a digest=sha1:a lagging failed",
    );
    check_kustomization(
        "GitRepository",
        status(1),
        "sha1:a version=a digest=sha1:a lagging",
    );
}

#[track_caller]
fn check_other(status: Value, expected: &str) {
    let app = object(
        "test.example.com/v1alpha1",
        "Fake",
        json!({ "status": status }),
    );
    assert_eq!(line(&read(&app)), expected);
}

#[test]
fn other_kinds_need_a_ready_condition_and_a_revision() {
    check_other(
        json!({ "conditions": ready("True"), "lastAppliedRevision": "v1" }),
        "v1 ready",
    );
    check_other(
        json!({ "conditions": ready("False"), "lastAppliedRevision": "v1" }),
        "v1",
    );
    check_other(
        json!({ "conditions": [], "lastAppliedRevision": "v1" }),
        "v1",
    );
    check_other(json!({ "lastAppliedRevision": "v1" }), "-");
    check_other(
        json!({ "conditions": ready("True") }),
        "- error: unable to find .status.lastAppliedRevision in ready target object",
    );
    check_other(
        json!({ "conditions": ready("True"), "lastAppliedRevision": 7 }),
        "- error: unable to find .status.lastAppliedRevision in ready target object",
    );
    check_other(json!({ "conditions": ready("False") }), "-");
    check_other(
        json!({ "conditions": ready("True"), "lastAppliedRevision": "v1", "observedGeneration": 1 }),
        "v1 lagging",
    );
    check_other(
        json!({ "conditions": ready("True"), "lastAppliedRevision": "x".repeat(300) }),
        "- error: its revision is too long or not printable",
    );
    check_other(json!("junk"), "-");
    check_other(json!(null), "-");
}

#[test]
fn sources_and_policies_have_a_tag_and_a_digest() {
    let artifact = |revision: &str| json!({ "conditions": ready("True"), "artifact": { "revision": revision } });
    check_other(artifact("6.5.0@sha256:ab"), "sha256:ab version=6.5.0 ready");
    let digest = "ab".repeat(32);
    check_other(
        artifact(&format!("6.5.0/{digest}")),
        &format!("sha256:{digest} version=6.5.0 ready"),
    );
    check_other(artifact("main@sha1:ab"), "main@sha1:ab ready");
    check_other(artifact("6.5.0"), "6.5.0 ready");
    let chosen = |latest: Value| json!({ "conditions": ready("True"), "latestRef": latest });
    check_other(
        chosen(json!({ "name": "acme/shop", "tag": "v2", "digest": "sha256:ab" })),
        "sha256:ab version=v2 ready",
    );
    check_other(
        chosen(json!({ "name": "acme/shop", "tag": "v2" })),
        "v2 ready",
    );
}

#[track_caller]
fn check_workload(kind: &str, spec: Value, status: Value, expected: &str) {
    let mut spec = spec;
    spec["template"] =
        json!({ "spec": { "containers": [{ "name": "web", "image": "ghcr.io/acme/shop:v2" }] } });
    let app = object("apps/v1", kind, json!({ "spec": spec, "status": status }));
    assert_eq!(line(&read(&app)), expected);
}

#[test]
fn a_deployment_is_ready_when_rolled_out() {
    let check = |replicas: Value, status: Value, expected: &str| {
        check_workload(
            "Deployment",
            json!({ "replicas": replicas }),
            status,
            expected,
        )
    };
    let counts = |observed: i64, all: i64, updated: i64, available: i64| json!({ "observedGeneration": observed, "replicas": all, "updatedReplicas": updated, "availableReplicas": available });
    check(json!(3), counts(2, 3, 3, 3), "v2 ready");
    check(json!(3), counts(1, 3, 3, 3), "v2 lagging");
    check(json!(3), json!({}), "v2 lagging (0 of 3 replicas updated)");
    check(json!(3), counts(2, 3, 2, 3), "v2 (2 of 3 replicas updated)");
    check(
        json!(3),
        counts(2, 4, 3, 3),
        "v2 (1 old replicas still running)",
    );
    check(
        json!(3),
        counts(2, 3, 3, 2),
        "v2 (2 of 3 replicas available)",
    );
    check(json!(null), counts(2, 1, 1, 1), "v2 ready");
    check(json!(0), counts(2, 0, 0, 0), "v2 ready");
}

#[test]
fn a_deployment_fails_when_its_deadline_passes() {
    let status = |observed: i64| {
        json!({
            "observedGeneration": observed, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 0,
            "conditions": [{ "type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "timed out" }]
        })
    };
    check_workload("Deployment", json!({}), status(2), "v2 failed (timed out)");
    check_workload(
        "Deployment",
        json!({}),
        status(1),
        "v2 lagging (0 of 1 replicas available)",
    );
    let paused = json!({ "observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1 });
    check_workload(
        "Deployment",
        json!({ "paused": true }),
        paused,
        "v2 ready suspended",
    );
}

#[test]
fn stateful_and_daemon_sets_are_ready_when_rolled_out() {
    let stateful = |updated: i64, ready: i64| json!({ "observedGeneration": 2, "replicas": 2, "updatedReplicas": updated, "readyReplicas": ready });
    let two = || json!({ "replicas": 2 });
    check_workload("StatefulSet", two(), stateful(2, 2), "v2 ready");
    check_workload(
        "StatefulSet",
        two(),
        stateful(1, 2),
        "v2 (1 of 2 replicas updated)",
    );
    check_workload(
        "StatefulSet",
        two(),
        stateful(2, 1),
        "v2 (1 of 2 replicas ready)",
    );
    let daemon = |updated: i64, available: i64| json!({ "observedGeneration": 2, "desiredNumberScheduled": 3, "updatedNumberScheduled": updated, "numberAvailable": available });
    check_workload("DaemonSet", json!({}), daemon(3, 3), "v2 ready");
    check_workload(
        "DaemonSet",
        json!({}),
        daemon(2, 3),
        "v2 (2 of 3 pods updated)",
    );
    check_workload(
        "DaemonSet",
        json!({}),
        daemon(3, 1),
        "v2 (1 of 3 pods available)",
    );
}

/// A rolled-out Deployment with these container images.
fn deployment(images: &[&str]) -> DynamicObject {
    let containers: Vec<_> = images
        .iter()
        .map(|image| json!({ "name": "c", "image": image }))
        .collect();
    object(
        "apps/v1",
        "Deployment",
        json!({
            "spec": { "template": { "spec": { "containers": containers } } },
            "status": { "observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1 }
        }),
    )
}

#[test]
fn a_workload_runs_its_image() {
    let check =
        |images: &[&str], expected: &str| assert_eq!(line(&read(&deployment(images))), expected);
    check(&["acme/shop:v2", "acme/sidecar:v9"], "v2 ready");
    check(
        &["acme/shop:v2@sha256:ab"],
        "sha256:ab version=v2 digest=sha256:ab ready",
    );
    check(&["acme/shop@sha256:ab"], "sha256:ab digest=sha256:ab ready");
    check(&["acme/shop"], "latest ready");
    check(&[], "- error: it has no container image");
    check(&[""], "- error: it has no container image");
}

#[test]
fn a_tracked_image_is_found_by_name() {
    let check = |images: &[&str], expected: &str| {
        assert_eq!(
            line(&read_tracking(&deployment(images), "acme/shop")),
            expected
        )
    };
    check(&["acme/sidecar:v9", "ghcr.io/acme/shop:v2"], "v2 ready");
    check(&["acme/shop:v2", "acme/shop:v2"], "v2 ready");
    check(
        &["acme/shop:v2", "acme/shop:v3"],
        "- error: containers run the image acme/shop at v2 and at v3",
    );
    check(
        &["acme/sidecar:v9"],
        "- error: no container runs the image acme/shop",
    );
}

#[test]
fn the_kind_can_come_from_outside() {
    let mut app = deployment(&["acme/shop:v2"]);
    let kind = AppType::of("apps/v1", "Deployment");
    app.types = None;
    assert_eq!(line(&read(&app)), "-");
    assert_eq!(line(&read_as(kind, &app, None)), "v2 ready");
    assert_eq!(AppType::of("example.com/v1", "HelmRelease"), AppType::Other);
    assert_eq!(AppType::of("v1", "Pod"), AppType::Other);
}

#[test]
fn a_chart_follows_the_artifact_that_it_comes_from() {
    let source = |spec: Value| {
        let release: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
            "metadata": {"name": "app"}, "spec": spec,
        }))
        .unwrap();
        source_of(AppType::HelmRelease, &release).and_then(|source| source.name)
    };
    let artifact = json!({"chartRef": {"kind": "OCIRepository", "name": "charts"}});
    assert_eq!(source(artifact).as_deref(), Some("charts"));
    assert_eq!(
        source(json!({"chartRef": {"kind": "HelmChart", "name": "x"}})),
        None
    );
    assert_eq!(
        source(json!({"chart": {"spec": {"version": "1.0.0"}}})),
        None
    );
}

//! The store of an older version in which work is under way: `store-e2aa7fb.gz` is the file that
//! `sluice standalone`, built from commit e2aa7fb, wrote before it was killed.
//!
//! In it `checked` waits for the result of an external check, `waves` rolls 1.1.0 out through four targets and
//! has two of them in flight, and `approved` has one of two approvals.
//!
//! [`write_a_store`] makes such a store with another binary, to be added beside this one:
//!
//! ```sh
//! SLUICE_OLD_BINARY=…/sluice SLUICE_OLD_STORE=$PWD/crates/cli/tests/standalone/store-COMMIT.gz \
//!   cargo test -p sluice --test standalone write_a_store -- --ignored
//! ```

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use api::{
    CheckRun, Promotion,
    check_run::CheckVerdict,
    promotion::{Phase, RolloutTarget},
};
use kube::{
    Api, Client,
    api::{DynamicObject, Patch, PatchParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};
use testbed::objects::apply;

use crate::{
    start_binary,
    upgrade::{all, sluice, unpack},
};

const STORE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/standalone/store-e2aa7fb.gz"
);
const TARGETS: [&str; 4] = ["waves-a", "waves-b", "waves-c", "waves-d"];

fn helm_release(namespace: &str, name: &str) -> Vec<Value> {
    vec![
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}}),
        json!({
            "apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease",
            "metadata": {"name": name, "namespace": namespace},
            "spec": {"interval": "1m", "chart": {"spec": {"chart": name, "version": "1.0.0",
                "sourceRef": {"kind": "HelmRepository", "name": "charts"}}}},
        }),
    ]
}

fn pipeline(name: &str, prod: &[&str], extra: &Value) -> Value {
    let targets = |namespaces: &[&str]| {
        let targets = namespaces.iter().map(|it| json!({"namespace": it}));
        targets.collect::<Vec<_>>()
    };
    let dev = format!("{name}-dev");
    let mut spec = json!({
        "appRef": {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "name": name},
        "promotion": {"strategy": {"notification": {}}},
        "environments": [
            {"name": "dev", "targets": targets(&[&dev])},
            {"name": "prod", "targets": targets(prod)},
        ],
    });
    json_patch::merge(&mut spec, extra);
    json!({
        "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Pipeline",
        "metadata": {"name": name, "namespace": "default"}, "spec": spec,
    })
}

fn pipelines() -> Vec<Value> {
    let checked = json!({
        "checks": [{"name": "ticket", "external": {}}],
        "promotion": {"checks": ["ticket"]},
    });
    let waves = json!({"promotion": {"rollout": {
        "waves": [{"percent": 25}, {"maxConcurrent": 2}],
    }}});
    let approved = json!({"promotion": {"approvalPolicy": {"count": 2}}});
    vec![
        pipeline("checked", &["checked-prod"], &checked),
        pipeline("waves", &TARGETS, &waves),
        pipeline("approved", &["approved-prod"], &approved),
    ]
}

/// Lets another person read and approve.
fn second_approver() -> Value {
    let rbac = "rbac.authorization.k8s.io";
    json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
        "metadata": {"name": "ann", "namespace": "default"},
        "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": "pipeline-controller-approver"},
        "subjects": [{"apiGroup": rbac, "kind": "User", "name": "ann"}],
    })
}

/// Flux brings an app to a version.
async fn deploy(client: &Client, namespace: &str, name: &str, version: &str) {
    let kind = GroupVersionKind::gvk("helm.toolkit.fluxcd.io", "v2", "HelmRelease");
    let resource = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let condition = json!({
        "type": "Ready", "status": "True", "reason": "UpgradeSucceeded", "message": "done",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let status = json!({"status": {
        "observedGeneration": 1, "conditions": [condition], "lastAttemptedRevision": version,
        "history": [{"chartVersion": version, "status": "deployed"}],
    }});
    let (parameters, patch) = (PatchParams::default(), Patch::Merge(&status));
    api.patch_status(name, &parameters, &patch).await.unwrap();
}

/// The promotion of 1.1.0 into prod of a pipeline.
async fn promotion(client: &Client, pipeline: &str) -> Option<Promotion> {
    let mut found = all::<Promotion>(client).await.into_iter();
    found.find(|it| it.spec.pipeline == pipeline && it.spec.environment == "prod")
}

async fn phase(client: &Client, pipeline: &str) -> Option<Phase> {
    promotion(client, pipeline).await?.status?.phase
}

/// The targets of the rollout that were started.
async fn started(client: &Client) -> Vec<String> {
    let rollout = promotion(client, "waves")
        .await
        .and_then(|it| it.status?.rollout);
    let is_started = |it: &&RolloutTarget| it.batch.is_some();
    let targets = rollout.map(|it| it.targets).unwrap_or_default();
    let targets = targets.iter().filter(is_started);
    // `-/NAMESPACE` on the hub.
    let namespace = |it: &RolloutTarget| it.target.trim_start_matches("-/").to_owned();
    targets.map(namespace).collect()
}

async fn until(what: &str, condition: impl AsyncFn() -> bool) {
    for _ in 0..600 {
        if condition().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    unreachable!("it never happens that {what}");
}

/// Whether the one check is under way.
async fn is_checked(client: &Client) -> bool {
    let runs = all::<CheckRun>(client).await;
    let verdicts = runs
        .iter()
        .filter_map(|it| Some(it.status.as_ref()?.verdict));
    verdicts.eq([CheckVerdict::Running])
}

#[tokio::test]
#[ignore = "writes a store with the binary SLUICE_OLD_BINARY"]
async fn write_a_store() {
    let binary = PathBuf::from(std::env::var_os("SLUICE_OLD_BINARY").unwrap());
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let (running, client, _) = start_binary(&binary, &data).await;
    apply(&client, testbed::flux::definitions()).await;
    let apps = ["checked", "waves", "approved"];
    for name in apps {
        apply(&client, helm_release(&format!("{name}-dev"), name)).await;
        deploy(&client, &format!("{name}-dev"), name, "1.0.0").await;
    }
    let prod = ["checked", "approved"].map(|name| (format!("{name}-prod"), name));
    let prod = prod
        .iter()
        .map(|(namespace, name)| (namespace.as_str(), *name));
    for (namespace, name) in prod.chain(TARGETS.map(|it| (it, "waves"))) {
        apply(&client, helm_release(namespace, name)).await;
        deploy(&client, namespace, name, "1.0.0").await;
    }
    apply(&client, pipelines()).await;
    apply(&client, vec![second_approver()]).await;
    for name in apps {
        sluice(&data, &["reconcile", name]);
        deploy(&client, &format!("{name}-dev"), name, "1.1.0").await;
    }
    until("the rollout starts", async || {
        started(&client).await.len() == 1
    })
    .await;
    let first = started(&client).await;
    deploy(&client, &first[0], "waves", "1.1.0").await;
    until("two targets are in flight", async || {
        started(&client).await.len() == 3
    })
    .await;
    until("an approval is awaited", async || {
        phase(&client, "approved").await == Some(Phase::AwaitingApproval)
    })
    .await;
    sluice(&data, &["approve", "approved", "prod"]);
    until("a check is under way", async || is_checked(&client).await).await;
    drop(running);
    pack(&data.join("store"));
}

fn pack(store: &Path) {
    let packed = Command::new("gzip")
        .args(["-9c"])
        .arg(store)
        .output()
        .unwrap();
    assert!(packed.status.success());
    let to = std::env::var_os("SLUICE_OLD_STORE").unwrap();
    std::fs::write(to, packed.stdout).unwrap();
}

#[tokio::test]
async fn what_was_under_way_in_an_older_version_is_finished_by_this_one() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    unpack(STORE, &data);
    let (_running, client, _) = crate::start(&data).await;
    assert!(is_checked(&client).await);
    assert_eq!(started(&client).await.len(), 3);
    assert_eq!(
        phase(&client, "approved").await,
        Some(Phase::AwaitingApproval)
    );

    // The rollout goes on where it was: nothing is started twice, and the last target comes last.
    let before = started(&client).await;
    for namespace in &before {
        deploy(&client, namespace, "waves", "1.1.0").await;
    }
    until("the last target is started", async || {
        started(&client).await.len() == TARGETS.len()
    })
    .await;
    for namespace in TARGETS {
        deploy(&client, namespace, "waves", "1.1.0").await;
    }
    until("the rollout succeeds", async || {
        phase(&client, "waves").await == Some(Phase::Succeeded)
    })
    .await;

    // The approval that was given counts, and one more is enough.
    sluice(&data, &["approve", "approved", "prod", "--as", "ann"]);
    until("the approved promotion goes on", async || {
        phase(&client, "approved").await == Some(Phase::Deploying)
    })
    .await;

    // The check run that waits takes the result.
    sluice(&data, &["report", "checked", "prod", "ticket", "pass"]);
    until("the checked promotion goes on", async || {
        phase(&client, "checked").await == Some(Phase::Deploying)
    })
    .await;
    assert_eq!(all::<CheckRun>(&client).await.len(), 1);
}

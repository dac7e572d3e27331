//! Crashes, wrong credentials, and clusters that disagree: no promotion is lost or done twice.

use std::time::Duration;

use controller::Settings;
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use runtime::{
    LeaderGuard,
    leader::{LeaderElection, LeaseTiming},
};
use serde_json::json;
use testbed::forge::PullState;

use tokio_util::sync::CancellationToken;

use crate::world::{World, apply, manifest, settings, spec, wait_for};

const PROD: &str = "prod/app.yaml";

async fn dev_and_prod() -> World {
    let world = World::with(&[(PROD, &manifest("1.0.0", "default:app:prod"))]).await;
    world.leaf("dev", "dev", "1.0.0").await;
    world.leaf("prod", "prod", "1.0.0").await;
    let spec = spec("dev=dev/dev > prod=prod/prod", &world.promotion());
    world.pipeline("app", spec).await;
    world.expect_hold("app", "prod", "").await;
    world
}

/// Ends both loops at moments that fall anywhere between two external effects, and starts them anew.
#[tokio::test]
async fn a_crash_anywhere_leaves_one_pull_request() {
    let mut world = dev_and_prod().await;
    world.deploy("dev", "dev", "1.1.0").await;
    for crash in 0..12_u64 {
        tokio::time::sleep(Duration::from_millis(15 * crash)).await;
        world.restart(settings());
    }
    world.expect("prod 1.1.0 WaitingForMerge").await;
    let pulls = world.repository.pull_requests().await;
    assert_eq!(pulls.len(), 1);
    assert_eq!(world.version(&pulls[0].head, PROD).await, "1.1.0");
    world.stop();
    world.repository.merge(1).await.unwrap();
    world.sync(PROD, "prod", "prod").await;
    world.restart(settings());
    world.expect("prod 1.1.0 Succeeded").await;
    assert_eq!(world.repository.pull_requests().await.len(), 1);
}

/// The pull request was opened and merged, and nothing of that was written.
#[tokio::test]
async fn what_was_not_written_is_found_again() {
    let mut world = dev_and_prod().await;
    world.deploy("dev", "dev", "1.1.0").await;
    let promotions = world.expect("prod 1.1.0 WaitingForMerge").await;
    world.stop();
    world.forget_status(&promotions[0]).await;
    world.repository.merge(1).await.unwrap();
    world.restart(settings());
    world.expect("prod 1.1.0 Deploying").await;
    let pulls = world.repository.pull_requests().await;
    assert_eq!((pulls.len(), pulls[0].state), (1, PullState::Merged));
}

/// Somebody pushed to the branch before it was written that we had.
#[tokio::test]
async fn a_branch_that_others_changed_meanwhile_is_followed() {
    let mut world = dev_and_prod().await;
    world.deploy("dev", "dev", "1.1.0").await;
    let promotions = world.expect("prod 1.1.0 WaitingForMerge").await;
    world.stop();
    world.forget_status(&promotions[0]).await;
    let branch = "promotion-default-app-prod";
    let more = [("more.yaml", "x: 1\n")];
    let tip = world
        .repository
        .commit(branch, "More", &more)
        .await
        .unwrap();
    world.restart(settings());
    world
        .expect("prod 1.1.0 WaitingForMerge/BranchChangedByOthers")
        .await;
    assert_eq!(world.repository.tip(branch).await, Some(tip));
    world.repository.merge(1).await.unwrap();
    world.expect("prod 1.1.0 Deploying").await;
}

#[tokio::test]
async fn an_edited_secret_lifts_what_it_caused() {
    let world = dev_and_prod().await;
    let secrets: Api<Secret> = Api::namespaced(world.hub.clone(), "default");
    secrets
        .delete("git", &DeleteParams::default())
        .await
        .unwrap();
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 Running/SecretMissing").await;
    let status = world.all_promotions().await[0].status.clone().unwrap();
    assert!(status.message.unwrap().contains("default/git"));
    world.secret("git").await;
    world
        .expect("prod 1.1.0 WaitingForMerge/WaitingForMerge")
        .await;

    let deleted = secrets.delete("git", &DeleteParams::default()).await;
    deleted.unwrap();
    world
        .expect("prod 1.1.0 WaitingForMerge/SecretMissing")
        .await;
    world.secret("git").await;
    world
        .expect("prod 1.1.0 WaitingForMerge/WaitingForMerge")
        .await;
}

#[tokio::test]
async fn wrong_credentials_wait_for_an_edit_and_are_not_shown() {
    let world = dev_and_prod().await;
    let secrets: Api<Secret> = Api::namespaced(world.hub.clone(), "default");
    let patch = Patch::Merge(json!({"stringData": {"password": "hunter22", "token": "hunter22"}}));
    secrets
        .patch("git", &PatchParams::default(), &patch)
        .await
        .unwrap();
    world.deploy("dev", "dev", "1.1.0").await;
    let promotions = world.expect("prod 1.1.0 Running/Unauthorized").await;
    assert!(!json!(promotions).to_string().contains("hunter22"));
    world.secret("git").await;
    world.expect("prod 1.1.0 WaitingForMerge").await;
}

/// Another process holds the Lease; when it lets go, this one goes on.
#[tokio::test]
async fn nothing_is_done_without_the_lease() {
    let mut world = dev_and_prod().await;
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
        "metadata": {"name": "lease", "namespace": "default"},
        "spec": {
            "holderIdentity": "another", "leaseDurationSeconds": 3600, "leaseTransitions": 1,
            "acquireTime": "2026-11-15T08:00:00.000000Z", "renewTime": "2026-11-15T08:00:00.000000Z",
        },
    });
    apply(&world.hub, &lease).await;
    let terms = [4000, 3000, 500].map(Duration::from_millis);
    let election = LeaderElection {
        namespace: "default".to_owned(),
        name: "lease".to_owned(),
        identity: "this one".to_owned(),
        timing: LeaseTiming::new(terms[0], terms[1], terms[2]).unwrap(),
    };
    let settings = Settings {
        election: Some(election.clone()),
        ..settings()
    };
    let release = CancellationToken::new();
    let (leadership, campaign) = LeaderGuard::elect(world.hub.clone(), election, release.clone());
    world.restart_led_by(settings, leadership);
    world.deploy("dev", "dev", "1.1.0").await;
    let refused = "controller_runtime_reconcile_total{controller=\"promotion\",result=\"error\"} ";
    let was_tried = async || {
        let page = world.promoter.metrics().page();
        let count = page.lines().find_map(|line| line.strip_prefix(refused));
        count.is_some_and(|count| count != "0")
    };
    assert!(wait_for(was_tried).await, "it was not even tried");
    world.expect("prod 1.1.0 -").await;
    assert!(
        world
            .repository
            .tip("promotion-default-app-prod")
            .await
            .is_none()
    );

    let mut free = lease;
    free["spec"]["holderIdentity"] = json!("");
    apply(&world.hub, &free).await;
    world.expect("prod 1.1.0 WaitingForMerge").await;
    release.cancel();
    campaign.await.unwrap();
}

#[tokio::test]
async fn a_missing_marker_says_which() {
    let world = World::with(&[(PROD, "version: 1.0.0\n")]).await;
    world.leaf("dev", "dev", "1.0.0").await;
    world.leaf("prod", "prod", "1.0.0").await;
    let spec = spec("dev=dev/dev > prod=prod/prod", &world.promotion());
    world.pipeline("app", spec).await;
    world.deploy("dev", "dev", "1.1.0").await;
    let promotions = world.expect("prod 1.1.0 Running/NoMarker").await;
    let message = promotions[0].status.clone().unwrap().message.unwrap();
    assert!(message.contains("default:app:prod"), "{message}");
    assert_eq!(world.repository.pull_requests().await.len(), 0);
}

#[tokio::test]
async fn promotions_are_counted_and_measured() {
    let world = dev_and_prod().await;
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 WaitingForMerge").await;
    world.repository.merge(1).await.unwrap();
    world.sync(PROD, "prod", "prod").await;
    world.expect("prod 1.1.0 Succeeded").await;
    let page = world.promoter.metrics().page();
    for line in [
        "sluice_promotion_duration_seconds_count{environment_position=\"last\",strategy=\"pull-request\",outcome=\"Succeeded\"} 1",
        "sluice_promotion_latency_seconds_count{namespace=\"default\",pipeline=\"app\",environment=\"prod\"} 1",
        "sluice_promotion_phase_seconds_count{phase=\"WaitingForMerge\"} 1",
        "sluice_forge_calls_total{forge=\"gitea\",result=\"ok\"}",
    ] {
        assert!(page.contains(line), "{line} is not in\n{page}");
    }
}

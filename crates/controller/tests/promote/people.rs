//! What people do: approve, request, merge, close, push, edit, delete.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use axum::response::IntoResponse;
use controller::Settings;
use http::{Method, StatusCode};
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use testbed::forge::{PullState, Repository};

use crate::world::{World, manifest, settings, spec, wait_for};

const PROD: &str = "prod/app.yaml";
const BRANCH: &str = "promotion-default-app-prod";

/// dev and prod at 1.0.0.
async fn dev_and_prod(change: impl FnOnce(&mut serde_json::Value)) -> World {
    let world = World::with(&[(PROD, &manifest("1.0.0", "default:app:prod"))]).await;
    world.leaf("dev", "dev", "1.0.0").await;
    world.leaf("prod", "prod", "1.0.0").await;
    let mut promotion = world.promotion();
    change(&mut promotion);
    let spec = spec("dev=dev/dev > prod=prod/prod", &promotion);
    world.pipeline("app", spec).await;
    world.expect_hold("app", "prod", "").await;
    world
}

#[tokio::test]
async fn an_approval_counts_for_its_revision_only() {
    let world = dev_and_prod(|promotion| promotion["manual"] = json!(true)).await;
    world.deploy("dev", "dev", "1.1.0").await;
    let first = world.expect("prod 1.1.0 AwaitingApproval").await;
    world.expect_hold("app", "prod", "AwaitingApproval").await;
    assert_eq!(world.repository.pull_requests().await.len(), 0);
    world.deploy("dev", "dev", "1.2.0").await;
    world
        .expect("prod 1.1.0 Superseded, prod 1.2.0 AwaitingApproval")
        .await;
    world.approve(&first[0]).await; // too late
    world.deploy("dev", "dev", "1.3.0").await;
    let waiting = "prod 1.1.0 Superseded, prod 1.2.0 Superseded, prod 1.3.0";
    let promotions = world.expect(&format!("{waiting} AwaitingApproval")).await;
    assert_eq!(world.repository.pull_requests().await.len(), 0);
    world.approve(&promotions[2]).await;
    world.expect(&format!("{waiting} WaitingForMerge")).await;
    assert_eq!(world.version(BRANCH, PROD).await, "1.3.0");
}

#[tokio::test]
async fn a_newer_revision_takes_the_pull_request_over() {
    let world = dev_and_prod(|_| {}).await;
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 WaitingForMerge").await;
    world.deploy("dev", "dev", "1.2.0").await;
    world
        .expect("prod 1.1.0 Superseded, prod 1.2.0 WaitingForMerge")
        .await;
    let pulls = world.repository.pull_requests().await;
    assert_eq!(pulls.len(), 1);
    assert_eq!(pulls[0].title, "Promote default/app in prod to 1.2.0");
    assert_eq!(world.version(BRANCH, PROD).await, "1.2.0");
    assert_eq!(
        world.repository.log(BRANCH).await.unwrap().len(),
        2,
        "never stacked"
    );
    world.repository.merge(1).await.unwrap();
    world.sync(PROD, "prod", "prod").await;
    world
        .expect("prod 1.1.0 Superseded, prod 1.2.0 Succeeded")
        .await;
}

#[tokio::test]
async fn a_closed_pull_request_rejects_its_revision() {
    let world = dev_and_prod(|_| {}).await;
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 WaitingForMerge").await;
    world.repository.close(1).await.unwrap();
    world.expect("prod 1.1.0 Abandoned").await;
    world.expect_hold("app", "prod", "Rejected").await;
    // A person may ask for it all the same.
    let request =
        json!({"environment": "prod", "revision": "1.1.0", "kind": "Promote", "by": "ann"});
    let annotations = json!({api::names::REQUEST_ANNOTATION: request.to_string()});
    world
        .patch_pipeline("app", json!({"metadata": {"annotations": annotations}}))
        .await;
    world
        .expect("prod 1.1.0 Abandoned, prod 1.1.0 WaitingForMerge")
        .await;
    assert_eq!(world.repository.pull_requests().await.len(), 2);
}

/// The forge fails twice to close a pull request.
fn fail_to_close_twice(repository: &Repository) {
    let failures = Arc::new(AtomicUsize::new(0));
    repository.intercept_requests(Arc::new(move |request, next| {
        let failures = failures.clone();
        Box::pin(async move {
            let closes =
                request.method() == Method::PATCH && request.uri().path().ends_with("/pulls/1");
            if closes && failures.fetch_add(1, Ordering::SeqCst) < 2 {
                return StatusCode::INTERNAL_SERVER_ERROR.into_response();
            }
            next.run(request).await
        })
    }));
}

#[tokio::test]
async fn a_rejection_closes_the_pull_request_with_the_note() {
    let world = dev_and_prod(|_| {}).await;
    world.deploy("dev", "dev", "1.1.0").await;
    let open = world.expect("prod 1.1.0 WaitingForMerge").await;
    fail_to_close_twice(&world.repository);
    let rejection = json!({"by": "ann", "note": "it loses\norders"});
    let patch = Patch::Merge(json!({"spec": {"rejection": rejection}}));
    let name = open[0].metadata.name.as_deref().unwrap();
    let (promotions, none) = (world.promotions(), PatchParams::default());
    promotions.patch(name, &none, &patch).await.unwrap();
    let ended = world.expect("prod 1.1.0 Abandoned/Rejected").await;
    let message = ended[0].status.as_ref().unwrap().message.clone().unwrap();
    assert_eq!(message, "ann rejected it: it loses\norders");
    let pull = world.repository.pull_requests().await.remove(0);
    assert_eq!(pull.state, PullState::Closed);
    let is_note = |it: &&String| it.starts_with("Rejected by");
    let notes: Vec<_> = pull.comments.iter().filter(is_note).collect();
    assert_eq!(notes, ["Rejected by `ann`: it loses orders"], "only once");
    world.expect_hold("app", "prod", "Rejected").await;
    assert_eq!(world.version("main", PROD).await, "1.0.0");
}

#[tokio::test]
async fn a_rollback_goes_back_and_rejects() {
    let world = dev_and_prod(|_| {}).await;
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 WaitingForMerge").await;
    world.repository.merge(1).await.unwrap();
    world.sync(PROD, "prod", "prod").await;
    world.expect("prod 1.1.0 Succeeded").await;
    world
        .request(
            "app",
            "prod",
            json!({"id": "r1", "revision": "1.0.0", "kind": "Rollback"}),
        )
        .await;
    world
        .expect("prod 1.0.0 WaitingForMerge, prod 1.1.0 Succeeded")
        .await;
    world.repository.merge(2).await.unwrap();
    world.sync(PROD, "prod", "prod").await;
    world
        .expect("prod 1.0.0 Succeeded, prod 1.1.0 Succeeded")
        .await;
    world.expect_hold("app", "prod", "Rejected").await;
    let status = world.pipelines().get("app").await.unwrap().status.unwrap();
    assert_eq!(status.environments["prod"].rejected, ["1.1.0"]);
    let handled = status.environments["prod"].last_request.clone().unwrap();
    assert_eq!(handled.id, "r1");
}

#[tokio::test]
async fn a_push_by_others_is_left_alone_and_followed() {
    let mut world = dev_and_prod(|_| {}).await;
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 WaitingForMerge").await;
    let tip = world
        .repository
        .commit(BRANCH, "Better so", &[("more.yaml", "x: 1\n")])
        .await
        .unwrap();
    world
        .expect("prod 1.1.0 WaitingForMerge/BranchChangedByOthers")
        .await;
    world.restart(settings());
    world
        .expect("prod 1.1.0 WaitingForMerge/BranchChangedByOthers")
        .await;
    assert_eq!(
        world.repository.tip(BRANCH).await.as_deref(),
        Some(tip.as_str())
    );
    world.repository.merge(1).await.unwrap();
    world.expect("prod 1.1.0 Deploying").await;
}

/// prod's pull request for 1.1.0 has a commit of somebody else, and 1.2.0 wants its branch.
async fn with_a_foreign_branch() -> World {
    let world = dev_and_prod(|_| {}).await;
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 WaitingForMerge").await;
    let pushed = world
        .repository
        .commit(BRANCH, "Better so", &[("more.yaml", "x: 1\n")])
        .await;
    pushed.unwrap();
    world
        .expect("prod 1.1.0 WaitingForMerge/BranchChangedByOthers")
        .await;
    world.deploy("dev", "dev", "1.2.0").await;
    let stuck = "prod 1.1.0 Superseded, prod 1.2.0 Running/BranchChangedByOthers";
    world.expect(stuck).await;
    let told = "resolved by merging the pull request of that branch, or deleting the branch";
    let is_told = async || {
        let status = world.pipelines().get("app").await.unwrap().status.unwrap();
        let promotion = status.environments["prod"].promotion.clone();
        let message = promotion.and_then(|it| it.message).unwrap_or_default();
        message.ends_with(told)
    };
    assert!(wait_for(is_told).await, "the pipeline does not say why");
    world
}

/// What the troubleshooting guide says helps. The next attempt by itself is half an hour away.
#[tokio::test]
async fn merging_what_others_pushed_sets_the_next_promotion_free() {
    let world = with_a_foreign_branch().await;
    world.repository.merge(1).await.unwrap();
    world
        .expect("prod 1.1.0 Superseded, prod 1.2.0 WaitingForMerge")
        .await;
    assert_eq!(world.repository.pull_requests().await.len(), 2);
    assert_eq!(world.version(BRANCH, PROD).await, "1.2.0");
    assert!(world.repository.read("main", "more.yaml").await.is_some());
}

#[tokio::test]
async fn deleting_a_branch_that_others_pushed_to_sets_the_next_promotion_free() {
    let world = with_a_foreign_branch().await;
    world.repository.close(1).await.unwrap();
    world.repository.delete_branch(BRANCH).await.unwrap();
    world
        .expect("prod 1.1.0 Superseded, prod 1.2.0 WaitingForMerge")
        .await;
    assert_eq!(world.version(BRANCH, PROD).await, "1.2.0");
}

/// An edit of the repository is noticed like one of the Secret.
#[tokio::test]
async fn a_marker_that_is_added_sets_a_promotion_free() {
    let world = World::with(&[(PROD, "version: 1.0.0\n")]).await;
    world.leaf("dev", "dev", "1.0.0").await;
    world.leaf("prod", "prod", "1.0.0").await;
    let spec = spec("dev=dev/dev > prod=prod/prod", &world.promotion());
    world.pipeline("app", spec).await;
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 Running/NoMarker").await;
    let marked = manifest("1.0.0", "default:app:prod");
    let edit = [(PROD, marked.as_str())];
    world
        .repository
        .commit("main", "Mark it", &edit)
        .await
        .unwrap();
    world.expect("prod 1.1.0 WaitingForMerge").await;
}

/// A correction of the strategy starts the promotion again, also one that a person asked for.
#[tokio::test]
async fn a_corrected_strategy_starts_what_runs_again() {
    let world = dev_and_prod(|promotion| {
        promotion["strategy"]["pull-request"]["baseBranch"] = json!("mian");
    })
    .await;
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 Running/NoBaseBranch").await;
    world
        .request(
            "app",
            "prod",
            json!({"id": "r1", "revision": "1.2.0", "kind": "Promote", "unseen": true}),
        )
        .await;
    let running = "prod 1.1.0 Superseded, prod 1.2.0 Running/NoBaseBranch";
    world.expect(running).await;
    let correct = json!({"pull-request": {"baseBranch": "main"}});
    world
        .patch_pipeline("app", json!({"spec": {"promotion": {"strategy": correct}}}))
        .await;
    let done = "prod 1.1.0 Superseded, prod 1.2.0 Withdrawn, prod 1.2.0 WaitingForMerge";
    world.expect(done).await;
    assert_eq!(world.version(BRANCH, PROD).await, "1.2.0");
}

#[tokio::test]
async fn a_deployment_by_other_means_closes_the_pull_request() {
    let world = dev_and_prod(|_| {}).await;
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 WaitingForMerge").await;
    world.deploy("prod", "prod", "1.1.0").await;
    world.expect("prod 1.1.0 Succeeded").await;
    assert_eq!(
        world.repository.pull_requests().await[0].state,
        PullState::Closed
    );
}

#[tokio::test]
async fn what_is_no_longer_wanted_is_withdrawn() {
    let world = dev_and_prod(|_| {}).await;
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 WaitingForMerge").await;
    world.deploy("dev", "dev", "1.0.0").await;
    world.expect("prod 1.1.0 Withdrawn").await;
    assert_eq!(
        world.repository.pull_requests().await[0].state,
        PullState::Closed
    );
}

/// Somebody deploys something newer by hand while the pull request is open.
#[tokio::test]
async fn what_would_now_be_a_step_back_is_withdrawn() {
    let world = dev_and_prod(|_| {}).await;
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 WaitingForMerge").await;
    world.deploy("prod", "prod", "1.2.0").await;
    world.expect("prod 1.1.0 Withdrawn").await;
    world.expect_hold("app", "prod", "OlderThanRunning").await;
    assert_eq!(
        world.repository.pull_requests().await[0].state,
        PullState::Closed
    );
}

#[tokio::test]
async fn deleting_a_pipeline_leaves_its_pull_request_open_with_a_word() {
    let world = dev_and_prod(|_| {}).await;
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 WaitingForMerge").await;
    world
        .pipelines()
        .delete("app", &DeleteParams::default())
        .await
        .unwrap();
    let is_told = async || world.repository.pull_requests().await[0].comments.len() == 1;
    assert!(wait_for(is_told).await, "nobody is told");
    assert_eq!(
        world.repository.pull_requests().await[0].state,
        PullState::Open
    );
    world.expect("").await;
    assert_eq!(world.repository.pull_requests().await[0].comments.len(), 1);
}

#[tokio::test]
async fn only_so_many_finished_promotions_are_kept() {
    let mut world = dev_and_prod(|_| {}).await;
    world.restart(Settings {
        history_limit: 1,
        ..settings()
    });
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 WaitingForMerge").await;
    world.repository.merge(1).await.unwrap();
    world.sync(PROD, "prod", "prod").await;
    world.expect("prod 1.1.0 Succeeded").await;
    world.deploy("dev", "dev", "1.2.0").await;
    world
        .expect("prod 1.1.0 Succeeded, prod 1.2.0 WaitingForMerge")
        .await;
    world.repository.merge(2).await.unwrap();
    world.sync(PROD, "prod", "prod").await;
    world.expect("prod 1.2.0 Succeeded").await;
}

#[tokio::test]
async fn what_does_not_come_up_in_time_has_failed() {
    let world = dev_and_prod(|promotion| promotion["deployTimeout"] = json!("2s")).await;
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 WaitingForMerge").await;
    world.repository.merge(1).await.unwrap();
    world.expect("prod 1.1.0 Failed/DeployFailed").await;
    world.expect_hold("app", "prod", "PromotionFailed").await;
    world.sync(PROD, "prod", "prod").await;
    world.expect("prod 1.1.0 Succeeded").await;
}

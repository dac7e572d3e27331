//! What people do to a pull request, also where the process that opened it died before it could
//! write that down.

use serde_json::json;
use testbed::forge::PullState;

use crate::{
    fault_injector::HeldPart,
    journeys::{BRANCH, PROD, Stage},
    world::wait_for,
};

/// The pull request is open, and the process died before it knew.
async fn opened_and_died() -> Stage {
    // What pull requests show is not begun once they have ended.
    let stage = Stage::running(&json!({"feedback": []})).await;
    stage.injector.hold_next("/pulls", HeldPart::Answer);
    stage.deploy("dev", "1.1.0").await;
    stage.injector.holds().await;
    stage.kill().await;
    let promotions = stage.world.expect("prod 1.1.0 -").await;
    assert!(promotions[0].status.is_none());
    stage
}

async fn retitle(stage: &Stage) {
    let retitled = stage.world.repository.retitle(1, "Ship it").await;
    retitled.unwrap();
}

async fn title(stage: &Stage) -> String {
    let pulls = stage.world.repository.pull_requests().await;
    assert_eq!(pulls.len(), 1);
    pulls[0].title.clone()
}

#[tokio::test]
async fn a_person_closes_it_between_create_and_restart() {
    let stage = opened_and_died().await;
    stage.world.repository.close(1).await.unwrap();
    stage.start().await;
    stage.world.expect("prod 1.1.0 Abandoned/Closed").await;
    stage.world.expect_hold("app", "prod", "Rejected").await;
    stage.check(PullState::Closed, "1.1.0", "1.0.0").await;
}

#[tokio::test]
async fn a_person_merges_it_between_create_and_restart() {
    let stage = opened_and_died().await;
    stage.world.repository.merge(1).await.unwrap();
    stage.start().await;
    stage.world.expect("prod 1.1.0 Deploying").await;
    stage.sync().await;
    stage.world.expect("prod 1.1.0 Succeeded").await;
    stage.check(PullState::Merged, "1.1.0", "1.1.0").await;
}

#[tokio::test]
async fn a_person_retitles_it_between_create_and_restart() {
    let stage = opened_and_died().await;
    retitle(&stage).await;
    stage.start().await;
    stage.world.expect("prod 1.1.0 WaitingForMerge").await;
    assert_eq!(title(&stage).await, "Ship it");
    stage.world.repository.merge(1).await.unwrap();
    stage.world.expect("prod 1.1.0 Deploying").await;
}

#[tokio::test]
async fn a_person_retitles_it() {
    let stage = Stage::with_pull_request(&json!({})).await;
    retitle(&stage).await;
    stage.kill().await;
    stage.start().await;
    stage.world.repository.merge(1).await.unwrap();
    stage.sync().await;
    stage.world.expect("prod 1.1.0 Succeeded").await;
    assert_eq!(title(&stage).await, "Ship it");
    // The next one's pull request is called as usual.
    stage.deploy("dev", "1.2.0").await;
    let next = "prod 1.1.0 Succeeded, prod 1.2.0 WaitingForMerge";
    stage.world.expect(next).await;
    let pulls = stage.world.repository.pull_requests().await;
    assert_eq!(pulls.len(), 2);
    assert_eq!(pulls[1].title, "Promote default/app in prod to 1.2.0");
}

/// A newer revision takes a pull request over, whatever people called it.
#[tokio::test]
async fn a_retitled_pull_request_is_taken_over() {
    let stage = Stage::with_pull_request(&json!({})).await;
    retitle(&stage).await;
    stage.deploy("dev", "1.2.0").await;
    let taken = "prod 1.1.0 Superseded, prod 1.2.0 WaitingForMerge";
    let promotions = stage.world.expect(taken).await;
    let uid = promotions[1].metadata.uid.clone().unwrap();
    let pulls = stage.world.repository.pull_requests().await;
    assert!(pulls[0].body.contains(&uid), "{}", pulls[0].body);
    let expected = "Promote default/app in prod to 1.2.0";
    assert_eq!(title(&stage).await, expected);
}

#[tokio::test]
async fn a_person_pushes_to_our_branch_before_the_pull_request_is_open() {
    let stage = Stage::running(&json!({})).await;
    stage
        .injector
        .hold_next("/git-receive-pack", HeldPart::Answer);
    stage.deploy("dev", "1.1.0").await;
    stage.injector.holds().await;
    let repository = &stage.world.repository;
    let more = [("more.yaml", "x: 1\n")];
    let tip = repository.commit(BRANCH, "More", &more).await.unwrap();
    stage.injector.release();
    let expected = "prod 1.1.0 WaitingForMerge/BranchChangedByOthers";
    stage.world.expect(expected).await;
    assert_eq!(repository.tip(BRANCH).await, Some(tip));
    repository.merge(1).await.unwrap();
    stage.world.expect("prod 1.1.0 Deploying").await;
    assert_eq!(repository.pull_requests().await.len(), 1);
}

/// The base moves under the open pull request: people merge it as it is, nothing is pushed anew.
#[tokio::test]
async fn a_person_moves_the_base_under_the_pull_request() {
    let stage = Stage::with_pull_request(&json!({})).await;
    let repository = &stage.world.repository;
    let tip = repository.tip(BRANCH).await;
    let other = [("dev/app.yaml", "x: 1\n")];
    repository
        .commit("main", "Elsewhere", &other)
        .await
        .unwrap();
    stage.kill().await;
    stage.start().await;
    stage.world.repository.merge(1).await.unwrap();
    stage.world.expect("prod 1.1.0 Deploying").await;
    assert_eq!(repository.tip(BRANCH).await, tip);
    assert_eq!(stage.world.version("main", PROD).await, "1.1.0");
    let is_kept = async || repository.read("main", "dev/app.yaml").await.is_some();
    assert!(wait_for(is_kept).await, "somebody's commit is lost");
}

//! What concerns one pull request concerns one batch of a rollout: feedback, merging, closing.

use serde_json::{Value, json};
use testbed::forge::PullState;

use crate::{
    rollouts::{Fleet, by_pull_request, three_waves},
    world::{World, wait_for},
};

fn with(settings: Value) -> impl FnOnce(&World) -> Value {
    move |world| {
        let mut promotion = by_pull_request(three_waves())(world);
        for (key, value) in settings.as_object().into_iter().flatten() {
            promotion["strategy"]["pull-request"][key] = value.clone();
        }
        promotion
    }
}

#[tokio::test]
async fn each_pull_request_has_its_own_commit_status_and_comment() {
    let feedback = json!({"feedback": ["commit-status", "comment"]});
    let fleet = Fleet::new(2, with(feedback)).await;
    fleet.world.deploy("dev", "dev", "1.1.0").await;
    for number in 1..=2 {
        let batch = fleet.expect_pull_request(number).await;
        let repository = &fleet.world.repository;
        let is_shown = async || {
            let pulls = repository.pull_requests().await;
            let pull = pulls.iter().find(|it| it.number == batch.0).unwrap();
            let statuses = repository.commit_statuses();
            let is_own = |it: &&testbed::forge::CommitStatus| it.commit == pull.head_commit;
            pull.comments.len() == 1 && statuses.iter().filter(is_own).count() == 1
        };
        assert!(
            wait_for(is_shown).await,
            "{:?}",
            repository.commit_statuses()
        );
        fleet.merge(batch).await;
    }
    fleet.world.expect("prod 1.1.0 Succeeded").await;
    let pulls = fleet.world.repository.pull_requests().await;
    let comments: Vec<_> = pulls.iter().map(|it| it.comments.len()).collect();
    assert_eq!(comments, [1, 1]);
    assert_eq!(fleet.world.repository.commit_statuses().len(), 2);
}

#[tokio::test]
async fn each_pull_request_is_merged_by_itself() {
    let fleet = Fleet::new(2, with(json!({"autoMerge": true}))).await;
    fleet.world.deploy("dev", "dev", "1.1.0").await;
    for number in 1..=2 {
        let clusters = fleet.expect_batch(number, true).await;
        fleet.deploy(&clusters).await;
    }
    fleet.world.expect("prod 1.1.0 Succeeded").await;
    let pulls = fleet.world.repository.pull_requests().await;
    let states: Vec<_> = pulls.iter().map(|it| it.state).collect();
    assert_eq!(states, [PullState::Merged, PullState::Merged]);
}

/// A newer revision after a stop: the pull request of the open batch is closed, and the new rollout begins
/// with its own first one.
#[tokio::test]
async fn the_pull_request_of_a_batch_is_closed_when_a_newer_rollout_replaces_it() {
    let fleet = Fleet::new(2, with(json!({}))).await;
    fleet.world.deploy("dev", "dev", "1.1.0").await;
    let first = fleet.expect_pull_request(1).await;
    fleet.merge(first).await;
    let (second, _) = fleet.expect_pull_request(2).await;
    fleet.order("r1", json!({"kind": "StopRollout"})).await;
    fleet.world.deploy("dev", "dev", "1.2.0").await;
    let mut pulls = Vec::new();
    let is_replaced = async || {
        pulls = fleet.world.repository.pull_requests().await;
        let old = pulls.iter().find(|it| it.number == second);
        let new = pulls
            .iter()
            .find(|it| it.title.contains("to 1.2.0, batch 1 ("));
        old.is_some_and(|it| it.state == PullState::Closed)
            && new.is_some_and(|it| it.state == PullState::Open)
    };
    assert!(wait_for(is_replaced).await, "{pulls:?}");
    let new = pulls.iter().find(|it| it.title.contains("1.2.0")).unwrap();
    assert_eq!(new.head, "promotion-default-app-prod-b1");
    let open = pulls.iter().filter(|it| it.state == PullState::Open);
    assert_eq!(open.count(), 1, "one open pull request per site");
}

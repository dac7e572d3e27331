//! What must hold of one forge only.

use git::forge::{
    Forge, ForgeProduct, MergeMethod, MergeOptions, PullRequestListing, PullRequestMetadata,
};

use crate::double::{BRANCH, ForgeDouble, branch, new_pull, tip};
use testbed::forge_doubles::{azure, bitbucket_cloud, bitbucket_server, github, gitlab};

/// The merge of a new merge request as soon as it may be.
async fn wanted(double: &ForgeDouble) -> (Box<dyn Forge>, u64, MergeOptions) {
    let forge = double.forge();
    let number = forge.create(&new_pull()).await.expect("one").number;
    let merge = MergeOptions {
        head: tip(),
        method: MergeMethod::Merge,
    };
    (forge, number, merge)
}

#[tokio::test]
async fn what_failed_is_not_merged() {
    let double = ForgeDouble::start(ForgeProduct::GitLab, gitlab::router).await;
    let (forge, number, merge) = wanted(&double).await;
    double.state.lock().has_failed_checks = true;
    for _ in 0..3 {
        let error = forge.merge(number, &merge).await.expect_err("it is red");
        assert_eq!(error.reason(), "NotMergeable");
        assert!(
            error.to_string().contains("its pipeline is failed"),
            "{error}"
        );
    }
    assert!(
        double
            .state
            .lock()
            .find(number)
            .expect("it is there")
            .is_open
    );
}

/// Only GitHub's queue keeps everybody else from merging; there Sluice uses it, and can leave it.
#[tokio::test]
async fn a_merge_queue_is_entered_and_left() {
    let double = ForgeDouble::start(ForgeProduct::GitHub, github::router).await;
    let (forge, number, merge) = wanted(&double).await;
    let stored = || {
        let stored = double.state.lock().find(number).expect("stored").clone();
        (stored.waits_for_merge, stored.is_queued, stored.is_open)
    };
    double.state.lock().has_merge_queue = true;
    for has_pending_checks in [false, true] {
        double.state.lock().has_pending_checks = has_pending_checks;
        let error = forge
            .merge(number, &merge)
            .await
            .expect_err("only the queue");
        assert_eq!(error.reason(), "MergeQueueRequired");
        assert_eq!(
            stored(),
            (false, false, true),
            "nothing is scheduled unasked"
        );
        for _ in 0..2 {
            let scheduled = forge.schedule_merge(number, &merge).await;
            scheduled.expect("scheduled, once or again");
            assert_eq!(stored(), (has_pending_checks, !has_pending_checks, true));
        }
        for _ in 0..2 {
            let left = forge.cancel_scheduled_merge(number).await;
            left.expect("left, once or again");
            assert_eq!(stored(), (false, false, true));
        }
    }
}

#[tokio::test]
async fn a_moved_head_does_not_enter_the_merge_queue() {
    let double = ForgeDouble::start(ForgeProduct::GitHub, github::router).await;
    let (forge, number, merge) = wanted(&double).await;
    double.state.lock().has_merge_queue = true;
    let moved = ("b".repeat(39) + "c", BRANCH.to_owned());
    double.state.lock().branches.insert(moved.1, moved.0);
    let error = forge.schedule_merge(number, &merge).await;
    assert_eq!(error.expect_err("another head").reason(), "HeadMoved");
    assert!(!double.state.lock().find(number).expect("stored").is_queued);
}

/// GitHub would merge it: the check is not a required one.
#[tokio::test]
async fn what_failed_without_being_required_is_not_merged_either() {
    let double = ForgeDouble::start(ForgeProduct::GitHub, github::router).await;
    let (forge, number, merge) = wanted(&double).await;
    double.state.lock().has_failed_checks = true;
    let error = forge.merge(number, &merge).await.expect_err("it is red");
    assert_eq!(error.reason(), "NotMergeable");
    assert!(error.to_string().contains("checks have passed"), "{error}");
}

#[tokio::test]
async fn a_pipeline_that_starts_late_is_waited_for() {
    let double = ForgeDouble::start(ForgeProduct::GitLab, gitlab::router).await;
    let (forge, number, merge) = wanted(&double).await;
    let error = forge
        .merge(number, &merge)
        .await
        .expect_err("none is there yet");
    assert_eq!(error.reason(), "NotMergeable");
    double.state.lock().has_pending_checks = true;
    let error = forge.merge(number, &merge).await.expect_err("it runs");
    assert_eq!(error.reason(), "NotMergeable");
    assert!(error.to_string().contains("ci_still_running"), "{error}");
    assert!(
        double
            .state
            .lock()
            .find(number)
            .expect("it is there")
            .is_open
    );
}

#[tokio::test]
async fn a_cut_text_ends_with_a_whole_line() {
    let double = ForgeDouble::start(ForgeProduct::AzureDevOps, azure::router).await;
    let forge = double.forge();
    let mut new = new_pull();
    new.body = format!("{}\nSluice-Promotion: 0123456789\n", "a".repeat(380));
    forge.create(&new).await.expect("a pull request");
    let listed = forge.list_open(None).await.expect("a list");
    let PullRequestListing::Changed { pull_requests, .. } = listed else {
        panic!("there are no validators")
    };
    assert_eq!(pull_requests[0].body, "a".repeat(380));
}

#[tokio::test]
async fn who_is_named_by_id_is_not_looked_for() {
    let double = ForgeDouble::start(ForgeProduct::BitbucketCloud, bitbucket_cloud::router).await;
    let forge = double.forge();
    let number = forge.create(&new_pull()).await.expect("one").number;
    let before = double.requests();
    let dressing = PullRequestMetadata {
        reviewers: vec![bitbucket_cloud::uuid("ann")],
        ..PullRequestMetadata::default()
    };
    forge.add_metadata(number, &dressing).await.expect("asked");
    assert_eq!(
        double.requests() - before,
        2,
        "read and written, no members listed"
    );
    let asked = double
        .state
        .lock()
        .find(number)
        .expect("it is there")
        .reviewers
        .clone();
    assert_eq!(asked, ["ann"]);
}

#[tokio::test]
async fn pull_requests_into_other_repositories_are_not_ours() {
    let double = ForgeDouble::start(ForgeProduct::BitbucketServer, bitbucket_server::router).await;
    let forge = double.forge();
    let number = forge.create(&new_pull()).await.expect("one").number;
    let find = || async { forge.find(&branch(BRANCH)).await.expect("found").len() };
    assert_eq!(find().await, 1);
    let other = Some("upstream/config".to_owned());
    double
        .state
        .lock()
        .find(number)
        .expect("it is there")
        .base_project = other;
    assert_eq!(find().await, 0);
}

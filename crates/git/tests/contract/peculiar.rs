//! What must hold of one forge only.

use git::forge::{
    Forge, ForgeProduct, MergeMethod, MergeOptions, MergeResult, PullRequestListing,
    PullRequestMetadata,
};

use crate::double::{Arena, BRANCH, branch, new_pull, tip};
use testbed::forge_doubles::{azure, bitbucket_cloud, bitbucket_server, gitea, gitlab};

/// The merge of a new merge request as soon as it may be.
async fn wanted(arena: &Arena) -> (Box<dyn Forge>, u64, MergeOptions) {
    let forge = arena.forge();
    let number = forge.create(&new_pull()).await.expect("one").number;
    let merge = MergeOptions {
        head: tip(),
        method: MergeMethod::Merge,
        when_ready: true,
    };
    (forge, number, merge)
}

#[tokio::test]
async fn what_failed_is_not_merged() {
    let arena = Arena::start(ForgeProduct::GitLab, gitlab::router).await;
    let (forge, number, merge) = wanted(&arena).await;
    arena.world.lock().has_failed_checks = true;
    for _ in 0..3 {
        let error = forge.merge(number, &merge).await.expect_err("it is red");
        assert_eq!(error.reason(), "NotMergeable");
        assert!(
            error.to_string().contains("its pipeline is failed"),
            "{error}"
        );
    }
    assert!(
        arena
            .world
            .lock()
            .find(number)
            .expect("it is there")
            .is_open
    );
}

/// Gitea would schedule that merge and never carry it out.
#[tokio::test]
async fn who_may_not_merge_is_told_so() {
    let arena = Arena::start(ForgeProduct::Gitea, gitea::router).await;
    let (forge, number, merge) = wanted(&arena).await;
    arena.world.lock().is_protected = true;
    for _ in 0..2 {
        let error = forge.merge(number, &merge).await.expect_err("not by us");
        assert_eq!(error.reason(), "Forbidden");
        assert!(
            error.to_string().contains("not allowed to merge"),
            "{error}"
        );
    }
    arena.world.lock().is_protected = false;
    let merged = forge.merge(number, &merge).await;
    assert_eq!(merged.expect("merged"), MergeResult::Merged);
}

#[tokio::test]
async fn a_pipeline_that_starts_late_is_waited_for() {
    let arena = Arena::start(ForgeProduct::GitLab, gitlab::router).await;
    let (forge, number, merge) = wanted(&arena).await;
    let error = forge
        .merge(number, &merge)
        .await
        .expect_err("none is there yet");
    assert_eq!(error.reason(), "NotMergeable");
    arena.world.lock().has_pending_checks = true;
    let merged = forge.merge(number, &merge).await;
    assert_eq!(merged.expect("asked for"), MergeResult::Scheduled);
    assert!(
        arena
            .world
            .lock()
            .find(number)
            .expect("it is there")
            .is_open
    );
}

#[tokio::test]
async fn a_cut_text_ends_with_a_whole_line() {
    let arena = Arena::start(ForgeProduct::AzureDevOps, azure::router).await;
    let forge = arena.forge();
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
    let arena = Arena::start(ForgeProduct::BitbucketCloud, bitbucket_cloud::router).await;
    let forge = arena.forge();
    let number = forge.create(&new_pull()).await.expect("one").number;
    let before = arena.requests();
    let dressing = PullRequestMetadata {
        reviewers: vec![bitbucket_cloud::uuid("ann")],
        ..PullRequestMetadata::default()
    };
    forge.add_metadata(number, &dressing).await.expect("asked");
    assert_eq!(
        arena.requests() - before,
        2,
        "read and written, no members listed"
    );
    let asked = arena
        .world
        .lock()
        .find(number)
        .expect("it is there")
        .reviewers
        .clone();
    assert_eq!(asked, ["ann"]);
}

#[tokio::test]
async fn pull_requests_into_other_repositories_are_not_ours() {
    let arena = Arena::start(ForgeProduct::BitbucketServer, bitbucket_server::router).await;
    let forge = arena.forge();
    let number = forge.create(&new_pull()).await.expect("one").number;
    let find = || async { forge.find(&branch(BRANCH)).await.expect("found").len() };
    assert_eq!(find().await, 1);
    let other = Some("upstream/config".to_owned());
    arena
        .world
        .lock()
        .find(number)
        .expect("it is there")
        .base_project = other;
    assert_eq!(find().await, 0);
}

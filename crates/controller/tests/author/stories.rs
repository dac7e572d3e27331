//! The possible courses of a Change.

use api::{Change, conditions::is_true};
use controller::Settings;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use testbed::forge::PullState;

use crate::{
    stage::{CONTENT, Stage},
    world::wait_for,
};

const PATH: &str = "pipelines/default/basket.yaml";

#[tokio::test]
async fn a_file_is_proposed_and_followed_until_it_is_merged() {
    let stage = Stage::running(&[("README.md", "hello\n")]).await;
    stage.ask("basket", PATH, CONTENT).await;
    let proposed = stage.expect("basket Proposed").await.remove(0);
    let repository = &stage.world.repository;
    let pulls = repository.pull_requests().await;
    assert_eq!(pulls.len(), 1);
    let pull = &pulls[0];
    let status = proposed.status.unwrap();
    let url = status.url.unwrap();
    assert!(
        url.ends_with(&format!("/team/config/pulls/{}", pull.number)),
        "{url}"
    );
    assert_eq!(pull.title, "Add basket");
    let uid = proposed.metadata.uid.unwrap();
    for part in [
        PATH,
        "`ann`",
        "default/basket",
        &format!("Sluice-Change: {uid}"),
    ] {
        assert!(pull.body.contains(part), "{part}: {}", pull.body);
    }
    let head = repository.read(&pull.head, PATH).await.unwrap();
    assert_eq!(String::from_utf8(head).unwrap(), CONTENT);
    assert!(repository.read("main", PATH).await.is_none());
    repository.merge(pull.number).await.unwrap();
    let merged = stage.expect("basket Merged").await.remove(0);
    assert!(is_true(&merged.status.unwrap().conditions, "Ready"));
    let main = repository.read("main", PATH).await.unwrap();
    assert_eq!(String::from_utf8(main).unwrap(), CONTENT);
}

#[tokio::test]
async fn a_closed_pull_request_abandons_the_change_for_good() {
    let stage = Stage::running(&[]).await;
    stage.ask("basket", PATH, CONTENT).await;
    stage.expect("basket Proposed").await;
    let repository = &stage.world.repository;
    repository.close(1).await.unwrap();
    stage.expect("basket Abandoned").await;
    stage.kill().await;
    stage.start(stage.settings()).await;
    // Whoever comes later is looked after later.
    stage.ask("other", "pipelines/other.yaml", CONTENT).await;
    stage.expect("basket Abandoned, other Proposed").await;
    assert_eq!(repository.pull_requests().await.len(), 2);
}

#[tokio::test]
async fn what_git_has_already_is_merged_and_what_it_has_otherwise_is_edited() {
    let files = [(PATH, CONTENT), ("pipelines/other.yaml", "old: 1\n")];
    let stage = Stage::running(&files).await;
    stage.ask("basket", PATH, CONTENT).await;
    stage.expect("basket Merged").await;
    let repository = &stage.world.repository;
    assert!(repository.pull_requests().await.is_empty());
    stage.ask("other", "pipelines/other.yaml", "new: 2\n").await;
    stage.expect("basket Merged, other Proposed").await;
    let pull = repository.pull_requests().await.remove(0);
    let head = repository.read(&pull.head, "pipelines/other.yaml").await;
    assert_eq!(head.unwrap(), b"new: 2\n");
}

#[tokio::test]
async fn files_elsewhere_are_refused_with_a_sentence() {
    let stage = Stage::running(&[("pipelines/file.yaml", "a: 1\n")]).await;
    stage.ask("a", "apps/basket.yaml", CONTENT).await;
    stage.ask("b", "pipelines/.github/x.yaml", CONTENT).await;
    stage.ask("c", "pipelines/file.yaml/x.yaml", CONTENT).await;
    let expected = "a Failed/PathRefused, b Failed/PathRefused, c Failed/InvalidPath";
    let changes = stage.expect(expected).await;
    let message = |change: &Change| change.status.clone().unwrap().message.unwrap();
    assert!(message(&changes[0]).contains("only files in pipelines are"));
    assert!(message(&changes[2]).contains("is a file, a link or a submodule"));
    assert!(stage.world.repository.pull_requests().await.is_empty());
}

#[tokio::test]
async fn without_a_repository_a_change_says_so_and_goes_on_once_there_is_one() {
    let stage = Stage::idle(&[]).await;
    let without = Settings {
        authoring: None,
        ..stage.settings()
    };
    stage.start(without).await;
    stage.ask("basket", PATH, CONTENT).await;
    let changes = stage.expect("basket Failed/NotConfigured").await;
    let message = changes[0].status.clone().unwrap().message.unwrap();
    assert!(message.contains("--authoring-url"), "{message}");
    stage.kill().await;
    stage.start(stage.settings()).await;
    stage.expect("basket Proposed").await;
}

#[tokio::test]
async fn a_forge_that_is_down_is_tried_again() {
    let stage = Stage::running(&[]).await;
    stage.world.forge.set_available(false);
    stage.ask("basket", PATH, CONTENT).await;
    stage.expect("basket Pending/ForgeUnavailable").await;
    stage.world.forge.set_available(true);
    stage.expect("basket Proposed").await;
    stage.world.forge.set_available(false);
    stage.expect("basket Proposed/ForgeUnavailable").await;
    stage.world.forge.set_available(true);
    stage.expect("basket Proposed").await;
    assert_eq!(stage.world.repository.pull_requests().await.len(), 1);
}

#[tokio::test]
async fn a_wrong_token_waits_for_the_secret_to_be_mended() {
    let stage = Stage::running(&[]).await;
    let wrong = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": "git", "namespace": "default"},
        "stringData": {"password": "wrong", "token": "wrong"},
    });
    crate::world::apply(&stage.world.hub, &wrong).await;
    stage.ask("basket", PATH, CONTENT).await;
    stage.expect("basket Failed/Unauthorized").await;
    stage.world.secret("git").await;
    stage.expect("basket Proposed").await;
}

#[tokio::test]
async fn a_change_that_is_made_anew_takes_over_its_pull_request() {
    let stage = Stage::running(&[]).await;
    stage.ask("basket", PATH, CONTENT).await;
    stage.expect("basket Proposed").await;
    let deleted = stage
        .changes()
        .delete("basket", &DeleteParams::default())
        .await;
    deleted.unwrap();
    stage.ask("basket", PATH, "other: content\n").await;
    let changes = stage.expect("basket Proposed").await;
    let repository = &stage.world.repository;
    let is_adopted = async || {
        let pulls = repository.pull_requests().await;
        let uid = changes[0].metadata.uid.as_deref().unwrap();
        pulls.len() == 1 && pulls[0].body.contains(uid)
    };
    assert!(wait_for(is_adopted).await);
    let pull = repository.pull_requests().await.remove(0);
    let head = repository.read(&pull.head, PATH).await.unwrap();
    assert_eq!(head, b"other: content\n");
}

#[tokio::test]
async fn a_branch_that_somebody_changed_is_left_alone() {
    let stage = Stage::running(&[]).await;
    stage.ask("basket", PATH, CONTENT).await;
    stage.expect("basket Proposed").await;
    let repository = &stage.world.repository;
    let branch = repository.pull_requests().await[0].head.clone();
    let files = [(PATH, "mine: now\n")];
    repository.commit(&branch, "Mine", &files).await.unwrap();
    // As if nothing had been written about it, and its pull request had been lost as well.
    let patch = Patch::Merge(json!({"status": null}));
    stage.kill().await;
    let patched = stage
        .changes()
        .patch_status("basket", &PatchParams::default(), &patch)
        .await;
    patched.unwrap();
    stage.start(stage.settings()).await;
    stage.expect("basket Proposed").await;
    let head = repository.read(&branch, PATH).await.unwrap();
    assert_eq!(head, b"mine: now\n");
    assert_eq!(repository.pull_requests().await.len(), 1);
}

#[tokio::test]
async fn finished_changes_are_removed_beyond_the_limit() {
    let stage = Stage::idle(&[(PATH, CONTENT)]).await;
    let few = Settings {
        history_limit: 2,
        ..stage.settings()
    };
    stage.start(few).await;
    for name in ["a", "b", "c", "d"] {
        stage.ask(name, PATH, CONTENT).await;
    }
    let are_two = async || {
        let all = stage.changes().list(&Default::default()).await.unwrap();
        all.items.len() == 2 && all.items.iter().all(|it| it.status.is_some())
    };
    assert!(wait_for(are_two).await);
}

#[tokio::test]
async fn a_pull_request_is_found_again_by_whoever_lost_the_status() {
    let stage = Stage::running(&[]).await;
    stage.ask("basket", PATH, CONTENT).await;
    stage.expect("basket Proposed").await;
    stage.kill().await;
    let repository = &stage.world.repository;
    repository.merge(1).await.unwrap();
    let patch = Patch::Merge(json!({"status": null}));
    let api = stage.changes();
    let patched = api
        .patch_status("basket", &PatchParams::default(), &patch)
        .await;
    patched.unwrap();
    stage.start(stage.settings()).await;
    stage.expect("basket Merged").await;
    let pulls = repository.pull_requests().await;
    assert_eq!(pulls.len(), 1);
    assert_eq!(pulls[0].state, PullState::Merged);
}

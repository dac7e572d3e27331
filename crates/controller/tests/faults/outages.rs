//! Outages and changes of what promotions need: the forge, the base branch, the Secret, the API server,
//! the clock.

use std::{path::Path, time::Duration};

use apiserver::{Options, Server};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;
use testbed::forge::PullState;

use crate::{
    fault_injector::HeldPart,
    hub::Hub,
    journeys::{BRANCH, Stage},
    world::{define_ours, wait_for},
};

/// Time passes at once, for everybody.
async fn pass(time: Duration) {
    tokio::time::pause();
    tokio::time::advance(time).await;
    tokio::time::resume();
}

fn pushes(stage: &Stage) -> usize {
    let effects = stage.injector.effects();
    let is_push = |effect: &&String| effect.ends_with("/git-receive-pack");
    effects.iter().filter(is_push).count()
}

async fn attempts(stage: &Stage) -> i64 {
    let promotions = stage.world.all_promotions().await;
    let status = promotions.first().and_then(|it| it.status.clone());
    status.map_or(0, |status| status.attempts)
}

#[tokio::test]
async fn forge_down_for_an_hour() {
    let stage = Stage::running(&json!({})).await;
    stage.world.forge.set_available(false);
    let before = stage.world.forge.requests();
    stage.deploy("dev", "1.1.0").await;
    stage
        .world
        .expect("prod 1.1.0 Running/ForgeUnavailable")
        .await;
    let mut tried = attempts(&stage).await;
    let mut minutes = 0;
    while minutes < 60 {
        pass(Duration::from_secs(60)).await;
        minutes += 1;
        let due = stage.world.all_promotions().await[0].status.clone();
        let due = due.and_then(|it| it.next_attempt);
        // Whoever is due is waited for, so that an hour has as many attempts as it would have.
        let is_tried = async || attempts(&stage).await > tried;
        if due.is_some_and(|due| due.0 <= stage.now()) {
            assert!(
                wait_for(is_tried).await,
                "it gave up after {tried} attempts"
            );
            tried = attempts(&stage).await;
        }
    }
    assert!((8..=20).contains(&tried), "{tried} attempts in an hour");
    let asked = stage.world.forge.requests() - before;
    assert!(asked <= 100, "{asked} requests to a forge that is down");
    stage.world.forge.set_available(true);
    pass(Duration::from_secs(15 * 60)).await;
    stage.world.expect("prod 1.1.0 WaitingForMerge").await;
    stage.world.repository.merge(1).await.unwrap();
    stage.sync().await;
    stage.world.expect("prod 1.1.0 Succeeded").await;
    stage.check(PullState::Merged, "1.1.0", "1.1.0").await;
}

/// The branch is not where it was seen: somebody made it meanwhile, on a base that moved on.
#[tokio::test]
async fn push_rejected_because_base_moved() {
    let stage = Stage::running(&json!({})).await;
    stage
        .injector
        .hold_next("/git-receive-pack", HeldPart::Effect);
    stage.deploy("dev", "1.1.0").await;
    stage.injector.holds().await;
    let repository = &stage.world.repository;
    let other = [("dev/app.yaml", "x: 1\n")];
    repository
        .commit("main", "Elsewhere", &other)
        .await
        .unwrap();
    repository.branch(BRANCH, "main").await.unwrap();
    stage.injector.release();
    stage.world.expect("prod 1.1.0 WaitingForMerge").await;
    assert_eq!(pushes(&stage), 2, "the first was rejected");
    let commits = repository.log(BRANCH).await.unwrap();
    assert_eq!(commits[1], "Elsewhere", "it stands on the new base");
    repository.merge(1).await.unwrap();
    stage.sync().await;
    stage.world.expect("prod 1.1.0 Succeeded").await;
    assert_eq!(repository.pull_requests().await.len(), 1);
    assert!(repository.read("main", "dev/app.yaml").await.is_some());
}

/// Straight onto the base: what somebody else brought there in between stays, below ours.
#[tokio::test]
async fn straight_push_rejected_because_base_moved() {
    let stage = Stage::new().await;
    stage.begin(&json!({})).await;
    let to = json!({
        "url": stage.world.repository.url(), "baseBranch": "main", "secretRef": {"name": "git"},
    });
    let strategy = json!({"pull-request": null, "commit": to});
    let patch = json!({"spec": {"promotion": {"strategy": strategy}}});
    stage.world.patch_pipeline("app", patch).await;
    stage.start().await;
    stage.world.expect_hold("app", "prod", "").await;
    stage
        .injector
        .hold_next("/git-receive-pack", HeldPart::Effect);
    stage.deploy("dev", "1.1.0").await;
    stage.injector.holds().await;
    let repository = &stage.world.repository;
    let other = [("dev/app.yaml", "x: 1\n")];
    let moved = repository.commit("main", "Elsewhere", &other).await;
    moved.unwrap();
    stage.injector.release();
    stage.world.expect("prod 1.1.0 Deploying").await;
    assert_eq!(pushes(&stage), 2, "the first was rejected");
    let commits = repository.log("main").await.unwrap();
    assert_eq!(commits[1], "Elsewhere", "{commits:?}");
    stage.sync().await;
    stage.world.expect("prod 1.1.0 Succeeded").await;
    assert_eq!(repository.log("main").await.unwrap(), commits);
}

/// The Secret goes when the branch is pushed and the pull request is not open yet.
#[tokio::test]
async fn secret_deleted_mid_promotion_and_put_back() {
    let stage = Stage::running(&json!({})).await;
    stage
        .injector
        .hold_next("/git-receive-pack", HeldPart::Answer);
    stage.deploy("dev", "1.1.0").await;
    stage.injector.holds().await;
    let secrets: Api<Secret> = Api::namespaced(stage.world.hub.clone(), "default");
    let deleted = secrets.delete("git", &DeleteParams::default()).await;
    deleted.unwrap();
    stage.kill().await;
    stage.start().await;
    stage.world.expect("prod 1.1.0 Running/SecretMissing").await;
    assert_eq!(stage.world.repository.pull_requests().await.len(), 0);
    stage.world.secret("git").await;
    stage.world.expect("prod 1.1.0 WaitingForMerge").await;
    stage.world.repository.merge(1).await.unwrap();
    stage.sync().await;
    stage.world.expect("prod 1.1.0 Succeeded").await;
    stage.check(PullState::Merged, "1.1.0", "1.1.0").await;
}

async fn open(file: &Path) -> Server {
    let mut opened = None;
    let is_open = async || {
        opened = Server::open(file, Options::default()).await.ok();
        opened.is_some()
    };
    assert!(wait_for(is_open).await, "the file stays in use");
    opened.unwrap()
}

/// The API server ends, with all watches, and comes back from its file: while the branch is pushed,
/// while the pull request waits, and while it is merged.
#[tokio::test]
async fn api_server_restarting() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("hub");
    let hub = Hub::new(open(&file).await);
    define_ours(&hub.client()).await;
    let stage = Stage::on(hub.client()).await;
    stage.begin(&json!({})).await;
    stage.start().await;
    stage.world.expect_hold("app", "prod", "").await;
    stage
        .injector
        .hold_next("/git-receive-pack", HeldPart::Effect);
    stage.deploy("dev", "1.1.0").await;
    stage.injector.holds().await;
    hub.stop();
    stage.injector.release();
    let is_pushed = async || stage.world.repository.tip(BRANCH).await.is_some();
    assert!(wait_for(is_pushed).await, "the push was lost");
    hub.start(open(&file).await);
    stage.world.expect("prod 1.1.0 WaitingForMerge").await;

    hub.stop();
    stage.world.repository.merge(1).await.unwrap();
    hub.start(open(&file).await);
    stage.world.expect("prod 1.1.0 Deploying").await;
    hub.stop();
    hub.start(open(&file).await);
    stage.sync().await;
    stage.world.expect("prod 1.1.0 Succeeded").await;
    stage.check(PullState::Merged, "1.1.0", "1.1.0").await;
}

/// The hub's time jumps ahead while everything runs; a process that starts then has the old time
/// again, which is a jump back for it.
#[tokio::test]
async fn clock_jumping() {
    let stage = Stage::with_pull_request(&json!({})).await;
    pass(Duration::from_secs(2 * 3600)).await;
    stage.world.repository.merge(1).await.unwrap();
    stage.world.expect("prod 1.1.0 Deploying").await;
    stage.kill().await;
    stage.start().await; // two hours ago
    stage.sync().await;
    stage.world.expect("prod 1.1.0 Succeeded").await;
    stage.check(PullState::Merged, "1.1.0", "1.1.0").await;

    // What failed waits for a time that is far away, and goes on all the same.
    stage.world.forge.set_available(false);
    stage.deploy("dev", "1.2.0").await;
    let failed = "prod 1.1.0 Succeeded, prod 1.2.0 Running/ForgeUnavailable";
    stage.world.expect(failed).await;
    let later = jiff::Timestamp::now() + Duration::from_secs(5 * 3600);
    let promotions = stage.world.all_promotions().await;
    let name = promotions[1].metadata.name.as_deref().unwrap();
    stage.kill().await;
    let patch = Patch::Merge(json!({"status": {"nextAttempt": later.to_string()}}));
    let api = stage.world.promotions();
    let patched = api
        .patch_status(name, &PatchParams::default(), &patch)
        .await;
    patched.unwrap();
    stage.world.forge.set_available(true);
    stage.start().await;
    let waiting = "prod 1.1.0 Succeeded, prod 1.2.0 WaitingForMerge";
    stage.world.expect(waiting).await;
    // Ahead again, past every deadline: it has failed, and a late success counts.
    stage.world.repository.merge(2).await.unwrap();
    let deploying = "prod 1.1.0 Succeeded, prod 1.2.0 Deploying";
    stage.world.expect(deploying).await;
    pass(Duration::from_secs(4 * 3600)).await;
    let late = "prod 1.1.0 Succeeded, prod 1.2.0 Failed/DeployFailed";
    stage.world.expect(late).await;
    stage.sync().await;
    let both = "prod 1.1.0 Succeeded, prod 1.2.0 Succeeded";
    stage.world.expect(both).await;
    assert_eq!(stage.world.repository.pull_requests().await.len(), 2);
}

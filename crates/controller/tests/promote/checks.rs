//! Checks: the loop starts and deletes CheckRuns, follows their verdicts, and rolls back when one fails.

use api::CheckRun;
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::world::{World, manifest, spec, wait_for};

const PROD: &str = "prod/app.yaml";

/// dev and prod at 1.0.0; `change` edits the spec.
async fn dev_and_prod(change: impl FnOnce(&mut Value)) -> World {
    let world = World::with(&[(PROD, &manifest("1.0.0", "default:app:prod"))]).await;
    world.leaf("dev", "dev", "1.0.0").await;
    world.leaf("prod", "prod", "1.0.0").await;
    let mut spec = spec("dev=dev/dev > prod=prod/prod", &world.promotion());
    spec["checks"] = json!([{"name": "smoke", "external": {}}]);
    change(&mut spec);
    world.pipeline("app", spec).await;
    world
}

fn runs(world: &World) -> Api<CheckRun> {
    Api::namespaced(world.hub.clone(), "default")
}

async fn drawn_runs(world: &World) -> Vec<String> {
    let listed = runs(world).list(&ListParams::default()).await.unwrap();
    let mut drawn: Vec<_> = listed
        .iter()
        .map(|run| {
            let spec = &run.spec;
            let (environment, check) = (&spec.environment, &spec.check.name);
            format!("{environment} {check} {} #{}", spec.revision, spec.attempt)
        })
        .collect();
    drawn.sort();
    drawn
}

async fn expect_runs(world: &World, expected: &[&str]) {
    let mut drawn = Vec::new();
    let is_so = wait_for(async || {
        drawn = drawn_runs(world).await;
        drawn == expected
    });
    assert!(is_so.await, "{drawn:?}, expected {expected:?}");
}

/// A check of a revision gets its verdict.
async fn decide(world: &World, environment: &str, revision: &str, passed: bool) {
    let listed = runs(world).list(&ListParams::default()).await.unwrap();
    let of_revision =
        |run: &&CheckRun| run.spec.environment == environment && run.spec.revision == revision;
    let newest = listed
        .iter()
        .filter(of_revision)
        .max_by_key(|run| run.spec.attempt);
    let name = newest.unwrap().name_any();
    let (runs, parameters) = (runs(world), PatchParams::default());
    let result = json!({"spec": {"result": {"passed": passed}}});
    let patch = Patch::Merge(&result);
    runs.patch(&name, &parameters, &patch).await.unwrap();
    let verdict = if passed { "Passed" } else { "Failed" };
    let status = json!({"status": {"verdict": verdict, "message": "as reported"}});
    let patch = Patch::Merge(&status);
    runs.patch_status(&name, &parameters, &patch).await.unwrap();
}

#[tokio::test]
async fn a_revision_goes_on_once_its_check_passed_and_old_check_runs_are_deleted() {
    let world = dev_and_prod(|spec| {
        spec["environments"][0]["verify"] = json!({"checks": ["smoke"]});
    })
    .await;
    expect_runs(&world, &["dev smoke 1.0.0 #0"]).await;
    world.deploy("dev", "dev", "1.1.0").await;
    expect_runs(&world, &["dev smoke 1.1.0 #0"]).await;
    world.expect_hold("app", "prod", "Verifying").await;
    assert!(world.all_promotions().await.is_empty());
    decide(&world, "dev", "1.1.0", false).await;
    world.expect_hold("app", "prod", "VerificationFailed").await;
    // A person starts the check again, and it passes.
    let retry = json!({"id": "r1", "kind": "Retry", "revision": "", "by": "ada"});
    world.request("app", "dev", retry).await;
    expect_runs(&world, &["dev smoke 1.1.0 #1"]).await;
    decide(&world, "dev", "1.1.0", true).await;
    world.expect("prod 1.1.0 WaitingForMerge").await;
    let status = world.pipelines().get("app").await.unwrap().status.unwrap();
    assert!(status.environments["dev"].ran[0].checked_at.is_some());
}

#[tokio::test]
async fn a_check_run_that_somebody_deleted_is_started_again_and_nothing_passes_meanwhile() {
    let world = dev_and_prod(|spec| {
        spec["promotion"]["checks"] = json!(["smoke"]);
    })
    .await;
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 Running/CheckPending").await;
    expect_runs(&world, &["prod smoke 1.1.0 #0"]).await;
    let first = runs(&world)
        .list(&ListParams::default())
        .await
        .unwrap()
        .items;
    let name = first[0].name_any();
    let parameters = DeleteParams::default();
    runs(&world).delete(&name, &parameters).await.unwrap();
    let is_new = wait_for(async || {
        let run = runs(&world).get_opt(&name).await.unwrap();
        run.is_some_and(|run| run.uid() != first[0].uid())
    });
    assert!(is_new.await, "the check run is started again");
    world.expect("prod 1.1.0 Running/CheckPending").await;
    assert_eq!(world.repository.pull_requests().await.len(), 0);
    decide(&world, "prod", "1.1.0", true).await;
    world.expect("prod 1.1.0 WaitingForMerge").await;
}

#[tokio::test]
async fn a_release_that_fails_its_check_is_rolled_back_once() {
    let world = dev_and_prod(|spec| {
        spec["environments"][1]["verify"] = json!({"checks": ["smoke"], "onFailure": "Rollback"});
    })
    .await;
    expect_runs(&world, &["prod smoke 1.0.0 #0"]).await;
    decide(&world, "prod", "1.0.0", true).await;
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 WaitingForMerge").await;
    world.repository.merge(1).await.unwrap();
    world.sync(PROD, "prod", "prod").await;
    world.expect("prod 1.1.0 Verifying").await;
    expect_runs(&world, &["prod smoke 1.1.0 #0"]).await;
    decide(&world, "prod", "1.1.0", false).await;
    let back = [
        "prod 1.1.0 Failed/CheckFailed",
        "prod 1.0.0 WaitingForMerge",
    ];
    world.expect_all(&back).await;
    let status = world.pipelines().get("app").await.unwrap().status.unwrap();
    assert_eq!(status.environments["prod"].rejected, ["1.1.0"]);
    world.repository.merge(2).await.unwrap();
    world.sync(PROD, "prod", "prod").await;
    // What came back is checked again, and 1.1.0 does not come again.
    // The run that failed says why 1.1.0 is rejected.
    expect_runs(&world, &["prod smoke 1.0.0 #0", "prod smoke 1.1.0 #0"]).await;
    decide(&world, "prod", "1.0.0", true).await;
    let ended = ["prod 1.1.0 Failed/CheckFailed", "prod 1.0.0 Succeeded"];
    world.expect_all(&ended).await;
    world.expect_hold("app", "prod", "Rejected").await;
}

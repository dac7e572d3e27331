//! Work that an older version left under way goes on with this one: `under-way/store.gz` is what `sluice
//! standalone` of that version had stored when it was killed, `repository.bundle` the repository of its
//! forge, and `pull-request.md` the text of the pull request there (`under-way/README.md`).

#[path = "under_way/scene.rs"]
mod scene;

use std::{collections::BTreeSet, path::Path};

use api::{CheckRun, Promotion, check_run::CheckVerdict};
use kube::{Api, ResourceExt};

use crate::upgrade::{all, promotions, sluice, sluice_of, unpack_into, until_promotion};
use scene::{PIPELINES, Scene};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/standalone/under-way");

/// The promotions of the store.
const PROMOTIONS: [&str; 4] = [
    "bill prod 1.1.0 AwaitingApproval",
    "fleet prod 1.1.0 Deploying",
    "frozen prod 1.1.0 Running",
    "shop prod 1.1.0 WaitingForMerge",
];

fn data(name: &str) -> String {
    format!("{FOLDER}/{name}")
}

/// This version on the store of the older one, with a forge as it was.
async fn upgraded(folder: &Path) -> Scene {
    let scene = Scene::prepare(folder).await;
    scene.restore_repository(Path::new(FOLDER)).await;
    unpack_into(&scene.data, &data("store.gz"));
    scene.start(env!("CARGO_BIN_EXE_sluice")).await
}

async fn checks(scene: &Scene) -> Vec<(String, CheckVerdict)> {
    let runs: Vec<CheckRun> = all(scene.client()).await;
    let verdict = |run: &CheckRun| run.status.clone().unwrap_or_default().verdict;
    runs.iter()
        .map(|run| (run.name_any(), verdict(run)))
        .collect()
}

#[tokio::test]
async fn nothing_is_started_again_or_lost() {
    let folder = tempfile::tempdir().unwrap();
    let scene = upgraded(folder.path()).await;
    let before = (scene.started().await, checks(&scene).await);
    for pipeline in PIPELINES {
        sluice(&scene.data, &["reconcile", pipeline]);
    }
    assert_eq!(promotions(scene.client()).await, PROMOTIONS);
    assert_eq!(before.0.len(), 2, "{:?}", before.0);
    assert_eq!(before.1.len(), 1, "{:?}", before.1);
    assert_eq!((scene.started().await, checks(&scene).await), before);
    assert_eq!(scene.repository.pull_requests().await.len(), 1);
    let explained = sluice(&scene.data, &["explain", "parked"]);
    assert!(explained.contains("suspended"), "{explained}");
}

#[tokio::test]
async fn an_approval_of_the_older_version_counts_and_the_second_one_is_enough() {
    let folder = tempfile::tempdir().unwrap();
    let scene = upgraded(folder.path()).await;
    sluice(&scene.data, &["approve", "bill", "prod", "--as", "ann"]);
    until_promotion(scene.client(), "bill prod 1.1.0 Deploying").await;
    scene.deploy("bill", "bill-prod", "1.1.0").await;
    until_promotion(scene.client(), "bill prod 1.1.0 Succeeded").await;
    let promotions: Api<Promotion> = Api::namespaced(scene.client().clone(), "default");
    let bill = promotions.list(&Default::default()).await.unwrap();
    let bill = bill.into_iter().find(|it| it.spec.pipeline == "bill");
    let by: Vec<String> = bill
        .unwrap()
        .spec
        .approvals
        .into_iter()
        .map(|it| it.by)
        .collect();
    assert_eq!(by.len(), 2, "{by:?}");
}

#[tokio::test]
async fn a_pull_request_of_the_older_version_is_followed_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let scene = upgraded(folder.path()).await;
    scene.repository.merge(1).await.unwrap();
    until_promotion(scene.client(), "shop prod 1.1.0 Deploying").await;
    scene.deploy("shop", "shop-prod", "1.1.0").await;
    until_promotion(scene.client(), "shop prod 1.1.0 Succeeded").await;
    // The next release gets a pull request of its own.
    scene.deploy("shop", "shop-dev", "1.2.0").await;
    until_promotion(scene.client(), "shop prod 1.2.0 WaitingForMerge").await;
    assert_eq!(scene.repository.pull_requests().await.len(), 2);
}

#[tokio::test]
async fn a_rollout_of_the_older_version_goes_on_where_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let scene = upgraded(folder.path()).await;
    let before = scene.started().await;
    for batch in 2..=4 {
        scene.deploy_batch(batch).await;
    }
    until_promotion(scene.client(), "fleet prod 1.1.0 Succeeded").await;
    let mut started = scene.started().await;
    let targets: BTreeSet<String> = started.values().cloned().collect();
    assert_eq!(targets.len(), 4, "{started:?}");
    started.retain(|batch, _| *batch <= 2);
    assert_eq!(started, before);
}

#[tokio::test]
async fn checks_freezes_and_suspensions_of_the_older_version_hold_and_end() {
    let folder = tempfile::tempdir().unwrap();
    let scene = upgraded(folder.path()).await;
    sluice(&scene.data, &["report", "tested", "dev", "ticket", "pass"]);
    until_promotion(scene.client(), "tested prod 1.1.0 Deploying").await;
    assert_eq!(checks(&scene).await.len(), 1);

    let explained = sluice(&scene.data, &["explain", "frozen"]);
    assert!(explained.contains("a frozen week"), "{explained}");
    sluice(&scene.data, &["thaw", "frozen", "-e", "prod"]);
    until_promotion(scene.client(), "frozen prod 1.1.0 Deploying").await;

    sluice(&scene.data, &["resume", "parked"]);
    until_promotion(scene.client(), "parked prod 1.1.0 Deploying").await;
}

/// Drives the older version to where the other tests begin, and stores that.
#[tokio::test]
#[ignore = "makes the data of the other tests: see under-way/README.md"]
async fn makes_the_store_of_an_older_version() {
    let program = std::env::var("SLUICE_OLDER_BINARY").expect("SLUICE_OLDER_BINARY names a binary");
    let folder = tempfile::tempdir().unwrap();
    let scene = Scene::prepare(folder.path()).await;
    scene.serve_forge().await;
    let mut scene = scene.start(&program).await;
    let older = |arguments: &[&str]| sluice_of(&program, &scene.data, arguments);
    scene.define().await;
    older(&[
        "freeze",
        "frozen",
        "-e",
        "prod",
        "--reason",
        "a frozen week",
    ]);
    for pipeline in PIPELINES {
        older(&["reconcile", pipeline]);
        scene
            .deploy(pipeline, &format!("{pipeline}-dev"), "1.1.0")
            .await;
    }
    for wanted in PROMOTIONS {
        until_promotion(scene.client(), wanted).await;
    }
    older(&["approve", "bill", "prod"]);
    scene.deploy_batch(1).await;
    scene.until_under_way().await;
    assert_eq!(promotions(scene.client()).await, PROMOTIONS);
    scene.kill();
    scene.store_into(Path::new(FOLDER)).await;
}

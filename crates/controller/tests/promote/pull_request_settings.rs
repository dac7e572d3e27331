//! The settings of the pull-request strategy: labels, reviewers, drafts, titles, texts, paths.

use api::promotion::Phase;
use serde_json::{Value, json};

use crate::world::{World, manifest, spec, wait_for};

const PROD: &str = "prod/app.yaml";

/// Promotes 1.1.0 into prod with these settings of the pull request.
async fn promoted(settings: Value, expected: &str) -> World {
    let world = World::with(&[
        (PROD, &manifest("1.0.0", "default:app:prod")),
        ("other.yaml", &manifest("1.0.0", "default:app:prod")),
    ])
    .await;
    world.leaf("dev", "dev", "1.0.0").await;
    world.leaf("prod", "live", "1.0.0").await;
    let mut promotion = world.promotion();
    for (field, value) in settings.as_object().unwrap() {
        promotion["strategy"]["pull-request"][field] = value.clone();
    }
    world
        .pipeline("app", spec("dev=dev/dev > prod=prod/live", &promotion))
        .await;
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect(expected).await;
    world
}

#[tokio::test]
async fn labels_reviewers_draft_and_texts() {
    let settings = json!({
        "labels": ["promotion", "prod"], "reviewers": ["ann", "org/team"], "draft": true,
        "title": "${app}: ${replaces} -> ${version} (${environment})",
        "body": "Goes to ${cluster}/${namespace}.\nSluice-Promotion: not-this-one",
    });
    let world = promoted(settings, "prod 1.1.0 WaitingForMerge").await;
    let pull = &world.repository.pull_requests().await[0];
    assert_eq!(pull.title, "WIP: app: 1.0.0 -> 1.1.0 (prod)");
    assert!(
        pull.body.starts_with("Goes to prod/live.\n\n<details>"),
        "{}",
        pull.body
    );
    assert!(!pull.body.contains("not-this-one"));
    assert_eq!(pull.labels, ["prod", "promotion"]);
    assert_eq!(pull.reviewers, ["ann", "team"]);
}

#[tokio::test]
async fn an_unknown_reviewer_is_named_and_the_others_are_asked() {
    let settings = json!({"reviewers": ["ann", "nobody", "zoe"]});
    let world = promoted(settings, "prod 1.1.0 WaitingForMerge").await;
    let pull = &world.repository.pull_requests().await[0];
    assert_eq!(pull.reviewers, ["ann", "zoe"]);
    let status = world.all_promotions().await[0].status.clone().unwrap();
    let message = status.message.unwrap();
    assert!(message.contains("nobody was not asked"), "{message}");
}

#[tokio::test]
async fn who_may_not_merge_is_told_so() {
    let world = promoted(json!({"autoMerge": true}), "prod 1.1.0 Deploying").await;
    world.sync(PROD, "prod", "live").await;
    world.expect("prod 1.1.0 Succeeded").await;
    world.forge.set_forbids_merge(true);
    world.deploy("dev", "dev", "1.2.0").await;
    let waits = "prod 1.1.0 Succeeded, prod 1.2.0 WaitingForMerge/MergeNotAllowed";
    let promotions = world.expect(waits).await;
    let message = promotions[1].status.clone().unwrap().message.unwrap();
    assert!(message.contains("not allowed to merge"), "{message}");
    world.forge.set_forbids_merge(false);
    world
        .expect("prod 1.1.0 Succeeded, prod 1.2.0 Deploying")
        .await;
}

#[tokio::test]
async fn automatic_merging() {
    let world = promoted(json!({"autoMerge": true}), "prod 1.1.0 Deploying").await;
    world.sync(PROD, "prod", "live").await;
    world.expect("prod 1.1.0 Succeeded").await;
}

#[tokio::test]
async fn merging_as_the_repository_allows() {
    for (method, commits) in [("merge", 3), ("squash", 2)] {
        let settings = json!({"autoMerge": true, "mergeMethod": method});
        let world = promoted(settings, "prod 1.1.0 Deploying").await;
        // The one there was, and the merge; with it the branch, unless it is squashed.
        let log = world.repository.log("main").await.unwrap();
        assert_eq!(log.len(), commits, "{method}: {log:?}");
    }
}

#[tokio::test]
async fn only_the_named_paths_change() {
    let world = promoted(
        json!({"paths": ["${environment}/*"]}),
        "prod 1.1.0 WaitingForMerge",
    )
    .await;
    let branch = "promotion-default-app-prod";
    assert_eq!(world.version(branch, PROD).await, "1.1.0");
    assert_eq!(world.version(branch, "other.yaml").await, "1.0.0");
}

#[tokio::test]
async fn a_field_that_there_is_not_waits_for_an_edit() {
    let world = promoted(
        json!({"title": "${colour}"}),
        "prod 1.1.0 Running/InvalidTemplate",
    )
    .await;
    let status = world.all_promotions().await[0].status.clone().unwrap();
    assert!(status.message.unwrap().contains("approvedBy"));
    let title = json!({"strategy": {"pull-request": {"title": null}}});
    world
        .patch_pipeline("app", json!({"spec": {"promotion": title}}))
        .await;
    // Whichever loop is first: the old one is refused or superseded.
    let goes_on = async || {
        let promotions = world.all_promotions().await;
        let last = promotions.last().and_then(|it| it.status.clone()?.phase);
        promotions.len() == 2 && last == Some(Phase::WaitingForMerge)
    };
    assert!(wait_for(goes_on).await, "it does not go on");
}

/// The ancestor passed the pipeline's settings on where the environment had its own, and crashed
/// where the pipeline had none.
#[tokio::test]
async fn an_environments_own_settings_and_secret_count() {
    let world = World::with(&[(PROD, &manifest("1.0.0", "default:app:prod"))]).await;
    world.leaf("dev", "dev", "1.0.0").await;
    world.leaf("prod", "live", "1.0.0").await;
    world.secret("prod-git").await;
    let mut spec = spec("dev=dev/dev > prod=prod/live", &Value::Null);
    let mut own = world.promotion();
    own["strategy"]["pull-request"]["secretRef"]["name"] = json!("prod-git");
    own["strategy"]["pull-request"]["title"] = json!("own");
    spec["environments"][1]["promotion"] = own;
    world.pipeline("app", spec).await;
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 WaitingForMerge").await;
    assert_eq!(world.repository.pull_requests().await[0].title, "own");
}

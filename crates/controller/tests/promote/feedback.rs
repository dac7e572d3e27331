//! What people read on the pull request: the commit status of its head, and one comment.

use serde_json::{Value, json};

use crate::world::{World, apply, manifest, spec, wait_for};

const PROD: &str = "prod/app.yaml";

/// dev and prod at 1.0.0, with these settings of the strategy.
async fn world_with(settings: &Value) -> World {
    let world = World::with(&[(PROD, &manifest("1.0.0", "default:app:prod"))]).await;
    world.leaf("dev", "dev", "1.0.0").await;
    world.leaf("prod", "prod", "1.0.0").await;
    let mut promotion = world.promotion();
    let to = &mut promotion["strategy"]["pull-request"];
    for (key, value) in settings.as_object().into_iter().flatten() {
        to[key] = value.clone();
    }
    let spec = spec("dev=dev/dev > prod=prod/prod", &promotion);
    world.pipeline("app", spec).await;
    world.expect_hold("app", "prod", "").await;
    world
}

/// What pull requests show by default.
fn both() -> Value {
    json!({})
}

fn nothing() -> Value {
    json!({"feedback": []})
}

async fn comments(world: &World) -> Vec<String> {
    let pulls = world.repository.pull_requests().await;
    pulls.into_iter().flat_map(|pull| pull.comments).collect()
}

/// The last commit status, as `state: description`.
fn last_status(world: &World) -> String {
    let statuses = world.repository.commit_statuses();
    let last = statuses.last().expect("a status");
    assert_eq!(last.context, "sluice/prod");
    format!("{}: {}", last.state, last.description)
}

async fn expect_status(world: &World, expected: &str) {
    let is_shown = async || {
        let statuses = world.repository.commit_statuses();
        !statuses.is_empty() && last_status(world).starts_with(expected)
    };
    let is_shown = wait_for(is_shown).await;
    assert!(is_shown, "{:?}", world.repository.commit_statuses());
}

#[tokio::test]
async fn a_promotion_is_followed_on_its_pull_request_with_three_writes() {
    let world = world_with(&both()).await;
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 WaitingForMerge").await;
    expect_status(&world, "success: ready to be merged").await;
    let pulls = world.repository.pull_requests().await;
    let status = &world.repository.commit_statuses()[0];
    assert_eq!(status.commit, pulls[0].head_commit);
    let is_commented = async || comments(&world).await.len() == 1;
    assert!(wait_for(is_commented).await, "no comment");
    let text = comments(&world).await.remove(0);
    assert!(text.contains("**prod: 1.0.0 → 1.1.0**"), "{text}");
    assert!(text.contains("| freeze | pass |"), "{text}");
    assert!(
        text.ends_with("\nSluice-Comment: default/app/prod\n"),
        "{text}"
    );
    world.repository.merge(1).await.unwrap();
    world.deploy("prod", "prod", "1.1.0").await;
    let promotions = world.expect("prod 1.1.0 Succeeded").await;
    let ended = comments(&world).await;
    assert_eq!(ended.len(), 1);
    assert!(ended[0].contains("3. deployed"), "{ended:?}");
    assert_eq!(world.repository.commit_statuses().len(), 1);
    let feedback = promotions[0].status.clone().unwrap().feedback.unwrap();
    assert_eq!((feedback.pull_request, feedback.warning), (Some(1), None));
}

#[tokio::test]
async fn a_freeze_shows_on_the_open_pull_request_and_its_end_too() {
    let world = world_with(&both()).await;
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 WaitingForMerge").await;
    expect_status(&world, "success: ready to be merged").await;
    let freeze = json!({
        "apiVersion": "pipelines.weave.works/v1alpha1", "kind": "Freeze",
        "metadata": {"name": "stop", "namespace": "default"}, "spec": {"reason": "no releases"},
    });
    apply(&world.hub, &freeze).await;
    expect_status(
        &world,
        "pending: prod is frozen by stop (no releases), 1.1.0 waits",
    )
    .await;
    let is_said = async || comments(&world).await[0].contains("| freeze | wait: prod is frozen");
    assert!(wait_for(is_said).await, "{:?}", comments(&world).await);
    let freezes: kube::Api<api::Freeze> = kube::Api::namespaced(world.hub.clone(), "default");
    freezes.delete("stop", &Default::default()).await.unwrap();
    expect_status(&world, "success: ready to be merged").await;
    assert_eq!(world.repository.commit_statuses().len(), 3);
    assert_eq!(comments(&world).await.len(), 1);
}

#[tokio::test]
async fn a_required_status_is_set_before_sluice_merges() {
    let mut settings = both();
    settings["autoMerge"] = json!(true);
    let world = world_with(&settings).await;
    world.forge.set_required_status("sluice/prod");
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 Deploying").await;
    assert_eq!(world.version("main", PROD).await, "1.1.0");
    let expected = "success: ready: Sluice merges it once the forge's conditions are met";
    assert_eq!(last_status(&world), expected);
}

#[tokio::test]
async fn missing_scopes_are_one_warning_and_keep_nothing_from_going_on() {
    let world = world_with(&both()).await;
    world.forge.set_forbids_feedback(true);
    world.deploy("dev", "dev", "1.1.0").await;
    let warned = async || {
        let promotions = world.all_promotions().await;
        let status = promotions.first().and_then(|it| it.status.clone());
        let feedback = status.and_then(|it| it.feedback);
        feedback.is_some_and(|it| it.warning.is_some())
    };
    assert!(wait_for(warned).await, "no warning");
    let requests = world.forge.requests();
    let promotions = world.expect("prod 1.1.0 WaitingForMerge").await;
    let warning = promotions[0].status.clone().unwrap().feedback.unwrap();
    let warning = warning.warning.unwrap();
    let expected = "the token lacks the permission (token does not have the required scope)";
    assert!(warning.contains(expected), "{warning}");
    // It is not tried again while the text stays the same.
    world
        .patch_pipeline("app", json!({"metadata": {"labels": {"a": "b"}}}))
        .await;
    world.repository.merge(1).await.unwrap();
    world.deploy("prod", "prod", "1.1.0").await;
    world.expect("prod 1.1.0 Succeeded").await;
    assert_eq!(comments(&world).await.len(), 0);
    assert!(world.forge.requests() > requests, "it was followed");
    // The next promotion is refused too, and goes on as well.
    world.deploy("dev", "dev", "1.2.0").await;
    world
        .expect("prod 1.1.0 Succeeded, prod 1.2.0 WaitingForMerge")
        .await;
    let refused = async || {
        let promotions = world.all_promotions().await;
        let feedback = promotions.into_iter().filter_map(|it| it.status?.feedback);
        feedback.filter(|it| it.refused.len() == 2).count() == 2
    };
    assert!(
        wait_for(refused).await,
        "{:?}",
        world.all_promotions().await
    );
    world.repository.merge(2).await.unwrap();
    world
        .expect("prod 1.1.0 Succeeded, prod 1.2.0 Deploying")
        .await;
}

#[tokio::test]
async fn a_strategy_can_switch_off_what_pull_requests_show() {
    let world = world_with(&nothing()).await;
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 WaitingForMerge").await;
    world.repository.merge(1).await.unwrap();
    world.deploy("prod", "prod", "1.1.0").await;
    let promotions = world.expect("prod 1.1.0 Succeeded").await;
    assert_eq!(comments(&world).await.len(), 0);
    assert_eq!(world.repository.commit_statuses().len(), 0);
    assert_eq!(promotions[0].status.clone().unwrap().feedback, None);
}

#[tokio::test]
async fn a_rejected_promotion_says_so_on_its_commit() {
    let world = world_with(&both()).await;
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 WaitingForMerge").await;
    expect_status(&world, "success").await;
    world.repository.close(1).await.unwrap();
    world.expect("prod 1.1.0 Abandoned").await;
    let expected = "failure: its pull request was closed without being merged";
    assert_eq!(last_status(&world), expected);
}

#[tokio::test]
async fn a_newer_promotion_takes_over_the_comment() {
    let world = world_with(&both()).await;
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 WaitingForMerge").await;
    let is_commented = async || comments(&world).await.len() == 1;
    assert!(wait_for(is_commented).await, "no comment");
    world.deploy("dev", "dev", "1.2.0").await;
    world
        .expect("prod 1.1.0 Superseded, prod 1.2.0 WaitingForMerge")
        .await;
    let is_taken_over = async || comments(&world).await[0].contains("1.0.0 → 1.2.0");
    assert!(
        wait_for(is_taken_over).await,
        "{:?}",
        comments(&world).await
    );
    assert_eq!(comments(&world).await.len(), 1);
    assert_eq!(world.repository.pull_requests().await.len(), 1);
}

/// Requests to the forge for one promotion, from the new revision to its end.
async fn requests_of_a_promotion(settings: &Value) -> u64 {
    let world = world_with(settings).await;
    let before = world.forge.requests();
    world.deploy("dev", "dev", "1.1.0").await;
    world.expect("prod 1.1.0 WaitingForMerge").await;
    world.repository.merge(1).await.unwrap();
    world.deploy("prod", "prod", "1.1.0").await;
    world.expect("prod 1.1.0 Succeeded").await;
    world.forge.requests() - before
}

#[tokio::test]
async fn feedback_costs_few_requests_per_promotion() {
    let before = requests_of_a_promotion(&nothing()).await;
    let after = requests_of_a_promotion(&both()).await;
    eprintln!("requests to the forge per promotion: {before} before, {after} with feedback");
    // A status, a comment, its edit; one lookup of the comment and at most two lists.
    assert!(
        after <= before + 6,
        "{before} before, {after} with feedback"
    );
}

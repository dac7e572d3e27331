//! Environments that branch and join again: dev, then two regions, then prod.

use serde_json::{Value, json};

use crate::world::{World, manifest, spec};

const EU: &str = "eu/app.yaml";
const US: &str = "us/app.yaml";
const PROD: &str = "prod/app.yaml";

/// `dev → {eu, us} → prod`.
fn environments() -> Value {
    let list = "dev=dev/dev > eu=eu/eu > us=us/us > prod=prod/prod";
    let mut environments = spec(list, &Value::Null)["environments"].take();
    environments[1]["after"] = json!(["dev"]);
    environments[2]["after"] = json!(["dev"]);
    environments[3]["after"] = json!(["eu", "us"]);
    environments
}

/// A world where each environment runs a version.
async fn diamond(versions: [(&str, &str); 4]) -> World {
    let files = [EU, US, PROD].map(|path| {
        let (name, _) = path.split_once('/').unwrap();
        let (_, version) = versions.iter().find(|it| it.0 == name).unwrap();
        (path, manifest(version, &format!("default:app:{name}")))
    });
    let files = files.each_ref().map(|(path, text)| (*path, text.as_str()));
    let world = World::on_any_hub(&files).await;
    for (name, version) in versions {
        world.leaf(name, name, version).await;
    }
    let mut spec = spec("dev=dev/dev", &world.promotion());
    spec["environments"] = environments();
    world.pipeline("app", spec).await;
    world
}

/// Somebody merges the pull request into an environment, and Flux deploys it.
async fn deploy_merged(world: &World, number: u64, environment: &str) {
    world.repository.merge(number).await.unwrap();
    let path = format!("{environment}/app.yaml");
    world.sync(&path, environment, environment).await;
}

async fn pull_request_into(world: &World, environment: &str) -> u64 {
    let pulls = world.repository.pull_requests().await;
    let head = format!("promotion-default-app-{environment}");
    let pull = pulls.iter().rev().find(|it| it.head == head);
    pull.unwrap().number
}

#[tokio::test]
async fn a_revision_reaches_prod_once_it_is_in_both_regions() {
    let world = diamond(["dev", "eu", "us", "prod"].map(|name| (name, "1.0.0"))).await;
    // Everything has been observed once.
    world.expect_hold("app", "prod", "").await;
    world.deploy("dev", "dev", "1.1.0").await;
    world
        .expect_all(&["eu 1.1.0 WaitingForMerge", "us 1.1.0 WaitingForMerge"])
        .await;
    let eu = pull_request_into(&world, "eu").await;
    deploy_merged(&world, eu, "eu").await;
    // One region is not enough.
    world
        .expect_all(&["eu 1.1.0 Succeeded", "us 1.1.0 WaitingForMerge"])
        .await;
    let us = pull_request_into(&world, "us").await;
    deploy_merged(&world, us, "us").await;
    world
        .expect_all(&[
            "eu 1.1.0 Succeeded",
            "us 1.1.0 Succeeded",
            "prod 1.1.0 WaitingForMerge",
        ])
        .await;
    let prod = pull_request_into(&world, "prod").await;
    deploy_merged(&world, prod, "prod").await;
    world
        .expect_all(&[
            "eu 1.1.0 Succeeded",
            "us 1.1.0 Succeeded",
            "prod 1.1.0 Succeeded",
        ])
        .await;
}

#[tokio::test]
async fn regions_without_a_common_revision_hold_prod() {
    let versions = [
        ("dev", "1.1.0"),
        ("eu", "1.1.0"),
        ("us", "1.0.0"),
        ("prod", "0.9.0"),
    ];
    let world = diamond(versions).await;
    world.expect("us 1.1.0 WaitingForMerge").await;
    world.expect_hold("app", "prod", "NoCommonRevision").await;
    let us = pull_request_into(&world, "us").await;
    deploy_merged(&world, us, "us").await;
    world
        .expect_all(&["us 1.1.0 Succeeded", "prod 1.1.0 WaitingForMerge"])
        .await;
    world.expect_hold("app", "prod", "").await;
}

#[tokio::test]
async fn a_circle_of_environments_holds_all_of_them() {
    let versions = ["dev", "eu", "us", "prod"].map(|name| (name, "1.0.0"));
    let world = diamond(versions).await;
    let mut circle = environments();
    circle[1]["after"] = json!(["prod"]);
    for (environments, reason) in [(circle, "InvalidSpec"), (environments(), "")] {
        let patch = json!({"spec": {"environments": environments}});
        world.patch_pipeline("app", patch).await;
        world.expect_hold("app", "prod", reason).await;
        world.expect_hold("app", "us", reason).await;
    }
}

//! The shortest complete promotion: dev to prod, one target each.

use testbed::forge::PullState;

use crate::world::{World, manifest, spec};

const PROD: &str = "prod/app.yaml";

#[tokio::test]
async fn a_revision_walks_from_dev_to_prod() {
    let world = World::anywhere(&[(PROD, &manifest("1.0.0", "default:app:prod"))]).await;
    world.leaf("dev", "dev", "1.0.0").await;
    world.leaf("prod", "prod", "1.0.0").await;
    world
        .pipeline(
            "app",
            spec("dev=dev/dev > prod=prod/prod", &world.promotion()),
        )
        .await;
    world.expect_hold("app", "prod", "").await;
    world.expect("").await;

    world.deploy("dev", "dev", "1.1.0").await;
    let promotions = world.expect("prod 1.1.0 WaitingForMerge").await;
    let pulls = world.repository.pull_requests().await;
    assert_eq!(pulls.len(), 1);
    let pull = &pulls[0];
    assert_eq!(pull.title, "Promote default/app in prod to 1.1.0");
    assert_eq!(
        (pull.head.as_str(), pull.base.as_str()),
        ("promotion-default-app-prod", "main")
    );
    let uid = promotions[0].metadata.uid.as_deref().unwrap();
    assert_eq!(
        pull.body,
        format!(
            "Promotes `default/app` in `prod` from `1.0.0` to `1.1.0`.\n\n\
             <details>\n<summary>metadata</summary>\n!!! DO NOT EDIT !!!\n\ndefault/app/prod\n\
             </details>\n\nSluice-Promotion: {uid}\n\n\
             Changes:\n\n- `prod/app.yaml` `spec.chart.spec.version`: `1.0.0` → `1.1.0`\n"
        )
    );
    assert_eq!(world.version(&pull.head, PROD).await, "1.1.0");
    let status = promotions[0].status.clone().unwrap();
    assert!(status.url.unwrap().ends_with("/team/config/pulls/1"));
    assert_eq!(status.commit.as_deref(), Some(pull.head_commit.as_str()));

    world.repository.merge(1).await.unwrap();
    world.expect("prod 1.1.0 Deploying").await;
    world.sync(PROD, "prod", "prod").await;
    world.expect("prod 1.1.0 Succeeded").await;
    let pulls = world.repository.pull_requests().await;
    assert_eq!(pulls.len(), 1);
    assert_eq!(pulls[0].state, PullState::Merged);
    let summary = world.pipelines().get("app").await.unwrap().status.unwrap();
    assert_eq!(summary.environments["prod"].ran[0].revision, "1.1.0");
}

//! Commands that ask for something: with whose rights, under whose name, and what is written.

use api::pipeline::RequestKind;
use serde_json::{Value, json};

use crate::world::{Said, World};

fn request(pipeline: &api::Pipeline) -> Value {
    let annotations = pipeline.metadata.annotations.clone().unwrap_or_default();
    serde_json::from_str(&annotations["pipelines.weave.works/request"]).unwrap()
}

fn approver() -> Value {
    json!([
        {"apiGroups": ["pipelines.weave.works"], "resources": ["pipelines", "promotions"], "verbs": ["get", "list", "watch"]},
        {"apiGroups": ["pipelines.weave.works"], "resources": ["promotions"], "verbs": ["patch"]},
    ])
}

fn viewer() -> Value {
    json!([{"apiGroups": ["pipelines.weave.works"], "resources": ["*"], "verbs": ["get", "list", "watch"]}])
}

#[tokio::test]
async fn an_approval_is_by_who_the_cluster_says() {
    let world = World::new().await;
    let approve = ["approve", "web", "prod", "--note", "looks good"];
    let said = world.run_as("jane", approver(), &approve).await;
    assert_eq!(
        said.out, "approved 2.0.0 into prod as jane (web-prod-1)\n",
        "{}",
        said.err
    );
    let promotion = world.promotion().await;
    let approval = promotion.spec.approval.unwrap();
    assert_eq!(
        (approval.by.as_str(), approval.note.as_deref()),
        ("jane", Some("looks good"))
    );
    assert!(approval.at.is_some());
    let managers = promotion.metadata.managed_fields.unwrap();
    assert!(
        managers
            .iter()
            .any(|entry| entry.manager.as_deref() == Some("sluice"))
    );
    let again = world.run(&["approve", "web", "prod"]).await;
    assert_eq!(again.code, 1);
    assert!(
        again
            .err
            .contains("no promotion waits for approval in prod"),
        "{}",
        again.err
    );
}

#[tokio::test]
async fn only_the_revision_that_was_meant_is_approved() {
    let world = World::new().await;
    let said = world
        .run(&["approve", "web", "prod", "--revision", "3.0.0"])
        .await;
    assert_eq!(said.code, 1);
    assert_eq!(
        said.err,
        "sluice: 3.0.0 does not wait for approval in prod; 2.0.0 does\n"
    );
    assert!(world.promotion().await.spec.approval.is_none());
    let said = world.run(&["approve", "web", "dev"]).await;
    assert!(
        said.err.contains("no promotion waits for approval in dev"),
        "{}",
        said.err
    );
}

#[tokio::test]
async fn a_viewer_is_told_which_role_approves() {
    let world = World::new().await;
    let said = world
        .run_as("viewer", viewer(), &["approve", "web", "prod"])
        .await;
    assert_eq!(said.code, 1);
    assert!(
        said.err.contains("User \"viewer\" cannot patch"),
        "{}",
        said.err
    );
    assert!(
        said.err
            .contains("ClusterRole pipeline-controller-approver"),
        "{}",
        said.err
    );
    assert!(world.promotion().await.spec.approval.is_none());
    let said = world.run_as("viewer2", viewer(), &["suspend", "web"]).await;
    assert!(
        said.err.contains("ClusterRole pipeline-controller-editor"),
        "{}",
        said.err
    );
}

#[tokio::test]
async fn an_approval_can_be_waited_for() {
    let world = World::new().await;
    let said = world
        .run(&["approve", "web", "prod", "--wait", "--timeout", "1s"])
        .await;
    assert_eq!(said.code, 3, "{}", said.err);
    assert!(
        said.out.contains("approved 2.0.0 into prod as admin"),
        "{}",
        said.out
    );
    let world = World::new().await;
    let mut command = world.command(&["approve", "web", "prod", "--wait", "--timeout", "60s"]);
    let (said, ()) = tokio::join!(command.output(), async {
        while world.promotion().await.spec.approval.is_none() {
            tokio::task::yield_now().await;
        }
        world.set_phase("Abandoned").await;
    });
    let said = said.unwrap();
    assert_eq!(said.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&said.stderr).contains("2.0.0 is Abandoned"));
}

#[tokio::test]
async fn requests_are_written_where_the_planner_finds_them() {
    let world = World::new().await;
    world
        .prints(&[
            "rollback",
            "web",
            "dev",
            "--note",
            "it \"broke\"\nall",
            "--answer-timeout",
            "0s",
        ])
        .await;
    let said = world
        .prints(&["promote", "web", "prod", "2.0.0", "--answer-timeout", "0s"])
        .await;
    assert_eq!(
        said,
        "requested 2.0.0 in prod; the controller has not processed the request yet: \
         2.0.0 waits for approval to enter prod; an approval of 2.0.0 lifts this\n"
    );
    let pipeline = world.pipeline().await;
    let written = request(&pipeline);
    assert_eq!(written["dev"]["revision"], "1.0.0");
    assert_eq!(written["dev"]["note"], "it 'broke' all");
    assert_eq!(written["prod"]["by"], "admin");
    let text = &pipeline.metadata.annotations.as_ref().unwrap()["pipelines.weave.works/request"];
    assert!(
        !text.contains('\\'),
        "the admission policy refuses escapes: {text}"
    );
    let model = pipeline.status.clone().unwrap();
    let plan = planner::plan(&pipeline, &model, &[], jiff::Timestamp::now());
    assert!(plan.warnings.is_empty(), "{:?}", plan.warnings);
    let started = plan.steps.iter().find_map(|step| match step {
        planner::Step::StartPromotion(promotion) if promotion.spec.environment == "dev" => {
            promotion.spec.request.clone()
        }
        _ => None,
    });
    let started = started.expect("the rollback is taken up");
    assert_eq!(
        (started.kind, started.by.as_deref()),
        (RequestKind::Rollback, Some("admin"))
    );
}

/// Runs a command while the planner answers the request it writes for prod.
async fn answered(world: &World, arguments: &[&str]) -> Said {
    let mut command = world.command(arguments);
    let (said, ()) = tokio::join!(command.output(), async {
        loop {
            let pipeline = world.pipeline().await;
            let is_asked = pipeline
                .metadata
                .annotations
                .as_ref()
                .is_some_and(|it| it.contains_key(api::names::REQUEST_ANNOTATION));
            if is_asked {
                let model = pipeline.status.clone().unwrap();
                let plan = planner::plan(&pipeline, &model, &[], jiff::Timestamp::now());
                let last = &plan.environments["prod"].last_request;
                world
                    .set_status(json!({"environments": {"prod": {"lastRequest": last}}}))
                    .await;
                return;
            }
            tokio::task::yield_now().await;
        }
    });
    said.unwrap().into()
}

#[tokio::test]
async fn what_the_controller_answered_is_printed() {
    let world = World::new().await;
    let said = answered(&world, &["promote", "web", "prod", "1.0.0"]).await;
    assert_eq!(said.code, 0, "{}", said.err);
    assert_eq!(said.out, "requested 1.0.0 in prod: 1.0.0 runs already\n");
    let world = World::new().await;
    let said = answered(&world, &["promote", "web", "prod", "2.0.0"]).await;
    assert_eq!(said.code, 0, "{}", said.err);
    let start = "requested 2.0.0 in prod: bringing 2.0.0 (web-prod-";
    assert!(said.out.starts_with(start), "{}", said.out);
    for revision in ["9.9.9", "not-a-version"] {
        let world = World::new().await;
        let said = answered(&world, &["promote", "web", "prod", revision]).await;
        assert_eq!((said.code, said.out.as_str()), (1, ""), "{}", said.err);
        let expected =
            format!("refused: no target, source or report of this pipeline has {revision}");
        assert!(said.err.contains(&expected), "{}", said.err);
    }
    let world = World::new().await;
    let said = answered(&world, &["promote", "web", "prod", "9.9.9", "--unseen"]).await;
    assert_eq!(said.code, 0, "{}", said.err);
    assert!(said.out.contains("bringing 9.9.9"), "{}", said.out);
}

#[tokio::test]
async fn requests_of_others_are_not_lost() {
    let world = World::new().await;
    let ask = ["promote", "web", "dev", "3.0.0", "--answer-timeout", "0s"];
    world.prints(&ask).await;
    let editor =
        json!([{"apiGroups": ["pipelines.weave.works"], "resources": ["*"], "verbs": ["*"]}]);
    let ask = ["promote", "web", "prod", "2.0.0"];
    let said = world.run_as("jane", editor.clone(), &ask).await;
    assert_eq!(said.code, 1);
    assert!(
        said.err.contains("admin requested 3.0.0 in dev"),
        "{}",
        said.err
    );
    let ask = [
        "promote",
        "web",
        "prod",
        "2.0.0",
        "--replace",
        "--answer-timeout",
        "0s",
    ];
    let said = world.run_as("joan", editor, &ask).await;
    assert_eq!(said.code, 0, "{}", said.err);
    let written = request(&world.pipeline().await);
    assert!(
        written.get("dev").is_none() && written["prod"]["by"] == "joan",
        "{written}"
    );
}

#[tokio::test]
async fn suspending_changes_one_field_under_our_name() {
    let world = World::new().await;
    assert_eq!(world.prints(&["suspend", "web"]).await, "suspended web\n");
    assert!(world.pipeline().await.spec.suspend);
    assert_eq!(
        world.prints(&["suspend", "web"]).await,
        "web is already suspended\n"
    );
    assert_eq!(
        world.prints(&["suspend", "web", "prod"]).await,
        "suspended prod of web\n"
    );
    let suspended: Vec<bool> = {
        let environments = world.pipeline().await.spec.environments;
        environments.iter().map(|it| it.suspend).collect()
    };
    assert_eq!(suspended, [false, true]);
    assert_eq!(
        world.prints(&["resume", "web", "prod"]).await,
        "resumed prod of web\n"
    );
    assert_eq!(world.prints(&["resume", "web"]).await, "resumed web\n");
    let pipeline = world.pipeline().await;
    assert!(!pipeline.spec.suspend && !pipeline.spec.environments[1].suspend);
    let managers = pipeline.metadata.managed_fields.unwrap();
    assert!(
        managers
            .iter()
            .any(|entry| entry.manager.as_deref() == Some("sluice"))
    );
}

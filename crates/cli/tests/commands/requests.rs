//! Commands that request something: permissions, user names, and what is written.

use api::pipeline::{PipelineStatus, RequestKind};
use serde_json::{Value, json};

use crate::cluster::{CommandOutput, TestCluster};

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
    let cluster = TestCluster::new().await;
    let approve = ["approve", "web", "prod", "--note", "looks good"];
    let output = cluster.run_as("jane", approver(), &approve).await;
    assert_eq!(
        output.out, "approved 2.0.0 into prod as jane (web-prod-1)\n",
        "{}",
        output.err
    );
    let promotion = cluster.promotion().await;
    let approval = promotion.spec.approvals[0].clone();
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
    let again = cluster.run(&["approve", "web", "prod"]).await;
    assert_eq!(again.code, 1);
    let there = "2.0.0 is approved for prod already, by jane";
    assert!(again.err.contains(there), "{}", again.err);
}

#[tokio::test]
async fn only_the_revision_that_was_meant_is_approved() {
    let cluster = TestCluster::new().await;
    let output = cluster
        .run(&["approve", "web", "prod", "--revision", "3.0.0"])
        .await;
    assert_eq!(output.code, 1);
    assert_eq!(
        output.err,
        "sluice: 3.0.0 does not wait for approval in prod; 2.0.0 does\n"
    );
    assert!(cluster.promotion().await.spec.approvals.is_empty());
    let output = cluster.run(&["approve", "web", "dev"]).await;
    assert!(
        output
            .err
            .contains("no promotion waits for approval in dev"),
        "{}",
        output.err
    );
}

#[tokio::test]
async fn nothing_is_approved_while_what_it_changes_is_not_known() {
    let cluster = TestCluster::new().await;
    let text = "it cannot be approved yet, because what it changes is not known: cannot fetch it";
    let status = json!({"phase": "AwaitingApproval", "change": null, "message": text});
    cluster.set_promotion_status(status).await;
    let output = cluster.run(&["approve", "web", "prod"]).await;
    assert_eq!(output.code, 1, "{}", output.out);
    assert_eq!(
        output.err,
        "sluice: 2.0.0 cannot be approved for prod, because what it changes is not known: cannot fetch \
         it; approve it again when that is resolved\n"
    );
    assert!(cluster.promotion().await.spec.approvals.is_empty());
    let promotion = json!({
        "name": "web-prod-1", "revision": "2.0.0", "phase": "AwaitingApproval", "message": text,
    });
    let prod = json!({"hold": null, "promotion": promotion});
    cluster
        .set_status(json!({"environments": {"prod": prod}}))
        .await;
    let overview = cluster.prints(&["status"]).await;
    assert!(overview.contains(&format!("prod: {text}\n")), "{overview}");
}

/// All approvals are there, and still nothing goes on.
#[tokio::test]
async fn an_approval_of_what_is_frozen_says_so() {
    let cluster = TestCluster::new().await;
    let freeze = json!({
        "name": "weekend", "reason": "no releases", "environments": ["prod"], "times": {},
    });
    cluster.set_status(json!({"freezes": [freeze]})).await;
    let output = cluster.prints(&["approve", "web", "prod"]).await;
    let expected = "approved 2.0.0 into prod as admin (web-prod-1); prod is frozen by weekend (no releases): \
                    it waits for that to end\n";
    assert_eq!(output, expected);
    // Once more: the approval is there, and the same holds it. The controller has recorded that.
    for phase in ["AwaitingApproval", "Running"] {
        let status = json!({"phase": phase, "reason": "Frozen", "message": "prod is frozen"});
        cluster.set_promotion_status(status).await;
        let again = cluster.prints(&["approve", "web", "prod"]).await;
        let expected = "you have approved 2.0.0 into prod already, as admin (web-prod-1); prod is frozen by \
                        weekend (no releases): it waits for that to end\n";
        assert_eq!(again, expected, "{phase}");
    }
    let approved = cluster.promotion().await.spec.approvals;
    assert_eq!(approved.len(), 1);
}

/// A Freeze lets rollbacks through, unless it says otherwise.
#[tokio::test]
async fn an_approval_of_a_rollback_says_that_the_freeze_lets_it_pass() {
    let cluster = TestCluster::new().await;
    let freeze = json!({
        "name": "weekend", "reason": "no releases", "environments": ["prod"],
        "times": {"allow": ["Rollback"]},
    });
    let mut prod = cluster.pipeline().await.status.unwrap().environments["prod"].clone();
    prod.targets[0].revision = Some("3.0.0".to_owned());
    prod.targets[0].version = Some("3.0.0".to_owned());
    let ran = json!([{"revision": "3.0.0"}, {"revision": "2.0.0"}]);
    prod.ran = serde_json::from_value(ran).unwrap();
    let status = json!({"freezes": [freeze], "environments": {"prod": prod}});
    cluster.set_status(status).await;
    let request = json!({"id": "r1", "kind": "Rollback", "by": "ann"});
    cluster.set_promotion_request(request).await;
    let output = cluster.prints(&["approve", "web", "prod"]).await;
    let expected = "approved 2.0.0 into prod as admin (web-prod-1); prod is frozen by weekend (no releases): \
                    rollbacks pass\n";
    assert_eq!(output, expected);
}

#[tokio::test]
async fn a_viewer_is_told_which_role_approves() {
    let cluster = TestCluster::new().await;
    let output = cluster
        .run_as("viewer", viewer(), &["approve", "web", "prod"])
        .await;
    assert_eq!(output.code, 1);
    assert!(
        output.err.contains("User \"viewer\" cannot patch"),
        "{}",
        output.err
    );
    assert!(
        output
            .err
            .contains("ClusterRole pipeline-controller-approver"),
        "{}",
        output.err
    );
    assert!(cluster.promotion().await.spec.approvals.is_empty());
    let output = cluster
        .run_as("viewer2", viewer(), &["suspend", "web"])
        .await;
    assert!(
        output
            .err
            .contains("ClusterRole pipeline-controller-editor"),
        "{}",
        output.err
    );
}

#[tokio::test]
async fn an_approval_can_be_waited_for() {
    let cluster = TestCluster::new().await;
    let output = cluster
        .run(&["approve", "web", "prod", "--wait", "--timeout", "1s"])
        .await;
    assert_eq!(output.code, 3, "{}", output.err);
    assert!(
        output.out.contains("approved 2.0.0 into prod as admin"),
        "{}",
        output.out
    );
    let cluster = TestCluster::new().await;
    let mut command = cluster.command(&["approve", "web", "prod", "--wait", "--timeout", "60s"]);
    let (output, ()) = tokio::join!(command.output(), async {
        while cluster.promotion().await.spec.approvals.is_empty() {
            tokio::task::yield_now().await;
        }
        cluster.set_phase("Abandoned").await;
    });
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("2.0.0 is Abandoned"));
}

#[tokio::test]
async fn requests_are_written_where_the_planner_finds_them() {
    let cluster = TestCluster::new().await;
    cluster
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
    let output = cluster
        .prints(&["promote", "web", "prod", "2.0.0", "--answer-timeout", "0s"])
        .await;
    assert_eq!(
        output,
        "requested 2.0.0 in prod; the controller has not processed the request yet\n"
    );
    let pipeline = cluster.pipeline().await;
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
async fn answered(cluster: &TestCluster, arguments: &[&str]) -> CommandOutput {
    answered_with(cluster, arguments, |planned| {
        let last = &planned.environments["prod"].last_request;
        json!({"environments": {"prod": {"lastRequest": last}}})
    })
    .await
}

/// Runs a command while that part of the planner's status is written which answers the request for prod.
pub(crate) async fn answered_with(
    cluster: &TestCluster,
    arguments: &[&str],
    part: impl Fn(&PipelineStatus) -> Value,
) -> CommandOutput {
    let mut command = cluster.command(arguments);
    let (output, ()) = tokio::join!(command.output(), async {
        loop {
            let pipeline = cluster.pipeline().await;
            let is_asked = pipeline
                .metadata
                .annotations
                .as_ref()
                .is_some_and(|it| it.contains_key(api::names::REQUEST_ANNOTATION));
            if is_asked {
                let model = pipeline.status.clone().unwrap();
                let now = jiff::Timestamp::now();
                let plan = planner::plan(&pipeline, &model, &[], now);
                let planned = planner::apply(&plan, &model, now);
                cluster.set_status(part(&planned)).await;
                return;
            }
            tokio::task::yield_now().await;
        }
    });
    output.unwrap().into()
}

#[tokio::test]
async fn what_the_controller_answered_is_printed() {
    let cluster = TestCluster::new().await;
    let output = answered(&cluster, &["promote", "web", "prod", "1.0.0"]).await;
    assert_eq!(output.code, 0, "{}", output.err);
    assert_eq!(output.out, "requested 1.0.0 in prod: 1.0.0 runs already\n");
    let cluster = TestCluster::new().await;
    let output = answered(&cluster, &["promote", "web", "prod", "2.0.0"]).await;
    assert_eq!(output.code, 0, "{}", output.err);
    let start = "requested 2.0.0 in prod: waits for an approval of 2.0.0 (web-prod-";
    assert!(output.out.starts_with(start), "{}", output.out);
    let end = "; try: sluice approve web prod -n default\n";
    assert!(output.out.ends_with(end), "{}", output.out);
    let named = ["promote", "web", "prod", "--revision", "2.0.0"];
    let output = answered(&TestCluster::new().await, &named).await;
    assert!(
        output.out.starts_with(start),
        "{}{}",
        output.out,
        output.err
    );
    for revision in ["9.9.9", "not-a-version"] {
        let cluster = TestCluster::new().await;
        let output = answered(&cluster, &["promote", "web", "prod", revision]).await;
        assert_eq!(
            (output.code, output.out.as_str()),
            (1, ""),
            "{}",
            output.err
        );
        let expected =
            format!("refused: no target, source or report of this pipeline has {revision}");
        assert!(output.err.contains(&expected), "{}", output.err);
    }
    let cluster = TestCluster::new().await;
    let output = answered(&cluster, &["promote", "web", "prod", "9.9.9", "--unseen"]).await;
    assert_eq!(output.code, 0, "{}", output.err);
    let waits = "waits for an approval of 9.9.9";
    assert!(output.out.contains(waits), "{}", output.out);
}

#[tokio::test]
async fn requests_of_others_are_not_lost() {
    let cluster = TestCluster::new().await;
    let ask = ["promote", "web", "dev", "3.0.0", "--answer-timeout", "0s"];
    cluster.prints(&ask).await;
    let editor =
        json!([{"apiGroups": ["pipelines.weave.works"], "resources": ["*"], "verbs": ["*"]}]);
    let ask = ["promote", "web", "prod", "2.0.0"];
    let output = cluster.run_as("jane", editor.clone(), &ask).await;
    assert_eq!(output.code, 1);
    assert!(
        output.err.contains("admin requested 3.0.0 in dev"),
        "{}",
        output.err
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
    let output = cluster.run_as("joan", editor, &ask).await;
    assert_eq!(output.code, 0, "{}", output.err);
    let written = request(&cluster.pipeline().await);
    assert!(
        written.get("dev").is_none() && written["prod"]["by"] == "joan",
        "{written}"
    );
}

#[tokio::test]
async fn suspending_changes_one_field_under_our_name() {
    let cluster = TestCluster::new().await;
    assert_eq!(cluster.prints(&["suspend", "web"]).await, "suspended web\n");
    assert!(cluster.pipeline().await.spec.suspend);
    assert_eq!(
        cluster.prints(&["suspend", "web"]).await,
        "web is already suspended\n"
    );
    assert_eq!(
        cluster.prints(&["suspend", "web", "prod"]).await,
        "suspended prod of web\n"
    );
    let suspended: Vec<bool> = {
        let environments = cluster.pipeline().await.spec.environments;
        environments.iter().map(|it| it.suspend).collect()
    };
    assert_eq!(suspended, [false, true]);
    assert_eq!(
        cluster.prints(&["resume", "web"]).await,
        "resumed web; prod is suspended: sluice resume web prod -n default\n"
    );
    assert_eq!(
        cluster.prints(&["resume", "web"]).await,
        "web is not suspended; prod is suspended: sluice resume web prod -n default\n"
    );
    assert_eq!(
        cluster.prints(&["resume", "web", "prod"]).await,
        "resumed prod of web\n"
    );
    assert_eq!(
        cluster.prints(&["resume", "web"]).await,
        "web is not suspended\n"
    );
    let pipeline = cluster.pipeline().await;
    assert!(!pipeline.spec.suspend && !pipeline.spec.environments[1].suspend);
    let managers = pipeline.metadata.managed_fields.unwrap();
    assert!(
        managers
            .iter()
            .any(|entry| entry.manager.as_deref() == Some("sluice"))
    );
}

/// `try: sluice approve` is not for somebody whose approval is there already.
#[tokio::test]
async fn who_has_approved_is_told_that_another_person_must() {
    let cluster = TestCluster::new().await;
    let named = cluster.prints(&["status", "pipeline/web"]).await;
    assert!(named.contains("try: sluice approve web prod"), "{named}");
    cluster.prints(&["approve", "web", "prod"]).await;
    let given = cluster.promotion().await.spec.approvals[0].clone();
    let observed = json!({"by": given.by, "at": given.at, "observedAt": given.at});
    let status = json!({"approvals": [observed]});
    cluster.set_promotion_status(status).await;
    for command in ["status", "explain"] {
        let output = cluster.prints(&[command, "web"]).await;
        assert!(!output.contains("try: sluice approve"), "{output}");
        let told = "another person must approve it";
        assert!(output.contains(told), "{output}");
    }
}

//! What failed or was rejected and is requested all the same: the commands say so to who asks and who approves.

use serde_json::json;

use crate::{
    cluster::{CommandOutput, TestCluster},
    requests::answered_with,
};

/// A cluster on which dev rejected a revision.
async fn rejected_in_dev(revision: &str) -> TestCluster {
    let cluster = TestCluster::new().await;
    let dev = json!({"rejected": [revision]});
    cluster
        .set_status(json!({"environments": {"dev": dev}}))
        .await;
    cluster
}

#[tokio::test]
async fn who_requests_what_was_rejected_reads_a_caution() {
    let cluster = rejected_in_dev("1.9.0").await;
    let output: CommandOutput = answered_with(
        &cluster,
        &["promote", "web", "prod", "1.9.0"],
        |planned| json!({"environments": {"prod": planned.environments["prod"]}}),
    )
    .await;
    assert_eq!(output.code, 0, "{}", output.err);
    let caution = "caution: 1.9.0 was rolled back or rejected in dev; admin's request skips that\n";
    let (first, second) = output.out.split_once('\n').unwrap();
    assert!(
        first.starts_with("requested 1.9.0 in prod: waits for an approval"),
        "{first}"
    );
    assert_eq!(second, caution);
    let status = cluster.prints(&["status", "web"]).await;
    assert!(status.contains(caution.trim()), "{status}");
    let status = cluster.prints(&["status", "web", "-o", "json"]).await;
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let promotion = &status["environments"][1]["promotion"];
    assert_eq!(
        promotion["caution"],
        caution.trim().replacen("caution: ", "", 1)
    );
}

#[tokio::test]
async fn who_approves_what_was_rejected_reads_a_caution() {
    let cluster = rejected_in_dev("2.0.0").await;
    let request = json!({"id": "r1", "kind": "Promote", "by": "ann"});
    cluster.set_promotion_request(request).await;
    let caution = "caution: 2.0.0 was rolled back or rejected in dev; ann's request skips that";
    for command in [["explain", "web", "prod"], ["diff", "web", "prod"]] {
        let output = cluster.prints(&command).await;
        assert!(output.contains(caution), "{output}");
    }
    let output = cluster.prints(&["approve", "web", "prod"]).await;
    let expected = format!("approved 2.0.0 into prod as admin (web-prod-1)\n{caution}\n");
    assert_eq!(output, expected);
}

#[tokio::test]
async fn the_help_says_what_a_request_skips() {
    let cluster = TestCluster::new().await;
    for command in ["promote", "rollback"] {
        let help = cluster.prints(&[command, "--help"]).await;
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        for told in [
            "A request skips the gates readiness, verified, soak and order",
            "It never skips approvals or a Freeze",
            "--override passes",
            "Exit codes:",
        ] {
            assert!(help.contains(told), "{help}");
        }
    }
}

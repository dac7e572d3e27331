//! What has ended, and what does not come: `status` says so instead of waiting, and `history` says why.

use serde_json::{Value, json};

use crate::cluster::{TestCluster, settled};

/// prod was rolled back: nothing is in progress, and only people or a newer revision change that.
#[tokio::test]
async fn waiting_ends_where_only_people_change_what_is_held() {
    let cluster = TestCluster::new().await;
    cluster.set_status(settled()).await;
    let text = "ann rolled prod back from 2.0.0 to 1.0.0";
    let hold = |reason: &str| {
        let message = format!("{text}; resolved by a newer revision or a request for 2.0.0");
        let hold = json!({"reason": reason, "message": message});
        json!({"environments": {"prod": {"hold": hold}}})
    };
    cluster.set_status(hold("Rejected")).await;
    let wait = ["status", "web", "prod", "--wait", "--timeout", "1s"];
    let output = cluster.run(&wait).await;
    assert_eq!(output.code, 3, "{}", output.err);
    assert!(output.out.contains(text), "{}", output.out);
    let told = format!("stopped waiting, because nothing is in progress: prod is held: {text}");
    assert!(
        output.err.replace('\n', " ").contains(&told),
        "{}",
        output.err
    );
    // What ends by itself is waited for.
    cluster.set_status(hold("Soaking")).await;
    let output = cluster.run(&wait).await;
    assert_eq!(output.code, 3, "{}", output.err);
    assert!(output.err.contains("still waiting"), "{}", output.err);
}

#[tokio::test]
async fn the_list_of_pipelines_says_what_is_frozen_and_what_waits() {
    let cluster = TestCluster::new().await;
    let freeze = json!({
        "name": "weekend", "reason": "no releases", "environments": ["prod"], "times": {},
    });
    cluster.set_status(json!({"freezes": [freeze]})).await;
    let list = cluster.prints(&["status"]).await;
    let told = "prod: frozen by weekend (no releases): nothing starts; 2.0.0 waits for approval to enter prod";
    assert!(list.contains(told), "{list}");
    cluster.set_status(settled()).await;
    let list = cluster.prints(&["status"]).await;
    assert!(
        list.contains("prod: frozen by weekend (no releases): nothing starts\n"),
        "{list}"
    );
}

#[tokio::test]
async fn history_says_why_a_promotion_was_withdrawn() {
    let cluster = TestCluster::new().await;
    cluster.withdraw("NoLongerCandidate").await;
    let why = "withdrawn: it is no longer the next revision of prod";
    let history = cluster.prints(&["history", "web"]).await;
    assert!(history.contains(why), "{history}");
    let history = cluster.prints(&["history", "web", "-o", "json"]).await;
    let history: Value = serde_json::from_str(&history).unwrap();
    assert_eq!(history["promotions"][0]["endedBecause"], why);
}

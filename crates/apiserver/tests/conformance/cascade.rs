//! Deletion in the foreground, in the background and with orphans.

use serde_json::{Value, json};

use crate::support::{Context, cases};

cases!("cascade":
    foreground_waits_for_its_dependents, foreground_without_dependents,
    foreground_does_not_wait_for_who_does_not_block, foreground_goes_down_the_tree,
    foreground_spares_what_has_another_owner, orphans_stay, orphans_by_the_old_option,
    orphans_without_dependents, policies_change_their_mind, both_options_are_refused,
    finalizers_decide_without_a_policy, collections_too, other_finalizers_stay,
);

fn owned(owner: &Value, blocks: bool) -> Value {
    json!({"metadata": {"ownerReferences": [{
        "apiVersion": owner["apiVersion"], "kind": owner["kind"],
        "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": blocks,
    }]}})
}

fn kept(mut object: Value) -> Value {
    object["metadata"]["finalizers"] = json!(["example.com/keep"]);
    object
}

async fn release(api: &Context, name: &str) {
    let path = api.core(&format!("configmaps/{name}"));
    api.merge(&path, &json!({"metadata": {"finalizers": null}}))
        .await
        .expect_code(200);
}

async fn foreground_waits_for_its_dependents(api: Context) {
    let owner = api.config_map("owner", json!({})).await;
    api.config_map("dependent", kept(owned(&owner, true))).await;
    let path = api.core("configmaps/owner");
    let options = json!({"propagationPolicy": "Foreground"});
    let answer = api.delete_with(&path, &options).await;
    let marked = answer.expect_code(200);
    assert_eq!(
        marked["metadata"]["finalizers"],
        json!(["foregroundDeletion"])
    );
    assert_eq!(marked["metadata"]["deletionGracePeriodSeconds"], 0);
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    api.wait_for(&api.core("configmaps/dependent"), |answer| {
        answer.body["metadata"]["deletionTimestamp"].is_string()
    })
    .await;
    api.get(&path).await.expect_code(200);
    release(&api, "dependent").await;
    api.wait_gone(&path).await;
}

async fn foreground_without_dependents(api: Context) {
    api.config_map("owner", json!({})).await;
    let path = api.core("configmaps/owner?propagationPolicy=Foreground");
    api.delete(&path).await.expect_code(200);
    api.wait_gone(&api.core("configmaps/owner")).await;
}

async fn foreground_does_not_wait_for_who_does_not_block(api: Context) {
    let owner = api.config_map("owner", json!({})).await;
    api.config_map("dependent", kept(owned(&owner, false)))
        .await;
    let options = json!({"propagationPolicy": "Foreground"});
    api.delete_with(&api.core("configmaps/owner"), &options)
        .await
        .expect_code(200);
    api.wait_gone(&api.core("configmaps/owner")).await;
    api.wait_for(&api.core("configmaps/dependent"), |answer| {
        answer.body["metadata"]["deletionTimestamp"].is_string()
    })
    .await;
    release(&api, "dependent").await;
}

async fn foreground_goes_down_the_tree(api: Context) {
    let owner = api.config_map("owner", json!({})).await;
    let child = api.config_map("child", owned(&owner, true)).await;
    api.config_map("grandchild", kept(owned(&child, true)))
        .await;
    let options = json!({"propagationPolicy": "Foreground"});
    api.delete_with(&api.core("configmaps/owner"), &options)
        .await
        .expect_code(200);
    let child = api
        .wait_for(&api.core("configmaps/child"), |answer| {
            answer.body["metadata"]["deletionTimestamp"].is_string()
        })
        .await;
    assert_eq!(
        child.body["metadata"]["finalizers"],
        json!(["foregroundDeletion"])
    );
    api.wait_for(&api.core("configmaps/grandchild"), |answer| {
        answer.body["metadata"]["deletionTimestamp"].is_string()
    })
    .await;
    release(&api, "grandchild").await;
    api.wait_gone(&api.core("configmaps/owner")).await;
    api.get(&api.core("configmaps/child"))
        .await
        .expect_code(404);
}

async fn foreground_spares_what_has_another_owner(api: Context) {
    let first = api.config_map("first", json!({})).await;
    let second = api.config_map("second", json!({})).await;
    let mut dependent = owned(&first, true);
    let other = owned(&second, true)["metadata"]["ownerReferences"][0].take();
    dependent["metadata"]["ownerReferences"]
        .as_array_mut()
        .unwrap()
        .push(other.clone());
    api.config_map("dependent", dependent).await;
    let options = json!({"propagationPolicy": "Foreground"});
    api.delete_with(&api.core("configmaps/first"), &options)
        .await
        .expect_code(200);
    api.wait_gone(&api.core("configmaps/first")).await;
    let dependent = api
        .wait_for(&api.core("configmaps/dependent"), |answer| {
            answer.body["metadata"]["ownerReferences"] == json!([other])
        })
        .await;
    assert_eq!(dependent.body["metadata"].get("deletionTimestamp"), None);
}

async fn orphans_stay(api: Context) {
    let owner = api.config_map("owner", json!({})).await;
    api.config_map("dependent", owned(&owner, true)).await;
    let options = json!({"propagationPolicy": "Orphan"});
    let marked = api
        .delete_with(&api.core("configmaps/owner"), &options)
        .await
        .expect_code(200);
    assert_eq!(marked["metadata"]["finalizers"], json!(["orphan"]));
    api.wait_gone(&api.core("configmaps/owner")).await;
    let dependent = api
        .get(&api.core("configmaps/dependent"))
        .await
        .expect_code(200);
    assert_eq!(dependent["metadata"].get("ownerReferences"), None);
    assert_eq!(dependent["metadata"].get("deletionTimestamp"), None);
}

async fn orphans_by_the_old_option(api: Context) {
    let owner = api.config_map("owner", json!({})).await;
    api.config_map("dependent", owned(&owner, false)).await;
    let options = json!({"orphanDependents": true});
    api.delete_with(&api.core("configmaps/owner"), &options)
        .await
        .expect_code(200);
    api.wait_gone(&api.core("configmaps/owner")).await;
    api.get(&api.core("configmaps/dependent"))
        .await
        .expect_code(200);
}

async fn orphans_without_dependents(api: Context) {
    api.config_map("owner", json!({})).await;
    let path = api.core("configmaps/owner?propagationPolicy=Orphan");
    api.delete(&path).await.expect_code(200);
    api.wait_gone(&api.core("configmaps/owner")).await;
}

async fn policies_change_their_mind(api: Context) {
    let owner = api.config_map("owner", json!({})).await;
    api.config_map("dependent", kept(owned(&owner, true))).await;
    let path = api.core("configmaps/owner");
    api.delete_with(&path, &json!({"propagationPolicy": "Foreground"}))
        .await
        .expect_code(200);
    api.delete_with(&path, &json!({"propagationPolicy": "Background"}))
        .await
        .expect_code(200);
    api.wait_gone(&path).await;
    release(&api, "dependent").await;
}

async fn both_options_are_refused(api: Context) {
    api.config_map("owner", json!({})).await;
    let options = json!({"propagationPolicy": "Orphan", "orphanDependents": true});
    let answer = api
        .delete_with(&api.core("configmaps/owner"), &options)
        .await;
    let message = "DeleteOptions.meta.k8s.io \"\" is invalid: propagationPolicy: Invalid value: \"Orphan\": orphanDependents and deletionPropagation cannot be both set";
    answer.refused(422, "Invalid", message);
}

async fn finalizers_decide_without_a_policy(api: Context) {
    let owner = json!({"metadata": {"finalizers": ["orphan"]}});
    let owner = api.config_map("owner", owner).await;
    api.config_map("dependent", owned(&owner, true)).await;
    api.delete(&api.core("configmaps/owner"))
        .await
        .expect_code(200);
    api.wait_gone(&api.core("configmaps/owner")).await;
    let dependent = api
        .get(&api.core("configmaps/dependent"))
        .await
        .expect_code(200);
    assert_eq!(dependent["metadata"].get("ownerReferences"), None);
}

async fn collections_too(api: Context) {
    let labels = json!({"metadata": {"labels": {"go": "yes"}}});
    let owner = api.config_map("owner", labels).await;
    api.config_map("dependent", owned(&owner, true)).await;
    let path = api.core("configmaps?labelSelector=go%3Dyes");
    let answer = api
        .delete_with(&path, &json!({"propagationPolicy": "Orphan"}))
        .await;
    assert_eq!(answer.names(), ["owner"]);
    api.wait_gone(&api.core("configmaps/owner")).await;
    api.get(&api.core("configmaps/dependent"))
        .await
        .expect_code(200);
}

async fn other_finalizers_stay(api: Context) {
    api.config_map("owner", kept(json!({}))).await;
    let path = api.core("configmaps/owner");
    api.delete_with(&path, &json!({"propagationPolicy": "Foreground"}))
        .await
        .expect_code(200);
    api.wait_for(&path, |answer| {
        answer.body["metadata"]["finalizers"] == json!(["example.com/keep"])
    })
    .await;
    release(&api, "owner").await;
    api.get(&path).await.expect_code(404);
}

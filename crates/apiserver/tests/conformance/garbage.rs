//! Garbage collection by owner references.

use serde_json::{Value, json};

use crate::support::{Context, anything, cases};

cases!("garbage":
    dependents_go_with_their_owner, dependents_of_custom_owners_go, dependents_go_in_turn,
    dependent_of_nobody_goes, dependent_with_wrong_uid_goes,
    dependent_stays_while_one_owner_lives, dependent_with_finalizer_waits, cluster_owner,
);

/// Owner references to these objects.
fn owned_by(owners: &[&Value]) -> Value {
    let reference = |owner: &&Value| {
        json!({
            "apiVersion": owner["apiVersion"], "kind": owner["kind"],
            "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"],
        })
    };
    json!({"metadata": {"ownerReferences": owners.iter().map(reference).collect::<Vec<_>>()}})
}

/// A ConfigMap that never existed.
fn nobody() -> Value {
    let metadata = json!({"name": "nobody", "uid": "11111111-1111-1111-1111-111111111111"});
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
}

async fn dependents_go_with_their_owner(api: Context) {
    let owner = api.config_map("owner", json!({})).await;
    api.config_map("dependent", owned_by(&[&owner])).await;
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "secret",
        "ownerReferences": owned_by(&[&owner])["metadata"]["ownerReferences"]}});
    api.post(&api.core("secrets"), &secret)
        .await
        .expect_code(201);
    api.config_map("bystander", json!({})).await;
    let options = json!({"propagationPolicy": "Background"});
    api.delete_with(&api.core("configmaps/owner"), &options)
        .await
        .expect_code(200);
    api.wait_gone(&api.core("configmaps/dependent")).await;
    api.wait_gone(&api.core("secrets/secret")).await;
    api.get(&api.core("configmaps/bystander"))
        .await
        .expect_code(200);
}

async fn dependents_of_custom_owners_go(api: Context) {
    api.define_things(anything()).await;
    let owner = api.create_thing("owner", json!({})).await;
    api.config_map("dependent", owned_by(&[&owner])).await;
    api.create_thing("dependent", owned_by(&[&owner])).await;
    api.delete(&api.custom("things/owner"))
        .await
        .expect_code(200);
    api.wait_gone(&api.core("configmaps/dependent")).await;
    api.wait_gone(&api.custom("things/dependent")).await;
}

async fn dependents_go_in_turn(api: Context) {
    let owner = api.config_map("owner", json!({})).await;
    let child = api.config_map("child", owned_by(&[&owner])).await;
    api.config_map("grandchild", owned_by(&[&child])).await;
    api.delete(&api.core("configmaps/owner"))
        .await
        .expect_code(200);
    api.wait_gone(&api.core("configmaps/grandchild")).await;
    api.wait_gone(&api.core("configmaps/child")).await;
}

async fn dependent_of_nobody_goes(api: Context) {
    api.config_map("dependent", owned_by(&[&nobody()])).await;
    api.wait_gone(&api.core("configmaps/dependent")).await;
}

async fn dependent_with_wrong_uid_goes(api: Context) {
    let mut owner = api.config_map("owner", json!({})).await;
    owner["metadata"]["uid"] = json!("22222222-2222-2222-2222-222222222222");
    api.config_map("dependent", owned_by(&[&owner])).await;
    api.wait_gone(&api.core("configmaps/dependent")).await;
    api.get(&api.core("configmaps/owner"))
        .await
        .expect_code(200);
}

async fn dependent_stays_while_one_owner_lives(api: Context) {
    let first = api.config_map("first", json!({})).await;
    let second = api.config_map("second", json!({})).await;
    api.config_map("dependent", owned_by(&[&first, &second]))
        .await;
    api.delete(&api.core("configmaps/first"))
        .await
        .expect_code(200);
    let path = api.core("configmaps/dependent");
    // The reference to the owner that is gone is removed; the other one stays.
    let expected = owned_by(&[&second])["metadata"]["ownerReferences"].take();
    api.wait_for(&path, |answer| {
        answer.body["metadata"]["ownerReferences"] == expected
    })
    .await;
    api.delete(&api.core("configmaps/second"))
        .await
        .expect_code(200);
    api.wait_gone(&path).await;
}

async fn dependent_with_finalizer_waits(api: Context) {
    let owner = api.config_map("owner", json!({})).await;
    let mut dependent = owned_by(&[&owner]);
    dependent["metadata"]["finalizers"] = json!(["example.com/f"]);
    api.config_map("dependent", dependent).await;
    api.delete(&api.core("configmaps/owner"))
        .await
        .expect_code(200);
    let path = api.core("configmaps/dependent");
    api.wait_for(&path, |answer| {
        answer.body["metadata"]["deletionTimestamp"].is_string()
    })
    .await;
    api.merge(&path, &json!({"metadata": {"finalizers": null}}))
        .await
        .expect_code(200);
    api.get(&path).await.expect_code(404);
}

async fn cluster_owner(api: Context) {
    let name = format!("{}-owner", api.namespace);
    api.create_namespace(&name).await;
    let owner = api
        .get(&format!("/api/v1/namespaces/{name}"))
        .await
        .expect_code(200);
    api.config_map("dependent", owned_by(&[&owner])).await;
    api.delete(&format!("/api/v1/namespaces/{name}"))
        .await
        .expect_code(200);
    api.wait_gone(&api.core("configmaps/dependent")).await;
}

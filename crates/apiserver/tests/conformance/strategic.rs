//! Strategic merge patches of built-in kinds.

use serde_json::{Value, json};

use crate::support::{Context, anything, cases, owners};

cases!("strategic":
    merges_containers, deletes_items, replaces_maps, orders_items, values_are_added_and_deleted,
    retains_keys, removes_by_null, items_need_their_key, is_not_for_custom_kinds, records_owners,
    of_missing,
);

async fn deployment(api: &Context) -> String {
    let containers = json!([{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]);
    let body = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "finalizers": ["example.com/a"]}, "spec": {
        "replicas": 1,
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}},
        "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": containers, "nodeSelector": {"x": "1"}}},
    }});
    let path = format!("/apis/apps/v1/namespaces/{}/deployments", api.namespace);
    api.post(&path, &body).await.expect_code(201);
    format!("{path}/d")
}

/// Patches the template's pod spec and gives it as it is then.
async fn patched(api: &Context, patch: Value) -> Value {
    let path = deployment(api).await;
    let patch = json!({"spec": {"template": {"spec": patch}}});
    let answer = api.strategic(&path, &patch).await.expect_code(200);
    answer["spec"]["template"]["spec"].clone()
}

/// Names and images.
fn images(spec: &Value) -> Vec<(&str, &str)> {
    let containers = spec["containers"].as_array().unwrap();
    containers
        .iter()
        .map(|it| {
            let name = it["name"].as_str().unwrap_or_default();
            (name, it["image"].as_str().unwrap_or_default())
        })
        .collect()
}

async fn merges_containers(api: Context) {
    let patch =
        json!({"containers": [{"name": "b", "image": "b:2"}, {"name": "c", "image": "c:1"}]});
    let spec = patched(&api, patch).await;
    assert_eq!(images(&spec), [("a", "a:1"), ("b", "b:2"), ("c", "c:1")]);
}

async fn deletes_items(api: Context) {
    let patch = json!({"containers": [{"name": "a", "$patch": "delete"}]});
    let spec = patched(&api, patch).await;
    assert_eq!(images(&spec), [("b", "b:1")]);
}

async fn replaces_maps(api: Context) {
    let patch = json!({"nodeSelector": {"$patch": "replace", "y": "2"},
        "containers": [{"name": "z", "image": "z:1"}, {"$patch": "replace"}]});
    let spec = patched(&api, patch).await;
    assert_eq!(spec["nodeSelector"], json!({"y": "2"}));
    assert_eq!(images(&spec), [("z", "z:1")]);
}

async fn orders_items(api: Context) {
    let patch = json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
        "containers": [{"name": "a", "image": "a:2"}]});
    let spec = patched(&api, patch).await;
    assert_eq!(images(&spec), [("b", "b:1"), ("a", "a:2")]);
}

async fn values_are_added_and_deleted(api: Context) {
    let path = deployment(&api).await;
    let patch = json!({"metadata": {"finalizers": ["example.com/b"]}});
    let answer = api.strategic(&path, &patch).await.expect_code(200);
    let mut finalizers: Vec<&str> = answer["metadata"]["finalizers"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    finalizers.sort_unstable();
    assert_eq!(finalizers, ["example.com/a", "example.com/b"]);
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}});
    let answer = api.strategic(&path, &patch).await.expect_code(200);
    assert_eq!(answer["metadata"]["finalizers"], json!(["example.com/b"]));
    let patch = json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/b"]}});
    api.strategic(&path, &patch).await.expect_code(200);
}

async fn retains_keys(api: Context) {
    let path = deployment(&api).await;
    let patch = json!({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}});
    let answer = api.strategic(&path, &patch).await.expect_code(200);
    assert_eq!(answer["spec"]["strategy"], json!({"type": "Recreate"}));
}

async fn removes_by_null(api: Context) {
    let spec = patched(&api, json!({"nodeSelector": null})).await;
    assert_eq!(spec.get("nodeSelector"), None);
}

async fn items_need_their_key(api: Context) {
    let path = deployment(&api).await;
    let patch = json!({"spec": {"template": {"spec": {"containers": [{"image": "x"}]}}}});
    let answer = api.strategic(&path, &patch).await;
    assert!(answer.code >= 400, "{answer}");
}

async fn is_not_for_custom_kinds(api: Context) {
    api.define_things(anything()).await;
    api.create_thing("a", json!({})).await;
    let answer = api.strategic(&api.custom("things/a"), &json!({})).await;
    answer.refused_somehow(415, "UnsupportedMediaType");
}

async fn records_owners(api: Context) {
    let path = deployment(&api).await;
    let patch =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "a", "image": "a:2"}]}}}});
    let answer = api
        .strategic(&format!("{path}?fieldManager=patcher"), &patch)
        .await
        .expect_code(200);
    assert_eq!(
        owners(&answer)["patcher"],
        json!({"f:spec": {"f:template": {"f:spec": {"f:containers": {"k:{\"name\":\"a\"}": {"f:image": {}}}}}}})
    );
}

async fn of_missing(api: Context) {
    let answer = api.strategic(&api.core("configmaps/a"), &json!({})).await;
    answer.refused_somehow(404, "NotFound");
}

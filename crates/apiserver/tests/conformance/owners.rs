//! `managedFields` after writes that are no apply.

use serde_json::{Value, json};

use crate::apply::schema;
use crate::support::{Context, cases, config_map, owners};

cases!("owners":
    of_a_create, of_a_builtin_create, of_a_deployment, of_a_replace, of_patches, of_the_status,
    of_nothing_changed, are_taken_from_each_other, lose_what_is_removed, are_named_by_the_agent,
    of_a_list_that_is_shared, can_be_cleared, can_be_edited, malformed_ones_are_ignored,
    old_ones_are_lumped, of_a_namespace, of_a_definition,
);

async fn of_a_create(api: Context) {
    api.define_things(schema()).await;
    let thing = api.thing(
        "a",
        json!({"spec": {"color": "red", "notes": {"k": "v"}},
        "metadata": {"labels": {"l": "1"}, "annotations": {"x": "1"}}}),
    );
    let created = api
        .post(&api.custom("things?fieldManager=one"), &thing)
        .await
        .expect_code(201);
    let entry = &created["metadata"]["managedFields"][0];
    assert_eq!(entry["operation"], "Update");
    assert_eq!(entry["time"], created["metadata"]["creationTimestamp"]);
    assert_eq!(
        entry["fieldsV1"],
        json!({
            "f:metadata": {
                "f:annotations": {".": {}, "f:x": {}},
                "f:labels": {".": {}, "f:l": {}},
            },
            "f:spec": {".": {}, "f:color": {}, "f:shape": {}, "f:notes": {".": {}, "f:k": {}}},
        })
    );
}

async fn of_a_builtin_create(api: Context) {
    let mut body = config_map("a");
    body["data"] = json!({"x": "1"});
    body["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "v1", "kind": "Namespace", "name": api.namespace, "uid": crate::support::OTHER_UID},
    ]);
    let path = api.core("configmaps?fieldManager=one&dryRun=All");
    let created = api.post(&path, &body).await.expect_code(201);
    let owner = format!("k:{{\"uid\":\"{}\"}}", crate::support::OTHER_UID);
    assert_eq!(
        owners(&created)["one"],
        json!({
            "f:data": {".": {}, "f:x": {}},
            "f:metadata": {"f:ownerReferences": {".": {}, owner: {}}},
        })
    );
}

async fn of_a_deployment(api: Context) {
    let body = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "a"}},
        "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [
            {"name": "c", "image": "i", "env": [{"name": "E", "value": "1"}]},
        ]}},
    }});
    let path = format!(
        "/apis/apps/v1/namespaces/{}/deployments?fieldManager=one",
        api.namespace
    );
    let created = api.post(&path, &body).await.expect_code(201);
    let spec = &owners(&created)["one"]["f:spec"];
    assert_eq!(spec.get("."), None);
    assert_eq!(spec["f:selector"], json!({}));
    assert_eq!(
        spec["f:template"]["f:metadata"],
        json!({"f:labels": {".": {}, "f:app": {}}})
    );
    let container = &spec["f:template"]["f:spec"]["f:containers"]["k:{\"name\":\"c\"}"];
    assert_eq!(container["."], json!({}));
    assert_eq!(
        container["f:env"],
        json!({".": {}, "k:{\"name\":\"E\"}": {".": {}, "f:name": {}, "f:value": {}}})
    );
}

async fn thing(api: &Context) -> String {
    api.define_things(schema()).await;
    let thing = api.thing("a", json!({"spec": {"color": "red", "size": 1}}));
    api.post(&api.custom("things?fieldManager=one"), &thing)
        .await
        .expect_code(201);
    api.custom("things/a")
}

async fn of_a_replace(api: Context) {
    let path = thing(&api).await;
    let mut object = api.get(&path).await.expect_code(200);
    object["spec"] = json!({"color": "blue", "deep": {"one": "1"}, "shape": "round"});
    let replaced = api
        .put(&format!("{path}?fieldManager=two"), &object)
        .await
        .expect_code(200);
    assert_eq!(
        owners(&replaced),
        json!({
            "one": {"f:spec": {".": {}, "f:shape": {}}},
            "two": {"f:spec": {"f:color": {}, "f:deep": {".": {}, "f:one": {}}}},
        })
    );
}

async fn of_patches(api: Context) {
    let path = thing(&api).await;
    api.merge(
        &format!("{path}?fieldManager=two"),
        &json!({"spec": {"size": 2}}),
    )
    .await
    .expect_code(200);
    let operations = json!([{"op": "add", "path": "/spec/list", "value": ["x"]}]);
    let patched = api
        .json_patch(&format!("{path}?fieldManager=three"), &operations)
        .await
        .expect_code(200);
    assert_eq!(owners(&patched)["two"], json!({"f:spec": {"f:size": {}}}));
    assert_eq!(owners(&patched)["three"], json!({"f:spec": {"f:list": {}}}));
}

async fn of_the_status(api: Context) {
    let path = thing(&api).await;
    let patch =
        json!({"status": {"ready": true, "conditions": [{"type": "A"}]}, "spec": {"size": 9}});
    let patched = api
        .merge(&format!("{path}/status?fieldManager=two"), &patch)
        .await
        .expect_code(200);
    let entries = patched["metadata"]["managedFields"].as_array().unwrap();
    let two = entries
        .iter()
        .find(|entry| entry["manager"] == "two")
        .unwrap();
    assert_eq!(two["subresource"], "status");
    assert_eq!(two["operation"], "Update");
    assert_eq!(
        two["fieldsV1"],
        json!({"f:status": {".": {}, "f:ready": {}, "f:conditions": {}}})
    );
}

async fn of_nothing_changed(api: Context) {
    let path = thing(&api).await;
    let before = api.get(&path).await.expect_code(200);
    let patched = api
        .merge(
            &format!("{path}?fieldManager=two"),
            &json!({"spec": {"size": 1}}),
        )
        .await
        .expect_code(200);
    assert_eq!(patched, before);
}

async fn are_taken_from_each_other(api: Context) {
    let path = thing(&api).await;
    for manager in ["two", "one"] {
        let size = manager.len() + usize::from(manager == "two") * 10;
        api.merge(
            &format!("{path}?fieldManager={manager}"),
            &json!({"spec": {"size": size}}),
        )
        .await
        .expect_code(200);
    }
    let object = api.get(&path).await.expect_code(200);
    assert_eq!(
        owners(&object),
        json!({"one": {"f:spec": {".": {}, "f:color": {}, "f:shape": {}, "f:size": {}}}})
    );
}

async fn lose_what_is_removed(api: Context) {
    let path = thing(&api).await;
    let patched = api
        .merge(
            &format!("{path}?fieldManager=two"),
            &json!({"spec": {"size": null}}),
        )
        .await
        .expect_code(200);
    assert_eq!(
        owners(&patched),
        json!({"one": {"f:spec": {".": {}, "f:color": {}, "f:shape": {}}}})
    );
}

async fn are_named_by_the_agent(api: Context) {
    let body = config_map("a");
    let request = http::Request::post(api.core("configmaps"))
        .header("content-type", "application/json")
        .header("user-agent", "some-agent/v1 (x/y)")
        .body(kube::client::Body::from(
            json!({"data": {"a": "1"}, "metadata": body["metadata"]})
                .to_string()
                .into_bytes(),
        ))
        .unwrap();
    api.client.send(request).await.unwrap();
    let object = api.get(&api.core("configmaps/a")).await.expect_code(200);
    assert_eq!(
        object["metadata"]["managedFields"][0]["manager"],
        "some-agent"
    );
}

async fn of_a_list_that_is_shared(api: Context) {
    let path = thing(&api).await;
    let ports = json!([{"port": 1, "name": "x"}, {"port": 2}]);
    api.merge(
        &format!("{path}?fieldManager=two"),
        &json!({"spec": {"ports": ports, "tags": ["a"]}}),
    )
    .await
    .expect_code(200);
    let operations = json!([
        {"op": "replace", "path": "/spec/ports/0/name", "value": "y"},
        {"op": "add", "path": "/spec/tags/-", "value": "b"},
    ]);
    let patched = api
        .json_patch(&format!("{path}?fieldManager=three"), &operations)
        .await
        .expect_code(200);
    let (first, second) = (
        "k:{\"port\":1,\"protocol\":\"TCP\"}",
        "k:{\"port\":2,\"protocol\":\"TCP\"}",
    );
    let keys = json!({".": {}, "f:port": {}, "f:protocol": {}});
    assert_eq!(
        owners(&patched)["two"],
        json!({"f:spec": {
            "f:ports": {".": {}, first: keys, second: keys},
            "f:tags": {".": {}, "v:\"a\"": {}},
        }})
    );
    assert_eq!(
        owners(&patched)["three"],
        json!({"f:spec": {"f:ports": {first: {"f:name": {}}}, "f:tags": {"v:\"b\"": {}}}})
    );
}

async fn can_be_cleared(api: Context) {
    let path = thing(&api).await;
    let patched = api
        .merge(&path, &json!({"metadata": {"managedFields": [{}]}}))
        .await
        .expect_code(200);
    assert_eq!(patched["metadata"].get("managedFields"), None);
    let patched = api
        .merge(&path, &json!({"spec": {"size": 3}}))
        .await
        .expect_code(200);
    assert_eq!(patched["metadata"].get("managedFields"), None);
    let config = api.thing("a", json!({"spec": {"tags": ["x"]}}));
    let applied = api.apply(&path, "applier", &config).await.expect_code(200);
    assert_eq!(
        owners(&applied),
        json!({
            "applier": {"f:spec": {"f:tags": {"v:\"x\"": {}}}},
            "before-first-apply": {"f:spec": {".": {}, "f:color": {}, "f:shape": {}, "f:size": {}}},
        })
    );
}

async fn can_be_edited(api: Context) {
    let path = thing(&api).await;
    let operations =
        json!([{"op": "replace", "path": "/metadata/managedFields/0/manager", "value": "renamed"}]);
    let patched = api.json_patch(&path, &operations).await.expect_code(200);
    assert!(owners(&patched).get("renamed").is_some(), "{patched}");
    assert_eq!(owners(&patched).get("one"), None);
}

async fn malformed_ones_are_ignored(api: Context) {
    let path = thing(&api).await;
    let before = api.get(&path).await.expect_code(200);
    let patch = json!({"metadata": {"managedFields": [{"manager": "x", "operation": "Nope"}]}});
    let answer = api.merge(&path, &patch).await;
    let patched = answer.expect_code(200);
    assert_eq!(owners(&patched), owners(&before));
}

async fn old_ones_are_lumped(api: Context) {
    let path = thing(&api).await;
    for index in 0..11 {
        let patch = json!({"spec": {"notes": {format!("n{index}"): "x"}}});
        api.merge(&format!("{path}?fieldManager=m{index:02}"), &patch)
            .await
            .expect_code(200);
    }
    let object = api.get(&path).await.expect_code(200);
    let entries = object["metadata"]["managedFields"].as_array().unwrap();
    assert_eq!(entries.len(), 10);
    assert!(owners(&object).get("ancient-changes").is_some(), "{object}");
    assert!(owners(&object).get("m10").is_some(), "{object}");
}

async fn of_a_namespace(api: Context) {
    let object = api
        .get(&format!("/api/v1/namespaces/{}", api.namespace))
        .await
        .expect_code(200);
    let fields: Vec<&Value> = object["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| &entry["fieldsV1"])
        .collect();
    let label = json!({"f:metadata": {"f:labels": {".": {}, "f:kubernetes.io/metadata.name": {}}}});
    assert_eq!(fields, [&label]);
}

async fn of_a_definition(api: Context) {
    api.define_things(schema()).await;
    let definition = api.get(&api.things_definition()).await.expect_code(200);
    let entries = definition["metadata"]["managedFields"].as_array().unwrap();
    let status = entries
        .iter()
        .find(|entry| entry["subresource"] == "status");
    let status = status.expect("the server writes the status");
    assert_eq!(status["manager"], "kube-apiserver");
    assert_eq!(status["operation"], "Update");
    let names = json!({"f:kind": {}, "f:listKind": {}, "f:plural": {}, "f:singular": {}});
    assert_eq!(status["fieldsV1"]["f:status"]["f:acceptedNames"], names);
    let own = entries
        .iter()
        .find(|entry| entry["subresource"] != "status")
        .unwrap();
    let spec = &own["fieldsV1"]["f:spec"];
    assert_eq!(spec["f:conversion"], json!({".": {}, "f:strategy": {}}));
    assert_eq!(spec["f:versions"], json!({}));
    assert_eq!(own["fieldsV1"].get("f:status"), None);
}

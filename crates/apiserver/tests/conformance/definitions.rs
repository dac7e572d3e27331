//! CustomResourceDefinitions: what they bring about.

use serde_json::{Value, json};

use crate::support::{Context, DEFINITIONS, anything, cases, spec_schema, version};

cases!("definitions":
    become_established, fill_in_names, conflicting_names_are_not_served,
    can_be_served_in_versions, unserved_versions_are_hidden, changes_take_effect,
    deletion_removes_objects, deletion_waits_for_finalizers, scope_and_names_cannot_change,
    stored_version_cannot_be_removed, status_subresource,
);

async fn become_established(api: Context) {
    api.define_things(anything()).await;
    let definition = api.get(&api.things_definition()).await.expect_code(200);
    let conditions = definition["status"]["conditions"].as_array().unwrap();
    let summary: Vec<String> = conditions
        .iter()
        .map(|c| {
            format!(
                "{}={} {}",
                c["type"].as_str().unwrap(),
                c["status"].as_str().unwrap(),
                c["reason"].as_str().unwrap()
            )
        })
        .collect();
    assert_eq!(
        summary,
        [
            "NamesAccepted=True NoConflicts",
            "Established=True InitialNamesAccepted"
        ]
    );
    assert_eq!(definition["status"]["storedVersions"], json!(["v1"]));
    let names =
        json!({"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"});
    assert_eq!(definition["status"]["acceptedNames"], names);
    assert_eq!(definition["metadata"]["generation"], 1);
}

async fn fill_in_names(api: Context) {
    let mut definition = api.things(json!([version("v1", anything())]));
    definition["spec"]["names"] = json!({"plural": "things", "kind": "Thing"});
    let created = api.post(DEFINITIONS, &definition).await.expect_code(201);
    let names =
        json!({"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"});
    assert_eq!(created["spec"]["names"], names);
    assert_eq!(created["spec"]["conversion"], json!({"strategy": "None"}));
}

async fn conflicting_names_are_not_served(api: Context) {
    api.define_things(anything()).await;
    let mut second = api.things(json!([version("v1", anything())]));
    second["metadata"]["name"] = json!(format!("others.{}", api.group));
    second["spec"]["names"] =
        json!({"plural": "others", "singular": "other", "kind": "Thing", "listKind": "OtherList"});
    api.post(DEFINITIONS, &second).await.expect_code(201);
    let path = format!("{DEFINITIONS}/others.{}", api.group);
    let refused = api
        .wait_for(&path, |answer| answer.condition("NamesAccepted") == "False")
        .await;
    assert_eq!(refused.condition("Established"), "False");
    let conditions = refused.body["status"]["conditions"].as_array().unwrap();
    let names = conditions
        .iter()
        .find(|c| c["type"] == "NamesAccepted")
        .unwrap();
    assert_eq!(names["reason"], "KindConflict");
    assert_eq!(names["message"], "\"Thing\" is already in use");
    assert_eq!(
        api.get(&format!("/apis/{}/v1/others", api.group))
            .await
            .code,
        404
    );
}

/// Version v1, and v2 with one more property, which is the stored one.
fn two_versions() -> Value {
    let mut old = version("v1", spec_schema(json!({"a": {"type": "string"}})));
    old["storage"] = json!(false);
    let properties = json!({"a": {"type": "string"}, "b": {"type": "string", "default": "bb"}});
    json!([old, version("v2", spec_schema(properties))])
}

async fn can_be_served_in_versions(api: Context) {
    api.define(&api.things(two_versions())).await;
    let created = api
        .create_thing("a", json!({"spec": {"a": "x", "b": "pruned"}}))
        .await;
    assert_eq!(created["apiVersion"], format!("{}/v1", api.group));
    assert_eq!(created["spec"], json!({"a": "x"}));
    let path = format!(
        "/apis/{}/v2/namespaces/{}/things/a",
        api.group, api.namespace
    );
    let newer = api.get(&path).await.expect_code(200);
    assert_eq!(newer["apiVersion"], format!("{}/v2", api.group));
    assert_eq!(newer["spec"], json!({"a": "x", "b": "bb"}));
    assert_eq!(newer["metadata"]["uid"], created["metadata"]["uid"]);
    let patched = api
        .merge(&path, &json!({"spec": {"b": "new"}}))
        .await
        .expect_code(200);
    assert_eq!(patched["spec"], json!({"a": "x", "b": "new"}));
}

async fn unserved_versions_are_hidden(api: Context) {
    let mut versions = two_versions();
    versions[0]["served"] = json!(false);
    api.define(&api.things(versions)).await;
    assert_eq!(
        api.get(&format!("/apis/{}/v1/things", api.group))
            .await
            .code,
        404
    );
}

async fn changes_take_effect(api: Context) {
    api.define_things(spec_schema(json!({"n": {"type": "integer"}})))
        .await;
    api.create_thing("before", json!({"spec": {"n": 0}})).await;
    let patch = json!([{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/n/minimum", "value": 1}]);
    let changed = api
        .json_patch(&api.things_definition(), &patch)
        .await
        .expect_code(200);
    assert_eq!(changed["metadata"]["generation"], 2);
    // The new schema is in force when a dry run is refused.
    let thing = api.thing("after", json!({"spec": {"n": 0}}));
    let give_up = tokio::time::Instant::now() + std::time::Duration::from_secs(60);
    while api
        .post(&api.custom("things?dryRun=All"), &thing)
        .await
        .code
        == 201
    {
        assert!(
            tokio::time::Instant::now() < give_up,
            "the old schema is still in force"
        );
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    api.post(&api.custom("things"), &thing)
        .await
        .refused_somehow(422, "Invalid");
    // What is stored stays, and may be changed elsewhere.
    let patch = json!({"metadata": {"labels": {"l": "1"}}});
    api.merge(&api.custom("things/before"), &patch)
        .await
        .expect_code(200);
}

async fn deletion_removes_objects(api: Context) {
    api.define_things(anything()).await;
    let created = api.create_thing("a", json!({})).await;
    let query = format!(
        "resourceVersion={}",
        created["metadata"]["resourceVersion"].as_str().unwrap()
    );
    let mut events = api.watch(&api.custom("things"), &query).await;
    let deleted = api.delete(&api.things_definition()).await.expect_code(200);
    assert_eq!(deleted["kind"], "CustomResourceDefinition");
    assert!(deleted["metadata"]["deletionTimestamp"].is_string());
    let finalizers = json!(["customresourcecleanup.apiextensions.k8s.io"]);
    assert_eq!(deleted["metadata"]["finalizers"], finalizers);
    events.expect("DELETED a").await;
    api.wait_gone(&api.things_definition()).await;
    api.wait_for(&api.custom("things"), |answer| answer.code == 404)
        .await;
    // The same name can be defined again, and starts empty.
    api.define_things(anything()).await;
    assert!(api.get(&api.custom("things")).await.names().is_empty());
}

async fn deletion_waits_for_finalizers(api: Context) {
    api.define_things(anything()).await;
    api.create_thing("a", json!({"metadata": {"finalizers": ["example.com/f"]}}))
        .await;
    api.delete(&api.things_definition()).await.expect_code(200);
    let path = api.custom("things/a");
    api.wait_for(&path, |answer| {
        answer.body["metadata"]["deletionTimestamp"].is_string()
    })
    .await;
    api.get(&api.things_definition()).await.expect_code(200);
    api.merge(&path, &json!({"metadata": {"finalizers": null}}))
        .await
        .expect_code(200);
    api.wait_gone(&api.things_definition()).await;
}

async fn scope_and_names_cannot_change(api: Context) {
    api.define_things(anything()).await;
    let changes = [
        (
            json!({"spec": {"scope": "Cluster"}}),
            "spec.scope",
            "Cluster",
        ),
        (
            json!({"spec": {"names": {"kind": "Other"}}}),
            "spec.names.kind",
            "Other",
        ),
        (
            json!({"spec": {"group": "other.example.com"}}),
            "spec.group",
            "other.example.com",
        ),
    ];
    for (patch, field, value) in changes {
        let status = api
            .merge(&api.things_definition(), &patch)
            .await
            .refused_somehow(422, "Invalid");
        let causes = status["details"]["causes"].as_array().unwrap();
        let cause = causes.iter().find(|cause| cause["field"] == field).unwrap();
        assert_eq!(
            cause["message"],
            format!("Invalid value: \"{value}\": field is immutable")
        );
    }
}

async fn stored_version_cannot_be_removed(api: Context) {
    api.define(&api.things(two_versions())).await;
    let patch = json!([
        {"op": "remove", "path": "/spec/versions/1"},
        {"op": "replace", "path": "/spec/versions/0/storage", "value": true},
    ]);
    let status = api
        .json_patch(&api.things_definition(), &patch)
        .await
        .refused_somehow(422, "Invalid");
    assert_eq!(
        status["details"]["causes"][0]["field"],
        "status.storedVersions[0]"
    );
}

async fn status_subresource(api: Context) {
    api.define_things(anything()).await;
    let path = format!("{}/status", api.things_definition());
    let definition = api.get(&path).await.expect_code(200);
    assert_eq!(definition["kind"], "CustomResourceDefinition");
}

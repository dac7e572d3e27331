//! Server-side apply of single fields: creating, merging, conflicts, force, dropped fields.

use serde_json::{Value, json};

use crate::support::{Context, cases, owners};

cases!("apply":
    creates_what_is_not_there, creates_with_defaults_that_nobody_applied, merges_into_what_is_there,
    again_changes_nothing, drops_what_it_no_longer_names, keeps_what_others_own,
    keeps_what_was_updated_by_others, same_value_is_shared, other_value_is_a_conflict,
    several_conflicts, force_takes_over, updater_conflicts, dropped_parents_go, emptied_maps_stay,
    status_is_apart, status_of_missing, dry_run, free_maps_are_shared, atomic_maps_are_not,
    builtin_kinds, takes_over_from_client_side_apply,
);

/// Things with fields of all sorts.
pub(crate) fn schema() -> Value {
    json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "color": {"type": "string"},
            "size": {"type": "integer"},
            "shape": {"type": "string", "default": "round"},
            "deep": {"type": "object", "properties": {
                "one": {"type": "string"}, "two": {"type": "string"},
            }},
            "whole": {"type": "object", "x-kubernetes-map-type": "atomic",
                "additionalProperties": {"type": "string"}},
            "notes": {"type": "object", "additionalProperties": {"type": "string"}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
            "list": {"type": "array", "items": {"type": "string"}},
            "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
            "ports": {"type": "array", "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["port", "protocol"],
                "items": {"type": "object", "required": ["port"], "properties": {
                    "port": {"type": "integer"},
                    "protocol": {"type": "string", "default": "TCP"},
                    "name": {"type": "string"},
                    "target": {"type": "string"},
                }}},
        }},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
    }})
}

pub(crate) async fn applied(api: &Context, query: &str, spec: Value) -> Value {
    let answer = attempt(api, query, spec).await;
    assert!(matches!(answer.code, 200 | 201), "{answer}");
    answer.body
}

pub(crate) async fn attempt(api: &Context, query: &str, spec: Value) -> crate::support::Answer {
    let config = api.thing("a", json!({"spec": spec}));
    api.apply(&api.custom("things/a"), query, &config).await
}

async fn creates_what_is_not_there(api: Context) {
    api.define_things(schema()).await;
    let config = api.thing("a", json!({"spec": {"color": "red", "deep": {"one": "1"}}}));
    let path = api.custom("things/a");
    let created = api.apply(&path, "one", &config).await.expect_code(201);
    assert_eq!(created["spec"]["color"], "red");
    assert_eq!(created["metadata"]["generation"], 1);
    let entry = &created["metadata"]["managedFields"][0];
    assert_eq!(entry["manager"], "one");
    assert_eq!(entry["operation"], "Apply");
    assert_eq!(entry["apiVersion"], format!("{}/v1", api.group));
    assert_eq!(entry["fieldsType"], "FieldsV1");
    assert_eq!(entry["time"], created["metadata"]["creationTimestamp"]);
    assert_eq!(entry.get("subresource"), None);
    assert_eq!(
        entry["fieldsV1"],
        json!({"f:spec": {"f:color": {}, "f:deep": {"f:one": {}}}})
    );
    assert_eq!(api.get(&path).await.expect_code(200), created);
}

async fn creates_with_defaults_that_nobody_applied(api: Context) {
    api.define_things(schema()).await;
    let created = applied(&api, "one", json!({"color": "red"})).await;
    assert_eq!(created["spec"], json!({"color": "red", "shape": "round"}));
    assert_eq!(owners(&created)["one"], json!({"f:spec": {"f:color": {}}}));
}

async fn merges_into_what_is_there(api: Context) {
    api.define_things(schema()).await;
    applied(&api, "one", json!({"color": "red"})).await;
    let merged = applied(&api, "two", json!({"size": 3})).await;
    assert_eq!(
        merged["spec"],
        json!({"color": "red", "size": 3, "shape": "round"})
    );
    assert_eq!(merged["metadata"]["generation"], 2);
    assert_eq!(
        owners(&merged),
        json!({"one": {"f:spec": {"f:color": {}}}, "two": {"f:spec": {"f:size": {}}}})
    );
}

async fn again_changes_nothing(api: Context) {
    api.define_things(schema()).await;
    let first = applied(&api, "one", json!({"color": "red"})).await;
    let second = applied(&api, "one", json!({"color": "red"})).await;
    assert_eq!(first, second);
}

async fn drops_what_it_no_longer_names(api: Context) {
    api.define_things(schema()).await;
    let spec = json!({"color": "red", "size": 1, "list": ["x"], "notes": {"a": "1", "b": "2"}});
    applied(&api, "one", spec).await;
    let changed = applied(&api, "one", json!({"size": 1, "notes": {"b": "2"}})).await;
    let expected = json!({"size": 1, "notes": {"b": "2"}, "shape": "round"});
    assert_eq!(changed["spec"], expected);
    assert_eq!(
        owners(&changed)["one"],
        json!({"f:spec": {"f:size": {}, "f:notes": {"f:b": {}}}})
    );
}

async fn keeps_what_others_own(api: Context) {
    api.define_things(schema()).await;
    applied(&api, "one", json!({"color": "red", "size": 1})).await;
    applied(&api, "two", json!({"color": "red"})).await;
    let changed = applied(&api, "one", json!({"size": 1})).await;
    assert_eq!(changed["spec"]["color"], "red");
    assert_eq!(
        owners(&changed),
        json!({"one": {"f:spec": {"f:size": {}}}, "two": {"f:spec": {"f:color": {}}}})
    );
    let changed = applied(&api, "two", json!({})).await;
    assert_eq!(changed["spec"].get("color"), None);
}

async fn keeps_what_was_updated_by_others(api: Context) {
    api.define_things(schema()).await;
    applied(&api, "one", json!({"color": "red", "deep": {"one": "1"}})).await;
    let path = api.custom("things/a");
    let patch = json!({"spec": {"deep": {"two": "2"}}});
    api.merge(&format!("{path}?fieldManager=two"), &patch)
        .await
        .expect_code(200);
    let changed = applied(&api, "one", json!({"color": "red"})).await;
    assert_eq!(changed["spec"]["deep"], json!({"two": "2"}));
    assert_eq!(
        owners(&changed)["two"],
        json!({"f:spec": {"f:deep": {"f:two": {}}}})
    );
}

async fn same_value_is_shared(api: Context) {
    api.define_things(schema()).await;
    applied(&api, "one", json!({"color": "red"})).await;
    let shared = applied(&api, "two", json!({"color": "red"})).await;
    let fields = json!({"f:spec": {"f:color": {}}});
    assert_eq!(owners(&shared), json!({"one": fields, "two": fields}));
    assert_eq!(shared["metadata"]["generation"], 1);
}

async fn other_value_is_a_conflict(api: Context) {
    api.define_things(schema()).await;
    let before = applied(&api, "one", json!({"color": "red", "size": 1})).await;
    let answer = attempt(&api, "two", json!({"color": "blue", "size": 1})).await;
    let message = "Apply failed with 1 conflict: conflict with \"one\": .spec.color";
    let status = answer.refused(409, "Conflict", message);
    assert_eq!(
        status["details"],
        json!({"causes": [{
            "reason": "FieldManagerConflict",
            "message": "conflict with \"one\"",
            "field": ".spec.color",
        }]})
    );
    assert_eq!(
        api.get(&api.custom("things/a")).await.expect_code(200),
        before
    );
}

async fn several_conflicts(api: Context) {
    api.define_things(schema()).await;
    applied(&api, "one", json!({"color": "red", "size": 1})).await;
    let answer = attempt(&api, "two", json!({"color": "blue", "size": 2})).await;
    let message =
        "Apply failed with 2 conflicts: conflicts with \"one\":\n- .spec.color\n- .spec.size";
    answer.refused(409, "Conflict", message);
}

async fn force_takes_over(api: Context) {
    api.define_things(schema()).await;
    applied(&api, "one", json!({"color": "red", "size": 1})).await;
    let forced = applied(&api, "two&force=true", json!({"color": "blue"})).await;
    assert_eq!(forced["spec"]["color"], "blue");
    assert_eq!(
        owners(&forced),
        json!({"one": {"f:spec": {"f:size": {}}}, "two": {"f:spec": {"f:color": {}}}})
    );
}

async fn updater_conflicts(api: Context) {
    api.define_things(schema()).await;
    applied(&api, "one", json!({"color": "red"})).await;
    let path = api.custom("things/a");
    let patch = json!({"spec": {"color": "green"}});
    let patched = api
        .merge(&format!("{path}?fieldManager=editor"), &patch)
        .await
        .expect_code(200);
    assert_eq!(
        owners(&patched),
        json!({"editor": {"f:spec": {"f:color": {}}}})
    );
    let answer = attempt(&api, "one", json!({"color": "red"})).await;
    let message = format!(
        "Apply failed with 1 conflict: conflict with \"editor\" using {}/v1: .spec.color",
        api.group
    );
    answer.refused(409, "Conflict", &message);
}

async fn dropped_parents_go(api: Context) {
    api.define_things(schema()).await;
    applied(
        &api,
        "one",
        json!({"color": "red", "deep": {"one": "1"}, "free": {"x": {"y": 1}}}),
    )
    .await;
    let changed = applied(&api, "one", json!({"color": "red"})).await;
    assert_eq!(changed["spec"], json!({"color": "red", "shape": "round"}));
    let emptied = applied(&api, "one", json!({"color": "red", "deep": {}})).await;
    assert_eq!(emptied["spec"]["deep"], json!({}));
    assert_eq!(
        owners(&emptied)["one"],
        json!({"f:spec": {"f:color": {}, "f:deep": {}}})
    );
}

async fn emptied_maps_stay(api: Context) {
    api.define_things(schema()).await;
    applied(&api, "one", json!({"deep": {"one": "1"}})).await;
    let emptied = applied(&api, "one", json!({"deep": {}})).await;
    assert_eq!(emptied["spec"]["deep"], json!({}));
    let shared = applied(&api, "two", json!({"deep": {}})).await;
    let fields = json!({"f:spec": {"f:deep": {}}});
    assert_eq!(owners(&shared), json!({"one": fields, "two": fields}));
}

async fn status_is_apart(api: Context) {
    api.define_things(schema()).await;
    let config = api.thing(
        "a",
        json!({"spec": {"color": "red"}, "status": {"ready": true}}),
    );
    let path = api.custom("things/a");
    let created = api.apply(&path, "one", &config).await.expect_code(201);
    assert_eq!(created.get("status"), None);
    assert_eq!(owners(&created)["one"], json!({"f:spec": {"f:color": {}}}));
    let config = api.thing(
        "a",
        json!({"spec": {"color": "blue"}, "status": {"ready": true}}),
    );
    let status = format!("{path}/status");
    let changed = api.apply(&status, "two", &config).await.expect_code(200);
    assert_eq!(changed["spec"]["color"], "red");
    assert_eq!(changed["status"], json!({"ready": true}));
    assert_eq!(changed["metadata"]["generation"], 1);
    let entries = changed["metadata"]["managedFields"].as_array().unwrap();
    let two = entries
        .iter()
        .find(|entry| entry["manager"] == "two")
        .unwrap();
    assert_eq!(two["subresource"], "status");
    assert_eq!(two["fieldsV1"], json!({"f:status": {"f:ready": {}}}));
    let config = api.thing("a", json!({"status": {"phase": "x"}}));
    let changed = api.apply(&status, "two", &config).await.expect_code(200);
    assert_eq!(changed["status"], json!({"phase": "x"}));
}

async fn status_of_missing(api: Context) {
    api.define_things(schema()).await;
    let config = api.thing("a", json!({"status": {"ready": true}}));
    let answer = api
        .apply(&api.custom("things/a/status"), "one", &config)
        .await;
    answer.refused_somehow(404, "NotFound");
}

async fn dry_run(api: Context) {
    api.define_things(schema()).await;
    let created = applied(&api, "one&dryRun=All", json!({"color": "red"})).await;
    assert_eq!(owners(&created)["one"], json!({"f:spec": {"f:color": {}}}));
    api.get(&api.custom("things/a")).await.expect_code(404);
    let before = applied(&api, "one", json!({"color": "red"})).await;
    let changed = applied(&api, "one&dryRun=All", json!({"color": "blue"})).await;
    assert_eq!(changed["spec"]["color"], "blue");
    assert_eq!(
        api.get(&api.custom("things/a")).await.expect_code(200),
        before
    );
}

async fn free_maps_are_shared(api: Context) {
    api.define_things(schema()).await;
    applied(
        &api,
        "one",
        json!({"free": {"a": {"b": 1}, "l": [1, {"x": 1}]}}),
    )
    .await;
    let both = applied(&api, "two", json!({"free": {"a": {"c": 2}}})).await;
    assert_eq!(
        both["spec"]["free"],
        json!({"a": {"b": 1, "c": 2}, "l": [1, {"x": 1}]})
    );
    assert_eq!(
        owners(&both),
        json!({
            "one": {"f:spec": {"f:free": {"f:a": {".": {}, "f:b": {}}, "f:l": {}}}},
            "two": {"f:spec": {"f:free": {"f:a": {".": {}, "f:c": {}}}}},
        })
    );
    let answer = attempt(&api, "two", json!({"free": {"a": {"c": 2}, "l": [1]}})).await;
    answer.refused_somehow(409, "Conflict");
    let left = applied(&api, "one", json!({"free": {}})).await;
    assert_eq!(left["spec"]["free"], json!({"a": {"c": 2}}));
}

async fn atomic_maps_are_not(api: Context) {
    api.define_things(schema()).await;
    let created = applied(&api, "one", json!({"whole": {"a": "1"}})).await;
    assert_eq!(owners(&created)["one"], json!({"f:spec": {"f:whole": {}}}));
    let answer = attempt(&api, "two", json!({"whole": {"b": "2"}})).await;
    let message = "Apply failed with 1 conflict: conflict with \"one\": .spec.whole";
    answer.refused(409, "Conflict", message);
    let changed = applied(&api, "two&force=true", json!({"whole": {"b": "2"}})).await;
    assert_eq!(changed["spec"]["whole"], json!({"b": "2"}));
}

async fn builtin_kinds(api: Context) {
    let path = api.core("configmaps/a");
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": "1"},
        "metadata": {"name": "a", "labels": {"l": "1"}, "finalizers": ["example.com/f"]}});
    let created = api.apply(&path, "one", &config).await.expect_code(201);
    assert_eq!(
        owners(&created)["one"],
        json!({
            "f:data": {"f:x": {}},
            "f:metadata": {"f:labels": {"f:l": {}}, "f:finalizers": {"v:\"example.com/f\"": {}}},
        })
    );
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"y": "2"}});
    let changed = api.apply(&path, "one", &config).await.expect_code(200);
    assert_eq!(changed["data"], json!({"y": "2"}));
    assert_eq!(changed["metadata"].get("labels"), None);
    assert_eq!(changed["metadata"].get("finalizers"), None);
    let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "date": {"y": "2"}});
    let answer = api.apply(&path, "one", &config).await;
    let message = "failed to create typed patch object (/; /v1, Kind=ConfigMap): .date: field not declared in schema";
    answer.refused(500, "", message);
}

async fn takes_over_from_client_side_apply(api: Context) {
    const LAST: &str = "kubectl.kubernetes.io/last-applied-configuration";
    let last = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
        "data": {"x": "1", "y": "1"}});
    let extra = json!({"data": {"x": "1", "y": "2"},
        "metadata": {"annotations": {LAST: last.to_string()}}});
    api.config_map("a", extra).await;
    let path = api.core("configmaps/a");
    let config = |x: &str, y: &str| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
            "data": {"x": x, "y": y}})
    };
    api.apply(&path, "other", &config("9", "2"))
        .await
        .refused_somehow(409, "Conflict");
    let status = api
        .apply(&path, "kubectl", &config("9", "9"))
        .await
        .refused_somehow(409, "Conflict");
    assert_eq!(
        status["details"]["causes"].as_array().map(Vec::len),
        Some(1)
    );
    assert_eq!(status["details"]["causes"][0]["field"], ".data.y");
    let taken = api
        .apply(&path, "kubectl", &config("9", "2"))
        .await
        .expect_code(200);
    assert_eq!(taken["data"], json!({"x": "9", "y": "2"}));
    let told: Value =
        serde_json::from_str(taken["metadata"]["annotations"][LAST].as_str().unwrap()).unwrap();
    assert_eq!(told, config("9", "2"));
}

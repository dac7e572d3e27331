//! Server-side apply of lists: sets, maps by keys, and those that are written as a whole.

use serde_json::{Value, json};

use crate::apply::schema;
use crate::support::{Answer, Context, cases, owners};

cases!("apply_lists":
    sets_are_shared, sets_lose_what_is_dropped, sets_refuse_repetition,
    items_are_merged_by_their_keys, items_are_dropped, keys_have_defaults, items_need_keys,
    items_refuse_repetition, items_conflict_by_field, shared_items_stay, items_go_with_what_others_set_in_them, order_follows_the_applier,
    whole_lists_are_replaced, containers_of_builtin_kinds,
);

async fn attempt(api: &Context, query: &str, spec: Value) -> Answer {
    let config = api.thing("a", json!({"spec": spec}));
    api.apply(&api.custom("things/a"), query, &config).await
}

async fn applied(api: &Context, query: &str, spec: Value) -> Value {
    let answer = attempt(api, query, spec).await;
    assert!(matches!(answer.code, 200 | 201), "{answer}");
    answer.body
}

async fn sets_are_shared(api: Context) {
    api.define_things(schema()).await;
    applied(&api, "one", json!({"tags": ["a", "b"]})).await;
    let both = applied(&api, "two", json!({"tags": ["b", "c"]})).await;
    assert_eq!(both["spec"]["tags"], json!(["a", "b", "c"]));
    assert_eq!(
        owners(&both),
        json!({
            "one": {"f:spec": {"f:tags": {"v:\"a\"": {}, "v:\"b\"": {}}}},
            "two": {"f:spec": {"f:tags": {"v:\"b\"": {}, "v:\"c\"": {}}}},
        })
    );
}

async fn sets_lose_what_is_dropped(api: Context) {
    api.define_things(schema()).await;
    applied(&api, "one", json!({"tags": ["a", "b"]})).await;
    applied(&api, "two", json!({"tags": ["b", "c"]})).await;
    let left = applied(&api, "one", json!({"tags": []})).await;
    assert_eq!(left["spec"]["tags"], json!(["b", "c"]));
    let left = applied(&api, "two", json!({})).await;
    assert_eq!(left["spec"].get("tags"), None);
}

async fn sets_refuse_repetition(api: Context) {
    api.define_things(schema()).await;
    let message = format!(
        "failed to create typed patch object (/a; {}/v1, Kind=Thing): .spec.tags: duplicate entries for key [=\"a\"]",
        api.group
    );
    attempt(&api, "one", json!({"tags": ["a", "a"]}))
        .await
        .refused(500, "", &message);
}

async fn items_are_merged_by_their_keys(api: Context) {
    api.define_things(schema()).await;
    let http = json!({"port": 80, "protocol": "TCP", "name": "http"});
    applied(
        &api,
        "one",
        json!({"ports": [http, {"port": 53, "protocol": "UDP"}]}),
    )
    .await;
    let target = json!({"port": 80, "protocol": "TCP", "target": "web"});
    let both = applied(&api, "two", json!({"ports": [target]})).await;
    assert_eq!(
        both["spec"]["ports"],
        json!([
            {"port": 80, "protocol": "TCP", "name": "http", "target": "web"},
            {"port": 53, "protocol": "UDP"},
        ])
    );
    let key = "k:{\"port\":80,\"protocol\":\"TCP\"}";
    assert_eq!(
        owners(&both)["two"],
        json!({"f:spec": {"f:ports": {key: {".": {}, "f:port": {}, "f:protocol": {}, "f:target": {}}}}})
    );
    let left = applied(&api, "one", json!({"ports": []})).await;
    assert_eq!(
        left["spec"]["ports"],
        json!([{"port": 80, "protocol": "TCP", "target": "web"}])
    );
}

async fn items_are_dropped(api: Context) {
    api.define_things(schema()).await;
    let item = |port: u16| json!({"port": port, "protocol": "TCP"});
    applied(&api, "one", json!({"ports": [item(1), item(2), item(3)]})).await;
    let left = applied(&api, "one", json!({"ports": [item(1), item(3)]})).await;
    assert_eq!(left["spec"]["ports"], json!([item(1), item(3)]));
}

async fn keys_have_defaults(api: Context) {
    api.define_things(schema()).await;
    let created = applied(&api, "one", json!({"ports": [{"port": 80}]})).await;
    assert_eq!(
        created["spec"]["ports"],
        json!([{"port": 80, "protocol": "TCP"}])
    );
    let key = "k:{\"port\":80,\"protocol\":\"TCP\"}";
    assert_eq!(
        owners(&created)["one"],
        json!({"f:spec": {"f:ports": {key: {".": {}, "f:port": {}}}}})
    );
    let item = json!({"port": 80, "protocol": "TCP", "name": "x"});
    let both = applied(&api, "two", json!({"ports": [item]})).await;
    assert_eq!(both["spec"]["ports"], json!([item]));
}

async fn items_need_keys(api: Context) {
    let mut schema = schema();
    let ports = &mut schema["properties"]["spec"]["properties"]["ports"];
    ports["x-kubernetes-list-map-keys"] = json!(["port"]);
    api.define_things(schema).await;
    let message = format!(
        "failed to create typed patch object (/a; {}/v1, Kind=Thing): .spec.ports: element 0: associative list with keys has an element that omits all key fields [\"port\"] (and doesn't have default values for any key fields)",
        api.group
    );
    attempt(&api, "one", json!({"ports": [{"name": "x"}]}))
        .await
        .refused(500, "", &message);
}

async fn items_refuse_repetition(api: Context) {
    api.define_things(schema()).await;
    let message = format!(
        "failed to create typed patch object (/a; {}/v1, Kind=Thing): .spec.ports: duplicate entries for key [port=1,protocol=\"TCP\"]",
        api.group
    );
    attempt(
        &api,
        "one",
        json!({"ports": [{"port": 1}, {"port": 1, "protocol": "TCP"}]}),
    )
    .await
    .refused(500, "", &message);
}

async fn items_conflict_by_field(api: Context) {
    api.define_things(schema()).await;
    let item = |name: &str| json!({"port": 1, "protocol": "TCP", "name": name});
    applied(&api, "one", json!({"ports": [item("x")]})).await;
    let message = "Apply failed with 1 conflict: conflict with \"one\": .spec.ports[port=1,protocol=\"TCP\"].name";
    attempt(&api, "two", json!({"ports": [item("y")]}))
        .await
        .refused(409, "Conflict", message);
}

async fn shared_items_stay(api: Context) {
    api.define_things(schema()).await;
    let item = json!({"port": 1, "protocol": "TCP", "name": "x"});
    applied(&api, "one", json!({"ports": [item]})).await;
    applied(
        &api,
        "two",
        json!({"ports": [{"port": 1, "protocol": "TCP"}]}),
    )
    .await;
    let left = applied(&api, "one", json!({})).await;
    assert_eq!(
        left["spec"]["ports"],
        json!([{"port": 1, "protocol": "TCP"}])
    );
}

async fn items_go_with_what_others_set_in_them(api: Context) {
    api.define_things(schema()).await;
    applied(&api, "one", json!({"ports": [{"port": 1}], "color": "red"})).await;
    let operations = json!([{"op": "add", "path": "/spec/ports/0/name", "value": "x"}]);
    let path = api.custom("things/a?fieldManager=two");
    api.json_patch(&path, &operations).await.expect_code(200);
    let left = applied(&api, "one", json!({"color": "red"})).await;
    assert_eq!(left["spec"].get("ports"), None);
    assert_eq!(owners(&left)["two"], Value::Null);
}

async fn order_follows_the_applier(api: Context) {
    api.define_things(schema()).await;
    let tags = |tags: &[&str]| json!({"tags": tags});
    applied(&api, "one", tags(&["a", "b", "c", "d"])).await;
    let mixed = applied(&api, "two", tags(&["d", "x", "b"])).await;
    assert_eq!(mixed["spec"]["tags"], json!(["a", "c", "d", "x", "b"]));
    let mixed = applied(&api, "three", tags(&["y", "b", "a"])).await;
    assert_eq!(mixed["spec"]["tags"], json!(["c", "d", "x", "y", "b", "a"]));
}

async fn whole_lists_are_replaced(api: Context) {
    api.define_things(schema()).await;
    let created = applied(&api, "one", json!({"list": ["a", "a"]})).await;
    assert_eq!(owners(&created)["one"], json!({"f:spec": {"f:list": {}}}));
    attempt(&api, "two", json!({"list": ["b"]}))
        .await
        .refused_somehow(409, "Conflict");
    let changed = applied(&api, "one", json!({"list": []})).await;
    assert_eq!(changed["spec"]["list"], json!([]));
}

async fn containers_of_builtin_kinds(api: Context) {
    let path = format!("/apis/apps/v1/namespaces/{}/deployments/a", api.namespace);
    let config = |containers: Value| {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}, "spec": {
            "selector": {"matchLabels": {"app": "a"}},
            "template": {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": containers}},
        }})
    };
    let one = json!({"name": "main", "image": "main:1", "ports": [{"containerPort": 80}]});
    let created = api
        .apply(&path, "one", &config(json!([one])))
        .await
        .expect_code(201);
    assert_eq!(
        owners(&created)["one"]["f:spec"],
        json!({
            "f:selector": {},
            "f:template": {
                "f:metadata": {"f:labels": {"f:app": {}}},
                "f:spec": {"f:containers": {"k:{\"name\":\"main\"}": {
                    ".": {}, "f:name": {}, "f:image": {},
                    "f:ports": {"k:{\"containerPort\":80,\"protocol\":\"TCP\"}": {".": {}, "f:containerPort": {}}},
                }}},
            },
        })
    );
    let two = json!({"name": "side", "image": "side:1"});
    let config = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {
        "template": {"spec": {"containers": [two]}},
    }});
    let both = api.apply(&path, "two", &config).await.expect_code(200);
    let containers = both["spec"]["template"]["spec"]["containers"]
        .as_array()
        .unwrap();
    let names: Vec<&Value> = containers.iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["main", "side"]);
}

//! Objects as rows of a table, discovery in one answer, and OpenAPI documents.

use http::Request;
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::{Value, json};

use crate::support::{Context, anything, cases, version};

cases!("tables":
    of_a_builtin_kind, of_a_custom_kind, of_printer_columns, of_one_object, with_whole_objects,
    without_objects, in_pages, watched, falls_back_to_objects, aggregated_discovery,
    open_api_index, open_api_of_a_custom_kind, open_api_of_builtin_kinds,
);

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

async fn accepting(api: &Context, accept: &str, path: &str) -> (String, Value) {
    let request = Request::get(path)
        .header("accept", accept)
        .body(Body::from(Vec::new()))
        .unwrap();
    let response = api.client.send(request).await.unwrap();
    assert_eq!(response.status(), 200, "{path}");
    let (head, body) = response.into_parts();
    let bytes = body.collect().await.unwrap().to_bytes();
    let content_type = head.headers["content-type"].to_str().unwrap().to_owned();
    (content_type, serde_json::from_slice(&bytes).unwrap())
}

async fn table(api: &Context, path: &str) -> Value {
    let (_, table) = accepting(api, TABLE, path).await;
    assert_eq!(table["kind"], "Table", "{table}");
    assert_eq!(table["apiVersion"], "meta.k8s.io/v1");
    table
}

fn heads(table: &Value) -> Vec<(&str, &str, &str, i64)> {
    let columns = table["columnDefinitions"].as_array().unwrap();
    columns
        .iter()
        .map(|column| {
            (
                column["name"].as_str().unwrap(),
                column["type"].as_str().unwrap(),
                column["format"].as_str().unwrap(),
                column["priority"].as_i64().unwrap(),
            )
        })
        .collect()
}

async fn of_a_builtin_kind(api: Context) {
    api.config_map(
        "a",
        json!({"data": {"x": "1", "y": "2"}, "metadata": {"labels": {"l": "1"}}}),
    )
    .await;
    let table = table(&api, &api.core("configmaps?labelSelector=l%3D1")).await;
    assert_eq!(
        heads(&table),
        [
            ("Name", "string", "name", 0),
            ("Data", "string", "", 0),
            ("Age", "string", "", 0)
        ]
    );
    let rows = table["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0]["cells"][0], "a");
    assert_eq!(rows[0]["cells"][1], 2);
    assert!(rows[0]["cells"][2].as_str().unwrap().ends_with('s'));
    assert_eq!(rows[0]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(rows[0]["object"]["metadata"]["name"], "a");
    assert!(table["metadata"]["resourceVersion"].is_string());
}

async fn of_a_custom_kind(api: Context) {
    api.define_things(anything()).await;
    api.create_thing("a", json!({})).await;
    let table = table(&api, &api.custom("things")).await;
    assert_eq!(
        heads(&table),
        [("Name", "string", "name", 0), ("Age", "date", "", 0)]
    );
    assert_eq!(table["rows"][0]["cells"][0], "a");
}

async fn of_printer_columns(api: Context) {
    let mut served = version("v1", anything());
    served["additionalPrinterColumns"] = json!([
        {"name": "Text", "type": "string", "jsonPath": ".spec.text"},
        {"name": "Number", "type": "integer", "jsonPath": ".spec.number", "priority": 1},
        {"name": "Flag", "type": "boolean", "jsonPath": ".spec.flag"},
        {"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"},
        {"name": "First", "type": "string", "jsonPath": ".spec.list[0].name"},
        {"name": "Missing", "type": "string", "jsonPath": ".spec.nope.nope"},
        {"name": "Dotted", "type": "string", "jsonPath": ".metadata.labels.example\\.com/x"},
        {"name": "When", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]);
    api.define(&api.things(json!([served]))).await;
    let spec =
        json!({"text": "t", "number": 7, "flag": true, "list": [{"name": "one"}, {"name": "two"}]});
    api.create_thing(
        "a",
        json!({"spec": spec, "metadata": {"labels": {"example.com/x": "y"}}}),
    )
    .await;
    let status = json!({"status": {"conditions": [{"type": "Other", "status": "False"}, {"type": "Ready", "status": "True"}]}});
    api.merge(&api.custom("things/a/status"), &status)
        .await
        .expect_code(200);
    let table = table(&api, &api.custom("things")).await;
    assert_eq!(
        heads(&table)[1..3],
        [("Text", "string", "", 0), ("Number", "integer", "", 1)]
    );
    let cells = table["rows"][0]["cells"].as_array().unwrap();
    assert_eq!(
        cells[..8],
        [
            json!("a"),
            json!("t"),
            json!(7),
            json!(true),
            json!("True"),
            json!("one"),
            Value::Null,
            json!("y")
        ]
    );
    assert!(cells[8].as_str().unwrap().ends_with('s'), "{cells:?}");
}

async fn of_one_object(api: Context) {
    let created = api.config_map("a", json!({})).await;
    let table = table(&api, &api.core("configmaps/a")).await;
    assert_eq!(
        table["metadata"]["resourceVersion"],
        created["metadata"]["resourceVersion"]
    );
    assert_eq!(table["rows"].as_array().map(Vec::len), Some(1));
}

async fn with_whole_objects(api: Context) {
    api.config_map("a", json!({"data": {"x": "1"}})).await;
    let table = table(&api, &api.core("configmaps/a?includeObject=Object")).await;
    assert_eq!(table["rows"][0]["object"]["data"], json!({"x": "1"}));
    assert_eq!(table["rows"][0]["object"]["kind"], "ConfigMap");
}

async fn without_objects(api: Context) {
    api.config_map("a", json!({})).await;
    let table = table(&api, &api.core("configmaps/a?includeObject=None")).await;
    assert_eq!(table["rows"][0]["object"], Value::Null);
}

async fn in_pages(api: Context) {
    api.define_things(anything()).await;
    for name in ["a", "b", "c"] {
        api.create_thing(name, json!({})).await;
    }
    let first = table(&api, &api.custom("things?limit=2")).await;
    assert_eq!(first["rows"].as_array().map(Vec::len), Some(2));
    assert_eq!(first["metadata"]["remainingItemCount"], 1);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let rest = table(
        &api,
        &api.custom(&format!("things?limit=2&continue={token}")),
    )
    .await;
    assert_eq!(rest["rows"][0]["cells"][0], "c");
}

async fn watched(api: Context) {
    api.define_things(anything()).await;
    api.create_thing("a", json!({})).await;
    api.create_thing("b", json!({})).await;
    let text = {
        let request = Request::get(api.custom("things?watch=true&timeoutSeconds=1"))
            .header("accept", TABLE)
            .body(Body::from(Vec::new()))
            .unwrap();
        let response = api.client.send(request).await.unwrap();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        String::from_utf8(bytes.to_vec()).unwrap()
    };
    let events: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(events.len(), 2, "{text}");
    for (event, name) in events.iter().zip(["a", "b"]) {
        assert_eq!(event["type"], "ADDED");
        assert_eq!(event["object"]["kind"], "Table");
        assert_eq!(event["object"]["rows"][0]["cells"][0], name);
    }
    assert!(events[0]["object"]["columnDefinitions"].is_array());
    assert_eq!(events[1]["object"]["columnDefinitions"], Value::Null);
}

async fn falls_back_to_objects(api: Context) {
    api.config_map("a", json!({})).await;
    let accept = "application/yes;as=Table,application/json";
    let (_, object) = accepting(&api, accept, &api.core("configmaps/a")).await;
    assert_eq!(object["kind"], "ConfigMap");
}

async fn aggregated_discovery(api: Context) {
    api.define_things(anything()).await;
    let accept =
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
    let (content_type, all) = accepting(&api, accept, "/apis").await;
    assert_eq!(
        content_type,
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    );
    assert_eq!(all["kind"], "APIGroupDiscoveryList");
    assert_eq!(all["apiVersion"], "apidiscovery.k8s.io/v2");
    let items = all["items"].as_array().unwrap();
    let mine = items
        .iter()
        .find(|item| item["metadata"]["name"] == *api.group);
    let version = &mine.expect("the group is there")["versions"][0];
    assert_eq!(version["version"], "v1");
    let things = &version["resources"][0];
    assert_eq!(things["resource"], "things");
    assert_eq!(things["scope"], "Namespaced");
    assert_eq!(
        things["responseKind"],
        json!({"group": api.group, "version": "v1", "kind": "Thing"})
    );
    assert_eq!(things["subresources"][0]["subresource"], "status");
    let (_, core) = accepting(&api, accept, "/api").await;
    let resources = core["items"][0]["versions"][0]["resources"]
        .as_array()
        .unwrap();
    let maps = resources
        .iter()
        .find(|it| it["resource"] == "configmaps")
        .unwrap();
    assert_eq!(maps["shortNames"], json!(["cm"]));
    assert_eq!(maps["singularResource"], "configmap");
}

/// The document of a group and version, by way of the index.
async fn document(api: &Context, root: &str) -> Value {
    let has = |answer: &crate::support::Answer| answer.body["paths"].get(root).is_some();
    let index = api.wait_for("/openapi/v3", has).await;
    let url = index.body["paths"][root]["serverRelativeURL"]
        .as_str()
        .unwrap()
        .to_owned();
    api.get(&url).await.expect_code(200)
}

/// The schema of a kind, by the kind it says it is of.
fn schema<'a>(document: &'a Value, kind: &str) -> &'a Value {
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let is_it = |schema: &&Value| {
        let kinds = schema["x-kubernetes-group-version-kind"].as_array();
        kinds.is_some_and(|kinds| kinds.iter().any(|it| it["kind"] == kind))
    };
    schemas.values().find(is_it).expect(kind)
}

async fn open_api_index(api: Context) {
    let index = api.get("/openapi/v3").await.expect_code(200);
    for root in ["api/v1", "apis/apps/v1", "apis/apiextensions.k8s.io/v1"] {
        let url = index["paths"][root]["serverRelativeURL"].as_str().unwrap();
        assert!(
            url.starts_with(&format!("/openapi/v3/{root}?hash=")),
            "{url}"
        );
    }
    api.get("/openapi/v3/apis/nope.example.com/v1")
        .await
        .expect_code(404);
}

async fn open_api_of_a_custom_kind(api: Context) {
    let described = json!({"type": "object", "description": "what it is", "properties": {
        "spec": {"type": "object", "properties": {"color": {"type": "string", "description": "how it looks"}}},
    }});
    api.define_things(described).await;
    let document = document(&api, &format!("apis/{}/v1", api.group)).await;
    let thing = schema(&document, "Thing");
    assert_eq!(thing["description"], "what it is");
    assert_eq!(
        thing["properties"]["spec"]["properties"]["color"]["description"],
        "how it looks"
    );
    assert_eq!(thing["properties"]["kind"]["type"], "string");
    let path = format!(
        "/apis/{}/v1/namespaces/{{namespace}}/things/{{name}}",
        api.group
    );
    let patch = &document["paths"][&path]["patch"];
    assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Thing");
    let parameters = patch["parameters"].as_array().unwrap();
    for name in ["dryRun", "fieldManager", "fieldValidation"] {
        assert!(parameters.iter().any(|it| it["name"] == name), "{name}");
    }
}

async fn open_api_of_builtin_kinds(api: Context) {
    let document = document(&api, "apis/apps/v1").await;
    let deployment = schema(&document, "Deployment");
    assert!(deployment["properties"]["spec"].is_object());
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let (_, spec) = schemas
        .iter()
        .find(|(name, _)| name.ends_with("PodSpec"))
        .unwrap();
    let containers = &spec["properties"]["containers"];
    assert_eq!(containers["type"], "array");
    assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(spec["required"], json!(["containers"]));
}

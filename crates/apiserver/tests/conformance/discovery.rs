//! What the server says it serves.

use kube::discovery::{Discovery, Scope, verbs};
use serde_json::{Value, json};

use crate::support::{Context, anything, cases, version};

cases!("discovery":
    version_of_the_server, health, core_versions, core_resources, groups, one_group,
    resources_of_a_group, unknown_groups, custom_group, custom_resources,
    custom_versions_are_ordered, definition_appears_and_disappears, kube_discovery_runs,
    kube_pinned_kind,
);

/// The entry of a resource in the answer to `/api/v1` or `/apis/group/version`.
fn resource<'a>(list: &'a Value, name: &str) -> &'a Value {
    let resources = list["resources"].as_array().expect("a list of resources");
    resources
        .iter()
        .find(|resource| resource["name"] == name)
        .unwrap_or(&Value::Null)
}

fn sorted_verbs(resource: &Value) -> Vec<&str> {
    let mut verbs: Vec<&str> = resource["verbs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|verb| verb.as_str().unwrap())
        .collect();
    verbs.sort_unstable();
    verbs
}

const ALL_VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

async fn version_of_the_server(api: Context) {
    let info = api.client.apiserver_version().await.unwrap();
    assert_eq!(info.major, "1");
    assert!(info.minor.parse::<u32>().unwrap() >= 33, "{info:?}");
    assert!(
        info.git_version.starts_with(&format!("v1.{}.", info.minor)),
        "{info:?}"
    );
}

async fn health(api: Context) {
    for path in ["/healthz", "/livez", "/readyz"] {
        let answer = api.get(path).await;
        assert_eq!((answer.code, answer.text.as_str()), (200, "ok"), "{path}");
    }
}

async fn core_versions(api: Context) {
    let versions = api.get("/api").await.expect_code(200);
    assert_eq!(versions["kind"], "APIVersions");
    assert_eq!(versions["versions"], json!(["v1"]));
}

async fn core_resources(api: Context) {
    let list = api.get("/api/v1").await.expect_code(200);
    assert_eq!(list["kind"], "APIResourceList");
    assert_eq!(list["groupVersion"], "v1");
    let config_maps = resource(&list, "configmaps");
    assert_eq!(config_maps["kind"], "ConfigMap");
    assert_eq!(config_maps["namespaced"], true);
    assert_eq!(config_maps["singularName"], "configmap");
    assert_eq!(sorted_verbs(config_maps), ALL_VERBS);
    assert_eq!(resource(&list, "namespaces")["namespaced"], false);
    assert_eq!(
        sorted_verbs(resource(&list, "pods/status")),
        ["get", "patch", "update"]
    );
    for name in ["secrets", "events", "serviceaccounts", "pods", "services"] {
        assert_eq!(resource(&list, name)["namespaced"], true, "{name}");
    }
}

async fn groups(api: Context) {
    let list = api.get("/apis").await.expect_code(200);
    assert_eq!(list["kind"], "APIGroupList");
    let groups = list["groups"].as_array().unwrap();
    for name in [
        "apps",
        "batch",
        "coordination.k8s.io",
        "events.k8s.io",
        "apiextensions.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
    ] {
        let group = groups
            .iter()
            .find(|group| group["name"] == name)
            .expect(name);
        let version = json!({"groupVersion": format!("{name}/v1"), "version": "v1"});
        assert_eq!(group["preferredVersion"], version);
        assert!(group["versions"].as_array().unwrap().contains(&version));
    }
}

async fn one_group(api: Context) {
    let group = api.get("/apis/apps").await.expect_code(200);
    let version = json!({"groupVersion": "apps/v1", "version": "v1"});
    assert_eq!(
        group,
        json!({
            "kind": "APIGroup", "apiVersion": "v1", "name": "apps", "versions": [version], "preferredVersion": version,
        })
    );
}

async fn resources_of_a_group(api: Context) {
    for (group, name, kind) in [
        ("apps", "deployments", "Deployment"),
        ("coordination.k8s.io", "leases", "Lease"),
        ("events.k8s.io", "events", "Event"),
        ("batch", "jobs", "Job"),
    ] {
        let list = api.get(&format!("/apis/{group}/v1")).await.expect_code(200);
        assert_eq!(list["groupVersion"], format!("{group}/v1"));
        assert_eq!(resource(&list, name)["kind"], kind);
        assert_eq!(sorted_verbs(resource(&list, name)), ALL_VERBS);
    }
    let list = api
        .get("/apis/authentication.k8s.io/v1")
        .await
        .expect_code(200);
    assert_eq!(sorted_verbs(resource(&list, "tokenreviews")), ["create"]);
}

async fn unknown_groups(api: Context) {
    let answer = api.get("/apis/nope.example.com").await;
    assert_eq!(
        (answer.code, answer.text.as_str()),
        (404, "404 page not found\n")
    );
    let message = "the server could not find the requested resource";
    api.get("/apis/apps/v9")
        .await
        .refused(404, "NotFound", message);
    api.get("/api/v9").await.refused(404, "NotFound", message);
}

async fn custom_group(api: Context) {
    api.define_things(anything()).await;
    let path = format!("/apis/{}", api.group);
    let group = api.wait_for(&path, |answer| answer.code == 200).await.body;
    let version = json!({"groupVersion": format!("{}/v1", api.group), "version": "v1"});
    assert_eq!(group["versions"], json!([version]));
    let listed = |answer: &crate::support::Answer| {
        let groups = answer.body["groups"].as_array();
        groups
            .into_iter()
            .flatten()
            .any(|group| group["name"] == api.group.as_str())
    };
    api.wait_for("/apis", listed).await;
}

async fn custom_resources(api: Context) {
    let mut definition = api.things(json!([version("v1", anything())]));
    definition["spec"]["names"]["shortNames"] = json!(["tg"]);
    definition["spec"]["names"]["categories"] = json!(["all"]);
    api.define(&definition).await;
    let path = format!("/apis/{}/v1", api.group);
    let list = api.wait_for(&path, |answer| answer.code == 200).await.body;
    let things = resource(&list, "things");
    assert_eq!(things["kind"], "Thing");
    assert_eq!(things["singularName"], "thing");
    assert_eq!(things["namespaced"], true);
    assert_eq!(things["shortNames"], json!(["tg"]));
    assert_eq!(things["categories"], json!(["all"]));
    assert_eq!(sorted_verbs(things), ALL_VERBS);
    assert_eq!(
        sorted_verbs(resource(&list, "things/status")),
        ["get", "patch", "update"]
    );
}

async fn custom_versions_are_ordered(api: Context) {
    let mut versions =
        ["v1beta1", "v2", "v1", "v10", "v1alpha3"].map(|name| version(name, anything()));
    for version in &mut versions[1..] {
        version["storage"] = json!(false);
    }
    api.define(&api.things(json!(versions))).await;
    let complete = |answer: &crate::support::Answer| {
        answer.body["versions"]
            .as_array()
            .is_some_and(|versions| versions.len() == 5)
    };
    let group = api
        .wait_for(&format!("/apis/{}", api.group), complete)
        .await
        .body;
    let order: Vec<&str> = group["versions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| v["version"].as_str().unwrap())
        .collect();
    assert_eq!(order, ["v10", "v2", "v1", "v1beta1", "v1alpha3"]);
    assert_eq!(group["preferredVersion"]["version"], "v10");
}

async fn definition_appears_and_disappears(api: Context) {
    let path = format!("/apis/{}", api.group);
    assert_eq!(api.get(&path).await.code, 404);
    api.define_things(anything()).await;
    api.wait_for(&path, |answer| answer.code == 200).await;
    api.delete(&api.things_definition()).await.expect_code(200);
    api.wait_for(&path, |answer| answer.code == 404).await;
}

async fn kube_discovery_runs(api: Context) {
    api.define_things(anything()).await;
    api.wait_for(&format!("/apis/{}/v1", api.group), |answer| {
        answer.code == 200
    })
    .await;
    // Other cases define and delete kinds meanwhile, so only our own groups are asked for.
    let discovery = Discovery::new(api.client.clone())
        .filter(&["", "apps", &api.group])
        .run()
        .await
        .unwrap();
    let kind = kube::core::GroupVersionKind::gvk(&api.group, "v1", "Thing");
    let (resource, capabilities) = discovery
        .resolve_gvk(&kind)
        .expect("the custom kind is found");
    assert_eq!(resource.plural, "things");
    assert_eq!(capabilities.scope, Scope::Namespaced);
    assert!(capabilities.supports_operation(verbs::WATCH));
    assert!(
        capabilities
            .subresources
            .iter()
            .any(|(subresource, _)| subresource.plural == "status")
    );
    let kind = kube::core::GroupVersionKind::gvk("", "v1", "Namespace");
    let (_, capabilities) = discovery.resolve_gvk(&kind).expect("Namespace is found");
    assert_eq!(capabilities.scope, Scope::Cluster);
}

async fn kube_pinned_kind(api: Context) {
    let kind = kube::core::GroupVersionKind::gvk("apps", "v1", "Deployment");
    let (resource, capabilities) = kube::discovery::pinned_kind(&api.client, &kind)
        .await
        .unwrap();
    assert_eq!(resource.plural, "deployments");
    assert_eq!(resource.api_version, "apps/v1");
    assert_eq!(capabilities.scope, Scope::Namespaced);
}

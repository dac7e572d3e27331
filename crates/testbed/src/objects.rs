//! Applies objects of any kind to a cluster.
//!
//! Failures panic, as in a test.

use std::time::Duration;

use kube::{
    Api, Client, Discovery,
    api::{DynamicObject, Patch, PatchParams},
    core::GroupVersionKind,
};
use serde_json::Value;

/// Time between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
/// How often the kinds are listed before a test gives up.
const DISCOVERIES: usize = 300;

/// Applies objects in order. Waits for kinds that are not served yet.
pub async fn apply(client: &Client, objects: Vec<Value>) {
    let mut discovery = discover(client).await;
    for object in objects {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let api_version = text(&object["apiVersion"]);
        let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
        let kind = GroupVersionKind::gvk(group, version, &text(&object["kind"]));
        let resource = loop {
            if let Some((resource, _)) = discovery.resolve_gvk(&kind) {
                break resource;
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
            discovery = discover(client).await;
        };
        let api: Api<DynamicObject> = match object["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
            None => Api::all_with(client.clone(), &resource),
        };
        let parameters = PatchParams::apply("test").force();
        let name = text(&object["metadata"]["name"]);
        while let Err(error) = api.patch(&name, &parameters, &Patch::Apply(&object)).await {
            // A real server answers 429 while a definition is new.
            let is_new = matches!(&error, kube::Error::Api(status) if status.code == 429);
            assert!(is_new, "{name}: {error}");
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }
}

async fn discover(client: &Client) -> Discovery {
    let mut left = DISCOVERIES;
    loop {
        left -= 1;
        // A real server lists a new group before it answers about its versions.
        match Discovery::new(client.clone()).run().await {
            Err(kube::Error::Api(status)) if status.code == 404 && left > 0 => {
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
            discovery => return discovery.expect("the kinds of the cluster can be listed"),
        }
    }
}

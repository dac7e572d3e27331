//! Sends one kind of request to a server in memory some times, for `cargo xtask counts`:
//! `count_apiserver REQUEST TIMES`.
#![expect(clippy::unwrap_used, reason = "only a test of costs runs it")]

use apiserver::{Options, Server};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

/// Objects that are there before the first request.
const STORED: usize = 50;

fn config_map(name: &str) -> ConfigMap {
    let data = json!({"a": "text", "b": "x".repeat(200)});
    let object = json!({"metadata": {"name": name, "labels": {"app": "shop"}}, "data": data});
    serde_json::from_value(object).unwrap()
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let request = arguments.next().unwrap();
    let times: usize = arguments.next().unwrap().parse().unwrap();
    let server = Server::new(Options {
        seed: Some(1),
        ..Options::default()
    });
    let maps: Api<ConfigMap> = Api::namespaced(server.client(), "default");
    let post = PostParams::default();
    for number in 0..STORED {
        let map = config_map(&format!("stored-{number}"));
        maps.create(&post, &map).await.unwrap();
    }
    for number in 0..times {
        match request.as_str() {
            "create" => {
                let map = config_map(&format!("new-{number:04}"));
                maps.create(&post, &map).await.unwrap();
            }
            "patch" => {
                let patch = json!({"data": {"a": format!("text-{number:04}")}});
                let (parameters, patch) = (PatchParams::default(), Patch::Merge(&patch));
                maps.patch("stored-7", &parameters, &patch).await.unwrap();
            }
            "list" => {
                let listed = maps.list(&ListParams::default()).await.unwrap();
                assert_eq!(listed.items.len(), STORED);
            }
            other => unreachable!("no request {other}"),
        }
    }
}

//! One file, several lives of a server.

#![expect(
    clippy::unwrap_used,
    reason = "a failing case is a panic, as in any other test"
)]

use std::path::Path;

use apiserver::{Options, Server};
use futures::AsyncBufReadExt;
use http::{Method, Request};
use http_body_util::BodyExt;
use serde_json::{Value, json};

struct Api(kube::Client);

impl Api {
    async fn send(&self, method: Method, path: &str, body: Value) -> (u16, Value) {
        let request = Request::builder().method(method).uri(path);
        let request = request.header("content-type", "application/json");
        let body = kube::client::Body::from(body.to_string().into_bytes());
        let response = self.0.send(request.body(body).unwrap()).await.unwrap();
        let code = response.status().as_u16();
        let bytes = response.into_body().collect().await.unwrap().to_bytes();
        (code, serde_json::from_slice(&bytes).unwrap_or_default())
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        self.send(Method::GET, path, json!({})).await
    }

    async fn post(&self, path: &str, body: Value) -> Value {
        let (code, object) = self.send(Method::POST, path, body).await;
        assert_eq!(code, 201, "{object}");
        object
    }

    /// The next event of a watch that begins at a revision.
    async fn first_event(&self, path: &str, revision: &str) -> Value {
        let path = format!("{path}?watch=true&resourceVersion={revision}");
        let request = Request::get(path).body(Vec::new()).unwrap();
        let mut lines = self.0.request_stream(request).await.unwrap();
        let mut line = String::new();
        lines.read_line(&mut line).await.unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

/// One life: with its runtime the server is gone, and the file free.
fn live<T>(file: &Path, history: usize, work: impl AsyncFnOnce(Server, Api) -> T) -> T {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let options = Options {
            history,
            ..Options::default()
        };
        let server = Server::open(file, options).await.unwrap();
        let api = Api(server.client());
        work(server, api).await
    })
}

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const THINGS: &str = "/apis/example.com/v1/namespaces/default/things";

fn named(name: &str) -> Value {
    json!({"metadata": {"name": name}})
}

fn revision(object: &Value) -> String {
    object["metadata"]["resourceVersion"]
        .as_str()
        .unwrap()
        .to_owned()
}

#[test]
fn kinds_objects_and_rights_are_there_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store");
    let token = live(&file, 1000, async |_, api| {
        let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"x": {"type": "integer"}}}}});
        let definition = json!({
            "metadata": {"name": "things.example.com"},
            "spec": {
                "group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
            },
        });
        api.post(
            "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
            definition,
        )
        .await;
        let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"x": 1}});
        api.post(THINGS, thing).await;
        let accounts = "/api/v1/namespaces/default/serviceaccounts";
        api.post(accounts, named("robot")).await;
        let request = api
            .post(&format!("{accounts}/robot/token"), json!({}))
            .await;
        request["status"]["token"].clone()
    });
    live(&file, 1000, async |_, api| {
        let (code, thing) = api.get(&format!("{THINGS}/a")).await;
        assert_eq!((code, &thing["spec"]["x"]), (200, &json!(1)));
        let bad = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "b"}, "spec": {"x": "y"}});
        assert_eq!(api.send(Method::POST, THINGS, bad).await.0, 422);
        let review = json!({"spec": {"token": token}});
        let review = api
            .post("/apis/authentication.k8s.io/v1/tokenreviews", review)
            .await;
        assert_eq!(review["status"]["authenticated"], true);
    });
}

#[test]
fn a_watch_goes_on_where_it_was_or_is_told_that_it_cannot() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store");
    let seen = live(&file, 1000, async |_, api| {
        let seen = revision(&api.post(MAPS, named("a")).await);
        api.post(MAPS, named("b")).await;
        seen
    });
    live(&file, 1000, async |_, api| {
        let event = api.first_event(MAPS, &seen).await;
        assert_eq!(event["type"], "ADDED");
        assert_eq!(event["object"]["metadata"]["name"], "b");
        for number in 0..5 {
            api.post(MAPS, named(&format!("c{number}"))).await;
        }
    });
    live(&file, 3, async |_, api| {
        let event = api.first_event(MAPS, &seen).await;
        assert_eq!(
            (&event["type"], &event["object"]["code"]),
            (&json!("ERROR"), &json!(410))
        );
    });
}

#[test]
fn revisions_rise_although_everything_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store");
    let last = live(&file, 1000, async |_, api| {
        api.post(MAPS, named("a")).await;
        let (code, list) = api.send(Method::DELETE, MAPS, json!({})).await;
        assert_eq!(code, 200);
        revision(&list)
    });
    live(&file, 1000, async |_, api| {
        let next = revision(&api.post(MAPS, named("a")).await);
        assert!(next.parse::<u64>().unwrap() > last.parse().unwrap());
    });
}

#[test]
fn what_the_last_life_left_to_delete_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store");
    // The first life ends as soon as the answers are there, whatever the collector has done by then.
    live(&file, 1000, async |_, api| {
        api.post("/api/v1/namespaces", named("gone")).await;
        let map = api
            .post("/api/v1/namespaces/gone/configmaps", named("a"))
            .await;
        let owner = api.post(MAPS, named("owner")).await;
        assert_eq!(map["metadata"]["namespace"], "gone");
        let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]});
        api.post(
            MAPS,
            json!({"metadata": {"name": "owned", "ownerReferences": [reference]}}),
        )
        .await;
        api.send(Method::DELETE, "/api/v1/namespaces/gone", json!({}))
            .await;
        api.send(Method::DELETE, &format!("{MAPS}/owner"), json!({}))
            .await;
    });
    live(&file, 1000, async |_, api| {
        for path in [
            "/api/v1/namespaces/gone".to_owned(),
            format!("{MAPS}/owned"),
        ] {
            while api.get(&path).await.0 != 404 {
                tokio::task::yield_now().await;
            }
        }
    });
}

#[test]
fn a_namespace_of_an_old_name_keeps_what_is_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store");
    live(&file, 1000, async |_, api| {
        api.post("/api/v1/namespaces", named("again")).await;
        api.send(Method::DELETE, "/api/v1/namespaces/again", json!({}))
            .await;
        while api.get("/api/v1/namespaces/again").await.0 != 404 {
            tokio::task::yield_now().await;
        }
        api.post("/api/v1/namespaces", named("again")).await;
        api.post("/api/v1/namespaces/again/configmaps", named("kept"))
            .await;
    });
    live(&file, 1000, async |_, api| {
        // When the collector has caught up with this, it has been past everything before.
        api.post("/api/v1/namespaces", named("last")).await;
        api.send(Method::DELETE, "/api/v1/namespaces/last", json!({}))
            .await;
        while api.get("/api/v1/namespaces/last").await.0 != 404 {
            tokio::task::yield_now().await;
        }
        assert_eq!(
            api.get("/api/v1/namespaces/again/configmaps/kept").await.0,
            200
        );
    });
}

#[test]
fn a_backup_is_made_while_writes_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("store");
    let copy = folder.path().join("copy");
    let before = live(&file, 1000, async |server, api| {
        for number in 0..50 {
            api.post(MAPS, named(&format!("before-{number}"))).await;
        }
        let writes = async {
            for number in 0..50 {
                api.post(MAPS, named(&format!("during-{number}"))).await;
            }
        };
        let (copied, ()) = futures::join!(server.backup(&copy), writes);
        copied.unwrap();
        50
    });
    live(&copy, 1000, async |_, api| {
        let (_, list) = api.get(MAPS).await;
        let names = list["items"].as_array().unwrap().iter();
        let names: Vec<&str> = names
            .map(|item| item["metadata"]["name"].as_str().unwrap())
            .collect();
        let kept = |start: &str| names.iter().filter(|name| name.starts_with(start)).count();
        assert_eq!(kept("before-"), before);
        // Of what was written meanwhile there is a beginning without gaps.
        let during = kept("during-");
        let all_there =
            (0..during).all(|number| names.contains(&format!("during-{number}").as_str()));
        assert!(all_there, "{names:?}");
    });
}

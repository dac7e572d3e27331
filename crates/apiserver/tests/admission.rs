//! Whoever set the server up has the last word on writes.

#![expect(
    clippy::unwrap_used,
    reason = "a failing case is a panic, as in any other test"
)]

use std::sync::Arc;

use apiserver::{Admission, AdmissionRequest, Operation, Options, Server, User};
use axum::body::Body;
use http::{Method, Request};
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tower::ServiceExt;

/// Only `boss` may change or delete what is marked as hers; nobody makes a `cursed` one.
struct RefusingAdmission;

impl Admission for RefusingAdmission {
    fn review(&self, request: &AdmissionRequest<'_>) -> Result<(), String> {
        let place = (
            request.group,
            request.version,
            request.resource,
            request.subresource,
        );
        if place != ("", "v1", "configmaps", "") {
            return Ok(());
        }
        if request.operation == Operation::Create && request.name == "cursed" {
            return Err(format!("nobody makes that in {}", request.namespace));
        }
        let is_hers = request
            .old_object
            .is_some_and(|old| old["data"]["owner"] == "boss");
        match is_hers && request.user.name != "boss" {
            true => Err(format!(
                "{} is no boss: {:?}",
                request.user.name, request.operation
            )),
            false => Ok(()),
        }
    }
}

async fn ask(server: &Server, user: &str, asked: (Method, &str), body: Value) -> (u16, Value) {
    let content_type = match asked.0 {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = Request::builder().method(asked.0).uri(asked.1);
    let request = request.header("content-type", content_type);
    let request = request.body(Body::from(body.to_string())).unwrap();
    let user = User::new(user, &[apiserver::MASTERS]);
    let response = server.router(user).oneshot(request).await.unwrap();
    let code = response.status().as_u16();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    (code, serde_json::from_slice(&bytes).unwrap())
}

const ALL: &str = "/api/v1/namespaces/default/configmaps";
const ONE: &str = "/api/v1/namespaces/default/configmaps/a";

fn server() -> Server {
    Server::new(Options {
        admission: Some(Arc::new(RefusingAdmission)),
        ..Options::default()
    })
}

#[tokio::test]
async fn refusals_are_forbidden_with_the_words_of_the_rule() {
    let server = server();
    let cursed = json!({"metadata": {"name": "cursed"}});
    for path in [ALL.to_owned(), format!("{ALL}?dryRun=All")] {
        let (code, status) = ask(&server, "eve", (Method::POST, &path), cursed.clone()).await;
        assert_eq!((code, &status["reason"]), (403, &json!("Forbidden")));
        let message = r#"configmaps "cursed" is forbidden: nobody makes that in default"#;
        assert_eq!(status["message"], message);
    }
}

#[tokio::test]
async fn every_kind_of_write_is_asked_about() {
    let server = server();
    let hers = json!({"metadata": {"name": "a"}, "data": {"owner": "boss"}});
    assert_eq!(
        ask(&server, "boss", (Method::POST, ALL), hers.clone())
            .await
            .0,
        201
    );
    let apply = format!("{ONE}?fieldManager=m");
    let change = json!({"data": {"owner": "eve"}});
    let writes = [
        (Method::PUT, ONE, hers),
        (Method::PATCH, ONE, change.clone()),
        (Method::PATCH, apply.as_str(), change),
        (Method::DELETE, ONE, json!({})),
        (Method::DELETE, ALL, json!({})),
    ];
    for (method, path, body) in writes {
        let (code, status) = ask(&server, "eve", (method.clone(), path), body.clone()).await;
        assert_eq!(code, 403, "{method} {path}: {status}");
        assert!(
            status["message"]
                .as_str()
                .unwrap()
                .contains("eve is no boss"),
            "{status}"
        );
        assert_eq!(
            ask(&server, "eve", (Method::GET, ONE), json!(null)).await.1["data"]["owner"],
            "boss"
        );
    }
    assert_eq!(
        ask(&server, "boss", (Method::DELETE, ONE), json!({}))
            .await
            .0,
        200
    );
}

#[tokio::test]
async fn the_server_itself_is_not_asked() {
    let server = server();
    let owner = json!({"metadata": {"name": "owner"}});
    let (_, owner) = ask(&server, "boss", (Method::POST, ALL), owner).await;
    let reference = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}]);
    let hers =
        json!({"metadata": {"name": "a", "ownerReferences": reference}, "data": {"owner": "boss"}});
    assert_eq!(ask(&server, "boss", (Method::POST, ALL), hers).await.0, 201);
    let path = format!("{ALL}/owner");
    assert_eq!(
        ask(&server, "eve", (Method::DELETE, &path), json!({}))
            .await
            .0,
        200
    );
    let gone = async {
        while ask(&server, "eve", (Method::GET, ONE), json!(null)).await.0 != 404 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(60), gone)
        .await
        .unwrap();
}

/// Refuses statuses that say more than the spec allows, where it looks at them.
struct StatusAdmission {
    looks: bool,
}

impl Admission for StatusAdmission {
    fn applies_to(&self, group: &str, resource: &str, subresource: &str) -> bool {
        self.looks && (group, resource, subresource) == ("example.com", "things", "status")
    }

    fn review(&self, request: &AdmissionRequest<'_>) -> Result<(), String> {
        assert!(self.looks, "asked about {}", request.name);
        let object = request.object.unwrap();
        match object["status"]["used"].as_i64() > object["spec"]["most"].as_i64() {
            true => Err("too much".to_owned()),
            false => Ok(()),
        }
    }
}

#[tokio::test]
async fn statuses_are_shown_with_their_objects_to_who_looks_at_them() {
    for (looks, expected) in [(true, [200, 200, 403]), (false, [200, 200, 200])] {
        let server = Server::new(Options {
            admission: Some(Arc::new(StatusAdmission { looks })),
            ..Options::default()
        });
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let definition = json!({
            "metadata": {"name": "things.example.com"},
            "spec": {"group": "example.com", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
                "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": open}}]},
        });
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        let post = |path: &'static str, body: Value| {
            let server = server.clone();
            async move { ask(&server, "eve", (Method::POST, path), body).await.0 }
        };
        assert_eq!(post(definitions, definition).await, 201);
        let thing = json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a"}, "spec": {"most": 2}});
        assert_eq!(post("/apis/example.com/v1/things", thing).await, 201);
        let path = "/apis/example.com/v1/things/a/status";
        for (used, code) in [1, 2, 3].into_iter().zip(expected) {
            let patch = json!({"status": {"used": used}});
            let answer = ask(&server, "eve", (Method::PATCH, path), patch).await;
            assert_eq!(answer.0, code, "{used}: {}", answer.1);
        }
    }
}

//! Odd paths, methods and parameters.

use http::Method;
use serde_json::json;

use crate::bad_input::JSON;
use crate::support::{Context, cases, config_map};

cases!("bad_requests":
    names_in_paths, dots_in_paths, slashes_in_paths, malformed_percent_encoding,
    methods_on_collections, methods_on_objects, malformed_delete_options,
    unknown_field_validation, too_long_field_manager, unknown_accept,
);

async fn names_in_paths(api: Context) {
    let long = "a".repeat(300);
    for name in ["Bad_Name", &long, "a%20b"] {
        let status = api
            .get(&api.core(&format!("configmaps/{name}")))
            .await
            .refused_somehow(404, "NotFound");
        assert_eq!(status["details"]["kind"], "configmaps");
    }
    assert!(
        api.get("/api/v1/namespaces/Bad_Name/configmaps")
            .await
            .names()
            .is_empty()
    );
}

async fn dots_in_paths(api: Context) {
    let answer = api.get(&api.core("configmaps/%2e%2e")).await;
    answer.refused(
        400,
        "BadRequest",
        "Name parameter invalid: \"..\": may not be '..'",
    );
}

async fn slashes_in_paths(api: Context) {
    api.config_map("a", json!({})).await;
    let message = "the server could not find the requested resource";
    api.get(&api.core("configmaps/a%2fb"))
        .await
        .refused(404, "NotFound", message);
    api.get("/api/v1//namespaces")
        .await
        .refused(404, "NotFound", message);
    assert_eq!(api.get(&api.core("configmaps/")).await.names(), ["a"]);
}

async fn malformed_percent_encoding(api: Context) {
    api.config_map("a", json!({})).await;
    assert_eq!(
        api.get(&api.core("configmaps?labelSelector=%zz"))
            .await
            .names(),
        ["a"]
    );
    api.get(&api.core("configmaps?labelSelector=%ff"))
        .await
        .refused_somehow(400, "BadRequest");
    api.get(&api.core("configmaps?fieldSelector=%ff"))
        .await
        .refused_somehow(400, "BadRequest");
}

const NOT_ALLOWED: &str = "the server does not allow this method on the requested resource";

async fn methods_on_collections(api: Context) {
    let refused = [
        (Method::PUT, api.core("configmaps")),
        (Method::PATCH, api.core("configmaps")),
        (Method::POST, "/api/v1/configmaps".to_owned()),
        (Method::DELETE, "/api/v1/configmaps".to_owned()),
        (Method::DELETE, "/api/v1/namespaces".to_owned()),
        (Method::OPTIONS, api.core("configmaps")),
    ];
    for (method, path) in refused {
        let answer = api
            .send(method, &path, JSON, config_map("a").to_string())
            .await;
        let status = answer.refused(405, "MethodNotAllowed", NOT_ALLOWED);
        assert_eq!(status["details"], json!({}));
    }
}

async fn methods_on_objects(api: Context) {
    api.config_map("a", json!({})).await;
    let answer = api.post(&api.core("configmaps/a"), &config_map("a")).await;
    answer.refused(405, "MethodNotAllowed", NOT_ALLOWED);
}

async fn malformed_delete_options(api: Context) {
    api.config_map("a", json!({})).await;
    let path = api.core("configmaps/a");
    let bodies = [
        "{bad",
        "[]",
        r#"{"kind":"DeleteOptions","apiVersion":"v1","gracePeriodSeconds":"x"}"#,
        r#"{"kind":"Foo","apiVersion":"v1"}"#,
    ];
    for body in bodies {
        api.send(Method::DELETE, &path, JSON, body)
            .await
            .refused_somehow(400, "BadRequest");
    }
    api.get(&path).await.expect_code(200);
}

async fn unknown_field_validation(api: Context) {
    let answer = api
        .post(
            &api.core("configmaps?fieldValidation=Nope"),
            &config_map("a"),
        )
        .await;
    let message = "CreateOptions.meta.k8s.io \"\" is invalid: fieldValidation: Unsupported value: \"Nope\": \
                   supported values: \"\", \"Ignore\", \"Strict\", \"Warn\"";
    answer.refused(422, "Invalid", message);
}

async fn too_long_field_manager(api: Context) {
    let path = api.core(&format!("configmaps?fieldManager={}", "a".repeat(129)));
    let message = "CreateOptions.meta.k8s.io \"\" is invalid: fieldManager: Too long: may not be more than 128 bytes";
    api.post(&path, &config_map("a"))
        .await
        .refused(422, "Invalid", message);
}

async fn unknown_accept(api: Context) {
    let request = http::Request::get(api.core("configmaps")).header("accept", "text/plain");
    let response = api
        .client
        .send(request.body(kube::client::Body::empty()).unwrap())
        .await
        .unwrap();
    assert_eq!(response.status(), 406);
}

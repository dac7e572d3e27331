//! Any bytes, paths, methods and headers, in any order: the server stays up, never panics, and never
//! takes the blame for what a client did wrong.

#![expect(
    clippy::unwrap_used,
    reason = "a failing case is a panic, as in any other test"
)]

use apiserver::Server;
use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use proptest::{collection::vec, option, prelude::*, sample::select};
use serde_json::{Value, json};
use tower::ServiceExt;

/// One request, as it comes out of the dice.
#[derive(Debug, Clone)]
struct Attempt {
    method: String,
    path: String,
    headers: Vec<(&'static str, Vec<u8>)>,
    body: Vec<u8>,
}

fn method() -> impl Strategy<Value = String> {
    let known = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
    prop_oneof![8 => select(known.to_vec()).prop_map(str::to_owned), 1 => "[A-Z]{1,8}"]
}

fn segment() -> impl Strategy<Value = String> {
    let known = [
        "api",
        "apis",
        "v1",
        "namespaces",
        "default",
        "configmaps",
        "secrets",
        "a",
        "things",
        "example.com",
        "status",
        "scale",
        "token",
        "serviceaccounts",
        "pods",
        "events",
        "roles",
        "events.k8s.io",
        "rbac.authorization.k8s.io",
        "clusterroles",
        "clusterrolebindings",
        "authorization.k8s.io",
        "selfsubjectaccessreviews",
        "selfsubjectrulesreviews",
        "authentication.k8s.io",
        "tokenreviews",
        "apiextensions.k8s.io",
        "openapi",
        "v3",
        "customresourcedefinitions",
        "things.example.com",
        "coordination.k8s.io",
        "leases",
        "version",
        "healthz",
        "..",
        ".",
        "",
        "%2e%2e",
        "%00",
        "%ff",
        "%",
        "finalize",
        "admissionregistration.k8s.io",
        "validatingadmissionpolicies",
    ];
    prop_oneof![
        12 => select(known.to_vec()).prop_map(str::to_owned),
        1 => "[a-zA-Z0-9._~!$&'()*+,;=:@%-]{0,20}",
    ]
}

fn path() -> impl Strategy<Value = String> {
    let usual = [
        "/api/v1/namespaces/default/configmaps",
        "/api/v1/namespaces/default/configmaps/a",
        "/api/v1/namespaces/default/secrets/a",
        "/api/v1/namespaces",
        "/api/v1/namespaces/default/events",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com",
        "/apis/example.com/v1/namespaces/default/things",
        "/apis/example.com/v1/namespaces/default/things/a",
        "/apis/example.com/v1/namespaces/default/things/a/status",
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
        "/apis/rbac.authorization.k8s.io/v1/clusterroles",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
        "/api/v1/namespaces/default/serviceaccounts",
        "/api/v1/namespaces/default/serviceaccounts/a/token",
    ];
    prop_oneof![
        3 => select(usual.to_vec()).prop_map(str::to_owned),
        2 => vec(segment(), 0..7).prop_map(|parts| format!("/{}", parts.join("/"))),
    ]
}

fn query() -> impl Strategy<Value = String> {
    let names = [
        "watch",
        "limit",
        "continue",
        "resourceVersion",
        "resourceVersionMatch",
        "labelSelector",
        "fieldSelector",
        "timeoutSeconds",
        "sendInitialEvents",
        "allowWatchBookmarks",
        "dryRun",
        "fieldManager",
        "fieldValidation",
        "propagationPolicy",
        "force",
        "pretty",
    ];
    let values = prop_oneof![
        4 => select(vec![
            "", "1", "0", "true", "false", "-1", "99999999999999999999", "Exact", "NotOlderThan",
            "All", "Strict", "a=b", "a+in+(b,c)", "!a", "metadata.name=a", "spec.x=1", "((", "Orphan",
            "eyJydiI6MSwiYWZ0ZXIiOiJhIn0",
        ]).prop_map(str::to_owned),
        1 => "[a-zA-Z0-9%!=(),.+-]{0,24}",
    ];
    let pair = (select(names.to_vec()), values).prop_map(|(name, value)| format!("{name}={value}"));
    vec(pair, 0..4).prop_map(|pairs| pairs.join("&"))
}

/// JSON with fields that mean something somewhere.
fn object() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        select(vec![
            "",
            "a",
            "v1",
            "ConfigMap",
            "Thing",
            "example.com/v1",
            "object",
            "/spec/x",
            "add",
            "x"
        ])
        .prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    let names = [
        "apiVersion",
        "kind",
        "metadata",
        "name",
        "namespace",
        "generateName",
        "labels",
        "data",
        "annotations",
        "finalizers",
        "ownerReferences",
        "uid",
        "resourceVersion",
        "spec",
        "status",
        "rules",
        "verbs",
        "apiGroups",
        "subjects",
        "roleRef",
        "resourceAttributes",
        "op",
        "path",
        "value",
        "preconditions",
        "managedFields",
        "deletionTimestamp",
        "stringData",
        "versions",
        "schema",
        "openAPIV3Schema",
        "properties",
        "group",
        "names",
        "plural",
        "scope",
        "type",
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((select(names.to_vec()), inner), 0..6).prop_map(|fields| fields
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect()),
        ]
    })
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        5 => object().prop_map(|value| value.to_string().into_bytes()),
        3 => object().prop_map(|value| {
            let mut whole = json!({"metadata": {"name": "a"}, "spec": {"x": 1}});
            if let (Some(whole), Value::Object(more)) = (whole.as_object_mut(), value) {
                whole.extend(more);
            }
            whole.to_string().into_bytes()
        }),
        1 => vec(any::<u8>(), 0..64),
        1 => Just(Vec::new()),
    ]
}

fn attempt() -> impl Strategy<Value = Attempt> {
    let content_types = vec![
        "application/json",
        "application/yaml",
        "application/merge-patch+json",
        "application/json-patch+json",
        "application/apply-patch+yaml",
        "application/strategic-merge-patch+json",
        "application/vnd.kubernetes.protobuf",
        "text/plain",
        "",
    ];
    let accepts = vec![
        "application/json",
        "*/*",
        "application/json;as=Table;v=v1;g=meta.k8s.io",
        "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
        "text/html",
        ";;,",
        "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io",
    ];
    let headers = (
        select(content_types),
        option::of(select(accepts)),
        option::weighted(0.1, vec(any::<u8>(), 0..12)),
        option::weighted(
            0.1,
            select(vec![
                "alice",
                "system:serviceaccount:default:a",
                "system:anonymous",
            ]),
        ),
    );
    (method(), path(), query(), headers, body()).prop_map(|(method, path, query, headers, body)| {
        let (content_type, accept, any, user) = headers;
        let mut all = vec![("content-type", content_type.as_bytes().to_vec())];
        all.extend(accept.map(|accept| ("accept", accept.as_bytes().to_vec())));
        all.extend(any.map(|bytes| ("impersonate-group", bytes)));
        all.extend(user.map(|user| ("impersonate-user", user.as_bytes().to_vec())));
        let path = format!("{path}?{query}");
        Attempt {
            method,
            path,
            headers: all,
            body,
        }
    })
}

/// A server on which things can be made.
async fn prepared() -> Server {
    let server = Server::in_memory();
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "metadata": {"name": "things.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "things", "kind": "Thing"},
            "versions": [{
                "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": open, "status": open}}},
            }],
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let request = Request::post(path).header("content-type", "application/json");
    let request = request.body(Body::from(definition.to_string())).unwrap();
    let response = server
        .router(apiserver::User::in_process())
        .oneshot(request)
        .await
        .unwrap();
    assert_eq!(response.status(), StatusCode::CREATED);
    server
}

/// Sends it and judges the answer.
async fn try_out(server: &Server, attempt: &Attempt) {
    let mut request = Request::builder()
        .method(attempt.method.as_str())
        .uri(&attempt.path);
    for (name, value) in &attempt.headers {
        request = request.header(*name, value.as_slice());
    }
    // What is no HTTP never gets as far as the router.
    let Ok(request) = request.body(Body::from(attempt.body.clone())) else {
        return;
    };
    let response = server
        .router(apiserver::User::in_process())
        .oneshot(request)
        .await
        .unwrap();
    let code = response.status();
    if !code.is_server_error() {
        return;
    }
    if attempt.method == "HEAD" {
        // An answer without a body: the code is all there is to judge.
        assert_eq!(code, StatusCode::NOT_IMPLEMENTED, "{attempt:?}");
        return;
    }
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let status: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    assert_eq!(status["kind"], "Status", "{attempt:?}: {code}");
    let message = status["message"].as_str().unwrap_or_default();
    let is_known = match code {
        StatusCode::NOT_IMPLEMENTED => status["reason"] == "NotImplemented",
        StatusCode::GATEWAY_TIMEOUT => message.contains("Too large resource version"),
        // A real server says 500 about these, so this one does too.
        StatusCode::INTERNAL_SERVER_ERROR => [
            "resourceVersion: Invalid value",
            "resourceVersion should not be set on objects to be created",
            "strconv.ParseUint",
        ]
        .iter()
        .any(|known| message.starts_with(known)),
        _ => false,
    };
    assert!(is_known, "{attempt:?}: {code} {message}");
}

/// Runs attempts on one server, with a clock that jumps over every wait.
fn check(attempts: &[Attempt]) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(async {
        let server = prepared().await;
        for attempt in attempts {
            try_out(&server, attempt).await;
        }
        let request = Request::get("/healthz").body(Body::empty()).unwrap();
        let response = server
            .router(apiserver::User::in_process())
            .oneshot(request)
            .await
            .unwrap();
        assert_eq!(response.status(), StatusCode::OK);
    });
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn nothing_a_client_sends_is_the_servers_fault(attempts in vec(attempt(), 1..25)) {
        check(&attempts);
    }
}

#[test]
fn admission_policies_are_refused_loudly() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let code = runtime.block_on(async {
        let path = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
        let request = Request::post(path).body(Body::empty()).unwrap();
        let response = Server::in_memory()
            .router(apiserver::User::in_process())
            .oneshot(request)
            .await;
        response.unwrap().status()
    });
    assert_eq!(code, StatusCode::NOT_IMPLEMENTED);
}

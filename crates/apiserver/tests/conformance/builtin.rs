//! What is special about single built-in kinds.

use serde_json::{Value, json};

use crate::support::{Context, cases, config_map, resource_version};

cases!("builtin":
    secret_takes_plain_text, secret_type_is_opaque, secret_patch_takes_plain_text,
    secret_data_must_be_base64, secret_keys_are_checked, secret_type_cannot_change,
    config_map_values_are_text, config_map_keys_are_checked, immutable_objects_cannot_change,
    core_event_is_an_event, event_is_a_core_event, event_needs_a_time,
    event_belongs_to_its_object_namespace, lease_is_taken_by_one, lease_needs_a_version,
    lease_can_be_created_by_replace, lease_keeps_microseconds,
    deployment_has_generation_and_status, workloads_are_stored, spec_and_status_are_objects,
    namespace_ignores_its_namespace,
    review_of_a_bad_token, review_needs_a_token, review_of_access,
    review_of_access_needs_a_subject, reviews_can_only_be_created,
);

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}})
}

async fn create_secret(api: &Context, fields: Value) -> crate::support::Answer {
    let mut body = secret("s");
    crate::support::overlay(&mut body, &fields);
    api.post(&api.core("secrets"), &body).await
}

async fn secret_takes_plain_text(api: Context) {
    let fields =
        json!({"stringData": {"a": "hello", "b": "x"}, "data": {"b": "eQ==", "c": "eg=="}});
    let created = create_secret(&api, fields).await.expect_code(201);
    assert_eq!(
        created["data"],
        json!({"a": "aGVsbG8=", "b": "eA==", "c": "eg=="})
    );
    assert_eq!(created["stringData"], Value::Null);
}

async fn secret_type_is_opaque(api: Context) {
    let created = create_secret(&api, json!({})).await.expect_code(201);
    assert_eq!(created["type"], "Opaque");
}

async fn secret_patch_takes_plain_text(api: Context) {
    create_secret(&api, json!({"stringData": {"a": "1", "b": "2"}}))
        .await
        .expect_code(201);
    let path = api.core("secrets/s");
    let patched = api
        .merge(&path, &json!({"stringData": {"a": "bye"}}))
        .await
        .expect_code(200);
    assert_eq!(patched["data"], json!({"a": "Ynll", "b": "Mg=="}));
    let patched = api
        .merge(&path, &json!({"data": {"a": null}}))
        .await
        .expect_code(200);
    assert_eq!(patched["data"], json!({"b": "Mg=="}));
}

async fn secret_data_must_be_base64(api: Context) {
    let answer = create_secret(&api, json!({"data": {"b": "%%%"}})).await;
    let status = answer.refused_somehow(400, "BadRequest");
    let message = status["message"].as_str().unwrap();
    assert!(
        message.starts_with("Secret in version \"v1\" cannot be handled as a Secret: "),
        "{message}"
    );
    assert!(message.contains("illegal base64 data"), "{message}");
}

const CONFIG_KEY: &str = "a valid config key must consist of alphanumeric characters, '-', '_' or '.' \
    (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')";

async fn secret_keys_are_checked(api: Context) {
    let answer = create_secret(&api, json!({"data": {"bad key": "eQ=="}})).await;
    let message =
        format!("Secret \"s\" is invalid: data[bad key]: Invalid value: \"bad key\": {CONFIG_KEY}");
    let status = answer.refused(422, "Invalid", &message);
    assert_eq!(status["details"]["causes"][0]["field"], "data[bad key]");
}

async fn secret_type_cannot_change(api: Context) {
    create_secret(&api, json!({})).await.expect_code(201);
    let answer = api
        .merge(&api.core("secrets/s"), &json!({"type": "other"}))
        .await;
    let message = "Secret \"s\" is invalid: type: Invalid value: \"other\": field is immutable";
    answer.refused(422, "Invalid", message);
}

async fn config_map_values_are_text(api: Context) {
    let mut body = config_map("a");
    body["data"] = json!({"k": 1});
    let status = api
        .post(&api.core("configmaps"), &body)
        .await
        .refused_somehow(400, "BadRequest");
    let expected = "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number";
    assert!(
        status["message"].as_str().unwrap().starts_with(expected),
        "{status}"
    );
}

async fn spec_and_status_are_objects(api: Context) {
    let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";
    let cases = [
        ("/api/v1/namespaces", "Namespace", "spec"),
        ("/api/v1/namespaces", "Namespace", "status"),
        (leases, "Lease", "spec"),
    ];
    for (path, kind, field) in cases {
        let body = json!({"metadata": {"name": "a"}, field: false});
        let status = api.post(path, &body).await;
        let status = status.refused_somehow(400, "BadRequest");
        let expected = format!(
            "{kind} in version \"v1\" cannot be handled as a {kind}: json: cannot unmarshal bool"
        );
        let message = status["message"].as_str().unwrap();
        assert!(message.starts_with(&expected), "{message}");
    }
    // A kind that has no spec ignores it like any unknown field.
    let body = json!({"metadata": {"name": "a"}, "spec": false});
    let created = api.post(&api.core("serviceaccounts"), &body).await;
    assert_eq!(created.expect_code(201)["spec"], Value::Null);
}

async fn config_map_keys_are_checked(api: Context) {
    let mut body = config_map("a");
    body["data"] = json!({"bad key": "x"});
    let answer = api.post(&api.core("configmaps"), &body).await;
    let message = format!(
        "ConfigMap \"a\" is invalid: data[bad key]: Invalid value: \"bad key\": {CONFIG_KEY}"
    );
    answer.refused(422, "Invalid", &message);
    let mut body = config_map("a");
    body["data"] = json!({"k": "x"});
    body["binaryData"] = json!({"k": "eQ=="});
    let answer = api.post(&api.core("configmaps"), &body).await;
    let message = "ConfigMap \"a\" is invalid: data[k]: Invalid value: \"k\": duplicate of key present in binaryData";
    answer.refused(422, "Invalid", message);
}

async fn immutable_objects_cannot_change(api: Context) {
    api.config_map("a", json!({"immutable": true, "data": {"k": "v"}}))
        .await;
    create_secret(&api, json!({"immutable": true, "data": {"k": "eQ=="}}))
        .await
        .expect_code(201);
    let answer = api
        .merge(&api.core("configmaps/a"), &json!({"data": {"k": "w"}}))
        .await;
    let message =
        "ConfigMap \"a\" is invalid: data: Forbidden: field is immutable when `immutable` is set";
    answer.refused(422, "Invalid", message);
    let answer = api
        .merge(&api.core("secrets/s"), &json!({"data": {"k": "eg=="}}))
        .await;
    let message =
        "Secret \"s\" is invalid: data: Forbidden: field is immutable when `immutable` is set";
    answer.refused(422, "Invalid", message);
    let patch = json!({"metadata": {"labels": {"l": "1"}}});
    api.merge(&api.core("configmaps/a"), &patch)
        .await
        .expect_code(200);
}

fn events(api: &Context, rest: &str) -> String {
    format!(
        "/apis/events.k8s.io/v1/namespaces/{}/events{rest}",
        api.namespace
    )
}

fn object_reference(api: &Context) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "namespace": api.namespace})
}

async fn core_event_is_an_event(api: Context) {
    let body = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": object_reference(&api),
        "reason": "Why", "message": "what", "type": "Normal", "count": 2, "source": {"component": "me", "host": "h"},
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-02T00:00:00Z",
    });
    let core = api.post(&api.core("events"), &body).await.expect_code(201);
    let event = api.get(&events(&api, "/e")).await.expect_code(200);
    assert_eq!(event["apiVersion"], "events.k8s.io/v1");
    assert_eq!(event["metadata"]["uid"], core["metadata"]["uid"]);
    assert_eq!(event["regarding"], core["involvedObject"]);
    assert_eq!(event["note"], "what");
    assert_eq!(event["reason"], "Why");
    assert_eq!(event["type"], "Normal");
    assert_eq!(event["deprecatedCount"], 2);
    assert_eq!(
        event["deprecatedSource"],
        json!({"component": "me", "host": "h"})
    );
    assert_eq!(event["deprecatedFirstTimestamp"], "2026-01-01T00:00:00Z");
    assert_eq!(event["deprecatedLastTimestamp"], "2026-01-02T00:00:00Z");
    assert_eq!(event["message"], Value::Null);
}

async fn event_is_a_core_event(api: Context) {
    let body = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"}, "regarding": object_reference(&api),
        "reason": "Why", "note": "what", "type": "Warning", "action": "Act", "eventTime": "2026-01-01T00:00:00.123456Z",
        "reportingController": "example.com/c", "reportingInstance": "c-1",
        "related": {"kind": "Secret", "name": "x", "namespace": api.namespace},
        "series": {"count": 3, "lastObservedTime": "2026-01-01T00:00:01.000000Z"},
    });
    let event = api.post(&events(&api, ""), &body).await.expect_code(201);
    let core = api.get(&api.core("events/e")).await.expect_code(200);
    assert_eq!(core["apiVersion"], "v1");
    assert_eq!(core["metadata"], event["metadata"]);
    assert_eq!(core["involvedObject"], event["regarding"]);
    assert_eq!(core["message"], "what");
    assert_eq!(core["reportingComponent"], "example.com/c");
    for same in [
        "reason",
        "type",
        "action",
        "eventTime",
        "series",
        "related",
        "reportingInstance",
    ] {
        assert_eq!(core[same], body[same], "{same}");
    }
    assert_eq!(core["note"], Value::Null);
}

async fn event_needs_a_time(api: Context) {
    let body = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e"}, "regarding": object_reference(&api),
        "reason": "Why", "note": "what", "type": "Normal",
    });
    let answer = api.post(&events(&api, ""), &body).await;
    let status = answer.refused(
        422,
        "Invalid",
        "Event \"e\" is invalid: eventTime: Required value",
    );
    assert_eq!(status["details"]["causes"][0]["field"], "eventTime");
}

async fn event_belongs_to_its_object_namespace(api: Context) {
    let mut involved = object_reference(&api);
    involved["namespace"] = json!("other");
    let body = json!({"apiVersion": "v1", "kind": "Event", "metadata": {"name": "e"}, "involvedObject": involved});
    let answer = api.post(&api.core("events"), &body).await;
    let message = "Event \"e\" is invalid: involvedObject.namespace: Invalid value: \"other\": does not match event.namespace";
    answer.refused(422, "Invalid", message);
}

fn leases(api: &Context, rest: &str) -> String {
    format!(
        "/apis/coordination.k8s.io/v1/namespaces/{}/leases{rest}",
        api.namespace
    )
}

fn lease(holder: &str) -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}, "spec": {"holderIdentity": holder}})
}

async fn lease_is_taken_by_one(api: Context) {
    let seen = api
        .post(&leases(&api, ""), &lease("nobody"))
        .await
        .expect_code(201);
    let candidate = |name: &str| {
        let (api, mut body) = (api.clone(), seen.clone());
        body["spec"]["holderIdentity"] = json!(name);
        async move { api.put(&leases(&api, "/l"), &body).await.code }
    };
    let (first, second) = futures::join!(candidate("one"), candidate("two"));
    let mut codes = [first, second];
    codes.sort_unstable();
    assert_eq!(codes, [200, 409]);
}

async fn lease_needs_a_version(api: Context) {
    api.post(&leases(&api, ""), &lease("one"))
        .await
        .expect_code(201);
    let answer = api.put(&leases(&api, "/l"), &lease("two")).await;
    let message = "leases.coordination.k8s.io \"l\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update";
    answer.refused(422, "Invalid", message);
}

async fn lease_can_be_created_by_replace(api: Context) {
    let created = api
        .put(&leases(&api, "/l"), &lease("one"))
        .await
        .expect_code(201);
    assert!(!resource_version(&created).is_empty());
    api.get(&leases(&api, "/l")).await.expect_code(200);
}

async fn lease_keeps_microseconds(api: Context) {
    let mut body = lease("one");
    body["spec"]["renewTime"] = json!("2026-01-01T00:00:00.123456Z");
    let created = api.post(&leases(&api, ""), &body).await.expect_code(201);
    assert_eq!(created["spec"]["renewTime"], "2026-01-01T00:00:00.123456Z");
}

/// A template for one container, and the selector that fits it.
fn workload(kind: &str, group_version: &str) -> Value {
    json!({
        "apiVersion": group_version, "kind": kind, "metadata": {"name": "w"},
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        },
    })
}

async fn deployment_has_generation_and_status(api: Context) {
    let path = format!("/apis/apps/v1/namespaces/{}/deployments", api.namespace);
    let mut body = workload("Deployment", "apps/v1");
    body["spec"]["replicas"] = json!(1);
    let created = api.post(&path, &body).await.expect_code(201);
    assert_eq!(created["metadata"]["generation"], 1);
    let main = format!("{path}/w");
    let patch = json!({"spec": {"replicas": 3}, "status": {"readyReplicas": 1}});
    let patched = api.merge(&main, &patch).await.expect_code(200);
    assert_eq!(patched["metadata"]["generation"], 2);
    assert_eq!(patched["status"]["readyReplicas"], Value::Null);
    let patch = json!({"spec": {"replicas": 5}, "status": {"observedGeneration": 2, "replicas": 3, "readyReplicas": 3}});
    let patched = api
        .merge(&format!("{main}/status"), &patch)
        .await
        .expect_code(200);
    assert_eq!(patched["spec"]["replicas"], 3);
    assert_eq!(patched["status"]["readyReplicas"], 3);
    assert_eq!(patched["metadata"]["generation"], 2);
}

async fn workloads_are_stored(api: Context) {
    let mut stateful = workload("StatefulSet", "apps/v1");
    stateful["spec"]["serviceName"] = json!("s");
    let template =
        json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "w"}, "spec": {"template": template}});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "w"}, "spec": {"ports": [{"port": 80}]}});
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "w"}});
    let apps = format!("/apis/apps/v1/namespaces/{}", api.namespace);
    let stored = [
        (format!("{apps}/statefulsets"), stateful),
        (
            format!("{apps}/daemonsets"),
            workload("DaemonSet", "apps/v1"),
        ),
        (
            format!("{apps}/replicasets"),
            workload("ReplicaSet", "apps/v1"),
        ),
        (
            format!("/apis/batch/v1/namespaces/{}/jobs", api.namespace),
            job,
        ),
        (api.core("services"), service),
        (api.core("serviceaccounts"), account),
    ];
    for (path, body) in stored {
        let created = api.post(&path, &body).await.expect_code(201);
        assert_eq!(created["kind"], body["kind"]);
        assert_eq!(api.get(&path).await.names(), ["w"]);
    }
}

async fn namespace_ignores_its_namespace(api: Context) {
    let name = format!("{}-x", api.namespace);
    let body = json!({"metadata": {"name": name, "namespace": "ignored"}});
    let created = api.post("/api/v1/namespaces", &body).await.expect_code(201);
    assert_eq!(created["metadata"]["namespace"], Value::Null);
}

const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

async fn review_of_a_bad_token(api: Context) {
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "nonsense"}});
    let review = api.post(TOKEN_REVIEWS, &body).await.expect_code(201);
    assert_eq!(review["kind"], "TokenReview");
    assert_eq!(review["spec"], json!({"token": "nonsense"}));
    assert_ne!(review["status"]["authenticated"], true);
    assert_eq!(review["metadata"]["name"], Value::Null);
}

async fn review_needs_a_token(api: Context) {
    let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {}});
    let message = "token is required for TokenReview in authentication";
    api.post(TOKEN_REVIEWS, &body)
        .await
        .refused(400, "BadRequest", message);
}

async fn review_of_access(api: Context) {
    let spec = json!({"user": "nobody", "resourceAttributes": {"verb": "get", "resource": "secrets", "namespace": "x"}});
    let body = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec});
    let review = api.post(ACCESS_REVIEWS, &body).await.expect_code(201);
    assert_eq!(review["kind"], "SubjectAccessReview");
    assert_eq!(review["spec"], spec);
    assert_eq!(review["status"]["allowed"], false);
}

async fn review_of_access_needs_a_subject(api: Context) {
    let spec = json!({"resourceAttributes": {"verb": "get"}});
    let body = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec});
    let status = api
        .post(ACCESS_REVIEWS, &body)
        .await
        .refused_somehow(422, "Invalid");
    assert_eq!(status["details"]["causes"][0]["field"], "spec.user");
    let body = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": "nobody"}});
    let status = api
        .post(ACCESS_REVIEWS, &body)
        .await
        .refused_somehow(422, "Invalid");
    assert_eq!(
        status["details"]["causes"][0]["field"],
        "spec.resourceAttributes"
    );
}

async fn reviews_can_only_be_created(api: Context) {
    let message = "the server does not allow this method on the requested resource";
    api.get(TOKEN_REVIEWS)
        .await
        .refused(405, "MethodNotAllowed", message);
    api.get(ACCESS_REVIEWS)
        .await
        .refused(405, "MethodNotAllowed", message);
}

//! Questions about rights and tokens.

use serde_json::{Value, json};

use crate::access::{alice, allow, rule};
use crate::support::{Answer, Context, cases};

cases!("access_reviews":
    access_of_somebody, access_of_oneself, access_needs_a_question, access_is_one_question,
    access_in_a_namespace, access_stays_in_its_namespace, rules_of_oneself, rules_need_a_namespace, who_am_i, token_of_an_account,
    token_of_a_missing_account, token_of_a_deleted_account, token_for_somebody_else,
    tokens_live_ten_minutes, tokens_need_a_right,
);

const ACCESS: &str = "/apis/authorization.k8s.io/v1";

fn question(api: &Context, verb: &str) -> Value {
    json!({"verb": verb, "resource": "configmaps", "namespace": api.namespace})
}

async fn ask(api: &Context, plural: &str, spec: Value) -> Answer {
    api.post(&format!("{ACCESS}/{plural}"), &json!({"spec": spec}))
        .await
}

/// Asks until the answer is yes.
async fn ask_until_allowed(api: &Context, plural: &str, spec: Value) -> Value {
    loop {
        let review = ask(api, plural, spec.clone()).await.expect_code(201);
        if review["status"]["allowed"] == true {
            return review;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

async fn access_of_somebody(api: Context) {
    allow(&api, json!([rule("configmaps", &["list"])])).await;
    let name = alice(&api);
    let spec = json!({"user": name, "resourceAttributes": question(&api, "list")});
    let review = ask_until_allowed(&api, "subjectaccessreviews", spec).await;
    let reason = format!(
        "RBAC: allowed by RoleBinding \"allowed/{}\" of Role \"allowed\" to User {name:?}",
        api.namespace
    );
    assert_eq!(review["status"]["reason"], reason);
    let spec = json!({"user": name, "resourceAttributes": question(&api, "delete")});
    let review = ask(&api, "subjectaccessreviews", spec)
        .await
        .expect_code(201);
    assert_eq!(review["status"], json!({"allowed": false}));
}

async fn access_of_oneself(api: Context) {
    allow(&api, json!([rule("configmaps", &["list"])])).await;
    let alice = api.impersonating(&alice(&api));
    let spec = json!({"resourceAttributes": question(&api, "list")});
    let review = ask_until_allowed(&alice, "selfsubjectaccessreviews", spec).await;
    assert_eq!(review["kind"], "SelfSubjectAccessReview");
    let spec = json!({"resourceAttributes": question(&api, "watch")});
    let review = ask(&alice, "selfsubjectaccessreviews", spec.clone())
        .await
        .expect_code(201);
    assert_eq!(review["status"]["allowed"], false);
    let review = ask(&api, "selfsubjectaccessreviews", spec)
        .await
        .expect_code(201);
    assert_eq!(review["status"]["allowed"], true);
    let spec = json!({"nonResourceAttributes": {"verb": "get", "path": "/version"}});
    let review = ask(&alice, "selfsubjectaccessreviews", spec)
        .await
        .expect_code(201);
    assert_eq!(review["status"]["allowed"], true);
    let refused = ask(&alice, "subjectaccessreviews", json!({"user": "x"})).await;
    refused.refused_somehow(403, "Forbidden");
}

async fn access_needs_a_question(api: Context) {
    let status = ask(&api, "selfsubjectaccessreviews", json!({}))
        .await
        .refused_somehow(422, "Invalid");
    assert_eq!(
        status["details"]["causes"][0]["field"],
        "spec.resourceAttributes"
    );
}

async fn access_in_a_namespace(api: Context) {
    allow(&api, json!([rule("configmaps", &["list"])])).await;
    let local = format!("namespaces/{}/localsubjectaccessreviews", api.namespace);
    let asked = |verb| json!({"user": alice(&api), "resourceAttributes": question(&api, verb)});
    let review = ask_until_allowed(&api, &local, asked("list")).await;
    assert_eq!(review["kind"], "LocalSubjectAccessReview");
    assert_eq!(review["metadata"]["namespace"], *api.namespace);
    let review = ask(&api, &local, asked("delete")).await.expect_code(201);
    assert_eq!(review["status"], json!({"allowed": false}));
}

async fn access_stays_in_its_namespace(api: Context) {
    let local = format!("namespaces/{}/localsubjectaccessreviews", api.namespace);
    let elsewhere = json!({"verb": "get", "resource": "pods", "namespace": "default"});
    let spec = json!({"user": "x", "resourceAttributes": elsewhere});
    let status = ask(&api, &local, spec)
        .await
        .refused_somehow(422, "Invalid");
    let cause = &status["details"]["causes"][0];
    assert_eq!(cause["field"], "spec.resourceAttributes.namespace");
    let nowhere = json!({"verb": "get", "path": "/version"});
    let spec = json!({"user": "x", "nonResourceAttributes": nowhere});
    let status = ask(&api, &local, spec)
        .await
        .refused_somehow(422, "Invalid");
    let cause = &status["details"]["causes"][0];
    assert_eq!(cause["field"], "spec.nonResourceAttributes");
    let other = json!({
        "metadata": {"namespace": "default"},
        "spec": {"user": "x", "resourceAttributes": question(&api, "get")},
    });
    let answer = api.post(&format!("{ACCESS}/{local}"), &other).await;
    answer.refused_somehow(400, "BadRequest");
    let everywhere = json!({"user": "x", "resourceAttributes": question(&api, "get")});
    let answer = ask(&api, "localsubjectaccessreviews", everywhere).await;
    assert_ne!(answer.code, 201);
}

async fn access_is_one_question(api: Context) {
    let spec = json!({
        "resourceAttributes": question(&api, "list"),
        "nonResourceAttributes": {"verb": "get", "path": "/"},
    });
    let status = ask(&api, "selfsubjectaccessreviews", spec)
        .await
        .refused_somehow(422, "Invalid");
    assert_eq!(
        status["details"]["causes"][0]["field"],
        "spec.nonResourceAttributes"
    );
}

async fn rules_of_oneself(api: Context) {
    let mut named = rule("secrets", &["get"]);
    named["resourceNames"] = json!(["s"]);
    allow(&api, json!([rule("configmaps", &["list"]), named])).await;
    let alice = api.impersonating(&alice(&api));
    let spec = json!({"resourceAttributes": question(&api, "list")});
    ask_until_allowed(&alice, "selfsubjectaccessreviews", spec).await;
    let review = ask(
        &alice,
        "selfsubjectrulesreviews",
        json!({"namespace": api.namespace}),
    )
    .await;
    let status = review.expect_code(201)["status"].clone();
    let rules = status["resourceRules"].as_array().unwrap();
    let configmaps = json!({"verbs": ["list"], "apiGroups": [""], "resources": ["configmaps"]});
    let secret = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["s"]});
    assert!(
        rules.contains(&configmaps) && rules.contains(&secret),
        "{status}"
    );
    assert_eq!(status["incomplete"], false);
    let paths = status["nonResourceRules"].as_array().unwrap();
    let has = |path: &str| {
        paths.iter().any(|rule| {
            rule["nonResourceURLs"]
                .as_array()
                .unwrap()
                .contains(&json!(path))
        })
    };
    assert!(has("/version") && has("/api/*"), "{status}");
}

async fn rules_need_a_namespace(api: Context) {
    let answer = ask(&api, "selfsubjectrulesreviews", json!({})).await;
    answer.refused(400, "BadRequest", "no namespace on request");
}

async fn who_am_i(api: Context) {
    let alice = api
        .impersonating("alice")
        .with_header("impersonate-group", "friends");
    let alice = alice
        .with_header("impersonate-uid", "7")
        .with_header("impersonate-extra-shoe", "43");
    let review = alice
        .post(
            "/apis/authentication.k8s.io/v1/selfsubjectreviews",
            &json!({}),
        )
        .await;
    let review = review.expect_code(201);
    assert_eq!(
        review["status"]["userInfo"],
        json!({"username": "alice", "uid": "7", "groups": ["friends", "system:authenticated"], "extra": {"shoe": ["43"]}})
    );
}

async fn create_account(api: &Context) -> Value {
    let body = json!({"metadata": {"name": "robot"}});
    api.post(&api.core("serviceaccounts"), &body)
        .await
        .expect_code(201)
}

async fn request(api: &Context, spec: Value) -> Answer {
    api.post(
        &api.core("serviceaccounts/robot/token"),
        &json!({"spec": spec}),
    )
    .await
}

async fn review(api: &Context, spec: Value) -> Value {
    let path = "/apis/authentication.k8s.io/v1/tokenreviews";
    let review = api
        .post(path, &json!({"spec": spec}))
        .await
        .expect_code(201);
    review["status"].clone()
}

async fn token_of_an_account(api: Context) {
    let account = create_account(&api).await;
    let request = request(&api, json!({})).await.expect_code(201);
    assert_eq!(request["kind"], "TokenRequest");
    assert_eq!(request["spec"]["expirationSeconds"], 3600);
    assert_eq!(request["metadata"]["name"], "robot");
    assert!(request["status"]["expirationTimestamp"].is_string());
    let status = review(&api, json!({"token": request["status"]["token"]})).await;
    assert_eq!(status["authenticated"], true, "{status}");
    let namespace = &api.namespace;
    assert_eq!(
        status["user"]["username"],
        format!("system:serviceaccount:{namespace}:robot")
    );
    assert_eq!(status["user"]["uid"], account["metadata"]["uid"]);
    let groups = json!([
        "system:serviceaccounts",
        format!("system:serviceaccounts:{namespace}"),
        "system:authenticated"
    ]);
    assert_eq!(status["user"]["groups"], groups);
    assert_eq!(status["audiences"], request["spec"]["audiences"]);
    let token = request["status"]["token"].as_str().unwrap();
    let mut changed = token.to_owned();
    let last = if changed.pop() == Some('A') { 'Q' } else { 'A' };
    changed.push(last);
    assert_ne!(
        review(&api, json!({"token": changed})).await["authenticated"],
        true
    );
}

async fn token_of_a_missing_account(api: Context) {
    let message = "serviceaccounts \"robot\" not found";
    request(&api, json!({}))
        .await
        .refused(404, "NotFound", message);
}

async fn token_of_a_deleted_account(api: Context) {
    create_account(&api).await;
    let request = request(&api, json!({})).await.expect_code(201);
    api.delete(&api.core("serviceaccounts/robot"))
        .await
        .expect_code(200);
    create_account(&api).await;
    let token = &request["status"]["token"];
    loop {
        // The real server keeps what it knows of a token for some seconds.
        if review(&api, json!({"token": token})).await["authenticated"] != true {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
}

async fn token_for_somebody_else(api: Context) {
    create_account(&api).await;
    let request = request(&api, json!({"audiences": ["them"]}))
        .await
        .expect_code(201);
    let token = &request["status"]["token"];
    assert_ne!(
        review(&api, json!({"token": token})).await["authenticated"],
        true
    );
    let status = review(&api, json!({"token": token, "audiences": ["us", "them"]})).await;
    assert_eq!(status["authenticated"], true, "{status}");
    assert_eq!(status["audiences"], json!(["them"]));
}

async fn tokens_live_ten_minutes(api: Context) {
    create_account(&api).await;
    let message = "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: 10: may not specify a duration less than 10 minutes";
    let answer = request(&api, json!({"expirationSeconds": 10})).await;
    answer.refused(422, "Invalid", message);
}

async fn tokens_need_a_right(api: Context) {
    create_account(&api).await;
    let name = alice(&api);
    let message = format!(
        "serviceaccounts \"robot\" is forbidden: User {name:?} cannot create resource \"serviceaccounts/token\" in API group \"\" in the namespace {:?}",
        api.namespace
    );
    request(&api.impersonating(&name), json!({}))
        .await
        .refused(403, "Forbidden", &message);
}

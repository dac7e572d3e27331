//! Roles and bindings: what they allow, and what is refused and how.
//!
//! Every user here is spoken for with the `Impersonate-User` header, and has the case's name in its
//! own: bindings of the whole cluster are shared by all cases on the real server.

use serde_json::{Value, json};

use crate::support::{Answer, Context, cases, config_map};

cases!("access":
    nobody_may_do_anything, subresources_and_paths_are_named, a_role_allows_what_it_says,
    a_cluster_role_may_stay_in_a_namespace, a_cluster_binding_is_everywhere,
    single_objects_can_be_allowed, groups_and_service_accounts, a_missing_role_is_told,
    rights_come_and_go, groups_need_a_user,
);

pub(crate) const RIGHTS: &str = "/apis/rbac.authorization.k8s.io/v1";

pub(crate) fn rule(resource: &str, verbs: &[&str]) -> Value {
    json!({"apiGroups": [""], "resources": [resource], "verbs": verbs})
}

pub(crate) fn roles(api: &Context, rest: &str) -> String {
    format!("{RIGHTS}/namespaces/{}/{rest}", api.namespace)
}

pub(crate) fn role(name: &str, rules: Value) -> Value {
    json!({"metadata": {"name": name}, "rules": rules})
}

pub(crate) fn binding(name: &str, role_kind: &str, role: &str, subject: Value) -> Value {
    let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": role_kind, "name": role});
    json!({"metadata": {"name": name}, "roleRef": role, "subjects": [subject]})
}

pub(crate) fn user(name: &str) -> Value {
    json!({"kind": "User", "name": name, "apiGroup": "rbac.authorization.k8s.io"})
}

/// A user of this case.
pub(crate) fn alice(api: &Context) -> String {
    format!("{}-alice", api.namespace)
}

/// Gives alice a role with these rules in the namespace of the case.
pub(crate) async fn allow(api: &Context, rules: Value) {
    let alice = alice(api);
    let body = role("allowed", rules);
    api.post(&roles(api, "roles"), &body).await.expect_code(201);
    let body = binding("allowed", "Role", "allowed", user(&alice));
    api.post(&roles(api, "rolebindings"), &body)
        .await
        .expect_code(201);
}

/// Waits until a request that is refused for want of a right is so no longer.
pub(crate) async fn wait_allowed(api: &Context, path: &str) -> Answer {
    api.wait_for(path, |answer| answer.code != 403).await
}

async fn nobody_may_do_anything(api: Context) {
    let name = alice(&api);
    let alice = api.impersonating(&name);
    let namespace = &api.namespace;
    let message = format!(
        "configmaps is forbidden: User {name:?} cannot list resource \"configmaps\" in API group \"\" in the namespace {namespace:?}"
    );
    let status = alice
        .get(&api.core("configmaps"))
        .await
        .refused(403, "Forbidden", &message);
    assert_eq!(status["details"], json!({"kind": "configmaps"}));
    let message = format!(
        "deployments.apps \"x\" is forbidden: User {name:?} cannot delete resource \"deployments\" in API group \"apps\" in the namespace {namespace:?}"
    );
    let path = format!("/apis/apps/v1/namespaces/{namespace}/deployments/x");
    let status = alice
        .delete(&path)
        .await
        .refused(403, "Forbidden", &message);
    assert_eq!(
        status["details"],
        json!({"name": "x", "group": "apps", "kind": "deployments"})
    );
    let message = format!(
        "secrets is forbidden: User {name:?} cannot watch resource \"secrets\" in API group \"\" at the cluster scope"
    );
    alice
        .get("/api/v1/secrets?watch=true")
        .await
        .refused(403, "Forbidden", &message);
    let refused = alice.post(&api.core("configmaps"), &config_map("a")).await;
    refused.refused_somehow(403, "Forbidden");
    // What there is not is refused all the same.
    let message = format!(
        "nothings.nowhere.io is forbidden: User {name:?} cannot list resource \"nothings\" in API group \"nowhere.io\" at the cluster scope"
    );
    alice
        .get("/apis/nowhere.io/v1/nothings")
        .await
        .refused(403, "Forbidden", &message);
}

async fn subresources_and_paths_are_named(api: Context) {
    let name = alice(&api);
    let alice = api.impersonating(&name);
    let namespace = &api.namespace;
    let message = format!(
        "pods \"p\" is forbidden: User {name:?} cannot patch resource \"pods/status\" in API group \"\" in the namespace {namespace:?}"
    );
    let answer = alice.merge(&api.core("pods/p/status"), &json!({})).await;
    answer.refused(403, "Forbidden", &message);
    let message = format!("forbidden: User {name:?} cannot get path \"/metrics\"");
    let status = alice
        .get("/metrics")
        .await
        .refused(403, "Forbidden", &message);
    assert_eq!(status["details"], json!({}));
    alice.get("/version").await.expect_code(200);
    alice.get("/apis").await.expect_code(200);
}

async fn a_role_allows_what_it_says(api: Context) {
    allow(&api, json!([rule("configmaps", &["get", "list"])])).await;
    api.config_map("a", json!({})).await;
    let alice = api.impersonating(&alice(&api));
    wait_allowed(&alice, &api.core("configmaps"))
        .await
        .expect_code(200);
    alice.get(&api.core("configmaps/a")).await.expect_code(200);
    alice
        .get("/api/v1/configmaps")
        .await
        .refused_somehow(403, "Forbidden");
    alice
        .get("/api/v1/namespaces/default/configmaps")
        .await
        .refused_somehow(403, "Forbidden");
    alice
        .get(&api.core("secrets"))
        .await
        .refused_somehow(403, "Forbidden");
    alice
        .delete(&api.core("configmaps/a"))
        .await
        .refused_somehow(403, "Forbidden");
    let patched = alice
        .merge(&api.core("configmaps/a"), &json!({"data": {"x": "y"}}))
        .await;
    patched.refused_somehow(403, "Forbidden");
    let watched = alice
        .get(&api.core("configmaps?watch=true&timeoutSeconds=1"))
        .await;
    watched.refused_somehow(403, "Forbidden");
}

async fn a_cluster_role_may_stay_in_a_namespace(api: Context) {
    let name = format!("{}-reader", api.namespace);
    let body = role(&name, json!([rule("configmaps", &["list"])]));
    api.post(&format!("{RIGHTS}/clusterroles"), &body)
        .await
        .expect_code(201);
    let body = binding("b", "ClusterRole", &name, user(&alice(&api)));
    api.post(&roles(&api, "rolebindings"), &body)
        .await
        .expect_code(201);
    let alice = api.impersonating(&alice(&api));
    wait_allowed(&alice, &api.core("configmaps"))
        .await
        .expect_code(200);
    alice
        .get("/api/v1/configmaps")
        .await
        .refused_somehow(403, "Forbidden");
}

async fn a_cluster_binding_is_everywhere(api: Context) {
    let name = format!("{}-reader", api.namespace);
    let body = role(&name, json!([rule("configmaps", &["list"])]));
    api.post(&format!("{RIGHTS}/clusterroles"), &body)
        .await
        .expect_code(201);
    let body = binding(&name, "ClusterRole", &name, user(&alice(&api)));
    api.post(&format!("{RIGHTS}/clusterrolebindings"), &body)
        .await
        .expect_code(201);
    let alice = api.impersonating(&alice(&api));
    wait_allowed(&alice, "/api/v1/configmaps")
        .await
        .expect_code(200);
    alice.get(&api.core("configmaps")).await.expect_code(200);
}

async fn single_objects_can_be_allowed(api: Context) {
    let mut one = rule("configmaps", &["get", "list"]);
    one["resourceNames"] = json!(["a"]);
    allow(&api, json!([one])).await;
    api.config_map("a", json!({})).await;
    let alice = api.impersonating(&alice(&api));
    wait_allowed(&alice, &api.core("configmaps/a"))
        .await
        .expect_code(200);
    alice
        .get(&api.core("configmaps/b"))
        .await
        .refused_somehow(403, "Forbidden");
    alice
        .get(&api.core("configmaps"))
        .await
        .refused_somehow(403, "Forbidden");
    let path = api.core("configmaps?fieldSelector=metadata.name%3Da");
    assert_eq!(alice.get(&path).await.names(), ["a"]);
}

async fn groups_and_service_accounts(api: Context) {
    let body = role("reader", json!([rule("configmaps", &["list"])]));
    api.post(&roles(&api, "roles"), &body)
        .await
        .expect_code(201);
    let group = format!("{}-friends", api.namespace);
    let subject = json!({"kind": "Group", "name": group});
    let body = binding("group", "Role", "reader", subject);
    api.post(&roles(&api, "rolebindings"), &body)
        .await
        .expect_code(201);
    let subject = json!({"kind": "ServiceAccount", "name": "robot", "namespace": api.namespace});
    let body = binding("robot", "Role", "reader", subject);
    api.post(&roles(&api, "rolebindings"), &body)
        .await
        .expect_code(201);
    let friend = api
        .impersonating("somebody")
        .with_header("impersonate-group", &group);
    wait_allowed(&friend, &api.core("configmaps"))
        .await
        .expect_code(200);
    let robot = format!("system:serviceaccount:{}:robot", api.namespace);
    wait_allowed(&api.impersonating(&robot), &api.core("configmaps"))
        .await
        .expect_code(200);
    let other = format!("system:serviceaccount:{}:other", api.namespace);
    let refused = api.impersonating(&other).get(&api.core("configmaps")).await;
    refused.refused_somehow(403, "Forbidden");
}

async fn a_missing_role_is_told(api: Context) {
    let body = binding("b", "Role", "missing", user(&alice(&api)));
    api.post(&roles(&api, "rolebindings"), &body)
        .await
        .expect_code(201);
    let alice = api.impersonating(&alice(&api));
    let told = ": RBAC: role.rbac.authorization.k8s.io \"missing\" not found";
    alice
        .wait_for(&api.core("configmaps"), |answer| {
            answer.text.contains("RBAC")
        })
        .await;
    let status = alice
        .get(&api.core("configmaps"))
        .await
        .refused_somehow(403, "Forbidden");
    let message = status["message"].as_str().unwrap();
    assert!(message.ends_with(told), "{message}");
}

async fn rights_come_and_go(api: Context) {
    allow(&api, json!([rule("configmaps", &["list"])])).await;
    let alice = api.impersonating(&alice(&api));
    wait_allowed(&alice, &api.core("configmaps"))
        .await
        .expect_code(200);
    api.delete(&roles(&api, "rolebindings/allowed"))
        .await
        .expect_code(200);
    alice
        .wait_for(&api.core("configmaps"), |answer| answer.code == 403)
        .await;
}

async fn groups_need_a_user(api: Context) {
    let alone = api.with_header("impersonate-group", "friends");
    alone
        .get("/version")
        .await
        .refused_somehow(400, "BadRequest");
}

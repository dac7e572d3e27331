//! Writing roles and bindings: what they must look like, and that rights are not given away.

use http::Method;
use serde_json::{Value, json};

use crate::access::{RIGHTS, alice, allow, binding, role, roles, rule, user, wait_allowed};
use crate::support::{Answer, Context, cases};

cases!("access_grants":
    roles_need_the_rights_they_give, escalation_can_be_allowed,
    bindings_need_the_rights_of_their_role, binding_can_be_allowed, binding_a_missing_role,
    a_role_says_something, a_binding_says_whom_and_what, the_role_of_a_binding_stays,
    roles_have_any_name, a_role_may_be_empty,
);

/// Sends until the answer is no plain refusal for want of a right: rights take a moment to count.
async fn post_when_allowed(api: &Context, path: &str, body: &Value) -> Answer {
    loop {
        let answer = api.post(path, body).await;
        if !answer.text.contains("cannot create resource") {
            return answer;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}

/// What alice may do in the cases about giving rights away.
fn writer() -> Value {
    json!([
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": ["*"],
         "resourceNames": []},
        rule("configmaps", &["get"]),
    ])
}

/// Alice may write roles and bindings, but neither escalate nor bind.
fn plain_writer() -> Value {
    let verbs = ["create", "update", "patch", "get", "delete"];
    json!([
        {"apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"], "verbs": verbs},
        rule("configmaps", &["get"]),
    ])
}

async fn roles_need_the_rights_they_give(api: Context) {
    allow(&api, plain_writer()).await;
    let name = alice(&api);
    let alice = api.impersonating(&name);
    let mut named = rule("secrets", &["get"]);
    named["resourceNames"] = json!(["s"]);
    let rules = json!([
        rule("configmaps", &["get"]),
        rule("secrets", &["list", "get"]),
        named
    ]);
    let answer = post_when_allowed(&alice, &roles(&api, "roles"), &role("more", rules)).await;
    let message = format!(
        "roles.rbac.authorization.k8s.io \"more\" is forbidden: user {name:?} (groups=[\"system:authenticated\"]) \
         is attempting to grant RBAC permissions not currently held:\n\
         {{APIGroups:[\"\"], Resources:[\"secrets\"], ResourceNames:[\"s\"], Verbs:[\"get\"]}}\n\
         {{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"list\" \"get\"]}}"
    );
    let status = answer.refused(403, "Forbidden", &message);
    assert_eq!(
        status["details"],
        json!({"name": "more", "group": "rbac.authorization.k8s.io", "kind": "roles"})
    );
    let same = role("same", json!([rule("configmaps", &["get"])]));
    alice
        .post(&roles(&api, "roles"), &same)
        .await
        .expect_code(201);
    let patch = json!({"rules": [rule("configmaps", &["get", "delete"])]});
    let patched = alice.merge(&roles(&api, "roles/same"), &patch).await;
    patched.refused_somehow(403, "Forbidden");
    let patch = json!({"rules": []});
    alice
        .merge(&roles(&api, "roles/same"), &patch)
        .await
        .expect_code(200);
}

async fn escalation_can_be_allowed(api: Context) {
    allow(&api, writer()).await;
    let alice = api.impersonating(&alice(&api));
    let body = role("more", json!([rule("secrets", &["get"])]));
    let answer = post_when_allowed(&alice, &roles(&api, "roles"), &body).await;
    answer.expect_code(201);
}

async fn bindings_need_the_rights_of_their_role(api: Context) {
    allow(&api, plain_writer()).await;
    let name = alice(&api);
    let alice = api.impersonating(&name);
    let body = role("secret", json!([rule("secrets", &["get"])]));
    api.post(&roles(&api, "roles"), &body)
        .await
        .expect_code(201);
    let body = role("public", json!([rule("configmaps", &["get"])]));
    api.post(&roles(&api, "roles"), &body)
        .await
        .expect_code(201);
    api.wait_for(&roles(&api, "roles/public"), |answer| answer.code == 200)
        .await;
    let own = binding("own", "Role", "public", user(&name));
    loop {
        // The new role takes a moment to be known to the one who checks.
        let answer = post_when_allowed(&alice, &roles(&api, "rolebindings"), &own).await;
        if answer.code != 404 {
            answer.expect_code(201);
            break;
        }
    }
    let body = binding("b", "Role", "secret", user(&name));
    let message = format!(
        "rolebindings.rbac.authorization.k8s.io \"b\" is forbidden: user {name:?} (groups=[\"system:authenticated\"]) \
         is attempting to grant RBAC permissions not currently held:\n\
         {{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}}"
    );
    let answer = alice.post(&roles(&api, "rolebindings"), &body).await;
    answer.refused(403, "Forbidden", &message);
}

async fn binding_can_be_allowed(api: Context) {
    let mut rules = plain_writer();
    rules.as_array_mut().unwrap().push(json!({
        "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["clusterroles"],
        "resourceNames": ["cluster-admin"], "verbs": ["bind"],
    }));
    allow(&api, rules).await;
    let name = alice(&api);
    let alice = api.impersonating(&name);
    let body = binding("b", "ClusterRole", "cluster-admin", user(&name));
    let answer = post_when_allowed(&alice, &roles(&api, "rolebindings"), &body).await;
    answer.expect_code(201);
    wait_allowed(&alice, &api.core("secrets"))
        .await
        .expect_code(200);
}

async fn binding_a_missing_role(api: Context) {
    allow(&api, plain_writer()).await;
    let name = alice(&api);
    let alice = api.impersonating(&name);
    let body = binding("b", "Role", "missing", user(&name));
    let answer = post_when_allowed(&alice, &roles(&api, "rolebindings"), &body).await;
    answer.refused_somehow(404, "NotFound");
}

/// The causes of a refusal as `field: message`.
#[track_caller]
fn causes(answer: Answer) -> Vec<String> {
    let status = answer.refused_somehow(422, "Invalid");
    let causes = status["details"]["causes"].as_array().unwrap();
    let shown = |cause: &Value| {
        let text = |field: &str| cause[field].as_str().unwrap().to_owned();
        format!("{}: {}", text("field"), text("message"))
    };
    causes.iter().map(shown).collect()
}

async fn a_role_says_something(api: Context) {
    let rules = json!([
        {"apiGroups": [""], "resources": ["pods"]},
        {"verbs": ["get"]},
        {"verbs": ["get"], "nonResourceURLs": ["/x"]},
    ]);
    let answer = api.post(&roles(&api, "roles"), &role("r", rules)).await;
    assert_eq!(
        causes(answer),
        [
            "rules[0].verbs: Required value: verbs must contain at least one value",
            "rules[1].apiGroups: Required value: resource rules must supply at least one api group",
            "rules[1].resources: Required value: resource rules must supply at least one resource",
            "rules[2].nonResourceURLs: Invalid value: [\"/x\"]: namespaced rules cannot apply to non-resource URLs",
        ]
    );
    let answer = api
        .post(&roles(&api, "roles"), &role("r", json!([{"verbs": [1]}])))
        .await;
    answer.refused_somehow(400, "BadRequest");
    let answer = api
        .post(&roles(&api, "roles"), &role("r", json!({"verbs": []})))
        .await;
    answer.refused_somehow(400, "BadRequest");
}

async fn a_binding_says_whom_and_what(api: Context) {
    let body = json!({
        "metadata": {"name": "b"},
        "roleRef": {"kind": "Other", "apiGroup": "other"},
        "subjects": [{"kind": "User"}, {"kind": "Robot", "name": "r"}, {"kind": "ServiceAccount", "name": "r", "apiGroup": "x"}],
    });
    let answer = api.post(&roles(&api, "rolebindings"), &body).await;
    assert_eq!(
        causes(answer),
        [
            "roleRef.apiGroup: Unsupported value: \"other\": supported values: \"rbac.authorization.k8s.io\"",
            "roleRef.kind: Unsupported value: \"Other\": supported values: \"Role\", \"ClusterRole\"",
            "roleRef.name: Required value",
            "subjects[0].name: Required value",
            "subjects[1].kind: Unsupported value: \"Robot\": supported values: \"ServiceAccount\", \"User\", \"Group\"",
            "subjects[2].apiGroup: Unsupported value: \"x\": supported values: \"\"",
        ]
    );
    let body = binding(
        "b",
        "Role",
        "r",
        json!({"kind": "ServiceAccount", "name": "r"}),
    );
    let answer = api
        .post(&format!("{RIGHTS}/clusterrolebindings"), &body)
        .await;
    assert_eq!(
        causes(answer),
        [
            "roleRef.kind: Unsupported value: \"Role\": supported values: \"ClusterRole\"",
            "subjects[0].namespace: Required value",
        ]
    );
}

async fn the_role_of_a_binding_stays(api: Context) {
    let body = json!({
        "metadata": {"name": "b"}, "roleRef": {"kind": "Role", "name": "r"},
        "subjects": [{"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "name": "s", "namespace": "n"}],
    });
    let created = api
        .post(&roles(&api, "rolebindings"), &body)
        .await
        .expect_code(201);
    assert_eq!(created["roleRef"]["apiGroup"], "rbac.authorization.k8s.io");
    assert_eq!(
        created["subjects"][0]["apiGroup"],
        "rbac.authorization.k8s.io"
    );
    assert_eq!(created["subjects"][1]["apiGroup"], Value::Null);
    let patch = json!({"roleRef": {"name": "other"}});
    let answer = api.merge(&roles(&api, "rolebindings/b"), &patch).await;
    assert_eq!(
        causes(answer),
        [
            "roleRef: Invalid value: {\"APIGroup\":\"rbac.authorization.k8s.io\",\"Kind\":\"Role\",\"Name\":\"other\"}: cannot change roleRef"
        ]
    );
}

async fn roles_have_any_name(api: Context) {
    let body = role("system:Any_Name", json!([rule("pods", &["get"])]));
    api.post(&roles(&api, "roles"), &body)
        .await
        .expect_code(201);
    api.get(&roles(&api, "roles/system:Any_Name"))
        .await
        .expect_code(200);
    let body = role("a/b", json!([rule("pods", &["get"])]));
    let answer = api.post(&roles(&api, "roles"), &body).await;
    assert_eq!(
        causes(answer),
        ["metadata.name: Invalid value: \"a/b\": may not contain '/'"]
    );
}

async fn a_role_may_be_empty(api: Context) {
    let body = json!({"metadata": {"name": "r"}});
    let created = api
        .post(&roles(&api, "roles"), &body)
        .await
        .expect_code(201);
    assert_eq!(created.get("rules"), Some(&Value::Null));
    let replaced = api
        .send(
            Method::PUT,
            &roles(&api, "roles/new"),
            "application/json",
            role("new", json!([])).to_string(),
        )
        .await;
    assert_eq!(replaced.expect_code(201)["rules"], Value::Null);
}

//! The default roles and bindings, with the names they have in kube-apiserver.
//!
//! `view`, `edit` and `admin` aggregate roles by label, so that an install can add its own kinds.
//! They are aggregated when a request is authorized; nothing is written into them.

use serde_json::{Value, json};

use super::{GROUP, MASTERS};
use crate::{Server, verbs};

/// The namespaced resources of the roles, by group.
const WORKLOADS: &[(&str, &[&str])] = &[
    (
        "",
        &[
            "configmaps",
            "events",
            "pods",
            "pods/status",
            "serviceaccounts",
            "services",
            "services/status",
        ],
    ),
    (
        "apps",
        &[
            "daemonsets",
            "daemonsets/status",
            "deployments",
            "deployments/scale",
            "deployments/status",
            "replicasets",
            "replicasets/scale",
            "replicasets/status",
            "statefulsets",
            "statefulsets/scale",
            "statefulsets/status",
        ],
    ),
    ("batch", &["jobs", "jobs/status"]),
];
const READ: &[&str] = &["get", "list", "watch"];
const WRITE: &[&str] = &["create", "delete", "deletecollection", "patch", "update"];
const ALL: &[&str] = &[
    "get",
    "list",
    "watch",
    "create",
    "delete",
    "deletecollection",
    "patch",
    "update",
];
/// The paths that every client may read.
const PUBLIC_PATHS: &[&str] = &["/healthz", "/livez", "/readyz", "/version", "/version/"];
/// The paths that every authenticated client may read as well.
const DISCOVERY_PATHS: &[&str] = &[
    "/api",
    "/api/*",
    "/apis",
    "/apis/*",
    "/openapi",
    "/openapi/*",
];

/// Creates the missing roles and bindings.
pub(crate) async fn create_defaults(server: &Server) {
    let roles = roles().into_iter().map(|role| ("clusterroles", role));
    let bindings = bindings()
        .into_iter()
        .map(|binding| ("clusterrolebindings", binding));
    let all = roles.chain(bindings);
    let creations =
        all.map(|(plural, object)| verbs::create_default(server, GROUP, plural, object));
    futures::future::join_all(creations).await;
}

fn roles() -> Vec<Value> {
    let reviews = ["selfsubjectaccessreviews", "selfsubjectrulesreviews"];
    let basic = json!([
        rule("authorization.k8s.io", &reviews, &["create"]),
        rule(
            "authentication.k8s.io",
            &["selfsubjectreviews"],
            &["create"]
        ),
    ]);
    let everything = json!([rule("*", &["*"], &["*"]), paths(&["*"], "*")]);
    let discovery = [PUBLIC_PATHS, DISCOVERY_PATHS].concat();
    vec![
        role("cluster-admin", everything),
        aggregating_role("admin", &["admin", "edit", "view"]),
        aggregating_role("edit", &["edit", "view"]),
        aggregating_role("view", &["view"]),
        aggregated_role(
            "admin",
            json!([rule(GROUP, &["roles", "rolebindings"], ALL)]),
        ),
        aggregated_role("edit", json!(edit_rules())),
        aggregated_role("view", json!(view_rules())),
        role("system:basic-user", basic),
        role("system:discovery", json!([paths(&discovery, "get")])),
        role(
            "system:public-info-viewer",
            json!([paths(PUBLIC_PATHS, "get")]),
        ),
    ]
}

fn view_rules() -> Vec<Value> {
    let workloads = WORKLOADS.iter();
    let mut rules: Vec<Value> = workloads
        .map(|(group, kinds)| rule(group, kinds, READ))
        .collect();
    rules.push(rule("", &["namespaces"], READ));
    rules
}

fn edit_rules() -> Vec<Value> {
    let writable = |kinds: &[&'static str]| {
        let kinds = kinds.iter().filter(|kind| !kind.ends_with("/status"));
        kinds.copied().collect::<Vec<&str>>()
    };
    let workloads = WORKLOADS.iter();
    let mut rules: Vec<Value> = workloads
        .map(|(group, kinds)| rule(group, &writable(kinds), WRITE))
        .collect();
    rules.extend([
        rule("", &["secrets"], ALL),
        rule("coordination.k8s.io", &["leases"], ALL),
        rule("", &["serviceaccounts"], &["impersonate"]),
        rule("", &["serviceaccounts/token"], &["create"]),
    ]);
    rules
}

fn bindings() -> Vec<Value> {
    let authenticated = super::AUTHENTICATED;
    vec![
        binding("cluster-admin", &[MASTERS]),
        binding("system:basic-user", &[authenticated]),
        binding("system:discovery", &[authenticated]),
        binding(
            "system:public-info-viewer",
            &[authenticated, super::UNAUTHENTICATED],
        ),
    ]
}

fn rule(group: &str, resources: &[&str], verbs: &[&str]) -> Value {
    json!({"apiGroups": [group], "resources": resources, "verbs": verbs})
}

fn paths(paths: &[&str], verb: &str) -> Value {
    json!({"nonResourceURLs": paths, "verbs": [verb]})
}

fn metadata(name: &str) -> Value {
    json!({"name": name, "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"}})
}

fn role(name: &str, rules: Value) -> Value {
    json!({"metadata": metadata(name), "rules": rules})
}

fn label(of: &str) -> String {
    format!("{GROUP}/aggregate-to-{of}")
}

fn aggregating_role(name: &str, parts: &[&str]) -> Value {
    let selectors: Vec<Value> = parts
        .iter()
        .map(|part| json!({"matchLabels": {label(part): "true"}}))
        .collect();
    json!({"metadata": metadata(name), "aggregationRule": {"clusterRoleSelectors": selectors}})
}

fn aggregated_role(of: &str, rules: Value) -> Value {
    let mut role = role(&format!("system:aggregate-to-{of}"), rules);
    role["metadata"]["labels"][label(of)] = json!("true");
    role
}

fn binding(role: &str, groups: &[&str]) -> Value {
    let subjects: Vec<Value> = groups
        .iter()
        .map(|group| json!({"apiGroup": GROUP, "kind": "Group", "name": group}))
        .collect();
    json!({
        "metadata": metadata(role),
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": subjects,
    })
}

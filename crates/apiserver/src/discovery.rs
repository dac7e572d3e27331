//! Discovery of groups, versions and resources.

pub(crate) mod aggregated;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    Server,
    resource::Resource,
    reviews, route,
    status::{ApiError, Result},
    verbs,
};

/// The verbs of every kind.
const VERBS: [&str; 8] = [
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// `/version`: the Kubernetes version that this server behaves like.
pub(crate) fn version() -> Value {
    json!({
        "major": "1",
        "minor": "36",
        "gitVersion": concat!("v1.36.0+sluice-", env!("CARGO_PKG_VERSION")),
        "gitCommit": "",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": std::env::consts::OS,
    })
}

/// `/api`.
pub(crate) fn core_versions() -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [],
    })
}

/// `/apis`.
pub(crate) fn groups(server: &Server) -> Value {
    let groups: Vec<Value> = versions_by_group(server)
        .iter()
        .map(|(group, versions)| group_entry(group, versions))
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `/apis/{group}`.
pub(crate) fn group(server: &Server, group: &str) -> Result<Value> {
    let groups = versions_by_group(server);
    let versions = groups.get(group).ok_or_else(ApiError::page_not_found)?;
    let mut entry = group_entry(group, versions);
    entry["kind"] = json!("APIGroup");
    entry["apiVersion"] = json!("v1");
    Ok(entry)
}

/// `/api/v1` and `/apis/{group}/{version}`.
pub(crate) fn resources(server: &Server, group: &str, version: &str) -> Result<Value> {
    let mut entries = Vec::new();
    for resource in server.registry().all() {
        if resource.group == group && resource.version == version {
            entries.push(entry(&resource));
            entries.extend(resource.has_status.then(|| status_entry(&resource)));
            entries.extend(has_tokens(&resource).then(token_entry));
            entries.extend(verbs::has_scale(&resource).then(|| scale_entry(&resource)));
        }
    }
    let reviews = reviews::KINDS.iter();
    for review in reviews.filter(|it| it.group == group && version == "v1") {
        entries.push(json!({
            "name": review.plural,
            "singularName": review.kind.to_lowercase(),
            "namespaced": review.namespaced,
            "kind": review.kind,
            "verbs": ["create"],
        }));
    }
    if entries.is_empty() {
        return Err(route::unknown(server, group));
    }
    let group_version = match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
    };
    Ok(json!({
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": group_version,
        "resources": entries,
    }))
}

fn versions_by_group(server: &Server) -> BTreeMap<String, Vec<String>> {
    let reviews = reviews::KINDS
        .iter()
        .map(|review| (review.group.to_owned(), vec!["v1".to_owned()]));
    let mut groups: BTreeMap<String, Vec<String>> = reviews.collect();
    for resource in server.registry().all() {
        if resource.group.is_empty() {
            continue;
        }
        let versions = groups.entry(resource.group.clone()).or_default();
        if !versions.contains(&resource.version) {
            versions.push(resource.version.clone());
        }
    }
    for versions in groups.values_mut() {
        versions.sort_by_key(|version| std::cmp::Reverse(priority(version)));
    }
    groups
}

/// Newest first as Kubernetes orders versions: `v2`, `v1`, `v1beta2`, `v1alpha1`, others.
fn priority(version: &str) -> (u8, u64, u64) {
    let Some(rest) = version.strip_prefix('v') else {
        return (0, 0, 0);
    };
    let digits = rest
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(rest.len());
    let major = rest[..digits].parse().unwrap_or(0);
    let minor = |level: &str| rest[digits + level.len()..].parse().unwrap_or(0);
    match &rest[digits..] {
        "" => (3, major, 0),
        beta if beta.starts_with("beta") => (2, major, minor("beta")),
        alpha if alpha.starts_with("alpha") => (1, major, minor("alpha")),
        _ => (0, 0, 0),
    }
}

fn group_entry(group: &str, versions: &[String]) -> Value {
    let versions: Vec<Value> = versions
        .iter()
        .map(|version| json!({"groupVersion": format!("{group}/{version}"), "version": version}))
        .collect();
    json!({"name": group, "versions": versions, "preferredVersion": versions[0]})
}

fn entry(resource: &Resource) -> Value {
    let mut entry = json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": VERBS,
    });
    for (field, names) in [
        ("shortNames", &resource.short_names),
        ("categories", &resource.categories),
    ] {
        if !names.is_empty() {
            entry[field] = json!(names);
        }
    }
    entry
}

/// Whether the kind has the `token` subresource.
fn has_tokens(resource: &Resource) -> bool {
    resource.group.is_empty() && resource.kind == "ServiceAccount"
}

fn token_entry() -> Value {
    json!({
        "name": "serviceaccounts/token",
        "singularName": "",
        "namespaced": true,
        "group": "authentication.k8s.io",
        "version": "v1",
        "kind": "TokenRequest",
        "verbs": ["create"],
    })
}

fn scale_entry(resource: &Resource) -> Value {
    json!({
        "name": format!("{}/scale", resource.plural),
        "singularName": "",
        "namespaced": resource.namespaced,
        "group": "autoscaling",
        "version": "v1",
        "kind": "Scale",
        "verbs": ["get", "patch", "update"],
    })
}

fn status_entry(resource: &Resource) -> Value {
    json!({
        "name": format!("{}/status", resource.plural),
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": ["get", "patch", "update"],
    })
}

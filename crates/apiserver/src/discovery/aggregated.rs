//! Aggregated discovery, which kubectl requests first.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::{
    Server,
    resource::Resource,
    reviews::{self, ReviewKind},
    verbs,
};

/// The media type of aggregated discovery.
pub(crate) const MEDIA_TYPE: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Whether an `Accept` header includes it.
pub(crate) fn is_wanted(accept: &str) -> bool {
    accept.split(',').any(|range| {
        let has = |parameter: &str| range.split(';').any(|it| it.trim() == parameter);
        has("as=APIGroupDiscoveryList") && has("v=v2") && has("g=apidiscovery.k8s.io")
    })
}

/// `/api`, with the core group, or `/apis`, with all others.
pub(crate) fn document(server: &Server, is_core: bool) -> Value {
    let mut groups: BTreeMap<String, BTreeMap<String, Vec<Value>>> = BTreeMap::new();
    for resource in server.registry().all() {
        let versions = groups.entry(resource.group.clone()).or_default();
        let resources = versions.entry(resource.version.clone()).or_default();
        resources.push(entry(&resource));
    }
    for kind in reviews::KINDS {
        let versions = groups.entry(kind.group.to_owned()).or_default();
        let resources = versions.entry("v1".to_owned()).or_default();
        resources.push(review(kind));
    }
    let items: Vec<Value> = groups
        .into_iter()
        .filter(|(group, _)| group.is_empty() == is_core)
        .map(|(group, versions)| item(&group, versions))
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    })
}

fn item(group: &str, versions: BTreeMap<String, Vec<Value>>) -> Value {
    let mut versions: Vec<(String, Vec<Value>)> = versions.into_iter().collect();
    versions.sort_by_key(|(version, _)| std::cmp::Reverse(super::priority(version)));
    let versions: Vec<Value> = versions
        .into_iter()
        .map(|(version, resources)| {
            json!({"version": version, "resources": resources, "freshness": "Current"})
        })
        .collect();
    let metadata = match group {
        "" => json!({}),
        group => json!({"name": group}),
    };
    json!({"metadata": metadata, "versions": versions})
}

fn entry(resource: &Resource) -> Value {
    let kind = json!({
        "group": resource.group, "version": resource.version, "kind": resource.kind,
    });
    let mut entry = json!({
        "resource": resource.plural,
        "responseKind": kind,
        "scope": scope(resource.namespaced),
        "singularResource": resource.singular,
        "verbs": super::VERBS,
    });
    for (field, names) in [
        ("shortNames", &resource.short_names),
        ("categories", &resource.categories),
    ] {
        if !names.is_empty() {
            entry[field] = json!(names);
        }
    }
    let subresources = subresources(resource, &kind);
    if !subresources.is_empty() {
        entry["subresources"] = json!(subresources);
    }
    entry
}

fn subresources(resource: &Resource, kind: &Value) -> Vec<Value> {
    let entry = |name: &str, kind: &Value, verbs: &[&str]| json!({"subresource": name, "responseKind": kind, "verbs": verbs});
    let of = |group: &str, kind: &str| json!({"group": group, "version": "v1", "kind": kind});
    let writes = ["get", "patch", "update"];
    let scale = || entry("scale", &of("autoscaling", "Scale"), &writes);
    let token = || {
        entry(
            "token",
            &of("authentication.k8s.io", "TokenRequest"),
            &["create"],
        )
    };
    let all = [
        verbs::has_scale(resource).then(scale),
        resource.has_status.then(|| entry("status", kind, &writes)),
        super::has_tokens(resource).then(token),
    ];
    all.into_iter().flatten().collect()
}

fn review(review: &ReviewKind) -> Value {
    json!({
        "resource": review.plural,
        "responseKind": {"group": review.group, "version": "v1", "kind": review.kind},
        "scope": scope(review.namespaced),
        "singularResource": review.kind.to_lowercase(),
        "verbs": ["create"],
    })
}

fn scope(namespaced: bool) -> &'static str {
    if namespaced { "Namespaced" } else { "Cluster" }
}

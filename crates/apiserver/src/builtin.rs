//! The built-in kinds: stored objects with the few rules that clients rely on.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    access, data, event,
    metadata::undecodable,
    name::NameRule,
    resource::{BUILTIN_FINGERPRINT, CONVERTED_FINGERPRINT, Resource, storage_name},
    schema::FieldError,
    status::Result,
    types::{self, Type},
};

/// The group and plural of CustomResourceDefinitions in the store.
pub(crate) const DEFINITIONS: &str = "apiextensions.k8s.io/customresourcedefinitions";
/// The group and plural of namespaces in the store.
pub(crate) const NAMESPACES: &str = "/namespaces";
/// On a CRD until its objects are deleted.
pub(crate) const CLEANUP_FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

struct Builtin {
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
    short_names: &'static [&'static str],
    namespaced: bool,
    has_status: bool,
    has_generation: bool,
    selectable: &'static [&'static str],
}

const PLAIN: Builtin = Builtin {
    group: "",
    version: "v1",
    plural: "",
    kind: "",
    short_names: &[],
    namespaced: true,
    has_status: false,
    has_generation: false,
    selectable: &[],
};

const WORKLOAD: Builtin = Builtin {
    group: "apps",
    has_status: true,
    has_generation: true,
    ..PLAIN
};

const RIGHTS: Builtin = Builtin {
    group: access::GROUP,
    ..PLAIN
};

const BUILTINS: &[Builtin] = &[
    Builtin {
        plural: "namespaces",
        kind: "Namespace",
        short_names: &["ns"],
        namespaced: false,
        has_status: true,
        selectable: &["status.phase"],
        ..PLAIN
    },
    Builtin {
        plural: "secrets",
        kind: "Secret",
        selectable: &["type"],
        ..PLAIN
    },
    Builtin {
        plural: "configmaps",
        kind: "ConfigMap",
        short_names: &["cm"],
        ..PLAIN
    },
    Builtin {
        plural: "serviceaccounts",
        kind: "ServiceAccount",
        short_names: &["sa"],
        ..PLAIN
    },
    Builtin {
        plural: "services",
        kind: "Service",
        short_names: &["svc"],
        has_status: true,
        selectable: &["spec.clusterIP", "spec.type"],
        ..PLAIN
    },
    Builtin {
        plural: "pods",
        kind: "Pod",
        short_names: &["po"],
        has_status: true,
        has_generation: true,
        selectable: &[
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ],
        ..PLAIN
    },
    Builtin {
        plural: "events",
        kind: "Event",
        short_names: &["ev"],
        selectable: &[
            "involvedObject.kind",
            "involvedObject.namespace",
            "involvedObject.name",
            "involvedObject.uid",
            "involvedObject.apiVersion",
            "involvedObject.resourceVersion",
            "involvedObject.fieldPath",
            "reason",
            "reportingComponent",
            "source",
            "type",
        ],
        ..PLAIN
    },
    Builtin {
        group: "events.k8s.io",
        plural: "events",
        kind: "Event",
        short_names: &["ev"],
        selectable: &[
            "regarding.kind",
            "regarding.namespace",
            "regarding.name",
            "regarding.uid",
            "regarding.apiVersion",
            "regarding.resourceVersion",
            "regarding.fieldPath",
            "reason",
            "reportingController",
            "type",
        ],
        ..PLAIN
    },
    Builtin {
        group: "coordination.k8s.io",
        plural: "leases",
        kind: "Lease",
        ..PLAIN
    },
    Builtin {
        plural: "deployments",
        kind: "Deployment",
        short_names: &["deploy"],
        ..WORKLOAD
    },
    Builtin {
        plural: "statefulsets",
        kind: "StatefulSet",
        short_names: &["sts"],
        ..WORKLOAD
    },
    Builtin {
        plural: "daemonsets",
        kind: "DaemonSet",
        short_names: &["ds"],
        ..WORKLOAD
    },
    Builtin {
        plural: "replicasets",
        kind: "ReplicaSet",
        short_names: &["rs"],
        selectable: &["status.replicas"],
        ..WORKLOAD
    },
    Builtin {
        group: "batch",
        plural: "jobs",
        kind: "Job",
        selectable: &["status.successful"],
        ..WORKLOAD
    },
    Builtin {
        plural: "roles",
        kind: "Role",
        ..RIGHTS
    },
    Builtin {
        plural: "rolebindings",
        kind: "RoleBinding",
        ..RIGHTS
    },
    Builtin {
        plural: "clusterroles",
        kind: "ClusterRole",
        namespaced: false,
        ..RIGHTS
    },
    Builtin {
        plural: "clusterrolebindings",
        kind: "ClusterRoleBinding",
        namespaced: false,
        ..RIGHTS
    },
    Builtin {
        group: "apiextensions.k8s.io",
        plural: "customresourcedefinitions",
        kind: "CustomResourceDefinition",
        short_names: &["crd", "crds"],
        namespaced: false,
        has_status: true,
        has_generation: true,
        ..PLAIN
    },
];

/// Every built-in kind.
pub(crate) fn resources() -> Vec<Resource> {
    BUILTINS.iter().map(resource).collect()
}

fn names(builtin: &Builtin) -> NameRule {
    match builtin.kind {
        "Namespace" => NameRule::Label,
        "Service" => NameRule::Label1035,
        _ if builtin.group == access::GROUP => NameRule::PathSegment,
        _ => NameRule::Subdomain,
    }
}

fn resource(builtin: &Builtin) -> Resource {
    // Both event groups serve the same objects.
    let (stored_group, fingerprint) = match builtin.group {
        "events.k8s.io" => ("", CONVERTED_FINGERPRINT),
        group => (group, BUILTIN_FINGERPRINT),
    };
    Resource {
        group: builtin.group.into(),
        version: builtin.version.into(),
        plural: builtin.plural.into(),
        singular: builtin.kind.to_lowercase(),
        kind: builtin.kind.into(),
        list_kind: format!("{}List", builtin.kind),
        short_names: builtin
            .short_names
            .iter()
            .map(ToString::to_string)
            .collect(),
        categories: categories(builtin),
        namespaced: builtin.namespaced,
        has_status: builtin.has_status,
        has_generation: builtin.has_generation,
        replaces_unconditionally: !matches!(builtin.kind, "Lease" | "CustomResourceDefinition"),
        creates_on_replace: matches!(builtin.kind, "Lease" | "Event")
            || builtin.group == access::GROUP,
        names: names(builtin),
        schema: None,
        object_type: types::of_builtin(builtin.group, builtin.kind)
            .unwrap_or(Type::FREE)
            .into(),
        columns: Vec::new(),
        selectable: builtin.selectable.iter().map(ToString::to_string).collect(),
        storage: storage_name(stored_group, builtin.plural),
        deprecation: None,
        since: 0,
        fingerprint,
        is_stored: false,
        versions: Arc::new([]),
    }
}

/// The kinds of `kubectl get all`.
fn categories(builtin: &Builtin) -> Vec<String> {
    let is_shown = matches!(builtin.group, "apps" | "batch")
        || (builtin.group.is_empty() && matches!(builtin.kind, "Pod" | "Service"));
    is_shown.then(|| "all".to_owned()).into_iter().collect()
}

/// Sets the defaults of a new built-in object, which its writer owns.
pub(crate) fn default_new(resource: &Resource, object: &mut Value) {
    if &*resource.storage == NAMESPACES {
        let name = object["metadata"]["name"].clone();
        object["metadata"]["labels"]["kubernetes.io/metadata.name"] = name;
    }
}

/// Sets the fields of a new built-in object that the server owns.
pub(crate) fn complete_new(resource: &Resource, object: &mut Value) {
    match (resource.group.as_str(), resource.kind.as_str()) {
        ("", "Namespace") => {
            object["spec"]["finalizers"] = json!(["kubernetes"]);
            object["status"] = json!({"phase": "Active"});
        }
        ("", "Pod") => object["status"] = json!({"phase": "Pending"}),
        ("apps" | "batch", _) => object["status"] = json!({}),
        _ => {}
    }
}

/// Restores the fields of a built-in object that clients cannot change.
pub(crate) fn keep(resource: &Resource, new: &mut Value, old: &Value) {
    if &*resource.storage == NAMESPACES {
        new["spec"]["finalizers"] = old["spec"]["finalizers"].clone();
        new["metadata"]["labels"]["kubernetes.io/metadata.name"] = old["metadata"]["name"].clone();
    }
}

/// Refuses built-in objects with wrong types of the fields that this server uses.
pub(crate) fn check_types(resource: &Resource, object: &Value) -> Result<()> {
    if access::roles::is_one(resource) {
        return access::roles::check_types(resource, object);
    }
    match holds_data(resource) {
        true => data::check_types(resource, object),
        false => check_structs(resource, object),
    }
}

/// Refuses a spec or status that is no object, where the kind has one.
fn check_structs(resource: &Resource, object: &Value) -> Result<()> {
    for (field, suffix) in [("spec", "Spec"), ("status", "Status")] {
        let value = &object[field];
        let is_object = value.is_object() || value.is_null();
        let declared = resource.object_type.field(field).map(Type::resolve);
        let is_struct = resource.schema.is_none() && matches!(declared, Some(Type::Map(_)));
        if is_struct && !is_object {
            let kind = &resource.kind;
            let (path, expected) = (format!("{kind}.{field}"), format!("v1.{kind}{suffix}"));
            return Err(undecodable(resource, value, &path, &expected));
        }
    }
    Ok(())
}

/// Normalises a built-in object before it is stored.
pub(crate) fn normalise(resource: &Resource, object: &mut Value) {
    if holds_data(resource) {
        data::normalise(resource, object);
    }
    if access::roles::is_one(resource) {
        access::roles::normalise(resource, object);
    }
}

/// Validates the fields of a built-in object that this server validates, besides metadata.
pub(crate) fn validate(resource: &Resource, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
    if holds_data(resource) {
        return data::validate(resource, new, old);
    }
    if access::roles::is_one(resource) {
        return access::roles::validate(resource, new, old);
    }
    if resource.kind == "Event" && resource.schema.is_none() {
        return event::validate(resource, new);
    }
    Vec::new()
}

fn holds_data(resource: &Resource) -> bool {
    resource.group.is_empty() && matches!(resource.kind.as_str(), "ConfigMap" | "Secret")
}

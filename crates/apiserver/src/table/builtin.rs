//! The columns of the built-in kinds.

use serde_json::{Value, json};

use super::{
    duration::{age, since},
    event,
};
use crate::{metadata::text, resource::Resource};

/// Name, type and priority; columns with a priority are only in wide output.
type ColumnNames = &'static [(&'static str, &'static str, i64)];

const NAMED: ColumnNames = &[("Name", "string", 0), ("Age", "string", 0)];
const CREATED: ColumnNames = &[("Name", "string", 0), ("Created At", "date", 0)];
const NAMESPACE: ColumnNames = &[
    ("Name", "string", 0),
    ("Status", "string", 0),
    ("Age", "string", 0),
];
const CONFIG_MAP: ColumnNames = &[
    ("Name", "string", 0),
    ("Data", "string", 0),
    ("Age", "string", 0),
];
const LEASE: ColumnNames = &[
    ("Name", "string", 0),
    ("Holder", "string", 0),
    ("Age", "string", 0),
];
const SECRET: ColumnNames = &[
    ("Name", "string", 0),
    ("Type", "string", 0),
    ("Data", "string", 0),
    ("Age", "string", 0),
];
const SERVICE: ColumnNames = &[
    ("Name", "string", 0),
    ("Type", "string", 0),
    ("Cluster-IP", "string", 0),
    ("External-IP", "string", 0),
    ("Port(s)", "string", 0),
    ("Age", "string", 0),
    ("Selector", "string", 1),
];
const POD: ColumnNames = &[
    ("Name", "string", 0),
    ("Ready", "string", 0),
    ("Status", "string", 0),
    ("Restarts", "string", 0),
    ("Age", "string", 0),
    ("IP", "string", 1),
    ("Node", "string", 1),
    ("Nominated Node", "string", 1),
    ("Readiness Gates", "string", 1),
];
const EVENT: ColumnNames = &[
    ("Last Seen", "string", 0),
    ("Type", "string", 0),
    ("Reason", "string", 0),
    ("Object", "string", 0),
    ("Subobject", "string", 1),
    ("Source", "string", 1),
    ("Message", "string", 0),
    ("First Seen", "string", 1),
    ("Count", "string", 1),
    ("Name", "string", 1),
];
const DEPLOYMENT: ColumnNames = &[
    ("Name", "string", 0),
    ("Ready", "string", 0),
    ("Up-to-date", "string", 0),
    ("Available", "string", 0),
    ("Age", "string", 0),
    ("Containers", "string", 1),
    ("Images", "string", 1),
    ("Selector", "string", 1),
];
const STATEFUL_SET: ColumnNames = &[
    ("Name", "string", 0),
    ("Ready", "string", 0),
    ("Age", "string", 0),
    ("Containers", "string", 1),
    ("Images", "string", 1),
];
const DAEMON_SET: ColumnNames = &[
    ("Name", "string", 0),
    ("Desired", "integer", 0),
    ("Current", "integer", 0),
    ("Ready", "integer", 0),
    ("Up-to-date", "integer", 0),
    ("Available", "integer", 0),
    ("Node Selector", "string", 0),
    ("Age", "string", 0),
    ("Containers", "string", 1),
    ("Images", "string", 1),
    ("Selector", "string", 1),
];
const REPLICA_SET: ColumnNames = &[
    ("Name", "string", 0),
    ("Desired", "integer", 0),
    ("Current", "integer", 0),
    ("Ready", "integer", 0),
    ("Age", "string", 0),
    ("Containers", "string", 1),
    ("Images", "string", 1),
    ("Selector", "string", 1),
];
const JOB: ColumnNames = &[
    ("Name", "string", 0),
    ("Status", "string", 0),
    ("Completions", "string", 0),
    ("Duration", "string", 0),
    ("Age", "string", 0),
    ("Containers", "string", 1),
    ("Images", "string", 1),
    ("Selector", "string", 1),
];
const BINDING: ColumnNames = &[
    ("Name", "string", 0),
    ("Role", "string", 0),
    ("Age", "string", 0),
    ("Users", "string", 1),
    ("Groups", "string", 1),
    ("ServiceAccounts", "string", 1),
];

/// The columns of a kind.
pub(super) fn columns(resource: &Resource) -> ColumnNames {
    match resource.kind.as_str() {
        "Namespace" => NAMESPACE,
        "ConfigMap" => CONFIG_MAP,
        "Secret" => SECRET,
        "Service" => SERVICE,
        "Pod" => POD,
        "Event" => EVENT,
        "Lease" => LEASE,
        "Deployment" => DEPLOYMENT,
        "StatefulSet" => STATEFUL_SET,
        "DaemonSet" => DAEMON_SET,
        "ReplicaSet" => REPLICA_SET,
        "Job" => JOB,
        "RoleBinding" | "ClusterRoleBinding" => BINDING,
        "CustomResourceDefinition" | "Role" | "ClusterRole" => CREATED,
        _ => NAMED,
    }
}

/// One object's cells, by the names of the columns.
pub(super) fn cells(resource: &Resource, object: &Value, now: &str) -> Vec<Value> {
    let heads = columns(resource).iter();
    heads
        .map(|(head, ..)| match *head {
            "Name" => object["metadata"]["name"].clone(),
            "Age" => age(object, now).into(),
            "Created At" => object["metadata"]["creationTimestamp"].clone(),
            head => cell(resource, object, head, now),
        })
        .collect()
}

fn cell(resource: &Resource, object: &Value, head: &str, now: &str) -> Value {
    let status = |field: &str| object["status"][field].as_i64().unwrap_or(0);
    let replicas = || object["spec"]["replicas"].as_i64().unwrap_or(1);
    match (resource.kind.as_str(), head) {
        ("Namespace", "Status") => object["status"]["phase"].clone(),
        ("ConfigMap", "Data") => (size(object, "data") + size(object, "binaryData")).into(),
        ("Secret", "Data") => size(object, "data").into(),
        ("Secret", "Type") => object["type"].clone(),
        ("Lease", "Holder") => or_nothing(text(object, "/spec/holderIdentity"), ""),
        ("Event", _) => event::cell(object, head, now),
        ("Service", _) => service(object, head),
        ("Pod", _) => pod(object, head),
        ("Job", _) => job(object, head, now),
        ("RoleBinding" | "ClusterRoleBinding", _) => binding(object, head),
        ("Deployment" | "StatefulSet", "Ready") => {
            format!("{}/{}", status("readyReplicas"), replicas()).into()
        }
        ("Deployment", "Up-to-date") => status("updatedReplicas").into(),
        ("Deployment", "Available") => status("availableReplicas").into(),
        ("ReplicaSet", "Desired") => replicas().into(),
        ("ReplicaSet", "Current") => status("replicas").into(),
        ("ReplicaSet", "Ready") => status("readyReplicas").into(),
        ("DaemonSet", "Desired") => status("desiredNumberScheduled").into(),
        ("DaemonSet", "Current") => status("currentNumberScheduled").into(),
        ("DaemonSet", "Ready") => status("numberReady").into(),
        ("DaemonSet", "Up-to-date") => status("updatedNumberScheduled").into(),
        ("DaemonSet", "Available") => status("numberAvailable").into(),
        ("DaemonSet", "Node Selector") => {
            labels(&object["spec"]["template"]["spec"]["nodeSelector"]).into()
        }
        _ => template(object, head),
    }
}

/// The cells that all workloads have.
fn template(object: &Value, head: &str) -> Value {
    let containers = &object["spec"]["template"]["spec"]["containers"];
    match head {
        "Containers" => joined(containers, "name").into(),
        "Images" => joined(containers, "image").into(),
        "Selector" => selector(&object["spec"]["selector"]).into(),
        _ => Value::Null,
    }
}

fn service(service: &Value, head: &str) -> Value {
    let spec = &service["spec"];
    match head {
        "Type" => or_nothing(text(spec, "/type"), "ClusterIP"),
        "Cluster-IP" => or_nothing(text(spec, "/clusterIP"), "<none>"),
        "External-IP" => or_nothing(text(spec, "/externalName"), "<none>"),
        "Port(s)" => {
            let ports = spec["ports"].as_array().into_iter().flatten();
            let port = |port: &Value| {
                let protocol = port["protocol"].as_str().unwrap_or("TCP");
                match port["nodePort"].as_i64() {
                    Some(node) => format!("{}:{node}/{protocol}", port["port"]),
                    None => format!("{}/{protocol}", port["port"]),
                }
            };
            let ports: Vec<String> = ports.map(port).collect();
            or_nothing(&ports.join(","), "<none>")
        }
        _ => labels(&spec["selector"]).into(),
    }
}

fn pod(pod: &Value, head: &str) -> Value {
    let statuses = || {
        pod["status"]["containerStatuses"]
            .as_array()
            .into_iter()
            .flatten()
    };
    match head {
        "Ready" => {
            let ready = statuses().filter(|it| it["ready"] == true).count();
            format!("{ready}/{}", size(&pod["spec"], "containers")).into()
        }
        "Status" if !text(pod, "/metadata/deletionTimestamp").is_empty() => "Terminating".into(),
        "Status" => or_nothing(text(pod, "/status/reason"), text(pod, "/status/phase")),
        "Restarts" => {
            let restarts = statuses().filter_map(|it| it["restartCount"].as_i64());
            restarts.sum::<i64>().to_string().into()
        }
        "IP" => or_nothing(text(pod, "/status/podIP"), "<none>"),
        "Node" => or_nothing(text(pod, "/spec/nodeName"), "<none>"),
        "Nominated Node" => or_nothing(text(pod, "/status/nominatedNodeName"), "<none>"),
        _ => "<none>".into(),
    }
}

fn job(job: &Value, head: &str, now: &str) -> Value {
    let is = |kind: &str| {
        let conditions = job["status"]["conditions"].as_array().into_iter().flatten();
        let mut conditions = conditions;
        conditions.any(|it| it["type"] == kind && it["status"] == "True")
    };
    match head {
        "Status" if is("Complete") => "Complete".into(),
        "Status" if is("Failed") => "Failed".into(),
        "Status" if !text(job, "/metadata/deletionTimestamp").is_empty() => "Terminating".into(),
        "Status" if is("Suspended") => "Suspended".into(),
        "Status" => "Running".into(),
        "Completions" => {
            let wanted = job["spec"]["completions"].as_i64().unwrap_or(1);
            let done = job["status"]["succeeded"].as_i64().unwrap_or(0);
            format!("{done}/{wanted}").into()
        }
        "Duration" => {
            let start = text(job, "/status/startTime");
            match (start, text(job, "/status/completionTime")) {
                ("", _) => "".into(),
                (start, "") => since(start, now).into(),
                (start, end) => since(start, end).into(),
            }
        }
        _ => template(job, head),
    }
}

fn binding(binding: &Value, head: &str) -> Value {
    let of_kind = |kind: &str| -> Vec<String> {
        let subjects = binding["subjects"].as_array().into_iter().flatten();
        subjects
            .filter(|subject| subject["kind"] == kind)
            .map(|subject| match text(subject, "/namespace") {
                "" => text(subject, "/name").to_owned(),
                namespace => format!("{namespace}/{}", text(subject, "/name")),
            })
            .collect()
    };
    let role = &binding["roleRef"];
    match head {
        "Role" => format!("{}/{}", text(role, "/kind"), text(role, "/name")).into(),
        "Users" => of_kind("User").join(", ").into(),
        "Groups" => of_kind("Group").join(", ").into(),
        _ => of_kind("ServiceAccount").join(", ").into(),
    }
}

fn or_nothing(text: &str, otherwise: &str) -> Value {
    json!(if text.is_empty() { otherwise } else { text })
}

/// The number of items of a map or list.
fn size(object: &Value, field: &str) -> usize {
    let value = &object[field];
    value.as_object().map_or(0, |map| map.len()) + value.as_array().map_or(0, Vec::len)
}

fn joined(list: &Value, field: &str) -> String {
    let items = list.as_array().into_iter().flatten();
    let texts: Vec<&str> = items.filter_map(|item| item[field].as_str()).collect();
    texts.join(",")
}

fn labels(map: &Value) -> String {
    let pairs = map.as_object().into_iter().flatten();
    let pairs: Vec<String> = pairs
        .map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()))
        .collect();
    match pairs.is_empty() {
        true => "<none>".to_owned(),
        false => pairs.join(","),
    }
}

fn selector(selector: &Value) -> String {
    labels(&selector["matchLabels"])
}

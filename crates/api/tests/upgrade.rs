//! Objects that an older version stored are read whole: `objects-46c9997.json` has every object of our kinds
//! in the store that the binary of commit 46c9997 wrote (`crates/cli/tests/standalone/upgrade.rs`).
#![expect(clippy::unwrap_used, reason = "a failing test is a panic")]

use api::{Change, Freeze, GitopsCluster, Pipeline, PipelineTrigger, Promotion, WegoPipeline};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

const OBJECTS: &str = include_str!("upgrade/objects-46c9997.json");

/// Reads an object and writes it again.
fn rewritten<T: DeserializeOwned + Serialize>(object: &Value) -> Value {
    let read: T = serde_json::from_value(object.clone())
        .unwrap_or_else(|error| unreachable!("{}: {error}", object["metadata"]["name"]));
    serde_json::to_value(read).unwrap()
}

fn rewritten_by_kind(object: &Value) -> Value {
    let group = object["apiVersion"].as_str().unwrap();
    match object["kind"].as_str().unwrap() {
        "Pipeline" if group.starts_with("pipelines.wego") => rewritten::<WegoPipeline>(object),
        "Pipeline" => rewritten::<Pipeline>(object),
        "Promotion" => rewritten::<Promotion>(object),
        "Freeze" => rewritten::<Freeze>(object),
        "Change" => rewritten::<Change>(object),
        "GitopsCluster" => rewritten::<GitopsCluster>(object),
        "PipelineTrigger" => rewritten::<PipelineTrigger>(object),
        kind => unreachable!("{kind} is not one of our kinds"),
    }
}

/// The paths at which something of the first value is not in the second.
fn lost(path: &str, before: &Value, after: &Value, found: &mut Vec<String>) {
    match (before, after) {
        (Value::Object(before), Value::Object(after)) => {
            for (name, value) in before {
                let path = format!("{path}.{name}");
                lost(&path, value, after.get(name).unwrap_or(&Value::Null), found);
            }
        }
        (Value::Array(before), Value::Array(after)) => {
            for (index, value) in before.iter().enumerate() {
                let path = format!("{path}[{index}]");
                lost(
                    &path,
                    value,
                    after.get(index).unwrap_or(&Value::Null),
                    found,
                );
            }
        }
        _ if before == after => {}
        _ => found.push(format!("{path}: {before} became {after}")),
    }
}

#[test]
fn objects_of_an_older_version_are_read_whole() {
    let objects: Vec<Value> = serde_json::from_str(OBJECTS).unwrap();
    assert_eq!(objects.len(), 16);
    let mut found = Vec::new();
    for object in &objects {
        let name = object["metadata"]["name"].as_str().unwrap();
        lost(name, object, &rewritten_by_kind(object), &mut found);
    }
    assert_eq!(found, [""; 0]);
}

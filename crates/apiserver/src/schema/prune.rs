//! Drops the fields that a schema does not declare.
//!
//! `apiVersion`, `kind` and `metadata` are kept, in the object itself and in
//! embedded resources. The metadata of the object itself is not looked into.

use serde_json::{Map, Value};

use super::node::SchemaNode;
use crate::json::FieldPath;

/// The fields every resource has without declaring them.
pub(super) const RESOURCE_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// The fields of `metadata`; an embedded resource keeps no others.
const METADATA_FIELDS: [&str; 15] = [
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// Removes undeclared fields and returns their paths, sorted.
pub(super) fn prune(node: &SchemaNode, object: &mut Value, is_resource: bool) -> Vec<String> {
    let mut dropped = Vec::new();
    let mut pruner = Pruner {
        dropped: &mut dropped,
    };
    pruner.value(
        Some(node),
        object,
        &FieldPath::Root,
        is_resource || node.embedded,
    );
    dropped.sort();
    dropped
}

struct Pruner<'a> {
    dropped: &'a mut Vec<String>,
}

impl Pruner<'_> {
    /// `node` is `None` for values without a schema: objects in them lose all fields.
    fn value(
        &mut self,
        node: Option<&SchemaNode>,
        value: &mut Value,
        path: &FieldPath<'_>,
        is_resource: bool,
    ) {
        match value {
            Value::Object(fields) => self.fields(node, fields, path, is_resource),
            Value::Array(items) => {
                // A list that keeps unknown fields passes that on to its items.
                let keeps = node.is_some_and(SchemaNode::preserves_unknown);
                let item_node = node.and_then(|node| node.items.as_deref());
                if keeps && item_node.is_none() {
                    return;
                }
                for (index, item) in items.iter_mut().enumerate() {
                    let is_resource = item_node.is_some_and(|node| node.embedded);
                    self.value(item_node, item, &FieldPath::Item(path, index), is_resource);
                }
            }
            _ => {}
        }
    }

    fn metadata(&mut self, fields: &mut Map<String, Value>, path: &FieldPath<'_>) {
        fields.retain(|name, _| {
            let known = METADATA_FIELDS.contains(&name.as_str());
            if !known {
                self.dropped.push(FieldPath::Field(path, name).to_string());
            }
            known
        });
    }

    fn fields(
        &mut self,
        node: Option<&SchemaNode>,
        fields: &mut Map<String, Value>,
        path: &FieldPath<'_>,
        is_resource: bool,
    ) {
        let keeps_unknown = node.is_some_and(SchemaNode::preserves_unknown);
        fields.retain(|name, value| {
            if is_resource && RESOURCE_FIELDS.contains(&name.as_str()) {
                if let Value::Object(metadata) = value
                    && !matches!(path, FieldPath::Root)
                {
                    self.metadata(metadata, &FieldPath::Field(path, name));
                }
                return true;
            }
            let declared = node.and_then(|node| node.field(name));
            let additional = node.is_some_and(SchemaNode::takes_additional);
            if declared.is_some() || additional {
                let is_resource = declared.is_some_and(|node| node.embedded);
                self.value(declared, value, &FieldPath::Field(path, name), is_resource);
                return true;
            }
            if !keeps_unknown {
                self.dropped.push(FieldPath::Field(path, name).to_string());
            }
            keeps_unknown
        });
    }
}

//! OpenAPI v3 documents, one per group and version, for `kubectl explain`, validation and diff.
//!
//! They list fields and request parameters. Descriptions come from the CustomResourceDefinitions;
//! built-in kinds have none.

mod paths;

use std::{
    collections::{BTreeMap, BTreeSet, hash_map::DefaultHasher},
    hash::{Hash, Hasher},
    sync::Arc,
};

use axum::response::{IntoResponse, Response};
use http::header;
use serde_json::{Map, Value, json};

use crate::{
    Server,
    builtin::DEFINITIONS,
    metadata,
    resource::Resource,
    types::{Field, ListOwnership, ListType, MapType, PatchStrategy, ScalarType, Type},
};

/// The media type of OpenAPI v2 in protobuf. kubectl asks for it with an `@`, which no media type may have.
const VERSION_2: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// `/openapi/v2`: a document without definitions. kubectl validates a `List` with it, and skips kinds that it
/// does not define.
pub(crate) fn version_2() -> Response {
    // Field 1, the version of the document.
    const DOCUMENT: &[u8] = b"\x0a\x032.0";
    ([(header::CONTENT_TYPE, VERSION_2)], DOCUMENT).into_response()
}

/// `/openapi/v3`: the index of the documents.
pub(crate) fn index(server: &Server) -> Value {
    let mut hashes: BTreeMap<String, DefaultHasher> = BTreeMap::new();
    for resource in server.registry().all() {
        let hasher = hashes.entry(root(&resource)).or_default();
        (&resource.plural, env!("CARGO_PKG_VERSION")).hash(hasher);
        if let Some(crd) = definition(server, &resource) {
            metadata::revision_of(&crd).hash(hasher);
        }
    }
    let paths: Map<String, Value> = hashes
        .into_iter()
        .map(|(root, hasher)| {
            let url = format!("/openapi/v3/{root}?hash={:016X}", hasher.finish());
            (root, json!({"serverRelativeURL": url}))
        })
        .collect();
    json!({"paths": paths})
}

/// `/openapi/v3/api/v1` and the like; `None` if nothing is served there.
pub(crate) fn document(server: &Server, path: &str) -> Option<Value> {
    let mut resources: Vec<Arc<Resource>> = server.registry().all();
    resources.retain(|resource| root(resource) == path);
    if resources.is_empty() {
        return None;
    }
    let mut schemas = Map::new();
    let mut paths = Map::new();
    let mut wanted = BTreeSet::new();
    for resource in &resources {
        let schema = match definition(server, resource) {
            Some(crd) => custom_schema(resource, &crd, &mut wanted),
            None => builtin_schema(resource, &mut wanted),
        };
        schemas.insert(schema_name(resource), schema);
        paths.extend(paths::of(resource));
    }
    add_named(&mut schemas, wanted);
    Some(json!({
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes-compatible API", "version": env!("CARGO_PKG_VERSION")},
        "paths": paths,
        "components": {"schemas": schemas},
    }))
}

/// `api/v1` or `apis/{group}/{version}`.
fn root(resource: &Resource) -> String {
    match resource.group.as_str() {
        "" => format!("api/{}", resource.version),
        group => format!("apis/{group}/{}", resource.version),
    }
}

/// `com.example.v1.Kind` for a kind of the group `example.com`.
fn schema_name(resource: &Resource) -> String {
    let group = match resource.group.as_str() {
        "" => "core",
        group => group,
    };
    let mut parts: Vec<&str> = group.split('.').rev().collect();
    parts.extend([resource.version.as_str(), resource.kind.as_str()]);
    parts.join(".")
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn group_version_kind(resource: &Resource) -> Value {
    json!({"group": resource.group, "version": resource.version, "kind": resource.kind})
}

/// The stored definition of a custom kind.
fn definition(server: &Server, resource: &Resource) -> Option<Arc<Value>> {
    resource.schema.as_ref()?;
    let definitions = server.registry().stored_as(DEFINITIONS)?;
    let key = definitions.key(None, &resource.qualified());
    server.store().value(&key)
}

/// The schema of the definition, with the fields of every resource.
fn custom_schema(resource: &Resource, crd: &Value, wanted: &mut BTreeSet<String>) -> Value {
    let versions = crd["spec"]["versions"].as_array().into_iter().flatten();
    let mut versions = versions.filter(|version| version["name"] == *resource.version);
    let schema = versions
        .next()
        .map(|version| version["schema"]["openAPIV3Schema"].clone());
    let mut schema = schema.filter(Value::is_object).unwrap_or(json!({}));
    let mut properties = schema["properties"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    properties.insert(
        "apiVersion".to_owned(),
        described("apiVersion", json!({"type": "string"})),
    );
    properties.insert(
        "kind".to_owned(),
        described("kind", json!({"type": "string"})),
    );
    let metadata = json!({"allOf": [named("ObjectMeta", wanted)]});
    properties.insert("metadata".to_owned(), described("metadata", metadata));
    schema["properties"] = properties.into();
    schema["x-kubernetes-group-version-kind"] = json!([group_version_kind(resource)]);
    schema
}

fn builtin_schema(resource: &Resource, wanted: &mut BTreeSet<String>) -> Value {
    let mut schema = schema(resource.object_type.resolve(), wanted);
    let properties = schema["properties"].as_object_mut();
    for (name, property) in properties.into_iter().flatten() {
        *property = described(name, property.take());
    }
    schema["x-kubernetes-group-version-kind"] = json!([group_version_kind(resource)]);
    schema
}

/// The descriptions of the fields of every kind.
fn described(name: &str, mut property: Value) -> Value {
    let text = match name {
        "apiVersion" => "The group and version of this object's kind.",
        "kind" => "What sort of object this is.",
        "metadata" => "Name, labels, owners and the rest that every object has.",
        "spec" => "What is wanted.",
        "status" => "What was observed; written through the status subresource.",
        _ => return property,
    };
    if property.get("$ref").is_some() {
        property = json!({"allOf": [property]});
    }
    property["description"] = json!(text);
    property
}

/// Adds the named types and those that they refer to.
fn add_named(schemas: &mut Map<String, Value>, mut wanted: BTreeSet<String>) {
    while let Some(name) = wanted.pop_first() {
        if !schemas.contains_key(&name) {
            let schema = schema(Type::named(&name).resolve(), &mut wanted);
            schemas.insert(name, schema);
        }
    }
}

fn named(name: &str, wanted: &mut BTreeSet<String>) -> Value {
    wanted.insert(name.to_owned());
    reference(name)
}

fn schema(kind: &Type, wanted: &mut BTreeSet<String>) -> Value {
    match kind {
        Type::Named(name) => named(name, wanted),
        Type::Scalar(scalar) => scalar_schema(*scalar),
        Type::Map(map) => map_schema(map, wanted),
        Type::List(list) => list_schema(list, wanted),
        Type::Any { is_shared: true } => json!({"type": "object"}),
        Type::Any { is_shared: false } => json!({}),
    }
}

fn scalar_schema(scalar: ScalarType) -> Value {
    match scalar {
        ScalarType::Text => json!({"type": "string"}),
        ScalarType::Bytes => json!({"type": "string", "format": "byte"}),
        ScalarType::Time => json!({"type": "string", "format": "date-time"}),
        ScalarType::Quantity => json!({"oneOf": [{"type": "string"}, {"type": "number"}]}),
        ScalarType::IntOrText => {
            json!({"format": "int-or-string", "oneOf": [{"type": "integer"}, {"type": "string"}]})
        }
        ScalarType::Bool => json!({"type": "boolean"}),
        ScalarType::Int32 => json!({"type": "integer", "format": "int32"}),
        ScalarType::Int64 => json!({"type": "integer", "format": "int64"}),
        ScalarType::Number => json!({"type": "number", "format": "double"}),
    }
}

fn map_schema(map: &MapType, wanted: &mut BTreeSet<String>) -> Value {
    let mut result = json!({"type": "object"});
    let properties: Map<String, Value> = map
        .fields
        .iter()
        .map(|(name, field)| (name.clone(), field_schema(field, wanted)))
        .collect();
    if !properties.is_empty() {
        result["properties"] = properties.into();
    }
    if let Some(others) = &map.others {
        result["additionalProperties"] = schema(others, wanted);
    }
    let required = map.fields.iter().filter(|(_, field)| field.is_required);
    let required: Vec<&String> = required.map(|(name, _)| name).collect();
    if !required.is_empty() {
        result["required"] = json!(required);
    }
    if map.is_atomic {
        result["x-kubernetes-map-type"] = json!("atomic");
    }
    result
}

fn field_schema(field: &Field, wanted: &mut BTreeSet<String>) -> Value {
    let mut result = schema(&field.kind, wanted);
    if field.retains_keys {
        if result.get("$ref").is_some() {
            result = json!({"allOf": [result]});
        }
        let strategy = match result.get("x-kubernetes-patch-strategy") {
            Some(_) => "merge,retainKeys",
            None => "retainKeys",
        };
        result["x-kubernetes-patch-strategy"] = json!(strategy);
    }
    result
}

fn list_schema(list: &ListType, wanted: &mut BTreeSet<String>) -> Value {
    let mut result = json!({"type": "array", "items": schema(&list.items, wanted)});
    match &list.ownership {
        ListOwnership::Atomic => result["x-kubernetes-list-type"] = json!("atomic"),
        ListOwnership::Set => result["x-kubernetes-list-type"] = json!("set"),
        ListOwnership::Keys(keys) => {
            result["x-kubernetes-list-type"] = json!("map");
            result["x-kubernetes-list-map-keys"] = json!(keys);
        }
    }
    match &list.patch_strategy {
        PatchStrategy::Replace => {}
        PatchStrategy::MergeValues => result["x-kubernetes-patch-strategy"] = json!("merge"),
        PatchStrategy::MergeByKey(key) => {
            result["x-kubernetes-patch-strategy"] = json!("merge");
            result["x-kubernetes-patch-merge-key"] = json!(key);
        }
    }
    result
}

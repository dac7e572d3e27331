//! CustomResourceDefinitions: defaults, validation and the kinds that they define.
//!
//! Errors have the field paths of kube-apiserver, which validates definitions in an older form: what
//! all versions share is reported as a field of `spec`. Other definitions are not considered.

mod check;
pub(crate) mod names;
mod status;

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    schema::{FieldError, MALFORMED, Schema},
    table::Column,
};

pub(crate) use check::check_update;
pub(crate) use status::established_status;

/// The kind that a CustomResourceDefinition defines.
#[derive(Clone, Debug)]
pub(crate) struct Definition {
    pub(crate) group: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    pub(crate) versions: Vec<DefinitionVersion>,
}

/// One version of the kind.
#[derive(Clone, Debug)]
pub(crate) struct DefinitionVersion {
    pub(crate) name: String,
    pub(crate) served: bool,
    /// Whether objects are stored in this version.
    pub(crate) is_stored: bool,
    /// The warning in every response of a deprecated version.
    pub(crate) deprecation_warning: Option<String>,
    pub(crate) status_subresource: bool,
    pub(crate) schema: Arc<Schema>,
    /// The printer columns.
    pub(crate) columns: Vec<Column>,
    /// Paths such as `.spec.color`.
    pub(crate) selectable_fields: Vec<String>,
}

/// Sets the defaults of a definition.
pub(crate) fn default(crd: &mut Value) {
    let Some(spec) = crd.get_mut("spec").and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(names) = spec.get_mut("names").and_then(Value::as_object_mut) {
        let kind = names
            .get("kind")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        let is_unset =
            |value: Option<&Value>| value.is_none_or(|value| value.is_null() || value == "");
        if is_unset(names.get("singular")) && !kind.is_empty() {
            names.insert("singular".to_owned(), kind.to_lowercase().into());
        }
        if is_unset(names.get("listKind")) && !kind.is_empty() {
            names.insert("listKind".to_owned(), format!("{kind}List").into());
        }
    }
    if spec.get("conversion").is_none_or(Value::is_null) {
        spec.insert("conversion".to_owned(), json!({ "strategy": "None" }));
    }
}

/// Parses a definition with defaults set.
///
/// Errors with the reason [`MALFORMED`] mean that it cannot be decoded at all.
pub(crate) fn parse(crd: &Value) -> Result<Definition, Vec<FieldError>> {
    let malformed = check::shape(crd);
    if !malformed.is_empty() {
        return Err(malformed);
    }
    let mut errors = Vec::new();
    let schemas = check::definition(crd, &mut errors);
    if let Some(first) = errors.iter().find(|error| error.reason == MALFORMED) {
        return Err(vec![first.clone()]);
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    Ok(read(&crd["spec"], schemas))
}

fn read(spec: &Value, schemas: Vec<Arc<Schema>>) -> Definition {
    let names = &spec["names"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, kind) = (text(&spec["group"]), text(&names["kind"]));
    let versions = spec["versions"].as_array().map_or(&[][..], Vec::as_slice);
    let read_version = |(version, schema)| read_version(version, schema, &group, &kind);
    Definition {
        versions: versions.iter().zip(schemas).map(read_version).collect(),
        plural: text(&names["plural"]),
        singular: text(&names["singular"]),
        list_kind: text(&names["listKind"]),
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        namespaced: spec["scope"] == "Namespaced",
        group,
        kind,
    }
}

fn read_version(
    version: &Value,
    schema: Arc<Schema>,
    group: &str,
    kind: &str,
) -> DefinitionVersion {
    let name = version["name"].as_str().unwrap_or_default();
    let flag = |name: &str| version[name] == true;
    let warning = || match version["deprecationWarning"].as_str() {
        Some(warning) => warning.to_owned(),
        None => format!("{group}/{name} {kind} is deprecated"),
    };
    let fields = version["selectableFields"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let columns = version["additionalPrinterColumns"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    DefinitionVersion {
        name: name.to_owned(),
        served: flag("served"),
        is_stored: flag("storage"),
        deprecation_warning: flag("deprecated").then(warning),
        status_subresource: version["subresources"]["status"].is_object(),
        schema,
        columns: columns.iter().filter_map(Column::read).collect(),
        selectable_fields: fields
            .iter()
            .filter_map(|field| field["jsonPath"].as_str().map(str::to_owned))
            .collect(),
    }
}

/// The strings in a list.
fn texts(value: &Value) -> Vec<String> {
    let items = value.as_array().map_or(&[][..], Vec::as_slice);
    items
        .iter()
        .filter_map(|item| item.as_str().map(str::to_owned))
        .collect()
}

#[cfg(test)]
mod tests;

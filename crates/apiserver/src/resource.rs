//! What the server knows of one served kind: how it is addressed and which rules it obeys.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::{
    definition::{Definition, Version},
    fields::Fields,
    name::NameRule,
    schema::Schema,
    store::{Key, Revision},
    table::Column,
    types::Type,
};

/// One kind in one served version.
#[derive(Clone)]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) singular: String,
    pub(crate) kind: String,
    pub(crate) list_kind: String,
    pub(crate) short_names: Vec<String>,
    pub(crate) categories: Vec<String>,
    pub(crate) namespaced: bool,
    /// Whether `status` is written through its own subresource only.
    pub(crate) has_status: bool,
    /// Whether `metadata.generation` counts changes of the spec.
    pub(crate) has_generation: bool,
    /// Whether a replace may leave out `resourceVersion`.
    pub(crate) replaces_unconditionally: bool,
    /// Whether a replace of what is not there creates it.
    pub(crate) creates_on_replace: bool,
    pub(crate) names: NameRule,
    /// The schema of a custom kind; built-in kinds are kept as they come.
    pub(crate) schema: Option<Arc<Schema>>,
    /// What the objects are made of.
    pub(crate) shape: Arc<Type>,
    /// What a table of the objects shows, for custom kinds.
    pub(crate) columns: Vec<Column>,
    /// Fields beside name and namespace that a field selector may use.
    pub(crate) selectable: Vec<String>,
    /// `group/plural` under which all versions are kept.
    pub(crate) storage: Arc<str>,
    /// The warning that goes with every answer of a deprecated version.
    pub(crate) deprecation: Option<String>,
    /// There is no history of this kind before this revision.
    pub(crate) since: Revision,
}

impl Resource {
    /// A kind that some CustomResourceDefinition brought.
    pub(crate) fn custom(definition: &Definition, version: &Version, since: Revision) -> Self {
        Self {
            group: definition.group.clone(),
            version: version.name.clone(),
            plural: definition.plural.clone(),
            singular: definition.singular.clone(),
            kind: definition.kind.clone(),
            list_kind: definition.list_kind.clone(),
            short_names: definition.short_names.clone(),
            categories: definition.categories.clone(),
            namespaced: definition.namespaced,
            has_status: version.status_subresource,
            has_generation: true,
            replaces_unconditionally: false,
            creates_on_replace: false,
            names: NameRule::Subdomain,
            schema: Some(version.schema.clone()),
            shape: Arc::new(version.schema.shape()),
            columns: version.columns.clone(),
            selectable: version
                .selectable_fields
                .iter()
                .map(|path| path.trim_start_matches('.').to_owned())
                .collect(),
            deprecation: version.deprecation_warning.clone(),
            storage: storage_name(&definition.group, &definition.plural),
            since,
        }
    }

    /// `plural.group`, as error texts name a resource.
    pub(crate) fn qualified(&self) -> String {
        qualify(&self.plural, &self.group)
    }

    /// `Kind.group`, as validation errors name it.
    pub(crate) fn qualified_kind(&self) -> String {
        qualify(&self.kind, &self.group)
    }

    /// `group/version`, or `version` in the core group.
    pub(crate) fn api_version(&self) -> String {
        match self.group.as_str() {
            "" => self.version.clone(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// What cannot be written through an endpoint: `status` through the main one, all else through
    /// that of the status.
    pub(crate) fn reset(&self, is_status: bool) -> Fields {
        match (is_status, self.has_status) {
            (true, _) => Fields::of(&[&["spec"], &["metadata"]]),
            (false, true) => Fields::of(&[&["status"]]),
            (false, false) => Fields::default(),
        }
    }

    /// The key of one object of this kind.
    pub(crate) fn key(&self, namespace: Option<&str>, name: &str) -> Key {
        let namespace = namespace.filter(|_| self.namespaced);
        Key::new(self.storage.clone(), namespace, name)
    }

    /// The stored object as this version shows it.
    pub(crate) fn present(&self, stored: &Value) -> Value {
        self.presented(stored.clone())
    }

    /// Like [`Resource::present`], for who has the object to himself.
    pub(crate) fn presented(&self, mut object: Value) -> Value {
        if self.schema.is_some() {
            object["apiVersion"] = json!(self.api_version());
        }
        if let Some(schema) = &self.schema {
            // A default added to the schema later shows on objects stored before it.
            schema.default(&mut object);
        }
        expand_owners(&mut object);
        if self.group == "events.k8s.io" {
            crate::event::from_core(&mut object);
        }
        object
    }

    /// The object as it is stored, whatever version it came in.
    pub(crate) fn to_storage(&self, mut object: Value) -> Value {
        if self.group == "events.k8s.io" {
            crate::event::to_core(&mut object);
        }
        compact_owners(&mut object);
        object
    }
}

/// Who owns what takes more room than the object itself, so it is stored as text.
fn compact_owners(object: &mut Value) {
    if let Some(owners) = object.pointer_mut("/metadata/managedFields")
        && owners.is_array()
    {
        *owners = Value::String(owners.to_string());
    }
}

fn expand_owners(object: &mut Value) {
    if let Some(owners) = object.pointer_mut("/metadata/managedFields")
        && let Some(text) = owners.as_str()
    {
        *owners = serde_json::from_str(text).unwrap_or_default();
    }
}

/// The name under which all versions of a kind are stored.
pub(crate) fn storage_name(group: &str, plural: &str) -> Arc<str> {
    format!("{group}/{plural}").into()
}

/// `name.group`, or `name` in the core group.
pub(crate) fn qualify(name: &str, group: &str) -> String {
    match group {
        "" => name.to_owned(),
        group => format!("{name}.{group}"),
    }
}

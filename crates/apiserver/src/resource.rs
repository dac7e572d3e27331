//! One served kind in one version: its names, its rules, and how its objects are stored.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, LazyLock},
};

use bytes::Bytes;
use serde_json::{Value, json};

use crate::{
    definition::{Definition, DefinitionVersion},
    field_set::FieldSet,
    name::NameRule,
    schema::Schema,
    store::{ObjectToStore, StoreKey, StoreRevision, StoredObject},
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
    /// Whether an update may omit `resourceVersion`.
    pub(crate) replaces_unconditionally: bool,
    /// Whether an update of a missing object creates it.
    pub(crate) creates_on_replace: bool,
    pub(crate) names: NameRule,
    /// The schema of a custom kind; built-in kinds have none.
    pub(crate) schema: Option<Arc<Schema>>,
    /// The types of the objects' fields.
    pub(crate) object_type: Arc<Type>,
    /// The printer columns of a custom kind.
    pub(crate) columns: Vec<Column>,
    /// Fields beside name and namespace that a field selector may use.
    pub(crate) selectable: Vec<String>,
    /// `group/plural`, under which all versions are stored.
    pub(crate) storage: Arc<str>,
    /// The warning in every response of a deprecated version.
    pub(crate) deprecation: Option<String>,
    /// There is no history of this kind before this revision.
    pub(crate) since: StoreRevision,
    /// Identifies the schema of this version. An object that is stored with the same fingerprint is
    /// returned as it is stored.
    pub(crate) fingerprint: u64,
    /// Whether objects of a custom kind are stored in this version.
    pub(crate) is_stored: bool,
    /// All versions of a custom kind, served or not.
    pub(crate) versions: Arc<[StorageVersion]>,
}

/// A version in which objects may be stored.
pub(crate) struct StorageVersion {
    api_version: String,
    schema: Arc<Schema>,
    /// Whether it is the storage version of new objects.
    is_current: bool,
}

/// The fingerprint of built-in kinds.
pub(crate) const BUILTIN_FINGERPRINT: u64 = 0;
/// The fingerprint of a version whose objects are always converted when they are read.
pub(crate) const CONVERTED_FINGERPRINT: u64 = 1;
/// The fingerprint of an object that was converted to the storage version without being validated.
const UNVALIDATED_FINGERPRINT: u64 = 2;

impl Resource {
    /// A version of a CustomResourceDefinition.
    pub(crate) fn custom(
        definition: &Definition,
        version: &DefinitionVersion,
        since: StoreRevision,
    ) -> Self {
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
            object_type: Arc::new(version.schema.object_type()),
            columns: version.columns.clone(),
            selectable: version
                .selectable_fields
                .iter()
                .map(|path| path.trim_start_matches('.').to_owned())
                .collect(),
            deprecation: version.deprecation_warning.clone(),
            storage: storage_name(&definition.group, &definition.plural),
            since,
            fingerprint: fingerprint(version),
            is_stored: version.is_stored,
            versions: definition
                .versions
                .iter()
                .map(|version| StorageVersion {
                    api_version: qualified_version(&definition.group, &version.name),
                    schema: version.schema.clone(),
                    is_current: version.is_stored,
                })
                .collect(),
        }
    }

    /// `plural.group`, as in error messages.
    pub(crate) fn qualified(&self) -> String {
        qualify(&self.plural, &self.group)
    }

    /// `Kind.group`, as in validation errors.
    pub(crate) fn qualified_kind(&self) -> String {
        qualify(&self.kind, &self.group)
    }

    /// `group/version`, or `version` in the core group.
    pub(crate) fn api_version(&self) -> String {
        qualified_version(&self.group, &self.version)
    }

    /// The fields that an endpoint cannot write: `status` through the main one, all others through
    /// `/status`.
    pub(crate) fn reset_fields(&self, is_status: bool) -> &'static FieldSet {
        static ALL_BUT_STATUS: LazyLock<FieldSet> =
            LazyLock::new(|| FieldSet::of(&[&["spec"], &["metadata"]]));
        static STATUS: LazyLock<FieldSet> = LazyLock::new(|| FieldSet::of(&[&["status"]]));
        static NOTHING: LazyLock<FieldSet> = LazyLock::new(FieldSet::default);
        match (is_status, self.has_status) {
            (true, _) => &ALL_BUT_STATUS,
            (false, true) => &STATUS,
            (false, false) => &NOTHING,
        }
    }

    /// The key of one object of this kind.
    pub(crate) fn key(&self, namespace: Option<&str>, name: &str) -> StoreKey {
        let namespace = namespace.filter(|_| self.namespaced);
        StoreKey::new(self.storage.clone(), namespace, name)
    }

    /// A stored object in this version, without its `managedFields`.
    pub(crate) fn read(&self, stored: &StoredObject) -> Arc<Value> {
        let object = stored.value();
        if stored.schema_fingerprint() == self.fingerprint {
            return object;
        }
        let mut object = Arc::unwrap_or_clone(object);
        if let Some(schema) = &self.schema {
            // Changes of the definition also apply to objects that were stored before.
            let stored_version = crate::metadata::text(&object, "/apiVersion");
            if let Some(version) = self
                .versions
                .iter()
                .find(|it| it.api_version == stored_version)
            {
                version.schema.prune(&mut object);
                version.schema.default(&mut object);
            }
            object["apiVersion"] = json!(self.api_version());
            schema.prune(&mut object);
        }
        if self.group == "events.k8s.io" {
            crate::event::from_core(&mut object);
        }
        Arc::new(object)
    }

    /// A stored object without its spec, and the spec text, for a change of only the status; `None`
    /// if that change needs the whole object.
    pub(crate) fn read_without_spec(&self, stored: &StoredObject) -> Option<(Value, Bytes)> {
        let is_validated = self.is_stored && stored.schema_fingerprint() == self.fingerprint;
        let is_enough = is_validated && self.schema.as_ref()?.validates_status_alone();
        is_enough.then(|| stored.without_spec())?
    }

    /// A stored object in this version.
    pub(crate) fn read_with_managed_fields(&self, stored: &StoredObject) -> Value {
        let mut object = Arc::unwrap_or_clone(self.read(stored));
        if !stored.managed_fields().is_empty() {
            let managed_fields = serde_json::from_slice(stored.managed_fields());
            object["metadata"]["managedFields"] = managed_fields.unwrap_or_default();
        }
        object
    }

    /// An object of this version, converted to the storage version.
    pub(crate) fn to_storage(&self, mut object: Value, managed_fields: String) -> ObjectToStore {
        let mut schema_fingerprint = if self.schema.is_some() {
            UNVALIDATED_FINGERPRINT
        } else {
            BUILTIN_FINGERPRINT
        };
        if self.group == "events.k8s.io" {
            crate::event::to_core(&mut object);
        }
        if self.is_stored {
            schema_fingerprint = self.fingerprint;
        } else if let Some(current) = self.versions.iter().find(|version| version.is_current) {
            object["apiVersion"] = json!(current.api_version);
            current.schema.prune(&mut object);
        }
        ObjectToStore {
            object,
            managed_fields,
            schema_fingerprint,
            spec_text: Bytes::new(),
        }
    }
}

/// Identifies the schema of a version.
fn fingerprint(version: &DefinitionVersion) -> u64 {
    let mut hasher = DefaultHasher::new();
    version.name.hash(&mut hasher);
    version.schema.fingerprint().hash(&mut hasher);
    hasher.finish().max(UNVALIDATED_FINGERPRINT + 1)
}

/// `group/version`, or `version` in the core group.
fn qualified_version(group: &str, version: &str) -> String {
    match group {
        "" => version.to_owned(),
        group => format!("{group}/{version}"),
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

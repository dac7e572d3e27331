//! What the server knows of one served kind: how it is addressed and which rules it obeys.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::{Arc, LazyLock},
};

use bytes::Bytes;
use serde_json::{Value, json};

use crate::{
    definition::{Definition, Version},
    fields::Fields,
    name::NameRule,
    schema::Schema,
    store::{Draft, Kept, Key, Revision},
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
    /// How this version looks. An object that is stored with the same mark is shown as it is.
    pub(crate) mark: u64,
    /// Whether objects of a custom kind are stored in this version.
    pub(crate) is_stored: bool,
    /// All versions of a custom kind, served or not.
    pub(crate) versions: Arc<[StoredAs]>,
}

/// A version in which objects may be stored.
pub(crate) struct StoredAs {
    api_version: String,
    schema: Arc<Schema>,
    /// Whether new objects are.
    is_current: bool,
}

/// The mark of built-in kinds.
pub(crate) const BUILTIN: u64 = 0;
/// The mark of what is shown otherwise than it is stored.
pub(crate) const CONVERTED: u64 = 1;
/// The mark of what is stored otherwise than anybody has looked at it.
const UNSEEN: u64 = 2;

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
            mark: mark(version),
            is_stored: version.is_stored,
            versions: definition
                .versions
                .iter()
                .map(|version| StoredAs {
                    api_version: qualified_version(&definition.group, &version.name),
                    schema: version.schema.clone(),
                    is_current: version.is_stored,
                })
                .collect(),
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
        qualified_version(&self.group, &self.version)
    }

    /// What cannot be written through an endpoint: `status` through the main one, all else through
    /// that of the status.
    pub(crate) fn reset(&self, is_status: bool) -> &'static Fields {
        static ALL_BUT_STATUS: LazyLock<Fields> =
            LazyLock::new(|| Fields::of(&[&["spec"], &["metadata"]]));
        static STATUS: LazyLock<Fields> = LazyLock::new(|| Fields::of(&[&["status"]]));
        static NOTHING: LazyLock<Fields> = LazyLock::new(Fields::default);
        match (is_status, self.has_status) {
            (true, _) => &ALL_BUT_STATUS,
            (false, true) => &STATUS,
            (false, false) => &NOTHING,
        }
    }

    /// The key of one object of this kind.
    pub(crate) fn key(&self, namespace: Option<&str>, name: &str) -> Key {
        let namespace = namespace.filter(|_| self.namespaced);
        Key::new(self.storage.clone(), namespace, name)
    }

    /// The stored object as this version shows it, without its `managedFields`.
    pub(crate) fn bare(&self, stored: &Kept) -> Arc<Value> {
        let object = stored.value();
        if stored.shape() == self.mark {
            return object;
        }
        let mut object = Arc::unwrap_or_clone(object);
        if let Some(schema) = &self.schema {
            // What the definition has said since then shows on objects stored before.
            let then = crate::metadata::text(&object, "/apiVersion");
            if let Some(version) = self.versions.iter().find(|it| it.api_version == then) {
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

    /// As much of a stored object as a change of its status has to see, and the text of the rest;
    /// `None` if it has to see all.
    pub(crate) fn status_part(&self, stored: &Kept) -> Option<(Value, Bytes)> {
        let is_judged = self.is_stored && stored.shape() == self.mark;
        let is_alone = is_judged && self.schema.as_ref()?.status_stands_alone();
        is_alone.then(|| stored.without_middle())?
    }

    /// The stored object as this version shows it.
    pub(crate) fn present(&self, stored: &Kept) -> Value {
        let mut object = Arc::unwrap_or_clone(self.bare(stored));
        if !stored.owners().is_empty() {
            let owners = serde_json::from_slice(stored.owners());
            object["metadata"]["managedFields"] = owners.unwrap_or_default();
        }
        object
    }

    /// The object as it is stored, whatever version it came in.
    pub(crate) fn to_storage(&self, mut object: Value, owners: String) -> Draft {
        let mut shape = if self.schema.is_some() {
            UNSEEN
        } else {
            BUILTIN
        };
        if self.group == "events.k8s.io" {
            crate::event::to_core(&mut object);
        }
        if self.is_stored {
            shape = self.mark;
        } else if let Some(current) = self.versions.iter().find(|version| version.is_current) {
            object["apiVersion"] = json!(current.api_version);
            current.schema.prune(&mut object);
        }
        Draft {
            object,
            owners,
            shape,
            middle: Bytes::new(),
        }
    }
}

/// Tells apart how versions look.
fn mark(version: &Version) -> u64 {
    let mut hasher = DefaultHasher::new();
    version.name.hash(&mut hasher);
    version.schema.fingerprint().hash(&mut hasher);
    hasher.finish().max(UNSEEN + 1)
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

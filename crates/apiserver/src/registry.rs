//! The kinds that are served: the built-in ones and those of CRDs.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::RwLock;
use serde_json::Value;

use crate::{builtin, definition, metadata, resource::Resource};

/// The served kinds. CRDs come and go at run time.
pub(crate) struct Registry {
    builtin: Vec<Arc<Resource>>,
    custom: RwLock<BTreeMap<String, Vec<Arc<Resource>>>>,
}

impl Registry {
    /// Only the built-in kinds.
    pub(crate) fn new() -> Self {
        Self {
            builtin: builtin::resources().into_iter().map(Arc::new).collect(),
            custom: RwLock::default(),
        }
    }

    /// Every served kind, the built-in ones first.
    pub(crate) fn all(&self) -> Vec<Arc<Resource>> {
        let custom = self.custom.read();
        self.builtin
            .iter()
            .chain(custom.values().flatten())
            .cloned()
            .collect()
    }

    /// The kind served at a path.
    pub(crate) fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        self.first(|resource| {
            resource.group == group && resource.version == version && resource.plural == plural
        })
    }

    /// A kind by its name, in any served version.
    pub(crate) fn of_kind(&self, group: &str, kind: &str) -> Option<Arc<Resource>> {
        self.first(|resource| resource.group == group && resource.kind == kind)
    }

    /// A kind by the name it is stored under, in any served version.
    pub(crate) fn stored_as(&self, storage: &str) -> Option<Arc<Resource>> {
        self.first(|resource| &*resource.storage == storage)
    }

    fn first(&self, is_it: impl Fn(&Resource) -> bool) -> Option<Arc<Resource>> {
        if let Some(found) = self.builtin.iter().find(|resource| is_it(resource)) {
            return Some(found.clone());
        }
        let custom = self.custom.read();
        custom
            .values()
            .flatten()
            .find(|resource| is_it(resource))
            .cloned()
    }

    /// Serves what a stored CRD defines, and no longer what it defined before.
    pub(crate) fn define(&self, crd: &Value) {
        let name = metadata::name_of(crd).to_owned();
        let is_established = conditions(crd)
            .any(|condition| condition["type"] == "Established" && condition["status"] == "True");
        let mut custom = self.custom.write();
        let first_served = custom
            .get(&name)
            .and_then(|served| served.first())
            .map(|it| it.since);
        let since = first_served.unwrap_or_else(|| metadata::revision_of(crd));
        let served = match definition::parse(crd) {
            Ok(definition) if is_established => definition
                .versions
                .iter()
                .filter(|version| version.served)
                .map(|version| Arc::new(Resource::custom(&definition, version, since)))
                .collect(),
            _ => Vec::new(),
        };
        custom.insert(name, served);
    }

    /// Stops serving what a removed CRD defined.
    pub(crate) fn forget(&self, crd_name: &str) {
        self.custom.write().remove(crd_name);
    }
}

impl Clone for Registry {
    fn clone(&self) -> Self {
        Self {
            builtin: self.builtin.clone(),
            custom: RwLock::new(self.custom.read().clone()),
        }
    }
}

fn conditions(crd: &Value) -> impl Iterator<Item = &Value> {
    crd["status"]["conditions"].as_array().into_iter().flatten()
}

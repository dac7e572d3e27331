//! Foreground deletion, where dependents are deleted first, and orphan deletion, where they stay.
//!
//! In both, a finalizer keeps the owner until its dependents are deleted or no longer refer to it.

use std::sync::Arc;

use serde_json::Value;

use super::{GarbageCollector, is_absent, owner_kind};
use crate::{
    Server, metadata,
    store::StoreKey,
    verbs::{DeleteOptions, FOREGROUND_FINALIZER, ORPHAN_FINALIZER, PropagationPolicy},
};

impl GarbageCollector {
    /// Handles the dependents of an object that is being deleted.
    pub(super) async fn cascade(&self, server: &Server, key: &StoreKey, owner: &Value) {
        // Dependents from before the deletion may not be indexed yet; its event is handled later.
        if metadata::revision_of(owner) > self.revision {
            return;
        }
        let finalizers = metadata::finalizers(owner);
        let uid = metadata::text(owner, "/metadata/uid");
        let dependents = self.dependents.get(uid).cloned().unwrap_or_default();
        if finalizers.contains(&ORPHAN_FINALIZER) {
            for dependent in &dependents {
                self.remove_owner(server, dependent, uid).await;
            }
            self.remove_finalizer(server, key, ORPHAN_FINALIZER).await;
        } else if finalizers.contains(&FOREGROUND_FINALIZER) {
            let mut is_blocked = false;
            for dependent in &dependents {
                self.delete_dependent(server, dependent, uid).await;
                is_blocked |= blocks_owner(server, dependent, uid);
            }
            if !is_blocked {
                self.remove_finalizer(server, key, FOREGROUND_FINALIZER)
                    .await;
            }
        }
    }

    /// Continues the deletion of owners that waited for this object to be deleted.
    pub(super) async fn continue_owners(&self, server: &Server, deleted: &Value) {
        let owners = deleted["metadata"]["ownerReferences"].as_array();
        for owner in owners.into_iter().flatten() {
            let Some((key, found)) = find_owner(server, deleted, owner) else {
                continue;
            };
            if metadata::is_deleting(&found) && found["metadata"]["uid"] == owner["uid"] {
                self.cascade(server, &key, &found).await;
            }
        }
    }

    /// Deletes a dependent of an owner that waits for it, unless another owner remains.
    async fn delete_dependent(&self, server: &Server, key: &StoreKey, owner: &str) {
        let Some(object) = server.store().value(key) else {
            return;
        };
        if has_other_owner(server, &object, owner) {
            self.remove_owner(server, key, owner).await;
        } else if !metadata::is_deleting(&object) {
            let uid = metadata::text(&object, "/metadata/uid");
            let options = match self.dependents.contains_key(uid) {
                true => DeleteOptions::internal_of(&object).with(PropagationPolicy::Foreground),
                false => DeleteOptions::internal_of(&object),
            };
            self.delete(server, key, &options).await;
        }
    }

    /// Removes the reference to an owner.
    async fn remove_owner(&self, server: &Server, key: &StoreKey, owner: &str) {
        self.remove_from_list(server, key, "ownerReferences", |it| it["uid"] == *owner)
            .await;
        self.check_owners(server, key).await;
    }

    async fn remove_finalizer(&self, server: &Server, key: &StoreKey, finalizer: &str) {
        self.remove_from_list(server, key, "finalizers", |it| it == finalizer)
            .await;
    }

    /// Removes items from a list in the metadata, and the list if it is empty then.
    async fn remove_from_list(
        &self,
        server: &Server,
        key: &StoreKey,
        list: &str,
        is_removed: impl Fn(&Value) -> bool,
    ) {
        self.update(server, key, |object| {
            let metadata = metadata::fields(object);
            if let Some(Value::Array(items)) = metadata.get_mut(list) {
                items.retain(|item| !is_removed(item));
                if items.is_empty() {
                    metadata.remove(list);
                }
            }
        })
        .await;
    }
}

/// Whether a dependent keeps its owner from being removed.
fn blocks_owner(server: &Server, key: &StoreKey, owner: &str) -> bool {
    let Some(object) = server.store().value(key) else {
        return false;
    };
    let owners = object["metadata"]["ownerReferences"].as_array();
    let mut owners = owners.into_iter().flatten();
    owners.any(|it| it["uid"] == *owner && it["blockOwnerDeletion"] == true)
}

/// Whether the object has another owner that exists and is not being deleted in the foreground.
fn has_other_owner(server: &Server, object: &Value, owner: &str) -> bool {
    let owners = object["metadata"]["ownerReferences"].as_array();
    let mut others = owners
        .into_iter()
        .flatten()
        .filter(|it| it["uid"] != *owner);
    others.any(|other| {
        let waits = find_owner(server, object, other).is_some_and(|(_, found)| {
            metadata::is_deleting(&found)
                && metadata::finalizers(&found).contains(&FOREGROUND_FINALIZER)
        });
        !waits && !is_absent(server, object, other)
    })
}

fn find_owner(server: &Server, dependent: &Value, owner: &Value) -> Option<(StoreKey, Arc<Value>)> {
    let resource = owner_kind(server, owner)?;
    let name = metadata::text(owner, "/name");
    let key = resource.key(metadata::namespace_of(dependent), name);
    let found = server.store().value(&key)?;
    Some((key, found))
}

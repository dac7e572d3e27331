//! Deletion in the foreground, where dependents go first, and with orphans, where they stay.
//!
//! Both keep the owner by a finalizer until its dependents are settled.

use std::sync::Arc;

use serde_json::Value;

use super::{Collector, check_owners, is_absent};
use crate::{
    Server, metadata,
    resource::Resource,
    store::Key,
    verbs::{
        Deletion, FOREGROUND_FINALIZER, Manner, ORPHAN_FINALIZER, Policy, change_object,
        delete_object, target_of,
    },
};

impl Collector {
    /// Settles the dependents of an object that waits for that.
    pub(super) async fn cascade(&self, server: &Server, key: &Key, owner: &Value) {
        // Dependents that came before the owner's deletion may not be indexed yet: its turn comes.
        if metadata::revision_of(owner) > self.revision {
            return;
        }
        let finalizers = metadata::finalizers(owner);
        let uid = metadata::text(owner, "/metadata/uid");
        let dependents = self.owned.get(uid).cloned().unwrap_or_default();
        if finalizers.contains(&ORPHAN_FINALIZER) {
            for dependent in &dependents {
                forget_owner(server, dependent, uid).await;
            }
            drop_finalizer(server, key, ORPHAN_FINALIZER).await;
        } else if finalizers.contains(&FOREGROUND_FINALIZER) {
            let mut is_blocked = false;
            for dependent in &dependents {
                self.remove_dependent(server, dependent, uid).await;
                is_blocked |= blocks(server, dependent, uid);
            }
            if !is_blocked {
                drop_finalizer(server, key, FOREGROUND_FINALIZER).await;
            }
        }
    }

    /// The owners of what is gone may have waited for that.
    pub(super) async fn continue_owners(&self, server: &Server, last: &Value) {
        let owners = last["metadata"]["ownerReferences"].as_array();
        for owner in owners.into_iter().flatten() {
            let Some((key, found)) = find_owner(server, last, owner) else {
                continue;
            };
            if metadata::is_deleting(&found) && found["metadata"]["uid"] == owner["uid"] {
                self.cascade(server, &key, &found).await;
            }
        }
    }

    /// Deletes a dependent of an owner that waits for it, unless it has another owner that stays.
    async fn remove_dependent(&self, server: &Server, key: &Key, owner: &str) {
        let Some(resource) = server.registry().stored_as(&key.resource) else {
            return;
        };
        let Some(object) = server.store().get(key) else {
            return;
        };
        if has_other_owner(server, &object, owner) {
            forget_owner(server, key, owner).await;
        } else if !metadata::is_deleting(&object) {
            let uid = metadata::text(&object, "/metadata/uid");
            let deletion = match self.owned.contains_key(uid) {
                true => Deletion::internal_of(&object).with(Policy::Foreground),
                false => Deletion::internal_of(&object),
            };
            // A failure means that the object changed: that change is looked at in its turn.
            let _ = delete_object(server, &resource, key, &deletion).await;
        }
    }
}

/// Whether a dependent keeps its owner from going.
fn blocks(server: &Server, key: &Key, owner: &str) -> bool {
    let Some(object) = server.store().get(key) else {
        return false;
    };
    let owners = object["metadata"]["ownerReferences"].as_array();
    let mut owners = owners.into_iter().flatten();
    owners.any(|it| it["uid"] == *owner && it["blockOwnerDeletion"] == true)
}

/// Whether somebody else owns this who is there and stays.
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

fn find_owner(server: &Server, dependent: &Value, owner: &Value) -> Option<(Key, Arc<Value>)> {
    let resource = owner_kind(server, owner)?;
    let name = metadata::text(owner, "/name");
    let key = resource.key(metadata::namespace_of(dependent), name);
    let found = server.store().get(&key)?;
    Some((key, found))
}

fn owner_kind(server: &Server, owner: &Value) -> Option<Arc<Resource>> {
    let api_version = metadata::text(owner, "/apiVersion");
    let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
    let kind = metadata::text(owner, "/kind");
    server.registry().of_kind(group, kind)
}

/// Takes an owner off an object.
async fn forget_owner(server: &Server, key: &Key, owner: &str) {
    change(server, key, |object| {
        let metadata = metadata::fields(object);
        if let Some(Value::Array(owners)) = metadata.get_mut("ownerReferences") {
            owners.retain(|it| it["uid"] != *owner);
            if owners.is_empty() {
                metadata.remove("ownerReferences");
            }
        }
    })
    .await;
    check_owners(server, key).await;
}

async fn drop_finalizer(server: &Server, key: &Key, finalizer: &str) {
    change(server, key, |object| {
        let metadata = metadata::fields(object);
        if let Some(Value::Array(finalizers)) = metadata.get_mut("finalizers") {
            finalizers.retain(|it| it != finalizer);
            if finalizers.is_empty() {
                metadata.remove("finalizers");
            }
        }
    })
    .await;
}

async fn change(server: &Server, key: &Key, change: impl Fn(&mut Value)) {
    let Some(resource) = server.registry().stored_as(&key.resource) else {
        return;
    };
    let Some(object) = server.store().get(key) else {
        return;
    };
    let target = target_of(resource, &object);
    // It fails only if the object is gone or does not want to change: then there is no more to do.
    let _ = change_object(server, &target, &Manner::internal(), |live| {
        let mut new = live.object.clone();
        change(&mut new);
        Ok(new.into())
    })
    .await;
}

//! Writes the status of objects as a JSON merge patch of what differs from the status that was read.
//!
//! Guarantees: nothing is sent when nothing differs; every patch carries the resourceVersion that was
//! read, so that another writer's change is never overwritten; nothing is written without holding
//! the Lease for as long as the write may take.

use std::fmt::Debug;

use kube::{
    Api, Client, Resource,
    api::{Patch, PatchParams},
    core::NamespaceResourceScope,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

use crate::{LeaderGuard, ObjectKey, merge_patch};

/// What came of patching a status.
#[derive(Debug)]
pub enum StatusPatch<K> {
    /// Nothing differs, so nothing was written.
    Unchanged,
    /// The object as it is now.
    Patched(K),
    /// Somebody else wrote first: the newest state, to plan again from.
    Conflict(K),
    /// The object does not exist any more.
    NotFound,
}

/// Why a status was not written.
#[derive(Debug, thiserror::Error)]
pub enum StatusError {
    /// The Lease has too little time left.
    #[error("this replica may not be the leader any more")]
    NotLeading,
    /// The API server did not accept it.
    #[error("cannot write to the hub: {0}")]
    Hub(#[from] kube::Error),
}

/// Writes statuses as the leader. Cloning shares it.
#[derive(Clone)]
pub struct StatusWriter {
    client: Client,
    leader: LeaderGuard,
    field_manager: &'static str,
}

impl StatusWriter {
    /// Writes to the API server of `client`, under the name `field_manager`, while `leader` leads.
    pub fn new(client: Client, leader: LeaderGuard, field_manager: &'static str) -> Self {
        Self {
            client,
            leader,
            field_manager,
        }
    }

    /// Patches the status of an object that was read with the status `before`, or none.
    pub async fn patch<K, S>(
        &self,
        object: &K,
        before: Option<&S>,
        after: &S,
    ) -> Result<StatusPatch<K>, StatusError>
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + Debug + DeserializeOwned,
        S: Default + PartialEq + Serialize,
    {
        if before == Some(after) {
            return Ok(StatusPatch::Unchanged);
        }
        let before = before.map_or_else(|| json!(S::default()), |before| json!(before));
        let Some(patch) = merge_patch(&before, &json!(after)) else {
            return Ok(StatusPatch::Unchanged);
        };
        if !self.leader.may_write() {
            return Err(StatusError::NotLeading);
        }
        let key = ObjectKey::of(object.meta());
        let api: Api<K> = Api::namespaced(self.client.clone(), &key.namespace);
        let body = json!({
            "metadata": {"resourceVersion": object.meta().resource_version},
            "status": patch,
        });
        let parameters = PatchParams::apply(self.field_manager);
        let patch = Patch::Merge(&body);
        match api.patch_status(&key.name, &parameters, &patch).await {
            Ok(patched) => Ok(StatusPatch::Patched(patched)),
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(StatusPatch::NotFound),
            Err(kube::Error::Api(status)) if status.code == 409 => {
                let newest = api.get_opt(&key.name).await?;
                Ok(newest.map_or(StatusPatch::NotFound, StatusPatch::Conflict))
            }
            Err(error) => Err(error.into()),
        }
    }
}

#[cfg(test)]
mod tests;

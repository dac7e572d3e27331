//! Writes a status: one merge patch of what differs from what was read, nothing when nothing does.

use std::fmt::Debug;

use kube::{
    Api, Client, Resource,
    api::{Patch, PatchParams},
    core::NamespaceResourceScope,
};
use planner::Timestamp;
use serde::{Serialize, de::DeserializeOwned};
use serde_json::json;

use crate::{FIELD_MANAGER, difference, keys::ObjectKey, telemetry::Telemetry};

/// What came of writing a status.
pub(crate) enum Written<K> {
    /// Nothing differs, so nothing was written.
    Same,
    /// The object as it is now.
    Done(K),
    /// Somebody else wrote first: the newest state, to decide again.
    Overtaken(K),
    /// There is no such object any more.
    Gone,
}

/// How far a look at one object brought it.
pub(crate) enum Progress {
    /// There is a new state to look at.
    Changed,
    /// Nothing differs.
    Same {
        /// When to look again even if nothing happens.
        again: Option<Timestamp>,
    },
}

/// Why something was not written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The lease has too little time left.
    #[error("this process may not be leading any more")]
    NotLeading,
    /// The API server did not take it.
    #[error("cannot write to the hub: {0}")]
    Hub(#[from] kube::Error),
}

/// Writes the status of an object that was read with another, or none.
pub(crate) async fn write<K, S>(
    hub: &Client,
    telemetry: &Telemetry,
    object: &K,
    (before, after): (Option<&S>, &S),
) -> Result<Written<K>, Error>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    K: Clone + Debug + DeserializeOwned,
    S: Default + Serialize,
{
    let before = before.map_or_else(|| json!(S::default()), |before| json!(before));
    let Some(patch) = difference::merge_patch(&before, &json!(after)) else {
        return Ok(Written::Same);
    };
    if !telemetry.may_write() {
        return Err(Error::NotLeading);
    }
    let key = ObjectKey::of(object.meta());
    let api: Api<K> = Api::namespaced(hub.clone(), &key.namespace);
    let body = json!({
        "metadata": {"resourceVersion": object.meta().resource_version},
        "status": patch,
    });
    let parameters = PatchParams::apply(FIELD_MANAGER);
    match api
        .patch_status(&key.name, &parameters, &Patch::Merge(&body))
        .await
    {
        Ok(written) => Ok(Written::Done(written)),
        Err(kube::Error::Api(refusal)) if refusal.code == 404 => Ok(Written::Gone),
        Err(kube::Error::Api(refusal)) if refusal.code == 409 => {
            let newest = api.get_opt(&key.name).await?;
            Ok(newest.map_or(Written::Gone, Written::Overtaken))
        }
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests;

//! Writes reports and requests into a pipeline's status: one key of one map per write.
//!
//! Every write carries the resourceVersion it was made from and is made anew after a conflict, so
//! that nothing another writer stored is lost.

use std::sync::Arc;

use api::Pipeline;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use runtime::ObjectKey;
use serde_json::{Map, Value, json};
use tokio::sync::Mutex as AsyncMutex;

use crate::{AppState, FIELD_MANAGER};

/// How often a write is tried before giving up on conflicts.
const MAX_ATTEMPTS: usize = 10;

/// Why something could not be recorded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The pipeline was deleted.
    #[error("the pipeline does not exist any more")]
    Gone,
    /// Every attempt met a conflict.
    #[error("other clients keep changing the pipeline")]
    Conflict,
    /// The API server refused the write or did not answer.
    #[error("cannot write to the pipeline")]
    Api(#[from] kube::Error),
}

impl AppState {
    /// Writes the status patch that `make_patch` returns for the newest state of the pipeline; nothing
    /// if it returns none. Writes to one pipeline are serialized.
    pub(crate) async fn record(
        &self,
        key: &ObjectKey,
        mut make_patch: impl FnMut(&Pipeline) -> Option<Value>,
    ) -> Result<(), Error> {
        let write_lock = self.write_lock(key);
        let written = {
            let _locked = write_lock.lock().await;
            self.write(key, &mut make_patch).await
        };
        self.remove_write_lock(key, write_lock);
        written
    }

    fn write_lock(&self, key: &ObjectKey) -> Arc<AsyncMutex<()>> {
        let mut write_locks = self.write_locks.lock();
        write_locks.entry(key.clone()).or_default().clone()
    }

    async fn write(
        &self,
        key: &ObjectKey,
        make_patch: &mut impl FnMut(&Pipeline) -> Option<Value>,
    ) -> Result<(), Error> {
        let pipelines: Api<Pipeline> = Api::namespaced(self.client.clone(), &key.namespace);
        let mut known = self.objects.pipeline(key).await?;
        for _ in 0..MAX_ATTEMPTS {
            let pipeline = known.ok_or(Error::Gone)?;
            let Some(status) = make_patch(&pipeline) else {
                return Ok(());
            };
            let patch = Patch::Merge(json!({
                "metadata": {"resourceVersion": pipeline.metadata.resource_version},
                "status": status,
            }));
            let parameters = PatchParams::apply(FIELD_MANAGER);
            match pipelines.patch_status(&key.name, &parameters, &patch).await {
                Ok(written) => {
                    self.objects.wrote_pipeline(written);
                    return Ok(());
                }
                Err(kube::Error::Api(refusal)) if refusal.code == 409 => {}
                Err(kube::Error::Api(refusal)) if refusal.code == 404 => return Err(Error::Gone),
                Err(error) => return Err(error.into()),
            }
            known = self.objects.newest_pipeline(key).await?;
        }
        Err(Error::Conflict)
    }

    /// Drops the lock of a pipeline that nobody writes to any more.
    fn remove_write_lock(&self, key: &ObjectKey, write_lock: Arc<AsyncMutex<()>>) {
        let mut write_locks = self.write_locks.lock();
        drop(write_lock);
        let is_unused = write_locks
            .get(key)
            .is_some_and(|it| Arc::strong_count(it) == 1);
        if is_unused {
            write_locks.remove(key);
        }
    }
}

/// A merge patch that replaces one entry of one map of the status.
pub(crate) fn map_entry_patch(map: &str, key: &str, before: Value, after: Value) -> Value {
    let mut fields = Map::new();
    if let Value::Object(before) = before {
        fields.extend(before.into_iter().map(|(field, _)| (field, Value::Null)));
    }
    if let Value::Object(after) = after {
        fields.extend(after);
    }
    json!({map: {key: fields}})
}

//! Writes what was said into a pipeline's status: one key of one map per write, compared and
//! swapped.

use std::sync::Arc;

use api::Pipeline;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::{Map, Value, json};
use tokio::sync::Mutex as AsyncMutex;

use crate::{Door, FIELD_MANAGER, watched::ObjectKey};

/// How often a write that somebody else's came before is tried again.
const TRIES: usize = 10;

/// Why something could not be recorded.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The pipeline is not there any more.
    #[error("the pipeline is gone")]
    Gone,
    /// Others wrote each time.
    #[error("the pipeline changes all the time")]
    Busy,
    /// The API server did not take it.
    #[error("cannot write to the pipeline")]
    Api(#[from] kube::Error),
}

impl Door {
    /// Writes what `say` makes of the newest state of the pipeline; nothing where it has nothing to
    /// say. Those who write to one pipeline take turns, so that they do not undo each other.
    pub(crate) async fn record(
        &self,
        key: &ObjectKey,
        mut say: impl FnMut(&Pipeline) -> Option<Value>,
    ) -> Result<(), Error> {
        let turn = self.turns.lock().entry(key.clone()).or_default().clone();
        let outcome = {
            let _turn = turn.lock().await;
            self.write(key, &mut say).await
        };
        self.leave(key, turn);
        outcome
    }

    async fn write(
        &self,
        key: &ObjectKey,
        say: &mut impl FnMut(&Pipeline) -> Option<Value>,
    ) -> Result<(), Error> {
        let pipelines: Api<Pipeline> = Api::namespaced(self.client.clone(), &key.namespace);
        let mut known = self.watched.pipeline(key).await?;
        for _ in 0..TRIES {
            let pipeline = known.ok_or(Error::Gone)?;
            let Some(status) = say(&pipeline) else {
                return Ok(());
            };
            let patch = Patch::Merge(json!({
                "metadata": {"resourceVersion": pipeline.metadata.resource_version},
                "status": status,
            }));
            let parameters = PatchParams::apply(FIELD_MANAGER);
            match pipelines.patch_status(&key.name, &parameters, &patch).await {
                Ok(written) => {
                    self.watched.wrote_pipeline(written);
                    return Ok(());
                }
                Err(kube::Error::Api(refusal)) if refusal.code == 409 => {}
                Err(kube::Error::Api(refusal)) if refusal.code == 404 => return Err(Error::Gone),
                Err(error) => return Err(error.into()),
            }
            known = self.watched.newest(key).await?;
        }
        Err(Error::Busy)
    }

    /// Forgets a queue that nobody stands in.
    fn leave(&self, key: &ObjectKey, turn: Arc<AsyncMutex<()>>) {
        let mut turns = self.turns.lock();
        drop(turn);
        let is_empty = turns.get(key).is_some_and(|it| Arc::strong_count(it) == 1);
        if is_empty {
            turns.remove(key);
        }
    }
}

/// A status that holds one entry of one map, with nulls for what the entry had before.
pub(crate) fn entry(map: &str, key: &str, before: Value, after: Value) -> Value {
    let mut entry = Map::new();
    if let Value::Object(before) = before {
        entry.extend(before.into_iter().map(|(field, _)| (field, Value::Null)));
    }
    if let Value::Object(after) = after {
        entry.extend(after);
    }
    json!({map: {key: entry}})
}

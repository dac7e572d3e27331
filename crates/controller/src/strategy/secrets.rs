//! Secrets by name: read when they are needed, remembered for a moment.
//!
//! Needs the right to `get` Secrets and no other.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use api::reference::LocalReference;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use parking_lot::Mutex;
use planner::Failure;
use tokio::time::{Instant, timeout};

use super::{
    Task,
    failure::{passing, stuck},
};
use crate::keys::ObjectKey;

/// How long what was read is good for, so that many promotions with one Secret read it once.
const FRESH: Duration = Duration::from_secs(10);
/// How long reading one may take.
const READ_TIME: Duration = Duration::from_secs(10);

/// What is in a Secret.
pub(super) struct Contents {
    /// Differs after every edit.
    pub(super) version: String,
    pub(super) entries: BTreeMap<String, Vec<u8>>,
}

pub(super) struct Secrets {
    hub: Client,
    read: Mutex<HashMap<ObjectKey, (Instant, Arc<Contents>)>>,
}

impl Secrets {
    pub(super) fn new(hub: Client) -> Self {
        Self {
            hub,
            read: Mutex::default(),
        }
    }

    /// A Secret in the pipeline's namespace.
    pub(super) async fn read(
        &self,
        task: Task<'_>,
        reference: &LocalReference,
    ) -> Result<Arc<Contents>, Failure> {
        let namespace = task.pipeline.metadata.namespace.as_deref();
        let key = ObjectKey::new(namespace.unwrap_or_default(), &reference.name);
        self.named(&key).await
    }

    /// A Secret by name.
    pub(super) async fn named(&self, key: &ObjectKey) -> Result<Arc<Contents>, Failure> {
        let known = self.read.lock().get(key).cloned();
        if let Some((at, contents)) = known
            && at.elapsed() < FRESH
        {
            return Ok(contents);
        }
        let contents = Arc::new(self.get(key).await?);
        let mut read = self.read.lock();
        read.retain(|_, (at, _)| at.elapsed() < FRESH);
        read.insert(key.clone(), (Instant::now(), contents.clone()));
        Ok(contents)
    }

    async fn get(&self, key: &ObjectKey) -> Result<Contents, Failure> {
        if key.name.is_empty() {
            let text = "the strategy's secretRef has no name; name the Secret with the credentials";
            return Err(stuck("SecretMissing", text));
        }
        let api: Api<Secret> = Api::namespaced(self.hub.clone(), &key.namespace);
        let name = &key.name;
        let read = timeout(READ_TIME, api.get_opt(name)).await;
        let secret = match read {
            Ok(Ok(Some(secret))) => secret,
            Ok(Ok(None)) => {
                let text = format!("there is no Secret {key}; create it with the credentials");
                return Err(stuck("SecretMissing", text));
            }
            Ok(Err(kube::Error::Api(refusal))) if matches!(refusal.code, 401 | 403) => {
                let text = format!("reading the Secret {key} is not allowed; allow `get` on it");
                return Err(stuck("SecretForbidden", text));
            }
            Ok(Err(error)) => {
                let text = format!("cannot read the Secret {key}: {error}");
                return Err(passing("SecretUnreadable", text));
            }
            Err(_) => {
                let text = format!("cannot read the Secret {key}: no answer in time");
                return Err(passing("SecretUnreadable", text));
            }
        };
        let entries = secret.data.unwrap_or_default().into_iter();
        Ok(Contents {
            version: secret.metadata.resource_version.unwrap_or_default(),
            entries: entries.map(|(key, value)| (key, value.0)).collect(),
        })
    }
}

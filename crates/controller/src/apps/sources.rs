//! What Kustomizations follow: the address and reference of their sources on the leaf.
//!
//! A source is read when an app that names it is looked at, and remembered for a while: sources are
//! few and seldom edited. What cannot be read is left out; nothing depends on it but one hold.

use std::{collections::HashMap, time::Duration};

use api::flux::{ObjectReference, SOURCE_GROUP};
use kube::{Api, Client, api::DynamicObject, core::ApiResource};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::feed::discover;
use crate::keys::{AppKind, ClusterKey};

/// How long an answer holds.
const HOLDS: Duration = Duration::from_secs(300);
/// How long reading a source may take.
const WITHIN: Duration = Duration::from_secs(3);

type Key = (ClusterKey, AppKind, String, String);

/// The sources that were read.
#[derive(Default)]
pub(crate) struct Sources {
    known: Mutex<HashMap<Key, (Instant, Option<String>)>>,
    served: Mutex<HashMap<(ClusterKey, AppKind), ApiResource>>,
}

impl Sources {
    /// What the source follows that an app in a namespace refers to.
    pub(crate) async fn follows(
        &self,
        client: &Client,
        cluster: &ClusterKey,
        namespace: &str,
        reference: &ObjectReference,
    ) -> Option<String> {
        let kind = AppKind {
            group: SOURCE_GROUP.to_owned(),
            kind: reference.kind.clone()?,
        };
        let namespace = reference.namespace.clone().unwrap_or(namespace.to_owned());
        let key = (cluster.clone(), kind, namespace, reference.name.clone()?);
        if let Some((since, follows)) = self.known.lock().get(&key)
            && since.elapsed() < HOLDS
        {
            return follows.clone();
        }
        let read = tokio::time::timeout(WITHIN, self.read(client, &key)).await;
        let follows = match read {
            Ok(Ok(follows)) => follows,
            Ok(Err(error)) => {
                tracing::debug!(%cluster, source = key.3, %error, "source not read");
                self.served.lock().remove(&(key.0.clone(), key.1.clone()));
                None
            }
            Err(_) => None,
        };
        self.known
            .lock()
            .insert(key, (Instant::now(), follows.clone()));
        follows
    }

    async fn read(&self, client: &Client, key: &Key) -> Result<Option<String>, kube::Error> {
        let (cluster, kind, namespace, name) = key;
        let of_kind = (cluster.clone(), kind.clone());
        let known = self.served.lock().get(&of_kind).cloned();
        let resource = match known {
            Some(resource) => resource,
            None => match discover(client, kind).await? {
                Some(resource) => resource,
                None => return Ok(None),
            },
        };
        self.served.lock().insert(of_kind, resource.clone());
        let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
        let source = api.get_opt(name).await?;
        Ok(source.and_then(|source| api::flux::followed(&kind.kind, &source.data["spec"])))
    }

    /// Forgets everything about a cluster.
    pub(crate) fn forget_cluster(&self, cluster: &ClusterKey) {
        self.known.lock().retain(|(of, ..), _| of != cluster);
        self.served.lock().retain(|(of, _), _| of != cluster);
    }
}

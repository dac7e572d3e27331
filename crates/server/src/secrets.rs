//! The keys of signatures, from Secrets.
//!
//! A Secret is read when a signature needs it, and then not again for a while, whatever came of it:
//! ten thousand wrong signatures cost one read.

use std::{collections::HashMap, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use parking_lot::Mutex;
use tokio::{sync::Mutex as AsyncMutex, time::Instant};
use tracing::warn;

use crate::{signature::Key, watched::ObjectKey};

/// How long what was read is used.
const FRESH: Duration = Duration::from_secs(10);
/// The entry of a Secret that holds the key.
const ENTRY: &str = "hmac-key";

/// What is known about a key.
#[derive(Clone)]
pub(crate) enum Found {
    /// The key.
    Key(Arc<Key>),
    /// There is no such Secret or no key in it, or we may not read it.
    Nothing,
    /// The API server did not answer.
    Unknown,
}

#[derive(Default)]
struct Slot(AsyncMutex<Option<(Instant, Found)>>);

pub(crate) struct Secrets {
    client: Client,
    slots: Mutex<HashMap<ObjectKey, Arc<Slot>>>,
}

impl Secrets {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            slots: Mutex::default(),
        }
    }

    /// The key in a Secret, as of at most ten seconds ago.
    pub(crate) async fn key(&self, secret: &ObjectKey) -> Found {
        let slot = self.slots.lock().entry(secret.clone()).or_default().clone();
        let mut known = slot.0.lock().await;
        match &*known {
            Some((read_at, found)) if read_at.elapsed() < FRESH => found.clone(),
            _ => {
                let found = self.read(secret).await;
                *known = Some((Instant::now(), found.clone()));
                found
            }
        }
    }

    async fn read(&self, secret: &ObjectKey) -> Found {
        let (namespace, name) = (&secret.namespace, &secret.name);
        if !secret.is_valid() {
            warn!(
                namespace,
                name, "no signature can be checked: that is no name of a Secret"
            );
            return Found::Nothing;
        }
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), namespace);
        match secrets.get_opt(name).await {
            Ok(found) => {
                let entries = found.and_then(|secret| secret.data);
                let bytes = entries.and_then(|mut entries| entries.remove(ENTRY));
                match bytes.and_then(|bytes| Key::new(bytes.0)) {
                    Some(key) => Found::Key(Arc::new(key)),
                    None => {
                        warn!(
                            namespace,
                            name,
                            "no signature can be checked: the Secret is missing or has no {ENTRY}"
                        );
                        Found::Nothing
                    }
                }
            }
            Err(kube::Error::Api(refusal)) if refusal.code < 500 && refusal.code != 429 => {
                warn!(namespace, name, %refusal, "no signature can be checked: the Secret may not be read");
                Found::Nothing
            }
            Err(error) => {
                warn!(namespace, name, %error, "no signature can be checked: reading the Secret failed");
                Found::Unknown
            }
        }
    }
}

//! Reads Secrets by name, with a TTL cache of a few seconds.
//!
//! Needs the RBAC verb `get` on Secrets and no other.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use api::{names::HOST_ANNOTATION, reference::LocalReference};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client, ResourceExt};
use planner::{Failure, SECRET_MISSING};
use runtime::{ObjectKey, TtlCache};
use tokio::time::timeout;

use super::{
    PromotionTask,
    failure::{needs_edit, transient},
};

/// How long a Secret is cached, so that many promotions with the same Secret read it once.
const TIME_TO_LIVE: Duration = Duration::from_secs(10);
/// How many Secrets are cached.
const CAPACITY: usize = 1024;
/// How long reading a Secret may take.
const READ_TIME: Duration = Duration::from_secs(10);

/// The entries of a Secret.
pub(crate) struct SecretContents {
    /// Its resourceVersion.
    pub(crate) version: String,
    pub(crate) entries: BTreeMap<String, Vec<u8>>,
    /// The host that it may be sent to, where it says so.
    pub(crate) host: Option<String>,
}

/// Reads Secrets on the hub.
pub(crate) struct SecretReader {
    hub: Client,
    cache: TtlCache<ObjectKey, Result<Arc<SecretContents>, Failure>>,
}

impl SecretReader {
    pub(crate) fn new(hub: Client) -> Self {
        Self {
            hub,
            cache: TtlCache::new(TIME_TO_LIVE, CAPACITY),
        }
    }

    /// Reads a Secret in the pipeline's namespace.
    pub(super) async fn read_for(
        &self,
        task: PromotionTask<'_>,
        reference: &LocalReference,
    ) -> Result<Arc<SecretContents>, Failure> {
        let namespace = task.pipeline.metadata.namespace.as_deref();
        let key = ObjectKey::new(namespace.unwrap_or_default(), &reference.name);
        self.read(&key).await
    }

    /// Reads a Secret.
    pub(crate) async fn read(&self, key: &ObjectKey) -> Result<Arc<SecretContents>, Failure> {
        let lookup = async {
            let contents = self.get(key).await.map(Arc::new);
            // Failures are not cached: somebody may be creating the Secret.
            let time_to_live = contents.as_ref().map_or(Duration::ZERO, |_| TIME_TO_LIVE);
            (contents, time_to_live)
        };
        self.cache.get_with_ttl(key.clone(), lookup).await
    }

    async fn get(&self, key: &ObjectKey) -> Result<SecretContents, Failure> {
        if key.name.is_empty() {
            let text = "the secretRef has no name; name the Secret with the credentials";
            return Err(needs_edit(SECRET_MISSING, text));
        }
        let api: Api<Secret> = Api::namespaced(self.hub.clone(), &key.namespace);
        let name = &key.name;
        let read = timeout(READ_TIME, api.get_opt(name)).await;
        let secret = match read {
            Ok(Ok(Some(secret))) => secret,
            Ok(Ok(None)) => {
                let text = format!("there is no Secret {key}; create it with the credentials");
                return Err(needs_edit(SECRET_MISSING, text));
            }
            Ok(Err(kube::Error::Api(refusal))) if matches!(refusal.code, 401 | 403) => {
                let text = format!("reading the Secret {key} is not allowed; allow `get` on it");
                return Err(needs_edit("SecretForbidden", text));
            }
            Ok(Err(error)) => {
                let text = format!("cannot read the Secret {key}: {error}");
                return Err(transient("SecretUnreadable", text));
            }
            Err(_) => {
                let text = format!("cannot read the Secret {key}: no answer in time");
                return Err(transient("SecretUnreadable", text));
            }
        };
        let annotation = secret.annotations().get(HOST_ANNOTATION);
        let host = annotation.map(|host| host.trim().to_ascii_lowercase());
        let entries = secret.data.unwrap_or_default().into_iter();
        Ok(SecretContents {
            version: secret.metadata.resource_version.unwrap_or_default(),
            entries: entries.map(|(key, value)| (key, value.0)).collect(),
            host,
        })
    }
}

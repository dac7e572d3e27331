//! The keys that hook requests are signed with, and the tokens that they carry, read from Secrets.
//!
//! What a Secret holds, or that it could not be read, is remembered for some seconds: ten thousand
//! wrong signatures cost one read.

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};
use runtime::{ObjectKey, TtlCache};
use tracing::warn;

use crate::{object_names::is_valid_key, signature::HookSigningKey};

/// How long a key is used without reading its Secret again.
const KEY_TTL: Duration = Duration::from_secs(10);
/// How many keys are remembered.
const MAX_CACHED: usize = 10_000;
/// The entry of a Secret that holds the key of signatures.
pub(crate) const HMAC_KEY: &str = "hmac-key";

/// The result of looking a key up.
#[derive(Clone)]
pub(crate) enum SigningKeyLookup {
    Found(Arc<HookSigningKey>),
    /// There is no such Secret or no key in it, or we may not read it.
    Missing,
    /// The API server did not answer.
    Unavailable,
}

pub(crate) struct SigningKeys {
    client: Client,
    /// The entry that is read.
    entry: &'static str,
    cache: TtlCache<ObjectKey, SigningKeyLookup>,
}

impl SigningKeys {
    /// The keys in this entry of Secrets.
    pub(crate) fn new(client: Client, entry: &'static str) -> Self {
        Self {
            client,
            entry,
            cache: TtlCache::new(KEY_TTL, MAX_CACHED),
        }
    }

    /// The key in a Secret, at most ten seconds old.
    pub(crate) async fn get(&self, secret: ObjectKey) -> SigningKeyLookup {
        let lookup = self.read(&secret);
        self.cache.get_with(secret.clone(), lookup).await
    }

    async fn read(&self, key: &ObjectKey) -> SigningKeyLookup {
        if !is_valid_key(key) {
            warn!(secret = %key, "cannot authenticate hook requests: this is not a valid name of a Secret");
            return SigningKeyLookup::Missing;
        }
        let secrets: Api<Secret> = Api::namespaced(self.client.clone(), &key.namespace);
        let secret = match secrets.get_opt(&key.name).await {
            Ok(secret) => secret,
            Err(kube::Error::Api(refusal)) if refusal.code < 500 && refusal.code != 429 => {
                warn!(secret = %key, %refusal, "cannot authenticate hook requests: not allowed to read the Secret");
                return SigningKeyLookup::Missing;
            }
            Err(error) => {
                warn!(secret = %key, %error, "cannot authenticate hook requests: reading the Secret failed");
                return SigningKeyLookup::Unavailable;
            }
        };
        let entries = secret.and_then(|secret| secret.data);
        let bytes = entries.and_then(|mut entries| entries.remove(self.entry));
        match bytes.and_then(|bytes| HookSigningKey::new(bytes.0)) {
            Some(key) => SigningKeyLookup::Found(Arc::new(key)),
            None => {
                warn!(secret = %key, "cannot authenticate hook requests: the Secret is missing or has no {}", self.entry);
                SigningKeyLookup::Missing
            }
        }
    }
}

//! The Secret that all replicas share: the key of the cookies, and the list of revoked sessions.
//!
//! The first replica creates it. A replica reads it again once it is some seconds old, so that a session
//! which was revoked on another replica ends, and so do all sessions when somebody deletes the Secret: the
//! next one has another key. A revoked session stays in the list until it would have expired.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, Client, api::PostParams};
use ring::aead::{CHACHA20_POLY1305, LessSafeKey, UnboundKey};
use sha2::{Digest, Sha256};
use tokio::{
    sync::{Mutex, MutexGuard},
    time::Instant,
};
use tracing::warn;

use super::{Error, Session};
use crate::random;

/// The name of the Secret, in the namespace that Sluice runs in.
pub(super) const NAME: &str = "sluice-sessions";
/// The entry with the key.
const KEY: &str = "key";
/// The entry with the list of revoked sessions.
const REVOKED: &str = "revoked";
/// How long a replica may use an old key, or accept a session that was revoked on another.
const TTL: Duration = Duration::from_secs(5);
/// The length of the list; beyond it, sessions that expire first are removed first.
const MAX_REVOKED: usize = 10_000;
/// How often a write is tried before giving up on conflicts.
const ATTEMPTS: usize = 10;

/// By session id: when the session expires, in seconds since 1970.
type ExpiryById = BTreeMap<String, i64>;

/// The Secret as this replica knows it.
pub(super) struct SessionSecret {
    client: Client,
    known: Mutex<Option<CachedSecret>>,
}

#[derive(Clone)]
struct CachedSecret {
    read: Instant,
    key: Arc<LessSafeKey>,
    revoked: ExpiryById,
}

impl SessionSecret {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            known: Mutex::default(),
        }
    }

    /// The key of the cookies.
    pub(super) async fn key(&self) -> Result<Arc<LessSafeKey>, Error> {
        self.known(|known| known.key.clone()).await
    }

    /// Whether a session is revoked.
    pub(super) async fn is_revoked(&self, session: &Session) -> Result<bool, Error> {
        self.known(|known| known.revoked.contains_key(&id(session)))
            .await
    }

    /// Reads the Secret again if it is old, and returns a part of it.
    async fn known<T>(&self, part: impl FnOnce(&CachedSecret) -> T) -> Result<T, Error> {
        let mut known = self.known.lock().await;
        if let Some(fresh) = known.as_ref().filter(|it| it.read.elapsed() < TTL) {
            return Ok(part(fresh));
        }
        let newest = self.read(known.as_ref()).await?;
        Ok(part(known.insert(newest)))
    }

    async fn read(&self, old: Option<&CachedSecret>) -> Result<CachedSecret, Error> {
        let secret = match (self.get_or_create().await, old) {
            (Ok(secret), _) => secret,
            // What was read before is better than nothing until the API server answers again.
            (Err(error), Some(old)) => {
                warn!(%error, "could not read the Secret of the sessions; using what was read before");
                let read = Instant::now();
                return Ok(CachedSecret {
                    read,
                    ..old.clone()
                });
            }
            (Err(source), None) => {
                let namespace = self.namespace();
                return Err(Error::Secret { namespace, source });
            }
        };
        let key = secret.data.as_ref().and_then(|data| data.get(KEY));
        let key = key.and_then(|key| UnboundKey::new(&CHACHA20_POLY1305, &key.0).ok());
        let key = key.ok_or_else(|| Error::Key {
            namespace: self.namespace(),
        })?;
        Ok(CachedSecret {
            read: Instant::now(),
            key: Arc::new(LessSafeKey::new(key)),
            revoked: listed(&secret),
        })
    }

    async fn get_or_create(&self) -> Result<Secret, kube::Error> {
        let secrets = self.secrets();
        if let Some(secret) = secrets.get_opt(NAME).await? {
            return Ok(secret);
        }
        match secrets.create(&PostParams::default(), &new_secret()).await {
            Err(kube::Error::Api(refusal)) if refusal.code == 409 => secrets.get(NAME).await,
            created => created,
        }
    }

    /// Revokes a session on all replicas.
    pub(super) async fn revoke(&self, session: &Session, now: Timestamp) -> Result<(), Error> {
        let known = self.known.lock().await;
        let written = self.write_revoked(known, session, now).await;
        written.map_err(|source| Error::SignOut {
            namespace: self.namespace(),
            source,
        })
    }

    async fn write_revoked(
        &self,
        mut known: MutexGuard<'_, Option<CachedSecret>>,
        session: &Session,
        now: Timestamp,
    ) -> Result<(), kube::Error> {
        let secrets = self.secrets();
        for attempt in 1.. {
            let mut secret = secrets.get(NAME).await?;
            let revoked = with_session(listed(&secret), session, now);
            let text = serde_json::to_vec(&revoked).expect("texts and numbers are JSON");
            let data = secret.data.get_or_insert_default();
            data.insert(REVOKED.to_owned(), ByteString(text));
            // The Secret carries its resourceVersion: what other replicas add is not lost.
            let parameters = PostParams::default();
            match secrets.replace(NAME, &parameters, &secret).await {
                Err(kube::Error::Api(refusal)) if refusal.code == 409 && attempt < ATTEMPTS => {}
                Err(error) => return Err(error),
                Ok(_) => {
                    if let Some(known) = known.as_mut() {
                        known.revoked = revoked;
                    }
                    break;
                }
            }
        }
        Ok(())
    }

    fn secrets(&self) -> Api<Secret> {
        Api::default_namespaced(self.client.clone())
    }

    fn namespace(&self) -> String {
        self.client.default_namespace().to_owned()
    }
}

fn new_secret() -> Secret {
    let mut key = [0; 32];
    random::fill(&mut key);
    let mut secret = Secret::default();
    secret.metadata.name = Some(NAME.to_owned());
    let key = ByteString(key.to_vec());
    secret.data = Some(BTreeMap::from([(KEY.to_owned(), key)]));
    secret
}

/// The list with one more session, and without those that have expired.
fn with_session(mut ends: ExpiryById, session: &Session, now: Timestamp) -> ExpiryById {
    ends.retain(|_, end| *end > now.as_second());
    ends.insert(id(session), session.ends);
    while ends.len() > MAX_REVOKED {
        let first = ends.iter().min_by_key(|(_, end)| **end);
        let Some(first) = first.map(|(id, _)| id.clone()) else {
            break;
        };
        ends.remove(&first);
    }
    ends
}

fn listed(secret: &Secret) -> ExpiryById {
    let entry = secret.data.as_ref().and_then(|data| data.get(REVOKED));
    let ends = entry.and_then(|entry| serde_json::from_slice(&entry.0).ok());
    ends.unwrap_or_default()
}

/// The id of a session, which does not reveal its CSRF token.
fn id(session: &Session) -> String {
    let digest = Sha256::digest(&session.csrf);
    digest
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

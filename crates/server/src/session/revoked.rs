//! The list of revoked sessions: those that people have signed out of.
//!
//! It is stored in the Secret of the session key, so that all replicas share it. A session stays in it
//! until it would have expired. A replica reads the list again once it is some seconds old.

use std::{collections::BTreeMap, time::Duration};

use jiff::Timestamp;
use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Api, api::PostParams};
use sha2::{Digest, Sha256};
use tokio::{sync::Mutex, time::Instant};
use tracing::warn;

use super::{SECRET, Session};

/// The entry of the Secret with the list.
const ENTRY: &str = "revoked";
/// How long a replica may accept a session that was revoked on another.
const LIST_TTL: Duration = Duration::from_secs(5);
/// The length of the list; beyond it, sessions that expire first are removed first.
const MAX_REVOKED: usize = 10_000;
/// How often a write is tried before giving up on conflicts.
const ATTEMPTS: usize = 10;

/// By session id: when the session expires, in seconds since 1970.
type ExpiryById = BTreeMap<String, i64>;

/// The list as this replica knows it.
#[derive(Default)]
pub(super) struct RevokedSessions(Mutex<RevokedList>);

#[derive(Default)]
struct RevokedList {
    read: Option<Instant>,
    ends: ExpiryById,
}

impl RevokedSessions {
    /// Whether a session is revoked.
    pub(super) async fn contains(
        &self,
        secrets: &Api<Secret>,
        session: &Session,
    ) -> Result<bool, kube::Error> {
        let mut known = self.0.lock().await;
        if known.read.is_none_or(|read| read.elapsed() >= LIST_TTL) {
            match secrets.get(SECRET).await {
                Ok(secret) => known.ends = listed(&secret),
                // An old list is better than none until the API server answers again.
                Err(error) if known.read.is_some() => {
                    warn!(%error, "could not read the list of revoked sessions; using the old one");
                }
                Err(error) => return Err(error),
            }
            known.read = Some(Instant::now());
        }
        Ok(known.ends.contains_key(&id(session)))
    }

    /// Revokes a session on all replicas.
    pub(super) async fn add(
        &self,
        secrets: &Api<Secret>,
        session: &Session,
        now: Timestamp,
    ) -> Result<(), kube::Error> {
        let mut known = self.0.lock().await;
        for attempt in 1.. {
            let mut secret = secrets.get(SECRET).await?;
            let ends = with_session(listed(&secret), session, now);
            let text = serde_json::to_vec(&ends).expect("texts and numbers are JSON");
            let data = secret.data.get_or_insert_default();
            data.insert(ENTRY.to_owned(), ByteString(text));
            // The Secret carries its resourceVersion: what other replicas add is not lost.
            match secrets
                .replace(SECRET, &PostParams::default(), &secret)
                .await
            {
                Err(kube::Error::Api(refusal)) if refusal.code == 409 && attempt < ATTEMPTS => {}
                Err(error) => return Err(error),
                Ok(_) => {
                    known.ends = ends;
                    break;
                }
            }
        }
        Ok(())
    }
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
    let entry = secret.data.as_ref().and_then(|data| data.get(ENTRY));
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

//! Sessions that people have signed out of.
//!
//! They are listed beside the key in the Secret, where every replica sees them, until they would have
//! ended anyway. A replica reads the list again when it is a few seconds old and somebody asks, not
//! for each request.

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
/// How long another replica may go on with a session.
const FRESH: Duration = Duration::from_secs(5);
/// How many are remembered; beyond that, those that end first are forgotten first.
const MOST: usize = 10_000;
/// How often a write is tried that another replica got ahead of.
const ATTEMPTS: usize = 10;

/// When sessions that were signed out of end by themselves, in seconds since 1970, by what stands for
/// them.
type Ends = BTreeMap<String, i64>;

/// What this replica knows.
#[derive(Default)]
pub(super) struct Revoked(Mutex<Known>);

#[derive(Default)]
struct Known {
    read: Option<Instant>,
    ends: Ends,
}

impl Revoked {
    /// Whether somebody has signed out of a session.
    pub(super) async fn contains(
        &self,
        secrets: &Api<Secret>,
        session: &Session,
    ) -> Result<bool, kube::Error> {
        let mut known = self.0.lock().await;
        if known.read.is_none_or(|read| read.elapsed() >= FRESH) {
            match secrets.get(SECRET).await {
                Ok(secret) => known.ends = listed(&secret),
                // What is known is better than nothing until the API answers again.
                Err(error) if known.read.is_some() => {
                    warn!(%error, "cannot read which sessions were signed out of");
                }
                Err(error) => return Err(error),
            }
            known.read = Some(Instant::now());
        }
        Ok(known.ends.contains_key(&id(session)))
    }

    /// Adds a session, for all replicas.
    pub(super) async fn add(
        &self,
        secrets: &Api<Secret>,
        session: &Session,
    ) -> Result<(), kube::Error> {
        let mut known = self.0.lock().await;
        for attempt in 1.. {
            let mut secret = secrets.get(SECRET).await?;
            let ends = with(listed(&secret), session);
            let text = serde_json::to_vec(&ends).expect("texts and numbers are JSON");
            let data = secret.data.get_or_insert_default();
            data.insert(ENTRY.to_owned(), ByteString(text));
            // It names the version that was read: what others add meanwhile is not lost.
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

/// The list with one more, and without those that have ended.
fn with(mut ends: Ends, session: &Session) -> Ends {
    let now = Timestamp::now().as_second();
    ends.retain(|_, end| *end > now);
    ends.insert(id(session), session.ends);
    while ends.len() > MOST {
        let first = ends.iter().min_by_key(|(_, end)| **end);
        let Some(first) = first.map(|(id, _)| id.clone()) else {
            break;
        };
        ends.remove(&first);
    }
    ends
}

fn listed(secret: &Secret) -> Ends {
    let entry = secret.data.as_ref().and_then(|data| data.get(ENTRY));
    let ends = entry.and_then(|entry| serde_json::from_slice(&entry.0).ok());
    ends.unwrap_or_default()
}

/// What stands for a session; nothing can be done with it.
fn id(session: &Session) -> String {
    let digest = Sha256::digest(&session.csrf);
    digest
        .iter()
        .take(16)
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

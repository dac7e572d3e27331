//! What branches point to, looked at for promotions that wait for an edit of their repository.
//!
//! All that wait for the same branches share one look per while. A remote that does not answer
//! counts as unchanged: what it last said still holds.

use std::{
    collections::{BTreeMap, HashMap},
    time::Duration,
};

use git::{
    mirror,
    names::{BranchName, ObjectId},
};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{Settings, faults::LOOK_FOR_EDITS};

/// How long an answer is kept that nobody asks for.
const IDLE: Duration = Duration::from_secs(3600);

/// A repository's URL, the credential's fingerprint, and the branches.
type Key = (String, [u8; 32], String);

pub(super) struct Tips {
    kept: Mutex<HashMap<Key, (Instant, String)>>,
    /// How long an answer counts.
    fresh: Duration,
}

impl Tips {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            kept: Mutex::default(),
            fresh: LOOK_FOR_EDITS.min(settings.follow_every) / 2,
        }
    }

    /// One word for the answer, or for the one before where that is fresh or there is none.
    pub(super) async fn word(
        &self,
        key: Key,
        look: impl Future<Output = Result<BTreeMap<BranchName, ObjectId>, mirror::Error>>,
    ) -> String {
        let known = self.kept.lock().get(&key).cloned();
        if let Some((at, word)) = &known
            && at.elapsed() < self.fresh
        {
            return word.clone();
        }
        let word = match look.await {
            Ok(tips) => word(&tips),
            Err(error) => {
                tracing::warn!(repository = key.0, %error, "branches not seen");
                known.map(|(_, word)| word).unwrap_or_default()
            }
        };
        let mut kept = self.kept.lock();
        kept.retain(|_, (at, _)| at.elapsed() < IDLE);
        kept.insert(key, (Instant::now(), word.clone()));
        word
    }
}

fn word(tips: &BTreeMap<BranchName, ObjectId>) -> String {
    let all = tips.iter().map(|(branch, tip)| format!("{branch}={tip}"));
    all.collect::<Vec<_>>().join(" ")
}

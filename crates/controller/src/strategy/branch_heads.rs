//! TTL cache of the commits that branches point to, for promotions that wait for an edit of their
//! repository.
//!
//! Promotions that wait for the same branches share one lookup per interval. A repository that does
//! not answer counts as unchanged.

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

use crate::{Settings, failure_dependencies::RECHECK_DEPENDENCIES};

/// How long a lookup is kept that nobody asks for.
const IDLE: Duration = Duration::from_secs(3600);

/// A repository's URL, the fingerprint of the credential, and the branches.
type BranchesKey = (String, [u8; 32], String);

pub(super) struct BranchHeads {
    /// When branches were looked up, and what they pointed to.
    known: Mutex<HashMap<BranchesKey, (Instant, String)>>,
    time_to_live: Duration,
}

impl BranchHeads {
    pub(super) fn new(settings: &Settings) -> Self {
        Self {
            known: Mutex::default(),
            time_to_live: RECHECK_DEPENDENCIES.min(settings.follow_every) / 2,
        }
    }

    /// A text that differs when a branch points to another commit. If the lookup fails, the text of
    /// the one before.
    pub(super) async fn get(
        &self,
        key: BranchesKey,
        lookup: impl Future<Output = Result<BTreeMap<BranchName, ObjectId>, mirror::Error>>,
    ) -> String {
        let known = self.known.lock().get(&key).cloned();
        if let Some((at, heads)) = &known
            && at.elapsed() < self.time_to_live
        {
            return heads.clone();
        }
        let heads = match lookup.await {
            Ok(heads) => as_text(&heads),
            Err(error) => {
                tracing::warn!(repository = key.0, %error, "could not list the branches");
                known.map(|(_, heads)| heads).unwrap_or_default()
            }
        };
        let mut known = self.known.lock();
        known.retain(|_, (at, _)| at.elapsed() < IDLE);
        known.insert(key, (Instant::now(), heads.clone()));
        heads
    }
}

fn as_text(heads: &BTreeMap<BranchName, ObjectId>) -> String {
    let all = heads
        .iter()
        .map(|(branch, commit)| format!("{branch}={commit}"));
    all.collect::<Vec<_>>().join(" ")
}

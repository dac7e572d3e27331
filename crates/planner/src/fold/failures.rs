//! Which releases failed in an environment, the one that failed last first.

use api::pipeline::{FailedRelease, TargetStatus};

use super::ran::REMEMBERED;
use crate::{
    conditions::cut,
    release::{failed_revision, failure_message},
    site::target_name,
    time::{Timestamp, stored},
};

/// How much of a target's name is kept.
const LONGEST_NAME: usize = 500;

/// Adds what has come to fail, each revision once. Whatever goes on failing is no news.
pub(super) fn remember(
    failures: &mut Vec<FailedRelease>,
    before: &[TargetStatus],
    after: &[TargetStatus],
    now: Timestamp,
) {
    let mut added = Vec::new();
    for target in after {
        let Some(revision) = failed_revision(target) else {
            continue;
        };
        let was_failing = before
            .iter()
            .any(|known| failed_revision(known) == Some(revision));
        // One that was pushed out by others is no news either.
        let is_known =
            failures.iter().any(|known| known.revision == revision) || failures.len() >= REMEMBERED;
        if added.contains(&revision) || was_failing && is_known {
            continue;
        }
        added.push(revision);
        failures.retain(|known| known.revision != revision);
        let failure = FailedRelease {
            revision: revision.to_owned(),
            target: cut(&target_name(target), LONGEST_NAME),
            message: failure_message(target).map(str::to_owned),
            at: Some(stored(now)),
        };
        failures.insert(0, failure);
    }
    failures.truncate(REMEMBERED);
}

//! Records which releases failed in an environment, the last one first, and when all was well again.

use api::pipeline::{FailedRelease, TargetStatus};

use super::ran::REMEMBERED;
use crate::{
    conditions::cut,
    release::{failed_revision, failure_message},
    site::target_name,
    time::{Timestamp, stored},
};

/// The longest name of a target, in bytes.
const LONGEST_NAME: usize = 500;

/// Adds releases that have begun to fail, each revision once. One that keeps failing is not added again.
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
        // One that dropped out of a full list is not added again either.
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
            ended_at: None,
        };
        failures.insert(0, failure);
    }
    failures.truncate(REMEMBERED);
    let was_ready = before.iter().all(|target| target.ready);
    if !was_ready && after.iter().all(|target| target.ready) {
        let open = failures.iter_mut().filter(|it| it.ended_at.is_none());
        open.for_each(|it| it.ended_at = Some(stored(now)));
    }
}

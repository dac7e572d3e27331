//! The status of a promotion after an external action.

use std::time::Duration;

use api::{
    Promotion,
    conditions::READY,
    promotion::{Phase, PromotionStatus},
};

use super::{
    AttemptPlan, CHANGE_DIFFERS, ExternalAction, MERGE_NOT_ALLOWED, MERGE_QUEUE_REQUIRED,
    NOT_MERGEABLE, backoff, change::dropped_at_end, rollout::land_batch,
};
use crate::{
    conditions::{self, ConditionValue, cut},
    gate::approvals::CHANGE_NOT_KNOWN,
    time::{Timestamp, later, stored},
};

/// The message of an open pull request without a problem.
pub(super) const WAITS_TO_BE_MERGED: &str = "the pull request waits to be merged";
/// The longest error message, in bytes.
const LONGEST_MESSAGE: usize = 1024;

/// The result of an external action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The pull request is open and proposes the change.
    Opened {
        /// The URL of the pull request.
        url: String,
        /// Its branch.
        branch: String,
        /// The commit on it.
        commit: Option<String>,
        /// A sentence for each thing that was left out, such as a reviewer whom the forge does not
        /// know.
        notes: Vec<String>,
    },
    /// The change was pushed to the base branch.
    Pushed {
        /// The branch.
        branch: String,
        /// The commit.
        commit: String,
    },
    /// The tag points to the digest.
    Tagged {
        /// The repository and the tag, as `oci://host/name:tag`.
        reference: String,
    },
    /// Clusters that ask get the revision from now on.
    Published,
    /// The base branch already has the change.
    AlreadyThere,
    /// It would change something else than what was approved. Nothing was pushed.
    ChangeDiffers,
    /// The notification or call was sent.
    Delivered {
        /// The URL of what it led to, if the answer has one.
        url: Option<String>,
    },
    /// The pull request is not open any more.
    Closed,
    /// The forge merged the pull request.
    Merged,
    /// The forge was asked to merge the pull request, and has not yet.
    AskedForMerge {
        /// Why it cannot yet; nothing where it merges in the background or in its merge queue.
        because: Option<Failure>,
    },
    /// The forge does not merge the pull request by itself any more.
    ScheduledMergeCancelled,
    /// It failed.
    Failed(Failure),
}

/// Why an external action failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// A fixed reason.
    pub reason: String,
    /// A sentence without secrets.
    pub message: String,
    /// What resolves it.
    pub remedy: Remedy,
}

/// What resolves a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// A retry.
    Retry,
    /// A retry after at least this time.
    RetryAfter(Duration),
    /// An edit of what is at fault. Without one it is retried rarely.
    WaitForEdit,
}

/// The status after an external action. The seed is for the jitter of the backoff.
pub fn conclude(
    promotion: &Promotion,
    next: AttemptPlan,
    outcome: Outcome,
    now: Timestamp,
    seed: u64,
) -> PromotionStatus {
    let before = promotion.status.clone().unwrap_or_default();
    let status = match outcome {
        Outcome::Failed(failure) => {
            // The pull request is not closed yet, so the promotion has not ended.
            let status = match next.action {
                ExternalAction::ClosePullRequest => before,
                _ => next.status,
            };
            failed(status, &failure, now, seed)
        }
        Outcome::Closed => next.status,
        Outcome::AskedForMerge { because } => unmerged(next.status, because),
        Outcome::ScheduledMergeCancelled => PromotionStatus {
            merge_scheduled: false,
            next_attempt: None,
            ..next.status
        },
        Outcome::ChangeDiffers => differs(next.status),
        done => succeeded(next.status, done, now),
    };
    with_condition(dropped_at_end(status), now)
}

/// It waits for approval again.
fn differs(mut status: PromotionStatus) -> PromotionStatus {
    let message = "what it would change is not what was approved: the repository was edited since; \
                   resolved by an approval of what it changes now";
    status.phase = Some(Phase::AwaitingApproval);
    status.reason = Some(CHANGE_DIFFERS.to_owned());
    status.message = Some(message.to_owned());
    status.next_attempt = None;
    status
}

fn failed(
    mut status: PromotionStatus,
    failure: &Failure,
    now: Timestamp,
    seed: u64,
) -> PromotionStatus {
    status.attempts = status.attempts.saturating_add(1);
    let pause = match failure.remedy {
        Remedy::Retry => backoff::backoff(status.attempts, seed),
        Remedy::RetryAfter(least) => backoff::backoff(status.attempts, seed).max(least),
        Remedy::WaitForEdit => backoff::slow_backoff(status.attempts, seed),
    };
    status.next_attempt = Some(stored(later(now, pause)));
    status.reason = Some(failure.reason.clone());
    let is_unknown = status.phase == Some(Phase::AwaitingApproval) && status.change.is_none();
    let message = match is_unknown {
        true => format!("{CHANGE_NOT_KNOWN}: {}", failure.message),
        false => failure.message.clone(),
    };
    status.message = Some(cut(&message, LONGEST_MESSAGE));
    status
}

fn unmerged(mut status: PromotionStatus, because: Option<Failure>) -> PromotionStatus {
    if let Some(because) = because {
        let reason = match because.reason.as_str() {
            "Forbidden" => MERGE_NOT_ALLOWED,
            MERGE_QUEUE_REQUIRED => MERGE_QUEUE_REQUIRED,
            reason @ ("Frozen" | "InvalidFreeze" | "FreezesUnknown") => reason,
            _ => NOT_MERGEABLE,
        };
        // Stored before the forge is asked to, so that it is cancelled whatever crashes.
        status.merge_scheduled |= reason == MERGE_QUEUE_REQUIRED;
        status.reason = Some(reason.to_owned());
        status.message = Some(cut(&because.message, LONGEST_MESSAGE));
    }
    status
}

/// The status of a promotion after a failed query for its pull request. It changes only with the
/// reason, so that a message with a countdown is not written each time.
pub fn status_after_failed_lookup(
    mut status: PromotionStatus,
    failure: &Failure,
    now: Timestamp,
) -> PromotionStatus {
    let is_new = status.reason.as_ref() != Some(&failure.reason);
    if status.phase == Some(Phase::WaitingForMerge) && is_new {
        status.reason = Some(failure.reason.clone());
        status.message = Some(cut(&failure.message, LONGEST_MESSAGE));
        status = with_condition(status, now);
    }
    status
}

fn succeeded(mut status: PromotionStatus, outcome: Outcome, now: Timestamp) -> PromotionStatus {
    status.attempts = status.attempts.saturating_add(1);
    status.next_attempt = None;
    let with = |phase, message: &str| (phase, message.to_owned());
    let (phase, message) = match outcome {
        Outcome::Opened {
            url,
            branch,
            commit,
            notes,
        } => {
            status.url = Some(url);
            status.branch = Some(branch);
            status.commit = commit;
            let sentences = [WAITS_TO_BE_MERGED.to_owned()].into_iter().chain(notes);
            let message = sentences.collect::<Vec<_>>().join("; ");
            (Phase::WaitingForMerge, cut(&message, LONGEST_MESSAGE))
        }
        Outcome::Pushed { branch, commit } => {
            status.branch = Some(branch);
            status.commit = Some(commit);
            with(Phase::Deploying, "the change was pushed")
        }
        Outcome::Tagged { reference } => (
            Phase::Deploying,
            format!("{reference} points to the revision"),
        ),
        Outcome::Published => with(
            Phase::Deploying,
            "the revision was published; clusters get it when they next ask",
        ),
        Outcome::Merged => with(Phase::Deploying, "the pull request was merged"),
        Outcome::Delivered { url } => {
            status.url = url.or(status.url);
            with(Phase::Deploying, "the promotion was handed over")
        }
        _ => with(Phase::Deploying, "git asks for the revision already"),
    };
    if phase == Phase::Deploying {
        status.merged_at = status.merged_at.or(Some(stored(now)));
        land_batch(&mut status, now);
    }
    status.reason = Some(format!("{phase:?}"));
    status.message = Some(message);
    status.phase = Some(phase);
    status
}

/// The status with the condition `Ready` that goes with its phase.
pub(super) fn with_condition(mut status: PromotionStatus, now: Timestamp) -> PromotionStatus {
    let Some(phase) = status.phase else {
        return status;
    };
    let word = match phase {
        Phase::Succeeded => "True",
        phase if phase.is_terminal() => "False",
        _ => "Unknown",
    };
    let reason = status.reason.clone().unwrap_or(format!("{phase:?}"));
    let verdict = ConditionValue::new(word, &reason, status.message.clone().unwrap_or_default());
    conditions::set(&mut status.conditions, READY, &verdict, now);
    status
}

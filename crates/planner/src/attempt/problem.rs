//! Why a promotion does not go on, and what resolves that, by the reason in its status.
//!
//! Every reason that a strategy, `git` or a forge can give has a line here and one in
//! docs/troubleshooting.md.

use api::promotion::{Phase, PromotionStatus};

use crate::{conditions::cut, hold::HoldReason, plan::successor};

use super::{
    BRANCH_CHANGED_BY_OTHERS, CHECK_FAILED, DEPLOY_FAILED, MERGE_NOT_ALLOWED, MERGE_QUEUE_REQUIRED,
    NOT_MERGEABLE, SECRET_MISSING, STRATEGY_CHANGED, TAG_CHANGED_BY_OTHERS,
};

/// The longest message, in bytes.
const LONGEST: usize = 1500;

/// Why a promotion does not go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PromotionProblem {
    /// The fixed word.
    pub reason: String,
    /// What is wrong, and what resolves it.
    pub message: String,
}

/// Why a promotion does not go on; nothing where its phase says everything.
pub fn promotion_problem(status: &PromotionStatus) -> Option<PromotionProblem> {
    let (phase, reason) = (status.phase?, status.reason.as_deref()?);
    let is_usual = reason == format!("{phase:?}") || phase == Phase::Succeeded;
    if is_usual && !needs_message(phase) {
        return None;
    }
    let message = status.message.as_deref().filter(|text| !text.is_empty());
    let replaced = message.and_then(successor);
    let replaced = replaced.map(|name| format!("the promotion {name} replaced it"));
    let message = replaced.as_deref().or(message);
    let clauses = message.into_iter().chain(resolution(phase, reason));
    Some(PromotionProblem {
        reason: reason.to_owned(),
        message: cut(&clauses.collect::<Vec<_>>().join("; "), LONGEST),
    })
}

/// Whether a phase does not say what people want to know: what is verified, and why it ended without an outcome.
fn needs_message(phase: Phase) -> bool {
    matches!(
        phase,
        Phase::Verifying | Phase::Withdrawn | Phase::Superseded
    )
}

/// What resolves it, as a clause; nothing where the message says so itself.
fn resolution(phase: Phase, reason: &str) -> Option<&'static str> {
    Some(match reason {
        BRANCH_CHANGED_BY_OTHERS if phase == Phase::WaitingForMerge => {
            "resolved by merging or closing the pull request"
        }
        BRANCH_CHANGED_BY_OTHERS => {
            "resolved by merging the pull request of that branch, or deleting the branch"
        }
        NOT_MERGEABLE => "resolved by what the forge asks for: reviews, checks, a rebase",
        MERGE_QUEUE_REQUIRED => "resolved by the merge queue, which Sluice asks next",
        MERGE_NOT_ALLOWED => {
            "resolved by a person who merges it, or by giving the token's user the right to merge \
             into the base branch"
        }
        TAG_CHANGED_BY_OTHERS => {
            "resolved by pointing the tag back or deleting it; retried automatically"
        }
        "ArtifactNotFound" => "resolved by pushing the artifact to that repository again",
        "NoArtifact" => "resolved by an app that Flux gets from an OCIRepository",
        CHECK_FAILED if phase.is_terminal() => {
            "resolved by a newer revision, or by a retry of the checks"
        }
        DEPLOY_FAILED => "resolved by mending the deployment, or by a newer revision",
        // The message says that it is to be created.
        SECRET_MISSING => return None,
        "SecretForbidden" | "InvalidCredentials" => {
            "resolved by writing the Secret that secretRef names, with the keys the strategy needs"
        }
        "Unauthorized" | "Forbidden" => "resolved by a token that is valid and may do this",
        "PushRefused" => "resolved by letting the token's user push to that branch",
        "RateLimited" => "retried automatically when the forge allows it",
        "InternalUrl" => "resolved by another url, or by starting with --allow-internal-urls",
        "FreezesUnknown" => "retried automatically; nothing is promoted before Freezes are known",
        "WebhookRefused" => "resolved by correcting the webhook, or whatever it calls",
        "Closed" | "Rejected" => "resolved by a newer revision, or by asking for this one",
        reason => return in_repository(reason).or_else(|| in_strategy(reason, phase)),
    })
}

/// What resolves it where that is an edit of the repository.
fn in_repository(reason: &str) -> Option<&'static str> {
    Some(match reason {
        "NoMarker" | "NoManifest" | "NoDirectory" => {
            "resolved by a marker in the manifest, or by paths in the strategy"
        }
        "SeveralManifests" | "SharedManifest" => {
            "resolved by marking the manifest that is meant, or by an overlay per environment"
        }
        "TargetsShareField" => {
            "resolved by a file or a field for each target, or by promoting without `rollout`"
        }
        "UneditableFile" | "UnreadableFile" | "UnusableValue" => "resolved by editing the file",
        "NoBaseBranch" => "resolved by a baseBranch that the repository has",
        "TooManyFiles" => "resolved by fewer markers, or by paths that cover fewer files",
        _ => return None,
    })
}

fn in_strategy(reason: &str, phase: Phase) -> Option<&'static str> {
    Some(match reason {
        "InvalidTag" | "InvalidDigest" | "InvalidUrl" | "InvalidTemplate" | "InvalidBranch"
        | "InvalidPath" | "NoStrategy" | "ForgeUnusable" => {
            "resolved by correcting the strategy in the Pipeline"
        }
        "NotFound" | "RepositoryNotFound" | "RepositoryMoved" => {
            "resolved by a url that the token may see"
        }
        "ForgeUnreachable"
        | "ForgeTimedOut"
        | "ForgeUnavailable"
        | "ForgeUnreadable"
        | "Unreachable"
        | "UnknownHost"
        | "GitTimedOut"
        | "WebhookUnreachable"
        | "WebhookUnavailable"
        | "RegistryUnreachable"
        | "RegistryTimedOut"
        | "RegistryUnavailable" => {
            "retried automatically; look at the network between, a proxy or a NetworkPolicy"
        }
        // The message of a hold says what resolves it.
        STRATEGY_CHANGED => return None,
        _ if HoldReason::ALL.iter().any(|it| it.word() == reason) => return None,
        _ if phase.is_terminal() => return None,
        _ => "retried automatically",
    })
}

/// Whether an edit of the repository may resolve it: then its branches are polled.
pub fn is_resolved_by_repository_edit(reason: &str) -> bool {
    reason == BRANCH_CHANGED_BY_OTHERS || in_repository(reason).is_some()
}

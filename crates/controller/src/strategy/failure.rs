//! Turns errors of git and forges into the planner's failures.

use std::error::Error;

use planner::{Failure, Remedy};

/// A failure that is retried after an edit.
pub(super) fn needs_edit(reason: &str, message: impl Into<String>) -> Failure {
    Failure {
        reason: reason.to_owned(),
        message: message.into(),
        remedy: Remedy::WaitForEdit,
    }
}

/// A failure that is retried with backoff.
pub(super) fn transient(reason: &str, message: impl Into<String>) -> Failure {
    Failure {
        remedy: Remedy::Retry,
        ..needs_edit(reason, message)
    }
}

/// An error of `git` with its causes.
pub(super) fn from_git(reason: &str, remedy: net::Remedy, error: &dyn Error) -> Failure {
    Failure {
        reason: reason.to_owned(),
        message: with_causes(error),
        remedy: match remedy {
            net::Remedy::Retry { after: Some(after) } => Remedy::RetryAfter(after),
            net::Remedy::Retry { after: None } => Remedy::Retry,
            net::Remedy::Edit => Remedy::WaitForEdit,
        },
    }
}

/// An error of a forge with its causes.
pub(super) fn from_forge(error: &git::forge::Error) -> Failure {
    from_git(error.reason(), error.remedy(), error)
}

/// The text of an error and of its causes, each once.
fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = error.source();
    }
    text
}

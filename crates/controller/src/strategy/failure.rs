//! Failures of git and forges in the planner's words.

use std::error::Error;

use planner::{Failure, Remedy};

/// A failure that only an edit lifts.
pub(super) fn stuck(reason: &str, message: impl Into<String>) -> Failure {
    Failure {
        reason: reason.to_owned(),
        message: message.into(),
        remedy: Remedy::WaitForEdit,
    }
}

/// A failure that passes.
pub(super) fn passing(reason: &str, message: impl Into<String>) -> Failure {
    Failure {
        remedy: Remedy::Retry,
        ..stuck(reason, message)
    }
}

/// An error of `git` with its causes.
pub(super) fn failure(reason: &str, remedy: git::Remedy, error: &dyn Error) -> Failure {
    Failure {
        reason: reason.to_owned(),
        message: whole(error),
        remedy: match remedy {
            git::Remedy::Retry { after: Some(after) } => Remedy::RetryAfter(after),
            git::Remedy::Retry { after: None } => Remedy::Retry,
            git::Remedy::Edit => Remedy::WaitForEdit,
        },
    }
}

/// An error of a forge.
pub(super) fn of_forge(error: &git::forge::Error) -> Failure {
    failure(error.reason(), error.remedy(), error)
}

/// The text of an error and of its causes, each once.
fn whole(error: &dyn Error) -> String {
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

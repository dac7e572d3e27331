//! Pushes one branch, only if it is still at the expected commit.

use std::sync::atomic::Ordering;

use crate::mirror::{self, Mirror};
use crate::names::{BranchName, ObjectId};
use crate::runner::{GitCommand, RemoteAccess, last_lines};
use net::Remedy;

/// Why a push failed. The branch is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The branch is not at the expected commit any more.
    #[error("cannot push to {branch}: it was changed in the meantime")]
    Moved {
        /// The branch.
        branch: BranchName,
    },
    /// The remote refused it: a protected branch, a rule or a hook.
    #[error("cannot push to {branch}: the remote refused it ({message})")]
    Refused {
        /// The branch.
        branch: BranchName,
        /// The message of the remote.
        message: String,
    },
    /// The remote could not be reached or read.
    #[error(transparent)]
    Remote(#[from] mirror::Error),
}

impl Error {
    /// A fixed word for metrics, events and conditions.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Moved { .. } => "BranchMoved",
            Self::Refused { .. } => "PushRefused",
            Self::Remote(error) => error.reason(),
        }
    }

    /// Whether to retry or to wait for an edit.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Moved { .. } => Remedy::RETRY,
            Self::Refused { .. } => Remedy::Edit,
            Self::Remote(error) => error.remedy(),
        }
    }
}

/// Moves a branch to a commit if it is still at the expected one; `None` means it must not exist.
pub(crate) async fn push(
    mirror: &Mirror,
    access: &RemoteAccess,
    branch: &BranchName,
    expected: Option<&ObjectId>,
    commit: &ObjectId,
) -> Result<(), Error> {
    let reference = branch.reference();
    let expected = expected.map(ObjectId::as_str).unwrap_or_default();
    let lease = format!("--force-with-lease={reference}:{expected}");
    let what = format!("{commit}:{reference}");
    let arguments = [
        "push",
        "--porcelain",
        "--no-verify",
        "--no-follow-tags",
        "--no-signed",
        &lease,
        "--",
        mirror.url.as_str(),
        &what,
    ];
    let run = GitCommand::new(format!("push to {branch}"), &mirror.folder, &arguments)
        .access(access)
        .with_time_limit(mirror.runner.limits().push);
    mirror.counters.pushes.fetch_add(1, Ordering::Relaxed);
    let completed = mirror
        .runner
        .execute(run)
        .await
        .map_err(mirror::Error::from)?;
    if completed.success {
        mirror.record_push(branch, commit).await?;
        return Ok(());
    }
    Err(classify_failure(
        branch,
        &String::from_utf8_lossy(&completed.output),
        &completed.stderr,
    ))
}

/// The error of a failed push, from `!<tab>from:to<tab>[rejected] (reason)` in its output.
fn classify_failure(branch: &BranchName, output: &str, stderr: &str) -> Error {
    let branch = branch.clone();
    let Some(rejection) = output.lines().find(|line| line.starts_with('!')) else {
        return mirror::classify_failure(format!("push to {branch}"), stderr).into();
    };
    let reason = rejection.rsplit('\t').next().unwrap_or_default();
    let race_messages = [
        "stale info",
        "fetch first",
        "non-fast-forward",
        "failed to update ref",
        "cannot lock ref",
        "reference already exists",
        "shallow update not allowed",
        "incorrect old value",
    ];
    if race_messages
        .iter()
        .any(|text| reason.contains(text) || stderr.contains(text))
    {
        return Error::Moved { branch };
    }
    let remote_lines: Vec<&str> = stderr
        .lines()
        .filter(|line| line.starts_with("remote:"))
        .collect();
    Error::Refused {
        branch,
        message: last_lines(&format!("{}\n{reason}", remote_lines.join("\n"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(output: &str, stderr: &str, reason: &str) {
        let branch = BranchName::new("x").expect("a name");
        assert_eq!(classify_failure(&branch, output, stderr).reason(), reason);
    }

    #[test]
    fn rejections_are_classified() {
        check(
            "To x\n!\ta:refs/heads/x\t[rejected] (stale info)\nDone\n",
            "error: failed to push",
            "BranchMoved",
        );
        check(
            "!\ta:b\t[remote rejected] (protected branch hook declined)\n",
            "remote: nope",
            "PushRefused",
        );
        check(
            "!\ta:b\t[remote rejected] (pre-receive hook declined)\n",
            "",
            "PushRefused",
        );
        check(
            "!\ta:b\t[remote rejected] (failed to update ref)\n",
            "",
            "BranchMoved",
        );
        check("", "fatal: Authentication failed for 'x'", "Unauthorized");
        check("", "error: RPC failed; HTTP 502", "Unreachable");
    }
}

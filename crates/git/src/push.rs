//! Pushes: compare-and-swap, one branch at a time.

use std::sync::atomic::Ordering;

use crate::mirror::{self, Mirror};
use crate::names::{BranchName, ObjectId};
use crate::runner::{Access, Run, last_lines};
use net::Remedy;

/// Why a push changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Somebody was faster.
    #[error("cannot push to {branch}: it moved in the meantime")]
    Moved {
        /// The branch.
        branch: BranchName,
    },
    /// The remote does not want it: a protected branch, a rule, a hook.
    #[error("cannot push to {branch}: the remote refused it ({message})")]
    Refused {
        /// The branch.
        branch: BranchName,
        /// What the remote said.
        message: String,
    },
    /// It did not get that far.
    #[error(transparent)]
    Remote(#[from] mirror::Error),
}

impl Error {
    /// A fixed word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Moved { .. } => "BranchMoved",
            Self::Refused { .. } => "PushRefused",
            Self::Remote(error) => error.reason(),
        }
    }

    /// What would help.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Moved { .. } => Remedy::RETRY,
            Self::Refused { .. } => Remedy::Edit,
            Self::Remote(error) => error.remedy(),
        }
    }
}

/// Moves a branch to a commit if it is still where we saw it; `None` means it must not exist.
pub(crate) async fn push(
    mirror: &Mirror,
    access: &Access,
    branch: &BranchName,
    seen: Option<&ObjectId>,
    commit: &ObjectId,
) -> Result<(), Error> {
    let reference = branch.reference();
    let seen = seen.map(ObjectId::as_str).unwrap_or_default();
    let lease = format!("--force-with-lease={reference}:{seen}");
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
    let run = Run::new(format!("push to {branch}"), &mirror.folder, &arguments)
        .access(access)
        .within(mirror.runner.limits().push);
    mirror.counters.pushes.fetch_add(1, Ordering::Relaxed);
    let finished = mirror
        .runner
        .finish(run)
        .await
        .map_err(mirror::Error::from)?;
    if finished.success {
        mirror.pushed(branch, commit).await?;
        return Ok(());
    }
    Err(sort(
        branch,
        &String::from_utf8_lossy(&finished.output),
        &finished.complaint,
    ))
}

/// Porcelain says `!<tab>from:to<tab>[rejected] (why)` for what was not done.
fn sort(branch: &BranchName, output: &str, complaint: &str) -> Error {
    let branch = branch.clone();
    let Some(rejection) = output.lines().find(|line| line.starts_with('!')) else {
        return mirror::sort(format!("push to {branch}"), complaint).into();
    };
    let why = rejection.rsplit('\t').next().unwrap_or_default();
    let is_race = [
        "stale info",
        "fetch first",
        "non-fast-forward",
        "failed to update ref",
        "cannot lock ref",
        "reference already exists",
        "shallow update not allowed",
        "incorrect old value",
    ];
    if is_race
        .iter()
        .any(|word| why.contains(word) || complaint.contains(word))
    {
        return Error::Moved { branch };
    }
    let said: Vec<&str> = complaint
        .lines()
        .filter(|line| line.starts_with("remote:"))
        .collect();
    Error::Refused {
        branch,
        message: last_lines(&format!("{}\n{why}", said.join("\n"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(output: &str, complaint: &str, reason: &str) {
        let branch = BranchName::new("x").expect("a name");
        assert_eq!(sort(&branch, output, complaint).reason(), reason);
    }

    #[test]
    fn rejections_are_sorted() {
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

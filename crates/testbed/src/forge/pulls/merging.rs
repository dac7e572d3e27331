//! Merges, with real commits.

use std::path::Path;
use std::sync::atomic::Ordering;

use super::super::Shared;
use super::super::repository::{git, tip};
use super::{PullRequest, PullState, Refusal, change, one, refuse};

/// Merges a pull request into its base, if it is open, free of conflicts and still at the expected
/// commit.
pub(in super::super) async fn merge(
    shared: &Shared,
    project: &str,
    number: u64,
    is_squash: bool,
    expected: Option<&str>,
) -> Result<(), Refusal> {
    let _alone = shared.writing.lock().await;
    let pull = one(shared, project, number).await?;
    if pull.state != PullState::Open {
        return Err(refuse(405, "The PR is already merged or closed"));
    }
    if pull.title.starts_with("WIP:") {
        return Err(refuse(405, "Work in progress PRs cannot be merged"));
    }
    if shared.is_guarded.load(Ordering::SeqCst) {
        return Err(refuse(405, "Does not have enough approvals"));
    }
    if expected.is_some_and(|expected| expected != pull.head_commit) {
        return Err(refuse(409, "head out of date"));
    }
    let commit = merge_commit(&shared.repository(project), &pull, is_squash).await?;
    change(shared, project, number, |stored| {
        stored.state = PullState::Merged;
        stored.head_commit = pull.head_commit.clone();
        stored.merge_commit = Some(commit);
        Ok(())
    })
}

async fn merge_commit(
    folder: &Path,
    pull: &PullRequest,
    is_squash: bool,
) -> Result<String, Refusal> {
    let failed = |error: super::super::Error| refuse(500, error.to_string());
    let base = tip(folder, &pull.base).await;
    let base = base.ok_or_else(|| refuse(404, "no base"))?;
    let head = &pull.head_commit;
    let tree = git(folder, &["merge-tree", "--write-tree", &base, head], b"").await;
    let tree = tree.map_err(|_| refuse(405, "Please try again later: there are conflicts"))?;
    let tree = String::from_utf8_lossy(&tree);
    let tree = tree.lines().next().unwrap_or_default();
    let (title, number, from) = (&pull.title, pull.number, &pull.head);
    let message = format!("Merge pull request '{title}' (#{number}) from {from}");
    let mut arguments = vec![
        "-c",
        "user.name=Forge",
        "-c",
        "user.email=forge@example.com",
    ];
    arguments.extend(["commit-tree", tree, "-p", &base]);
    if !is_squash {
        arguments.extend(["-p", head]);
    }
    arguments.extend(["-m", &message]);
    let commit = git(folder, &arguments, b"").await.map_err(failed)?;
    let commit = String::from_utf8_lossy(&commit).trim().to_owned();
    let reference = format!("refs/heads/{}", pull.base);
    let update = ["update-ref", &reference, &commit, &base];
    git(folder, &update, b"").await.map_err(failed)?;
    Ok(commit)
}

//! Merges pull requests with real merge commits.

use std::path::Path;
use std::sync::atomic::Ordering;

use super::super::ForgeState;
use super::super::repository::{git, tip};
use super::feedback::is_required_status_met;
use super::{ErrorResponse, PullRequest, PullState, change, error_response, one};

/// Merges a pull request, if it is open, has no conflicts and its head is the expected commit.
pub(in super::super) async fn merge(
    state: &ForgeState,
    project: &str,
    number: u64,
    is_squash: bool,
    expected: Option<&str>,
) -> Result<(), ErrorResponse> {
    let _guard = state.write_lock.lock().await;
    let pull = one(state, project, number).await?;
    if pull.state != PullState::Open {
        return Err(error_response(405, "The PR is already merged or closed"));
    }
    if pull.title.starts_with("WIP:") {
        return Err(error_response(405, "Work in progress PRs cannot be merged"));
    }
    if state.requires_review.load(Ordering::SeqCst) {
        return Err(error_response(405, "Does not have enough approvals"));
    }
    if !is_required_status_met(state, project, &pull.head_commit) {
        return Err(error_response(
            405,
            "Not all required status checks successful",
        ));
    }
    if expected.is_some_and(|expected| expected != pull.head_commit) {
        return Err(error_response(409, "head out of date"));
    }
    let commit = merge_commit(&state.repository(project), &pull, is_squash).await?;
    change(state, project, number, |stored| {
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
) -> Result<String, ErrorResponse> {
    let failed = |error: super::super::Error| error_response(500, error.to_string());
    let base = tip(folder, &pull.base).await;
    let base = base.ok_or_else(|| error_response(404, "no base"))?;
    let head = &pull.head_commit;
    let tree = git(folder, &["merge-tree", "--write-tree", &base, head], b"").await;
    let tree =
        tree.map_err(|_| error_response(405, "Please try again later: there are conflicts"))?;
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

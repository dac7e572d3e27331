//! The stored pull requests, and how they are changed.

use std::collections::BTreeMap;

use super::{CommitStatus, ErrorResponse, error_response};
use crate::forge::ForgeState;

/// The state of a pull request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullState {
    /// Neither merged nor closed.
    Open,
    /// Merged into the base.
    Merged,
    /// Closed without a merge.
    Closed,
}

/// A pull request.
#[derive(Clone, Debug)]
pub struct PullRequest {
    /// Starts at 1.
    pub number: u64,
    /// With the prefix of a draft, if it is one.
    pub title: String,
    /// The whole description.
    pub body: String,
    /// The branch to merge.
    pub head: String,
    /// The tip of the branch; the last one, once merged or closed.
    pub head_commit: String,
    /// The branch to merge into.
    pub base: String,
    /// Its state.
    pub state: PullState,
    /// The merge commit, once merged.
    pub merge_commit: Option<String>,
    /// The comments on it.
    pub comments: Vec<String>,
    /// Names of labels.
    pub labels: Vec<String>,
    /// The requested reviewers.
    pub reviewers: Vec<String>,
    /// Grows with every change.
    pub(super) updated: u64,
}

/// All pull requests and labels of all repositories.
#[derive(Default)]
pub(in super::super) struct PullRequestStore {
    pub(super) pulls: BTreeMap<String, Vec<PullRequest>>,
    pub(super) labels: BTreeMap<String, Vec<String>>,
    /// Every commit status, the oldest first.
    pub(super) statuses: BTreeMap<String, Vec<CommitStatus>>,
    clock: u64,
}

impl PullRequestStore {
    /// The number and time of the next pull request, unless an open one has the same branches.
    pub(super) fn next(
        &mut self,
        project: &str,
        head: &str,
        base: &str,
    ) -> Result<(u64, u64), ErrorResponse> {
        self.clock += 1;
        let pulls = self.pulls.entry(project.to_owned()).or_default();
        let mut open = pulls.iter().filter(|pull| pull.state == PullState::Open);
        if open.any(|pull| pull.head == head && pull.base == base) {
            return Err(error_response(
                409,
                "pull request already exists for these targets",
            ));
        }
        Ok((pulls.len() as u64 + 1, self.clock))
    }

    pub(super) fn find(&mut self, project: &str, number: u64) -> Option<&mut PullRequest> {
        self.clock += 1;
        let clock = self.clock;
        let pull = self
            .pulls
            .get_mut(project)?
            .iter_mut()
            .find(|pull| pull.number == number)?;
        pull.updated = clock;
        Some(pull)
    }
}

/// Changes a pull request, which then is the one that was updated last.
pub(super) fn change(
    state: &ForgeState,
    project: &str,
    number: u64,
    update: impl FnOnce(&mut PullRequest) -> Result<(), ErrorResponse>,
) -> Result<(), ErrorResponse> {
    let mut store = state.pulls.lock();
    let pull = store
        .find(project, number)
        .ok_or_else(|| error_response(404, "The target couldn't be found."))?;
    update(pull)
}

pub(in super::super) fn close(state: &ForgeState, project: &str, number: u64) -> Option<()> {
    let close = |pull: &mut PullRequest| {
        pull.state = PullState::Closed;
        Ok(())
    };
    change(state, project, number, close).ok()
}

pub(in super::super) fn retitle(
    state: &ForgeState,
    project: &str,
    number: u64,
    title: &str,
) -> Option<()> {
    let retitle = |pull: &mut PullRequest| {
        pull.title = title.to_owned();
        Ok(())
    };
    change(state, project, number, retitle).ok()
}

pub(in super::super) fn rewrite(
    state: &ForgeState,
    project: &str,
    number: u64,
    body: &str,
) -> Option<()> {
    let rewrite = |pull: &mut PullRequest| {
        pull.body = body.to_owned();
        Ok(())
    };
    change(state, project, number, rewrite).ok()
}

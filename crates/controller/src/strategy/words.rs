//! A promotion as a change to a repository: the proposal, and what a pull request says about it.

use api::pipeline::{Commit, PullRequest, Strategy};
use git::{
    names::BranchName,
    propose::{Message, Proposal},
};
use planner::Failure;

use super::{
    Task,
    failure::stuck,
    found,
    subject::{Subject, TRAILER, one_line},
};

/// What a strategy says about a change to a repository.
pub(super) struct Change<'a> {
    pub(super) url: &'a str,
    pub(super) paths: &'a [String],
    pub(super) base_branch: &'a str,
    title: Option<&'a str>,
    body: Option<&'a str>,
    /// Where people reach the dashboard, for a link in the usual text.
    dashboard: Option<&'a str>,
    /// Whether it goes to a branch of its own.
    is_proposed: bool,
}

impl<'a> Change<'a> {
    /// Nothing for strategies that change no repository.
    pub(super) fn of(strategy: &'a Strategy) -> Option<Self> {
        let proposed = strategy.pull_request.as_ref().map(Self::from);
        proposed.or_else(|| strategy.commit.as_ref().map(Self::from))
    }

    /// The same with a link to the dashboard.
    pub(super) fn linked(self, dashboard: Option<&'a str>) -> Self {
        Self { dashboard, ..self }
    }
}

impl<'a> From<&'a PullRequest> for Change<'a> {
    fn from(to: &'a PullRequest) -> Self {
        Self {
            url: &to.url,
            paths: &to.paths,
            base_branch: &to.base_branch,
            title: to.title.as_deref(),
            body: to.body.as_deref(),
            dashboard: None,
            is_proposed: true,
        }
    }
}

impl<'a> From<&'a Commit> for Change<'a> {
    fn from(to: &'a Commit) -> Self {
        Self {
            url: &to.url,
            paths: &to.paths,
            base_branch: &to.base_branch,
            title: None,
            body: None,
            dashboard: None,
            is_proposed: false,
        }
    }
}

/// The words of one promotion.
pub(super) struct Words {
    pub(super) proposal: Proposal,
    pub(super) title: String,
    pub(super) body: String,
    /// `namespace/pipeline/environment`, as it stands in the text.
    environment: String,
}

impl Words {
    pub(super) fn of(task: Task<'_>, change: &Change<'_>) -> Result<Self, Failure> {
        let subject = Subject::of(task);
        let title = match change.title {
            Some(title) => one_line(&subject.fill(title)?),
            None => subject.title(),
        };
        let text = match change.body {
            Some(text) => subject.fill(text)?,
            None => subject.text(change.dashboard),
        };
        let body = subject.body(&text);
        let base = BranchName::new(change.base_branch);
        let base = base.map_err(|error| stuck("InvalidBranch", error.to_string()))?;
        let created = task.promotion.metadata.creation_timestamp.as_ref();
        let proposal = Proposal {
            branch: match change.is_proposed {
                true => subject.branch()?,
                false => base.clone(),
            },
            base,
            message: Message {
                title: title.clone(),
                body: String::new(),
                promotion: subject.uid.to_owned(),
                owner: subject.owner(),
            },
            at: created.map(|time| time.0).unwrap_or_default(),
            alteration: found::alteration(&subject, change)?,
            paths: subject.paths(change.paths)?,
            replaceable: None,
        };
        Ok(Self {
            proposal,
            title,
            body,
            environment: subject.environment(),
        })
    }

    /// Whether a pull request's text names the place that this promotion leads into.
    pub(super) fn names_owner(&self, body: &str) -> bool {
        let is_named = body.lines().any(|line| line.trim() == self.environment);
        is_named && promotion_in(body).is_some()
    }
}

/// The promotion whose pull request this text is from.
pub(super) fn promotion_in(body: &str) -> Option<&str> {
    let mut lines = body.lines().rev();
    lines.find_map(|line| line.trim().strip_prefix(TRAILER))
}

/// The uid that tells a promotion from all others.
pub(super) fn uid(task: Task<'_>) -> &str {
    task.promotion.metadata.uid.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests;

//! A promotion as a change to a repository: what is committed to which branch, and the title and text
//! of a pull request about it.

use api::{
    pipeline::{Commit, PullRequestStrategy, Strategy},
    reference::LocalReference,
};
use git::{
    names::BranchName,
    propose::{CommitMessage, Proposal},
};
use planner::Failure;

use super::{
    PromotionTask,
    failure::needs_edit,
    manifest_edit,
    promotion_description::{PromotionDescription, one_line},
};

/// The common part of the strategies that change a repository.
pub(super) struct RepositoryStrategy<'a> {
    pub(super) url: &'a str,
    pub(super) paths: &'a [String],
    pub(super) base_branch: &'a str,
    pub(super) secret_ref: &'a LocalReference,
    title: Option<&'a str>,
    body: Option<&'a str>,
    /// Where people reach the dashboard, for a link in the default text.
    dashboard: Option<&'a str>,
    /// Whether the change goes to a branch of its own.
    has_own_branch: bool,
}

impl<'a> RepositoryStrategy<'a> {
    /// `None` for strategies that change no repository.
    pub(super) fn of(strategy: &'a Strategy) -> Option<Self> {
        let pull_request = strategy.pull_request.as_ref().map(Self::from);
        pull_request.or_else(|| strategy.commit.as_ref().map(Self::from))
    }

    /// The same with a link to the dashboard.
    pub(super) fn linked(self, dashboard: Option<&'a str>) -> Self {
        Self { dashboard, ..self }
    }
}

impl<'a> From<&'a PullRequestStrategy> for RepositoryStrategy<'a> {
    fn from(to: &'a PullRequestStrategy) -> Self {
        Self {
            url: &to.url,
            paths: &to.paths,
            base_branch: &to.base_branch,
            secret_ref: &to.secret_ref,
            title: to.title.as_deref(),
            body: to.body.as_deref(),
            dashboard: None,
            has_own_branch: true,
        }
    }
}

impl<'a> From<&'a Commit> for RepositoryStrategy<'a> {
    fn from(to: &'a Commit) -> Self {
        Self {
            url: &to.url,
            paths: &to.paths,
            base_branch: &to.base_branch,
            secret_ref: &to.secret_ref,
            title: None,
            body: None,
            dashboard: None,
            has_own_branch: false,
        }
    }
}

/// What one promotion commits, and the title and text of its pull request.
pub(super) struct PromotionProposal {
    pub(super) proposal: Proposal,
    pub(super) title: String,
    pub(super) body: String,
}

impl PromotionProposal {
    pub(super) fn of(
        task: PromotionTask<'_>,
        strategy: &RepositoryStrategy<'_>,
    ) -> Result<Self, Failure> {
        let description = PromotionDescription::of(task);
        let title = match strategy.title {
            Some(title) => one_line(&format!(
                "{}{}",
                description.fill(title)?,
                description.in_batch()
            )),
            None => description.title(),
        };
        let text = match strategy.body {
            Some(text) => description.fill(text)?,
            None => description.text(strategy.dashboard),
        };
        let body = description.body(&text);
        let base = BranchName::new(strategy.base_branch);
        let base = base.map_err(|error| needs_edit("InvalidBranch", error.to_string()))?;
        let created = task.promotion.metadata.creation_timestamp.as_ref();
        let proposal = Proposal {
            branch: match strategy.has_own_branch {
                true => description.branch()?,
                false => base.clone(),
            },
            base,
            message: CommitMessage {
                title: title.clone(),
                body: String::new(),
                promotion: description.uid.clone(),
                owner: description.owner(),
            },
            at: created.map(|time| time.0).unwrap_or_default(),
            edit: manifest_edit::alteration(&description, strategy)?,
            paths: description.paths(strategy.paths)?,
            replaceable: None,
        };
        Ok(Self {
            proposal,
            title,
            body,
        })
    }
}

#[cfg(test)]
mod tests;

//! Checks whether promotions with a strategy could be carried out: that its Secret, its repository and the
//! API of its forge can be used, and what its token may do as far as the forge tells. Reads only.

use std::time::Duration;

use api::{
    names::INPUTS_TOKEN,
    pipeline::{FeedbackKind, PullRequestStrategy, Strategy},
};
use git::{
    forge::{TokenRight, TokenRights},
    names::BranchName,
};
use planner::Failure;
use runtime::ObjectKey;
use tokio::time::timeout;

use super::{
    SecretContents, Strategies, StrategyKind,
    failure::{from_git, needs_edit, transient},
};

/// How long the repository and the forge may take in all.
const CHECK_TIME: Duration = Duration::from_secs(60);
/// The token may do less than the strategy needs.
const RIGHT_MISSING: &str = "TokenRightMissing";
/// The token may not write what pull requests show unless they are told not to. Promotions go on without it.
const FEEDBACK_RIGHT_MISSING: &str = "FeedbackRightMissing";
/// The forge does not tell what the token may do.
const RIGHTS_NOT_TOLD: &str = "TokenRightsNotTold";

impl Strategies {
    /// Why promotions with this strategy, of a pipeline in this namespace, would fail; otherwise what they
    /// have to do without, or what could not be checked.
    pub(crate) async fn check(
        &self,
        namespace: &str,
        strategy: &Strategy,
    ) -> Result<Option<Failure>, Failure> {
        let kind = StrategyKind::of(strategy)?;
        let Some(reference) = kind.secret() else {
            return Ok(None);
        };
        let key = ObjectKey::new(namespace, &reference.name);
        let secret = self.secrets.read(&key).await?;
        let checked = timeout(CHECK_TIME, self.check_remote(kind, &secret)).await;
        checked.unwrap_or_else(|_| {
            let text = "the repository or its forge did not answer in time";
            Err(transient("CheckTimedOut", text))
        })
    }

    async fn check_remote(
        &self,
        kind: StrategyKind<'_>,
        secret: &SecretContents,
    ) -> Result<Option<Failure>, Failure> {
        match kind {
            StrategyKind::PullRequest(to) => {
                self.check_repository(&to.url, &to.base_branch, secret)
                    .await?;
                return self.check_forge(to, secret).await;
            }
            StrategyKind::Commit(to) => {
                self.check_repository(&to.url, &to.base_branch, secret)
                    .await?;
            }
            StrategyKind::Oci(to) => self.oci_tags.check(to, secret).await?,
            StrategyKind::Inputs(to) => check_inputs_token(&to.secret_ref.name, secret)?,
            _ => {}
        }
        Ok(None)
    }

    /// Whether the repository has the base branch, and the credentials may push.
    async fn check_repository(
        &self,
        url: &str,
        branch: &str,
        secret: &SecretContents,
    ) -> Result<(), Failure> {
        let repository = self.repositories.open(url, secret)?;
        let base = BranchName::new(branch)
            .map_err(|error| needs_edit("InvalidBranch", format!("baseBranch: {error}")))?;
        match self.repositories.has_branch(&repository, &base).await? {
            true => self.repositories.check_push(&repository).await,
            false => {
                let text = format!(
                    "the repository has no branch {branch}; create it or correct baseBranch"
                );
                Err(needs_edit("NoBaseBranch", text))
            }
        }
    }

    /// Whether the token may list pull requests, and has the rights that the strategy needs.
    async fn check_forge(
        &self,
        to: &PullRequestStrategy,
        secret: &SecretContents,
    ) -> Result<Option<Failure>, Failure> {
        let repository = self.repositories.open(&to.url, secret)?;
        let forge = self.pull_requests.forge(to, &repository)?;
        forge.call(forge.forge.list_open(None)).await?;
        let needed = needed_rights(to);
        let rights = forge.call(forge.forge.check_token(&needed)).await;
        let untold = match rights {
            Ok(rights) if !rights.missing.is_empty() => {
                return missing_rights(to, &rights).map(Some);
            }
            Ok(rights) => rights.untold,
            // It can be used; only its rights are not known.
            Err(failure) => Some(failure.message),
        };
        Ok(untold.map(|text| needs_edit(RIGHTS_NOT_TOLD, text)))
    }
}

/// An error if a right is missing that the spec asks for; otherwise what to do without by default.
fn missing_rights(to: &PullRequestStrategy, token: &TokenRights) -> Result<Failure, Failure> {
    let texts = token.missing_texts().join("; ");
    let is_default = to.feedback.is_none();
    let mut rights = token.missing.iter().flat_map(|it| &it.rights);
    if !is_default || rights.any(|right| *right == TokenRight::PullRequests) {
        return Err(needs_edit(RIGHT_MISSING, texts));
    }
    let text = format!(
        "{texts}; without it, pull requests do not show all of how a promotion stands; or set feedback to \
         what they should show"
    );
    Ok(needs_edit(FEEDBACK_RIGHT_MISSING, text))
}

/// What the token has to be allowed to do.
fn needed_rights(to: &PullRequestStrategy) -> Vec<TokenRight> {
    let feedback = to.shown_feedback().iter().map(|kind| match kind {
        FeedbackKind::CommitStatus => TokenRight::CommitStatuses,
        FeedbackKind::Comment => TokenRight::Comments,
    });
    [TokenRight::PullRequests]
        .into_iter()
        .chain(feedback)
        .collect()
}

/// Whether clusters that ask can be authenticated.
fn check_inputs_token(name: &str, secret: &SecretContents) -> Result<(), Failure> {
    let token = secret.entries.get(INPUTS_TOKEN);
    if token.is_some_and(|token| !token.trim_ascii().is_empty()) {
        return Ok(());
    }
    let text = format!("the Secret {name} has no {INPUTS_TOKEN}; add the token that clusters send");
    Err(needs_edit("InputsTokenMissing", text))
}

impl super::GitRepositories {
    /// Whether the remote has a branch.
    async fn has_branch(
        &self,
        repository: &super::repositories::RepositoryAccess,
        branch: &BranchName,
    ) -> Result<bool, Failure> {
        let tips = self.tips(repository, branch).await;
        let tips = tips.map_err(|error| from_git(error.reason(), error.remedy(), &error))?;
        Ok(tips.contains_key(branch))
    }
}

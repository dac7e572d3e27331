//! Checks whether promotions with a strategy could be carried out: that its Secret, its repository and the
//! API of its forge can be used. Reads only.

use std::time::Duration;

use api::{
    names::INPUTS_TOKEN,
    pipeline::{PullRequest, Strategy},
};
use git::names::BranchName;
use planner::Failure;
use runtime::ObjectKey;
use tokio::time::timeout;

use super::{
    SecretContents, Strategies, StrategyKind,
    failure::{from_git, needs_edit, transient},
};

/// How long the repository and the forge may take in all.
const CHECK_TIME: Duration = Duration::from_secs(60);

impl Strategies {
    /// Why promotions with this strategy, of a pipeline in this namespace, would fail.
    pub(crate) async fn check(&self, namespace: &str, strategy: &Strategy) -> Result<(), Failure> {
        let kind = StrategyKind::of(strategy)?;
        let Some(reference) = kind.secret() else {
            return Ok(());
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
    ) -> Result<(), Failure> {
        match kind {
            StrategyKind::PullRequest(to) => {
                self.check_repository(&to.url, &to.base_branch, secret)
                    .await?;
                self.check_forge(to, secret).await
            }
            StrategyKind::Commit(to) => {
                self.check_repository(&to.url, &to.base_branch, secret)
                    .await
            }
            StrategyKind::Oci(to) => self.oci_tags.check(to, secret).await,
            StrategyKind::Inputs(to) => check_inputs_token(&to.secret_ref.name, secret),
            _ => Ok(()),
        }
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
                Err(needs_edit("BranchMissing", text))
            }
        }
    }

    /// Whether the token may list pull requests.
    async fn check_forge(&self, to: &PullRequest, secret: &SecretContents) -> Result<(), Failure> {
        let repository = self.repositories.open(&to.url, secret)?;
        let forge = self.pull_requests.forge(to, &repository)?;
        forge.call(forge.forge.list_open(None)).await.map(drop)
    }
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

//! The git repositories that promotions and Changes are pushed to.

use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use git::{
    credentials::Credentials,
    forge::AppTokens,
    mirror::{self, MirrorRetention, Mirrors},
    names::{BranchName, ObjectId},
    propose::{EditAcceptance, Error, Proposal, ProposalResult, ProposedEdit},
    push,
    repository_url::RepositoryUrl,
    runner::{GitLimits, GitRunner},
};
use net::{AddressPolicy, OutboundHttp};
use planner::Failure;

use super::{
    branch_heads::BranchHeads, failure::from_git, secrets::SecretContents,
    side_effect_guard::SideEffectGuard,
};
use crate::Settings;

/// How long reading from a repository may take.
const READ_TIME: Duration = Duration::from_secs(180);
/// How often a push is tried whose branch moved meanwhile, each time on top of its new commit.
const PUSH_ATTEMPTS: usize = 5;

/// The checked URL of a repository, and the credentials for it.
pub(super) struct RepositoryAccess {
    pub(super) url: RepositoryUrl,
    pub(super) credentials: Credentials,
}

/// Mirrors of repositories, and pushes to them.
pub(super) struct GitRepositories {
    mirrors: Mirrors,
    policy: AddressPolicy,
    guard: SideEffectGuard,
    branch_heads: BranchHeads,
}

impl GitRepositories {
    pub(super) fn new(
        folder: &Path,
        settings: &Settings,
        http: Arc<OutboundHttp>,
        guard: SideEffectGuard,
    ) -> Result<Self, git::runner::Error> {
        let policy = address_policy(settings);
        let limits = GitLimits {
            remote: READ_TIME,
            push: guard.timeout(),
            ..GitLimits::default()
        };
        let keep = MirrorRetention {
            bytes: settings.git_mirrors_size,
            ..MirrorRetention::default()
        };
        let runner = GitRunner::new(folder, limits, policy)?;
        let mut runner = runner.with_proxy(settings.proxy.clone());
        if let Some(executor) = &settings.replacements.git_executor {
            runner = runner.with_executor(executor.clone());
        }
        let tokens = Arc::new(AppTokens::new(http));
        Ok(Self {
            mirrors: Mirrors::new(runner, folder, keep, tokens)?,
            policy,
            guard,
            branch_heads: BranchHeads::new(settings),
        })
    }

    /// Checks the URL. Touches no network.
    pub(super) fn parse(&self, url: &str) -> Result<RepositoryUrl, Failure> {
        RepositoryUrl::parse(url, self.policy)
            .map_err(|error| from_git(error.reason(), error.remedy(), &error))
    }

    /// Checks the URL and the credentials. Touches no network.
    pub(super) fn open(
        &self,
        url: &str,
        secret: &SecretContents,
    ) -> Result<RepositoryAccess, Failure> {
        let url = self.parse(url)?;
        let credentials = Credentials::from_entries(&secret.entries)
            .map_err(|error| from_git(error.reason(), error.remedy(), &error))?;
        Ok(RepositoryAccess { url, credentials })
    }

    /// The values that a proposal would replace now. Pushes nothing.
    pub(super) async fn edits(
        &self,
        repository: &RepositoryAccess,
        proposal: &Proposal,
    ) -> Result<Vec<ProposedEdit>, Failure> {
        let mirror = self.mirrors.open(&repository.url, &repository.credentials);
        let edits = mirror.edits(proposal).await;
        edits.map_err(|error| from_git(error.reason(), error.remedy(), &error))
    }

    /// Pushes a change to its branch, if its edits are accepted.
    pub(super) async fn propose(
        &self,
        repository: &RepositoryAccess,
        proposal: &Proposal,
        acceptance: EditAcceptance<'_>,
    ) -> Result<ProposalResult, Failure> {
        let mirror = self.mirrors.open(&repository.url, &repository.credentials);
        let permission = |time| self.guard.permits(time);
        let mut attempts = 0;
        loop {
            attempts += 1;
            let proposed = mirror.propose_if(proposal, acceptance, &permission).await;
            let is_race = matches!(&proposed, Err(Error::Push(push::Error::Moved { .. })));
            if !is_race || attempts == PUSH_ATTEMPTS {
                return proposed.map_err(|error| from_git(error.reason(), error.remedy(), &error));
            }
        }
    }

    /// The commits that the branches point to, as a text that differs after somebody pushed to, created
    /// or deleted one of them.
    pub(super) async fn branch_heads(
        &self,
        repository: &RepositoryAccess,
        branches: &[&BranchName],
    ) -> String {
        let mirror = self.mirrors.open(&repository.url, &repository.credentials);
        let names: Vec<_> = branches.iter().map(|branch| branch.as_str()).collect();
        let key = (
            repository.url.as_str().to_owned(),
            *repository.credentials.fingerprint(),
            names.join(" "),
        );
        self.branch_heads.get(key, mirror.tips(branches)).await
    }

    /// The commit that a branch of the remote points to, if there is one.
    pub(super) async fn tips(
        &self,
        repository: &RepositoryAccess,
        branch: &BranchName,
    ) -> Result<BTreeMap<BranchName, ObjectId>, mirror::Error> {
        let mirror = self.mirrors.open(&repository.url, &repository.credentials);
        mirror.tips(&[branch]).await
    }

    /// Checks that the credentials may push.
    pub(super) async fn check_push(&self, repository: &RepositoryAccess) -> Result<(), Failure> {
        let mirror = self.mirrors.open(&repository.url, &repository.credentials);
        let checked = mirror.check_push().await;
        checked.map_err(|error| from_git(error.reason(), error.remedy(), &error))
    }

    /// Removes unused mirrors.
    pub(super) async fn remove_unused_mirrors(&self) {
        self.mirrors.remove_unused().await;
    }
}

/// The addresses that repositories and forges may have.
pub(super) fn address_policy(settings: &Settings) -> AddressPolicy {
    AddressPolicy {
        allow_internal: settings.allow_internal_urls,
        allow_insecure: false,
    }
}

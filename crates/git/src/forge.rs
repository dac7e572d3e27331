//! Forges: where pull requests live.
//!
//! One small trait in our own words, one file per forge. Every call is bounded in time and size,
//! goes through one place that honours rate limits, and fails with an error that says whether
//! trying again may help. Look before you create; "already there" is not an error for whoever
//! looked.

mod api_client;
pub mod azure;
pub mod bitbucket_cloud;
pub mod bitbucket_server;
mod error;
pub mod gitea;
pub mod github;
pub mod gitlab;
mod reviews;
mod session;
mod wire;

pub use error::Error;
pub use github::AppTokens;

use std::sync::Arc;

use futures::future::BoxFuture;
use net::OutboundHttp;

use crate::credentials::Credentials;
use crate::names::{BranchName, ObjectId};
use crate::repository_url::RepositoryUrl;

/// A forge we can talk to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ForgeProduct {
    /// github.com and GitHub Enterprise.
    GitHub,
    /// Gitea and Forgejo.
    Gitea,
    /// gitlab.com and self-managed GitLab.
    GitLab,
    /// Bitbucket Server and Data Center.
    BitbucketServer,
    /// bitbucket.org.
    BitbucketCloud,
    /// Azure DevOps, the service and the server.
    AzureDevOps,
}

impl ForgeProduct {
    /// All of them, by the names that people write.
    pub const ALL: [(&'static str, Self); 6] = [
        ("github", Self::GitHub),
        ("gitea", Self::Gitea),
        ("gitlab", Self::GitLab),
        ("bitbucket-server", Self::BitbucketServer),
        ("bitbucket-cloud", Self::BitbucketCloud),
        ("azure-devops", Self::AzureDevOps),
    ];

    /// The name that people write.
    pub fn as_str(self) -> &'static str {
        let mut all = Self::ALL.into_iter();
        let found = all.find(|(_, kind)| *kind == self);
        found.expect("all of them are named").0
    }

    /// The forge of that name.
    pub fn named(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        all.find(|(known, _)| *known == name).map(|(_, kind)| kind)
    }
}

/// Where a pull request stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullRequestState {
    /// Neither merged nor closed.
    Open,
    /// Its change is in the base.
    Merged,
    /// It was turned down.
    Closed,
}

/// A pull request as the forge shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullRequest {
    /// What people call it.
    pub number: u64,
    /// Where people see it.
    pub url: String,
    /// Without the marks that some forges keep drafts by.
    pub title: String,
    /// All of it. In the lists of Azure DevOps only the first 400 characters.
    pub body: String,
    /// Where it stands.
    pub state: PullRequestState,
    /// Whether it waits to be made ready.
    pub draft: bool,
    /// The branch it would merge, in the same repository.
    pub head: String,
    /// The tip of that branch, if the forge says.
    pub head_commit: Option<ObjectId>,
    /// The branch it would merge into.
    pub base: String,
    /// What it became, once merged.
    pub merge_commit: Option<ObjectId>,
}

/// A pull request to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPullRequest {
    /// The branch to merge.
    pub head: BranchName,
    /// The branch to merge into.
    pub base: BranchName,
    /// One line.
    pub title: String,
    /// Any text.
    pub body: String,
    /// Whether it waits to be made ready.
    pub draft: bool,
}

/// What to change of a pull request. What is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullRequestUpdate {
    /// One line.
    pub title: Option<String>,
    /// Any text.
    pub body: Option<String>,
    /// Open or close it.
    pub open: Option<bool>,
}

/// What is put on a pull request beside its text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullRequestMetadata {
    /// Names of labels. Those that do not exist are made.
    pub labels: Vec<String>,
    /// Who should look at it; `organisation/team` for a team.
    pub reviewers: Vec<String>,
}

/// How a pull request becomes part of its base.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeMethod {
    /// With a merge commit.
    Merge,
    /// As one commit.
    Squash,
    /// As its commits, put on top.
    Rebase,
}

/// A merge to be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeOptions {
    /// The tip that was looked at. A pull request with another one is not merged.
    pub head: ObjectId,
    /// How.
    pub method: MergeMethod,
    /// Not now, but as soon as the forge's own conditions are met.
    pub when_ready: bool,
}

/// What came of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeResult {
    /// The forge merged it.
    Merged,
    /// The forge will merge it as soon as its conditions are met.
    Scheduled,
}

/// Lets a forge answer "nothing new" without listing everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListingValidator(Vec<String>);

/// The open pull requests, or the word that they are the same as before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PullRequestListing {
    /// Nothing changed since the validator.
    Unchanged,
    /// All of them.
    Changed {
        /// Those with a head in the same repository.
        pull_requests: Vec<PullRequest>,
        /// For the next time.
        validator: ListingValidator,
    },
}

/// What a forge answers, some time later.
pub type ForgeFuture<'a, T> = BoxFuture<'a, Result<T, Error>>;

/// The pull requests of one repository, as one credential sees them.
pub trait Forge: Send + Sync {
    /// Every pull request from this branch of this repository, newest first. Forges without such a
    /// question are searched through all open ones and the most recent others.
    fn find<'a>(&'a self, head: &'a BranchName) -> ForgeFuture<'a, Vec<PullRequest>>;

    /// One pull request.
    fn get(&self, number: u64) -> ForgeFuture<'_, PullRequest>;

    /// Opens one. [`Error::AlreadyExists`] if there is an open one for the same branches.
    fn create<'a>(&'a self, new: &'a NewPullRequest) -> ForgeFuture<'a, PullRequest>;

    /// Changes title, body or state.
    fn update<'a>(
        &'a self,
        number: u64,
        changes: &'a PullRequestUpdate,
    ) -> ForgeFuture<'a, PullRequest>;

    /// Adds labels and asks reviewers. Answers with a sentence for each thing that the forge does
    /// not have, and each person it does not know; these are left out.
    fn add_metadata<'a>(
        &'a self,
        number: u64,
        dressing: &'a PullRequestMetadata,
    ) -> ForgeFuture<'a, Vec<String>>;

    /// Merges it, or asks the forge to. Done already is done. A forge that cannot be asked to merge
    /// by itself says [`Error::NotMergeable`] until it can be merged: ask again.
    fn merge<'a>(&'a self, number: u64, merge: &'a MergeOptions) -> ForgeFuture<'a, MergeResult>;

    /// Says something on it.
    fn comment<'a>(&'a self, number: u64, text: &'a str) -> ForgeFuture<'a, ()>;

    /// All open ones.
    fn list_open<'a>(
        &'a self,
        since: Option<&'a ListingValidator>,
    ) -> ForgeFuture<'a, PullRequestListing>;
}

/// Opens the forge of a repository. Touches no network.
pub fn open(
    kind: ForgeProduct,
    http: &Arc<OutboundHttp>,
    url: &RepositoryUrl,
    credentials: &Credentials,
) -> Result<Box<dyn Forge>, Error> {
    Ok(match kind {
        ForgeProduct::GitHub => Box::new(github::GitHub::new(http, url, credentials)?),
        ForgeProduct::Gitea => Box::new(gitea::Gitea::new(http, url, credentials)?),
        ForgeProduct::GitLab => Box::new(gitlab::GitLab::new(http, url, credentials)?),
        ForgeProduct::BitbucketServer => Box::new(bitbucket_server::BitbucketServer::new(
            http,
            url,
            credentials,
        )?),
        ForgeProduct::BitbucketCloud => Box::new(bitbucket_cloud::BitbucketCloud::new(
            http,
            url,
            credentials,
        )?),
        ForgeProduct::AzureDevOps => Box::new(azure::AzureDevOps::new(http, url, credentials)?),
    })
}

//! Pull requests on forges: GitHub, Gitea, GitLab, Bitbucket and Azure DevOps.
//!
//! One trait, one file per forge. Every request is bounded in time and size and obeys the rate limits of
//! the forge; every error says whether a retry may succeed. Callers search for a pull request before
//! they create one.

mod api_client;
pub mod azure;
pub mod bitbucket_cloud;
pub mod bitbucket_server;
mod compare;
mod error;
mod feedback;
pub mod gitea;
pub mod github;
mod github_api;
pub mod gitlab;
mod review_requests;
mod session;
mod token_check;

pub use compare::{CommitComparison, CommitRange, ComparedCommit, comparison_page};
pub use error::Error;
pub use feedback::{CommentId, CommitState, CommitStatus, Feedback, PullRequestHead};
pub use github::AppTokens;
pub use token_check::{MissingRights, TokenCheck, TokenRight, TokenRights};

use std::sync::Arc;

use futures::future::BoxFuture;
use net::OutboundHttp;

use crate::credentials::Credentials;
use crate::names::{BranchName, ObjectId};
use crate::repository_url::RepositoryUrl;

/// The product that a forge runs.
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
    /// All products, by the names that users write.
    pub const ALL: [(&'static str, Self); 6] = [
        ("github", Self::GitHub),
        ("gitea", Self::Gitea),
        ("gitlab", Self::GitLab),
        ("bitbucket-server", Self::BitbucketServer),
        ("bitbucket-cloud", Self::BitbucketCloud),
        ("azure-devops", Self::AzureDevOps),
    ];

    /// The name that users write.
    pub fn as_str(self) -> &'static str {
        let mut all = Self::ALL.into_iter();
        let named = all.find(|(_, product)| *product == self);
        named.expect("every product is in the list").0
    }

    /// The product of that name.
    pub fn from_name(name: &str) -> Option<Self> {
        let mut all = Self::ALL.into_iter();
        let named = all.find(|(own, _)| *own == name);
        named.map(|(_, product)| product)
    }
}

/// The state of a pull request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PullRequestState {
    /// Neither merged nor closed.
    Open,
    /// Merged into its base.
    Merged,
    /// Closed without a merge.
    Closed,
}

/// A pull request as the forge returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PullRequest {
    /// Its number.
    pub number: u64,
    /// Its page in the web interface.
    pub url: String,
    /// Without the prefix by which some forges mark drafts.
    pub title: String,
    /// The description. In the lists of Azure DevOps only the first 400 characters.
    pub body: String,
    /// Its state.
    pub state: PullRequestState,
    /// Whether it is a draft.
    pub draft: bool,
    /// The branch to be merged, in the same repository.
    pub head: String,
    /// The commit at the head of that branch, if the forge returns it.
    pub head_commit: Option<ObjectId>,
    /// The branch to merge into.
    pub base: String,
    /// The commit on the base, once merged.
    pub merge_commit: Option<ObjectId>,
    /// Whether the forge will merge it by itself, as far as it shows that.
    pub is_merge_scheduled: bool,
}

/// A pull request to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewPullRequest {
    /// The branch to merge.
    pub head: BranchName,
    /// The branch to merge into.
    pub base: BranchName,
    /// The title, one line.
    pub title: String,
    /// The description.
    pub body: String,
    /// Whether it is a draft.
    pub draft: bool,
}

/// An update of a pull request. `None` leaves a field as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullRequestUpdate {
    /// The title, one line.
    pub title: Option<String>,
    /// The description.
    pub body: Option<String>,
    /// Reopens or closes it.
    pub open: Option<bool>,
}

/// Labels and reviewers of a pull request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PullRequestMetadata {
    /// Names of labels. Those that do not exist are created.
    pub labels: Vec<String>,
    /// Who is asked for a review; `organisation/team` for a team.
    pub reviewers: Vec<String>,
}

impl PullRequestMetadata {
    fn reviewer_names(&self) -> Vec<&str> {
        self.reviewers.iter().map(String::as_str).collect()
    }
}

/// How a pull request is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeMethod {
    /// With a merge commit.
    Merge,
    /// As one commit.
    Squash,
    /// By rebasing its commits.
    Rebase,
}

/// How and on which condition a pull request is merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MergeOptions {
    /// The expected head commit. A pull request with another one is not merged.
    pub head: ObjectId,
    /// The method.
    pub method: MergeMethod,
}

/// The result of a merge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MergeResult {
    /// The forge merged it.
    Merged,
    /// The forge merges it in the background.
    UnderWay,
}

/// The `ETag`s of a list of pull requests, for conditional requests.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListingValidator(Vec<String>);

/// The open pull requests, or that they have not changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PullRequestListing {
    /// Nothing has changed since the validator.
    Unchanged,
    /// The open pull requests.
    Changed {
        /// Those with a head in the same repository.
        pull_requests: Vec<PullRequest>,
        /// For the next request.
        validator: ListingValidator,
    },
}

impl PullRequestListing {
    /// A list from a forge without conditional requests.
    fn without_validator(pull_requests: Vec<PullRequest>) -> Self {
        Self::Changed {
            pull_requests,
            validator: ListingValidator::default(),
        }
    }
}

/// The future result of a request to a forge.
pub type ForgeFuture<'a, T> = BoxFuture<'a, Result<T, Error>>;

/// The pull requests of one repository, as one credential sees them.
pub trait Forge: Feedback + TokenCheck {
    /// Every pull request from this branch of this repository, newest first. Where the API has no such
    /// filter, all open pull requests and the most recent others are searched.
    fn find<'a>(&'a self, head: &'a BranchName) -> ForgeFuture<'a, Vec<PullRequest>>;

    /// One pull request.
    fn get(&self, number: u64) -> ForgeFuture<'_, PullRequest>;

    /// Opens a pull request. [`Error::AlreadyExists`] if there is an open one for the same branches.
    fn create<'a>(&'a self, new: &'a NewPullRequest) -> ForgeFuture<'a, PullRequest>;

    /// Changes title, body or state.
    fn update<'a>(
        &'a self,
        number: u64,
        update: &'a PullRequestUpdate,
    ) -> ForgeFuture<'a, PullRequest>;

    /// Adds labels and requests reviews. Returns a sentence for everything that the forge does not
    /// support and everyone it does not know; these are left out.
    fn add_metadata<'a>(
        &'a self,
        number: u64,
        dressing: &'a PullRequestMetadata,
    ) -> ForgeFuture<'a, Vec<String>>;

    /// Merges a pull request now. Succeeds if it is merged already. [`Error::NotMergeable`] until the
    /// conditions of the forge are met: checks, approvals, no conflicts. Rights to bypass them are not
    /// used. [`Error::MergeQueueRequired`] where only a merge queue may merge.
    fn merge<'a>(&'a self, number: u64, merge: &'a MergeOptions) -> ForgeFuture<'a, MergeResult>;

    /// Puts a pull request into the merge queue, as soon as the conditions of the forge are met.
    /// Succeeds if it is there already.
    fn schedule_merge<'a>(&'a self, _number: u64, _merge: &'a MergeOptions) -> ForgeFuture<'a, ()> {
        let attempted = "schedule the merge";
        let message = "Sluice uses no merge queue of this forge".to_owned();
        Box::pin(async move { Err(Error::Refused { attempted, message }) })
    }

    /// Keeps the forge from merging a pull request by itself. Succeeds if it would not.
    fn cancel_scheduled_merge(&self, _number: u64) -> ForgeFuture<'_, ()> {
        Box::pin(async { Ok(()) })
    }

    /// The commits that the second commit of the range has and the first has not.
    fn compare<'a>(&'a self, range: CommitRange<'a>) -> ForgeFuture<'a, CommitComparison>;

    /// Lists the open pull requests.
    fn list_open<'a>(
        &'a self,
        since: Option<&'a ListingValidator>,
    ) -> ForgeFuture<'a, PullRequestListing>;
}

/// A client for the forge of a repository. Does not connect yet.
pub fn open(
    product: ForgeProduct,
    http: &Arc<OutboundHttp>,
    url: &RepositoryUrl,
    credentials: &Credentials,
) -> Result<Box<dyn Forge>, Error> {
    Ok(match product {
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

//! The commits that one commit has and another one has not, as the forges list them, and the page that
//! shows them.
//!
//! Read only. At most two requests; only the newest commits are read.

use ::http::Method;
use serde::Deserialize;

use super::api_client::ApiRequest;
use super::session::{ForgeSession, origin};
use super::{Error, ForgeProduct};
use crate::names::ObjectId;
use crate::repository_url::RepositoryUrl;

/// Completes "cannot …".
pub(super) const ATTEMPTED: &str = "compare two commits";

/// How many commits are returned at most.
const MAX_COMMITS: usize = 30;

/// How many commits a page of GitHub has at most.
const GITHUB_PAGE: u64 = 100;

/// The longest title and the longest name of an author, in characters.
const LONGEST_TITLE: usize = 120;

/// The commit before the first and the last of a range.
pub type CommitRange<'a> = (&'a ObjectId, &'a ObjectId);

/// The commits between two commits.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommitComparison {
    /// The newest commits, newest first.
    pub newest: Vec<ComparedCommit>,
    /// How many commits there are; `None` if the forge does not say.
    pub total: Option<u64>,
}

/// A commit as a forge lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparedCommit {
    /// Its id.
    pub id: String,
    /// The first line of its message, shortened.
    pub title: String,
    /// The name of its author.
    pub author: Option<String>,
}

impl CommitComparison {
    /// All commits, newest first.
    pub(super) fn complete(newest: Vec<ComparedCommit>) -> Self {
        let total = Some(newest.len() as u64);
        Self::cut(newest, total)
    }

    pub(super) fn cut(mut newest: Vec<ComparedCommit>, total: Option<u64>) -> Self {
        newest.truncate(MAX_COMMITS);
        Self { newest, total }
    }
}

impl ComparedCommit {
    pub(super) fn new(id: String, message: &str, author: Option<String>) -> Self {
        let title = one_line(message.lines().next().unwrap_or_default());
        let author = author.map(|author| one_line(&author));
        Self {
            id: id.chars().take(64).collect(),
            title,
            author: author.filter(|author| !author.is_empty()),
        }
    }
}

fn one_line(text: &str) -> String {
    let text = text.trim().chars().filter(|c| !c.is_control());
    text.take(LONGEST_TITLE).collect()
}

/// The page of the web interface that compares two commits.
pub fn comparison_page(
    product: ForgeProduct,
    url: &RepositoryUrl,
    (from, to): CommitRange<'_>,
) -> String {
    let (origin, project) = (origin(url), url.project());
    match product {
        ForgeProduct::GitHub | ForgeProduct::Gitea => {
            format!("{origin}/{project}/compare/{from}...{to}")
        }
        ForgeProduct::GitLab => format!("{origin}/{project}/-/compare/{from}...{to}"),
        ForgeProduct::BitbucketCloud => {
            format!("https://bitbucket.org/{project}/branches/compare/{to}..{from}")
        }
        ForgeProduct::BitbucketServer => {
            let mut parts: Vec<&str> = project.split('/').collect();
            let slug = parts.pop().unwrap_or_default();
            let key = parts.pop().unwrap_or_default();
            parts.pop_if(|part| *part == "scm");
            let root: String = parts.iter().map(|part| format!("/{part}")).collect();
            format!(
                "{origin}{root}/projects/{key}/repos/{slug}/compare/commits?targetBranch={from}&sourceBranch={to}"
            )
        }
        ForgeProduct::AzureDevOps => {
            format!("{origin}/{project}/branchCompare?baseVersion=GC{from}&targetVersion=GC{to}")
        }
    }
}

#[derive(Deserialize)]
struct GitHubComparison {
    total_commits: u64,
    #[serde(default)]
    commits: Vec<GitHubCommit>,
}

#[derive(Deserialize)]
struct GitHubCommit {
    sha: String,
    commit: GitHubCommitDetails,
}

#[derive(Deserialize)]
struct GitHubCommitDetails {
    #[serde(default)]
    message: String,
    author: Option<NamedAuthor>,
}

/// The author of a commit, by the names that forges give the field.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NamedAuthor {
    display_name: Option<String>,
    name: Option<String>,
}

impl NamedAuthor {
    pub(super) fn into_name(self) -> Option<String> {
        self.display_name.or(self.name)
    }
}

impl From<GitHubCommit> for ComparedCommit {
    fn from(commit: GitHubCommit) -> Self {
        let author = commit.commit.author.and_then(NamedAuthor::into_name);
        Self::new(commit.sha, &commit.commit.message, author)
    }
}

/// GitHub lists the oldest commit first, Gitea the newest.
pub(super) async fn github(
    session: &ForgeSession,
    path: &[&str],
) -> Result<CommitComparison, Error> {
    let mut comparison = github_page(session, path, 1).await?;
    let pages = comparison.total_commits.div_ceil(GITHUB_PAGE);
    if pages > 1 {
        comparison = github_page(session, path, pages).await?;
    }
    let newest = comparison.commits.into_iter().rev().map(Into::into);
    let total = Some(comparison.total_commits);
    Ok(CommitComparison::cut(newest.collect(), total))
}

async fn github_page(
    session: &ForgeSession,
    path: &[&str],
    page: u64,
) -> Result<GitHubComparison, Error> {
    let request = ApiRequest::new(ATTEMPTED, Method::GET, path)
        .query("per_page", GITHUB_PAGE.to_string())
        .query("page", page.to_string());
    session.send(request).await?.parse()
}

pub(super) async fn gitea(
    session: &ForgeSession,
    path: &[&str],
) -> Result<CommitComparison, Error> {
    let request = ApiRequest::new(ATTEMPTED, Method::GET, path);
    let comparison: GitHubComparison = session.send(request).await?.parse()?;
    let newest = comparison.commits.into_iter().map(Into::into);
    let total = Some(comparison.total_commits);
    Ok(CommitComparison::cut(newest.collect(), total))
}

#[derive(Deserialize)]
struct GitLabCommits {
    commits: Vec<GitLabCommit>,
}

#[derive(Deserialize)]
struct GitLabCommit {
    id: String,
    #[serde(default)]
    title: String,
    author_name: Option<String>,
}

/// GitLab lists the oldest commit first.
pub(super) async fn gitlab(
    session: &ForgeSession,
    path: &[&str],
    (from, to): CommitRange<'_>,
) -> Result<CommitComparison, Error> {
    let request = ApiRequest::new(ATTEMPTED, Method::GET, path)
        .query("from", from.as_str())
        .query("to", to.as_str());
    let comparison: GitLabCommits = session.send(request).await?.parse()?;
    let commits = comparison.commits.into_iter().rev();
    let newest = commits.map(|it| ComparedCommit::new(it.id, &it.title, it.author_name));
    Ok(CommitComparison::complete(newest.collect()))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ServerCommits {
    values: Vec<ComparedServerCommit>,
    #[serde(default)]
    is_last_page: bool,
}

#[derive(Deserialize)]
struct ComparedServerCommit {
    id: String,
    #[serde(default)]
    message: String,
    author: Option<NamedAuthor>,
}

pub(super) async fn bitbucket_server(
    session: &ForgeSession,
    path: &[&str],
    (from, to): CommitRange<'_>,
) -> Result<CommitComparison, Error> {
    let request = ApiRequest::new(ATTEMPTED, Method::GET, path)
        .query("since", from.as_str())
        .query("until", to.as_str())
        .query("limit", MAX_COMMITS.to_string());
    let page: ServerCommits = session.send(request).await?.parse()?;
    let newest = page.values.into_iter().map(|it| {
        let author = it.author.and_then(NamedAuthor::into_name);
        ComparedCommit::new(it.id, &it.message, author)
    });
    let newest: Vec<ComparedCommit> = newest.collect();
    let total = page.is_last_page.then_some(newest.len() as u64);
    Ok(CommitComparison::cut(newest, total))
}

#[derive(Deserialize)]
struct CloudCommits {
    values: Vec<CloudListedCommit>,
    next: Option<String>,
}

#[derive(Deserialize)]
struct CloudListedCommit {
    hash: String,
    #[serde(default)]
    message: String,
    author: Option<CloudAuthor>,
}

#[derive(Deserialize)]
struct CloudAuthor {
    /// `Name <address>`.
    raw: Option<String>,
}

pub(super) async fn bitbucket_cloud(
    session: &ForgeSession,
    path: &[&str],
    (from, to): CommitRange<'_>,
) -> Result<CommitComparison, Error> {
    let request = ApiRequest::new(ATTEMPTED, Method::GET, path)
        .query("include", to.as_str())
        .query("exclude", from.as_str())
        .query("pagelen", MAX_COMMITS.to_string());
    let page: CloudCommits = session.send(request).await?.parse()?;
    let newest = page.values.into_iter().map(|it| {
        let raw = it.author.and_then(|author| author.raw);
        let name = raw.map(|raw| raw.split('<').next().unwrap_or_default().to_owned());
        ComparedCommit::new(it.hash, &it.message, name)
    });
    let newest: Vec<ComparedCommit> = newest.collect();
    let total = page.next.is_none().then_some(newest.len() as u64);
    Ok(CommitComparison::cut(newest, total))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct AzureCounts {
    #[serde(default)]
    ahead_count: u64,
}

#[derive(Deserialize)]
struct AzureCommits {
    value: Vec<ComparedAzureCommit>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ComparedAzureCommit {
    commit_id: String,
    #[serde(default)]
    comment: String,
    author: Option<NamedAuthor>,
}

/// Counts the commits first, and then lists that many from the newest on: the parameters that list a
/// range have no agreed direction.
pub(super) async fn azure(
    session: &ForgeSession,
    (from, to): CommitRange<'_>,
) -> Result<CommitComparison, Error> {
    let request = ApiRequest::new(ATTEMPTED, Method::GET, &["diffs", "commits"])
        .query("baseVersionType", "commit")
        .query("baseVersion", from.as_str())
        .query("targetVersionType", "commit")
        .query("targetVersion", to.as_str())
        .query("$top", "1");
    let counts: AzureCounts = session.send(request).await?.parse()?;
    let wanted = counts.ahead_count.min(MAX_COMMITS as u64);
    if wanted == 0 {
        return Ok(CommitComparison::complete(Vec::new()));
    }
    let request = ApiRequest::new(ATTEMPTED, Method::GET, &["commits"])
        .query("searchCriteria.itemVersion.versionType", "commit")
        .query("searchCriteria.itemVersion.version", to.as_str())
        .query("searchCriteria.$top", wanted.to_string());
    let listed: AzureCommits = session.send(request).await?.parse()?;
    let newest = listed
        .value
        .into_iter()
        .take_while(|it| it.commit_id != from.as_str());
    let newest = newest.map(|it| {
        let author = it.author.and_then(NamedAuthor::into_name);
        ComparedCommit::new(it.commit_id, &it.comment, author)
    });
    let total = Some(counts.ahead_count);
    Ok(CommitComparison::cut(newest.collect(), total))
}

#[cfg(test)]
mod tests {
    use net::AddressPolicy;

    use super::*;

    #[test]
    fn every_forge_has_a_page_that_compares_two_commits() {
        let (a, b) = ("a".repeat(40), "b".repeat(40));
        let ids = [&a, &b].map(|id| ObjectId::new(&**id).expect("an id"));
        for (product, url, page) in [
            (
                ForgeProduct::GitHub,
                "git@github.com:team/app.git",
                format!("https://github.com/team/app/compare/{a}...{b}"),
            ),
            (
                ForgeProduct::Gitea,
                "https://git.example/team/app",
                format!("https://git.example/team/app/compare/{a}...{b}"),
            ),
            (
                ForgeProduct::GitLab,
                "https://gitlab.com/group/sub/app",
                format!("https://gitlab.com/group/sub/app/-/compare/{a}...{b}"),
            ),
            (
                ForgeProduct::BitbucketCloud,
                "git@bitbucket.org:team/app.git",
                format!("https://bitbucket.org/team/app/branches/compare/{b}..{a}"),
            ),
            (
                ForgeProduct::BitbucketServer,
                "https://bb.example/git/scm/KEY/app.git",
                format!(
                    "https://bb.example/git/projects/KEY/repos/app/compare/commits?targetBranch={a}\
                     &sourceBranch={b}"
                ),
            ),
            (
                ForgeProduct::AzureDevOps,
                "https://dev.azure.com/org/shop/_git/app",
                format!(
                    "https://dev.azure.com/org/shop/_git/app/branchCompare?baseVersion=GC{a}\
                     &targetVersion=GC{b}"
                ),
            ),
        ] {
            let url = RepositoryUrl::parse(url, AddressPolicy::default()).expect("a URL");
            assert_eq!(comparison_page(product, &url, (&ids[0], &ids[1])), page);
        }
    }
}

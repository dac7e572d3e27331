//! Lists the commits that a promotion brings, from the repository in `spec.changelog`.
//!
//! Read only, and never a reason to fail: what a forge does not tell is a note.

use std::{sync::Arc, time::Duration};

use api::{
    pipeline::Changelog,
    promotion::{SourceCommit, SourceCommits},
};
use git::{forge::comparison_page, names::ObjectId};
use planner::Failure;
use runtime::TtlCache;

use super::{
    PromotionTask,
    forge_repository::ForgeRepositories,
    pull_request::kind,
    repositories::GitRepositories,
    secrets::{SecretContents, SecretReader},
};

/// How long a comparison is cached.
const TIME_TO_LIVE: Duration = Duration::from_secs(600);
/// The same if it failed.
const FAILED_TIME_TO_LIVE: Duration = Duration::from_secs(60);
/// How many comparisons are cached.
const CAPACITY: usize = 1024;
/// How many bytes of an error are kept.
const LONGEST_NOTE: usize = 300;

/// URL, version of the Secret, and the two commits.
type ComparisonKey = (String, String, String, String);

/// The commits of promotions.
pub(super) struct Changelogs {
    repositories: Arc<GitRepositories>,
    forges: Arc<ForgeRepositories>,
    comparisons: TtlCache<ComparisonKey, SourceCommits>,
}

impl Changelogs {
    pub(super) fn new(repositories: Arc<GitRepositories>, forges: Arc<ForgeRepositories>) -> Self {
        Self {
            repositories,
            forges,
            comparisons: TtlCache::new(TIME_TO_LIVE, CAPACITY),
        }
    }

    /// The commits that the promotion brings, where the pipeline names the repository and both commits
    /// are known.
    pub(super) async fn commits(
        &self,
        task: PromotionTask<'_>,
        secrets: &SecretReader,
    ) -> Option<SourceCommits> {
        let changelog = task.pipeline.spec.changelog.as_ref()?;
        let range = task.promotion.spec.source_range.as_ref()?;
        let range = (
            ObjectId::new(range.from.as_str()).ok()?,
            ObjectId::new(range.to.as_str()).ok()?,
        );
        let mut commits = SourceCommits {
            from: range.0.as_str().to_owned(),
            to: range.1.as_str().to_owned(),
            ..SourceCommits::default()
        };
        match self.repositories.parse(&changelog.url) {
            Ok(url) => {
                let page = comparison_page(kind(changelog.forge), &url, (&range.0, &range.1));
                commits.url = Some(page);
            }
            Err(failure) => {
                commits.note = Some(note(&failure));
                return Some(commits);
            }
        }
        let Some(reference) = &changelog.secret_ref else {
            return Some(commits);
        };
        let secret = match secrets.read_for(task, reference).await {
            Ok(secret) => secret,
            Err(failure) => {
                commits.note = Some(note(&failure));
                return Some(commits);
            }
        };
        Some(self.compared(changelog, &secret, range, commits).await)
    }

    /// With the commits that the forge lists, or why it does not.
    async fn compared(
        &self,
        changelog: &Changelog,
        secret: &SecretContents,
        range: (ObjectId, ObjectId),
        commits: SourceCommits,
    ) -> SourceCommits {
        let key = (
            changelog.url.clone(),
            secret.version.clone(),
            commits.from.clone(),
            commits.to.clone(),
        );
        let lookup = async {
            let mut commits = commits;
            match self.compare(changelog, secret, &range).await {
                Ok((newest, total)) => {
                    (commits.newest, commits.total) = (newest, total);
                    (commits, TIME_TO_LIVE)
                }
                Err(failure) => {
                    tracing::warn!(because = failure.message, "could not list the commits");
                    commits.note = Some(note(&failure));
                    (commits, FAILED_TIME_TO_LIVE)
                }
            }
        };
        self.comparisons.get_with_ttl(key, lookup).await
    }

    async fn compare(
        &self,
        changelog: &Changelog,
        secret: &SecretContents,
        (from, to): &(ObjectId, ObjectId),
    ) -> Result<(Vec<SourceCommit>, Option<i64>), Failure> {
        let access = self.repositories.open(&changelog.url, secret)?;
        let (url, credentials) = (&access.url, &access.credentials);
        let forge = self.forges.open(kind(changelog.forge), url, credentials)?;
        let compared = forge.call(forge.forge.compare((from, to))).await?;
        let newest = compared.newest.into_iter().map(|commit| SourceCommit {
            id: commit.id,
            title: commit.title,
            author: commit.author,
        });
        let total = compared.total.and_then(|total| total.try_into().ok());
        Ok((newest.collect(), total))
    }
}

fn note(failure: &Failure) -> String {
    let mut text = format!("the commits are not listed: {}", failure.message);
    let mut end = text.len().min(LONGEST_NOTE);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.truncate(end);
    text
}

//! Carries out promotions and Changes: the only place that matches on the strategy, and the only
//! caller of `git`.
//!
//! Every operation is idempotent. Before each side effect the replica checks that it holds the Lease
//! for as long as that may take. Failures are values with a fixed reason, a message, and a remedy.

mod approved_edits;
mod batch_edits;
mod branch_heads;
mod carry_out;
mod change_file;
mod changelog;
mod commit;
mod dependencies;
mod failure;
mod feedback;
mod forge_repository;
mod freeze_guard;
mod manifest_edit;
mod notification;
mod oci;
mod preflight;
mod preview;
mod promotion_change;
mod promotion_description;
mod promotion_proposal;
mod proposal;
mod pull_request;
mod refreshed_text;
mod repositories;
mod rollout_part;
pub(crate) mod secrets;
mod side_effect_guard;
mod template;
mod webhook;

use std::{path::PathBuf, sync::Arc, time::Duration};

use api::{
    Change, Pipeline, Promotion,
    pipeline::{Commit, Oci, PullRequestStrategy, ResourceSetInputs, Strategy, Webhook},
    promotion::{PromotionChange, SourceCommits},
    reference::LocalReference,
};
use kube::Client;
use net::OutboundHttp;
use planner::{Failure, ObservedPullRequest, Outcome, PullRequestLookup};
use runtime::{LeaderGuard, ReliableSender};
use tempfile::TempDir;

use crate::{EVENT_SOURCE, Metrics, Settings};
pub(crate) use approved_edits::ApprovedEdits;
use change_file::ChangeFiles;
use changelog::Changelogs;
use commit::Commits;
use failure::needs_edit;
use forge_repository::ForgeRepositories;
use freeze_guard::FreezeGuard;
use notification::Notifications;
use oci::OciTags;
pub use preview::preview_proposal;
use proposal::Proposals;
use pull_request::PullRequests;
use repositories::GitRepositories;
use rollout_part::{RolloutPart, TargetBatch};
use secrets::{SecretContents, SecretReader};
use side_effect_guard::SideEffectGuard;
use webhook::Webhooks;

/// How a pull request is merged.
#[derive(Clone, Copy)]
pub(crate) enum MergeRoute {
    /// Now.
    Direct,
    /// By the merge queue of its base branch.
    Queue,
}

/// A promotion to carry out, and its pipeline.
#[derive(Clone, Copy)]
pub(crate) struct PromotionTask<'a> {
    pub(crate) pipeline: &'a Pipeline,
    pub(crate) promotion: &'a Promotion,
    /// The digest of the change that people approved; nothing where nobody has to.
    pub(crate) approved_change: Option<&'a str>,
    /// The commits of the source code that it brings, where they are known.
    pub(crate) commits: Option<&'a SourceCommits>,
    /// Which of its targets it is carried out for, where it goes in waves.
    pub(crate) part: RolloutPart,
}

impl<'a> PromotionTask<'a> {
    pub(crate) fn new(pipeline: &'a Pipeline, promotion: &'a Promotion) -> Self {
        Self {
            pipeline,
            promotion,
            approved_change: None,
            commits: None,
            part: RolloutPart::Batch,
        }
    }

    fn with_part(self, part: RolloutPart) -> Self {
        Self { part, ..self }
    }

    /// What pull requests, commits and calls are found again by: the promotion's uid and, where it goes in
    /// waves, the number of the batch.
    fn uid(self) -> String {
        let uid = self.promotion.metadata.uid.as_deref().unwrap_or_default();
        match TargetBatch::of(self.promotion) {
            Some(batch) => format!("{uid}/{}", batch.number()),
            None => uid.to_owned(),
        }
    }

    fn strategy(self) -> Result<StrategyKind<'a>, Failure> {
        StrategyKind::of(&self.promotion.spec.strategy)
    }
}

/// What a strategy did.
pub(crate) struct StrategyResult {
    pub(crate) outcome: Outcome,
    /// What it changes, if that was computed.
    pub(crate) change: Option<PromotionChange>,
}

impl From<Outcome> for StrategyResult {
    fn from(outcome: Outcome) -> Self {
        Self {
            outcome,
            change: None,
        }
    }
}

/// What the forge shows of a pull request.
pub(crate) struct PullRequestObservation {
    pub(crate) pull_request: ObservedPullRequest,
    /// An earlier lookup would show the same, because pull requests are listed once per interval.
    pub(crate) recheck_after: Duration,
}

/// Why promotions cannot be carried out at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no folder for the mirrors.
    #[error("cannot create a folder for git; name a writable one with --git-folder")]
    Folder(#[source] std::io::Error),
    /// Git cannot use the folder.
    #[error("cannot set up git in {}", folder.display())]
    Git {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: git::runner::Error,
    },
    /// Events cannot be sent.
    #[error("cannot set up sending events")]
    Events(#[source] net::AddressError),
}

/// Carries out promotions by every strategy, and Changes.
pub(crate) struct Strategies {
    secrets: SecretReader,
    repositories: Arc<GitRepositories>,
    pull_requests: PullRequests,
    commits: Commits,
    notifications: Notifications,
    webhooks: Webhooks,
    oci_tags: OciTags,
    change_files: ChangeFiles,
    changelogs: Changelogs,
    freezes: FreezeGuard,
    /// Removed when the process ends.
    _folder: Option<TempDir>,
}

/// The one strategy of a promotion.
#[derive(Clone, Copy)]
enum StrategyKind<'a> {
    PullRequest(&'a PullRequestStrategy),
    Commit(&'a Commit),
    Notification,
    Webhook(&'a Webhook),
    Oci(&'a Oci),
    Inputs(&'a ResourceSetInputs),
}

impl<'a> StrategyKind<'a> {
    fn of(strategy: &'a Strategy) -> Result<Self, Failure> {
        if let Some(to) = &strategy.pull_request {
            return Ok(Self::PullRequest(to));
        }
        if let Some(to) = &strategy.commit {
            return Ok(Self::Commit(to));
        }
        if strategy.notification.is_some() {
            return Ok(Self::Notification);
        }
        if let Some(to) = &strategy.webhook {
            return Ok(Self::Webhook(to));
        }
        if let Some(to) = &strategy.oci {
            return Ok(Self::Oci(to));
        }
        if let Some(to) = &strategy.resource_set_inputs {
            return Ok(Self::Inputs(to));
        }
        Err(no_strategy())
    }

    /// The Secret it needs.
    fn secret(self) -> Option<&'a LocalReference> {
        match self {
            Self::PullRequest(to) => Some(&to.secret_ref),
            Self::Commit(to) => Some(&to.secret_ref),
            Self::Notification => None,
            Self::Webhook(to) => to.secret_ref.as_ref(),
            Self::Oci(to) => to.secret_ref.as_ref(),
            Self::Inputs(to) => Some(&to.secret_ref),
        }
    }
}

impl Strategies {
    /// Prepares a folder for git.
    pub(crate) fn new(
        hub: Client,
        settings: &Settings,
        leader: LeaderGuard,
        metrics: &Metrics,
    ) -> Result<Self, Error> {
        let (folder, temporary) = folder(settings)?;
        let guard = SideEffectGuard::new(settings, leader);
        let http = http(settings, &guard);
        let repositories = GitRepositories::new(&folder, settings, http.clone(), guard.clone());
        let repositories = Arc::new(repositories.map_err(|source| Error::Git { folder, source })?);
        let forges = Arc::new(ForgeRepositories::new(http, metrics.clone()));
        let changelogs = Changelogs::new(repositories.clone(), forges.clone());
        let proposals = Proposals::new(repositories.clone(), forges, guard.clone(), settings);
        let flux = settings.events_address.as_deref();
        let sender = ReliableSender::new(hub.clone(), EVENT_SOURCE, flux).map_err(Error::Events)?;
        let freezes = FreezeGuard::new(hub.clone(), settings);
        Ok(Self {
            secrets: SecretReader::new(hub),
            freezes: freezes.clone(),
            change_files: ChangeFiles::new(proposals.clone(), settings),
            pull_requests: PullRequests::new(proposals, guard.clone(), freezes, settings),
            commits: Commits::new(repositories.clone(), guard.clone()),
            notifications: Notifications::new(sender, guard.clone()),
            webhooks: Webhooks::new(settings, guard.clone()),
            oci_tags: OciTags::new(settings, guard),
            changelogs,
            repositories,
            _folder: temporary,
        })
    }

    /// What the forge shows of the promotion's pull request.
    pub(crate) async fn observe(
        &self,
        task: PromotionTask<'_>,
        lookup: PullRequestLookup,
    ) -> Result<PullRequestObservation, Failure> {
        let StrategyKind::PullRequest(to) = task.strategy()? else {
            return Ok(PullRequestObservation {
                pull_request: ObservedPullRequest::NotQueried,
                recheck_after: Duration::MAX,
            });
        };
        let secret = self.secrets.read_for(task, &to.secret_ref).await?;
        self.pull_requests.observe(task, to, &secret, lookup).await
    }

    /// Closes the promotion's pull request if it is open.
    pub(crate) async fn close(&self, task: PromotionTask<'_>) -> Outcome {
        let done = async {
            if let StrategyKind::PullRequest(to) = task.strategy()? {
                let secret = self.secrets.read_for(task, &to.secret_ref).await?;
                self.pull_requests.close(task, to, &secret).await?;
            }
            Ok(Outcome::Closed)
        };
        done.await.unwrap_or_else(Outcome::Failed)
    }

    /// Has the forge merge the promotion's pull request, unless it answered that a moment ago.
    pub(crate) async fn merge(&self, task: PromotionTask<'_>, route: MergeRoute) -> Outcome {
        let asked = async {
            let StrategyKind::PullRequest(to) = task.strategy()? else {
                return Ok(Outcome::AskedForMerge { because: None });
            };
            let secret = self.secrets.read_for(task, &to.secret_ref).await?;
            self.freezes.permit(task).await?;
            self.pull_requests.merge(task, to, &secret, route).await
        };
        // Whatever failed, the pull request is still followed, and the forge is asked again.
        asked
            .await
            .unwrap_or_else(|failure| Outcome::AskedForMerge {
                because: Some(failure),
            })
    }

    /// Keeps the forge from merging the promotion's pull request by itself.
    pub(crate) async fn cancel_scheduled_merge(&self, task: PromotionTask<'_>) -> Outcome {
        let done = async {
            if let StrategyKind::PullRequest(to) = task.strategy()? {
                let secret = self.secrets.read_for(task, &to.secret_ref).await?;
                let pulls = &self.pull_requests;
                pulls.cancel_scheduled_merge(task, to, &secret).await?;
            }
            Ok(Outcome::ScheduledMergeCancelled)
        };
        done.await.unwrap_or_else(Outcome::Failed)
    }

    /// Comments on the pull request of a promotion that was deleted that nobody follows it any more.
    pub(crate) async fn comment_on_orphan(&self, task: PromotionTask<'_>) -> Result<(), Failure> {
        let StrategyKind::PullRequest(to) = task.strategy()? else {
            return Ok(());
        };
        let secret = self.secrets.read_for(task, &to.secret_ref).await?;
        self.pull_requests
            .comment_on_orphan(task, to, &secret)
            .await
    }

    /// What the forge shows of the Change's pull request.
    pub(crate) async fn observe_change(
        &self,
        change: &Change,
        lookup: PullRequestLookup,
    ) -> Result<PullRequestObservation, Failure> {
        self.change_files
            .observe(change, &self.secrets, lookup)
            .await
    }

    /// Proposes the Change's file.
    pub(crate) async fn propose_change(&self, change: &Change) -> Outcome {
        let done = self.change_files.propose(change, &self.secrets).await;
        done.unwrap_or_else(Outcome::Failed)
    }

    /// A text that differs after somebody edited what Changes depend on.
    pub(crate) async fn change_dependencies(&self) -> String {
        self.change_files.dependencies(&self.secrets).await
    }

    /// Removes unused mirrors at intervals, until dropped.
    pub(crate) async fn remove_unused_mirrors(self: Arc<Self>) {
        let mut interval = tokio::time::interval(MIRROR_CLEANUP_INTERVAL);
        loop {
            interval.tick().await;
            self.repositories.remove_unused_mirrors().await;
        }
    }
}

fn no_strategy() -> Failure {
    let text = "the promotion names no strategy; set one in the pipeline";
    needs_edit("NoStrategy", text)
}

/// The folder that git works in, and what must live as long as that is used.
fn folder(settings: &Settings) -> Result<(PathBuf, Option<TempDir>), Error> {
    if let Some(folder) = &settings.git_folder {
        return Ok((folder.clone(), None));
    }
    let made = tempfile::Builder::new().prefix("sluice-").tempdir();
    let made = made.map_err(Error::Folder)?;
    Ok((made.path().to_owned(), Some(made)))
}

fn http(settings: &Settings, guard: &SideEffectGuard) -> Arc<OutboundHttp> {
    let http = OutboundHttp::new(repositories::address_policy(settings));
    let http = settings.replacements.in_http(http);
    let http = http.with_timeout(guard.timeout());
    Arc::new(http.with_proxy(settings.proxy.clone()))
}

/// How often unused mirrors are removed.
const MIRROR_CLEANUP_INTERVAL: Duration = Duration::from_secs(600);

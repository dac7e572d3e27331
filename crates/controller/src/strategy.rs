//! How promotions and changes are carried out: the one place that matches strategies, and the only
//! caller of `git`.
//!
//! Everything here can be done twice. Nothing is changed elsewhere without asking immediately before
//! whether this process still leads for as long as that may take. Failures are values: what was
//! attempted, a fixed word, and what helps.

mod channel;
mod commit;
mod failure;
mod file;
mod found;
mod notification;
mod permit;
mod preview;
mod pull_request;
mod repositories;
mod secrets;
mod subject;
mod template;
mod tips;
mod webhook;
mod words;

use std::{path::PathBuf, sync::Arc, time::Duration};

use api::{
    Change, Pipeline, Promotion,
    pipeline::{Commit, PullRequest, Strategy, Webhook},
    reference::LocalReference,
};
use git::{forge::Http, propose::branch_beside};
use kube::Client;
use planner::{Failure, Look, Outcome, PullRequestSeen};
use tempfile::TempDir;

use crate::{Metrics, Settings, events::Courier, lease::Leadership};
use channel::Channels;
use commit::Commits;
use failure::stuck;
use file::Files;
use notification::Notifications;
use permit::Permits;
pub use preview::proposal;
use pull_request::PullRequests;
use repositories::Repositories;
use secrets::{Contents, Secrets};
use webhook::Webhooks;

/// What one promotion is about.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a> {
    pub(crate) pipeline: &'a Pipeline,
    pub(crate) promotion: &'a Promotion,
}

/// What a look at a pull request showed.
pub(crate) struct Looked {
    pub(crate) seen: PullRequestSeen,
    /// An earlier look would show the same, because pull requests are listed only so often.
    pub(crate) again_in: Duration,
}

/// Why promotions cannot be carried out at all.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is nowhere to put mirrors.
    #[error("cannot make a folder for git; name a writable one with --git-folder")]
    Folder(#[source] std::io::Error),
    /// Git cannot use the folder.
    #[error("cannot set git up in {}", folder.display())]
    Git {
        /// The folder.
        folder: PathBuf,
        /// Why.
        source: git::runner::Error,
    },
    /// Events cannot be sent.
    #[error("cannot set up sending events")]
    Events(#[source] reqwest::Error),
}

/// All ways to carry promotions out.
pub(crate) struct Strategies {
    secrets: Secrets,
    repositories: Arc<Repositories>,
    pull_requests: PullRequests,
    commits: Commits,
    notifications: Notifications,
    webhooks: Webhooks,
    files: Files,
    /// Goes with the process.
    _folder: Option<TempDir>,
}

/// The strategy of a promotion, as one of a few.
#[derive(Clone, Copy)]
enum Way<'a> {
    PullRequest(&'a PullRequest),
    Commit(&'a Commit),
    Notification,
    Webhook(&'a Webhook),
}

impl<'a> Way<'a> {
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
        let text = "the promotion names no strategy; set one in the pipeline";
        Err(stuck("NoStrategy", text))
    }

    /// The Secret it needs.
    fn secret(self) -> Option<&'a LocalReference> {
        match self {
            Self::PullRequest(to) => Some(&to.secret_ref),
            Self::Commit(to) => Some(&to.secret_ref),
            Self::Notification => None,
            Self::Webhook(to) => to.secret_ref.as_ref(),
        }
    }
}

impl Strategies {
    /// Prepares a folder for git.
    pub(crate) fn new(
        hub: Client,
        settings: &Settings,
        leadership: Leadership,
        metrics: &Metrics,
    ) -> Result<Self, Error> {
        let (folder, temporary) = folder(settings)?;
        // Whoever embeds this may have chosen one already; then that one is used.
        drop(rustls::crypto::ring::default_provider().install_default());
        let permits = Permits::new(settings, leadership);
        let http = http(settings, &permits);
        let repositories = Repositories::new(&folder, settings, http.clone(), permits.clone());
        let repositories = Arc::new(repositories.map_err(|source| Error::Git { folder, source })?);
        let channels = Arc::new(Channels::new(http, metrics.clone()));
        let flux = settings.events_address.as_deref();
        let courier = Courier::new(hub.clone(), flux).map_err(Error::Events)?;
        Ok(Self {
            secrets: Secrets::new(hub),
            files: Files::new(
                repositories.clone(),
                channels.clone(),
                permits.clone(),
                settings,
            ),
            pull_requests: PullRequests::new(
                repositories.clone(),
                channels,
                permits.clone(),
                settings,
            ),
            commits: Commits::new(repositories.clone(), permits.clone()),
            notifications: Notifications::new(courier, permits.clone()),
            webhooks: Webhooks::new(settings, permits),
            repositories,
            _folder: temporary,
        })
    }

    /// What there is to see of the promotion's pull request.
    pub(crate) async fn look(&self, task: Task<'_>, how: Look) -> Result<Looked, Failure> {
        let Way::PullRequest(to) = Way::of(&task.promotion.spec.strategy)? else {
            return Ok(Looked {
                seen: PullRequestSeen::NotLooked,
                again_in: Duration::MAX,
            });
        };
        let secret = self.secrets.read(task, &to.secret_ref).await?;
        self.pull_requests.look(task, to, &secret, how).await
    }

    /// Carries the promotion out.
    pub(crate) async fn carry_out(&self, task: Task<'_>) -> Outcome {
        let done = async {
            match Way::of(&task.promotion.spec.strategy)? {
                Way::PullRequest(to) => {
                    let secret = self.secrets.read(task, &to.secret_ref).await?;
                    self.pull_requests.carry_out(task, to, &secret).await
                }
                Way::Commit(to) => {
                    let secret = self.secrets.read(task, &to.secret_ref).await?;
                    self.commits.carry_out(task, to, &secret).await
                }
                Way::Notification => self.notifications.carry_out(task).await,
                Way::Webhook(to) => {
                    let secret = match &to.secret_ref {
                        Some(reference) => Some(self.secrets.read(task, reference).await?),
                        None => None,
                    };
                    self.webhooks.carry_out(task, to, secret).await
                }
            }
        };
        done.await.unwrap_or_else(Outcome::Failed)
    }

    /// Closes the promotion's pull request if it is open.
    pub(crate) async fn close(&self, task: Task<'_>) -> Outcome {
        let done = async {
            if let Way::PullRequest(to) = Way::of(&task.promotion.spec.strategy)? {
                let secret = self.secrets.read(task, &to.secret_ref).await?;
                self.pull_requests.close(task, to, &secret).await?;
            }
            Ok(Outcome::Closed)
        };
        done.await.unwrap_or_else(Outcome::Failed)
    }

    /// Has the forge merge the promotion's pull request, unless it said that it will.
    pub(crate) async fn merge(&self, task: Task<'_>) -> Outcome {
        let asked = async {
            let Way::PullRequest(to) = Way::of(&task.promotion.spec.strategy)? else {
                return Ok(Outcome::AskedForMerge { because: None });
            };
            let secret = self.secrets.read(task, &to.secret_ref).await?;
            self.pull_requests.merge(task, to, &secret).await
        };
        // Whatever went wrong, the pull request is still followed, and asked about again.
        asked
            .await
            .unwrap_or_else(|failure| Outcome::AskedForMerge {
                because: Some(failure),
            })
    }

    /// Says on the promotion's pull request that nobody follows it any more.
    pub(crate) async fn say_farewell(&self, task: Task<'_>) -> Result<(), Failure> {
        let Way::PullRequest(to) = Way::of(&task.promotion.spec.strategy)? else {
            return Ok(());
        };
        let secret = self.secrets.read(task, &to.secret_ref).await?;
        self.pull_requests.say_farewell(task, to, &secret).await
    }

    /// What changes when somebody edits what a promotion depends on: its Secret, its pipeline, and its
    /// repository where that is at fault; and when more is known about where to look.
    pub(crate) async fn dependencies(&self, task: Task<'_>) -> String {
        let way = Way::of(&task.promotion.spec.strategy).ok();
        let secret = match way.and_then(Way::secret) {
            Some(reference) => self.secrets.read(task, reference).await.ok(),
            None => None,
        };
        let version = secret.as_ref().map(|secret| secret.version.as_str());
        let generation = task.pipeline.metadata.generation;
        let knowledge = found::knowledge(task);
        let tips = match &secret {
            Some(secret) => self.tips(task, secret).await.unwrap_or_default(),
            None => String::new(),
        };
        let version = version.unwrap_or("-");
        format!("{version} {generation:?} {knowledge} {tips}")
    }

    /// What the branches of a promotion point to, where its last failure is one that an edit of the
    /// repository resolves.
    async fn tips(&self, task: Task<'_>, secret: &Contents) -> Option<String> {
        let reason = task.promotion.status.as_ref()?.reason.as_deref()?;
        if !planner::lies_in_repository(reason) {
            return None;
        }
        let change = words::Change::of(&task.promotion.spec.strategy)?;
        let repository = self.repositories.open(change.url, secret).ok()?;
        let proposal = words::Words::of(task, &change).ok()?.proposal;
        let beside = branch_beside(&proposal.branch, &proposal.message.owner);
        // Only the base is shared by many.
        let branches = match reason == planner::BRANCH_CHANGED_BY_OTHERS {
            true => vec![&proposal.base, &proposal.branch, &beside],
            false => vec![&proposal.base],
        };
        Some(self.repositories.tips(&repository, &branches).await)
    }

    /// What there is to see of the change's pull request.
    pub(crate) async fn look_at_change(
        &self,
        change: &Change,
        how: Look,
    ) -> Result<Looked, Failure> {
        self.files.look(change, &self.secrets, how).await
    }

    /// Proposes the change's file.
    pub(crate) async fn propose(&self, change: &Change) -> Outcome {
        let done = self.files.propose(change, &self.secrets).await;
        done.unwrap_or_else(Outcome::Failed)
    }

    /// What changes when somebody edits what changes depend on.
    pub(crate) async fn change_dependencies(&self) -> String {
        self.files.dependencies(&self.secrets).await
    }

    /// Removes mirrors nobody needs, again and again, until dropped.
    pub(crate) async fn tidy(self: Arc<Self>) {
        let mut clock = tokio::time::interval(TIDY_EVERY);
        loop {
            clock.tick().await;
            self.repositories.tidy().await;
        }
    }
}

/// Where git works, and what must live as long as it does.
fn folder(settings: &Settings) -> Result<(PathBuf, Option<TempDir>), Error> {
    if let Some(folder) = &settings.git_folder {
        return Ok((folder.clone(), None));
    }
    let made = tempfile::Builder::new().prefix("sluice-").tempdir();
    let made = made.map_err(Error::Folder)?;
    Ok((made.path().to_owned(), Some(made)))
}

fn http(settings: &Settings, permits: &Permits) -> Arc<Http> {
    let http = Http::new(repositories::reach(settings)).with_time_limit(permits.act_time());
    Arc::new(match &settings.proxy {
        Some(proxy) => http.with_proxy(proxy.clone()),
        None => http,
    })
}

/// How often mirrors are looked through.
const TIDY_EVERY: Duration = Duration::from_secs(600);

//! How promotions are carried out: the one place that matches strategies, and the only caller of
//! `git`.
//!
//! Everything here can be done twice. Nothing is changed elsewhere without asking immediately before
//! whether this process still leads for as long as that may take. Failures are values: what was
//! attempted, a fixed word, and what helps.

mod channel;
mod failure;
mod pull_request;
mod secrets;
mod template;
mod words;

use std::{path::PathBuf, sync::Arc, time::Duration};

use api::{
    Pipeline, Promotion,
    pipeline::{PullRequest, Strategy},
};
use kube::Client;
use planner::{Failure, Look, Outcome, PullRequestSeen};
use tempfile::TempDir;

use crate::{Metrics, Settings, lease::Leadership};
use failure::stuck;
use pull_request::PullRequests;
use secrets::Secrets;

/// What one promotion is about.
#[derive(Clone, Copy)]
pub(crate) struct Task<'a> {
    pub(crate) pipeline: &'a Pipeline,
    pub(crate) promotion: &'a Promotion,
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
}

/// All ways to carry promotions out.
pub(crate) struct Strategies {
    secrets: Secrets,
    pull_requests: PullRequests,
    /// Goes with the process.
    _folder: Option<TempDir>,
}

/// The strategy of a promotion, as one of a few.
enum Way<'a> {
    PullRequest(&'a PullRequest),
    NotYet(&'static str),
}

fn way(strategy: &Strategy) -> Result<Way<'_>, Failure> {
    if let Some(to) = &strategy.pull_request {
        return Ok(Way::PullRequest(to));
    }
    if strategy.commit.is_some() {
        return Ok(Way::NotYet("commit"));
    }
    if strategy.notification.is_some() {
        return Ok(Way::NotYet("notification"));
    }
    if strategy.webhook.is_some() {
        return Ok(Way::NotYet("webhook"));
    }
    let text = "the promotion names no strategy; set one in the pipeline";
    Err(stuck("NoStrategy", text))
}

impl Strategies {
    /// Prepares a folder for git.
    pub(crate) fn new(
        hub: Client,
        settings: &Settings,
        leadership: Leadership,
        metrics: &Metrics,
    ) -> Result<Self, Error> {
        let (folder, temporary) = match &settings.git_folder {
            Some(folder) => (folder.clone(), None),
            None => {
                let made = tempfile::Builder::new().prefix("sluice-").tempdir();
                let made = made.map_err(Error::Folder)?;
                (made.path().to_owned(), Some(made))
            }
        };
        let pull_requests = PullRequests::new(&folder, settings, leadership, metrics);
        let pull_requests = pull_requests.map_err(|source| Error::Git { folder, source })?;
        Ok(Self {
            secrets: Secrets::new(hub),
            pull_requests,
            _folder: temporary,
        })
    }

    /// What there is to see of the promotion's pull request.
    pub(crate) async fn look(&self, task: Task<'_>, how: Look) -> Result<PullRequestSeen, Failure> {
        match way(&task.promotion.spec.strategy)? {
            Way::PullRequest(to) => {
                let secret = self.secrets.read(task, &to.secret_ref).await?;
                self.pull_requests.look(task, to, &secret, how).await
            }
            Way::NotYet(_) => Ok(PullRequestSeen::NotLooked),
        }
    }

    /// Carries the promotion out.
    pub(crate) async fn carry_out(&self, task: Task<'_>) -> Outcome {
        let done = async {
            match way(&task.promotion.spec.strategy)? {
                Way::PullRequest(to) => {
                    let secret = self.secrets.read(task, &to.secret_ref).await?;
                    self.pull_requests.carry_out(task, to, &secret).await
                }
                Way::NotYet(name) => Err(stuck(
                    "StrategyNotSupported",
                    format!(
                        "this version of Sluice cannot carry out the strategy {name} yet; use \
                         pull-request, or wait for a version that can"
                    ),
                )),
            }
        };
        done.await.unwrap_or_else(Outcome::Failed)
    }

    /// Closes the promotion's pull request if it is open.
    pub(crate) async fn close(&self, task: Task<'_>) -> Outcome {
        let done = async {
            if let Way::PullRequest(to) = way(&task.promotion.spec.strategy)? {
                let secret = self.secrets.read(task, &to.secret_ref).await?;
                self.pull_requests.close(task, to, &secret).await?;
            }
            Ok(Outcome::Closed)
        };
        done.await.unwrap_or_else(Outcome::Failed)
    }

    /// Says on the promotion's pull request that nobody follows it any more.
    pub(crate) async fn say_farewell(&self, task: Task<'_>) -> Result<(), Failure> {
        match way(&task.promotion.spec.strategy)? {
            Way::PullRequest(to) => {
                let secret = self.secrets.read(task, &to.secret_ref).await?;
                self.pull_requests.say_farewell(task, to, &secret).await
            }
            Way::NotYet(_) => Ok(()),
        }
    }

    /// What changes when somebody edits what a promotion depends on: its Secret and its pipeline.
    pub(crate) async fn dependencies(&self, task: Task<'_>) -> String {
        let secret = match way(&task.promotion.spec.strategy) {
            Ok(Way::PullRequest(to)) => self.secrets.read(task, &to.secret_ref).await.ok(),
            _ => None,
        };
        let version = secret.as_ref().map(|secret| secret.version.as_str());
        let generation = task.pipeline.metadata.generation;
        format!("{} {generation:?}", version.unwrap_or("-"))
    }

    /// Removes mirrors nobody needs, again and again, until dropped.
    pub(crate) async fn tidy(self: Arc<Self>) {
        let mut clock = tokio::time::interval(TIDY_EVERY);
        loop {
            clock.tick().await;
            self.pull_requests.tidy().await;
        }
    }
}

/// How often mirrors are looked through.
const TIDY_EVERY: Duration = Duration::from_secs(600);

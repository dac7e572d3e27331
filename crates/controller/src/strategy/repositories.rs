//! Repositories that promotions are written to, by whichever strategy.

use std::{path::Path, sync::Arc, time::Duration};

use git::{
    address::{Reach, RepositoryUrl},
    credentials::Credentials,
    forge::{AppTokens, Http},
    mirror::{Keep, Mirrors},
    names::BranchName,
    propose::{Error, Outcome, Proposal},
    push,
    runner::{Limits, Runner},
};
use planner::Failure;

use super::{failure::failure, permit::Permits, secrets::Contents, tips::Tips};
use crate::Settings;

/// How long reading from a repository may take.
const READ_TIME: Duration = Duration::from_secs(180);
/// How often a push is tried whose branch moved under it, each time on what it moved to.
const TRIES: usize = 5;

/// What a repository is opened with.
pub(super) struct Repository {
    pub(super) url: RepositoryUrl,
    pub(super) credentials: Credentials,
}

pub(super) struct Repositories {
    mirrors: Mirrors,
    reach: Reach,
    permits: Permits,
    tips: Tips,
}

impl Repositories {
    pub(super) fn new(
        folder: &Path,
        settings: &Settings,
        http: Arc<Http>,
        permits: Permits,
    ) -> Result<Self, git::runner::Error> {
        let reach = reach(settings);
        let limits = Limits {
            remote: READ_TIME,
            push: permits.act_time(),
            ..Limits::default()
        };
        let keep = Keep {
            bytes: settings.git_mirrors_size,
            ..Keep::default()
        };
        let mut runner = Runner::new(folder, limits, reach)?;
        if let Some(proxy) = &settings.proxy {
            runner = runner.with_proxy(proxy.clone());
        }
        let tokens = Arc::new(AppTokens::new(http));
        Ok(Self {
            mirrors: Mirrors::new(runner, folder, keep, tokens)?,
            reach,
            permits,
            tips: Tips::new(settings),
        })
    }

    /// Checks the address and the credentials. Touches no network.
    pub(super) fn open(&self, url: &str, secret: &Contents) -> Result<Repository, Failure> {
        let url = RepositoryUrl::parse(url, self.reach)
            .map_err(|error| failure(error.reason(), error.remedy(), &error))?;
        let credentials = Credentials::from_entries(&secret.entries)
            .map_err(|error| failure(error.reason(), error.remedy(), &error))?;
        Ok(Repository { url, credentials })
    }

    /// Brings a change to its branch.
    pub(super) async fn propose(
        &self,
        repository: &Repository,
        proposal: &Proposal,
    ) -> Result<Outcome, Failure> {
        let mirror = self.mirrors.open(&repository.url, &repository.credentials);
        let permission = |time| self.permits.allow(time);
        let mut tries = 0;
        loop {
            tries += 1;
            let proposed = mirror.propose(proposal, &permission).await;
            let is_race = matches!(&proposed, Err(Error::Push(push::Error::Moved { .. })));
            if !is_race || tries == TRIES {
                return proposed.map_err(|error| failure(error.reason(), error.remedy(), &error));
            }
        }
    }

    /// What the branches point to, as one word that changes when somebody pushes to, makes or deletes
    /// one of them.
    pub(super) async fn tips(&self, repository: &Repository, branches: &[&BranchName]) -> String {
        let mirror = self.mirrors.open(&repository.url, &repository.credentials);
        let names: Vec<_> = branches.iter().map(|branch| branch.as_str()).collect();
        let key = (
            repository.url.as_str().to_owned(),
            *repository.credentials.fingerprint(),
            names.join(" "),
        );
        self.tips.word(key, mirror.tips(branches)).await
    }

    /// Removes mirrors nobody needs.
    pub(super) async fn tidy(&self) {
        self.mirrors.tidy().await;
    }
}

/// Where repositories and forges may be.
pub(super) fn reach(settings: &Settings) -> Reach {
    Reach {
        allow_internal: settings.allow_internal_urls,
        allow_insecure: false,
    }
}

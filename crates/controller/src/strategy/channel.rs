//! One repository on a forge as one credential sees it, shared by all that use it.
//!
//! Open pull requests are listed once per while for all of them; a forge that did not answer is not
//! asked again by the next one either.

use std::{collections::HashMap, sync::Arc, time::Duration};

use git::{
    address::RepositoryUrl,
    credentials::Credentials,
    forge::{self, Forge, Http, Kind, Listing, PullRequest, Validator},
};
use parking_lot::Mutex;
use planner::Failure;
use tokio::time::Instant;

use super::{failure::of_forge, permit::Permits};
use crate::Metrics;

/// How long a channel is kept that nobody uses.
const IDLE: Duration = Duration::from_secs(3600);

/// Which repository, for whom.
type Key = (Kind, String, [u8; 32]);

/// All channels of a process.
pub(super) struct Channels {
    http: Arc<Http>,
    metrics: Metrics,
    open: Mutex<HashMap<Key, (Instant, Arc<Channel>)>>,
}

impl Channels {
    pub(super) fn new(http: Arc<Http>, metrics: Metrics) -> Self {
        Self {
            http,
            metrics,
            open: Mutex::default(),
        }
    }

    /// The channel to a repository. Touches no network.
    pub(super) fn open(
        &self,
        kind: Kind,
        url: &RepositoryUrl,
        credentials: &Credentials,
    ) -> Result<Arc<Channel>, Failure> {
        let key = (kind, url.as_str().to_owned(), *credentials.fingerprint());
        let now = Instant::now();
        let mut open = self.open.lock();
        if let Some((used, channel)) = open.get_mut(&key) {
            *used = now;
            return Ok(channel.clone());
        }
        open.retain(|_, (used, _)| used.elapsed() < IDLE);
        let forge = forge::open(kind, &self.http, url, credentials);
        let channel = Arc::new(Channel {
            forge: forge.map_err(|error| of_forge(&error))?,
            kind,
            metrics: self.metrics.clone(),
            listed: tokio::sync::Mutex::default(),
        });
        open.insert(key, (now, channel.clone()));
        Ok(channel)
    }
}

pub(super) struct Channel {
    pub(super) forge: Box<dyn Forge>,
    kind: Kind,
    metrics: Metrics,
    listed: tokio::sync::Mutex<Option<Listed>>,
}

/// What a list of open pull requests shows of the wanted one.
pub(super) struct Followed {
    pub(super) pull_request: Option<PullRequest>,
    /// After this time the list counts as stale, and the next look fetches a new one.
    pub(super) stale_in: Duration,
}

struct Listed {
    at: Instant,
    pull_requests: Vec<PullRequest>,
    validator: Option<Validator>,
    failure: Option<Failure>,
}

impl Channel {
    /// Waits for an answer of the forge and counts it.
    pub(super) async fn want<T>(&self, answer: forge::Answer<'_, T>) -> Result<T, Failure> {
        let answer = answer.await;
        let result = answer.as_ref().err().map_or("ok", forge::Error::reason);
        let metrics = self.metrics.promotions();
        metrics.count_forge_call(self.kind, result);
        answer.map_err(|error| of_forge(&error))
    }

    /// Has the forge change something, if this process leads for as long as that may take. One
    /// answer may take several calls.
    pub(super) async fn change<T>(
        &self,
        permits: &Permits,
        answer: forge::Answer<'_, T>,
    ) -> Result<T, Failure> {
        let late = ("ForgeTimedOut", "the forge did not answer in time");
        permits.act(self.want(answer), late).await
    }

    /// The open pull request that is wanted, in a list that is at most so old.
    pub(super) async fn followed(
        &self,
        oldest: Duration,
        is_wanted: impl Fn(&PullRequest) -> bool,
    ) -> Result<Followed, Failure> {
        let mut kept = self.listed.lock().await;
        let listed = match kept.take() {
            Some(listed) if listed.at.elapsed() < oldest => listed,
            before => self.list(before).await,
        };
        let listed = kept.insert(listed);
        if let Some(failure) = &listed.failure {
            return Err(failure.clone());
        }
        let mut all = listed.pull_requests.iter();
        Ok(Followed {
            pull_request: all.find(|pull| is_wanted(pull)).cloned(),
            stale_in: oldest.saturating_sub(listed.at.elapsed()),
        })
    }

    async fn list(&self, before: Option<Listed>) -> Listed {
        let validator = before.as_ref().and_then(|before| before.validator.as_ref());
        let answer = self.want(self.forge.list_open(validator)).await;
        let known = before.map(|before| (before.pull_requests, before.validator));
        let (known, known_validator) = known.unwrap_or_default();
        let (pull_requests, validator, failure) = match answer {
            Ok(Listing::Same) => (known, known_validator, None),
            Ok(Listing::Now {
                pull_requests,
                validator,
            }) => (pull_requests, Some(validator), None),
            Err(failure) => (known, known_validator, Some(failure)),
        };
        Listed {
            at: Instant::now(),
            pull_requests,
            validator,
            failure,
        }
    }

    /// Takes note of a pull request that was just opened or changed, so that it need not be asked
    /// for before the next list.
    pub(super) async fn note(&self, pull: &PullRequest) {
        if let Some(listed) = self.listed.lock().await.as_mut() {
            // What was noted is not what the validator stands for.
            listed.validator = None;
            listed
                .pull_requests
                .retain(|known| known.number != pull.number);
            listed.pull_requests.push(pull.clone());
        }
    }
}

#[cfg(test)]
mod tests;

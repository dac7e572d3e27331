//! One repository on a forge, as one credential sees it, shared by all promotions and Changes that
//! use it.
//!
//! Open pull requests are listed once per interval for all of them, and a listing that failed is not
//! repeated before the interval is over. No lock is held during a request to the forge: callers join a
//! listing in progress, but only for a short time, so that a slow forge does not block the workers that
//! other repositories need.

use std::{collections::HashMap, sync::Arc, time::Duration};

use git::{
    credentials::Credentials,
    forge::{self, Forge, ForgeProduct, ListingValidator, PullRequest, PullRequestListing},
    repository_url::RepositoryUrl,
};
use net::OutboundHttp;
use parking_lot::Mutex;
use planner::Failure;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;

use super::{
    failure::{from_forge, transient},
    side_effect_guard::SideEffectGuard,
};
use crate::Metrics;

/// How long a repository is kept that nobody uses.
const IDLE: Duration = Duration::from_secs(3600);
/// How long a worker waits for a listing, counted from its start.
const LISTING_PATIENCE: Duration = Duration::from_secs(3);
/// How long a listing may take in all.
const LISTING_TIMEOUT: Duration = Duration::from_secs(60);
/// When to ask again for a listing that is still under way.
const LISTING_RECHECK: Duration = Duration::from_secs(5);

/// Which forge and repository, and the fingerprint of the credential.
type RepositoryKey = (ForgeProduct, String, [u8; 32]);

/// All repositories of a process that are in use.
pub(super) struct ForgeRepositories {
    http: Arc<OutboundHttp>,
    metrics: Metrics,
    open: Mutex<HashMap<RepositoryKey, (Instant, Arc<ForgeRepository>)>>,
}

impl ForgeRepositories {
    pub(super) fn new(http: Arc<OutboundHttp>, metrics: Metrics) -> Self {
        Self {
            http,
            metrics,
            open: Mutex::default(),
        }
    }

    /// The repository of that URL. Touches no network.
    pub(super) fn open(
        &self,
        kind: ForgeProduct,
        url: &RepositoryUrl,
        credentials: &Credentials,
    ) -> Result<Arc<ForgeRepository>, Failure> {
        let key = (kind, url.as_str().to_owned(), *credentials.fingerprint());
        let now = Instant::now();
        let mut open = self.open.lock();
        if let Some((used, repository)) = open.get_mut(&key) {
            *used = now;
            return Ok(repository.clone());
        }
        open.retain(|_, (used, _)| used.elapsed() < IDLE);
        let forge = forge::open(kind, &self.http, url, credentials);
        let repository = Arc::new(ForgeRepository {
            forge: forge.map_err(|error| from_forge(&error))?,
            kind,
            metrics: self.metrics.clone(),
            open_pull_requests: Mutex::default(),
        });
        open.insert(key, (now, repository.clone()));
        Ok(repository)
    }
}

/// One repository on a forge.
pub(super) struct ForgeRepository {
    pub(super) forge: Box<dyn Forge>,
    kind: ForgeProduct,
    metrics: Metrics,
    open_pull_requests: Mutex<OpenPullRequests>,
}

/// What the list of open pull requests says about the wanted one.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum OpenPullRequest {
    Listed(Box<PullRequest>),
    /// It is merged, closed, or not there.
    NotListed,
    /// The forge has not answered yet.
    ListingUnderWay,
}

/// The answer of [`ForgeRepository::find_open`].
pub(super) struct OpenLookup {
    pub(super) pull_request: OpenPullRequest,
    /// An earlier lookup would give the same answer.
    pub(super) recheck_after: Duration,
}

/// The newest listing, and the one that is under way.
#[derive(Default)]
struct OpenPullRequests {
    newest: Option<NewestListing>,
    under_way: Option<ListingUnderWay>,
}

#[derive(Default)]
struct NewestListing {
    pull_requests: Vec<PullRequest>,
    validator: Option<ListingValidator>,
    /// When the forge answered, and with which failure if it did.
    answered: Option<Instant>,
    failure: Option<Failure>,
}

struct ListingUnderWay {
    started: Instant,
    /// Cancelled when the listing has ended, however it ended.
    ended: CancellationToken,
    /// What was opened or changed since it started: the listing may not show that.
    changed: Vec<PullRequest>,
}

impl ForgeRepository {
    /// Waits for an answer of the forge and counts it.
    pub(super) async fn call<T>(&self, answer: forge::ForgeFuture<'_, T>) -> Result<T, Failure> {
        let answer = answer.await;
        let result = answer.as_ref().err().map_or("ok", forge::Error::reason);
        let metrics = self.metrics.promotions();
        metrics.count_forge_call(self.kind, result);
        answer.map_err(|error| from_forge(&error))
    }

    /// Has the forge change something, if this process leads for as long as that may take. One
    /// answer may take several calls.
    pub(super) async fn call_as_leader<T>(
        &self,
        guard: &SideEffectGuard,
        answer: forge::ForgeFuture<'_, T>,
    ) -> Result<T, Failure> {
        let too_late = ("ForgeTimedOut", "the forge did not answer in time");
        guard.run(self.call(answer), too_late).await
    }

    /// Looks for an open pull request in a listing that is at most so old.
    pub(super) async fn find_open(
        self: &Arc<Self>,
        oldest: Duration,
        is_wanted: impl Fn(&PullRequest) -> bool,
    ) -> Result<OpenLookup, Failure> {
        let (deadline, ended) = {
            let mut open = self.open_pull_requests.lock();
            if let Some(newest) = open.newest.as_ref().filter(|it| it.age() < oldest) {
                return newest.find(oldest, is_wanted);
            }
            self.listing_under_way(&mut open)
        };
        let under_way = timeout_at(deadline, ended.cancelled()).await.is_err();
        let open = self.open_pull_requests.lock();
        match open.newest.as_ref().filter(|_| !under_way) {
            Some(newest) => newest.find(oldest, is_wanted),
            None => Ok(OpenLookup {
                pull_request: OpenPullRequest::ListingUnderWay,
                recheck_after: LISTING_RECHECK,
            }),
        }
    }

    /// Joins the listing that is under way, or starts one: until when to wait, and for what.
    fn listing_under_way(
        self: &Arc<Self>,
        open: &mut OpenPullRequests,
    ) -> (Instant, CancellationToken) {
        let running = open.under_way.as_ref();
        if let Some(running) = running.filter(|it| !it.ended.is_cancelled()) {
            return (running.started + LISTING_PATIENCE, running.ended.clone());
        }
        let ended = CancellationToken::new();
        let has_ended = ended.clone().drop_guard();
        let started = Instant::now();
        open.under_way = Some(ListingUnderWay {
            started,
            ended: ended.clone(),
            changed: Vec::new(),
        });
        let newest = open.newest.as_ref();
        let validator = newest.and_then(|newest| newest.validator.clone());
        let repository = self.clone();
        runtime::spawn(async move {
            repository.list(validator).await;
            drop(has_ended);
        });
        (started + LISTING_PATIENCE, ended)
    }

    async fn list(&self, validator: Option<ListingValidator>) {
        let listing = self.call(self.forge.list_open(validator.as_ref()));
        let listing = timeout(LISTING_TIMEOUT, listing).await;
        let too_late = |_| transient("ForgeTimedOut", "the forge did not answer in time");
        let mut open = self.open_pull_requests.lock();
        let under_way = open.under_way.take();
        let newest = open.newest.get_or_insert_default();
        newest.answered = Some(Instant::now());
        newest.failure = None;
        match listing.map_err(too_late).flatten() {
            Ok(PullRequestListing::Unchanged) => {}
            Ok(PullRequestListing::Changed {
                pull_requests,
                validator,
            }) => {
                newest.pull_requests = pull_requests;
                newest.validator = Some(validator);
                for changed in under_way.iter().flat_map(|it| &it.changed) {
                    newest.put(changed);
                }
            }
            Err(failure) => newest.failure = Some(failure),
        }
    }

    /// Remembers a pull request that was just opened or changed, so that it need not be asked for
    /// before the next listing.
    pub(super) fn remember(&self, pull: &PullRequest) {
        let mut open = self.open_pull_requests.lock();
        if let Some(newest) = &mut open.newest {
            newest.put(pull);
        }
        if let Some(under_way) = &mut open.under_way {
            under_way.changed.push(pull.clone());
        }
    }
}

impl NewestListing {
    fn age(&self) -> Duration {
        self.answered.map_or(Duration::MAX, |it| it.elapsed())
    }

    fn find(
        &self,
        oldest: Duration,
        is_wanted: impl Fn(&PullRequest) -> bool,
    ) -> Result<OpenLookup, Failure> {
        if let Some(failure) = &self.failure {
            return Err(failure.clone());
        }
        let wanted = self.pull_requests.iter().find(|pull| is_wanted(pull));
        let listed = |pull: &PullRequest| OpenPullRequest::Listed(Box::new(pull.clone()));
        Ok(OpenLookup {
            pull_request: wanted.map_or(OpenPullRequest::NotListed, listed),
            recheck_after: oldest.saturating_sub(self.age()),
        })
    }

    fn put(&mut self, pull: &PullRequest) {
        // The validator stands for what the forge listed.
        self.validator = None;
        self.pull_requests
            .retain(|known| known.number != pull.number);
        self.pull_requests.push(pull.clone());
    }
}

#[cfg(test)]
mod tests;

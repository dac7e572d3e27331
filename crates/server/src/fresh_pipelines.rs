//! Reads pipelines that are at least as new as the moment they are asked for, whatever the cache lags behind.
//!
//! The API server is asked only for the newest resourceVersion: one request per pipeline at a time, whose
//! answer everybody shares who asked before it was sent. The cache answers if it has that version. A pipeline
//! is parsed once per version: one with a thousand targets is large.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use api::Pipeline;
use kube::{Api, Client};
use parking_lot::Mutex;
use runtime::{ObjectKey, TtlCache};
use tokio::{sync::Mutex as AsyncMutex, time::timeout};
use tracing::warn;

use crate::cached_objects::CachedObjects;

/// How long the API server may take.
const READ_TIME: Duration = Duration::from_secs(10);

/// How long a parsed pipeline is kept, and how many are.
const PARSED_TTL: Duration = Duration::from_secs(60);
const MAX_PARSED: usize = 512;

/// The API server did not say what is newest.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unavailable;

/// The pipeline; nothing if there is none.
type Lookup = Result<Option<Arc<Pipeline>>, Unavailable>;

/// The newest resourceVersion; nothing if there is no such pipeline.
type Newest = Result<Option<String>, Unavailable>;

pub(crate) struct FreshPipelines {
    client: Client,
    /// By pipeline and resourceVersion.
    parsed: TtlCache<(ObjectKey, String), Lookup>,
    reads: Mutex<HashMap<ObjectKey, Arc<VersionRead>>>,
}

/// The requests for the newest resourceVersion of one pipeline. They are numbered.
#[derive(Default)]
struct VersionRead {
    /// The number of the last request that was sent.
    sent: AtomicU64,
    /// The number and the answer of the last request that was answered. Locked while one is under way.
    answered: AsyncMutex<Option<(u64, Newest)>>,
}

impl FreshPipelines {
    pub(crate) fn new(client: Client) -> Self {
        Self {
            client,
            parsed: TtlCache::new(PARSED_TTL, MAX_PARSED),
            reads: Mutex::default(),
        }
    }

    /// The pipeline as it is stored now, or newer; nothing if there is none.
    pub(crate) async fn get(&self, objects: &CachedObjects, key: &ObjectKey) -> Lookup {
        let Some(newest) = self.newest_version(key).await? else {
            return Ok(None);
        };
        let lookup = async {
            let found = read(objects, key, &newest).await;
            // What was not found is not remembered.
            let ttl = match &found {
                Ok(Some(_)) => PARSED_TTL,
                _ => Duration::ZERO,
            };
            (found, ttl)
        };
        let version = (key.clone(), newest.clone());
        self.parsed.get_with_ttl(version, lookup).await
    }

    async fn newest_version(&self, key: &ObjectKey) -> Newest {
        let read = self.reads.lock().entry(key.clone()).or_default().clone();
        let newest = read.newest(|| self.ask(key)).await;
        let mut reads = self.reads.lock();
        drop(read);
        let is_unused = |it: &Arc<VersionRead>| Arc::strong_count(it) == 1;
        if reads.get(key).is_some_and(is_unused) {
            reads.remove(key);
        }
        newest
    }

    async fn ask(&self, key: &ObjectKey) -> Newest {
        let pipelines: Api<Pipeline> = Api::namespaced(self.client.clone(), &key.namespace);
        let asked = timeout(READ_TIME, pipelines.get_metadata_opt(&key.name)).await;
        match asked {
            Ok(Ok(Some(found))) => match found.metadata.resource_version {
                Some(version) => Ok(Some(version)),
                None => Err(unavailable(key, "it has no resourceVersion")),
            },
            Ok(Ok(None)) => Ok(None),
            Ok(Err(error)) => Err(unavailable(key, &error.to_string())),
            Err(_) => Err(unavailable(key, "no answer in time")),
        }
    }
}

impl VersionRead {
    /// The answer to a request that is sent after this call: one that others wait for, or an own one.
    async fn newest<F: Future<Output = Newest>>(&self, ask: impl FnOnce() -> F) -> Newest {
        let sent_before = self.sent.load(Ordering::SeqCst);
        let mut answered = self.answered.lock().await;
        if let Some((number, newest)) = answered.as_ref()
            && *number > sent_before
        {
            return newest.clone();
        }
        let number = self.sent.fetch_add(1, Ordering::SeqCst) + 1;
        let newest = ask().await;
        *answered = Some((number, newest.clone()));
        newest
    }
}

/// The pipeline in this version or a newer one: from the cache, else from the API server.
async fn read(objects: &CachedObjects, key: &ObjectKey, version: &str) -> Lookup {
    let cached = objects.cached_pipeline(key);
    let has_it = |it: &Arc<Pipeline>| it.metadata.resource_version.as_deref() == Some(version);
    if let Some(cached) = cached.filter(has_it) {
        return Ok(Some(cached));
    }
    let read = timeout(READ_TIME, objects.newest_pipeline(key)).await;
    let read = read.map_err(|_| "no answer in time".to_owned());
    let read = read.and_then(|read| read.map_err(|error| error.to_string()));
    read.map_err(|error| unavailable(key, &error))
}

fn unavailable(key: &ObjectKey, error: &str) -> Unavailable {
    warn!(pipeline = %key, error, "could not ask the API server for the newest state of the pipeline");
    Unavailable
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use futures::{FutureExt, future::join_all};
    use tokio::sync::Semaphore;

    use super::*;

    #[tokio::test]
    async fn only_requests_sent_after_the_question_answer_it() {
        let read = VersionRead::default();
        let (asked, may_answer) = (AtomicUsize::new(0), Semaphore::new(0));
        let ask = || async {
            let number = asked.fetch_add(1, Ordering::SeqCst) + 1;
            may_answer.acquire().await.unwrap().forget();
            Ok(Some(number.to_string()))
        };
        let mut first = Box::pin(read.newest(ask));
        assert!(first.as_mut().now_or_never().is_none());
        // These arrive while the first request is under way, which therefore does not answer them.
        let mut later: Vec<_> = (0..100).map(|_| Box::pin(read.newest(ask))).collect();
        for question in &mut later {
            assert!(question.as_mut().now_or_never().is_none());
        }
        may_answer.add_permits(2);
        assert_eq!(first.await.unwrap().as_deref(), Some("1"));
        for answer in join_all(later).await {
            assert_eq!(answer.unwrap().as_deref(), Some("2"));
        }
        assert_eq!(asked.into_inner(), 2);
    }

    #[tokio::test]
    async fn a_client_that_leaves_takes_no_answer_away() {
        let read = VersionRead::default();
        let mut leaves = Box::pin(read.newest(std::future::pending));
        assert!(leaves.as_mut().now_or_never().is_none());
        let mut stays = Box::pin(read.newest(|| async { Ok(Some("7".to_owned())) }));
        assert!(stays.as_mut().now_or_never().is_none());
        drop(leaves);
        assert_eq!(stays.await.unwrap().as_deref(), Some("7"));
    }
}

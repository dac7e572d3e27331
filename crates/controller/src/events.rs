//! Events about our objects, for people: as Kubernetes Events, and to Flux's notification-controller
//! where one is named.
//!
//! Recording never waits and never fails: what finds a full queue or an API that does not answer is
//! counted as lost. The same words about the same object within a while are one Event that counts;
//! other words are another Event. Flux is told each thing once in that while. What must not get lost
//! goes by a [`Courier`], which waits until it is told.

mod courier;
mod flux;
mod kubernetes;
mod memory;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use kube::Client;
use parking_lot::Mutex;
use tokio::{sync::mpsc, task::JoinHandle, time::sleep};

use crate::metrics::Metrics;
use memory::{Memory, Repeat};

pub(crate) use courier::Courier;

/// What Events name as their source; the ancestor's name, which Alerts may filter by.
pub(crate) const REPORTER: &str = "pipeline-controller";

/// How many events may wait for the API, and how many for Flux.
const QUEUE: usize = 1024;
/// How often delivering one event is tried.
const ATTEMPTS: u32 = 3;
/// How long after the first failure it is tried again; doubled each time.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// How long one attempt may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Something that happened to an object, in words for people.
#[derive(Clone, Debug, PartialEq)]
pub struct Occurrence {
    /// The object, as kube's `object_ref` gives it.
    pub regarding: ObjectReference,
    /// Whether it is good or bad news.
    pub severity: Severity,
    /// One word for why.
    pub reason: String,
    /// One word for what was done or tried.
    pub action: String,
    /// The sentence.
    pub note: String,
    /// Further facts by plain keys, such as `revision`.
    pub metadata: BTreeMap<String, String>,
}

/// Whether something is good or bad news.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Severity {
    /// As it should be.
    Info,
    /// Somebody may have to do something.
    Error,
}

impl Occurrence {
    /// The metadata by the plain keys, as the ancestor had them, and again by those that
    /// notification-controller keeps: it drops all that do not begin with the group of the object.
    fn all_metadata(&self) -> BTreeMap<String, String> {
        let mut all = self.metadata.clone();
        let version = self.regarding.api_version.as_deref().unwrap_or_default();
        if let Some((group, _)) = version.split_once('/') {
            let metadata = self.metadata.iter();
            all.extend(metadata.map(|(key, value)| (format!("{group}/{key}"), value.clone())));
        }
        all
    }
}

/// Who reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reporter {
    /// The controller, the same for all its replicas.
    pub controller: String,
    /// This process.
    pub instance: String,
}

/// Which events Flux's notification-controller is sent, by their reason. What the notification
/// strategy tells goes by a [`Courier`] and is always sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FluxEvents {
    /// Every event.
    All,
    /// Those with one of these reasons.
    Only(BTreeSet<String>),
}

impl FluxEvents {
    fn include(&self, reason: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(reasons) => reasons.contains(reason),
        }
    }
}

impl Default for FluxEvents {
    /// What the ancestor sent in its usual mode: only what the notification strategy tells.
    fn default() -> Self {
        Self::Only(BTreeSet::from(["Promote".to_owned()]))
    }
}

/// Where notification-controller takes events, and which of them.
#[derive(Clone, Copy, Debug)]
pub struct Flux<'a> {
    /// The URL.
    pub address: &'a str,
    /// Which.
    pub events: &'a FluxEvents,
}

/// Takes events. Cloning shares it.
#[derive(Clone)]
pub struct Recorder(Arc<Inner>);

struct Inner {
    memory: Mutex<Memory>,
    kubernetes: mpsc::Sender<Entry>,
    flux: Option<(mpsc::Sender<Entry>, FluxEvents)>,
    metrics: Metrics,
}

/// An occurrence on its way, and what is known about earlier ones like it.
#[derive(Clone)]
struct Entry {
    occurrence: Occurrence,
    at: Timestamp,
    repeat: Repeat,
}

impl Recorder {
    /// Delivers in the background as long as a clone of the recorder exists, then ends after what is
    /// still in the queues. Flux is told nothing without `flux`.
    pub fn start(
        client: Client,
        reporter: Reporter,
        flux: Option<Flux<'_>>,
        metrics: Metrics,
    ) -> Result<(Self, Vec<JoinHandle<()>>), reqwest::Error> {
        let (kubernetes, entries) = mpsc::channel(QUEUE);
        let writer = kubernetes::Writer::new(client, reporter.clone());
        let lost = metrics.clone();
        let mut tasks = vec![tokio::spawn(deliver(entries, lost, "kubernetes", writer))];
        let mut to_flux = None;
        if let Some(Flux { address, events }) = flux {
            let (sender, entries) = mpsc::channel(QUEUE);
            let poster = flux::Poster::new(address, reporter)?;
            let lost = metrics.clone();
            tasks.push(tokio::spawn(deliver(entries, lost, "flux", poster)));
            to_flux = Some((sender, events.clone()));
        }
        let inner = Inner {
            memory: Mutex::default(),
            kubernetes,
            flux: to_flux,
            metrics,
        };
        Ok((Self(Arc::new(inner)), tasks))
    }

    /// Takes note of something. Never waits.
    pub fn record(&self, occurrence: Occurrence) {
        let at = Timestamp::now();
        let Some(repeat) = self.0.memory.lock().note(&occurrence, at) else {
            return;
        };
        let is_first = repeat.count == 1;
        let entry = Entry {
            occurrence,
            at,
            repeat,
        };
        if let Some((flux, wanted)) = &self.0.flux
            && is_first
            && wanted.include(&entry.occurrence.reason)
        {
            self.enqueue(flux, "flux", entry.clone());
        }
        self.enqueue(&self.0.kubernetes, "kubernetes", entry);
    }

    fn enqueue(&self, queue: &mpsc::Sender<Entry>, sink: &'static str, entry: Entry) {
        if queue.try_send(entry).is_err() {
            self.0.metrics.count_lost_event(sink);
            tracing::debug!(sink, "an event is lost: too many are waiting");
        }
    }
}

/// Somewhere events go.
trait Sink: Send + 'static {
    /// Tries once.
    fn send(&self, entry: &Entry) -> impl Future<Output = Result<(), Failure>> + Send;
}

/// Why an event was not delivered.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) because: String,
    pub(crate) may_pass: bool,
}

async fn deliver(
    mut entries: mpsc::Receiver<Entry>,
    metrics: Metrics,
    sink_name: &'static str,
    sink: impl Sink,
) {
    while let Some(entry) = entries.recv().await {
        if let Err(because) = deliver_one(&sink, &entry).await {
            metrics.count_lost_event(sink_name);
            let reason = &entry.occurrence.reason;
            tracing::warn!(sink = sink_name, %reason, %because, "an event is lost");
        }
    }
}

async fn deliver_one(sink: &impl Sink, entry: &Entry) -> Result<(), String> {
    let mut delay = FIRST_DELAY;
    let mut attempt = 1;
    loop {
        let outcome = tokio::time::timeout(TIMEOUT, sink.send(entry)).await;
        let failure = match outcome {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(failure)) => failure,
            Err(_) => Failure {
                because: "no answer in time".to_owned(),
                may_pass: true,
            },
        };
        if !failure.may_pass || attempt == ATTEMPTS {
            return Err(failure.because);
        }
        sleep(delay).await;
        delay *= 2;
        attempt += 1;
    }
}

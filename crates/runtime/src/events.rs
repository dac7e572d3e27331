//! Records events about objects: as Kubernetes Events, and at Flux's notification-controller where an
//! address is configured.
//!
//! Recording never waits and never fails: an event that finds a full queue or an API server that does
//! not respond is dropped and counted. The same note about the same object within ten minutes becomes
//! one Event with a count; another note is another Event. Flux receives each of them once in that
//! time. Events that must not be lost go through a [`ReliableSender`], which waits for the response.

mod deduplication;
mod flux;
mod kubernetes;
mod metrics;
mod reliable_sender;
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

use deduplication::{EventDeduplicator, EventRepeat};

pub use metrics::EventMetrics;
pub use reliable_sender::ReliableSender;

/// How many events may be queued for the API server, and how many for Flux.
const QUEUE: usize = 1024;
/// How many attempts are made to deliver one event.
const ATTEMPTS: u32 = 3;
/// The delay before the first retry; doubled each time.
const FIRST_DELAY: Duration = Duration::from_secs(1);
/// How long one attempt may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Something that happened to an object.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectEvent {
    /// The object, as kube's `object_ref` gives it.
    pub regarding: ObjectReference,
    /// Whether it needs attention.
    pub severity: EventSeverity,
    /// The reason: one fixed word.
    pub reason: String,
    /// The action that was taken or attempted: one fixed word.
    pub action: String,
    /// The message.
    pub note: String,
    /// Further values by plain keys, such as `revision`.
    pub metadata: BTreeMap<String, String>,
}

/// Whether an event needs attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventSeverity {
    /// For information.
    Info,
    /// Somebody may have to do something.
    Error,
}

impl ObjectEvent {
    /// The metadata under the plain keys, as the Weave pipeline-controller sent them, and again under
    /// those that notification-controller keeps: it drops keys that do not begin with the group of
    /// the object.
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

/// The source of events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventReporter {
    /// The controller, the same for all its replicas.
    pub controller: String,
    /// This process.
    pub instance: String,
}

/// Which events are sent to Flux's notification-controller, by their reason. A [`ReliableSender`] is
/// not filtered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FluxEventFilter {
    /// Every event.
    All,
    /// Those with one of these reasons.
    Only(BTreeSet<String>),
}

impl FluxEventFilter {
    fn includes(&self, reason: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(reasons) => reasons.contains(reason),
        }
    }
}

impl Default for FluxEventFilter {
    /// What the Weave pipeline-controller sent by default: the events of the notification strategy.
    fn default() -> Self {
        Self::Only(BTreeSet::from(["Promote".to_owned()]))
    }
}

/// Flux's notification-controller as a receiver of events.
#[derive(Clone, Copy, Debug)]
pub struct FluxReceiver<'a> {
    /// Its URL.
    pub address: &'a str,
    /// Which events it is sent.
    pub filter: &'a FluxEventFilter,
}

/// Records events and delivers them in the background. Cloning shares it.
#[derive(Clone)]
pub struct EventRecorder(Arc<RecorderState>);

struct RecorderState {
    deduplicator: Mutex<EventDeduplicator>,
    kubernetes: mpsc::Sender<PendingEvent>,
    flux: Option<(mpsc::Sender<PendingEvent>, FluxEventFilter)>,
    metrics: EventMetrics,
}

/// An event that is queued for delivery, and how often it has been recorded.
#[derive(Clone)]
struct PendingEvent {
    event: ObjectEvent,
    at: Timestamp,
    repeat: EventRepeat,
}

impl EventRecorder {
    /// Delivers in the background as long as a clone of the recorder exists, then ends after what is
    /// still queued. Nothing is sent to Flux without `flux`.
    pub fn start(
        client: Client,
        reporter: EventReporter,
        flux: Option<FluxReceiver<'_>>,
        metrics: EventMetrics,
    ) -> Result<(Self, Vec<JoinHandle<()>>), net::AddressError> {
        let (kubernetes, entries) = mpsc::channel(QUEUE);
        let writer = kubernetes::KubernetesWriter::new(client, reporter.clone());
        let lost = metrics.clone();
        let mut tasks = vec![crate::spawn(deliver(entries, lost, "kubernetes", writer))];
        let mut to_flux = None;
        if let Some(FluxReceiver { address, filter }) = flux {
            let (sender, entries) = mpsc::channel(QUEUE);
            let poster = flux::FluxPoster::new(address, reporter)?;
            let lost = metrics.clone();
            tasks.push(crate::spawn(deliver(entries, lost, "flux", poster)));
            to_flux = Some((sender, filter.clone()));
        }
        let inner = RecorderState {
            deduplicator: Mutex::default(),
            kubernetes,
            flux: to_flux,
            metrics,
        };
        Ok((Self(Arc::new(inner)), tasks))
    }

    /// Records an event. Never waits.
    pub fn record(&self, event: ObjectEvent) {
        let at = crate::wall_clock::now();
        let Some(repeat) = self.0.deduplicator.lock().record(&event, at) else {
            return;
        };
        let is_first = repeat.count == 1;
        let entry = PendingEvent { event, at, repeat };
        if let Some((flux, filter)) = &self.0.flux
            && is_first
            && filter.includes(&entry.event.reason)
        {
            self.enqueue(flux, "flux", entry.clone());
        }
        self.enqueue(&self.0.kubernetes, "kubernetes", entry);
    }

    fn enqueue(&self, queue: &mpsc::Sender<PendingEvent>, sink: &'static str, entry: PendingEvent) {
        if queue.try_send(entry).is_err() {
            self.0.metrics.count_lost(sink);
            tracing::debug!(sink, "dropped an event because the queue is full");
        }
    }
}

/// Delivers events to one receiver.
trait EventSink: Send + 'static {
    /// One attempt.
    fn send(&self, entry: &PendingEvent) -> impl Future<Output = Result<(), DeliveryError>> + Send;
}

/// Why an event was not delivered.
#[derive(Debug)]
pub struct DeliveryError {
    /// The cause.
    pub because: String,
    /// Whether another attempt may succeed.
    pub is_retryable: bool,
}

async fn deliver(
    mut entries: mpsc::Receiver<PendingEvent>,
    metrics: EventMetrics,
    sink_name: &'static str,
    sink: impl EventSink,
) {
    while let Some(entry) = entries.recv().await {
        if let Err(because) = deliver_one(&sink, &entry).await {
            metrics.count_lost(sink_name);
            let reason = &entry.event.reason;
            tracing::warn!(sink = sink_name, %reason, %because, "could not deliver an event");
        }
    }
}

async fn deliver_one(sink: &impl EventSink, entry: &PendingEvent) -> Result<(), String> {
    let mut delay = FIRST_DELAY;
    let mut attempt = 1;
    loop {
        let sent = tokio::time::timeout(TIMEOUT, sink.send(entry)).await;
        let failure = match sent {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(failure)) => failure,
            Err(_) => DeliveryError {
                because: "no response in time".to_owned(),
                is_retryable: true,
            },
        };
        if !failure.is_retryable || attempt == ATTEMPTS {
            return Err(failure.because);
        }
        sleep(delay).await;
        delay *= 2;
        attempt += 1;
    }
}

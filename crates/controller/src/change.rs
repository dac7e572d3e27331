//! The change loop: proposes each Change as a pull request in the one repository that was given for
//! that, follows it to its end, and removes Changes that have been over for long.
//!
//! What comes next is `planner::change`'s to say; `strategy` does it.

mod known;
mod observe;
mod report;

use std::{collections::HashSet, sync::Arc, time::Duration};

use api::{
    Change,
    change::{ChangePhase, ChangeStatus},
};
use futures::StreamExt;
use kube::{
    Api, Client, Resource,
    core::DeserializeGuard,
    runtime::watcher::{self, Event},
};
use planner::Timestamp;
use tokio::task::JoinSet;

use crate::{
    Context, FIELD_MANAGER, Metrics, Settings,
    faults::Faults,
    keys::seed,
    pipeline::{follow, until},
    reconcile::Reconciled,
    strategy::{self, Strategies},
    telemetry::Telemetry,
};
use known::Changes;
use observe::Sight;
use runtime::{
    Clock, LeaderGuard, ObjectKey, StatusWriter, WorkQueue, status::StatusError,
    worker_metrics::ReconcileResult,
};

/// How long a change waits that could not be written.
const RETRY: Duration = Duration::from_secs(5);

/// Runs the loop until dropped.
pub async fn run(author: Arc<Author>) {
    let mut tasks = JoinSet::new();
    tasks.spawn(follow_changes(author.clone()));
    for _ in 0..author.settings.concurrent.max(1) {
        tasks.spawn(work(author.clone()));
    }
    tasks.join_all().await;
}

/// Everything the change loop knows.
pub struct Author {
    hub: Client,
    status: StatusWriter,
    settings: Arc<Settings>,
    clock: Clock,
    changes: Changes,
    queue: WorkQueue<ObjectKey>,
    telemetry: Telemetry,
    strategies: Arc<Strategies>,
    faults: Faults,
}

impl Author {
    /// A loop that knows nothing yet, and that nobody listens to. It does nothing without a permit.
    pub fn new(
        hub: Client,
        settings: Settings,
        leadership: LeaderGuard,
    ) -> Result<Arc<Self>, strategy::Error> {
        let telemetry = Telemetry::alone("change", settings.concurrent);
        let metrics = &telemetry.metrics;
        let strategies = Strategies::new(hub.clone(), &settings, leadership.clone(), metrics)?;
        let telemetry = telemetry.led_by(leadership);
        let (settings, strategies) = (Arc::new(settings), Arc::new(strategies));
        Ok(Self::with(hub, settings, strategies, telemetry))
    }

    /// A loop of the process that knows nothing yet.
    pub(crate) fn of(context: &Context, strategies: Arc<Strategies>) -> Arc<Self> {
        let settings = context.settings.clone();
        let telemetry = Telemetry::of(context, "change");
        Self::with(context.client.clone(), settings, strategies, telemetry)
    }

    fn with(
        hub: Client,
        settings: Arc<Settings>,
        strategies: Arc<Strategies>,
        telemetry: Telemetry,
    ) -> Arc<Self> {
        let leader = telemetry.leadership.clone();
        let status = StatusWriter::new(hub.clone(), leader, FIELD_MANAGER);
        Arc::new(Self {
            hub,
            status,
            settings,
            telemetry,
            strategies,
            clock: Clock::start(),
            changes: Changes::default(),
            queue: WorkQueue::new(),
            faults: Faults::default(),
        })
    }

    /// What it counts.
    pub fn metrics(&self) -> &Metrics {
        &self.telemetry.metrics
    }

    fn api(&self, namespace: &str) -> Api<Change> {
        Api::namespaced(self.hub.clone(), namespace)
    }

    fn wake(&self, key: ObjectKey) {
        self.queue.add(key);
        self.telemetry.queued(self.queue.depth());
    }

    fn keep(&self, change: Change) {
        let key = ObjectKey::of(&change.metadata);
        if self.changes.keep(change) {
            self.wake(key);
        }
    }

    fn forget(&self, key: &ObjectKey) {
        if let Some(gone) = self.changes.remove(key) {
            self.faults.forget(uid(&gone));
            self.queue.forget(key);
        }
    }
}

async fn work(author: Arc<Author>) {
    loop {
        let (key, waited) = author.queue.next().await;
        let telemetry = &author.telemetry;
        let pass = telemetry.work.begin(waited);
        let outcome = match look_after(&author, &key).await {
            Ok(None) => ReconcileResult::Success,
            Ok(Some(again)) => {
                let delay = until(again, author.clock.now());
                author.queue.add_after(key.clone(), delay);
                ReconcileResult::RequeueAfter
            }
            Err(error) => {
                tracing::warn!(change = %key, %error, "change not looked after");
                telemetry.work.retried();
                author.queue.add_after(key.clone(), RETRY);
                ReconcileResult::Error
            }
        };
        author.queue.done(&key);
        pass.finish(outcome);
        telemetry.made_progress();
        telemetry.waits(author.queue.depth());
    }
}

/// Brings one change a step further; answers when to look at it again even if nothing happens.
async fn look_after(author: &Author, key: &ObjectKey) -> Result<Option<Timestamp>, StatusError> {
    let Some(change) = author.changes.get(key) else {
        return Ok(None);
    };
    match reconcile(author, &change).await? {
        // It is woken by what it became.
        Reconciled::Changed => Ok(None),
        Reconciled::Unchanged { again } => {
            report::remove_surplus(author, &key.namespace).await?;
            Ok(again)
        }
    }
}

async fn reconcile(author: &Author, change: &Change) -> Result<Reconciled, StatusError> {
    let sight = observe::everything(author, change).await;
    let now = author.clock.now();
    let next = planner::change::plan(change, sight.refused.as_ref(), &sight.seen, now);
    let again = [next.requeue_at, sight.latest].into_iter().flatten().min();
    let (before, seed) = (next.status, seed(&change.metadata));
    let status = match &sight.failure {
        Some(failure) => {
            planner::change::status_after_failed_lookup(change, before, failure, now, seed)
        }
        None if next.propose => {
            let outcome = author.strategies.propose_change(change).await;
            planner::change::conclude(change, before, outcome, author.clock.now(), seed)
        }
        None => before,
    };
    remember(author, change, &sight, &status);
    report::write(author, change, status, again).await
}

/// Remembers what to look at for an edit that helps, as it was before it was used.
fn remember(author: &Author, change: &Change, sight: &Sight, status: &ChangeStatus) {
    if let Some(dependencies) = sight.dependencies.clone() {
        let waits = status.phase == Some(ChangePhase::Failed);
        author
            .faults
            .note(uid(change), waits.then_some(dependencies));
    }
}

fn uid(change: &Change) -> &str {
    change.metadata.uid.as_deref().unwrap_or_default()
}

async fn follow_changes(author: Arc<Author>) {
    let api: Api<DeserializeGuard<Change>> = match &author.settings.namespace {
        Some(namespace) => Api::namespaced(author.hub.clone(), namespace),
        None => Api::all(author.hub.clone()),
    };
    let mut events = std::pin::pin!(follow(api, watcher::Config::default()));
    let mut seen = HashSet::new();
    while let Some(event) = events.next().await {
        match event {
            Event::Apply(change) => drop(take(&author, change)),
            Event::Delete(change) => author.forget(&ObjectKey::of(change.meta())),
            Event::Init => seen.clear(),
            Event::InitApply(change) => drop(seen.insert(take(&author, change))),
            Event::InitDone => {
                let known = author.changes.keys();
                for gone in known.iter().filter(|key| !seen.contains(*key)) {
                    author.forget(gone);
                }
            }
        }
    }
}

fn take(author: &Author, change: DeserializeGuard<Change>) -> ObjectKey {
    let key = ObjectKey::of(change.meta());
    match change.0 {
        Ok(change) => author.keep(change),
        Err(error) => tracing::warn!(change = %key, %error, "cannot be read"),
    }
    key
}

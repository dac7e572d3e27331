//! The adoption loop: keeps a Pipeline equal to each Pipeline of the first proposal's API group, and
//! copies its status back.
//!
//! What is to be written is `planner::adopt`'s to say. Where that group is not installed, the loop
//! waits for it and everything else works without.

mod write;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use api::{Pipeline, WegoPipeline, names::ADOPTED_LABEL};
use futures::StreamExt;
use kube::{
    Api, Client, Resource,
    api::ListParams,
    core::DeserializeGuard,
    runtime::watcher::{self, Event},
};
use parking_lot::RwLock;
use tokio::task::JoinSet;

use crate::{
    Context, FIELD_MANAGER, Settings, loops::Failure, pipeline::follow, telemetry::Telemetry,
};
use runtime::{
    Clock, ObjectKey, StatusWriter, WorkQueue, status::StatusError, worker_metrics::ReconcileResult,
};

/// How long an object waits that could not be written.
const RETRY: Duration = Duration::from_secs(5);
/// How often a name that is taken is looked at again.
const NAME_AGAIN: Duration = Duration::from_secs(10);
/// How often it is looked whether the group is there.
const GROUP_AGAIN: Duration = Duration::from_secs(30);

/// Runs the loop as part of the process, until it is told to stop.
pub(crate) async fn serve(context: Context) -> Result<(), Failure> {
    let adopter = Adopter::of(&context);
    tokio::select! {
        () = run(adopter) => Ok(()),
        () = context.stop.cancelled() => Ok(()),
    }
}

/// Runs the loop until dropped.
pub async fn run(adopter: Arc<Adopter>) {
    adopter.until_served().await;
    let mut tasks = JoinSet::new();
    tasks.spawn(follow_originals(adopter.clone()));
    tasks.spawn(follow_copies(adopter.clone()));
    tasks.spawn(work(adopter));
    tasks.join_all().await;
}

/// Everything the adoption loop knows.
pub struct Adopter {
    hub: Client,
    status: StatusWriter,
    settings: Arc<Settings>,
    clock: Clock,
    originals: RwLock<HashMap<ObjectKey, WegoPipeline>>,
    queue: WorkQueue<ObjectKey>,
    telemetry: Telemetry,
}

impl Adopter {
    /// A loop that knows nothing yet, and that nobody listens to.
    pub fn new(hub: Client, settings: Settings) -> Arc<Self> {
        let telemetry = Telemetry::alone("adoption", 1);
        Self::with(hub, Arc::new(settings), telemetry)
    }

    /// A loop of the process that knows nothing yet.
    fn of(context: &Context) -> Arc<Self> {
        let telemetry = Telemetry::of(context, "adoption");
        Self::with(context.client.clone(), context.settings.clone(), telemetry)
    }

    fn with(hub: Client, settings: Arc<Settings>, telemetry: Telemetry) -> Arc<Self> {
        let leader = telemetry.leadership.clone();
        let status = StatusWriter::new(hub.clone(), leader, FIELD_MANAGER);
        Arc::new(Self {
            hub,
            status,
            settings,
            telemetry,
            clock: Clock::start(),
            originals: RwLock::default(),
            queue: WorkQueue::new(),
        })
    }

    /// Every object of a kind that this process looks after.
    fn all<K: Resource<Scope = kube::core::NamespaceResourceScope>>(&self) -> Api<K>
    where
        K::DynamicType: Default,
    {
        match &self.settings.namespace {
            Some(namespace) => Api::namespaced(self.hub.clone(), namespace),
            None => Api::all(self.hub.clone()),
        }
    }

    /// Returns once the group is there and may be read. Older installs have neither.
    async fn until_served(&self) {
        let originals: Api<WegoPipeline> = self.all();
        let mut is_told = false;
        loop {
            match originals
                .list_metadata(&ListParams::default().limit(1))
                .await
            {
                Ok(_) => return,
                Err(error) if !is_told => {
                    let group = WegoPipeline::group(&());
                    tracing::info!(%group, %error, "not looked at: not installed, or not allowed");
                    is_told = true;
                }
                Err(_) => {}
            }
            tokio::time::sleep(GROUP_AGAIN).await;
        }
    }

    fn wake(&self, key: ObjectKey) {
        self.queue.add(key);
        self.telemetry.queued(self.queue.depth());
    }

    fn keep(&self, original: WegoPipeline) {
        let key = ObjectKey::of(&original.metadata);
        self.originals.write().insert(key.clone(), original);
        self.wake(key);
    }

    fn forget(&self, key: &ObjectKey) {
        self.originals.write().remove(key);
        self.queue.forget(key);
    }
}

async fn work(adopter: Arc<Adopter>) {
    loop {
        let (key, waited) = adopter.queue.next().await;
        let telemetry = &adopter.telemetry;
        let pass = telemetry.work.begin(waited);
        let outcome = match reconcile(&adopter, &key).await {
            Ok(None) => ReconcileResult::Success,
            Ok(Some(again)) => {
                adopter.queue.add_after(key.clone(), again);
                ReconcileResult::RequeueAfter
            }
            Err(error) => {
                tracing::warn!(pipeline = %key, %error, "not adopted");
                telemetry.work.retried();
                adopter.queue.add_after(key.clone(), RETRY);
                ReconcileResult::Error
            }
        };
        adopter.queue.done(&key);
        pass.finish(outcome);
        telemetry.made_progress();
        telemetry.waits(adopter.queue.depth());
    }
}

/// Brings one original and its copy closer to each other; answers when to look again.
async fn reconcile(adopter: &Adopter, key: &ObjectKey) -> Result<Option<Duration>, StatusError> {
    let original = adopter.originals.read().get(key).cloned();
    let Some(original) = original.filter(|it| it.metadata.deletion_timestamp.is_none()) else {
        return Ok(None);
    };
    let copies: Api<Pipeline> = Api::namespaced(adopter.hub.clone(), &key.namespace);
    let found = copies.get_opt(&key.name).await?;
    if found
        .as_ref()
        .is_some_and(|it| it.metadata.deletion_timestamp.is_some())
    {
        return Ok(Some(RETRY));
    }
    let adoption = planner::adopt(&original, found.as_ref(), adopter.clock.now());
    if let Some(wishes) = &adoption.edits {
        // It is woken by what it became.
        return write::wishes(adopter, &original, wishes)
            .await
            .map(|()| None);
    }
    if let Some(copy) = &adoption.copy {
        write::copy(adopter, found.as_ref(), copy).await?;
    }
    write::status(adopter, &original, &adoption).await?;
    Ok(adoption.is_name_taken().then_some(NAME_AGAIN))
}

async fn follow_originals(adopter: Arc<Adopter>) {
    let mut config = watcher::Config::default();
    if let Some(labels) = &adopter.settings.label_selector {
        config = config.labels(labels);
    }
    let api: Api<DeserializeGuard<WegoPipeline>> = adopter.all();
    let mut events = std::pin::pin!(follow(api, config));
    let mut seen = HashSet::new();
    while let Some(event) = events.next().await {
        match event {
            Event::Apply(original) => drop(take(&adopter, original)),
            Event::Delete(original) => adopter.forget(&ObjectKey::of(original.meta())),
            Event::Init => seen.clear(),
            Event::InitApply(original) => drop(seen.insert(take(&adopter, original))),
            Event::InitDone => {
                let known: Vec<_> = adopter.originals.read().keys().cloned().collect();
                for gone in known.iter().filter(|key| !seen.contains(*key)) {
                    adopter.forget(gone);
                }
            }
        }
    }
}

fn take(adopter: &Adopter, original: DeserializeGuard<WegoPipeline>) -> ObjectKey {
    let key = ObjectKey::of(original.meta());
    match original.0 {
        Ok(original) => adopter.keep(original),
        Err(error) => tracing::warn!(pipeline = %key, %error, "cannot be read"),
    }
    key
}

/// Copies carry a label, so that no other Pipeline is watched here.
async fn follow_copies(adopter: Arc<Adopter>) {
    let api: Api<DeserializeGuard<Pipeline>> = adopter.all();
    let config = watcher::Config::default().labels(ADOPTED_LABEL);
    let mut events = std::pin::pin!(follow(api, config));
    while let Some(event) = events.next().await {
        if let Event::Apply(copy) | Event::Delete(copy) | Event::InitApply(copy) = event {
            let key = ObjectKey::of(copy.meta());
            if adopter.originals.read().contains_key(&key) {
                adopter.wake(key);
            }
        }
    }
}

//! The promotion loop: brings each promotion a step further, one at a time in each place.
//!
//! It follows promotions and, because what a pipeline says and what its targets run decides about
//! them, pipelines. What comes next is `planner`'s to say; `strategy` does it.

mod act;
mod farewell;
mod observe;
mod report;

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use api::{Pipeline, Promotion, promotion::Phase};
use futures::StreamExt;
use kube::{
    Api, Client, Resource,
    core::DeserializeGuard,
    runtime::watcher::{self, Event},
};
use parking_lot::Mutex;
use planner::Timestamp;
use tokio::task::JoinSet;

use crate::{
    Context, FIELD_MANAGER, Metrics, Settings,
    faults::Faults,
    keys::seed,
    pipeline::{follow, until},
    pipelines::Pipelines,
    promotions::{self, Change, Promotions, pipeline_of},
    reconcile::Reconciled,
    strategy::{self, PromotionTask, Strategies},
    telemetry::Telemetry,
};
use runtime::{
    Clock, LeaderGuard, ObjectKey, StatusWriter, WorkQueue, status::StatusError,
    worker_metrics::ReconcileResult,
};

/// How long a place waits whose promotion could not be written.
const RETRY: Duration = Duration::from_secs(5);

/// Runs the loop until dropped.
pub async fn run(promoter: Arc<Promoter>) {
    let mut tasks = JoinSet::new();
    tasks.spawn(follow_promotions(promoter.clone()));
    tasks.spawn(follow_pipelines(promoter.clone()));
    tasks.spawn(farewell::say(promoter.clone()));
    tasks.spawn(promoter.strategies.clone().remove_unused_mirrors());
    for _ in 0..promoter.settings.concurrent.max(1) {
        tasks.spawn(work(promoter.clone()));
    }
    tasks.join_all().await;
}

/// A place promotions lead into.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct PlaceKey {
    pipeline: ObjectKey,
    place: String,
}

impl PlaceKey {
    fn of(promotion: &Promotion) -> Self {
        let pipeline = pipeline_of(promotion);
        let place = planner::site_of(&promotion.spec, &pipeline.namespace);
        let place = place.key();
        Self { pipeline, place }
    }
}

/// Everything the promotion loop knows.
pub struct Promoter {
    hub: Client,
    status: StatusWriter,
    settings: Arc<Settings>,
    clock: Clock,
    pipelines: Pipelines,
    are_pipelines_known: AtomicBool,
    promotions: Promotions,
    queue: WorkQueue<PlaceKey>,
    telemetry: Telemetry,
    strategies: Arc<Strategies>,
    faults: Faults,
    /// By uid: the phase a promotion is in, and since when.
    phases: Mutex<HashMap<String, (Phase, tokio::time::Instant)>>,
    farewells: farewell::Farewells,
}

impl Promoter {
    /// A loop that knows nothing yet, and that nobody listens to. It does nothing without a permit.
    pub fn new(
        hub: Client,
        settings: Settings,
        leadership: LeaderGuard,
    ) -> Result<Arc<Self>, strategy::Error> {
        let telemetry = Telemetry::alone("promotion", settings.concurrent);
        let strategies = Strategies::new(
            hub.clone(),
            &settings,
            leadership.clone(),
            &telemetry.metrics,
        )?;
        let telemetry = telemetry.led_by(leadership);
        let (settings, strategies) = (Arc::new(settings), Arc::new(strategies));
        Ok(Self::with(hub, settings, strategies, telemetry))
    }

    /// A loop of the process that knows nothing yet.
    pub(crate) fn of(context: &Context, strategies: Arc<Strategies>) -> Arc<Self> {
        let settings = context.settings.clone();
        let telemetry = Telemetry::of(context, "promotion");
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
            pipelines: Pipelines::default(),
            are_pipelines_known: AtomicBool::new(false),
            promotions: Promotions::default(),
            queue: WorkQueue::new(),
            faults: Faults::default(),
            phases: Mutex::default(),
            farewells: farewell::Farewells::new(),
        })
    }

    /// What it counts.
    pub fn metrics(&self) -> &Metrics {
        &self.telemetry.metrics
    }

    fn knows_all(&self) -> bool {
        self.are_pipelines_known.load(Ordering::Acquire) && self.promotions.are_known()
    }

    fn wake(&self, place: PlaceKey) {
        self.queue.add(place);
        self.telemetry.queued(self.queue.depth());
    }

    /// Wakes the places of a pipeline where something is under way, or failed and may yet get well.
    fn wake_pipeline(&self, pipeline: &ObjectKey) {
        for promotion in self.promotions.of(pipeline) {
            let phase = promotion.status.as_ref().and_then(|status| status.phase);
            let is_over = |phase: Phase| phase.is_terminal() && phase != Phase::Failed;
            if !phase.is_some_and(is_over) {
                self.wake(PlaceKey::of(&promotion));
            }
        }
    }

    fn wake_all(&self) {
        for pipeline in self.pipelines.keys() {
            self.wake_pipeline(&pipeline);
        }
    }
}

async fn work(promoter: Arc<Promoter>) {
    loop {
        let (place, waited) = promoter.queue.next().await;
        let telemetry = &promoter.telemetry;
        let pass = telemetry.work.begin(waited);
        let outcome = match look_after(&promoter, &place).await {
            Next::Change => ReconcileResult::Success,
            Next::After(delay) => {
                promoter.queue.add_after(place.clone(), delay);
                ReconcileResult::RequeueAfter
            }
            Next::Retry => {
                telemetry.work.retried();
                promoter.queue.add_after(place.clone(), RETRY);
                ReconcileResult::Error
            }
        };
        promoter.queue.done(&place);
        pass.finish(outcome);
        telemetry.made_progress();
        telemetry.waits(promoter.queue.depth());
    }
}

/// When a place is looked at again.
enum Next {
    /// When something changes.
    Change,
    After(Duration),
    /// It failed.
    Retry,
}

/// One promotion and what is around it.
struct Scene<'a> {
    pipeline: &'a Pipeline,
    promotions: &'a [Promotion],
    promotion: &'a Promotion,
}

impl Scene<'_> {
    fn task(&self) -> PromotionTask<'_> {
        PromotionTask {
            pipeline: self.pipeline,
            promotion: self.promotion,
        }
    }
}

/// Brings the promotions of one place further, up to the first that changes.
async fn look_after(promoter: &Arc<Promoter>, place: &PlaceKey) -> Next {
    if !promoter.knows_all() {
        return Next::Change; // everything is woken once it is known
    }
    let Some(pipeline) = promoter.pipelines.get(&place.pipeline) else {
        return Next::Change;
    };
    let promotions = promoter.promotions.of(&place.pipeline);
    let mut wake: Option<Timestamp> = None;
    let here = promotions.iter().filter(|it| PlaceKey::of(it) == *place);
    for promotion in here {
        let scene = Scene {
            pipeline: &pipeline,
            promotions: &promotions,
            promotion,
        };
        match reconcile(promoter, &scene).await {
            Ok(Reconciled::Changed) => return Next::After(Duration::ZERO),
            Ok(Reconciled::Unchanged { again }) => wake = [wake, again].into_iter().flatten().min(),
            Err(error) => {
                tracing::warn!(promotion = promotion.metadata.name, %error, "status not written");
                return Next::Retry;
            }
        }
    }
    match wake {
        Some(wake) => Next::After(until(wake, promoter.clock.now())),
        None => Next::Change,
    }
}

/// Brings one promotion a step further.
async fn reconcile(promoter: &Arc<Promoter>, scene: &Scene<'_>) -> Result<Reconciled, StatusError> {
    let sight = observe::everything(promoter, scene).await;
    let around = sight.surroundings(scene);
    let next = planner::attempt(scene.promotion, &around, promoter.clock.now());
    let again = sight.sooner(next.requeue_at);
    let outcome = act::carry_out(promoter, scene, next.action, &sight).await;
    let status = match (outcome, &sight.failure) {
        (None, None) => next.status,
        (None, Some(failure)) => {
            planner::status_after_failed_lookup(next.status, failure, promoter.clock.now())
        }
        (Some(outcome), _) => {
            let (now, seed) = (promoter.clock.now(), seed(&scene.promotion.metadata));
            planner::conclude(scene.promotion, next, outcome, now, seed)
        }
    };
    report::write(promoter, scene, status, again).await
}

async fn follow_promotions(promoter: Arc<Promoter>) {
    let namespace = promoter.settings.namespace.as_deref();
    let tell = |change: Change<'_>| match change {
        Change::Kept(promotion) => promoter.wake(PlaceKey::of(promotion)),
        Change::Gone(promotion) => {
            promoter.forget(promotion);
            promoter.wake(PlaceKey::of(promotion));
        }
        Change::AllKnown => promoter.wake_all(),
    };
    promotions::feed(promoter.hub.clone(), namespace, &promoter.promotions, tell).await;
}

async fn follow_pipelines(promoter: Arc<Promoter>) {
    let api: Api<DeserializeGuard<Pipeline>> = match &promoter.settings.namespace {
        Some(namespace) => Api::namespaced(promoter.hub.clone(), namespace),
        None => Api::all(promoter.hub.clone()),
    };
    let mut config = watcher::Config::default();
    if let Some(labels) = &promoter.settings.label_selector {
        config = config.labels(labels);
    }
    let mut events = std::pin::pin!(follow(api, config));
    let mut seen = HashSet::new();
    while let Some(event) = events.next().await {
        match event {
            Event::Apply(pipeline) => drop(take(&promoter, pipeline)),
            Event::Delete(pipeline) => promoter.forget_pipeline(&ObjectKey::of(pipeline.meta())),
            Event::Init => seen.clear(),
            Event::InitApply(pipeline) => drop(seen.insert(take(&promoter, pipeline))),
            Event::InitDone => {
                let known = promoter.pipelines.keys();
                for gone in known.iter().filter(|key| !seen.contains(*key)) {
                    promoter.pipelines.remove(gone);
                }
                promoter.are_pipelines_known.store(true, Ordering::Release);
                promoter.wake_all();
            }
        }
    }
}

fn take(promoter: &Promoter, pipeline: DeserializeGuard<Pipeline>) -> ObjectKey {
    let key = ObjectKey::of(pipeline.meta());
    match pipeline.0 {
        Ok(pipeline) => {
            if promoter.pipelines.keep(pipeline) {
                promoter.wake_pipeline(&key);
            }
        }
        Err(error) => tracing::warn!(pipeline = %key, %error, "cannot be read"),
    }
    key
}

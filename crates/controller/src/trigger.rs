//! The trigger loop: Flux sources start Tekton runs.
//!
//! `watch` follows the kinds that are served and keeps `world` up to date; every change wakes the
//! triggers it concerns, and each is reconciled: observe, plan, act, report. Kinds that are not
//! installed are looked for until they are. Nothing is written while not leading. What decides is
//! in `planner::trigger`; nothing is decided here.

mod act;
mod metrics;
mod observe;
mod process;
mod report;
mod watch;
mod world;

use std::{
    collections::HashMap,
    convert::Infallible,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use api::PipelineTrigger;
use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use kube::{
    Api, Client, Resource,
    runtime::{
        WatchStreamExt,
        controller::{self, Action, applier, trigger_self},
        events::{Recorder, Reporter},
        reflector::{self, ObjectRef},
        watcher,
    },
};
use parking_lot::Mutex;
use tokio::{sync::mpsc, task::JoinSet};

pub use metrics::Metrics;

use world::{Key, World};

/// The name that status is written and events are published under, as by the operator.
const FIELD_MANAGER: &str = "pipelinetrigger-controller";
const REPORTER: &str = "PipelineTrigger";
/// How often it is looked whether leadership came.
const LEADERSHIP_CHECK: Duration = Duration::from_millis(250);
/// No single call takes longer, so that none outlives the margin of a lease.
const CALL_LIMIT: Duration = Duration::from_secs(5);
const FIRST_WAIT: Duration = Duration::from_millis(500);
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// How the loop runs.
#[derive(Clone)]
pub struct Settings {
    /// The one namespace to look at; all without it.
    pub namespace: Option<String>,
    /// How many triggers are reconciled at once.
    pub concurrency: u16,
    /// How often kinds that are not installed are looked for.
    pub discovery_interval: Duration,
    /// What time it is.
    pub clock: Arc<dyn Fn() -> Timestamp + Send + Sync>,
    /// Where the figures go.
    pub metrics: Metrics,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            namespace: None,
            concurrency: 16,
            discovery_interval: Duration::from_secs(10),
            clock: Arc::new(Timestamp::now),
            metrics: Metrics::default(),
        }
    }
}

/// What a reconcile needs.
struct Context {
    client: Client,
    settings: Settings,
    world: Arc<World>,
    leads: Box<dyn Fn() -> bool + Send + Sync>,
    /// A trigger was left alone because somebody else leads.
    was_passive: AtomicBool,
    recorder: Recorder,
    /// What we wrote and the watch has not shown yet.
    written: Mutex<HashMap<Key, Arc<PipelineTrigger>>>,
    /// From which resource version on a trigger holds everything we wrote to it. Run names follow
    /// from the status, so runs are started only from one that is certain.
    certain: Mutex<HashMap<Key, u64>>,
    /// How often in a row a trigger could not be dealt with.
    failures: Mutex<HashMap<Key, u32>>,
}

/// We could not do our job; trying again may help.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("cannot write the trigger's status")]
    Report(#[source] kube::Error),
    #[error("cannot read the trigger")]
    Observe(#[source] kube::Error),
    #[error("the API server did not answer in time")]
    Slow,
}

impl Error {
    /// A fixed word for metrics.
    fn reason(&self) -> &'static str {
        match self {
            Self::Report(kube::Error::Api(status)) if status.is_conflict() => "Conflict",
            Self::Report(_) => "StatusNotWritten",
            Self::Observe(_) => "TriggerNotRead",
            Self::Slow => "Slow",
        }
    }
}

/// Runs the loop as part of the process, until it is told to stop.
pub(crate) async fn serve(context: crate::Context) -> Result<(), crate::loops::Failure> {
    let settings = Settings {
        namespace: context.settings.namespace.clone(),
        concurrency: u16::try_from(context.settings.concurrent).unwrap_or(u16::MAX),
        metrics: context.metrics.triggers().clone(),
        ..Settings::default()
    };
    let leadership = context.leadership.clone();
    let leads = move || leadership.permit(CALL_LIMIT).is_ok();
    run(
        context.client,
        settings,
        leads,
        context.stop.cancelled_owned(),
    )
    .await;
    Ok(())
}

/// Runs the loop until `shutdown` resolves. Acts only while `leads` says so.
pub async fn run(
    client: Client,
    settings: Settings,
    leads: impl Fn() -> bool + Clone + Send + Sync + 'static,
    shutdown: impl Future<Output = ()> + Send + 'static,
) {
    let (wake, woken) = mpsc::unbounded_channel();
    let world = Arc::new(World::new(wake));
    let mut tasks = JoinSet::new();
    watch::spawn_all(&mut tasks, &client, &settings, &world);
    let reporter = Reporter {
        controller: REPORTER.to_owned(),
        instance: None,
    };
    let concurrency = settings.concurrency;
    let context = Arc::new(Context {
        recorder: Recorder::new(client.clone(), reporter),
        leads: Box::new(leads),
        was_passive: AtomicBool::new(false),
        written: Mutex::default(),
        certain: Mutex::default(),
        failures: Mutex::default(),
        client,
        settings,
        world,
    });
    tasks.spawn(watch_leadership(context.clone()));
    reconcile_all(context, woken, concurrency, shutdown).await;
}

async fn reconcile_all(
    context: Arc<Context>,
    woken: mpsc::UnboundedReceiver<ObjectRef<PipelineTrigger>>,
    concurrency: u16,
    shutdown: impl Future<Output = ()> + Send + 'static,
) {
    let (store, writer) = reflector::store();
    let noting = context.clone();
    let changed = watcher(context.triggers(), watcher::Config::default())
        .default_backoff()
        .inspect_ok(move |event| noting.note(event))
        .reflect(writer)
        .touched_objects()
        // A watch that fails is tried again; meanwhile everything else goes on.
        .filter_map(|object| std::future::ready(object.ok()))
        .map(Ok::<_, Infallible>);
    let woken = futures::stream::unfold(woken, |mut woken| async move {
        let next = woken.recv().await?;
        Some((Ok(next.into()), woken))
    });
    let queue = futures::stream::select(trigger_self(changed, ()), woken.boxed());
    applier(
        |trigger, context| Box::pin(reconcile(trigger, context)),
        wait_after_error,
        context,
        store,
        queue.boxed(),
        controller::Config::default().concurrency(concurrency),
    )
    .take_until(shutdown)
    .for_each(|_| std::future::ready(()))
    .await;
}

/// Wakes every trigger when leadership comes. Whoever led before has written meanwhile.
async fn watch_leadership(context: Arc<Context>) {
    let mut led = (context.leads)();
    loop {
        tokio::time::sleep(LEADERSHIP_CHECK).await;
        let leads = (context.leads)();
        let was_passive = context.was_passive.swap(false, Ordering::SeqCst);
        if leads && (!led || was_passive) {
            context.certain.lock().clear();
            context.written.lock().clear();
            context.world.wake_all();
        }
        led = leads;
    }
}

/// Brings one trigger a step closer to what its spec asks for.
async fn reconcile(trigger: Arc<PipelineTrigger>, context: Arc<Context>) -> Result<Action, Error> {
    if !(context.leads)() {
        context.was_passive.store(true, Ordering::SeqCst);
        return Ok(Action::await_change());
    }
    if trigger.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let _timer = context.settings.metrics.time_reconcile();
    let mut trigger = context.freshest(trigger);
    let Some(observed) = observe::everything(&context, &trigger).await else {
        return Ok(Action::await_change());
    };
    let now = (context.settings.clock)();
    let mut plan = planner::trigger::plan(&observed.seen(&trigger, now));
    if !plan.steps.is_empty() && !context.is_certain(&trigger) {
        trigger = observe::again(&context, &trigger).await?;
        plan = planner::trigger::plan(&observed.seen(&trigger, now));
    }
    let seen = observed.seen(&trigger, now);
    let outcome = act::carry_out(&context, &trigger, &plan).await;
    if !(context.leads)() {
        context.was_passive.store(true, Ordering::SeqCst);
        return Ok(Action::await_change());
    }
    report::everything(&context, &seen, &plan, &outcome).await?;
    let key = Key::of(&*trigger);
    if !outcome.is_complete() {
        return Ok(Action::requeue(context.next_wait(&key)));
    }
    context.failures.lock().remove(&key);
    Ok(plan
        .look_again
        .map_or_else(Action::await_change, Action::requeue))
}

fn wait_after_error(trigger: Arc<PipelineTrigger>, error: &Error, context: Arc<Context>) -> Action {
    context.settings.metrics.count_error(error.reason());
    let key = Key::of(&*trigger);
    let wait = context.next_wait(&key);
    tracing::warn!(trigger = %key, reason = error.reason(), error = ?error, "not reconciled");
    Action::requeue(wait)
}

impl Context {
    fn triggers(&self) -> Api<PipelineTrigger> {
        match &self.settings.namespace {
            Some(namespace) => Api::namespaced(self.client.clone(), namespace),
            None => Api::all(self.client.clone()),
        }
    }

    fn note(&self, event: &watcher::Event<PipelineTrigger>) {
        for gone in self.world.note_trigger(event) {
            self.settings.metrics.forget(&gone.namespace, &gone.name);
            self.written.lock().remove(&gone);
            self.certain.lock().remove(&gone);
            self.failures.lock().remove(&gone);
        }
    }

    /// The trigger as we last wrote it, until the watch shows that or something newer.
    fn freshest(&self, shown: Arc<PipelineTrigger>) -> Arc<PipelineTrigger> {
        let mut written = self.written.lock();
        let key = Key::of(&*shown);
        match written.get(&key) {
            Some(ours) if version(&shown) < version(ours) => ours.clone(),
            Some(_) => {
                written.remove(&key);
                shown
            }
            None => shown,
        }
    }

    fn is_certain(&self, trigger: &PipelineTrigger) -> bool {
        let certain = self.certain.lock().get(&Key::of(trigger)).copied();
        certain.is_some_and(|certain| version(trigger) >= certain)
    }

    fn next_wait(&self, key: &Key) -> Duration {
        let mut failures = self.failures.lock();
        let count = failures.entry(key.clone()).or_default();
        *count = count.saturating_add(1);
        LONGEST_WAIT.min(FIRST_WAIT * 2_u32.pow((*count - 1).min(16)))
    }
}

/// Resource versions are numbers on every server there is; one that is not counts as the newest.
fn version(trigger: &PipelineTrigger) -> u64 {
    let version = trigger.meta().resource_version.as_deref();
    version
        .and_then(|version| version.parse().ok())
        .unwrap_or(u64::MAX)
}

//! The promotion reconciler: carries out promotions, one at a time into each site.
//!
//! A site is reconciled when one of its promotions or their pipeline changes. `planner::attempt` decides
//! what comes next; `strategy` carries it out.

mod act;
mod feedback;
mod observe;
mod orphaned_pull_requests;
mod report;

use std::{collections::HashMap, ops::Deref, sync::Arc, time::Duration};

use api::{Pipeline, Promotion, promotion::Phase};
use kube::Client;
use parking_lot::Mutex;
use planner::Timestamp;
use runtime::{
    CacheEvent, LeaderGuard, ObjectKey, RequeueAction, Subscription, Workers, status::StatusError,
};
use tokio::task::JoinSet;

use crate::{
    Settings,
    caches::{PipelineShard, pipeline_of, promotions_of},
    failure_dependencies::FailureDependencies,
    keys::seed,
    reconcile::Reconciled,
    reconciler_base::ReconcilerBase,
    strategy::{self, PromotionTask, Strategies},
};
use orphaned_pull_requests::OrphanedPullRequests;

/// Under this name the promotion reconciler writes to the caches and reads its metrics.
const NAME: &str = "promotion";
/// How long a site waits after a failed write.
const RETRY: Duration = Duration::from_secs(5);

/// Runs the reconciler until dropped.
pub async fn run(reconciler: Arc<PromotionReconciler>) {
    let mut tasks = JoinSet::new();
    tasks.spawn(reconciler.feed_caches());
    tasks.spawn(orphaned_pull_requests::comment(reconciler.clone()));
    tasks.spawn(reconciler.strategies.clone().remove_unused_mirrors());
    tasks.spawn(reconcile_all(reconciler));
    tasks.join_all().await;
}

/// Reconciles every site with promotions, and again whenever something about it changes.
async fn reconcile_all(reconciler: Arc<PromotionReconciler>) {
    reconciler.caches.pipelines.synced().await;
    reconciler.caches.promotions.synced().await;
    let _subscriptions = reconciler.subscribe();
    reconciler.enqueue_all();
    let workers = reconciler.workers.clone();
    let reconcile = move |site: SiteKey| {
        let reconciler = reconciler.clone();
        async move { reconcile_site(&reconciler, &site).await }
    };
    workers.run(reconcile).await;
}

/// A site that promotions lead into.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct SiteKey {
    pipeline: ObjectKey,
    site: String,
}

impl SiteKey {
    fn of(promotion: &Promotion) -> Self {
        let pipeline = pipeline_of(promotion);
        let site = planner::site_of(&promotion.spec, &pipeline.namespace).key();
        Self { pipeline, site }
    }
}

/// Carries out promotions.
pub struct PromotionReconciler {
    base: ReconcilerBase,
    pipelines: PipelineShard,
    workers: Arc<Workers<SiteKey>>,
    strategies: Arc<Strategies>,
    failure_dependencies: FailureDependencies,
    /// What the changes of waiting promotions were last computed from.
    change_inputs: FailureDependencies,
    /// By uid: the phase a promotion is in, and since when.
    phases: Mutex<HashMap<String, (Phase, tokio::time::Instant)>>,
    orphaned_pull_requests: OrphanedPullRequests,
}

impl Deref for PromotionReconciler {
    type Target = ReconcilerBase;

    fn deref(&self) -> &ReconcilerBase {
        &self.base
    }
}

impl PromotionReconciler {
    /// A reconciler on its own, with caches and metrics of its own. It acts only while `leader` leads.
    pub fn new(
        hub: Client,
        settings: Settings,
        leader: LeaderGuard,
    ) -> Result<Arc<Self>, strategy::Error> {
        let base = ReconcilerBase::alone(hub, settings, leader);
        let strategies = base.strategies()?;
        Ok(Self::with(base, strategies))
    }

    pub(crate) fn with(base: ReconcilerBase, strategies: Arc<Strategies>) -> Arc<Self> {
        Arc::new(Self {
            workers: base.telemetry.workers(NAME, base.settings.concurrent),
            pipelines: PipelineShard::new(&base.caches, base.settings.label_selector.as_deref()),
            strategies,
            failure_dependencies: FailureDependencies::default(),
            change_inputs: FailureDependencies::default(),
            phases: Mutex::default(),
            orphaned_pull_requests: OrphanedPullRequests::new(),
            base,
        })
    }

    /// Enqueues sites as the caches change, until the subscriptions are dropped.
    fn subscribe(self: &Arc<Self>) -> [Subscription; 2] {
        let this = self.clone();
        let pipelines = self
            .caches
            .pipelines
            .subscribe(NAME, move |event| match event {
                CacheEvent::Applied { key, object, .. } if this.pipelines.includes(object) => {
                    this.enqueue_pipeline(key);
                }
                CacheEvent::Deleted { key, object } if this.pipelines.includes(object) => {
                    this.forget_pipeline(key, object);
                }
                // Of another shard, now or always.
                CacheEvent::Applied { key, .. } | CacheEvent::Deleted { key, .. } => {
                    this.telemetry.metrics.promotions().forget(key);
                }
            });
        let this = self.clone();
        let promotions = self
            .caches
            .promotions
            .subscribe(NAME, move |event| match event {
                CacheEvent::Applied { object, .. } => this.workers.enqueue(SiteKey::of(object)),
                CacheEvent::Deleted { object, .. } => {
                    this.forget_promotion(object);
                    this.workers.enqueue(SiteKey::of(object));
                }
            });
        [pipelines, promotions]
    }

    /// Enqueues the sites of a pipeline with a promotion that has not ended, or that failed and may be
    /// retried.
    fn enqueue_pipeline(&self, pipeline: &ObjectKey) {
        for promotion in self.caches.promotions.children(pipeline) {
            let phase = promotion.status.as_ref().and_then(|status| status.phase);
            let has_ended = |phase: Phase| phase.is_terminal() && phase != Phase::Failed;
            if !phase.is_some_and(has_ended) {
                self.workers.enqueue(SiteKey::of(&promotion));
            }
        }
    }

    fn enqueue_all(&self) {
        for pipeline in self.pipelines.keys() {
            self.enqueue_pipeline(&pipeline);
        }
    }
}

/// A promotion with its pipeline and the other promotions of that.
struct PromotionContext<'a> {
    pipeline: &'a Pipeline,
    promotions: &'a [Promotion],
    promotion: &'a Promotion,
}

impl PromotionContext<'_> {
    fn task(&self) -> PromotionTask<'_> {
        PromotionTask::new(self.pipeline, self.promotion)
    }
}

/// Reconciles the promotions into one site, up to the first whose status changes.
async fn reconcile_site(reconciler: &Arc<PromotionReconciler>, site: &SiteKey) -> RequeueAction {
    let Some(pipeline) = reconciler.pipelines.get(&site.pipeline) else {
        return RequeueAction::AwaitChange;
    };
    let promotions = promotions_of(&reconciler.caches, &site.pipeline);
    let mut requeue_at: Option<Timestamp> = None;
    let here = promotions.iter().filter(|it| SiteKey::of(it) == *site);
    for promotion in here {
        let context = PromotionContext {
            pipeline: &pipeline,
            promotions: &promotions,
            promotion,
        };
        match reconcile_promotion(reconciler, &context).await {
            Ok(Reconciled::Changed) => return RequeueAction::After(Duration::ZERO),
            Ok(Reconciled::Unchanged { again }) => {
                requeue_at = [requeue_at, again].into_iter().flatten().min()
            }
            Err(error) => {
                tracing::warn!(promotion = promotion.metadata.name, %error, "could not write the status of the promotion");
                return RequeueAction::RetryError(RETRY);
            }
        }
    }
    match requeue_at {
        Some(requeue_at) => RequeueAction::After(reconciler.clock.until(requeue_at)),
        None => RequeueAction::AwaitChange,
    }
}

/// Reconciles one promotion: observes, plans the next action, acts and reports.
async fn reconcile_promotion(
    reconciler: &Arc<PromotionReconciler>,
    context: &PromotionContext<'_>,
) -> Result<Reconciled, StatusError> {
    let observation = observe::everything(reconciler, context).await;
    let promotion = observation.promotion(context);
    let input = observation.attempt_input(context);
    let mut next = planner::attempt(promotion, &input, reconciler.clock.now());
    let again = observation.sooner(next.requeue_at);
    let outcome = act::carry_out(reconciler, context, &mut next, &observation).await;
    let mut status = match (outcome, &observation.failure) {
        (None, None) => next.status,
        (None, Some(failure)) => {
            planner::status_after_failed_lookup(next.status, failure, reconciler.clock.now())
        }
        (Some(outcome), _) => {
            let (now, seed) = (reconciler.clock.now(), seed(&context.promotion.metadata));
            planner::conclude(promotion, next, outcome, now, seed)
        }
    };
    let retry = feedback::show(reconciler, context, &observation, &mut status).await;
    let again = [again, retry].into_iter().flatten().min();
    report::write(reconciler, context, status, again).await
}

//! What is counted and measured about promotions.

use std::{collections::BTreeSet, time::Duration};

use api::{Pipeline, Promotion, promotion::Phase};
use git::forge::ForgeProduct;
use parking_lot::Mutex;
use planner::HoldReason;
use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};

use runtime::ObjectKey;

/// From what feels like at once to a month: people approve and merge.
const BUCKETS: [f64; 14] = [
    1.0,
    5.0,
    15.0,
    60.0,
    300.0,
    900.0,
    3600.0,
    14_400.0,
    43_200.0,
    86_400.0,
    259_200.0,
    604_800.0,
    1_209_600.0,
    2_592_000.0,
];

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByEnd {
    environment_position: &'static str,
    strategy: &'static str,
    outcome: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord, EncodeLabelSet)]
struct ByPipeline {
    namespace: String,
    pipeline: String,
    environment: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByPhase {
    phase: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByCall {
    forge: &'static str,
    result: &'static str,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ByReason {
    reason: &'static str,
}

type Histograms<L> = Family<L, Histogram, fn() -> Histogram>;

/// The figures about promotions.
pub struct Promotions {
    durations: Histograms<ByEnd>,
    latencies: Histograms<ByPipeline>,
    /// The series there are, so that those of a pipeline can go with it.
    shown: Mutex<BTreeSet<ByPipeline>>,
    phases: Histograms<ByPhase>,
    calls: Family<ByCall, Counter>,
    holds: Family<ByReason, Gauge>,
}

impl Promotions {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let in_buckets: fn() -> Histogram = || Histogram::new(BUCKETS);
        let plain: fn() -> Histogram = || Histogram::new([]);
        let figures = Self {
            durations: Family::new_with_constructor(in_buckets),
            latencies: Family::new_with_constructor(plain),
            shown: Mutex::default(),
            phases: Family::new_with_constructor(in_buckets),
            calls: Family::default(),
            holds: Family::default(),
        };
        registry.register(
            "sluice_promotion_duration_seconds",
            "From the creation of a promotion to its end",
            figures.durations.clone(),
        );
        registry.register(
            "sluice_promotion_latency_seconds",
            "From a verified revision to the environment that runs it, by pipeline",
            figures.latencies.clone(),
        );
        registry.register(
            "sluice_promotion_phase_seconds",
            "How long promotions stayed in each phase",
            figures.phases.clone(),
        );
        registry.register(
            "sluice_forge_calls",
            "Calls of forges, by how they ended",
            figures.calls.clone(),
        );
        registry.register(
            "sluice_holds",
            "Environments that wait, by reason",
            figures.holds.clone(),
        );
        figures
    }

    /// A forge answered, or did not; `result` is `ok` or the fixed word of the error.
    pub(crate) fn count_forge_call(&self, kind: ForgeProduct, result: &'static str) {
        let forge = kind.as_str();
        self.calls.get_or_create(&ByCall { forge, result }).inc();
    }

    /// A promotion left a phase after so long.
    pub(crate) fn observe_phase(&self, phase: Phase, took: Duration) {
        let phase = word(phase);
        let time = self.phases.get_or_create(&ByPhase { phase });
        time.observe(took.as_secs_f64());
    }

    /// A promotion ended.
    pub(crate) fn observe_end(
        &self,
        pipeline: &Pipeline,
        promotion: &Promotion,
        phase: Phase,
        took: Duration,
    ) {
        let labels = ByEnd {
            environment_position: position(pipeline, promotion),
            strategy: strategy(promotion),
            outcome: word(phase),
        };
        let time = self.durations.get_or_create(&labels);
        time.observe(took.as_secs_f64());
    }

    /// An environment of a pipeline came to run a revision.
    pub(crate) fn observe_latency(&self, promotion: &Promotion, took: Duration) {
        let namespace = promotion.metadata.namespace.clone();
        let labels = ByPipeline {
            namespace: namespace.unwrap_or_default(),
            pipeline: promotion.spec.pipeline.clone(),
            environment: promotion.spec.environment.clone(),
        };
        let time = self.latencies.get_or_create(&labels);
        time.observe(took.as_secs_f64());
        drop(time);
        self.shown.lock().insert(labels);
    }

    /// A pipeline is gone, and its series go with it.
    pub(crate) fn forget(&self, pipeline: &ObjectKey) {
        self.shown.lock().retain(|labels| {
            let goes = labels.namespace == pipeline.namespace && labels.pipeline == pipeline.name;
            if goes {
                self.latencies.remove(labels);
            }
            !goes
        });
    }

    /// How many environments wait for that reason.
    pub(crate) fn set_holds(&self, reason: HoldReason, count: usize) {
        let labels = ByReason {
            reason: reason.word(),
        };
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        self.holds.get_or_create(&labels).set(count);
    }
}

fn word(phase: Phase) -> &'static str {
    match phase {
        Phase::AwaitingApproval => "AwaitingApproval",
        Phase::Running => "Running",
        Phase::WaitingForMerge => "WaitingForMerge",
        Phase::Deploying => "Deploying",
        Phase::Verifying => "Verifying",
        Phase::Succeeded => "Succeeded",
        Phase::Failed => "Failed",
        Phase::Superseded => "Superseded",
        Phase::Abandoned => "Abandoned",
        Phase::Withdrawn => "Withdrawn",
    }
}

fn position(pipeline: &Pipeline, promotion: &Promotion) -> &'static str {
    let spec = &pipeline.spec;
    let environments = &spec.environments;
    let name = &promotion.spec.environment;
    if !planner::is_chain(spec) && environments.iter().any(|it| it.name == *name) {
        let is_first = planner::sources(spec, name).is_empty();
        let is_last = planner::followers(spec, name).is_empty();
        return match (is_first, is_last) {
            (true, _) => "first",
            (false, true) => "last",
            (false, false) => "middle",
        };
    }
    match environments.iter().position(|it| it.name == *name) {
        Some(0) => "first",
        Some(index) if index + 1 == environments.len() => "last",
        Some(_) => "middle",
        None => "gone",
    }
}

fn strategy(promotion: &Promotion) -> &'static str {
    let strategy = &promotion.spec.strategy;
    if strategy.pull_request.is_some() {
        "pull-request"
    } else if strategy.commit.is_some() {
        "commit"
    } else if strategy.notification.is_some() {
        "notification"
    } else if strategy.webhook.is_some() {
        "webhook"
    } else if strategy.oci.is_some() {
        "oci"
    } else if strategy.resource_set_inputs.is_some() {
        "resourceSetInputs"
    } else {
        "none"
    }
}

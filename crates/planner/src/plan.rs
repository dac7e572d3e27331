//! Which promotions start, which end, and why the others wait.
//!
//! A plan is computed from stored objects alone and leaves no choice to whoever carries it out.
//! Promises: at most one promotion per place that is neither merged nor taken back; nothing that
//! was not verified, and nothing older than what runs, unless a person asked; carried out and
//! planned again, it is empty.

mod candidate;
mod environment;
mod history;
mod input;
mod order;
mod report;
mod request;
mod restart;
mod site;
mod start;

use std::collections::BTreeMap;

use api::{
    Pipeline, Promotion,
    pipeline::{HandledRequest, PipelineStatus, PromotionSummary},
};

use crate::{
    conditions::{self, ConditionValue},
    hold::{Hold, HoldReason},
    time::Timestamp,
    validity,
};
use input::PlanInput;

pub use history::surplus;
pub(crate) use input::{assumed, is_deploying, is_unmerged, shown_by};
pub use report::apply;
pub(crate) use request::{pending as pending_request, written as written_requests};

/// What is to be done for a pipeline, and what there is to say about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// What to do, in this order.
    pub steps: Vec<Step>,
    /// What to say, by environment name.
    pub environments: BTreeMap<String, EnvironmentPlan>,
    /// What could not be made sense of, for an event.
    pub warnings: Vec<String>,
    /// When to look again even if nothing happens.
    pub requeue_at: Option<Timestamp>,
    pub(crate) ready: ConditionValue,
    pub(crate) pending: Option<ConditionValue>,
}

/// One thing to do. Carrying it out requires no further decision.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Create this promotion. That it exists already is fine.
    StartPromotion(Box<Promotion>),
    /// Take a promotion back because another one leads into the same place: set its
    /// `spec.withdrawn` to [`superseded_by`] that one.
    SupersedePromotion {
        /// The promotion to take back.
        name: String,
        /// Its successor.
        by: String,
    },
    /// Take a promotion back for good: set its `spec.withdrawn` to this reason.
    WithdrawPromotion {
        /// The promotion to take back.
        name: String,
        /// Why.
        reason: String,
    },
    /// Delete a promotion that ended long ago.
    RemoveFinished {
        /// The promotion to delete.
        name: String,
    },
}

/// What there is to say about one environment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EnvironmentPlan {
    /// Why nothing starts.
    pub hold: Option<Hold>,
    /// The revision that waits for a person.
    pub waiting_approval: Option<String>,
    /// The promotion that is under way or came last.
    pub promotion: Option<PromotionSummary>,
    /// Revisions that are not proposed again.
    pub rejected: Vec<String>,
    /// The last request that was taken up.
    pub last_request: Option<HandledRequest>,
}

const SUPERSEDED: &str = "Superseded by ";

/// The reason of a withdrawal in favour of another promotion.
pub fn superseded_by(name: &str) -> String {
    format!("{SUPERSEDED}{name}")
}

/// The promotion in whose favour another was withdrawn, if that is why.
pub fn successor(reason: &str) -> Option<&str> {
    reason.strip_prefix(SUPERSEDED)
}

/// Plans for a pipeline whose status is `model`. The promotions of other pipelines are ignored.
pub fn plan(
    pipeline: &Pipeline,
    model: &PipelineStatus,
    promotions: &[Promotion],
    now: Timestamp,
) -> Plan {
    let world = PlanInput::new(pipeline, model, promotions, now);
    let order: Vec<_> = world.environment_names().collect();
    if let Some(text) = validity::invalid_spec(world.spec) {
        return invalid(&world, &text);
    }
    let mut plan = Plan {
        steps: world.gone_places(),
        environments: BTreeMap::new(),
        warnings: request::warnings(&world),
        requeue_at: None,
        ready: match validity::invalid_source(world.spec) {
            Some(text) => ConditionValue::new("False", HoldReason::InvalidSource.word(), text),
            None => conditions::readable(model, &order),
        },
        pending: None,
    };
    for index in 0..world.spec.environments.len() {
        let outcome = environment::plan(&world, index);
        let name = world.spec.environments[index].name.clone();
        plan.pending = plan
            .pending
            .or(outcome.says.hold.as_ref().map(Hold::pending));
        plan.requeue_at = [plan.requeue_at, outcome.requeue_at]
            .into_iter()
            .flatten()
            .min();
        plan.steps.extend(outcome.steps);
        plan.environments.insert(name, outcome.says);
    }
    plan.requeue_at = [plan.requeue_at, canaries_count_at(model, now)]
        .into_iter()
        .flatten()
        .min();
    if pipeline.metadata.deletion_timestamp.is_some() {
        plan.steps.clear();
    }
    plan
}

/// When time alone next decides what a Canary means.
fn canaries_count_at(model: &PipelineStatus, now: Timestamp) -> Option<Timestamp> {
    let targets = model.environments.values().flat_map(|it| &it.targets);
    let apps = targets.flat_map(|target| &target.apps);
    apps.filter_map(|app| Some(app.canary.as_ref()?.counts_at.as_ref()?.0))
        .filter(|at| *at > now)
        .min()
}

/// What is written to git to get a revision: as it was written or seen somewhere, else by its form.
pub fn version_for(pipeline: &Pipeline, promotions: &[Promotion], revision: &str) -> String {
    let nothing = PipelineStatus::default();
    let model = pipeline.status.as_ref().unwrap_or(&nothing);
    let world = PlanInput::new(pipeline, model, promotions, Timestamp::MIN);
    request::known_version(&world, revision)
}

/// The plan for what can never work: start nothing, touch nothing, say why.
fn invalid(world: &PlanInput<'_>, text: &str) -> Plan {
    let reason = HoldReason::InvalidSpec;
    let hold = Hold::new(reason, text, "an edit of the pipeline lifts this");
    let mut environments = BTreeMap::new();
    let mut pending = None;
    for name in world.environment_names() {
        let mut says = environment::unchanged(world, name);
        says.hold = world.spec.promotion_into(name).map(|_| hold.clone());
        pending = pending.or(says.hold.as_ref().map(Hold::pending));
        environments.entry(name.to_owned()).or_insert(says);
    }
    Plan {
        steps: Vec::new(),
        environments,
        warnings: Vec::new(),
        requeue_at: None,
        ready: ConditionValue::new("False", reason.word(), text),
        pending,
    }
}

//! Plans which promotions of a pipeline start, which are withdrawn, and why the others wait.
//!
//! A plan is computed from stored objects alone and leaves no choice to the reconciler. It
//! guarantees: at most one promotion per site that is neither merged nor withdrawn; unless a person
//! requests it, nothing unverified and nothing older than what runs; a plan that was carried out is
//! empty the next time.

mod artifact;
mod cancel;
mod candidate;
mod common_revision;
mod environment;
mod gates;
mod history;
mod input;
mod precedence;
mod rebuild;
mod rejected;
mod report;
mod request;
mod restart;
mod retry;
mod rollback;
mod rollout_orders;
mod site;
mod start;
mod withdrawal;

use std::collections::BTreeMap;

use api::{
    CheckRun, Pipeline, Promotion,
    pipeline::{
        HandledRequest, PipelineStatus, PromotionSummary, RanRevision, RolloutOrders,
        RolloutSummary, StoredOverride,
    },
};

use crate::{
    checks,
    conditions::{self, ConditionValue},
    freeze,
    gate::{GateAnswer, GateVerdict, valid},
    hold::{Hold, HoldReason},
    time::Timestamp,
    validity,
};

pub(crate) use cancel::cancelled_by;
pub use cancel::{cancellable, cancellation};
pub(crate) use candidate::{Candidate, CandidateSource, SourceVotes, default_when};
pub(crate) use common_revision::{CommonRevision, SourceEnvironments, Standing};
pub use history::surplus;
pub(crate) use input::{PlanInput, unmatched_selector};
pub use rebuild::rebuild;
pub(crate) use rejected::{rejects_revision, was_taken_back};
pub use report::apply;
pub(crate) use request::{pending as pending_request, written as written_requests};
pub use retry::{RetryTarget, retryable};
pub(crate) use site::WantedRevision;
pub(crate) use withdrawal::{ROLLED_BACK, withdrawal_clause};

/// The steps to carry out for a pipeline, and what its status says.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// What the status says, by environment name.
    pub environments: BTreeMap<String, EnvironmentPlan>,
    /// Requests that cannot be read, for an event.
    pub warnings: Vec<String>,
    /// When to plan again even if nothing changes.
    pub requeue_at: Option<Timestamp>,
    pub(crate) ready: ConditionValue,
    pub(crate) pending: Option<ConditionValue>,
}

/// One action. Carrying it out requires no further decision.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Create this promotion. That it exists already is fine.
    StartPromotion(Box<Promotion>),
    /// Withdraw a promotion because another one leads into the same site: set its
    /// `spec.withdrawn` to [`superseded_by`] that one.
    SupersedePromotion {
        /// The promotion to withdraw.
        name: String,
        /// Its successor.
        by: String,
    },
    /// Withdraw a promotion without a successor: set its `spec.withdrawn` to this reason.
    WithdrawPromotion {
        /// The promotion to withdraw.
        name: String,
        /// Why.
        reason: String,
    },
    /// Create this check run. That it exists already is fine.
    StartCheckRun(Box<CheckRun>),
    /// Delete a check run that nothing needs any more.
    RemoveCheckRun {
        /// The check run to delete.
        name: String,
    },
    /// Delete a promotion that ended long ago.
    RemoveFinished {
        /// The promotion to delete.
        name: String,
    },
}

/// What the status says about one environment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EnvironmentPlan {
    /// Why nothing starts.
    pub hold: Option<Hold>,
    /// The revision that the environment should get next, as people read it.
    pub next: Option<String>,
    /// The answer of every gate about that revision, in the order in which they are asked; of several
    /// sites, those that keep it out. Empty where the environment has what it should.
    pub gates: Vec<GateAnswer>,
    /// The revision that waits for approval.
    pub waiting_approval: Option<String>,
    /// The promotion under way, else the last one.
    pub promotion: Option<PromotionSummary>,
    /// Revisions that ran, with the promotions that brought them.
    pub ran: Vec<RanRevision>,
    /// Revisions that are not proposed again.
    pub rejected: Vec<String>,
    /// The rollout under way, else the last one.
    pub rollout: Option<RolloutSummary>,
    /// What people ordered about the rollout under way.
    pub rollout_orders: Option<RolloutOrders>,
    /// The last request that was taken up.
    pub last_request: Option<HandledRequest>,
    /// The overrides that are remembered.
    pub overrides: Vec<StoredOverride>,
    /// By what it is frozen now, whether or not something waits.
    pub frozen: Option<String>,
    /// When time alone changes any of this.
    pub requeue_at: Option<Timestamp>,
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
    let input = PlanInput::new(pipeline, model, promotions, now);
    let order: Vec<_> = input.environment_names().collect();
    if let Some(hold) = valid::invalid_spec(input.spec) {
        return invalid(&input, &hold);
    }
    let mut plan = Plan {
        steps: input.withdraw_from_removed_sites(),
        environments: BTreeMap::new(),
        warnings: request::warnings(&input),
        requeue_at: None,
        ready: match validity::invalid_source(input.spec) {
            Some(text) => ConditionValue::new("False", HoldReason::InvalidSource.word(), text),
            None => conditions::readable(model, &order),
        },
        pending: None,
    };
    for environment in &input.spec.environments {
        let decision = environment::plan(&input, environment);
        let hold = decision.says.hold.as_ref();
        plan.pending = plan.pending.or(hold.map(Hold::pending));
        let times = [plan.requeue_at, decision.says.requeue_at];
        plan.requeue_at = times.into_iter().flatten().min();
        plan.steps.extend(decision.steps);
        let missing = checks::missing(&input, environment, &plan.steps);
        plan.steps.extend(missing);
        plan.environments
            .insert(environment.name.clone(), decision.says);
    }
    let at_times = [
        plan.requeue_at,
        canaries_count_at(model, now),
        freeze::next_change(&model.freezes, now),
    ];
    plan.requeue_at = at_times.into_iter().flatten().min();
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

/// What to write to git to get a revision: as a promotion or a target has it, else by its form.
pub fn version_for(pipeline: &Pipeline, promotions: &[Promotion], revision: &str) -> String {
    let nothing = PipelineStatus::default();
    let model = pipeline.status.as_ref().unwrap_or(&nothing);
    let input = PlanInput::new(pipeline, model, promotions, Timestamp::MIN);
    request::known_version(&input, revision)
}

/// The plan for a pipeline that can never work: nothing starts or ends, and the hold says why.
fn invalid(input: &PlanInput<'_>, hold: &Hold) -> Plan {
    let mut environments = BTreeMap::new();
    let mut pending = None;
    for name in input.environment_names() {
        let mut says = environment::unchanged(input, name);
        says.hold = input.spec.promotion_into(name).map(|_| hold.clone());
        says.gates = Vec::from_iter(says.hold.clone().map(|hold| GateAnswer {
            gate: hold.reason.gate(),
            verdict: GateVerdict::Wait(hold),
        }));
        pending = pending.or(says.hold.as_ref().map(Hold::pending));
        environments.entry(name.to_owned()).or_insert(says);
    }
    Plan {
        steps: Vec::new(),
        environments,
        warnings: Vec::new(),
        requeue_at: None,
        ready: ConditionValue::new("False", hold.reason.word(), &*hold.sentence),
        pending,
    }
}

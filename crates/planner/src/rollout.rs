//! Rollouts: a promotion goes through the targets of its environment in waves and batches, and keeps limits.
//!
//! [`RolloutContext::updated`] records facts (members, failures, stops, waves that are done), and
//! [`RolloutContext::next`] says what comes next. They guarantee: at most `maxConcurrent` targets are in
//! flight, which are those that were started and neither became ready nor failed; no target is started twice,
//! before its wave, or after a stop.

mod document;
mod facts;
mod membership;
mod next;
mod view;

use std::{collections::BTreeMap, time::Duration};

use api::{
    Pipeline, Promotion,
    pipeline::{
        EnvironmentStatus, PipelineStatus, PromotionSettings, Rollout, RolloutOrders,
        TargetProblem, TargetStatus,
    },
    promotion::{PromotionSpec, RolloutStatus, RolloutStop, RolloutTarget},
};

use crate::{
    attempt::{DEPLOY_TIMEOUT, runs},
    evidence::is_reported,
    fold::is_absence,
    promotion_phase::is_rollback,
    site::target_key,
    time::Timestamp,
};

pub(crate) use document::summary_text;
pub(crate) use facts::landed_at;
pub(crate) use next::NextBatch;
pub(crate) use view::rollout_summary;
pub use view::{RolloutView, TargetView, WaveView, rollout_view};

/// The state of one target of a rollout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RolloutState {
    /// It has not been started.
    Waiting,
    /// It was started, and is neither ready nor failed.
    InFlight,
    /// It is ready at the revision.
    Ready,
    /// It was ready at the revision and is not any more.
    NotReady,
    /// It failed.
    Failed,
    /// It cannot be reached, whether or not it was started.
    Unreachable,
    /// A person decided to go on without it.
    Skipped,
    /// It is not a target of the environment any more.
    Removed,
}

impl RolloutState {
    /// Every state, in the order in which they are shown.
    pub const ALL: [Self; 8] = [
        Self::Ready,
        Self::InFlight,
        Self::NotReady,
        Self::Failed,
        Self::Unreachable,
        Self::Waiting,
        Self::Skipped,
        Self::Removed,
    ];

    /// The state for people.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::InFlight => "in flight",
            Self::Ready => "ready",
            Self::NotReady => "not ready",
            Self::Failed => "failed",
            Self::Unreachable => "unreachable",
            Self::Skipped => "skipped",
            Self::Removed => "removed",
        }
    }
}

/// What a rollout is decided from.
pub(crate) struct RolloutContext<'a> {
    settings: &'a Rollout,
    spec: &'a PromotionSpec,
    /// The targets of the environment, by their key.
    targets: BTreeMap<String, &'a TargetStatus>,
    orders: Option<&'a RolloutOrders>,
    deploy_timeout: Duration,
    /// Whether the strategy also installs the app, so that a target without it can be started.
    installs_app: bool,
    is_rollback: bool,
    now: Timestamp,
}

impl<'a> RolloutContext<'a> {
    /// Nothing where the promotion does not go in waves.
    pub(crate) fn of(
        pipeline: &'a Pipeline,
        model: &'a PipelineStatus,
        promotion: &'a Promotion,
        now: Timestamp,
    ) -> Option<Self> {
        let spec = &promotion.spec;
        let settings = spec.rollout.as_ref()?;
        let status = model.environments.get(&spec.environment);
        let home = pipeline.metadata.namespace.as_deref().unwrap_or_default();
        let targets = status.map(|it| it.targets.as_slice()).unwrap_or_default();
        let targets = targets.iter().map(|it| (target_key(it, home), it));
        let promotes = pipeline.spec.promotion_into(&spec.environment);
        Some(Self {
            settings,
            spec,
            targets: targets.collect(),
            orders: status.and_then(|it| orders(it, promotion)),
            deploy_timeout: deploy_timeout(promotes),
            installs_app: spec.strategy.resource_set_inputs.is_some(),
            is_rollback: is_rollback(promotion),
            now,
        })
    }

    pub(crate) fn has_targets(&self) -> bool {
        !self.targets.is_empty()
    }

    /// The state of a target.
    pub(crate) fn state(&self, target: &RolloutTarget) -> RolloutState {
        if target.skipped {
            return RolloutState::Skipped;
        }
        let Some(status) = self.targets.get(&target.target) else {
            return RolloutState::Removed;
        };
        let is_about_to_change = target.other_revision_landed && target.batch.is_none();
        if self.is_ready(status) && !is_about_to_change {
            return RolloutState::Ready;
        }
        match (target.failed, target.ready, self.is_unreachable(status)) {
            (true, _, _) => RolloutState::Failed,
            (_, _, true) => RolloutState::Unreachable,
            (_, true, _) => RolloutState::NotReady,
            _ if target.batch.is_some() => RolloutState::InFlight,
            _ => RolloutState::Waiting,
        }
    }

    /// Whether it was started and neither became ready nor failed, reachable or not.
    fn is_in_flight(&self, target: &RolloutTarget) -> bool {
        let state = self.state(target);
        let is_open = matches!(state, RolloutState::InFlight | RolloutState::Unreachable);
        target.batch.is_some() && is_open && !target.ready
    }

    fn is_ready(&self, status: &TargetStatus) -> bool {
        status.ready && runs(status, self.spec)
    }

    /// Whether nothing can be done about the target now. What has not been read yet is not known to be
    /// unreachable.
    fn is_unreachable(&self, status: &TargetStatus) -> bool {
        let problem = status.problem.filter(|_| !is_reported(status));
        problem.is_some_and(|it| {
            it != TargetProblem::NotSynced && !(self.installs_app && is_absence(it))
        })
    }

    /// Whether the target could be started now.
    fn is_startable(&self, target: &RolloutTarget) -> bool {
        let status = self.targets.get(&target.target);
        let is_read = status.is_some_and(|it| it.problem != Some(TargetProblem::NotSynced));
        let is_waiting = self.state(target) == RolloutState::Waiting;
        target.batch.is_none() && is_waiting && is_read
    }

    /// Why no further target is started.
    pub(crate) fn stop<'b>(&'b self, rollout: &'b RolloutStatus) -> Option<&'b RolloutStop> {
        let ordered = self.orders.and_then(|it| it.stopped.as_ref());
        ordered.or(rollout.stopped.as_ref())
    }
}

/// What people ordered about a promotion.
fn orders<'a>(status: &'a EnvironmentStatus, promotion: &Promotion) -> Option<&'a RolloutOrders> {
    let orders = status.rollout_orders.as_ref()?;
    let is_own = promotion.metadata.name.as_ref() == Some(&orders.promotion);
    is_own.then_some(orders)
}

fn deploy_timeout(settings: Option<&PromotionSettings>) -> Duration {
    let timeout = settings.and_then(|it| it.deploy_timeout.as_ref());
    timeout.map_or(DEPLOY_TIMEOUT, |timeout| timeout.length())
}

/// Whether a rollout has started targets, has not ended, and is not stopped.
pub(crate) fn is_rolling_out(
    pipeline: &Pipeline,
    model: &PipelineStatus,
    promotion: &Promotion,
    now: Timestamp,
) -> bool {
    let status = promotion.status.as_ref();
    let Some(rollout) = status.and_then(|it| it.rollout.as_ref()) else {
        return false;
    };
    let has_ended = status
        .and_then(|it| it.phase)
        .is_some_and(|it| it.is_terminal());
    let context = RolloutContext::of(pipeline, model, promotion, now);
    let is_stopped = context.is_some_and(|it| it.stop(rollout).is_some());
    !has_ended && !is_stopped && promotion.spec.withdrawn.is_none()
}

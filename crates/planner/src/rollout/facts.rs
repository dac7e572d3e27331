//! Records what happened to the targets of a rollout: failures, unreachable times, stops, waves that are done.
//!
//! The result differs from what is stored only when a fact is new, so that a target that becomes ready costs
//! no write of the promotion.

use std::time::Duration;

use api::{
    Time,
    pipeline::{TargetLimit, Wave},
    promotion::{Batch, RolloutStatus, RolloutStop, RolloutTarget},
};

use super::{RolloutContext, RolloutState, membership::count};
use crate::{
    hold::list,
    time::{Timestamp, later, stored},
};

impl RolloutContext<'_> {
    /// The rollout with everything that is known now.
    pub(crate) fn updated(&self, rollout: &RolloutStatus) -> RolloutStatus {
        let mut rollout = rollout.clone();
        self.add_joined(&mut rollout);
        self.apply_orders(&mut rollout);
        self.note_unreachable(&mut rollout);
        self.note_failures(&mut rollout);
        self.note_stop(&mut rollout);
        if self.stop(&rollout).is_none() {
            self.close_waves(&mut rollout);
        }
        rollout
    }

    fn apply_orders(&self, rollout: &mut RolloutStatus) {
        let Some(orders) = self.orders else { return };
        for target in &mut rollout.targets {
            target.skipped |= orders.skipped.contains(&target.target);
        }
        if later_than(&orders.retried_at, &rollout.retried_at) {
            rollout.retried_at.clone_from(&orders.retried_at);
            rollout.stopped = None;
            rollout.failed.clear();
            for target in &mut rollout.targets {
                target.failed = false;
                target.unreachable_seconds = 0;
            }
        }
        if later_than(&orders.resumed_at, &rollout.resumed_at) {
            rollout.resumed_at.clone_from(&orders.resumed_at);
            rollout.stopped = None;
            rollout.failed.clear();
        }
    }

    /// The time in which a target cannot be reached does not count towards `deployTimeout`.
    fn note_unreachable(&self, rollout: &mut RolloutStatus) {
        let batches = std::mem::take(&mut rollout.batches);
        for target in &mut rollout.targets {
            let status = self.targets.get(&target.target);
            let is_unreachable = status.is_some_and(|it| self.is_unreachable(it));
            let landed_at = landed_at(target, &batches);
            match (
                &target.unreachable_since,
                is_unreachable && self.is_in_flight(target),
            ) {
                (None, true) => {
                    let since = status.and_then(|it| it.unreadable_since.clone());
                    target.unreachable_since = since.or(Some(stored(self.now)));
                }
                (Some(since), false) => {
                    let since = landed_at.map_or(self.now, |landed| since.0.max(landed));
                    let seconds = self.now.as_second() - since.as_second();
                    target.unreachable_seconds += seconds.max(0);
                    target.unreachable_since = None;
                }
                _ => {}
            }
        }
        rollout.batches = batches;
    }

    fn note_failures(&self, rollout: &mut RolloutStatus) {
        let mut failed = Vec::new();
        for target in &rollout.targets {
            if self.is_in_flight(target) && self.has_failed(target, rollout) {
                failed.push(target.target.clone());
            }
        }
        for target in &mut rollout.targets {
            target.failed |= failed.contains(&target.target);
        }
        rollout.failed.extend(failed);
    }

    /// Whether its app says so, or it had `deployTimeout` since its change landed.
    fn has_failed(&self, target: &RolloutTarget, rollout: &RolloutStatus) -> bool {
        let Some(status) = self.targets.get(&target.target) else {
            return false;
        };
        let Some(deadline) = self.deadline(target, rollout) else {
            return false;
        };
        let says_so = !status.ready && status.failed.as_ref() == Some(&self.spec.revision);
        says_so || target.unreachable_since.is_none() && self.now >= deadline
    }

    /// Until when a target has to be ready; nothing before its change has landed.
    pub(super) fn deadline(
        &self,
        target: &RolloutTarget,
        rollout: &RolloutStatus,
    ) -> Option<Timestamp> {
        let landed = landed_at(target, &rollout.batches)?;
        let retried = rollout.retried_at.as_ref();
        let start = retried.map_or(landed, |it| it.0.max(landed));
        let paused = u64::try_from(target.unreachable_seconds).unwrap_or_default();
        let start = later(start, self.deploy_timeout);
        Some(later(start, Duration::from_secs(paused)))
    }

    /// More failures than allowed stop the rollout, for good: removing a failed target lifts nothing.
    fn note_stop(&self, rollout: &mut RolloutStatus) {
        let allowed = self.limit(self.settings.max_failures.as_ref(), rollout);
        let allowed = allowed.unwrap_or_default();
        if self.is_rollback || rollout.stopped.is_some() || rollout.failed.len() <= allowed {
            return;
        }
        let names = list(&rollout.failed);
        let message = match allowed {
            0 => format!("{names} failed"),
            _ => format!("{names} failed, which is more than {allowed}"),
        };
        rollout.stopped = Some(RolloutStop {
            at: Some(stored(self.now)),
            by: None,
            message: crate::conditions::cut(&message, LONGEST_MESSAGE),
        });
    }

    /// A limit as a number of the targets at the start; nothing where it is not set.
    pub(super) fn limit(
        &self,
        limit: Option<&TargetLimit>,
        rollout: &RolloutStatus,
    ) -> Option<usize> {
        let total = usize::try_from(rollout.total).unwrap_or_default();
        // A limit that cannot be read is the strictest one; the spec is invalid then.
        limit.map(|limit| limit.of(total).unwrap_or_default())
    }

    /// Waves end in order, each once.
    fn close_waves(&self, rollout: &mut RolloutStatus) {
        while let Some(number) = open_wave(rollout) {
            if !self.is_done(number, rollout) {
                return;
            }
            rollout.waves[number].done_at = Some(stored(self.now));
            if let Some(next) = rollout.waves.get_mut(number + 1) {
                next.opened_at = Some(stored(self.now));
            }
        }
    }

    /// Whether all reachable targets of a wave have been ready for its `soak`. Of a wave that has reachable
    /// targets or could have, one must be ready.
    fn is_done(&self, number: usize, rollout: &RolloutStatus) -> bool {
        let members = || members(number, rollout);
        let is_settled = |target: &RolloutTarget| match self.state(target) {
            RolloutState::Ready => self.soaked_at(number, target) <= self.now,
            RolloutState::Failed | RolloutState::Skipped | RolloutState::Removed => true,
            RolloutState::Unreachable => target.batch.is_none() || target.ready,
            RolloutState::Waiting | RolloutState::InFlight | RolloutState::NotReady => false,
        };
        let is_ready = |target: &RolloutTarget| self.state(target) == RolloutState::Ready;
        let is_unreachable =
            |target: &RolloutTarget| self.state(target) == RolloutState::Unreachable;
        let is_open_batch = rollout.open_batch().is_some();
        !is_open_batch
            && members().all(is_settled)
            && (members().any(is_ready) || !members().any(is_unreachable))
    }

    /// When a target that is ready has been so for the `soak` of its wave.
    pub(super) fn soaked_at(&self, number: usize, target: &RolloutTarget) -> Timestamp {
        let soak = self.wave(number).and_then(|it| it.soak.as_ref());
        let soak = soak.filter(|_| !self.is_rollback);
        let status = self.targets.get(&target.target);
        let since = status.and_then(|it| it.ready_since.as_ref());
        let since = since.map_or(self.now, |since| since.0);
        soak.map_or(since, |soak| later(since, soak.length()))
    }

    /// The settings of a wave; nothing for the rest, which no wave takes.
    pub(super) fn wave(&self, number: usize) -> Option<&Wave> {
        self.settings.waves.get(number)
    }
}

/// The longest message of a stop, in bytes.
const LONGEST_MESSAGE: usize = 1024;

/// The first wave that is not done.
pub(super) fn open_wave(rollout: &RolloutStatus) -> Option<usize> {
    rollout.waves.iter().position(|it| it.done_at.is_none())
}

/// The targets of a wave.
pub(super) fn members(
    number: usize,
    rollout: &RolloutStatus,
) -> impl Iterator<Item = &RolloutTarget> {
    let number = count(number);
    rollout.targets.iter().filter(move |it| it.wave == number)
}

/// When the change of a target landed.
pub(crate) fn landed_at(target: &RolloutTarget, batches: &[Batch]) -> Option<Timestamp> {
    let index = usize::try_from(target.batch?.checked_sub(1)?).ok()?;
    Some(batches.get(index)?.landed_at.as_ref()?.0)
}

fn later_than(one: &Option<Time>, other: &Option<Time>) -> bool {
    one.as_ref().map(|it| it.0) > other.as_ref().map(|it| it.0)
}

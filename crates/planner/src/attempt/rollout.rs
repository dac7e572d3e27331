//! The phases of a promotion that goes in waves: each batch is proposed, merged and deployed like a promotion
//! of its own, and the next one is stored before it is carried out.

use api::promotion::{Phase, PromotionStatus};

use super::{
    AttemptPlan,
    context::AttemptContext,
    lifecycle::{Attempt, stay},
};
use crate::{
    gate::targets,
    rollout::{NextBatch, RolloutContext, RolloutState},
    time::{Timestamp, stored},
};

impl<'a> Attempt<'a> {
    /// The next step of a promotion that goes in waves; `phase` is the one that is stored.
    pub(super) fn roll_out(mut self, phase: Phase) -> AttemptPlan {
        let Some(rollout) = &self.status.rollout else {
            return match self.context.is_deployed() {
                true => self.arrive(),
                false => self.run(),
            };
        };
        let Some(context) = self.rollout_context() else {
            return self.wait_for_targets();
        };
        let rollout = context.updated(rollout);
        let next = context.next(&rollout);
        let has_open_batch = rollout.open_batch().is_some();
        self.status.rollout = Some(rollout);
        match (next, phase) {
            (NextBatch::Finished, _) => self.arrive(),
            (_, Phase::Verifying) => self.verify(),
            (_, Phase::WaitingForMerge) if has_open_batch => self.follow(),
            _ if has_open_batch => self.run(),
            (next, _) => self.between_batches(next),
        }
    }

    /// Nothing while no target is known: the promotion may be seen before the status of the pipeline that it
    /// was planned from, and a rollout without targets would end at once.
    fn rollout_context(&self) -> Option<RolloutContext<'a>> {
        let AttemptContext {
            pipeline,
            promotion,
            ..
        } = self.context;
        let status = pipeline.status.as_ref()?;
        let context = RolloutContext::of(pipeline, status, promotion, self.now)?;
        context.has_targets().then_some(context)
    }

    fn wait_for_targets(self) -> AttemptPlan {
        let hold = targets::not_observed(&self.context.promotion.spec.environment);
        self.wait((hold.reason.word(), hold.message()), None)
    }

    /// Every batch has landed: waits, or stores the next one.
    pub(super) fn between_batches(mut self, next: NextBatch) -> AttemptPlan {
        let batch = match next {
            NextBatch::Start(batch) => batch,
            NextBatch::Hold(hold) => {
                return self.wait((hold.reason.word(), hold.message()), hold.opens_at);
            }
            NextBatch::Deploying { deadline } => {
                let message = self.deploying_text();
                return self.wait(("Deploying", message), deadline);
            }
            NextBatch::Open | NextBatch::Finished => return stay(self.status),
        };
        if let Some(text) = self.context.refusal() {
            return self.refuse(text);
        }
        if let Some(hold) = self.context.hold() {
            return self.wait((hold.reason.word(), hold.message()), hold.opens_at);
        }
        let context = self.rollout_context();
        let (Some(context), Some(rollout)) = (context, self.status.rollout.take()) else {
            return stay(self.status);
        };
        let rollout = context.started(rollout, &batch);
        let message = format!(
            "batch {} starts: {}",
            rollout.batches.len(),
            count_of_targets(batch.len())
        );
        self.status.rollout = Some(rollout);
        forget_batch(&mut self.status);
        self.set(Phase::Running, "Running", message);
        stay(self.status)
    }

    /// Nothing has been started: the waves are computed, and the first batch is stored.
    pub(super) fn begin_rollout(mut self) -> AttemptPlan {
        let Some(context) = self.rollout_context() else {
            return self.wait_for_targets();
        };
        let others = self.context.other_promotions();
        // A wave without targets, or whose targets all run the revision, is done at once.
        let rollout = context.updated(&context.begin(others));
        let next = context.next(&rollout);
        self.status.rollout = Some(rollout);
        self.status.started_at = self.status.started_at.or(Some(stored(self.now)));
        match next {
            NextBatch::Finished => self.arrive(),
            next => self.between_batches(next),
        }
    }

    fn wait(mut self, (reason, message): (&str, String), until: Option<Timestamp>) -> AttemptPlan {
        let phase = match self.status.merged_at {
            Some(_) => Phase::Deploying,
            None => Phase::Running,
        };
        self.set(phase, reason, message);
        AttemptPlan {
            requeue_at: until,
            ..stay(self.status)
        }
    }

    /// The targets that do not run the revision although the rollout has ended, as part of a sentence.
    pub(super) fn left_out(&self) -> String {
        let context = self.rollout_context();
        let rollout = self.status.rollout.as_ref();
        let (Some(context), Some(rollout)) = (context, rollout) else {
            return String::new();
        };
        let states = [
            RolloutState::Failed,
            RolloutState::Unreachable,
            RolloutState::Skipped,
            RolloutState::NotReady,
        ];
        let counts = states.map(|state| {
            let targets = rollout.targets.iter();
            (
                state,
                targets.filter(|it| context.state(it) == state).count(),
            )
        });
        let counts = counts.iter().filter(|(_, count)| *count > 0);
        let counts = counts.map(|(state, count)| format!("{count} {}", state.word()));
        let counts: Vec<_> = counts.collect();
        match counts.is_empty() {
            true => String::new(),
            false => format!("; left out: {}", counts.join(", ")),
        }
    }

    /// Says nothing that changes with each target: their counts are in the status of the pipeline.
    fn deploying_text(&self) -> String {
        let rollout = self.status.rollout.as_ref();
        let waves = rollout.map(|it| it.waves.as_slice()).unwrap_or_default();
        let open = waves.iter().position(|it| it.done_at.is_none());
        let number = open.map_or(waves.len(), |it| it + 1);
        let batch = rollout.map_or(0, |it| it.batches.len());
        format!(
            "wave {number} of {}: batch {batch} is being deployed",
            waves.len()
        )
    }

    /// The change of the open batch is in git, or was handed over.
    pub(super) fn batch_landed(mut self) -> AttemptPlan {
        land_batch(&mut self.status, self.now);
        let message = self.deploying_text();
        self.set(Phase::Deploying, "Deploying", message);
        stay(self.status)
    }
}

fn count_of_targets(count: usize) -> String {
    match count {
        1 => "1 target".to_owned(),
        _ => format!("{count} targets"),
    }
}

/// What is stored about the change of a batch belongs to the open one.
fn forget_batch(status: &mut PromotionStatus) {
    status.url = None;
    status.branch = None;
    status.commit = None;
    status.merge_scheduled = false;
    status.attempts = 0;
    status.next_attempt = None;
    status.feedback = None;
}

/// Records that the change of the open batch has landed.
pub(super) fn land_batch(status: &mut PromotionStatus, now: Timestamp) {
    let rollout = status.rollout.as_mut();
    let Some(batch) = rollout.and_then(|it| it.batches.last_mut()) else {
        return;
    };
    if batch.landed_at.is_none() {
        batch.landed_at = Some(stored(now));
        batch.url.clone_from(&status.url);
        batch.commit.clone_from(&status.commit);
    }
    status.merged_at.get_or_insert(stored(now));
}

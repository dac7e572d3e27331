//! What comes next in a rollout: the next batch, or what it waits for.

use api::promotion::{Batch, RolloutStatus, RolloutTarget};

use super::{
    RolloutContext, RolloutState,
    facts::{members, open_wave},
    membership::count,
};
use crate::{
    hold::{Hold, HoldReason, list},
    time::{Timestamp, stored},
};

/// What comes next.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum NextBatch {
    /// The change of the last batch has not landed yet.
    Open,
    /// These targets, by their keys, are the next batch.
    Start(Vec<String>),
    /// Targets that were started are neither ready nor failed.
    Deploying {
        /// When the first of them has to be ready.
        deadline: Option<Timestamp>,
    },
    /// Something else is waited for.
    Hold(Hold),
    /// Every wave is done.
    Finished,
}

impl RolloutContext<'_> {
    /// What comes next in an updated rollout.
    pub(crate) fn next(&self, rollout: &RolloutStatus) -> NextBatch {
        if let Some(hold) = self.stopped(rollout) {
            return NextBatch::Hold(hold);
        }
        if rollout.open_batch().is_some() {
            return NextBatch::Open;
        }
        let in_flight: Vec<_> = self.in_flight(rollout).collect();
        let reachable = in_flight.iter().filter(|it| it.unreachable_since.is_none());
        let reachable: Vec<_> = reachable.collect();
        if !reachable.is_empty() {
            let deadlines = reachable.iter().filter_map(|it| self.deadline(it, rollout));
            return NextBatch::Deploying {
                deadline: deadlines.min(),
            };
        }
        let open = open_wave(rollout);
        // Targets that came back or joined after the last wave was done are started with its limits.
        let number = open.unwrap_or(rollout.waves.len().saturating_sub(1));
        let waiting = self.startable(number, rollout);
        if open.is_none() && waiting.is_empty() {
            return NextBatch::Finished;
        }
        if let Some(hold) = self.too_many_unreachable(rollout) {
            return NextBatch::Hold(hold);
        }
        let limit = self.wave(number).and_then(|it| it.max_concurrent);
        let limit = limit.map_or(usize::MAX, |it| usize::try_from(it).unwrap_or(1).max(1));
        let room = limit.saturating_sub(in_flight.len());
        if room == 0 && !waiting.is_empty() {
            return NextBatch::Hold(no_room(number, rollout, &in_flight));
        }
        match self.batch(waiting, room) {
            Some(batch) => NextBatch::Start(batch),
            None => NextBatch::Hold(self.unfinished(number, rollout)),
        }
    }

    /// Why no further target is started, as a hold.
    pub(crate) fn stopped(&self, rollout: &RolloutStatus) -> Option<Hold> {
        let stop = self.stop(rollout)?;
        let who = match &stop.by {
            Some(by) => format!("{by} stopped the rollout"),
            None => "the rollout is stopped".to_owned(),
        };
        let sentence = match stop.message.is_empty() {
            true => who,
            false => format!("{who}: {}", stop.message),
        };
        let resolved_by = "resuming the rollout, a newer revision or a rollback";
        Some(Hold::new(HoldReason::RolloutStopped, sentence, resolved_by))
    }

    fn in_flight<'b>(
        &'b self,
        rollout: &'b RolloutStatus,
    ) -> impl Iterator<Item = &'b RolloutTarget> {
        let targets = rollout.targets.iter();
        targets.filter(|target| self.is_in_flight(target))
    }

    /// The targets of a wave and of those before it that can be started, also those that were unreachable
    /// when their wave ended.
    fn startable<'b>(&self, number: usize, rollout: &'b RolloutStatus) -> Vec<&'b RolloutTarget> {
        let number = count(number);
        let targets = rollout.targets.iter();
        targets
            .filter(|it| it.wave <= number && self.is_startable(it))
            .collect()
    }

    /// The next batch of at most this size. Targets that joined have batches of their own: they are not part
    /// of what people approved. They come last.
    fn batch(&self, waiting: Vec<&RolloutTarget>, room: usize) -> Option<Vec<String>> {
        let joined = waiting.first()?.joined;
        let same = waiting.iter().filter(|it| it.joined == joined);
        let batch: Vec<_> = same.take(room).map(|it| it.target.clone()).collect();
        (!batch.is_empty()).then_some(batch)
    }

    fn too_many_unreachable(&self, rollout: &RolloutStatus) -> Option<Hold> {
        let limit = self.settings.max_unreachable.as_ref();
        let limit = self.limit(limit.filter(|_| !self.is_rollback), rollout)?;
        let targets = rollout.targets.iter();
        let unreachable = targets.filter(|it| self.state(it) == RolloutState::Unreachable);
        let names: Vec<_> = unreachable.map(|it| it.target.as_str()).collect();
        (names.len() > limit).then(|| {
            let sentence = format!(
                "{} targets cannot be reached, and at most {limit} may be: {}",
                names.len(),
                list(&names)
            );
            let resolved_by = "making them reachable again, or skipping them";
            Hold::new(HoldReason::TooManyUnreachable, sentence, resolved_by)
        })
    }

    /// What an open wave waits for where nothing can be started and nothing is in flight that is reachable.
    fn unfinished(&self, number: usize, rollout: &RolloutStatus) -> Hold {
        let wave = wave_name(number, rollout);
        let in_state = |state| {
            let members = members(number, rollout);
            let named = members.filter(move |it| self.state(it) == state);
            named.map(|it| it.target.as_str()).collect::<Vec<_>>()
        };
        let not_ready = in_state(RolloutState::NotReady);
        if !not_ready.is_empty() {
            let sentence = format!("{wave}: {} is not ready any more", list(&not_ready));
            let resolved_by = "its app becoming ready, or skipping it";
            return Hold::new(HoldReason::WaveNotReady, sentence, resolved_by);
        }
        let ready = members(number, rollout);
        let ready = ready.filter(|it| self.state(it) == RolloutState::Ready);
        let soaked_at = ready.map(|it| self.soaked_at(number, it)).max();
        if let Some(at) = soaked_at.filter(|at| *at > self.now) {
            let sentence = format!("{wave} must stay ready until {at}");
            let hold = Hold::new(HoldReason::WaveSoaking, sentence, "waiting");
            return Hold {
                opens_at: Some(at),
                ..hold
            };
        }
        let unreachable = in_state(RolloutState::Unreachable);
        match unreachable.is_empty() {
            false => Hold::new(
                HoldReason::WaveNotReady,
                format!("{wave}: {} cannot be reached", list(&unreachable)),
                "making it reachable again, or skipping it",
            ),
            true => Hold::new(
                HoldReason::WaveNotReady,
                format!("{wave}: not all of its clusters have been read yet"),
                "the first observation of each",
            ),
        }
    }

    /// The rollout with one more batch. What became ready is recorded with it.
    pub(crate) fn started(&self, mut rollout: RolloutStatus, batch: &[String]) -> RolloutStatus {
        let number = count(rollout.batches.len() + 1);
        let ready: Vec<bool> = rollout
            .targets
            .iter()
            .map(|it| it.batch.is_some() && self.state(it) == RolloutState::Ready)
            .collect();
        for (target, is_ready) in rollout.targets.iter_mut().zip(ready) {
            target.ready |= is_ready;
            if batch.contains(&target.target) {
                target.batch = Some(number);
            }
        }
        rollout.batches.push(Batch {
            number,
            started_at: Some(stored(self.now)),
            ..Batch::default()
        });
        rollout
    }
}

/// `wave 2 of 3`.
pub(super) fn wave_name(number: usize, rollout: &RolloutStatus) -> String {
    format!("wave {} of {}", number + 1, rollout.waves.len())
}

fn no_room(number: usize, rollout: &RolloutStatus, in_flight: &[&RolloutTarget]) -> Hold {
    let names: Vec<_> = in_flight.iter().map(|it| it.target.as_str()).collect();
    let wave = wave_name(number, rollout);
    let sentence = format!(
        "{wave}: {} was started and cannot be reached, and no more may be changing at the same time",
        list(&names)
    );
    let resolved_by = "making it reachable again, or skipping it";
    Hold::new(HoldReason::TooManyUnreachable, sentence, resolved_by)
}

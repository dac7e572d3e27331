//! A rollout as people see it: its waves with their targets, and the summary in the status of the Pipeline.

use api::{
    LabelSelector, Pipeline, Promotion, Time,
    pipeline::{PipelineStatus, RolloutSummary, Wave, WaveSummary},
    promotion::{RolloutStatus, RolloutStop},
};

use super::{
    RolloutContext, RolloutState,
    facts::{members, open_wave},
    membership::count,
};
use crate::{
    promotion_phase::{creation_order, name_of},
    time::Timestamp,
};

/// A rollout with its waves.
#[derive(Clone, Debug, PartialEq)]
pub struct RolloutView {
    /// The Promotion's name.
    pub promotion: String,
    /// The revision for people.
    pub revision: String,
    /// The waves, in order.
    pub waves: Vec<WaveView>,
    /// Why no further target is started.
    pub stopped: Option<RolloutStop>,
    /// Whether it has ended.
    pub has_ended: bool,
}

/// One wave.
#[derive(Clone, Debug, PartialEq)]
pub struct WaveView {
    /// Its number, from 1.
    pub number: usize,
    /// What it takes, such as `ring=canary`, `20 % of the targets` or `the rest`.
    pub takes: String,
    /// How many targets may be changing at the same time.
    pub max_concurrent: Option<i64>,
    /// Whether it is the one that is under way.
    pub is_open: bool,
    /// When it was done.
    pub done_at: Option<Time>,
    /// When it will have been ready for long enough, while that is what it waits for.
    pub soaks_until: Option<Timestamp>,
    /// Its targets, in the order in which they are started.
    pub targets: Vec<TargetView>,
}

/// One target of a wave.
#[derive(Clone, Debug, PartialEq)]
pub struct TargetView {
    /// `cluster/namespace`; the cluster is `-` on the hub.
    pub target: String,
    /// Its state.
    pub state: RolloutState,
    /// The number of the batch that it was started with, from 1.
    pub batch: Option<i64>,
    /// The URL of the pull request of that batch.
    pub url: Option<String>,
    /// The revision that it runs, for people.
    pub runs: Option<String>,
    /// Why it is not ready, where its app or its cluster says.
    pub message: Option<String>,
}

impl WaveView {
    /// How many of its targets are in a state.
    pub fn count(&self, state: RolloutState) -> usize {
        self.targets.iter().filter(|it| it.state == state).count()
    }
}

/// The rollout under way into an environment, else the last one.
pub fn rollout_view(
    pipeline: &Pipeline,
    promotions: &[Promotion],
    environment: &str,
    now: Timestamp,
) -> Option<RolloutView> {
    let model = pipeline.status.as_ref()?;
    let promotion = shown(pipeline, promotions, environment)?;
    let context = RolloutContext::of(pipeline, model, promotion, now)?;
    let stored = promotion.status.as_ref()?.rollout.as_ref()?;
    let has_ended = has_ended(promotion);
    let rollout = match has_ended {
        true => stored.clone(),
        false => context.updated(stored),
    };
    let waves = 0..rollout.waves.len();
    Some(RolloutView {
        promotion: name_of(promotion),
        revision: promotion.spec.shown_revision(),
        waves: waves.map(|it| context.wave_view(it, &rollout)).collect(),
        stopped: context.stop(&rollout).filter(|_| !has_ended).cloned(),
        has_ended,
    })
}

/// The rollout of an environment as it is stored in the status of the pipeline.
pub(crate) fn rollout_summary<'a>(
    pipeline: &'a Pipeline,
    model: &'a PipelineStatus,
    promotions: impl IntoIterator<Item = &'a Promotion>,
    environment: &str,
    now: Timestamp,
) -> Option<RolloutSummary> {
    let promotion = shown(pipeline, promotions, environment)?;
    let context = RolloutContext::of(pipeline, model, promotion, now)?;
    let status = promotion.status.as_ref()?;
    let rollout = status.rollout.as_ref()?;
    let stop = context.stop(rollout).filter(|_| !has_ended(promotion));
    Some(RolloutSummary {
        promotion: name_of(promotion),
        revision: promotion.spec.revision.clone(),
        waves: context.wave_summaries(rollout),
        stopped: stop.cloned(),
        finished_at: status.finished_at.clone(),
    })
}

fn has_ended(promotion: &Promotion) -> bool {
    let phase = promotion.status.as_ref().and_then(|it| it.phase);
    phase.is_some_and(|phase| phase.is_terminal())
}

/// The newest promotion that goes in waves and has begun; of those, one that has not ended.
fn shown<'a>(
    pipeline: &Pipeline,
    promotions: impl IntoIterator<Item = &'a Promotion>,
    environment: &str,
) -> Option<&'a Promotion> {
    let has_begun = |it: &&Promotion| {
        pipeline.metadata.name.as_ref() == Some(&it.spec.pipeline)
            && it.spec.environment == environment
            && it.status.as_ref().is_some_and(|it| it.rollout.is_some())
    };
    let begun = promotions.into_iter().filter(has_begun);
    begun.max_by_key(|it| (!has_ended(it), creation_order(it)))
}

impl RolloutContext<'_> {
    fn wave_view(&self, number: usize, rollout: &RolloutStatus) -> WaveView {
        let status = &rollout.waves[number];
        let is_open = open_wave(rollout) == Some(number);
        let targets = members(number, rollout).map(|it| TargetView {
            target: it.target.clone(),
            state: self.state(it),
            batch: it.batch,
            url: it.batch.and_then(|batch| url_of(batch, rollout)),
            runs: self
                .targets
                .get(&it.target)
                .and_then(|it| it.shown_revision()),
            message: self.targets.get(&it.target).and_then(|it| it.error.clone()),
        });
        let targets: Vec<_> = targets.collect();
        let all_ready = targets.iter().all(|it| it.state == RolloutState::Ready);
        let soaked_at = members(number, rollout).map(|it| self.soaked_at(number, it));
        let soaked_at = soaked_at.max().filter(|at| *at > self.now);
        let wave = self.wave(number);
        WaveView {
            number: number + 1,
            takes: wave.map_or_else(|| REST.to_owned(), takes),
            max_concurrent: wave.and_then(|it| it.max_concurrent),
            is_open,
            done_at: status.done_at.clone(),
            soaks_until: soaked_at.filter(|_| is_open && all_ready),
            targets,
        }
    }

    fn wave_summaries(&self, rollout: &RolloutStatus) -> Vec<WaveSummary> {
        let waves = rollout.waves.iter().enumerate();
        waves
            .map(|(number, wave)| {
                let states: Vec<_> = members(number, rollout).map(|it| self.state(it)).collect();
                let number_of = |wanted: &[RolloutState]| {
                    count(states.iter().filter(|it| wanted.contains(it)).count())
                };
                WaveSummary {
                    targets: count(states.len()),
                    ready: number_of(&[RolloutState::Ready]),
                    in_flight: number_of(&[RolloutState::InFlight, RolloutState::NotReady]),
                    failed: number_of(&[RolloutState::Failed]),
                    unreachable: number_of(&[RolloutState::Unreachable]),
                    skipped: number_of(&[RolloutState::Skipped, RolloutState::Removed]),
                    opened_at: wave.opened_at.clone(),
                    done_at: wave.done_at.clone(),
                }
            })
            .collect()
    }
}

const REST: &str = "the rest";

fn url_of(batch: i64, rollout: &RolloutStatus) -> Option<String> {
    let batch = rollout.batches.iter().find(|it| it.number == batch)?;
    batch.url.clone()
}

/// What a wave takes, for people.
fn takes(wave: &Wave) -> String {
    let selector = wave.selector.as_ref().map(selector_text);
    let percent = wave.percent.map(|it| format!("{it} % of the targets"));
    match (percent, selector) {
        (Some(percent), Some(selector)) => format!("{percent} with {selector}"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => REST.to_owned(),
    }
}

fn selector_text(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().flatten();
    let labels = labels.map(|(key, value)| format!("{key}={value}"));
    let expressions = selector.match_expressions.iter().flatten().map(|it| {
        let values = it.values.iter().flatten().cloned().collect::<Vec<_>>();
        match values.is_empty() {
            true => format!("{} {}", it.key, it.operator),
            false => format!("{} {} ({})", it.key, it.operator, values.join(", ")),
        }
    });
    let all: Vec<_> = labels.chain(expressions).collect();
    match all.is_empty() {
        true => "any label".to_owned(),
        false => all.join(", "),
    }
}

//! Waits for a pipeline to reach a state: evaluates it again whenever the pipeline or one of its
//! promotions changes, and prints what it is waiting for.

use std::{pin::pin, time::Duration};

use anyhow::bail;
use api::{Pipeline, Promotion, promotion::Phase};
use futures::{Stream, StreamExt, stream};
use kube::{
    ResourceExt,
    runtime::{WatchStreamExt, watcher},
};

use super::{
    WaitTimeout,
    cluster::{Cluster, key, promotions_of},
    message::print_message,
    terminal::{clean, shown},
};

/// How often the state is evaluated without a watch event, in case a watch is lost.
const POLL_INTERVAL: Duration = Duration::from_secs(15);

/// The flags of commands that can wait for their result.
#[derive(Debug, clap::Args)]
pub(super) struct WaitFlags {
    /// Wait for the result: until the environment runs the revision; of `cancel`, until the promotion has ended
    #[arg(long)]
    wait: bool,
    /// How long to wait, such as 90s or 10m
    #[arg(long, value_name = "TIME", default_value = "15m")]
    timeout: api::Duration,
}

/// Whether to keep waiting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum WaitState {
    Done,
    /// Keep waiting; the text says for what.
    Waiting(String),
    /// It cannot be reached any more; the text says why.
    Failed(String),
}

impl WaitFlags {
    /// Waits, if the flag is set, until `state` is [`WaitState::Done`], and says what the environment runs then.
    pub(super) async fn wait(
        &self,
        cluster: &Cluster,
        (pipeline, environment): (&Pipeline, &str),
        state: impl Fn(&Pipeline, &[Promotion]) -> WaitState,
    ) -> anyhow::Result<()> {
        if !self.wait {
            return Ok(());
        }
        let timeout = Duration::from(&self.timeout);
        let (pipeline, state) = wait_until(cluster, timeout, pipeline, state).await?;
        match state {
            WaitState::Done => {
                let status = pipeline.status.as_ref();
                let status = status.and_then(|it| it.environments.get(environment));
                let runs = planner::running_revisions(status);
                print_message(&clean(&format!("{environment} runs {runs}")));
                Ok(())
            }
            WaitState::Waiting(text) => Err(WaitTimeout(clean(&text)).into()),
            WaitState::Failed(text) => bail!("{}", clean(&text)),
        }
    }
}

/// Waits until `state` is final or the timeout. Returns the last pipeline and its state.
pub(super) async fn wait_until(
    cluster: &Cluster,
    timeout: Duration,
    pipeline: &Pipeline,
    state: impl Fn(&Pipeline, &[Promotion]) -> WaitState,
) -> anyhow::Result<(Pipeline, WaitState)> {
    let (namespace, name) = key(pipeline);
    let mut changes = pin!(changes(cluster, pipeline));
    let deadline = tokio::time::Instant::now() + timeout;
    let mut printed = String::new();
    loop {
        let pipeline = cluster.pipeline_in(namespace, name).await?;
        let promotions = cluster.promotions(&pipeline).await?;
        let state = state(&pipeline, &promotions);
        let WaitState::Waiting(text) = &state else {
            return Ok((pipeline, state));
        };
        if *text != printed {
            print_message(&format!("waiting: {}", shown(text)));
            printed.clone_from(text);
        }
        if tokio::time::timeout_at(deadline, changes.next())
            .await
            .is_err()
        {
            return Ok((pipeline, state));
        }
    }
}

/// Yields whenever the pipeline or one of its promotions changes, and once per interval.
fn changes(cluster: &Cluster, pipeline: &Pipeline) -> impl Stream<Item = ()> + use<> {
    let (namespace, name) = key(pipeline);
    let own = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let pipelines = watcher(cluster.api::<Pipeline>(namespace), own);
    let labelled = watcher::Config::default().labels(&promotions_of(name));
    let promotions = watcher(cluster.api::<Promotion>(namespace), labelled);
    let pipelines = pipelines.default_backoff().map(|_| ()).boxed();
    let promotions = promotions.default_backoff().map(|_| ()).boxed();
    let interval = tokio::time::interval(POLL_INTERVAL);
    let ticks = stream::unfold(interval, |mut interval| async {
        interval.tick().await;
        Some(((), interval))
    });
    stream::select_all([pipelines, promotions, ticks.boxed()])
}

/// Done when a promotion has ended, in whatever way.
pub(super) fn ended_state(name: &str, promotions: &[Promotion]) -> WaitState {
    let promotion = promotions.iter().find(|it| it.name_any() == name);
    let phase = promotion.map(|it| it.status.as_ref().and_then(|it| it.phase));
    match phase {
        Some(Some(phase)) if !phase.is_terminal() => {
            WaitState::Waiting(format!("promotion {name} is {phase:?}"))
        }
        Some(None) => WaitState::Waiting(format!("promotion {name} has not started yet")),
        _ => WaitState::Done,
    }
}

/// Done when all these promotions have succeeded, failed when one of them cannot succeed any more.
pub(super) fn promotions_state(names: &[String], promotions: &[Promotion]) -> WaitState {
    for name in names {
        let Some(promotion) = promotions.iter().find(|it| it.name_any() == *name) else {
            return WaitState::Failed(format!("promotion {name} was deleted"));
        };
        let status = promotion.status.clone().unwrap_or_default();
        let (phase, revision) = (status.phase, promotion.spec.shown_revision());
        let why = status.message.or(status.url);
        let why = why.map(|why| format!(": {why}")).unwrap_or_default();
        let text = match phase {
            Some(Phase::Succeeded) => continue,
            Some(phase) => format!("{revision} is {phase:?}{why}"),
            None => format!("the promotion of {revision} has not started yet"),
        };
        return match phase.is_some_and(Phase::is_terminal) {
            true => WaitState::Failed(text),
            false => WaitState::Waiting(text),
        };
    }
    WaitState::Done
}

//! Waiting for something to happen to a pipeline: looks again whenever it or one of its promotions
//! changes, and says on the way what it is waiting for.

use std::{pin::pin, time::Duration};

use api::{Pipeline, Promotion};
use futures::{Stream, StreamExt, stream};
use kube::runtime::{WatchStreamExt, watcher};

use super::cluster::{Cluster, key, promotions_of};

/// How far things are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Done,
    /// What is still missing.
    Waiting(String),
    /// Why waiting is pointless.
    Failed(String),
}

/// Where to look, and for how long.
pub(super) struct Until<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) timeout: Duration,
}

/// Waits until there is nothing to wait for or the time is up. Returns the pipeline as it was then.
pub(super) async fn follow(
    until: Until<'_>,
    pipeline: &Pipeline,
    judge: impl Fn(&Pipeline, &[Promotion]) -> Progress,
) -> anyhow::Result<(Pipeline, Progress)> {
    let cluster = until.cluster;
    let (namespace, name) = key(pipeline);
    let mut changes = pin!(changes(cluster, pipeline));
    let deadline = tokio::time::Instant::now() + until.timeout;
    let mut told = String::new();
    loop {
        let pipeline = cluster.pipeline(&format!("{namespace}/{name}")).await?;
        let promotions = cluster.promotions(&pipeline).await?;
        let progress = judge(&pipeline, &promotions);
        let Progress::Waiting(text) = &progress else {
            return Ok((pipeline, progress));
        };
        if *text != told {
            anstream::eprintln!("waiting: {}", super::terminal::clean(text));
            told.clone_from(text);
        }
        if tokio::time::timeout_at(deadline, changes.next())
            .await
            .is_err()
        {
            return Ok((pipeline, progress));
        }
    }
}

/// Says something whenever the pipeline or one of its promotions changes, and now and then anyway:
/// a watch may be gone without a word.
fn changes(cluster: &Cluster, pipeline: &Pipeline) -> impl Stream<Item = ()> + use<> {
    let (namespace, name) = key(pipeline);
    let own = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let pipelines = watcher(cluster.api::<Pipeline>(namespace), own);
    let labelled = watcher::Config::default().labels(&promotions_of(name));
    let promotions = watcher(cluster.api::<Promotion>(namespace), labelled);
    let pipelines = pipelines.default_backoff().map(|_| ()).boxed();
    let promotions = promotions.default_backoff().map(|_| ()).boxed();
    let interval = tokio::time::interval(Duration::from_secs(15));
    let ticks = stream::unfold(interval, |mut interval| async {
        interval.tick().await;
        Some(((), interval))
    });
    stream::select_all([pipelines, promotions, ticks.boxed()])
}

//! Checks the strategies of each pipeline, and the hosts that its checks ask, before a promotion needs them, and
//! stores what is wrong in `status.preflight`, and what cannot be checked in `status.notChecked`.
//!
//! A pipeline is checked when its spec changes and at intervals. Pipelines with the same repository and Secret
//! share a check. Nothing else writes these fields.

use std::{
    collections::{BTreeMap, HashMap},
    ops::Deref,
    sync::Arc,
    time::Duration,
};

use api::{
    Pipeline,
    pipeline::{PreflightProblem, Strategy},
};
use net::HostPatterns;
use parking_lot::Mutex;
use planner::{CHECK_HOST_NOT_ALLOWED, Failure};
use runtime::{
    CacheEvent, ObjectKey, RequeueAction, Subscription, TtlCache, Workers, status::StatusError,
};
use tokio::time::Instant;

use crate::{
    caches::PipelineShard,
    check::http::{refused_host, usable_url},
    reconciler_base::{ReconcilerBase, StatusWrite},
    strategy::Strategies,
};

/// Under this name the reconciler writes to the caches and reads its metrics.
const NAME: &str = "preflight";
/// How many pipelines are checked at the same time.
const CONCURRENT: usize = 4;
/// How often a pipeline is checked whose strategies have problems, and one without.
const WITH_PROBLEMS: Duration = Duration::from_secs(60);
const WITHOUT_PROBLEMS: Duration = Duration::from_secs(1800);
/// For how long pipelines share that a strategy is usable.
const SHARED: Duration = Duration::from_secs(30);
const CAPACITY: usize = 1024;
/// How long a pipeline waits after a failed write.
const RETRY: Duration = Duration::from_secs(5);

/// The namespace and the strategy as JSON.
type StrategyKey = (String, String);

/// Checks the strategies of pipelines.
pub(crate) struct PreflightReconciler {
    base: ReconcilerBase,
    pipelines: PipelineShard,
    workers: Arc<Workers<ObjectKey>>,
    strategies: Arc<Strategies>,
    results: TtlCache<StrategyKey, CheckResult>,
    /// The generation that was checked, and when the next check is due.
    checked: Mutex<HashMap<ObjectKey, (Option<i64>, Instant)>>,
}

/// What would fail, otherwise what could not be checked.
type CheckResult = Result<Option<Failure>, Failure>;
/// What was found, by environment name.
type Findings = BTreeMap<String, PreflightProblem>;

/// Runs the reconciler until dropped.
pub(crate) async fn run(reconciler: Arc<PreflightReconciler>) {
    reconciler.caches.pipelines.synced().await;
    let _subscription = reconciler.subscribe();
    for key in reconciler.caches.pipelines.keys() {
        reconciler.workers.enqueue(key);
    }
    let workers = reconciler.workers.clone();
    let reconcile = move |key: ObjectKey| {
        let reconciler = reconciler.clone();
        async move { reconciler.reconcile(&key).await }
    };
    workers.run(reconcile).await;
}

impl Deref for PreflightReconciler {
    type Target = ReconcilerBase;

    fn deref(&self) -> &ReconcilerBase {
        &self.base
    }
}

impl PreflightReconciler {
    pub(crate) fn with(base: ReconcilerBase, strategies: Arc<Strategies>) -> Arc<Self> {
        let selector = base.settings.label_selector.as_deref();
        Arc::new(Self {
            pipelines: PipelineShard::new(&base.caches, selector),
            workers: base.telemetry.workers(NAME, CONCURRENT),
            strategies,
            results: TtlCache::new(SHARED, CAPACITY),
            checked: Mutex::default(),
            base,
        })
    }

    /// Enqueues pipelines whose spec changed.
    fn subscribe(self: &Arc<Self>) -> Subscription {
        let this = self.clone();
        self.caches
            .pipelines
            .subscribe(NAME, move |event| match event {
                CacheEvent::Applied { key, .. } => this.workers.enqueue(key.clone()),
                CacheEvent::Deleted { key, .. } => {
                    this.checked.lock().remove(key);
                    this.workers.forget(key);
                }
            })
    }

    async fn reconcile(&self, key: &ObjectKey) -> RequeueAction {
        let Some(pipeline) = self.pipelines.get(key) else {
            return RequeueAction::AwaitChange;
        };
        let generation = pipeline.metadata.generation;
        if let Some((known, due)) = self.checked.lock().get(key)
            && *known == generation
            && Instant::now() < *due
        {
            return RequeueAction::After(due.duration_since(Instant::now()));
        }
        let (mut problems, not_checked) = self.findings(&pipeline).await;
        let again = match problems.is_empty() {
            true => WITHOUT_PROBLEMS,
            false => WITH_PROBLEMS,
        };
        // Only an edit or a restart allows a host: these are no reason to ask repositories again soon.
        for (environment, refused) in refused_hosts(&self.settings.check_hosts, &pipeline) {
            problems.entry(environment).or_insert(refused);
        }
        match self.write(&pipeline, problems, not_checked).await {
            Ok(StatusWrite::Unchanged | StatusWrite::Written) => {}
            Ok(StatusWrite::Outdated) => return RequeueAction::After(Duration::ZERO),
            Err(error) => {
                tracing::warn!(pipeline = %key, %error, "could not store the result of the preflight check");
                return RequeueAction::RetryError(RETRY);
            }
        }
        let due = Instant::now() + again;
        self.checked.lock().insert(key.clone(), (generation, due));
        RequeueAction::After(again)
    }

    /// What is wrong with the strategy of each environment, and what could not be checked.
    async fn findings(&self, pipeline: &Pipeline) -> (Findings, Findings) {
        let (mut problems, mut not_checked) = (Findings::new(), Findings::new());
        for (environment, strategy) in planner::strategies_in_use(&pipeline.spec) {
            let environment = environment.to_owned();
            match self.check(pipeline, strategy).await {
                Ok(None) => None,
                Ok(Some(untold)) => not_checked.insert(environment, finding(untold)),
                Err(failure) => problems.insert(environment, finding(failure)),
            };
        }
        (problems, not_checked)
    }

    async fn check(&self, pipeline: &Pipeline, strategy: &Strategy) -> CheckResult {
        let namespace = pipeline.metadata.namespace.clone().unwrap_or_default();
        let key = serde_json::to_string(strategy).unwrap_or_default();
        let lookup = async {
            let checked = self.strategies.check(&namespace, strategy).await;
            // Failures are not shared: somebody may be correcting the Secret.
            let time_to_live = checked.as_ref().map_or(Duration::ZERO, |_| SHARED);
            (checked, time_to_live)
        };
        let key = (namespace.clone(), key);
        self.results.get_with_ttl(key, lookup).await
    }

    async fn write(
        &self,
        pipeline: &Pipeline,
        problems: Findings,
        not_checked: Findings,
    ) -> Result<StatusWrite, StatusError> {
        let mut status = pipeline.status.clone().unwrap_or_default();
        status.preflight = problems;
        status.not_checked = not_checked;
        let cache = &self.caches.pipelines;
        self.write_status(cache, NAME, pipeline, &status).await
    }
}

/// The checks that may not send their requests. A URL that is not usable has no host to allow.
fn refused_hosts(hosts: &HostPatterns, pipeline: &Pipeline) -> Vec<(String, PreflightProblem)> {
    let name = pipeline.metadata.name.as_deref().unwrap_or_default();
    let urls = planner::check_urls(name, &pipeline.spec).into_iter();
    let refused = urls.filter_map(|it| {
        let url = usable_url(&it.url).ok()?;
        let text = refused_host(hosts, &url)?;
        let text = format!("the check {} cannot be measured: {text}", it.check);
        let problem = problem(CHECK_HOST_NOT_ALLOWED, &text);
        Some((it.environment.to_owned(), problem))
    });
    refused.collect()
}

fn finding(failure: Failure) -> PreflightProblem {
    problem(&failure.reason, &failure.message)
}

/// A problem whose text is not longer than the CRD allows.
fn problem(reason: &str, message: &str) -> PreflightProblem {
    PreflightProblem {
        reason: reason.to_owned(),
        message: message.chars().take(1024).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_usable_url_has_a_host_to_allow() {
        let refused = |address: &str| {
            let spec = serde_json::json!({
                "checks": [{"name": "errors", "prometheus": {
                    "address": address, "query": "up", "passExpr": "value == 1"
                }}],
                "environments": [{
                    "name": "dev", "targets": [{"namespace": "dev"}], "verify": {"checks": ["errors"]}
                }]
            });
            let pipeline = Pipeline::new("shop", serde_json::from_value(spec).unwrap());
            let refused = refused_hosts(&HostPatterns::default(), &pipeline);
            refused.into_iter().map(|(_, it)| it.message).next()
        };
        for address in [
            "prometheus:9090",
            "localhost:9090",
            "ftp://prometheus/",
            "http://ann:secret@prometheus/",
        ] {
            assert_eq!(refused(address), None, "{address}");
        }
        assert_eq!(
            refused("http://prometheus:9090").as_deref(),
            Some(
                "the check errors cannot be measured: checks may not ask prometheus:9090: add it to \
                 --check-hosts of the controller (checks.hosts of the chart)"
            )
        );
    }
}

//! The state that all handlers share, and how a handler waits for the controller.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use api::Pipeline;
use kube::Client;
use parking_lot::Mutex;
use planner::hook::{AwaitedPromotion, PromotionResult, promotion_result};
use tokio::{sync::Mutex as AsyncMutex, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    Metrics, Settings,
    access::AccessReviewer,
    dashboard::PipelineRows,
    hooks::BodyBudget,
    leaf::LeafReader,
    rate_limiter::RateLimiter,
    session::Sessions,
    signing_keys::SigningKeys,
    watched::{ObjectKey, Watched},
};

/// The state that all handlers share.
pub struct AppState {
    pub(crate) client: Client,
    pub(crate) settings: Settings,
    pub(crate) metrics: Metrics,
    pub(crate) watched: Arc<Watched>,
    pub(crate) signing_keys: SigningKeys,
    pub(crate) access: AccessReviewer,
    pub(crate) sessions: Sessions,
    /// Reads apps and their objects from clusters.
    pub(crate) leaf_reader: LeafReader,
    /// The rendered rows of the dashboard's list, shared by all viewers.
    pub(crate) pipeline_rows: PipelineRows,
    /// Ends streams and background tasks.
    pub(crate) stop: CancellationToken,
    /// Limits hook requests without a valid signature, by client address.
    pub(crate) unauthenticated_hooks: RateLimiter<IpAddr>,
    /// Limits REST and dashboard requests without a valid token, by client address.
    pub(crate) unauthenticated_requests: RateLimiter<IpAddr>,
    /// Limits signed hook requests, by pipeline.
    pub(crate) signed_hooks: RateLimiter<ObjectKey>,
    /// Bounds the memory that the bodies of hook requests take.
    pub(crate) body_budget: BodyBudget,
    /// Serializes status writes, by pipeline.
    pub(crate) write_locks: Mutex<HashMap<ObjectKey, Arc<AsyncMutex<()>>>>,
}

impl AppState {
    /// Watches in the background until `stop`.
    pub fn new(
        client: Client,
        settings: Settings,
        metrics: Metrics,
        stop: &CancellationToken,
    ) -> Arc<Self> {
        let (limit, interval) = (settings.rate_limit, settings.rate_interval);
        Arc::new(Self {
            watched: Watched::start(client.clone(), settings.namespace.clone(), stop),
            signing_keys: SigningKeys::new(client.clone()),
            access: AccessReviewer::new(client.clone()),
            sessions: Sessions::new(client.clone()),
            leaf_reader: LeafReader::new(client.clone(), settings.leaf_connector.clone()),
            pipeline_rows: PipelineRows::default(),
            stop: stop.clone(),
            unauthenticated_hooks: RateLimiter::new(limit, interval),
            unauthenticated_requests: RateLimiter::new(limit, interval),
            signed_hooks: RateLimiter::new(limit, interval),
            body_budget: BodyBudget::default(),
            write_locks: Mutex::default(),
            client,
            settings,
            metrics,
        })
    }

    /// Waits until the controller has acted on a promotion; nothing if it takes longer than the wait
    /// time. `approved` is the name of the promotion, if it is known.
    pub(crate) async fn wait_for_promotion(
        &self,
        key: &ObjectKey,
        awaited: &AwaitedPromotion,
        approved: Option<&str>,
    ) -> Option<PromotionResult> {
        self.wait_for(key, |pipeline| {
            let named = approved.or_else(|| promotion_into(pipeline, &awaited.environment));
            let promotion = named.and_then(|name| self.watched.promotion(&key.namespace, name));
            promotion_result(pipeline, promotion.as_deref(), awaited)
        })
        .await
    }

    /// Evaluates a pipeline each time it or its promotions change, until there is a result or the wait
    /// time is over.
    pub(crate) async fn wait_for<T>(
        &self,
        key: &ObjectKey,
        evaluate: impl Fn(&Pipeline) -> Option<T>,
    ) -> Option<T> {
        let mut changes = self.watched.follow(key);
        let current = || self.watched.known(key).and_then(|it| evaluate(&it));
        let waiting = async {
            loop {
                if let Some(result) = current() {
                    return Some(result);
                }
                changes.changed().await.ok()?;
            }
        };
        timeout(self.settings.wait, waiting).await.ok().flatten()
    }
}

/// The name of the promotion in the status of an environment.
fn promotion_into<'a>(pipeline: &'a Pipeline, environment: &str) -> Option<&'a str> {
    let status = pipeline.status.as_ref()?.environments.get(environment)?;
    Some(&status.promotion.as_ref()?.name)
}

//! The state that all handlers share, and how a handler waits for the controller.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use api::{Pipeline, Time, names::INPUTS_TOKEN};
use jiff::Timestamp;
use kube::Client;
use parking_lot::Mutex;
use planner::hook::{AwaitedPromotion, PromotionResult, promotion_result};
use runtime::{Clock, ObjectKey};
use tokio::{sync::Mutex as AsyncMutex, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    Caches, Metrics, Settings,
    access::AccessReviewer,
    cached_objects::CachedObjects,
    dashboard::PipelineRows,
    fresh_pipelines::FreshPipelines,
    hooks::BodyBudget,
    leaf::LeafReader,
    object_events::ObjectEvents,
    oidc::Oidc,
    rate_limiter::KeyedRateLimiter,
    session::Sessions,
    signing_keys::{HMAC_KEY, SigningKeys},
};

/// The state that all handlers share.
pub struct AppState {
    pub(crate) client: Client,
    pub(crate) clock: Clock,
    pub(crate) settings: Settings,
    pub(crate) metrics: Metrics,
    pub(crate) objects: CachedObjects,
    pub(crate) signing_keys: SigningKeys,
    /// The tokens of clusters that ask for inputs.
    pub(crate) inputs_tokens: SigningKeys,
    pub(crate) fresh_pipelines: FreshPipelines,
    pub(crate) access: AccessReviewer,
    pub(crate) sessions: Sessions,
    /// Sign-in with the OpenID provider, if one is configured.
    pub(crate) oidc: Option<Oidc>,
    /// Reads apps and their objects from clusters.
    pub(crate) leaf_reader: LeafReader,
    /// Reads the Events about pipelines from the hub.
    pub(crate) object_events: ObjectEvents,
    /// The rendered rows of the dashboard's list, shared by all viewers.
    pub(crate) pipeline_rows: PipelineRows,
    /// Ends streams and background tasks.
    pub(crate) stop: CancellationToken,
    /// Limits hook requests without a valid signature, by client address.
    pub(crate) unauthenticated_hooks: KeyedRateLimiter<IpAddr>,
    /// Limits REST and dashboard requests without a valid token, by client address.
    pub(crate) unauthenticated_requests: KeyedRateLimiter<IpAddr>,
    /// Limits signed hook requests, by pipeline.
    pub(crate) signed_hooks: KeyedRateLimiter<ObjectKey>,
    /// Limits clusters that ask for inputs, by pipeline.
    pub(crate) input_polls: KeyedRateLimiter<ObjectKey>,
    /// Bounds the memory that the bodies of hook requests take.
    pub(crate) body_budget: BodyBudget,
    /// Serializes status writes, by pipeline.
    pub(crate) write_locks: Mutex<HashMap<ObjectKey, Arc<AsyncMutex<()>>>>,
}

impl AppState {
    /// The state of a server with caches of its own.
    pub fn new(
        client: Client,
        settings: Settings,
        metrics: Metrics,
        stop: &CancellationToken,
    ) -> Arc<Self> {
        let caches = Caches::watched(&client, settings.namespace.as_deref(), stop);
        Self::with_caches(client, caches, settings, metrics, stop)
    }

    /// The state of a server that reads these caches.
    pub fn with_caches(
        client: Client,
        caches: Caches,
        settings: Settings,
        metrics: Metrics,
        stop: &CancellationToken,
    ) -> Arc<Self> {
        let (limit, interval) = (settings.rate_limit, settings.rate_interval);
        let clock = Clock::start();
        Arc::new(Self {
            objects: CachedObjects::new(client.clone(), caches, settings.namespace.clone()),
            signing_keys: SigningKeys::new(client.clone(), HMAC_KEY),
            inputs_tokens: SigningKeys::new(client.clone(), INPUTS_TOKEN),
            fresh_pipelines: FreshPipelines::new(client.clone()),
            access: AccessReviewer::new(client.clone()),
            sessions: Sessions::new(client.clone(), clock),
            oidc: settings.oidc.clone().map(Oidc::new),
            leaf_reader: LeafReader::new(client.clone(), settings.leaf_connector.clone()),
            object_events: ObjectEvents::new(client.clone()),
            pipeline_rows: PipelineRows::default(),
            stop: stop.clone(),
            unauthenticated_hooks: KeyedRateLimiter::new(limit, interval),
            unauthenticated_requests: KeyedRateLimiter::new(limit, interval),
            signed_hooks: KeyedRateLimiter::new(limit, interval),
            input_polls: KeyedRateLimiter::new(limit, interval),
            body_budget: BodyBudget::default(),
            write_locks: Mutex::default(),
            clock,
            client,
            settings,
            metrics,
        })
    }

    /// The current time in whole seconds, as Kubernetes stores times.
    pub(crate) fn now_in_seconds(&self) -> Time {
        let now = self.clock.now();
        Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
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
            let promotion = named.and_then(|name| self.objects.promotion(&key.namespace, name));
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
        let mut changes = self.objects.follow(key);
        let current = || {
            self.objects
                .cached_pipeline(key)
                .and_then(|it| evaluate(&it))
        };
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

//! What all handlers share, and how a call waits for what becomes of it.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use api::Pipeline;
use kube::Client;
use parking_lot::Mutex;
use planner::hook::{AwaitedPromotion, PromotionResult, promotion_result};
use tokio::{sync::Mutex as AsyncMutex, time::timeout};
use tokio_util::sync::CancellationToken;

use crate::{
    Metrics, Settings,
    dashboard::Rows,
    hooks::Rooms,
    leaf::Leaves,
    limiter::Limiter,
    rest::Access,
    secrets::Secrets,
    session::Sessions,
    watched::{ObjectKey, Watched},
};

/// What all handlers share.
pub struct Door {
    pub(crate) client: Client,
    pub(crate) settings: Settings,
    pub(crate) metrics: Metrics,
    pub(crate) watched: Arc<Watched>,
    pub(crate) secrets: Secrets,
    pub(crate) access: Access,
    pub(crate) sessions: Sessions,
    /// What is on the clusters.
    pub(crate) leaves: Leaves,
    /// The rows of the dashboard, rendered once for everybody.
    pub(crate) rows: Rows,
    /// Ends what would go on for ever.
    pub(crate) stop: CancellationToken,
    /// Counts callers of hooks who did not show who they are.
    pub(crate) strangers: Limiter<IpAddr>,
    /// The same for REST and the dashboard.
    pub(crate) guests: Limiter<IpAddr>,
    /// Counts signed calls about a pipeline.
    pub(crate) signed: Limiter<ObjectKey>,
    /// Room for the bodies of hooks.
    pub(crate) rooms: Rooms,
    /// Whose turn it is to write to a pipeline.
    pub(crate) turns: Mutex<HashMap<ObjectKey, Arc<AsyncMutex<()>>>>,
}

impl Door {
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
            secrets: Secrets::new(client.clone()),
            access: Access::new(client.clone()),
            sessions: Sessions::new(client.clone()),
            leaves: Leaves::new(client.clone(), settings.reach.clone()),
            rows: Rows::default(),
            stop: stop.clone(),
            strangers: Limiter::new(limit, interval),
            guests: Limiter::new(limit, interval),
            signed: Limiter::new(limit, interval),
            rooms: Rooms::default(),
            turns: Mutex::default(),
            client,
            settings,
            metrics,
        })
    }

    /// Waits a little for what becomes of a promotion; nothing if it takes longer. `approved` is the
    /// promotion to look at, where that is known.
    pub(crate) async fn outcome(
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

    /// Looks at a pipeline each time something about it changes, until there is an answer or the
    /// time is up.
    pub(crate) async fn wait_for<T>(
        &self,
        key: &ObjectKey,
        answer: impl Fn(&Pipeline) -> Option<T>,
    ) -> Option<T> {
        let mut changes = self.watched.follow(key);
        let look = || self.watched.known(key).and_then(|it| answer(&it));
        let waiting = async {
            loop {
                if let Some(found) = look() {
                    return Some(found);
                }
                changes.changed().await.ok()?;
            }
        };
        timeout(self.settings.wait, waiting).await.ok().flatten()
    }
}

/// The promotion that a pipeline's status names for an environment.
fn promotion_into<'a>(pipeline: &'a Pipeline, environment: &str) -> Option<&'a str> {
    let status = pipeline.status.as_ref()?.environments.get(environment)?;
    Some(&status.promotion.as_ref()?.name)
}

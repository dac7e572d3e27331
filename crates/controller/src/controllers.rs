//! The controllers that run while this process is the leader, and the context they share.
//!
//! A new controller is one more entry in [`all`].

use std::sync::Arc;

use futures::{FutureExt, future::BoxFuture};
use kube::Client;
use tokio_util::sync::CancellationToken;

use crate::{
    Caches, ChangeReconciler, Metrics, PromotionReconciler, Settings, change,
    preflight::{self, PreflightReconciler},
    promotion,
    reconciler_base::ReconcilerBase,
};
use runtime::{EventRecorder, Health, LeaderGuard};

/// What all controllers share. Cloning shares it.
#[derive(Clone)]
pub struct Context {
    /// The hub.
    pub client: Client,
    /// The settings of the process.
    pub settings: Arc<Settings>,
    /// The objects of our kinds on the hub.
    pub caches: Caches,
    /// The metrics of the process.
    pub metrics: Metrics,
    /// Records events.
    pub events: EventRecorder,
    /// To be asked immediately before any side effect.
    pub leader: LeaderGuard,
    /// Where reconcilers report progress.
    pub health: Health,
    /// Cancelled when the reconciler is to stop. What it spawns must stop with it.
    pub stop: CancellationToken,
}

/// Why a controller ended.
pub type ControllerError = Box<dyn std::error::Error + Send + Sync>;

type Start = dyn Fn(Context) -> BoxFuture<'static, Result<(), ControllerError>> + Send + Sync;

/// A controller: started when this process becomes the leader, stopped when it no longer is, and
/// started again with the next term. If it ends by itself, the process ends.
pub struct Controller {
    /// What logs call it.
    pub name: &'static str,
    start: Box<Start>,
}

impl Controller {
    /// A controller by name.
    pub fn new<F>(name: &'static str, start: impl Fn(Context) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(), ControllerError>> + Send + 'static,
    {
        let start = Box::new(move |context| start(context).boxed());
        Self { name, start }
    }

    pub(crate) fn start(
        &self,
        context: Context,
    ) -> BoxFuture<'static, Result<(), ControllerError>> {
        (self.start)(context)
    }
}

/// All controllers of this crate.
pub fn all() -> Vec<Controller> {
    vec![
        Controller::new("pipeline", crate::pipeline::serve),
        Controller::new("promotion", promotions_and_changes),
        Controller::new("adoption", crate::adoption::serve),
        Controller::new("check", crate::check::serve),
    ]
}

/// The reconcilers with the same repositories and forges: mirrors and rate limits are shared.
async fn promotions_and_changes(context: Context) -> Result<(), ControllerError> {
    let (for_promotions, for_changes) =
        (ReconcilerBase::of(&context), ReconcilerBase::of(&context));
    let strategies = for_promotions.strategies()?;
    let promotions = PromotionReconciler::with(for_promotions, strategies.clone());
    let promotions = promotion::run(promotions);
    let preflight = PreflightReconciler::with(ReconcilerBase::of(&context), strategies.clone());
    let preflight = preflight::run(preflight);
    let changes = change::run(ChangeReconciler::with(for_changes, strategies));
    tokio::select! {
        biased;
        () = preflight => Ok(()),
        () = promotions => Ok(()),
        () = changes => Ok(()),
        () = context.stop.cancelled() => Ok(()),
    }
}

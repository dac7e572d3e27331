//! Carries out a pipeline's plan: creates, withdraws and deletes promotions and check runs. Never fails: what went
//! wrong is in the result.

use std::sync::Arc;

use api::{
    Pipeline, Promotion,
    names::{PIPELINE_LABEL, label_value},
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use planner::Step;
use serde_json::json;

use crate::{FIELD_MANAGER, PipelineReconciler, caches::promotions_of};
use runtime::{ObjectCache, ObjectKey};

use super::{check_runs, reconciler::NAME};

/// What came of carrying out a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PlanResult {
    /// Every step was carried out.
    Done,
    /// The hub has newer objects than the plan was made from: plan again.
    Stale,
    /// A step failed: retry.
    Failed,
}

/// Why a step was not carried out.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("this replica may not be the leader any more")]
    NotLeading,
    #[error("the promotion has changed")]
    Changed,
    #[error("cannot {attempted} on the hub: {source}")]
    Hub {
        attempted: &'static str,
        source: kube::Error,
    },
}

/// Carries out every step, in order, up to the first that fails.
pub(super) async fn carry_out(
    reconciler: &Arc<PipelineReconciler>,
    pipeline: &Pipeline,
    promotions: &[Promotion],
    steps: &[Step],
) -> PlanResult {
    let executor = PlanExecutor {
        reconciler,
        api: Api::namespaced(
            reconciler.hub.clone(),
            pipeline.metadata.namespace.as_deref().unwrap_or_default(),
        ),
        key: ObjectKey::of(&pipeline.metadata),
        promotions,
    };
    match executor.carry_out(steps).await {
        Ok(()) => PlanResult::Done,
        Err(Error::Changed) => PlanResult::Stale,
        Err(error) => {
            tracing::warn!(pipeline = %executor.key, %error, "could not carry out the plan of the pipeline");
            PlanResult::Failed
        }
    }
}

fn hub(attempted: &'static str) -> impl Fn(kube::Error) -> Error {
    move |source| Error::Hub { attempted, source }
}

struct PlanExecutor<'a> {
    reconciler: &'a Arc<PipelineReconciler>,
    api: Api<Promotion>,
    key: ObjectKey,
    /// What the plan was made from.
    promotions: &'a [Promotion],
}

impl PlanExecutor<'_> {
    async fn carry_out(&self, steps: &[Step]) -> Result<(), Error> {
        let is_start = |step: &Step| matches!(step, Step::StartPromotion(_));
        if steps.iter().any(is_start) {
            self.refresh_promotions().await?;
        }
        for step in steps {
            if !self.reconciler.telemetry.leader.may_write() {
                return Err(Error::NotLeading);
            }
            match step {
                Step::StartPromotion(promotion) => self.start(promotion).await?,
                Step::SupersedePromotion { name, by } => {
                    self.withdraw(name, &planner::superseded_by(by)).await?;
                }
                Step::WithdrawPromotion { name, reason } => self.withdraw(name, reason).await?,
                Step::RemoveFinished { name } => self.remove(name).await?,
                Step::StartCheckRun(run) => {
                    let started = check_runs::start(self.reconciler, &self.key, run).await;
                    started.map_err(hub("create a check run"))?;
                }
                Step::RemoveCheckRun { name } => {
                    let removed = check_runs::remove(self.reconciler, &self.key, name).await;
                    removed.map_err(hub("delete a check run"))?;
                }
            }
        }
        Ok(())
    }

    /// Lists the promotions before one is created: a cache that lags behind must not lead to two
    /// promotions into one site.
    async fn refresh_promotions(&self) -> Result<(), Error> {
        let label = format!("{PIPELINE_LABEL}={}", label_value(&self.key.name));
        let listed = self.api.list(&ListParams::default().labels(&label)).await;
        let listed = listed.map_err(|source| Error::Hub {
            attempted: "list promotions",
            source,
        })?;
        for promotion in listed {
            self.promotions_cache().wrote(NAME, promotion);
        }
        // Others write to the cache, too: what the plan was made from is compared, not what is news.
        let known = promotions_of(&self.reconciler.caches, &self.key);
        let is_same = |(one, other): (&Promotion, &Promotion)| {
            let (one, other) = (&one.metadata, &other.metadata);
            one.uid == other.uid && one.resource_version == other.resource_version
        };
        let is_same_length = known.len() == self.promotions.len();
        match is_same_length && known.iter().zip(self.promotions).all(is_same) {
            true => Ok(()),
            false => Err(Error::Changed),
        }
    }

    async fn start(&self, promotion: &Promotion) -> Result<(), Error> {
        let parameters = PostParams {
            field_manager: Some(FIELD_MANAGER.to_owned()),
            ..PostParams::default()
        };
        let refused = |source| Error::Hub {
            attempted: "create a promotion",
            source,
        };
        match self.api.create(&parameters, promotion).await {
            Ok(created) => {
                tracing::info!(
                    pipeline = %self.key,
                    promotion = promotion.metadata.name,
                    environment = promotion.spec.environment,
                    revision = promotion.spec.revision,
                    "created a promotion"
                );
                self.promotions_cache().wrote(NAME, created);
                Ok(())
            }
            Err(kube::Error::Api(refusal)) if refusal.is_already_exists() => {
                let name = promotion.metadata.name.as_deref().unwrap_or_default();
                let found = self.api.get_opt(name).await.map_err(refused)?;
                match found.is_some_and(|found| self.promotions_cache().wrote(NAME, found)) {
                    true => Err(Error::Changed),
                    false => Err(refused(kube::Error::Api(refusal))),
                }
            }
            Err(source) => Err(refused(source)),
        }
    }

    async fn withdraw(&self, name: &str, reason: &str) -> Result<(), Error> {
        let Some(known) = self.known(name).filter(|it| it.spec.withdrawn.is_none()) else {
            return Ok(());
        };
        let patch = Patch::Merge(json!({
            "metadata": {"resourceVersion": known.metadata.resource_version},
            "spec": {"withdrawn": {"reason": reason}},
        }));
        let refused = |source| Error::Hub {
            attempted: "withdraw a promotion",
            source,
        };
        let parameters = PatchParams::apply(FIELD_MANAGER);
        match self.api.patch(name, &parameters, &patch).await {
            Ok(written) => {
                tracing::info!(pipeline = %self.key, promotion = name, reason, "withdrew a promotion");
                self.promotions_cache().wrote(NAME, written);
                Ok(())
            }
            Err(kube::Error::Api(refusal)) if refusal.is_not_found() => {
                let key = ObjectKey::of(&known.metadata);
                self.promotions_cache()
                    .deleted(NAME, &key, known.metadata.uid.as_deref());
                Err(Error::Changed)
            }
            Err(kube::Error::Api(refusal)) if refusal.is_conflict() => {
                let newest = self.api.get_opt(name).await.map_err(refused)?;
                newest.map(|newest| self.promotions_cache().wrote(NAME, newest));
                Err(Error::Changed)
            }
            Err(source) => Err(refused(source)),
        }
    }

    async fn remove(&self, name: &str) -> Result<(), Error> {
        let Some(known) = self.known(name) else {
            return Ok(());
        };
        let (cache, parameters) = (self.promotions_cache(), DeleteParams::default());
        let deleted = self.reconciler.delete(cache, known, parameters).await;
        deleted.map_err(hub("delete a promotion"))
    }

    fn promotions_cache(&self) -> &ObjectCache<Promotion> {
        &self.reconciler.caches.promotions
    }

    fn known(&self, name: &str) -> Option<&Promotion> {
        let mut known = self.promotions.iter();
        known.find(|promotion| promotion.metadata.name.as_deref() == Some(name))
    }
}

#[cfg(test)]
mod tests {
    use api::promotion::PromotionSpec;
    use apiserver::Server;
    use tokio::sync::watch;

    use super::*;
    use crate::{KubeconfigPolicy, Settings, network_connector, reconciler_base::ReconcilerBase};
    use runtime::LeaderGuard;

    fn reconciler(hub: &Server, leader: LeaderGuard) -> Arc<PipelineReconciler> {
        let base = ReconcilerBase::alone(hub.client(), Settings::default(), leader);
        PipelineReconciler::with(base, network_connector(KubeconfigPolicy::default()))
    }

    fn pipeline() -> Pipeline {
        let mut pipeline = Pipeline::new("app", api::pipeline::PipelineSpec::default());
        pipeline.metadata.namespace = Some("default".to_owned());
        pipeline
    }

    fn promotion() -> Promotion {
        let spec = PromotionSpec {
            pipeline: "app".to_owned(),
            environment: "prod".to_owned(),
            revision: "1.1.0".to_owned(),
            version: "1.1.0".to_owned(),
            ..PromotionSpec::default()
        };
        Promotion::new("app-prod-1", spec)
    }

    #[tokio::test]
    async fn nothing_is_started_without_leading() {
        let hub = testbed::hub::server();
        let steps = [Step::StartPromotion(Box::new(promotion()))];
        let promotions: Api<Promotion> = Api::namespaced(hub.client(), "default");

        let (_held, lease) = watch::channel(None);
        let follower = reconciler(&hub, LeaderGuard::without_election().and_lease(lease));
        let result = carry_out(&follower, &pipeline(), &[], &steps).await;
        assert_eq!(result, PlanResult::Failed);
        let listed = promotions.list(&ListParams::default()).await.unwrap();
        assert!(listed.items.is_empty());

        let leader = reconciler(&hub, LeaderGuard::without_election());
        let result = carry_out(&leader, &pipeline(), &[], &steps).await;
        assert_eq!(result, PlanResult::Done);
        let listed = promotions.list(&ListParams::default()).await.unwrap();
        assert_eq!(listed.items.len(), 1);
    }

    #[tokio::test]
    async fn a_promotion_that_changed_meanwhile_is_not_taken_back() {
        let hub = testbed::hub::server();
        let promotions: Api<Promotion> = Api::namespaced(hub.client(), "default");
        let parameters = PostParams::default();
        let known = promotions.create(&parameters, &promotion()).await.unwrap();
        let approval = json!({"spec": {"approvals": [{"by": "alice"}]}});
        let (parameters, approval) = (PatchParams::default(), Patch::Merge(&approval));
        let approved = promotions.patch("app-prod-1", &parameters, &approval).await;
        let steps = [Step::WithdrawPromotion {
            name: "app-prod-1".to_owned(),
            reason: "nobody approved it".to_owned(),
        }];
        let reconciler = reconciler(&hub, LeaderGuard::without_election());

        let result = carry_out(&reconciler, &pipeline(), &[known], &steps).await;
        assert_eq!(result, PlanResult::Stale);
        let now = promotions.get("app-prod-1").await.unwrap();
        assert_eq!(now.spec.withdrawn, None);

        // Planned again, from the newest state.
        let result = carry_out(&reconciler, &pipeline(), &[approved.unwrap()], &steps).await;
        assert_eq!(result, PlanResult::Done);
        let now = promotions.get("app-prod-1").await.unwrap();
        assert!(now.spec.withdrawn.is_some() && !now.spec.approvals.is_empty());
    }
}

//! Carries out a pipeline's plan: creates, takes back and removes promotions. Total: what went wrong
//! is in the outcome.

use std::sync::Arc;

use api::{
    Pipeline, Promotion,
    names::{PIPELINE_LABEL, label_value},
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, Preconditions},
};
use planner::Step;
use serde_json::json;

use crate::{FIELD_MANAGER, Shared};
use runtime::ObjectKey;

/// How far it got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// All that was to be done is done.
    Done,
    /// The hub holds something else than the plan was made from: plan again.
    Stale,
    /// Something could not be done: try again later.
    Failed,
}

/// Why one step was not carried out.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("this process may not be leading any more")]
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
    shared: &Arc<Shared>,
    pipeline: &Pipeline,
    promotions: &[Promotion],
    steps: &[Step],
) -> Outcome {
    let actor = Actor {
        shared,
        api: Api::namespaced(
            shared.hub.clone(),
            pipeline.metadata.namespace.as_deref().unwrap_or_default(),
        ),
        key: ObjectKey::of(&pipeline.metadata),
        promotions,
    };
    match actor.all(steps).await {
        Ok(()) => Outcome::Done,
        Err(Error::Changed) => Outcome::Stale,
        Err(error) => {
            tracing::warn!(pipeline = %actor.key, %error, "plan not carried out");
            Outcome::Failed
        }
    }
}

struct Actor<'a> {
    shared: &'a Arc<Shared>,
    api: Api<Promotion>,
    key: ObjectKey,
    /// What the plan was made from.
    promotions: &'a [Promotion],
}

impl Actor<'_> {
    async fn all(&self, steps: &[Step]) -> Result<(), Error> {
        let is_start = |step: &Step| matches!(step, Step::StartPromotion(_));
        if steps.iter().any(is_start) {
            self.be_up_to_date().await?;
        }
        for step in steps {
            if !self.shared.telemetry.may_write() {
                return Err(Error::NotLeading);
            }
            match step {
                Step::StartPromotion(promotion) => self.start(promotion).await?,
                Step::SupersedePromotion { name, by } => {
                    self.withdraw(name, &planner::superseded_by(by)).await?;
                }
                Step::WithdrawPromotion { name, reason } => self.withdraw(name, reason).await?,
                Step::RemoveFinished { name } => self.remove(name).await?,
            }
        }
        Ok(())
    }

    /// Before anything is created, the API is asked and not the cache: two promotions into one place
    /// must not come of a watch that lags behind.
    async fn be_up_to_date(&self) -> Result<(), Error> {
        let label = format!("{PIPELINE_LABEL}={}", label_value(&self.key.name));
        let listed = self.api.list(&ListParams::default().labels(&label)).await;
        let listed = listed.map_err(|source| Error::Hub {
            attempted: "list promotions",
            source,
        })?;
        let mut is_news = false;
        for promotion in listed {
            is_news |= self.shared.promotions.keep(promotion);
        }
        if is_news { Err(Error::Changed) } else { Ok(()) }
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
                    "promotion created"
                );
                self.shared.promotions.keep(created);
                Ok(())
            }
            Err(kube::Error::Api(refusal)) if refusal.is_already_exists() => {
                let name = promotion.metadata.name.as_deref().unwrap_or_default();
                let found = self.api.get_opt(name).await.map_err(refused)?;
                match found.is_some_and(|found| self.shared.promotions.keep(found)) {
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
            attempted: "take a promotion back",
            source,
        };
        let parameters = PatchParams::apply(FIELD_MANAGER);
        match self.api.patch(name, &parameters, &patch).await {
            Ok(written) => {
                tracing::info!(pipeline = %self.key, promotion = name, reason, "promotion taken back");
                self.shared.promotions.keep(written);
                Ok(())
            }
            Err(kube::Error::Api(refusal)) if refusal.is_not_found() => {
                self.shared.promotions.remove(&self.key, name);
                Err(Error::Changed)
            }
            Err(kube::Error::Api(refusal)) if refusal.is_conflict() => {
                let newest = self.api.get_opt(name).await.map_err(refused)?;
                newest.map(|newest| self.shared.promotions.keep(newest));
                Err(Error::Changed)
            }
            Err(source) => Err(refused(source)),
        }
    }

    async fn remove(&self, name: &str) -> Result<(), Error> {
        let uid = self.known(name).and_then(|it| it.metadata.uid.clone());
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid,
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        match self.api.delete(name, &parameters).await {
            Ok(_) => {}
            Err(kube::Error::Api(refusal)) if matches!(refusal.code, 404 | 409) => {}
            Err(source) => {
                return Err(Error::Hub {
                    attempted: "remove a promotion",
                    source,
                });
            }
        }
        self.shared.promotions.remove(&self.key, name);
        Ok(())
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
    use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
    use tokio::sync::watch;

    use super::*;
    use crate::{KubeconfigPolicy, network_connector, telemetry::Telemetry};
    use runtime::LeaderGuard;

    async fn hub() -> Server {
        let hub = Server::in_memory();
        let definitions: Api<CustomResourceDefinition> = Api::all(hub.client());
        for definition in api::crds() {
            let parameters = PostParams::default();
            definitions.create(&parameters, &definition).await.unwrap();
        }
        hub
    }

    fn shared(hub: &Server, leadership: LeaderGuard) -> Arc<Shared> {
        let telemetry = Telemetry::alone("pipeline", 1).led_by(leadership);
        let connector = network_connector(KubeconfigPolicy::default());
        Shared::with(hub.client(), connector, Arc::default(), telemetry)
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
        let hub = hub().await;
        let steps = [Step::StartPromotion(Box::new(promotion()))];
        let promotions: Api<Promotion> = Api::namespaced(hub.client(), "default");

        let (_tenure, claim) = watch::channel(None);
        let follower = shared(&hub, LeaderGuard::without_election().and_lease(claim));
        let outcome = carry_out(&follower, &pipeline(), &[], &steps).await;
        assert_eq!(outcome, Outcome::Failed);
        let listed = promotions.list(&ListParams::default()).await.unwrap();
        assert!(listed.items.is_empty());

        let leader = shared(&hub, LeaderGuard::without_election());
        let outcome = carry_out(&leader, &pipeline(), &[], &steps).await;
        assert_eq!(outcome, Outcome::Done);
        let listed = promotions.list(&ListParams::default()).await.unwrap();
        assert_eq!(listed.items.len(), 1);
    }

    #[tokio::test]
    async fn a_promotion_that_changed_meanwhile_is_not_taken_back() {
        let hub = hub().await;
        let promotions: Api<Promotion> = Api::namespaced(hub.client(), "default");
        let parameters = PostParams::default();
        let known = promotions.create(&parameters, &promotion()).await.unwrap();
        let approval = json!({"spec": {"approval": {"by": "alice"}}});
        let (parameters, approval) = (PatchParams::default(), Patch::Merge(&approval));
        let approved = promotions.patch("app-prod-1", &parameters, &approval).await;
        let steps = [Step::WithdrawPromotion {
            name: "app-prod-1".to_owned(),
            reason: "nobody approved it".to_owned(),
        }];
        let shared = shared(&hub, LeaderGuard::without_election());

        let outcome = carry_out(&shared, &pipeline(), &[known], &steps).await;
        assert_eq!(outcome, Outcome::Stale);
        let now = promotions.get("app-prod-1").await.unwrap();
        assert_eq!(now.spec.withdrawn, None);

        // Planned again, from the newest state.
        let outcome = carry_out(&shared, &pipeline(), &[approved.unwrap()], &steps).await;
        assert_eq!(outcome, Outcome::Done);
        let now = promotions.get("app-prod-1").await.unwrap();
        assert!(now.spec.withdrawn.is_some() && now.spec.approval.is_some());
    }
}

//! Approves promotions for whoever was found to have the right to.

use api::{Promotion, Time, promotion::Approval};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use planner::hook::awaiting_approval;
use serde_json::json;

use crate::{Door, FIELD_MANAGER, watched::ObjectKey};

/// How often an approval that another write came before is tried again.
const TRIES: usize = 5;

impl Door {
    /// The promotions of that revision into an environment that wait for a person, as the API
    /// server says.
    pub(crate) async fn waiting(
        &self,
        pipeline: &ObjectKey,
        environment: &str,
        revision: &str,
    ) -> Result<Vec<Promotion>, kube::Error> {
        let all = self.promotions(pipeline).await?;
        let waiting = awaiting_approval(&all, &pipeline.name, environment, revision);
        Ok(waiting.into_iter().cloned().collect())
    }

    /// The promotions of a pipeline, as the API server says.
    pub(crate) async fn promotions(
        &self,
        pipeline: &ObjectKey,
    ) -> Result<Vec<Promotion>, kube::Error> {
        let label = api::names::label_value(&pipeline.name);
        let labels = format!("{}={label}", api::names::PIPELINE_LABEL);
        let promotions: Api<Promotion> = Api::namespaced(self.client.clone(), &pipeline.namespace);
        let parameters = ListParams::default().labels(&labels);
        Ok(promotions.list(&parameters).await?.items)
    }

    /// Approves each of them, once. Who comes second finds it done. `signature` is the digest of the
    /// signed call, where one approves.
    pub(crate) async fn approve(
        &self,
        promotions: &[Promotion],
        by: &str,
        note: Option<&str>,
        signature: Option<&str>,
    ) -> Result<(), kube::Error> {
        let at = jiff::Timestamp::from_second(jiff::Timestamp::now().as_second());
        let approval = Approval {
            by: by.to_owned(),
            at: at.ok().map(Time),
            note: note.map(str::to_owned),
            signature: signature.map(str::to_owned),
        };
        for promotion in promotions {
            self.approve_one(promotion, &approval).await?;
        }
        Ok(())
    }

    async fn approve_one(
        &self,
        promotion: &Promotion,
        approval: &Approval,
    ) -> Result<(), kube::Error> {
        let namespace = promotion.namespace().unwrap_or_default();
        let api: Api<Promotion> = Api::namespaced(self.client.clone(), &namespace);
        let name = promotion.name_any();
        let mut version = promotion.resource_version();
        for tries_left in (0..TRIES).rev() {
            let body = json!({
                "metadata": {"resourceVersion": version},
                "spec": {"approval": approval},
            });
            let parameters = PatchParams::apply(FIELD_MANAGER);
            match api.patch(&name, &parameters, &Patch::Merge(&body)).await {
                Ok(written) => {
                    self.watched.wrote_promotion(written);
                    return Ok(());
                }
                Err(kube::Error::Api(refusal)) if refusal.code == 409 && tries_left > 0 => {
                    let newest = api.get(&name).await?;
                    version = newest.resource_version();
                    if newest.spec.approval.is_some() {
                        self.watched.wrote_promotion(newest);
                        return Ok(());
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

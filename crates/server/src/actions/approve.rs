//! Records approvals in `spec.approval` of Promotions.
//!
//! Callers authorize first. Every write carries the resourceVersion that was read, so that an
//! approval somebody else gave in between is kept.

use api::{Promotion, promotion::Approval};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use planner::hook::awaiting_approval;
use runtime::ObjectKey;
use serde_json::json;

use crate::{AppState, FIELD_MANAGER};

/// How often an approval is tried again after a conflicting write.
const MAX_ATTEMPTS: usize = 5;

impl AppState {
    /// The promotions of a revision into an environment that await approval, read from the API
    /// server.
    pub(crate) async fn awaiting_approval(
        &self,
        pipeline: &ObjectKey,
        environment: &str,
        revision: &str,
    ) -> Result<Vec<Promotion>, kube::Error> {
        let all = self.list_promotions(pipeline).await?;
        let waiting = awaiting_approval(&all, &pipeline.name, environment, revision);
        Ok(waiting.into_iter().cloned().collect())
    }

    /// The promotions of a pipeline, read from the API server.
    pub(crate) async fn list_promotions(
        &self,
        pipeline: &ObjectKey,
    ) -> Result<Vec<Promotion>, kube::Error> {
        let label = api::names::label_value(&pipeline.name);
        let labels = format!("{}={label}", api::names::PIPELINE_LABEL);
        let promotions: Api<Promotion> = Api::namespaced(self.client.clone(), &pipeline.namespace);
        let parameters = ListParams::default().labels(&labels);
        Ok(promotions.list(&parameters).await?.items)
    }

    /// Approves each of the promotions, unless it is approved already. `signature` is the digest of
    /// the signed request that approves.
    pub(crate) async fn approve(
        &self,
        promotions: &[Promotion],
        by: &str,
        note: Option<&str>,
        signature: Option<&str>,
    ) -> Result<(), kube::Error> {
        let approval = Approval {
            by: by.to_owned(),
            at: Some(self.now_in_seconds()),
            note: note.map(str::to_owned),
            signature: signature.map(str::to_owned),
            ..Approval::default()
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
        for attempts_left in (0..MAX_ATTEMPTS).rev() {
            let body = json!({
                "metadata": {"resourceVersion": version},
                "spec": {"approval": approval},
            });
            let parameters = PatchParams::apply(FIELD_MANAGER);
            match api.patch(&name, &parameters, &Patch::Merge(&body)).await {
                Ok(written) => {
                    self.objects.wrote_promotion(written);
                    return Ok(());
                }
                Err(kube::Error::Api(refusal)) if refusal.code == 409 && attempts_left > 0 => {
                    let newest = api.get(&name).await?;
                    version = newest.resource_version();
                    if newest.spec.approval.is_some() {
                        self.objects.wrote_promotion(newest);
                        return Ok(());
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

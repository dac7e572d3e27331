//! Records approvals and rejections in the spec of Promotions.
//!
//! Callers authorize first. Every write carries the resourceVersion that was read and is made anew after a
//! conflict, so that nothing somebody else wrote in between is lost.

use std::time::Duration;

use api::{
    Promotion,
    promotion::{Approval, Rejection},
};
use kube::{
    Api, ResourceExt,
    api::{ListParams, Patch, PatchParams},
};
use planner::is_change_pending;
use runtime::ObjectKey;
use serde_json::{Value, json};

use crate::{AppState, FIELD_MANAGER};

/// Why a decision was not stored.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DecisionError {
    /// The promotion changed between reading and writing, so that the decision would be about another change.
    #[error(
        "what {revision} changes in {environment} is no longer what you have read, so your approval was not \
         stored; read it again, then approve it"
    )]
    OtherChange {
        revision: String,
        environment: String,
    },
    /// Others kept changing the promotion, so that the decision could not be stored.
    #[error(
        "others changed the promotion of {revision} into {environment} at the same time, so your decision was \
         not stored; try again"
    )]
    Conflict {
        revision: String,
        environment: String,
    },
    /// A request to the API server failed.
    #[error(transparent)]
    Api(#[from] kube::Error),
}

/// How often a write is tried again after a conflict.
const MAX_ATTEMPTS: usize = 5;
/// How often, and how many times at most, a new promotion is read until it has a phase.
const PHASE_POLL: Duration = Duration::from_millis(100);
const PHASE_POLLS: usize = 50;

impl AppState {
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

    /// Adds an approval to a promotion, or replaces the one by the same user. It is for the change that
    /// the promotion, as it was read, says it makes; callers check that this is known. Stores nothing if the
    /// promotion makes another change by then.
    pub(crate) async fn approve(
        &self,
        promotion: &Promotion,
        approval: Approval,
    ) -> Result<(), DecisionError> {
        let approval = Approval {
            at: Some(self.now_in_seconds()),
            change_digest: change_digest(promotion).map(str::to_owned),
            ..approval
        };
        let add = |newest: &Promotion| {
            if change_digest(newest) != approval.change_digest.as_deref() {
                return Err(DecisionError::OtherChange {
                    revision: newest.spec.revision.clone(),
                    environment: newest.spec.environment.clone(),
                });
            }
            let others = newest.spec.approvals.iter();
            let others = others.filter(|it| it.by != approval.by);
            let all: Vec<_> = others.chain([&approval]).collect();
            Ok(Some(json!({"approvals": all})))
        };
        self.patch_promotion(promotion, add).await
    }

    /// The promotion once the controller has looked at it: only then is known what it changes. Waits for
    /// that for a bounded time.
    pub(crate) async fn prepared(&self, promotion: &Promotion) -> Result<Promotion, kube::Error> {
        let namespace = promotion.namespace().unwrap_or_default();
        let api: Api<Promotion> = Api::namespaced(self.client.clone(), &namespace);
        let mut newest = promotion.clone();
        for _ in 0..PHASE_POLLS {
            if !is_change_pending(&newest) {
                break;
            }
            tokio::time::sleep(PHASE_POLL).await;
            newest = api.get(&promotion.name_any()).await?;
        }
        Ok(newest)
    }

    /// Rejects a promotion, unless somebody has rejected it already.
    pub(crate) async fn reject(
        &self,
        promotion: &Promotion,
        by: &str,
        note: Option<&str>,
    ) -> Result<(), DecisionError> {
        let rejection = Rejection {
            by: by.to_owned(),
            at: Some(self.now_in_seconds()),
            note: note.map(str::to_owned),
        };
        let reject = |promotion: &Promotion| {
            let is_open = promotion.spec.rejection.is_none();
            Ok(is_open.then(|| json!({"rejection": rejection})))
        };
        self.patch_promotion(promotion, reject).await
    }

    /// Writes the spec patch that `make_patch` returns for the newest state of a promotion; nothing if it
    /// returns none.
    async fn patch_promotion(
        &self,
        promotion: &Promotion,
        make_patch: impl Fn(&Promotion) -> Result<Option<Value>, DecisionError>,
    ) -> Result<(), DecisionError> {
        let namespace = promotion.namespace().unwrap_or_default();
        let api: Api<Promotion> = Api::namespaced(self.client.clone(), &namespace);
        let name = promotion.name_any();
        let mut newest = promotion.clone();
        for _ in 0..MAX_ATTEMPTS {
            let Some(spec) = make_patch(&newest)? else {
                self.objects.wrote_promotion(newest);
                return Ok(());
            };
            let version = newest.resource_version();
            let body = json!({"metadata": {"resourceVersion": version}, "spec": spec});
            let parameters = PatchParams::apply(FIELD_MANAGER);
            match api.patch(&name, &parameters, &Patch::Merge(&body)).await {
                Ok(written) => {
                    self.objects.wrote_promotion(written);
                    return Ok(());
                }
                Err(kube::Error::Api(refusal)) if refusal.code == 409 => {
                    newest = api.get(&name).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(DecisionError::Conflict {
            revision: newest.spec.revision,
            environment: newest.spec.environment,
        })
    }
}

/// The digest of what a promotion changes, once that is known.
pub(super) fn change_digest(promotion: &Promotion) -> Option<&str> {
    let change = promotion.status.as_ref()?.change.as_ref()?;
    Some(&change.digest)
}

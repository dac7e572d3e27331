//! Approves and rejects promotions for a person.

use api::{
    Promotion,
    pipeline::Request,
    promotion::{Approval, PromotionSpec},
};
use http::StatusCode;
use kube::ResourceExt;
use planner::{
    approving_group, hook::awaiting_approval, is_change_pending, promotion_caution, rejectable,
    unknown_change,
};

use super::{
    ActionBody, ActionResult, EnvironmentAction,
    approve::{DecisionError, change_digest},
    recorded_name,
};
use crate::{access::AccessRequest, problem::Problem, view};

impl EnvironmentAction<'_> {
    pub(super) async fn approve(&self, body: &ActionBody) -> Result<ActionResult, Problem> {
        let revision = body.revision()?;
        let mut all = self.app_state.list_promotions(self.key).await?;
        let mut waiting = self.awaiting(&all, revision);
        if let Some(new) = waiting.iter().find(|it| is_change_pending(it)) {
            self.wait_until_prepared(&new.name_any()).await;
            all = self.app_state.list_promotions(self.key).await?;
            waiting = self.awaiting(&all, revision);
        }
        let Some(first) = waiting.first() else {
            let detail = self.not_awaiting_approval(&all, revision);
            return Err(Problem::new(StatusCode::CONFLICT, detail));
        };
        if let Some(detail) = waiting.iter().find_map(|it| unknown_change(it)) {
            return Err(Problem::new(StatusCode::CONFLICT, detail));
        }
        if waiting.iter().any(|it| !is_change_read(it, body)) {
            let detail = format!(
                "what {revision} changes in {} is not what you have read; read it again",
                self.environment
            );
            return Err(Problem::new(StatusCode::CONFLICT, detail));
        }
        let by = recorded_name(self.caller)?;
        for promotion in &waiting {
            self.check_counts(&promotion.spec)?;
        }
        for promotion in &waiting {
            let approval = self.approval(promotion, body.note.as_deref())?;
            self.app_state.approve(promotion, approval).await?;
        }
        tracing::info!(pipeline = %self.key, environment = self.environment, revision, by, "approved a promotion");
        Ok(ActionResult::Approved {
            revision: revision.to_owned(),
            by: by.to_owned(),
            promotions: waiting.iter().map(|it| it.name_any()).collect(),
            caution: promotion_caution(first, &self.pipeline, &all),
        })
    }

    fn awaiting<'a>(&self, all: &'a [Promotion], revision: &str) -> Vec<&'a Promotion> {
        awaiting_approval(all, &self.key.name, self.environment, revision)
    }

    /// Fails if the policy of the promotion does not count an approval by the caller.
    fn check_counts(&self, spec: &PromotionSpec) -> Result<Option<String>, Problem> {
        let refused = |detail: String| Problem::new(StatusCode::FORBIDDEN, detail);
        approving_group(spec, self.caller.name(), self.caller.groups()).map_err(refused)
    }

    /// The approval of a promotion by the caller.
    fn approval(&self, promotion: &Promotion, note: Option<&str>) -> Result<Approval, Problem> {
        Ok(Approval {
            by: recorded_name(self.caller)?.to_owned(),
            group: self.check_counts(&promotion.spec)?,
            note: note.map(str::to_owned),
            ..Approval::default()
        })
    }

    fn not_awaiting_approval(&self, all: &[Promotion], revision: &str) -> String {
        let (pipeline, now) = (&self.pipeline, self.app_state.clock.now());
        let approved =
            planner::approved_promotion(all, pipeline, self.environment, Some(revision), now);
        if let Some(promotion) = approved {
            return planner::approved_already(promotion, pipeline, now);
        }
        let waiting = self.status().and_then(|it| it.waiting_approval.as_ref());
        let waiting = waiting.map(|it| it.revision.as_str());
        let environment = self.environment;
        match waiting.filter(|it| !it.is_empty()) {
            Some(other) if other != revision => {
                format!("{revision} is not awaiting approval in {environment}, but {other} is")
            }
            _ => format!("{revision} is not awaiting approval in {environment}"),
        }
    }

    /// Rejects the promotions of a revision whose change is not merged yet; without a revision, whatever is
    /// under way.
    pub(super) async fn reject(&self, body: &ActionBody) -> Result<ActionResult, Problem> {
        let by = recorded_name(self.caller)?;
        let all = self.app_state.list_promotions(self.key).await?;
        let revision = body.revision.as_deref();
        let open = rejectable(&all, &self.key.name, self.environment, revision);
        let Some(first) = open.first() else {
            let what = match revision {
                Some(revision) => format!("{revision} is not"),
                None => "nothing is".to_owned(),
            };
            let detail = format!(
                "{what} being promoted into {}, or its change is merged already",
                self.environment
            );
            return Err(Problem::new(StatusCode::CONFLICT, detail));
        };
        let rejected = first.spec.revision.clone();
        let message = planner::rejection_effect(&self.pipeline, first);
        for promotion in &open {
            let note = body.note.as_deref();
            self.app_state.reject(promotion, by, note).await?;
        }
        tracing::info!(pipeline = %self.key, environment = self.environment, revision = rejected, by, "rejected a promotion");
        Ok(ActionResult::Rejected {
            rejected,
            message,
            by: by.to_owned(),
            promotions: open.iter().map(|it| it.name_any()).collect(),
        })
    }

    /// Waits, for a bounded time, until the controller has computed what a new promotion changes: an
    /// approval is for that change.
    async fn wait_until_prepared(&self, promotion: &str) {
        let is_prepared = self.app_state.wait_for(self.key, |pipeline| {
            let status = view::status_of(pipeline, self.environment)?;
            let shown = status.promotion.as_ref()?;
            (shown.name != promotion || shown.phase.is_some()).then_some(())
        });
        is_prepared.await;
    }

    /// Approves what the caller's own request led to, if they may approve and their approval counts. Waits
    /// until the controller has computed what it changes; returns why it could not be approved, if that is
    /// not known.
    pub(super) async fn approve_own(
        &self,
        request: &Request,
        promotion: &str,
    ) -> Result<Option<String>, Problem> {
        let access = AccessRequest::new("approve", self.key).environment(self.environment);
        // Who overrides a gate needs somebody else's approval.
        if request.override_gates.is_some() || !self.caller.may(&access).await? {
            return Ok(None);
        }
        self.wait_until_prepared(promotion).await;
        let all = self.app_state.list_promotions(self.key).await?;
        // The request may name the tag of the digest that is promoted.
        let led_to = all.iter().find(|it| it.name_any() == promotion);
        let revision = led_to.map_or(&request.revision, |it| &it.spec.revision);
        let waiting = self.awaiting(&all, revision);
        let own = waiting.into_iter().filter(|promotion| {
            let asked = promotion.spec.request.as_ref();
            asked.is_some_and(|asked| asked.id == request.id)
        });
        let mut counts = None;
        for promotion in own.filter(|it| self.check_counts(&it.spec).is_ok()) {
            if let Some(text) = unknown_change(promotion) {
                return Ok(Some(text));
            }
            let approval = self.approval(promotion, request.note.as_deref())?;
            match self.app_state.approve(promotion, approval).await {
                Ok(()) => counts = Some("your request counts as an approval".to_owned()),
                Err(DecisionError::Api(error)) => return Err(error.into()),
                // The request stands; only the approval is missing.
                Err(not_stored) => return Ok(Some(not_stored.to_string())),
            }
        }
        Ok(counts)
    }
}

/// Whether the caller named no change, or the one that the promotion would make now.
fn is_change_read(promotion: &Promotion, body: &ActionBody) -> bool {
    body.change_digest.is_none() || body.change_digest.as_deref() == change_digest(promotion)
}

//! Finds what became of a webhook call in stored objects.

use api::{
    Pipeline, Promotion,
    pipeline::{EnvironmentStatus, PipelineStatus, PromotionSummary},
    promotion::{Phase, PromotionStatus},
};

use crate::{gate::approvals::is_awaited, sources::sources};

/// The promotion a caller waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AwaitedPromotion {
    /// The environment that runs the revision; none where it was proposed to the pipeline.
    pub source: Option<String>,
    /// The environment it leads into.
    pub environment: String,
    /// The revision, as apps of the kind say it.
    pub revision: String,
}

/// What became of the call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PromotionResult {
    /// There is a pull request or another page.
    Proposed {
        /// Its URL.
        url: String,
    },
    /// It succeeded, or waits for approval; there is no URL.
    Quiet,
    /// The strategy failed; it is tried again.
    Failed,
    /// A gate holds it.
    Held,
}

/// What became of it, as far as that is known. `promotion` is the one that the status names for the
/// environment, or the one that was approved; its own status counts where it is given.
pub fn promotion_result(
    pipeline: &Pipeline,
    promotion: Option<&Promotion>,
    awaited: &AwaitedPromotion,
) -> Option<PromotionResult> {
    let status = pipeline.status.as_ref()?;
    let promotion = promotion.filter(|it| it.spec.revision == awaited.revision);
    if let Some(promotion) = promotion {
        return of_promotion(promotion);
    }
    let environment = status.environments.get(&awaited.environment)?;
    let waiting = environment.waiting_approval.as_ref();
    if waiting.is_some_and(|waiting| waiting.revision == awaited.revision) {
        return Some(PromotionResult::Quiet);
    }
    let summary = environment.promotion.as_ref();
    if let Some(summary) = summary.filter(|it| it.revision == awaited.revision) {
        return of_summary(summary);
    }
    if !is_folded(status, awaited) {
        return None;
    }
    match environment.hold {
        Some(_) => Some(PromotionResult::Held),
        None if runs(environment, &awaited.revision) => Some(PromotionResult::Quiet),
        // It has what all its source environments have, and the revision is not in each of them yet.
        None => (sources(&pipeline.spec, &awaited.environment).len() > 1)
            .then_some(PromotionResult::Held),
    }
}

fn of_promotion(promotion: &Promotion) -> Option<PromotionResult> {
    if is_awaited(promotion) {
        return Some(PromotionResult::Quiet);
    }
    let status = promotion.status.as_ref()?;
    if status.phase == Some(Phase::AwaitingApproval) {
        return None;
    }
    if status.phase? == Phase::Running {
        return running(status);
    }
    ended(status.phase?, status.url.as_ref())
}

/// What a promotion under way has come to: a failure waits for its next attempt, and one that may
/// not start yet says why.
fn running(status: &PromotionStatus) -> Option<PromotionResult> {
    if status.next_attempt.is_some() {
        return Some(PromotionResult::Failed);
    }
    let is_paused = status.reason.as_deref() != Some("Running");
    is_paused.then_some(PromotionResult::Held)
}

fn of_summary(summary: &PromotionSummary) -> Option<PromotionResult> {
    match summary.phase? {
        Phase::AwaitingApproval => Some(PromotionResult::Quiet),
        Phase::Running => None,
        phase => ended(phase, summary.url.as_ref()),
    }
}

fn ended(phase: Phase, url: Option<&String>) -> Option<PromotionResult> {
    match phase {
        Phase::WaitingForMerge | Phase::Deploying | Phase::Verifying | Phase::Succeeded => {
            match url {
                Some(url) => Some(PromotionResult::Proposed { url: url.clone() }),
                None => Some(PromotionResult::Quiet),
            }
        }
        Phase::Failed => Some(PromotionResult::Failed),
        Phase::Superseded | Phase::Abandoned | Phase::Withdrawn => Some(PromotionResult::Held),
        Phase::AwaitingApproval | Phase::Running => None,
    }
}

/// Whether the status is one that knows of the revision, so that what it says is about it.
fn is_folded(status: &PipelineStatus, awaited: &AwaitedPromotion) -> bool {
    let revision = Some(&awaited.revision);
    let Some(source) = &awaited.source else {
        let proposal = status.proposal.as_ref();
        return proposal.and_then(|proposal| proposal.revision.as_ref()) == revision;
    };
    let Some(source) = status.environments.get(source) else {
        return false;
    };
    let reported = source.reported.as_ref().map(|reported| &reported.revision);
    let mut targets = source.targets.iter();
    reported == revision || targets.any(|target| target.revision.as_ref() == revision)
}

fn runs(environment: &EnvironmentStatus, revision: &str) -> bool {
    let mut targets = environment.targets.iter();
    !environment.targets.is_empty()
        && targets.all(|target| target.revision.as_deref() == Some(revision))
}

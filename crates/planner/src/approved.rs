//! A promotion that has all its approvals: who gave them, and what it waits for now. People who approve it once more
//! read that.

use api::{Pipeline, Promotion, promotion::Phase};

use crate::{
    gate::{
        approvals::{NotCounted, approval_state},
        freeze::frozen_promotion,
    },
    hold::list,
    promotion_phase::{is_unmerged, merged_at, names_revision, phase_of},
    time::Timestamp,
};

/// The promotion into an environment that has all its approvals and whose change is not merged; with a revision, of
/// that one.
pub fn approved_promotion<'a>(
    promotions: &'a [Promotion],
    pipeline: &Pipeline,
    environment: &str,
    revision: Option<&str>,
    now: Timestamp,
) -> Option<&'a Promotion> {
    let name = pipeline.metadata.name.as_deref().unwrap_or_default();
    let is_open = |it: &&Promotion| {
        let spec = &it.spec;
        spec.pipeline == name && spec.environment == environment && spec.rejection.is_none()
    };
    let here = promotions.iter().filter(is_open);
    let mut unmerged = here.filter(|it| is_unmerged(it) && merged_at(it).is_none());
    unmerged.find(|it| {
        let state = approval_state(it, Some(pipeline), now);
        let is_complete = state.is_some_and(|state| state.missing_once_recorded() == 0);
        is_complete && names_revision(it, revision.unwrap_or_default())
    })
}

/// That a promotion has all its approvals, who gave them, and what it waits for now:
/// `2.0.0 is approved for prod already, by ann; prod is frozen by weekend: it waits for that to end`.
pub fn approved_already(promotion: &Promotion, pipeline: &Pipeline, now: Timestamp) -> String {
    let spec = &promotion.spec;
    let state = approval_state(promotion, Some(pipeline), now).unwrap_or_default();
    let recorded_later = state.not_counted.into_iter();
    let recorded_later = recorded_later.filter(|(_, why)| *why == NotCounted::NotObserved);
    let all = state.approved_by.into_iter();
    let all: Vec<_> = all.chain(recorded_later.map(|(by, _)| by)).collect();
    let by = list(&all);
    let by = (!by.is_empty()).then(|| format!(", by {by}"));
    let waits = waits_after_approval(promotion, pipeline, now);
    format!(
        "{} is approved for {} already{}{}",
        spec.shown_revision(),
        spec.environment,
        by.unwrap_or_default(),
        waits.map(|it| format!("; {it}")).unwrap_or_default()
    )
}

/// What a promotion with all its approvals waits for, as a clause.
pub fn waits_after_approval(
    promotion: &Promotion,
    pipeline: &Pipeline,
    now: Timestamp,
) -> Option<String> {
    if let Some(frozen) = frozen_promotion(promotion, pipeline, now) {
        return Some(frozen);
    }
    let status = promotion.status.as_ref()?;
    match phase_of(promotion)? {
        Phase::WaitingForMerge => {
            let url = status.url.as_deref().map(|url| format!(" {url}"));
            Some(format!(
                "its pull request{} waits to be merged",
                url.unwrap_or_default()
            ))
        }
        // What an approval resolves is told until the controller has recorded that.
        Phase::AwaitingApproval => None,
        _ => status.message.clone().filter(|text| !text.is_empty()),
    }
}

//! Selects the finished runs to delete when there are more than `maxHistory`: the oldest first, never
//! an unfinished run and never the newest run of a source or pull request branch.

use super::{
    RunAction,
    decision::{PlannedEvent, RunDecision},
    observed::{ObservedRun, ObservedTrigger},
};

/// The runs to delete once the plan's new runs exist.
pub(crate) fn deletions(
    observed: &ObservedTrigger<'_>,
    planned_events: &[PlannedEvent],
) -> Vec<RunAction> {
    let pipeline = observed.trigger.spec.pipeline.as_ref();
    let Some(limit) = pipeline.and_then(|pipeline| pipeline.max_history) else {
        return Vec::new();
    };
    let limit = usize::try_from(limit).unwrap_or(0).max(1);
    let is_new = |run: &str| observed.runs.iter().all(|existing| existing.name != run);
    let started = planned_events
        .iter()
        .filter(|planned| match &planned.decision {
            RunDecision::Start { run, .. } => is_new(run),
            _ => false,
        });
    let surplus = (observed.runs.len() + started.count()).saturating_sub(limit);
    let mut finished: Vec<&ObservedRun> = observed
        .runs
        .iter()
        .filter(|run| run.is_finished())
        .collect();
    finished.retain(|run| !is_current(run, planned_events));
    finished.sort_by_key(|run| (run.created, run.name.clone()));
    let surplus = finished.into_iter().take(surplus);
    surplus
        .map(|run| RunAction::Delete {
            run: run.name.clone(),
            uid: run.uid.clone(),
        })
        .collect()
}

fn is_current(run: &ObservedRun, planned_events: &[PlannedEvent]) -> bool {
    planned_events
        .iter()
        .any(|planned| match &planned.decision {
            RunDecision::Follow { run: Some(current) }
            | RunDecision::Start { run: current, .. } => *current == run.name,
            // While nothing is started, the status keeps showing the newest run.
            RunDecision::Hold { .. } | RunDecision::Refuse { .. } => true,
            RunDecision::Follow { run: None } => false,
        })
}

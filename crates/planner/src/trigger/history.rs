//! Which finished runs are removed: beyond the limit, oldest first, never one that runs and never
//! the newest of a lane.

use super::{
    Step,
    lane::{Lane, Verdict},
    seen::{Run, Seen},
};

/// The runs to remove once the plan's starts have happened.
pub(crate) fn removals(seen: &Seen<'_>, lanes: &[Lane]) -> Vec<Step> {
    let pipeline = seen.trigger.spec.pipeline.as_ref();
    let Some(limit) = pipeline.and_then(|pipeline| pipeline.max_history) else {
        return Vec::new();
    };
    let limit = usize::try_from(limit).unwrap_or(0).max(1);
    let is_new = |run: &str| seen.runs.iter().all(|existing| existing.name != run);
    let started = lanes.iter().filter(|lane| match &lane.verdict {
        Verdict::Start { run, .. } => is_new(run),
        _ => false,
    });
    let surplus = (seen.runs.len() + started.count()).saturating_sub(limit);
    let mut finished: Vec<&Run> = seen.runs.iter().filter(|run| run.is_finished()).collect();
    finished.retain(|run| !is_current(run, lanes));
    finished.sort_by_key(|run| (run.created, run.name.clone()));
    let surplus = finished.into_iter().take(surplus);
    surplus
        .map(|run| Step::Remove {
            run: run.name.clone(),
            uid: run.uid.clone(),
        })
        .collect()
}

fn is_current(run: &Run, lanes: &[Lane]) -> bool {
    lanes.iter().any(|lane| match &lane.verdict {
        Verdict::Follow { run: Some(current) } | Verdict::Start { run: current, .. } => {
            *current == run.name
        }
        // Whatever is held keeps showing its newest run.
        Verdict::Hold { .. } | Verdict::Refuse { .. } => true,
        Verdict::Follow { run: None } => false,
    })
}

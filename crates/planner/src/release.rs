//! Describes the release of a target: a failed one is named beside the last good one.

use api::pipeline::TargetStatus;

/// What a target runs: `1.1.0`, or `1.2.0 failed (last good 1.1.0)`; nothing where nothing is known.
pub fn release(target: &TargetStatus) -> Option<String> {
    let shown = target.shown_revision();
    let Some(failed) = failed_revision(target) else {
        return shown;
    };
    let is_other = target.revision.as_deref() != Some(failed);
    Some(match shown.filter(|_| is_other) {
        Some(good) => format!("{failed} failed (last good {good})"),
        None => format!("{failed} failed"),
    })
}

/// The revision that a target runs, as it is shown; of apps that are found by label, each one's.
pub(crate) fn running(target: &TargetStatus) -> Option<String> {
    target.shown_revision().or_else(|| {
        let apps = target.apps.iter();
        let mut each: Vec<_> = apps.filter_map(|app| app.revision.as_deref()).collect();
        each.sort_unstable();
        each.dedup();
        (!each.is_empty()).then(|| each.join(" + "))
    })
}

/// Which release failed in a target and why: `1.2.0 failed: the app's message`.
pub fn failed_release(target: &TargetStatus) -> Option<String> {
    let failed = failed_revision(target)?;
    Some(match failure_message(target) {
        Some(message) => format!("{failed} failed: {message}"),
        None => format!("{failed} failed"),
    })
}

/// The revision whose release failed, while the target is not ready.
pub fn failed_revision(target: &TargetStatus) -> Option<&str> {
    target.failed.as_deref().filter(|_| !target.ready)
}

/// The message about a failed release, of a report or of the app itself.
pub fn failure_message(target: &TargetStatus) -> Option<&str> {
    let unready = target.apps.iter().filter(|app| !app.ready);
    let of_app = || unready.filter_map(|app| app.message.as_deref()).next();
    target.failed_because.as_deref().or_else(of_app)
}

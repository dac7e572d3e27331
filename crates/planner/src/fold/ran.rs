//! Records which revisions ran in an environment, the last one first.

use api::pipeline::TargetStatus;

use crate::{site, version_order};

/// How many revisions are kept.
pub(crate) const REMEMBERED: usize = 20;

/// Adds the revisions that targets have begun to run. A revision that came back counts as new; one
/// that another target ran before does not.
pub(super) fn remember(ran: &mut Vec<String>, before: &[TargetStatus], after: &[TargetStatus]) {
    let mut arrivals: Vec<(&TargetStatus, (&str, bool))> = after
        .iter()
        .filter_map(|target| Some((target, arrival(before, target)?)))
        .collect();
    // Several may arrive at once when nothing was known: the newest must end up first.
    let shown = |target: &TargetStatus| target.shown_revision().unwrap_or_default();
    arrivals.sort_by(|(one, _), (other, _)| version_order::total(&shown(one), &shown(other)));
    for (_, (revision, has_moved)) in arrivals {
        let is_known = ran.iter().any(|known| known == revision);
        if is_known && !has_moved {
            continue;
        }
        push_front(ran, revision);
    }
    // A revision whose arrival was not observed is older than those whose arrival was.
    for revision in after.iter().filter_map(|target| target.revision.as_ref()) {
        if ran.len() < REMEMBERED && !ran.contains(revision) {
            ran.push(revision.clone());
        }
    }
}

/// Puts a revision first, once.
pub(crate) fn push_front(revisions: &mut Vec<String>, revision: &str) {
    revisions.retain(|known| known != revision);
    revisions.insert(0, revision.to_owned());
    revisions.truncate(REMEMBERED);
}

/// The revision that a target has begun to run, and whether it ran another one before.
fn arrival<'a>(before: &[TargetStatus], target: &'a TargetStatus) -> Option<(&'a str, bool)> {
    let revision = target.revision.as_deref()?;
    let known = before.iter().find(|known| {
        known.namespace == target.namespace
            && site::cluster_of_status(known) == site::cluster_of_status(target)
    });
    match known.and_then(|known| known.revision.as_deref()) {
        Some(known) if known == revision => None,
        Some(_) => Some((revision, true)),
        None => Some((revision, false)),
    }
}

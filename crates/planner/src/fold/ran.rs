//! Records which revisions ran in an environment, the last one first, and when.

use std::collections::BTreeSet;

use api::{
    Time,
    pipeline::{EarlierStay, RanRevision, TargetStatus},
    revision::is_digest,
};

use crate::{
    site,
    time::{Timestamp, stored},
    version_order,
};

/// How many revisions are kept.
pub(crate) const REMEMBERED: usize = 20;
/// How many earlier stays of each are kept.
const EARLIER_STAYS: usize = 5;

/// Adds the revisions that targets have begun to run, and when they were ready and left. A revision that
/// came back counts as new; one that another target ran before does not.
pub(super) fn remember(
    ran: &mut Vec<RanRevision>,
    before: &[TargetStatus],
    after: &[TargetStatus],
    now: Timestamp,
) {
    let mut arrivals: Vec<(&TargetStatus, (&str, bool))> = after
        .iter()
        .enumerate()
        .filter_map(|(at, target)| Some((target, arrival(before, at, target)?)))
        .collect();
    // Several may arrive at once when nothing was known: the newest must end up first.
    let shown = |target: &TargetStatus| target.shown_revision().unwrap_or_default();
    arrivals.sort_by(|(one, _), (other, _)| version_order::total(&shown(one), &shown(other)));
    let running_before = running(before);
    for (_, (revision, has_moved)) in arrivals {
        let is_known = ran.iter().any(|known| known.revision == revision);
        if is_known && !has_moved {
            continue;
        }
        arrive(ran, revision, running_before.contains(revision));
    }
    // A revision whose arrival was not observed is older than those whose arrival was.
    for revision in after.iter().filter_map(|target| target.revision.as_deref()) {
        if ran.len() < REMEMBERED && ran.iter().all(|known| known.revision != revision) {
            ran.push(revision.into());
        }
    }
    let running_after = running(after);
    for entry in ran {
        let revision = entry.revision.as_str();
        let is_left = running_before.contains(revision) && !running_after.contains(revision);
        if is_left && !running_after.is_empty() {
            entry.left_at = Some(stored(now));
        }
        complete(entry, after);
    }
}

/// Puts a revision first. What was found out about it before still counts; when it ran is an earlier stay,
/// unless another target has run it all along.
fn arrive(ran: &mut Vec<RanRevision>, revision: &str, is_running: bool) {
    let known = ran.iter().position(|known| known.revision == revision);
    let mut entry = known.map_or_else(|| revision.into(), |index| ran.remove(index));
    if !is_running {
        end_stay(&mut entry);
    }
    ran.insert(0, entry);
    ran.truncate(REMEMBERED);
}

/// Moves the times of a revision that comes back to its earlier stays.
fn end_stay(entry: &mut RanRevision) {
    let (first, all) = (entry.first_ready_at.take(), entry.all_ready_at.take());
    let stay = EarlierStay {
        ready_at: all.or(first),
        left_at: entry.left_at.take(),
        promotion: entry.promotion.take(),
    };
    let stays = &mut entry.earlier_stays;
    stays.extend(Some(stay).filter(|it| it.ready_at.is_some()));
    stays.drain(..stays.len().saturating_sub(EARLIER_STAYS));
}

/// Adds what the targets tell about a revision. An entry of the version before, which is a revision and
/// nothing else, gets at least a version, so that it is written as an object.
fn complete(entry: &mut RanRevision, targets: &[TargetStatus]) {
    let there = targets
        .iter()
        .filter(|target| target.revision.as_ref() == Some(&entry.revision));
    let version = there.clone().find_map(|target| target.version.clone());
    let version = version.or_else(|| entry.version.take());
    entry.version = version.or_else(|| Some(entry.revision.clone()));
    let digest = match is_digest(&entry.revision) {
        true => Some(entry.revision.clone()),
        false => there.clone().find_map(|target| target.digest.clone()),
    };
    let digest = digest.or_else(|| entry.digest.clone());
    // Another artifact under the same version was not verified.
    entry.signed &= entry.digest.is_none() || entry.digest == digest;
    entry.digest = digest;
    entry.signed = is_signed(entry.signed, there.clone());
    let ready = there.filter(|target| target.ready);
    let since: Vec<&Time> = ready.filter_map(|it| it.ready_since.as_ref()).collect();
    let first = since.iter().min_by_key(|time| time.0);
    let last = since.iter().max_by_key(|time| time.0);
    let last = last.filter(|_| since.len() == targets.len());
    entry.first_ready_at = entry
        .first_ready_at
        .take()
        .or(first.map(|it| (*it).clone()));
    entry.all_ready_at = entry.all_ready_at.take().or(last.map(|it| (*it).clone()));
}

/// Whether Flux verified the signature: all targets at the revision say so, or did so before and do not
/// deny it now.
fn is_signed<'a>(was_signed: bool, there: impl Iterator<Item = &'a TargetStatus>) -> bool {
    let said: Vec<Option<bool>> = there.map(|target| target.signed).collect();
    if said.contains(&Some(false)) {
        return false;
    }
    let is_said_by_all = !said.is_empty() && said.iter().all(Option::is_some);
    was_signed || is_said_by_all
}

fn running(targets: &[TargetStatus]) -> BTreeSet<&str> {
    let revisions = targets.iter();
    revisions.filter_map(|it| it.revision.as_deref()).collect()
}

/// Puts a revision first, once.
pub(crate) fn push_front(revisions: &mut Vec<String>, revision: &str) {
    revisions.retain(|known| known != revision);
    revisions.insert(0, revision.to_owned());
    revisions.truncate(REMEMBERED);
}

/// The revision that a target has begun to run, and whether it ran another one before. Targets are mostly at
/// the same place as before, which spares a search for each.
fn arrival<'a>(
    before: &[TargetStatus],
    at: usize,
    target: &'a TargetStatus,
) -> Option<(&'a str, bool)> {
    let revision = target.revision.as_deref()?;
    let is_same = |known: &&TargetStatus| {
        known.namespace == target.namespace
            && site::cluster_of_status(known) == site::cluster_of_status(target)
    };
    let here = before.get(at).filter(is_same);
    let known = here.or_else(|| before.iter().find(is_same));
    match known.and_then(|known| known.revision.as_deref()) {
        Some(known) if known == revision => None,
        Some(_) => Some((revision, true)),
        None => Some((revision, false)),
    }
}

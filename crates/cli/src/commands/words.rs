//! Small pieces of text that several commands share.

use api::{
    Time,
    pipeline::{EnvironmentStatus, TargetStatus},
};
use jiff::Timestamp;

/// The known name that somebody probably meant.
pub(super) fn close_to<'a>(typed: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let distance = |name: &str| strsim::damerau_levenshtein(&typed, &name.to_lowercase());
    let limit = (typed.chars().count() / 3).max(1);
    known
        .map(|name| (distance(name), name))
        .filter(|(distance, name)| *distance <= limit || name.to_lowercase().starts_with(&typed))
        .min()
        .map(|(_, name)| name)
}

/// `1 file`, `2 files`.
pub(super) fn count(number: usize, what: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {what}{plural}")
}

/// How long ago, in the unit that matters: `45s`, `12m`, `3h`, `9d`.
pub(super) fn age(since: Option<&Time>, now: Timestamp) -> String {
    since.map_or("-".to_owned(), |since| {
        length(now.as_second() - since.0.as_second())
    })
}

/// A number of seconds in the unit that matters.
pub(super) fn length(seconds: i64) -> String {
    match seconds.max(0) {
        seconds @ 0..120 => format!("{seconds}s"),
        seconds @ 120..7_200 => format!("{}m", seconds / 60),
        seconds @ 7_200..172_800 => format!("{}h", seconds / 3_600),
        seconds => format!("{}d", seconds / 86_400),
    }
}

/// What an environment runs: one revision, or all of them; a release that failed beside the last one
/// that worked.
pub(super) fn runs(status: Option<&EnvironmentStatus>) -> String {
    let targets = status
        .map(|status| status.targets.as_slice())
        .unwrap_or_default();
    let mut revisions: Vec<String> = targets.iter().flat_map(revisions).collect();
    revisions.sort_unstable();
    revisions.dedup();
    match revisions.as_slice() {
        [] => "-".to_owned(),
        several => several.join(" + "),
    }
}

/// What a target runs: apps that are found by label may each have a revision of their own.
fn revisions(target: &TargetStatus) -> Vec<String> {
    let apps = target.apps.iter();
    let mut each: Vec<_> = match planner::release(target) {
        Some(release) => vec![release],
        None => apps.filter_map(|app| app.revision.clone()).collect(),
    };
    if each.is_empty() {
        each.push("-".to_owned());
    }
    each
}

#[cfg(test)]
mod tests {
    use api::pipeline::AppStatus;

    use super::*;

    #[test]
    fn apps_with_revisions_of_their_own_are_all_named() {
        let app = |revision: &str| AppStatus {
            revision: Some(revision.to_owned()),
            ..AppStatus::default()
        };
        let target = TargetStatus {
            apps: vec![app("6.1.0"), app("7")],
            ..TargetStatus::default()
        };
        let environment = |targets| EnvironmentStatus {
            targets,
            ..EnvironmentStatus::default()
        };
        assert_eq!(runs(Some(&environment(vec![target]))), "6.1.0 + 7");
        let nothing = environment(vec![TargetStatus::default()]);
        assert_eq!(runs(Some(&nothing)), "-");
    }

    #[test]
    fn near_misses_are_found_and_strangers_are_not() {
        let known = ["podinfo", "shop", "shop-api"];
        for (typed, expected) in [
            ("podinfos", Some("podinfo")),
            ("Podifno", Some("podinfo")),
            ("pod", Some("podinfo")),
            ("shop", Some("shop")),
            ("backend", None),
        ] {
            assert_eq!(close_to(typed, known.into_iter()), expected, "{typed}");
        }
    }

    #[test]
    fn lengths_are_in_the_unit_that_matters() {
        for (seconds, expected) in [
            (-5, "0s"),
            (119, "119s"),
            (120, "2m"),
            (7_200, "2h"),
            (200_000, "2d"),
        ] {
            assert_eq!(length(seconds), expected);
        }
    }
}

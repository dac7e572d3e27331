//! Orders revisions by their versions, where they have one.

use std::cmp::Ordering;

use api::revision::SourceRevision;
use semver::Version;

/// The order of two revisions by their versions; equal where either has none.
pub(crate) fn compare(one: &str, other: &str) -> Ordering {
    match (version(one), version(other)) {
        (Some(one), Some(other)) => one.cmp_precedence(&other),
        _ => Ordering::Equal,
    }
}

/// An order of any revisions, for sorting: those without a version first, equal ones by their text.
pub(crate) fn total(one: &str, other: &str) -> Ordering {
    let by_version = match (version(one), version(other)) {
        (Some(one), Some(other)) => one.cmp_precedence(&other),
        (one, other) => one.is_some().cmp(&other.is_some()),
    };
    by_version.then_with(|| one.cmp(other))
}

/// Whether both have a version and the first is older.
pub(crate) fn is_older(one: &str, other: &str) -> bool {
    compare(one, other) == Ordering::Less
}

/// Whether it has a version.
pub(crate) fn has_version(revision: &str) -> bool {
    version(revision).is_some()
}

/// The version in `1.2.3`, `v1.2.3` or `v1.2.3@sha1:…`.
fn version(revision: &str) -> Option<Version> {
    let parse = |text: &str| Version::parse(text.strip_prefix('v').unwrap_or(text)).ok();
    parse(revision).or_else(|| {
        let source = SourceRevision::parse(revision);
        let tag = source.tag()?;
        parse(tag.rsplit('@').next().unwrap_or(tag))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(one: &str, order: Ordering, other: &str) {
        assert_eq!(compare(one, other), order, "{one} and {other}");
        assert_eq!(compare(other, one), order.reverse(), "{other} and {one}");
    }

    #[test]
    fn versions_are_ordered_and_other_text_is_not() {
        check("1.2.3", Ordering::Less, "1.10.0");
        check("v1.2.3", Ordering::Less, "1.2.4");
        check("1.2.3-rc.1", Ordering::Less, "1.2.3");
        check("1.2.3+a", Ordering::Equal, "1.2.3+b");
        check(
            "v1.2.3@sha1:abc",
            Ordering::Less,
            "refs/tags/v1.3.0@sha1:abc",
        );
        check("main@sha1:abc", Ordering::Equal, "main@sha1:abd");
        check("main@sha1:abc", Ordering::Equal, "1.0.0");
        check("1.2", Ordering::Equal, "1.3");
    }
}

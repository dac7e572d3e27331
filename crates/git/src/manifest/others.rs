//! What other places are built of is spared.
//!
//! A file that another place is built of, or that lies where another place is, is never changed. Only
//! where two places are built in one directory for different namespaces it is the single field that
//! counts. While nobody knows where another place is built, nothing outside the own directories is
//! changed.

use super::choose::{Candidate, Search};
use super::walk::{Walk, resolve};
use super::{Error, Files, ManifestIdentity, OtherDeployment, WantedField};
use crate::paths::PathLimits;

/// Refuses what is not the place's alone.
pub(super) fn spare(
    files: &Files,
    wanted: &WantedField,
    chosen: &Candidate<'_>,
) -> Result<(), Error> {
    let path = &chosen.reached.path;
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for other in &wanted.others {
        match &other.directories {
            Some(directories) => known.push((other, directories)),
            None => unknown.push(other),
        }
    }
    let is_theirs = |(other, directories): &(&OtherDeployment, &Vec<String>)| {
        let walk = Walk::from(files, directories);
        if is_told_apart(wanted, other, directories) {
            return is_set_for(files, wanted, (other, directories), &walk, chosen);
        }
        is_within(directories, wanted, path) || walk.reaches(path)
    };
    let (what, candidate) = (wanted.what(), chosen.shown());
    if let Some((other, _)) = known.into_iter().find(is_theirs) {
        let other = other.name.clone();
        return Err(Error::Shared {
            what,
            candidate,
            other,
        });
    }
    let is_own = limits(&wanted.directories).allow(path);
    match unknown.first().filter(|_| !is_own) {
        Some(other) => Err(Error::NotObserved {
            what,
            candidate,
            other: other.name.clone(),
        }),
        None => Ok(()),
    }
}

/// Whether a file lies in another place's directories, and not in an own one further inside. The root
/// of a repository is nobody's by that.
fn is_within(directories: &[String], wanted: &WantedField, path: &str) -> bool {
    let is_root = |it: &String| resolve("", it).is_none_or(|it| it.is_empty());
    let theirs: Vec<String> = directories
        .iter()
        .filter(|it| !is_root(it))
        .cloned()
        .collect();
    let (theirs, is_any) = (limits(&theirs), !theirs.is_empty());
    let is_inside = |own: &String| {
        let is_theirs = resolve("", own).is_some_and(|own| theirs.allow(&own));
        is_theirs && limits(std::slice::from_ref(own)).allow(path)
    };
    is_any && theirs.allow(path) && !wanted.directories.iter().any(is_inside)
}

/// Whether both are built in one directory, for different namespaces.
fn is_told_apart(wanted: &WantedField, other: &OtherDeployment, directories: &[String]) -> bool {
    other.namespace != wanted.identity.namespace
        && directories_overlap(&wanted.directories, directories)
}

/// Whether a directory of one is a directory of the other, or in one.
pub fn directories_overlap(one: &[String], other: &[String]) -> bool {
    let is_in = |these: &[String], those: &[String]| {
        let limits = limits(those);
        let mut these = these.iter().filter_map(|it| resolve("", it));
        these.any(|it| limits.allow(&it))
    };
    is_in(one, other) || is_in(other, one)
}

/// Whether the field says something for the other place too.
fn is_set_for(
    files: &Files,
    wanted: &WantedField,
    (other, directories): (&OtherDeployment, &[String]),
    walk: &Walk<'_>,
    chosen: &Candidate<'_>,
) -> bool {
    let theirs = WantedField {
        identity: ManifestIdentity {
            namespace: other.namespace.clone(),
            ..wanted.identity.clone()
        },
        directories: directories.to_vec(),
        ..wanted.clone()
    };
    let (found, _) = Search::new(files, &theirs, walk).effective();
    let shown = chosen.shown();
    found.iter().any(|candidate| candidate.shown() == shown)
}

fn limits(directories: &[String]) -> PathLimits {
    let plain = directories.iter().filter_map(|it| resolve("", it));
    let plain: Vec<String> = plain
        .map(|it| if it.is_empty() { ".".to_owned() } else { it })
        .collect();
    PathLimits::new(plain.iter().map(String::as_str)).unwrap_or_default()
}

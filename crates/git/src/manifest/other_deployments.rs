//! Refuses edits that would affect another deployment.
//!
//! A file that another deployment is built from, or that is in one of its directories, is never changed.
//! If two deployments are built in one directory for different namespaces, the single field decides.
//! While the directories of another deployment are not known, only files in own directories are changed.

use super::build_graph::BuildGraph;
use super::paths::resolve;
use super::search::{CandidateField, FieldSearch};
use super::{Error, ManifestIdentity, OtherDeployment, RepositoryFiles, WantedField};
use crate::paths::PathLimits;

/// Refuses a field that another deployment uses, or may use.
pub(super) fn refuse_shared(
    files: &RepositoryFiles,
    wanted: &WantedField,
    chosen: &CandidateField<'_>,
) -> Result<(), Error> {
    let path = &chosen.file.path;
    let (mut known, mut unknown) = (Vec::new(), Vec::new());
    for other in &wanted.others {
        match &other.directories {
            Some(directories) => known.push((other, directories)),
            None => unknown.push(other),
        }
    }
    let is_theirs = |(other, directories): &(&OtherDeployment, &Vec<String>)| {
        let graph = BuildGraph::new(files, directories);
        if differs_by_namespace(wanted, other, directories) {
            return applies_to(files, wanted, other, &graph, chosen);
        }
        is_in_their_directory(directories, wanted, path) || graph.contains(path)
    };
    let (what, candidate) = (wanted.description(), chosen.location());
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

/// Whether a file is in a directory of the other deployment and not in an own directory inside of it.
/// The root of the repository does not count.
fn is_in_their_directory(directories: &[String], wanted: &WantedField, path: &str) -> bool {
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

/// Whether both are built in one directory for different namespaces.
fn differs_by_namespace(
    wanted: &WantedField,
    other: &OtherDeployment,
    directories: &[String],
) -> bool {
    other.namespace != wanted.identity.namespace
        && directories_overlap(&wanted.directories, directories)
}

/// Whether a directory of one is equal to or inside a directory of the other.
pub fn directories_overlap(one: &[String], other: &[String]) -> bool {
    let is_in = |these: &[String], those: &[String]| {
        let limits = limits(those);
        let mut these = these.iter().filter_map(|it| resolve("", it));
        these.any(|it| limits.allow(&it))
    };
    is_in(one, other) || is_in(other, one)
}

/// Whether the field also applies to the other deployment.
fn applies_to(
    files: &RepositoryFiles,
    wanted: &WantedField,
    other: &OtherDeployment,
    graph: &BuildGraph<'_>,
    chosen: &CandidateField<'_>,
) -> bool {
    let theirs = WantedField {
        identity: ManifestIdentity {
            namespace: other.namespace.clone(),
            ..wanted.identity.clone()
        },
        ..wanted.clone()
    };
    let (found, _) = FieldSearch::new(files, &theirs, graph).effective_candidates();
    let location = chosen.location();
    found
        .iter()
        .any(|candidate| candidate.location() == location)
}

fn limits(directories: &[String]) -> PathLimits {
    let plain = directories.iter().filter_map(|it| resolve("", it));
    let plain: Vec<String> = plain
        .map(|it| if it.is_empty() { ".".to_owned() } else { it })
        .collect();
    PathLimits::new(plain.iter().map(String::as_str)).unwrap_or_default()
}

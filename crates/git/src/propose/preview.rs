//! Computes the result of a requested edit for the files of a local checkout.

use std::collections::{BTreeMap, BTreeSet};

use super::file_changes::refuse_executed_files;
use super::{Error, Proposal, RequestedEdit};
use crate::edit::{self, EditedFile};
use crate::manifest::{
    self, BuildGraph, Manifests, PinnedVersion, RepositoryFiles, RepositoryIdentity, WantedField,
};
use crate::mirror::SkippedFile;
use crate::paths::PathLimits;

/// The files of a checkout, by their paths from its root.
pub type CheckoutFiles = BTreeMap<String, Vec<u8>>;

/// The files that would change. `url` is that of the repository.
pub fn preview(
    files: &CheckoutFiles,
    url: &str,
    proposal: &Proposal,
) -> Result<BTreeMap<String, EditedFile>, Error> {
    let mut edited = match &proposal.edit {
        RequestedEdit::MarkedFields { marker, value } => {
            set_marked(files, proposal, marker, value)?
        }
        RequestedEdit::MarkedOrFoundFields {
            marker,
            value,
            wanted,
        } => match set_marked(files, proposal, marker, value) {
            Err(Error::NoMarker { outside, .. }) if outside.is_empty() => {
                set_found(files, url, proposal, wanted)?
            }
            edited => edited?,
        },
        RequestedEdit::WholeFile { path, content } => {
            let same = files.get(path) == Some(content);
            let edited = EditedFile {
                content: content.clone(),
                marked: 1,
                changed: usize::from(!same),
                edits: Vec::new(),
            };
            [(path.clone(), edited)].into()
        }
    };
    edited.retain(|_, edited| edited.changed > 0);
    refuse_executed_files(edited.keys())?;
    Ok(edited)
}

fn set_marked(
    files: &CheckoutFiles,
    proposal: &Proposal,
    marker: &str,
    value: &PinnedVersion,
) -> Result<BTreeMap<String, EditedFile>, Error> {
    let (mut inside, mut outside, mut skipped) = (BTreeMap::new(), Vec::new(), Vec::new());
    for (path, content) in files {
        match edit::markers(content) {
            Ok(markers) if !markers.contains(marker) => {}
            Ok(_) if !proposal.paths.allow(path) => outside.push(path.clone()),
            Ok(_) => {
                let edited = edit::set_marked_to(content, marker, value);
                inside.insert(path.clone(), with_path(path, edited)?);
            }
            Err(error) => skipped.push(SkippedFile {
                path: path.clone(),
                because: error.to_string(),
            }),
        }
    }
    match inside.is_empty() {
        true => Err(Error::NoMarker {
            marker: marker.to_owned(),
            skipped,
            outside,
        }),
        false => Ok(inside),
    }
}

fn set_found(
    files: &CheckoutFiles,
    url: &str,
    proposal: &Proposal,
    wanted: &[WantedField],
) -> Result<BTreeMap<String, EditedFile>, Error> {
    let mut parsed = RepositoryFiles {
        identity: RepositoryIdentity::of(url),
        paths: files.keys().cloned().collect(),
        read: BTreeMap::new(),
    };
    let mut changes: BTreeMap<String, BTreeSet<(usize, String)>> = BTreeMap::new();
    for wanted in wanted {
        let (path, fields) = find_field(files, &mut parsed, (wanted, &proposal.paths))?;
        if !proposal.paths.allow(&path) {
            let because = "it is outside the paths that may change";
            return Err(Error::Path { path, because });
        }
        changes.entry(path).or_default().extend(fields);
    }
    let edit = |(path, changes): (String, BTreeSet<_>)| {
        let changes: Vec<_> = changes.into_iter().collect();
        let edited = with_path(&path, edit::set_events(&files[&path], &changes))?;
        Ok((path, edited))
    };
    changes.into_iter().map(edit).collect()
}

/// Finds one wanted field: the file and the values to write. Parses more files until all that the search
/// depends on are parsed.
fn find_field(
    files: &CheckoutFiles,
    parsed: &mut RepositoryFiles,
    (wanted, limits): (&WantedField, &PathLimits),
) -> Result<(String, Vec<(usize, String)>), Error> {
    loop {
        let own = BuildGraph::new(parsed, &wanted.directories);
        let others = BuildGraph::new(parsed, &wanted.other_directories());
        let missing: Vec<String> = own.missing.union(&others.missing).cloned().collect();
        if missing.is_empty() {
            return Ok(manifest::find_field(parsed, wanted, limits, &own)?);
        }
        let read = |path: String| (path.clone(), Manifests::read(&files[&path]).ok());
        parsed.read.extend(missing.into_iter().map(read));
    }
}

fn with_path(path: &str, edited: Result<EditedFile, edit::Error>) -> Result<EditedFile, Error> {
    edited.map_err(|source| Error::Edit {
        path: path.to_owned(),
        source,
    })
}

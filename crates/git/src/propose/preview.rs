//! What a change would make of files that lie on this machine, without a remote.

use std::collections::{BTreeMap, BTreeSet};

use super::alter::refuse_instructions;
use super::{Error, Proposal, RequestedEdit};
use crate::edit::{self, EditedFile};
use crate::manifest::{self, Files, Home, Manifests, PinnedVersion, Walk, WantedField};
use crate::mirror::SkippedFile;
use crate::paths::PathLimits;

/// The files of a checkout, by their paths from its root.
pub type Checkout = BTreeMap<String, Vec<u8>>;

/// The files that would be different. The URL is that of the repository they are a checkout of.
pub fn preview(
    files: &Checkout,
    url: &str,
    proposal: &Proposal,
) -> Result<BTreeMap<String, EditedFile>, Error> {
    let mut edited = match &proposal.edit {
        RequestedEdit::MarkedFields { marker, value } => set(files, proposal, marker, value)?,
        RequestedEdit::MarkedOrFoundFields {
            marker,
            value,
            wanted,
        } => match set(files, proposal, marker, value) {
            Err(Error::NoMarker { outside, .. }) if outside.is_empty() => {
                find(files, url, proposal, wanted)?
            }
            edited => edited?,
        },
        RequestedEdit::WholeFile { path, content } => {
            let same = files.get(path) == Some(content);
            let edited = EditedFile {
                content: content.clone(),
                marked: 1,
                changed: usize::from(!same),
            };
            [(path.clone(), edited)].into()
        }
    };
    edited.retain(|_, edited| edited.changed > 0);
    refuse_instructions(edited.keys())?;
    Ok(edited)
}

fn set(
    files: &Checkout,
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
                inside.insert(path.clone(), named(path, edited)?);
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

fn find(
    files: &Checkout,
    url: &str,
    proposal: &Proposal,
    wanted: &[WantedField],
) -> Result<BTreeMap<String, EditedFile>, Error> {
    let mut known = Files {
        home: Home::of(url),
        paths: files.keys().cloned().collect(),
        read: BTreeMap::new(),
    };
    let mut changes: BTreeMap<String, BTreeSet<(usize, String)>> = BTreeMap::new();
    for wanted in wanted {
        let (path, of_one) = find_one(files, &mut known, (wanted, &proposal.paths))?;
        if !proposal.paths.allow(&path) {
            let because = "it is outside the paths that may change";
            return Err(Error::Path { path, because });
        }
        changes.entry(path).or_default().extend(of_one);
    }
    let edit = |(path, changes): (String, BTreeSet<_>)| {
        let changes: Vec<_> = changes.into_iter().collect();
        let edited = named(&path, edit::set_events(&files[&path], &changes))?;
        Ok((path, edited))
    };
    changes.into_iter().map(edit).collect()
}

/// The file and the fields that are meant, once all that matters has been read.
fn find_one(
    files: &Checkout,
    known: &mut Files,
    (wanted, limits): (&WantedField, &PathLimits),
) -> Result<(String, Vec<(usize, String)>), Error> {
    loop {
        let own = Walk::from(known, &wanted.directories);
        let others = Walk::from(known, &wanted.foreign());
        let missing: Vec<String> = own.missing.union(&others.missing).cloned().collect();
        if missing.is_empty() {
            return Ok(manifest::choose(known, wanted, limits, &own)?);
        }
        let read = |path: String| (path.clone(), Manifests::read(&files[&path]).ok());
        known.read.extend(missing.into_iter().map(read));
    }
}

fn named(path: &str, edited: Result<EditedFile, edit::Error>) -> Result<EditedFile, Error> {
    edited.map_err(|source| Error::Edit {
        path: path.to_owned(),
        source,
    })
}

//! Computes the file changes of a requested edit.

use std::collections::{BTreeMap, BTreeSet};

use super::{Error, Proposal, ProposalResult, ProposedBranch, ProposedEdit, RequestedEdit};
use crate::commit::FileChange;
use crate::manifest::{
    self, BuildGraph, Manifests, PinnedVersion, RepositoryFiles, RepositoryIdentity, WantedField,
};
use crate::mirror::{self, MAX_FILE_SIZE, Mirror, SkippedFile, TreeEntry};
use crate::names::{BranchName, ObjectId};
use crate::paths::PathLimits;
use crate::{blocking, edit, paths};

/// How many files are read by one command.
const BATCH_SIZE: usize = 64;

/// The largest number of files that one edit may touch.
const MAX_FILES: usize = 500;

#[derive(Default)]
pub(super) struct FileChanges {
    pub(super) files: Vec<FileChange>,
    pub(super) skipped: Vec<SkippedFile>,
}

impl FileChanges {
    /// The values that differ, by file and path.
    pub(super) fn edits(&self) -> Vec<ProposedEdit> {
        let edits = self.files.iter().flat_map(|file| {
            let edits = file.edits.iter().cloned();
            edits.map(|edit| ProposedEdit {
                file: file.path.clone(),
                edit,
            })
        });
        let mut edits: Vec<ProposedEdit> = edits.collect();
        edits.sort();
        edits
    }

    pub(super) fn into_result(
        self,
        branch: BranchName,
        commit: ObjectId,
        base: ObjectId,
        current: Option<ObjectId>,
    ) -> ProposalResult {
        let pushed = current.as_ref() != Some(&commit);
        let edits = self.edits();
        let files = self.files.into_iter().map(|file| file.path).collect();
        let skipped = self.skipped;
        ProposalResult::Proposed(ProposedBranch {
            branch,
            commit,
            base,
            files,
            edits,
            skipped,
            pushed,
            replaced: current.filter(|_| pushed),
        })
    }
}

/// Computes the changes, and refuses those to files that forges execute.
pub(super) async fn compute(
    mirror: &Mirror,
    base: &ObjectId,
    proposal: &Proposal,
) -> Result<FileChanges, Error> {
    let changes = compute_any(mirror, base, proposal).await?;
    refuse_executed_files(changes.files.iter().map(|file| &file.path))?;
    Ok(changes)
}

/// Refuses to change files that a forge executes as soon as the branch is pushed.
pub(super) fn refuse_executed_files<'a>(
    paths: impl IntoIterator<Item = &'a String>,
) -> Result<(), Error> {
    match paths.into_iter().find(|path| paths::may_be_executed(path)) {
        Some(path) => Err(Error::Path {
            path: path.clone(),
            because: "forges may execute it before a review; put the marker and the manifest into a \
                      folder that is not hidden",
        }),
        None => Ok(()),
    }
}

async fn compute_any(
    mirror: &Mirror,
    base: &ObjectId,
    proposal: &Proposal,
) -> Result<FileChanges, Error> {
    match &proposal.edit {
        RequestedEdit::MarkedFields { marker, value } => {
            set_marked(mirror, base, proposal, (marker, value)).await
        }
        RequestedEdit::MarkedOrFoundFields {
            marker,
            value,
            wanted,
        } => match set_marked(mirror, base, proposal, (marker, value)).await {
            Err(Error::NoMarker { outside, .. }) if outside.is_empty() => {
                set_found(mirror, base, proposal, wanted).await
            }
            changes => changes,
        },
        RequestedEdit::WholeFile { path, content } => {
            write_file(mirror, base, proposal, (path, content)).await
        }
    }
}

/// Sets all scalars with the marker.
async fn set_marked(
    mirror: &Mirror,
    base: &ObjectId,
    proposal: &Proposal,
    (marker, value): (&str, &PinnedVersion),
) -> Result<FileChanges, Error> {
    let (entries, skipped) = mirror.files_with_marker(base, marker).await?;
    let (inside, outside): (Vec<TreeEntry>, Vec<TreeEntry>) = entries
        .into_iter()
        .partition(|entry| proposal.paths.allow(&entry.path));
    if inside.is_empty() {
        let outside = outside.into_iter().map(|entry| entry.path).collect();
        return Err(Error::NoMarker {
            marker: marker.to_owned(),
            skipped,
            outside,
        });
    }
    if inside.len() > MAX_FILES {
        return Err(Error::TooManyFiles { limit: MAX_FILES });
    }
    let ids: Vec<ObjectId> = inside.iter().map(|entry| entry.id.clone()).collect();
    let contents = mirror::read_blobs(mirror, &ids).await?;
    let mut files = Vec::new();
    for (entry, content) in inside.into_iter().zip(contents) {
        let edited =
            edit::set_marked_to(&content, marker, value).map_err(|source| Error::Edit {
                path: entry.path.clone(),
                source,
            })?;
        if edited.changed > 0 {
            files.push(FileChange {
                path: entry.path,
                mode: entry.mode,
                content: edited.content,
                edits: edited.edits,
            });
        }
    }
    Ok(FileChanges { files, skipped })
}

/// Finds the wanted fields in manifests and sets them.
async fn set_found(
    mirror: &Mirror,
    base: &ObjectId,
    proposal: &Proposal,
    wanted: &[WantedField],
) -> Result<FileChanges, Error> {
    let entries = mirror::list_files(mirror, base).await?.into_iter();
    let entries: BTreeMap<String, TreeEntry> = entries
        .filter(TreeEntry::is_file)
        .map(|entry| (entry.path.clone(), entry))
        .collect();
    let mut files = RepositoryFiles {
        identity: RepositoryIdentity::of(mirror.url.as_str()),
        paths: entries.keys().cloned().collect(),
        read: BTreeMap::new(),
    };
    // Several deployments may be built from the same file.
    let mut changes: BTreeMap<String, BTreeSet<(usize, String)>> = BTreeMap::new();
    for wanted in wanted {
        let (path, fields) =
            find_field(mirror, &entries, &mut files, (wanted, &proposal.paths)).await?;
        if !proposal.paths.allow(&path) {
            let because = "it is outside the paths that may change";
            return Err(Error::Path { path, because });
        }
        changes.entry(path).or_default().extend(fields);
    }
    let mut changes_to_files = FileChanges::default();
    for (path, changes) in changes {
        let changes: Vec<(usize, String)> = changes.into_iter().collect();
        let file = write_fields(mirror, &entries[&path], &changes).await?;
        changes_to_files.files.extend(file);
    }
    Ok(changes_to_files)
}

/// Finds one wanted field: the file and the values to write. Reads more files until all that the search
/// depends on are read.
async fn find_field(
    mirror: &Mirror,
    entries: &BTreeMap<String, TreeEntry>,
    files: &mut RepositoryFiles,
    (wanted, limits): (&WantedField, &PathLimits),
) -> Result<(String, Vec<(usize, String)>), Error> {
    loop {
        let own = BuildGraph::new(files, &wanted.directories);
        let others = BuildGraph::new(files, &wanted.other_directories());
        let missing: BTreeSet<&String> = own.missing.union(&others.missing).collect();
        if missing.is_empty() {
            return Ok(manifest::find_field(files, wanted, limits, &own)?);
        }
        let missing: Vec<&TreeEntry> = missing.into_iter().map(|path| &entries[path]).collect();
        let read = parse_files(mirror, missing).await?;
        files.read.extend(read);
    }
}

async fn write_fields(
    mirror: &Mirror,
    entry: &TreeEntry,
    changes: &[(usize, String)],
) -> Result<Option<FileChange>, Error> {
    let path = entry.path.clone();
    let content = mirror::read_blobs(mirror, std::slice::from_ref(&entry.id)).await?;
    let edited = edit::set_events(&content.concat(), changes).map_err(|source| Error::Edit {
        path: path.clone(),
        source,
    })?;
    Ok((edited.changed > 0).then(|| FileChange {
        path,
        mode: entry.mode.clone(),
        content: edited.content,
        edits: edited.edits,
    }))
}

/// Reads and parses files, a batch at a time.
async fn parse_files(
    mirror: &Mirror,
    entries: Vec<&TreeEntry>,
) -> Result<Vec<(String, Option<Manifests>)>, Error> {
    let mut parsed = Vec::new();
    for batch in entries.chunks(BATCH_SIZE) {
        let (batch, large): (Vec<&TreeEntry>, Vec<&TreeEntry>) =
            batch.iter().partition(|entry| entry.size <= MAX_FILE_SIZE);
        parsed.extend(large.into_iter().map(|entry| (entry.path.clone(), None)));
        let ids: Vec<ObjectId> = batch.iter().map(|entry| entry.id.clone()).collect();
        let contents = mirror::read_blobs(mirror, &ids).await?;
        let paths: Vec<String> = batch.iter().map(|entry| entry.path.clone()).collect();
        // Parsing many files must not block other tasks.
        let read = blocking::run(move || {
            let read = |content: &Vec<u8>| Manifests::read(content).ok();
            contents.iter().map(read).collect::<Vec<_>>()
        });
        let mut read = read.await.unwrap_or_default();
        read.resize_with(paths.len(), || None);
        parsed.extend(paths.into_iter().zip(read));
    }
    Ok(parsed)
}

/// Writes a whole file.
async fn write_file(
    mirror: &Mirror,
    base: &ObjectId,
    proposal: &Proposal,
    (path, content): (&str, &[u8]),
) -> Result<FileChanges, Error> {
    paths::check(path)?;
    let entries = mirror::list_files(mirror, base).await?;
    if let Some(because) = objection(path, content, proposal, &entries) {
        let path = path.to_owned();
        return Err(Error::Path { path, because });
    }
    let mut changes_to_files = FileChanges::default();
    let mut mode = "100644".to_owned();
    if let Some(entry) = entries.into_iter().find(|entry| entry.path == path) {
        let old = mirror::read_blobs(mirror, &[entry.id]).await?;
        if old.first().is_some_and(|old| old == content) {
            return Ok(changes_to_files);
        }
        mode = entry.mode;
    }
    let (path, content) = (path.to_owned(), content.to_vec());
    changes_to_files.files.push(FileChange {
        path,
        mode,
        content,
        edits: Vec::new(),
    });
    Ok(changes_to_files)
}

/// Why a file must not be written, as the end of a sentence.
fn objection(
    path: &str,
    content: &[u8],
    proposal: &Proposal,
    entries: &[TreeEntry],
) -> Option<&'static str> {
    let is_below = |path: &str, folder: &str| {
        let rest = path.strip_prefix(folder);
        rest.is_some_and(|rest| rest.starts_with('/'))
    };
    if !proposal.paths.allow(path) {
        return Some("it is outside the paths that may change");
    }
    if content.len() as u64 > MAX_FILE_SIZE {
        return Some("it is too large");
    }
    if entries.iter().any(|entry| is_below(path, &entry.path)) {
        return Some("a folder of its path is a file, a link or a submodule");
    }
    if entries.iter().any(|entry| is_below(&entry.path, path)) {
        return Some("there is a folder of that name");
    }
    let present = entries.iter().find(|entry| entry.path == path);
    present
        .filter(|entry| !entry.is_file())
        .map(|_| "there is a link or a submodule of that name")
}

/// Details for the error that no file has the marker.
pub(super) fn remark(skipped: &[SkippedFile], outside: &[String]) -> String {
    let mut remark = String::new();
    if !outside.is_empty() {
        let shown = outside
            .iter()
            .take(5)
            .cloned()
            .collect::<Vec<_>>()
            .join(", ");
        remark.push_str(&format!(
            " within the allowed paths (outside of them: {shown})"
        ));
    }
    if !skipped.is_empty() {
        let shown = skipped
            .iter()
            .take(5)
            .map(|file| file.path.as_str())
            .collect::<Vec<_>>()
            .join(", ");
        remark.push_str(&format!("; not readable: {shown}"));
    }
    remark
}

//! The files a change consists of.

use std::collections::{BTreeMap, BTreeSet};

use super::{Error, Proposal, ProposalResult, ProposedBranch, RequestedEdit};
use crate::commit::FileChange;
use crate::manifest::{self, Files, Home, Manifests, PinnedVersion, Walk, WantedField};
use crate::mirror::{self, Entry, FILE_LIMIT, Mirror, SkippedFile};
use crate::names::{BranchName, ObjectId};
use crate::paths::PathLimits;
use crate::{edit, paths};

/// How many files are read in one go.
const BATCH: usize = 64;

/// More files than this in one change are a mistake.
const FILES: usize = 500;

#[derive(Default)]
pub(super) struct Altered {
    pub(super) files: Vec<FileChange>,
    pub(super) skipped: Vec<SkippedFile>,
}

impl Altered {
    pub(super) fn proposed(
        self,
        branch: BranchName,
        commit: ObjectId,
        base: ObjectId,
        seen: Option<ObjectId>,
    ) -> ProposalResult {
        let pushed = seen.as_ref() != Some(&commit);
        let files = self.files.into_iter().map(|file| file.path).collect();
        let skipped = self.skipped;
        ProposalResult::Proposed(ProposedBranch {
            branch,
            commit,
            base,
            files,
            skipped,
            pushed,
            replaced: seen.filter(|_| pushed),
        })
    }
}

pub(super) async fn alter(
    mirror: &Mirror,
    base: &ObjectId,
    proposal: &Proposal,
) -> Result<Altered, Error> {
    let altered = alter_any(mirror, base, proposal).await?;
    refuse_instructions(altered.files.iter().map(|file| &file.path))?;
    Ok(altered)
}

/// Refuses to change what a forge would run as soon as the branch is pushed.
pub(super) fn refuse_instructions<'a>(
    paths: impl IntoIterator<Item = &'a String>,
) -> Result<(), Error> {
    match paths.into_iter().find(|path| paths::may_be_run(path)) {
        Some(path) => Err(Error::Path {
            path: path.clone(),
            because: "forges may run what it says before anybody has reviewed it; put the marker \
                      and the manifest somewhere that is not hidden",
        }),
        None => Ok(()),
    }
}

async fn alter_any(
    mirror: &Mirror,
    base: &ObjectId,
    proposal: &Proposal,
) -> Result<Altered, Error> {
    match &proposal.edit {
        RequestedEdit::MarkedFields { marker, value } => {
            set(mirror, base, proposal, (marker, value)).await
        }
        RequestedEdit::MarkedOrFoundFields {
            marker,
            value,
            wanted,
        } => match set(mirror, base, proposal, (marker, value)).await {
            Err(Error::NoMarker { outside, .. }) if outside.is_empty() => {
                find(mirror, base, proposal, wanted).await
            }
            altered => altered,
        },
        RequestedEdit::WholeFile { path, content } => {
            write(mirror, base, proposal, (path, content)).await
        }
    }
}

async fn set(
    mirror: &Mirror,
    base: &ObjectId,
    proposal: &Proposal,
    (marker, value): (&str, &PinnedVersion),
) -> Result<Altered, Error> {
    let (entries, skipped) = mirror.marked(base, marker).await?;
    let (inside, outside): (Vec<Entry>, Vec<Entry>) = entries
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
    if inside.len() > FILES {
        return Err(Error::TooManyFiles { limit: FILES });
    }
    let ids: Vec<ObjectId> = inside.iter().map(|entry| entry.id.clone()).collect();
    let contents = mirror::read(mirror, &ids).await?;
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
            });
        }
    }
    Ok(Altered { files, skipped })
}

/// Sets the fields of the manifests that are meant.
async fn find(
    mirror: &Mirror,
    base: &ObjectId,
    proposal: &Proposal,
    wanted: &[WantedField],
) -> Result<Altered, Error> {
    let entries = mirror::list(mirror, base).await?.into_iter();
    let entries: BTreeMap<String, Entry> = entries
        .filter(Entry::is_file)
        .map(|entry| (entry.path.clone(), entry))
        .collect();
    let mut files = Files {
        home: Home::of(mirror.url.as_str()),
        paths: entries.keys().cloned().collect(),
        read: BTreeMap::new(),
    };
    // Several places may be built of the same file.
    let mut changes: BTreeMap<String, BTreeSet<(usize, String)>> = BTreeMap::new();
    for wanted in wanted {
        let (path, of_one) =
            find_one(mirror, &entries, &mut files, (wanted, &proposal.paths)).await?;
        if !proposal.paths.allow(&path) {
            let because = "it is outside the paths that may change";
            return Err(Error::Path { path, because });
        }
        changes.entry(path).or_default().extend(of_one);
    }
    let mut altered = Altered::default();
    for (path, changes) in changes {
        let changes: Vec<(usize, String)> = changes.into_iter().collect();
        let file = write_fields(mirror, &entries[&path], &changes).await?;
        altered.files.extend(file);
    }
    Ok(altered)
}

/// The file and the fields that are meant, once all that matters has been read.
async fn find_one(
    mirror: &Mirror,
    entries: &BTreeMap<String, Entry>,
    files: &mut Files,
    (wanted, limits): (&WantedField, &PathLimits),
) -> Result<(String, Vec<(usize, String)>), Error> {
    loop {
        let own = Walk::from(files, &wanted.directories);
        let others = Walk::from(files, &wanted.foreign());
        let missing: BTreeSet<&String> = own.missing.union(&others.missing).collect();
        if missing.is_empty() {
            return Ok(manifest::choose(files, wanted, limits, &own)?);
        }
        let missing: Vec<&Entry> = missing.into_iter().map(|path| &entries[path]).collect();
        let read = parse(mirror, missing).await?;
        files.read.extend(read);
    }
}

async fn write_fields(
    mirror: &Mirror,
    entry: &Entry,
    changes: &[(usize, String)],
) -> Result<Option<FileChange>, Error> {
    let path = entry.path.clone();
    let content = mirror::read(mirror, std::slice::from_ref(&entry.id)).await?;
    let edited = edit::set_events(&content.concat(), changes).map_err(|source| Error::Edit {
        path: path.clone(),
        source,
    })?;
    Ok((edited.changed > 0).then(|| FileChange {
        path,
        mode: entry.mode.clone(),
        content: edited.content,
    }))
}

/// Reads files as manifests, a few at a time.
async fn parse(
    mirror: &Mirror,
    entries: Vec<&Entry>,
) -> Result<Vec<(String, Option<Manifests>)>, Error> {
    let mut parsed = Vec::new();
    for some in entries.chunks(BATCH) {
        let (some, large): (Vec<&Entry>, Vec<&Entry>) =
            some.iter().partition(|entry| entry.size <= FILE_LIMIT);
        parsed.extend(large.into_iter().map(|entry| (entry.path.clone(), None)));
        let ids: Vec<ObjectId> = some.iter().map(|entry| entry.id.clone()).collect();
        let contents = mirror::read(mirror, &ids).await?;
        let paths: Vec<String> = some.iter().map(|entry| entry.path.clone()).collect();
        // Many files must not hold up other work.
        let read = tokio::task::spawn_blocking(move || {
            let read = |content: &Vec<u8>| Manifests::read(content).ok();
            contents.iter().map(read).collect::<Vec<_>>()
        });
        let mut read = read.await.unwrap_or_default();
        read.resize_with(paths.len(), || None);
        parsed.extend(paths.into_iter().zip(read));
    }
    Ok(parsed)
}

async fn write(
    mirror: &Mirror,
    base: &ObjectId,
    proposal: &Proposal,
    (path, content): (&str, &[u8]),
) -> Result<Altered, Error> {
    paths::check(path)?;
    let entries = mirror::list(mirror, base).await?;
    if let Some(because) = objection(path, content, proposal, &entries) {
        let path = path.to_owned();
        return Err(Error::Path { path, because });
    }
    let mut altered = Altered::default();
    let mut mode = "100644".to_owned();
    if let Some(entry) = entries.into_iter().find(|entry| entry.path == path) {
        let old = mirror::read(mirror, &[entry.id]).await?;
        if old.first().is_some_and(|old| old == content) {
            return Ok(altered);
        }
        mode = entry.mode;
    }
    let (path, content) = (path.to_owned(), content.to_vec());
    altered.files.push(FileChange {
        path,
        mode,
        content,
    });
    Ok(altered)
}

/// Why a file may not be written, as the end of a sentence.
fn objection(
    path: &str,
    content: &[u8],
    proposal: &Proposal,
    entries: &[Entry],
) -> Option<&'static str> {
    let is_below = |path: &str, folder: &str| {
        let rest = path.strip_prefix(folder);
        rest.is_some_and(|rest| rest.starts_with('/'))
    };
    if !proposal.paths.allow(path) {
        return Some("it is outside the paths that may change");
    }
    if content.len() as u64 > FILE_LIMIT {
        return Some("it is too large");
    }
    if entries.iter().any(|entry| is_below(path, &entry.path)) {
        return Some("a folder on the way is a file, a link or another repository");
    }
    if entries.iter().any(|entry| is_below(&entry.path, path)) {
        return Some("there is a folder of that name");
    }
    let present = entries.iter().find(|entry| entry.path == path);
    present
        .filter(|entry| !entry.is_file())
        .map(|_| "there is a link or another repository of that name")
}

/// What else a person should know when a marker was not found.
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

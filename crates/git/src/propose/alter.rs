//! The files a change consists of.

use super::{Alteration, Error, Proposal};
use crate::commit::FileChange;
use crate::mirror::{self, Entry, FILE_LIMIT, Mirror, Skipped};
use crate::names::ObjectId;
use crate::{edit, paths};

/// More files than this in one change are a mistake.
const FILES: usize = 500;

pub(super) struct Altered {
    pub(super) files: Vec<FileChange>,
    pub(super) skipped: Vec<Skipped>,
}

pub(super) async fn alter(
    mirror: &Mirror,
    base: &ObjectId,
    proposal: &Proposal,
) -> Result<Altered, Error> {
    match &proposal.alteration {
        Alteration::Marked { marker, value } => set(mirror, base, proposal, (marker, value)).await,
        Alteration::File { path, content } => write(mirror, base, proposal, (path, content)).await,
    }
}

async fn set(
    mirror: &Mirror,
    base: &ObjectId,
    proposal: &Proposal,
    (marker, value): (&str, &str),
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
        let edited = edit::set_marked(&content, marker, value).map_err(|source| Error::Edit {
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

async fn write(
    mirror: &Mirror,
    base: &ObjectId,
    proposal: &Proposal,
    (path, content): (&str, &[u8]),
) -> Result<Altered, Error> {
    let refuse = |because| {
        Err(Error::Path {
            path: path.to_owned(),
            because,
        })
    };
    paths::check(path)?;
    if !proposal.paths.allow(path) {
        return refuse("it is outside the paths that may change");
    }
    if content.len() as u64 > FILE_LIMIT {
        return refuse("it is too large");
    }
    let entries = mirror::list(mirror, base).await?;
    let is_above = |entry: &&Entry| {
        path.strip_prefix(&entry.path)
            .is_some_and(|rest| rest.starts_with('/'))
    };
    let is_below = |entry: &&Entry| {
        entry
            .path
            .strip_prefix(path)
            .is_some_and(|rest| rest.starts_with('/'))
    };
    if entries.iter().any(|entry| is_above(&entry)) {
        return refuse("a folder on the way is a file, a link or another repository");
    }
    if entries.iter().any(|entry| is_below(&entry)) {
        return refuse("there is a folder of that name");
    }
    let mut mode = "100644".to_owned();
    if let Some(entry) = entries.into_iter().find(|entry| entry.path == path) {
        if !entry.is_file() {
            return refuse("there is a link or another repository of that name");
        }
        if mirror::read(mirror, &[entry.id])
            .await?
            .first()
            .is_some_and(|old| old == content)
        {
            return Ok(Altered {
                files: Vec::new(),
                skipped: Vec::new(),
            });
        }
        mode = entry.mode;
    }
    let file = FileChange {
        path: path.to_owned(),
        mode,
        content: content.to_vec(),
    };
    Ok(Altered {
        files: vec![file],
        skipped: Vec::new(),
    })
}

/// What else a person should know when a marker was not found.
pub(super) fn remark(skipped: &[Skipped], outside: &[String]) -> String {
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

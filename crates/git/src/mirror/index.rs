//! Cache of the markers in files, by blob id.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::{Error, MAX_FILE_SIZE, Mirror};
use crate::blocking;
use crate::edit;
use crate::names::ObjectId;
use crate::runner::{self, GitCommand};

/// How many bytes are read by one command.
const BATCH_SIZE: u64 = 16 << 20;

/// An entry of the tree of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TreeEntry {
    pub(crate) mode: String,
    pub(crate) id: ObjectId,
    pub(crate) size: u64,
    pub(crate) path: String,
}

impl TreeEntry {
    /// Whether it is a regular file, not a link or a submodule.
    pub(crate) fn is_file(&self) -> bool {
        self.mode.starts_with("100")
    }

    fn is_manifest(&self) -> bool {
        self.is_file() && (self.path.ends_with(".yaml") || self.path.ends_with(".yml"))
    }
}

/// A file with markers that could not be read, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedFile {
    /// The file.
    pub path: String,
    /// A sentence.
    pub because: String,
}

/// The markers in a blob, or why it could not be read.
type MarkersOfBlob = Arc<Result<BTreeSet<String>, String>>;

#[derive(Default)]
pub(super) struct MarkerIndex {
    /// The commit of `files`.
    commit: Option<ObjectId>,
    /// The files with markers, and those that could not be read.
    files: Vec<(TreeEntry, MarkersOfBlob)>,
    blobs: HashMap<ObjectId, MarkersOfBlob>,
}

pub(super) async fn files_with_marker(
    mirror: &Mirror,
    index: &mut MarkerIndex,
    commit: &ObjectId,
    marker: &str,
) -> Result<(Vec<TreeEntry>, Vec<SkippedFile>), Error> {
    if index.commit.as_ref() != Some(commit) {
        update(mirror, index, commit).await?;
    }
    let mut entries = Vec::new();
    let mut skipped = Vec::new();
    for (entry, markers) in &index.files {
        match markers.as_ref() {
            Ok(markers) if markers.contains(marker) => entries.push(entry.clone()),
            Ok(_) => {}
            Err(because) => {
                skipped.push(SkippedFile {
                    path: entry.path.clone(),
                    because: because.clone(),
                });
            }
        }
    }
    Ok((entries, skipped))
}

async fn update(mirror: &Mirror, index: &mut MarkerIndex, commit: &ObjectId) -> Result<(), Error> {
    let mut entries = list_files(mirror, commit).await?;
    entries.retain(TreeEntry::is_manifest);
    let unknown = entries
        .iter()
        .filter(|entry| !index.blobs.contains_key(&entry.id));
    let unknown: BTreeMap<&ObjectId, u64> = unknown.map(|entry| (&entry.id, entry.size)).collect();
    let parsed = read_markers(mirror, unknown).await?;
    let mut blobs = HashMap::with_capacity(entries.len());
    let mut files = Vec::new();
    for entry in entries {
        let known = index
            .blobs
            .get(&entry.id)
            .or_else(|| parsed.get(&entry.id))
            .cloned();
        let known = known.unwrap_or_else(|| Arc::new(Ok(BTreeSet::new())));
        blobs.insert(entry.id.clone(), known.clone());
        if known
            .as_ref()
            .as_ref()
            .map_or(true, |markers| !markers.is_empty())
        {
            files.push((entry, known));
        }
    }
    *index = MarkerIndex {
        commit: Some(commit.clone()),
        files,
        blobs,
    };
    Ok(())
}

/// Lists all files of a commit.
pub(crate) async fn list_files(
    mirror: &Mirror,
    commit: &ObjectId,
) -> Result<Vec<TreeEntry>, Error> {
    let attempted = "list the files of a commit";
    let arguments = ["ls-tree", "-r", "-l", "-z", "--full-tree", commit.as_str()];
    let output = mirror
        .runner
        .run(GitCommand::new(attempted, &mirror.folder, &arguments))
        .await?;
    let lines = output
        .split(|byte| *byte == 0)
        .filter(|line| !line.is_empty());
    // Paths that are not UTF-8 are ignored: they cannot be named in patterns or errors.
    Ok(lines
        .filter_map(|line| parse_entry(std::str::from_utf8(line).ok()?))
        .collect())
}

/// `<mode> <type> <id> <size>\t<path>`
fn parse_entry(line: &str) -> Option<TreeEntry> {
    let (about, path) = line.split_once('\t')?;
    let mut words = about.split_whitespace();
    let mode = words.next()?.to_owned();
    let id = ObjectId::new(words.nth(1)?).ok()?;
    let size = words.next()?.parse().unwrap_or(0);
    Some(TreeEntry {
        mode,
        id,
        size,
        path: path.to_owned(),
    })
}

async fn read_markers(
    mirror: &Mirror,
    blobs: BTreeMap<&ObjectId, u64>,
) -> Result<HashMap<ObjectId, MarkersOfBlob>, Error> {
    let mut found = HashMap::new();
    let mut batch: Vec<ObjectId> = Vec::new();
    let mut bytes = 0;
    for (id, size) in blobs {
        if size > MAX_FILE_SIZE {
            found.insert(id.clone(), Arc::new(Ok(BTreeSet::new())));
            continue;
        }
        if bytes + size > BATCH_SIZE {
            read_batch(mirror, std::mem::take(&mut batch), &mut found).await?;
            bytes = 0;
        }
        bytes += size;
        batch.push(id.clone());
    }
    read_batch(mirror, batch, &mut found).await?;
    Ok(found)
}

async fn read_batch(
    mirror: &Mirror,
    ids: Vec<ObjectId>,
    found: &mut HashMap<ObjectId, MarkersOfBlob>,
) -> Result<(), Error> {
    let contents = read_blobs(mirror, &ids).await?;
    // The first fetch parses thousands of files, which must not block other tasks.
    let parsed = blocking::run(move || {
        let parse = |content: &Vec<u8>| edit::markers(content).map_err(|error| error.to_string());
        contents
            .iter()
            .map(|content| Arc::new(parse(content)))
            .collect::<Vec<MarkersOfBlob>>()
    });
    let parsed = parsed.await.unwrap_or_default();
    found.extend(ids.into_iter().zip(parsed));
    Ok(())
}

/// The contents of blobs, in order.
pub(crate) async fn read_blobs(mirror: &Mirror, ids: &[ObjectId]) -> Result<Vec<Vec<u8>>, Error> {
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let attempted = "read files of a commit";
    let input: String = ids.iter().map(|id| format!("{id}\n")).collect();
    let run = GitCommand::new(attempted, &mirror.folder, &["cat-file", "--batch"]).input(input);
    let output = mirror.runner.run(run).await?;
    let contents = split_batch(&output).filter(|contents| contents.len() == ids.len());
    contents.ok_or_else(|| {
        runner::Error::Unreadable {
            attempted: attempted.to_owned(),
        }
        .into()
    })
}

/// Splits the output of `cat-file --batch`: `<id> <type> <size>\n<content>\n`, repeated.
fn split_batch(mut output: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut contents = Vec::new();
    while !output.is_empty() {
        let end = output.iter().position(|byte| *byte == b'\n')?;
        let header = std::str::from_utf8(&output[..end]).ok()?;
        let size: usize = header.rsplit(' ').next()?.parse().ok()?;
        let after_content = (end + 1).checked_add(size)?;
        let content = output.get(end + 1..after_content)?;
        contents.push(content.to_vec());
        output = output.get(after_content.checked_add(1)?..)?;
    }
    Some(contents)
}

#[cfg(test)]
mod tests {
    use testbed::damage::for_each_case;

    use super::*;

    const ID: &str = "00112233445566778899aabbccddeeff00112233";

    #[test]
    fn the_output_of_git_is_read() {
        let batch = format!("{ID} blob 3\na\nb\n{ID} blob 0\n\n");
        let contents = split_batch(batch.as_bytes()).expect("contents");
        assert_eq!(contents, [b"a\nb".to_vec(), Vec::new()]);
        let entry = parse_entry(&format!("100644 blob {ID}    12\ta folder/b.yaml"));
        let entry = entry.expect("an entry");
        assert_eq!((entry.size, entry.path.as_str()), (12, "a folder/b.yaml"));
    }

    #[test]
    fn a_size_that_no_content_has_is_refused() {
        for size in [usize::MAX, usize::MAX - 1, usize::MAX / 2, 4] {
            let batch = format!("{ID} blob {size}\nabc\n");
            assert_eq!(split_batch(batch.as_bytes()), None, "{size}");
        }
    }

    #[test]
    fn damaged_output_of_git_does_no_harm() {
        let batch = format!("{ID} blob 3\na\nb\n{ID} blob 5\n12345\n{ID} missing\n");
        let entry = format!("100644 blob {ID}    12\ta folder/b.yaml");
        for_each_case(|damage| {
            for _ in 0..50 {
                let damaged = damage.bytes(batch.as_bytes());
                let contents = split_batch(&damaged).unwrap_or_default();
                let bytes: usize = contents.iter().map(Vec::len).sum();
                assert!(bytes <= damaged.len());
                let damaged = damage.bytes(entry.as_bytes());
                if let Some(entry) = std::str::from_utf8(&damaged).ok().and_then(parse_entry) {
                    assert!(!entry.path.is_empty() || damaged.ends_with(b"\t"));
                }
            }
        });
    }
}

//! Commits, made of plumbing: no work tree, no checkout, the same input gives the same commit.

use std::fmt::Write as _;

use jiff::Timestamp;

use crate::mirror::{self, Mirror};
use crate::names::ObjectId;
use crate::runner::{self, Run};

/// Who all our commits are by.
const NAME: &str = "Sluice";
const ADDRESS: &str = "sluice@noreply.invalid";

/// Says which promotion a commit carries out.
pub const PROMOTION_TRAILER: &str = "Sluice-Promotion";

/// Says whom the branch of a commit belongs to.
pub const OWNER_TRAILER: &str = "Sluice-Owner";

/// Who made the branches that we take over from the older controller.
const PREDECESSOR: &str = "Promotion Server <";

/// A file as it should be.
pub(crate) struct FileChange {
    pub(crate) path: String,
    pub(crate) mode: String,
    pub(crate) content: Vec<u8>,
}

/// What a commit says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitMessage {
    /// The first line.
    pub title: String,
    /// More lines, or none.
    pub body: String,
    /// Which promotion this is.
    pub promotion: String,
    /// Whom the branch belongs to.
    pub owner: String,
}

impl CommitMessage {
    /// The text of the commit. Nothing in the parts can add a trailer of its own.
    fn text(&self) -> String {
        let mut text = format!("{}\n\n", one_line(&self.title));
        let body = self.body.replace('\r', "");
        if !body.trim().is_empty() {
            let quoted = |line: &str| line.starts_with("Sluice-");
            for line in body.trim().lines().filter(|line| !quoted(line)) {
                let _ = writeln!(text, "{}", line.trim_end());
            }
            text.push('\n');
        }
        let _ = writeln!(text, "{PROMOTION_TRAILER}: {}", one_line(&self.promotion));
        let _ = writeln!(text, "{OWNER_TRAILER}: {}", one_line(&self.owner));
        text
    }
}

fn one_line(text: &str) -> String {
    text.split(char::is_control)
        .collect::<Vec<_>>()
        .join(" ")
        .trim()
        .to_owned()
}

/// Whose work a commit is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Maker {
    /// Ours, for the owner in the trailer.
    Us {
        /// Which promotion.
        promotion: String,
        /// Whom the branch belongs to.
        owner: String,
    },
    /// The older controller's, which left no trailers.
    Predecessor,
    /// A person's, or another program's.
    Others,
}

/// Makes a commit on top of a base. Nothing is pushed.
pub(crate) async fn make(
    mirror: &Mirror,
    base: &ObjectId,
    files: &[FileChange],
    message: &CommitMessage,
    at: Timestamp,
) -> Result<ObjectId, mirror::Error> {
    let tree = write_tree(mirror, base, files).await?;
    let attempted = "write a commit";
    let mut arguments = vec!["commit-tree", "--no-gpg-sign", "-F", "-"];
    arguments.extend(["-p", base.as_str(), &tree]);
    let mut commit = Run::new(attempted, &mirror.folder, &arguments).input(message.text());
    let date = format!("@{} +0000", at.as_second());
    for role in ["AUTHOR", "COMMITTER"] {
        commit = commit
            .variable(&format!("GIT_{role}_NAME"), NAME)
            .variable(&format!("GIT_{role}_EMAIL"), ADDRESS)
            .variable(&format!("GIT_{role}_DATE"), &date);
    }
    read_id(attempted, mirror.runner.line(commit).await?)
}

/// The base's files with ours in their place, by way of an index of their own.
async fn write_tree(
    mirror: &Mirror,
    base: &ObjectId,
    files: &[FileChange],
) -> Result<String, mirror::Error> {
    let mut work = tempfile::Builder::new();
    let work = work.prefix("commit-").tempdir_in(&mirror.folder);
    let work = work.map_err(|source| start("make a folder for a commit", source))?;
    let blobs = store_blobs(mirror, work.path(), files).await?;
    let index = work.path().join("index");
    let step = |attempted: &str, arguments: &[&str]| {
        Run::new(attempted, &mirror.folder, arguments).variable("GIT_INDEX_FILE", &index)
    };
    let read = step("read the base commit", &["read-tree", base.as_str()]);
    mirror.runner.run(read).await?;
    let mut listing = Vec::new();
    for (file, blob) in files.iter().zip(&blobs) {
        listing.extend(format!("{} {blob}\t{}\0", file.mode, file.path).into_bytes());
    }
    let arguments = ["update-index", "-z", "--index-info"];
    let update = step("put files into a commit", &arguments).input(listing);
    mirror.runner.run(update).await?;
    let write = step("write the files of a commit", &["write-tree"]);
    Ok(mirror.runner.line(write).await?)
}

/// Writes contents as blobs, all in one go.
async fn store_blobs(
    mirror: &Mirror,
    work: &std::path::Path,
    files: &[FileChange],
) -> Result<Vec<ObjectId>, mirror::Error> {
    let attempted = "store files";
    let mut paths = Vec::new();
    for (number, file) in files.iter().enumerate() {
        let path = work.join(format!("file-{number}"));
        let written = tokio::fs::write(&path, &file.content).await;
        written.map_err(|source| start(attempted, source))?;
        paths.extend(path.as_os_str().as_encoded_bytes());
        paths.push(b'\n');
    }
    let arguments = ["hash-object", "-w", "--no-filters", "--stdin-paths"];
    let run = Run::new(attempted, &mirror.folder, &arguments).input(paths);
    let ids = mirror.runner.line(run).await?;
    ids.lines()
        .map(|id| read_id(attempted, id.to_owned()))
        .collect()
}

/// Whose work a commit is, by its committer and its trailers.
pub(crate) async fn maker(mirror: &Mirror, commit: &ObjectId) -> Result<Maker, mirror::Error> {
    let arguments = ["cat-file", "commit", commit.as_str()];
    let output = mirror
        .runner
        .run(Run::new("read a commit", &mirror.folder, &arguments))
        .await?;
    Ok(read_maker(&String::from_utf8_lossy(&output)))
}

fn read_maker(commit: &str) -> Maker {
    let (header, message) = commit.split_once("\n\n").unwrap_or((commit, ""));
    let committer = header
        .lines()
        .find_map(|line| line.strip_prefix("committer "))
        .unwrap_or_default();
    if committer.starts_with(PREDECESSOR) && message.trim() == "promoting version" {
        return Maker::Predecessor;
    }
    let trailer = |name: &str| {
        let prefix = format!("{name}: ");
        message
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix(&prefix))
            .map(str::to_owned)
    };
    let is_by_us = committer.starts_with(&format!("{NAME} <{ADDRESS}> "));
    match (trailer(PROMOTION_TRAILER), trailer(OWNER_TRAILER)) {
        (Some(promotion), Some(owner)) if is_by_us => Maker::Us { promotion, owner },
        _ => Maker::Others,
    }
}

fn read_id(attempted: &str, id: String) -> Result<ObjectId, mirror::Error> {
    ObjectId::new(id).map_err(|_| {
        runner::Error::Unreadable {
            attempted: attempted.to_owned(),
        }
        .into()
    })
}

fn start(attempted: &str, source: std::io::Error) -> mirror::Error {
    runner::Error::Start {
        attempted: attempted.to_owned(),
        source,
    }
    .into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(committer: &str, message: &str, expected: Maker) {
        let commit =
            format!("tree x\nauthor A <a@b> 1 +0000\ncommitter {committer} 1 +0000\n\n{message}");
        assert_eq!(read_maker(&commit), expected);
    }

    #[test]
    fn commits_are_told_apart() {
        let ours = "Promote\n\nSluice-Promotion: 1\nSluice-Owner: a/b/c\n";
        let us = Maker::Us {
            promotion: "1".into(),
            owner: "a/b/c".into(),
        };
        check("Sluice <sluice@noreply.invalid>", ours, us);
        check("Ann <ann@example.com>", ours, Maker::Others);
        check(
            "Sluice <sluice@noreply.invalid>",
            "Promote\n",
            Maker::Others,
        );
        check(
            "Promotion Server <>",
            "promoting version",
            Maker::Predecessor,
        );
        check("Promotion Server <>", "something else", Maker::Others);
    }

    #[test]
    fn a_message_cannot_smuggle_in_a_trailer() {
        let message = CommitMessage {
            title: "Promote\nSluice-Owner: x".into(),
            body: "why\nSluice-Owner: y\n\n".into(),
            promotion: "1\nSluice-Owner: z".into(),
            owner: "a/b/c".into(),
        };
        let text = message.text();
        assert_eq!(
            text.lines()
                .filter(|line| line.starts_with("Sluice-Owner:"))
                .count(),
            1
        );
        assert!(text.ends_with("Sluice-Owner: a/b/c\n"));
    }
}

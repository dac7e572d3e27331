//! Creates commits without a working tree. The same input always gives the same commit id, or, where
//! commits are signed, the same commit under another signature.

mod signing;

use std::fmt::Write as _;

use jiff::Timestamp;

use crate::blocking;
use crate::credentials::SigningKey;
use crate::edit::ValueEdit;
use crate::mirror::{self, Mirror};
use crate::names::ObjectId;
use crate::runner::{self, GitCommand};

/// Author and committer of all commits.
const AUTHOR_NAME: &str = "Sluice";
const AUTHOR_EMAIL: &str = "sluice@noreply.invalid";

/// The trailer that names the promotion of a commit.
pub const PROMOTION_TRAILER: &str = "Sluice-Promotion";

/// The trailer that names the owner of the branch.
pub const OWNER_TRAILER: &str = "Sluice-Owner";

/// The committer of the branches of the Weave pipeline-controller, which are taken over.
const WEAVE_COMMITTER: &str = "Promotion Server <";

/// The new content of a file.
pub(crate) struct FileChange {
    pub(crate) path: String,
    pub(crate) mode: String,
    pub(crate) content: Vec<u8>,
    /// The values that differ; none for a whole file.
    pub(crate) edits: Vec<ValueEdit>,
}

/// The message of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommitMessage {
    /// The first line.
    pub title: String,
    /// More lines, or none.
    pub body: String,
    /// The promotion that it carries out.
    pub promotion: String,
    /// The owner of the branch.
    pub owner: String,
}

impl CommitMessage {
    /// The whole message. The other fields cannot add trailers.
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

/// Who created a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CommitAuthor {
    /// Sluice, for the owner in the trailer.
    Sluice {
        /// The promotion that it carries out.
        promotion: String,
        /// The owner of the branch.
        owner: String,
    },
    /// The Weave pipeline-controller, which writes no trailers.
    WeaveController,
    /// A person, or another program.
    Others,
}

/// A commit to be created.
pub(crate) struct NewCommit<'a> {
    /// Its parent.
    pub(crate) base: &'a ObjectId,
    pub(crate) files: &'a [FileChange],
    pub(crate) message: &'a CommitMessage,
    pub(crate) at: Timestamp,
}

/// Creates a commit on top of a base, signed where there is a key. Does not push it. Signatures differ
/// each time, so that `current` is returned if it is the same commit with a signature.
pub(crate) async fn create(
    mirror: &Mirror,
    new: &NewCommit<'_>,
    current: Option<&ObjectId>,
) -> Result<ObjectId, mirror::Error> {
    let tree = write_tree(mirror, new.base, new.files).await?;
    let command = |sign| commit_tree(mirror, new, &tree, sign);
    let attempted = "write a commit";
    let unsigned = mirror.runner.run_for_text(command("--no-gpg-sign")).await?;
    let unsigned = parse_id(attempted, unsigned)?;
    let Some(key) = mirror.signing_key() else {
        return Ok(unsigned);
    };
    if let Some(current) = current
        && signing::is_signed_copy(mirror, current, &unsigned).await?
    {
        return Ok(current.clone());
    }
    let signed = signing::sign(mirror, key, command("--gpg-sign")).await?;
    parse_id(attempted, signed)
}

/// Checks that the key can sign, where there is one: with a commit that nobody sees.
pub(crate) async fn check_signing(mirror: &Mirror) -> Result<(), mirror::Error> {
    let Some(key) = mirror.signing_key() else {
        return Ok(());
    };
    let arguments = ["hash-object", "-t", "tree", "-w", "--stdin"];
    let tree = GitCommand::new("write a tree", &mirror.folder, &arguments);
    let tree = mirror.runner.run_for_text(tree).await?;
    let arguments = ["commit-tree", "--gpg-sign", &tree];
    let commit = GitCommand::new("write a commit", &mirror.folder, &arguments);
    let commit = identified(mirror, commit, Timestamp::UNIX_EPOCH);
    signing::sign(mirror, key, commit).await.map(drop)
}

fn commit_tree<'a>(
    mirror: &'a Mirror,
    new: &NewCommit<'_>,
    tree: &str,
    sign: &str,
) -> GitCommand<'a> {
    let mut arguments = vec!["commit-tree", sign, "-F", "-"];
    arguments.extend(["-p", new.base.as_str(), tree]);
    let commit = GitCommand::new("write a commit", &mirror.folder, &arguments);
    identified(mirror, commit.input(new.message.text()), new.at)
}

/// A command that writes a commit, with its author, committer and time.
fn identified<'a>(mirror: &Mirror, mut commit: GitCommand<'a>, at: Timestamp) -> GitCommand<'a> {
    let date = format!("@{} +0000", at.as_second());
    let (name, email) = mirror.committer();
    let people = [
        ("AUTHOR", AUTHOR_NAME, AUTHOR_EMAIL),
        ("COMMITTER", name, email),
    ];
    for (role, name, email) in people {
        commit = commit
            .env(&format!("GIT_{role}_NAME"), name)
            .env(&format!("GIT_{role}_EMAIL"), email)
            .env(&format!("GIT_{role}_DATE"), &date);
    }
    commit
}

impl Mirror {
    /// The name and e-mail address of the committer.
    fn committer(&self) -> (&str, &str) {
        match &self.credentials.committer {
            Some(committer) => (&committer.name, &committer.email),
            None => (AUTHOR_NAME, AUTHOR_EMAIL),
        }
    }

    fn signing_key(&self) -> Option<&SigningKey> {
        self.credentials.signing_key.as_ref()
    }
}

/// Writes the tree of the base with the changed files, using a temporary index.
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
    let command = |attempted: &str, arguments: &[&str]| {
        GitCommand::new(attempted, &mirror.folder, arguments).env("GIT_INDEX_FILE", &index)
    };
    let read = command("read the base commit", &["read-tree", base.as_str()]);
    mirror.runner.run(read).await?;
    let mut listing = Vec::new();
    for (file, blob) in files.iter().zip(&blobs) {
        listing.extend(format!("{} {blob}\t{}\0", file.mode, file.path).into_bytes());
    }
    let arguments = ["update-index", "-z", "--index-info"];
    let update = command("put files into a commit", &arguments).input(listing);
    mirror.runner.run(update).await?;
    let write = command("write the files of a commit", &["write-tree"]);
    Ok(mirror.runner.run_for_text(write).await?)
}

/// Writes contents as blobs, with one command.
async fn store_blobs(
    mirror: &Mirror,
    work: &std::path::Path,
    files: &[FileChange],
) -> Result<Vec<ObjectId>, mirror::Error> {
    let attempted = "store files";
    let mut paths = Vec::new();
    for (number, file) in files.iter().enumerate() {
        let path = work.join(format!("file-{number}"));
        let (to, content) = (path.clone(), file.content.clone());
        let written = blocking::on_files(move || std::fs::write(to, content)).await;
        written.map_err(|source| start(attempted, source))?;
        paths.extend(path.as_os_str().as_encoded_bytes());
        paths.push(b'\n');
    }
    let arguments = ["hash-object", "-w", "--no-filters", "--stdin-paths"];
    let run = GitCommand::new(attempted, &mirror.folder, &arguments).input(paths);
    let ids = mirror.runner.run_for_text(run).await?;
    ids.lines()
        .map(|id| parse_id(attempted, id.to_owned()))
        .collect()
}

/// Who created a commit, by its committer and its trailers.
pub(crate) async fn author(
    mirror: &Mirror,
    commit: &ObjectId,
) -> Result<CommitAuthor, mirror::Error> {
    let arguments = ["cat-file", "commit", commit.as_str()];
    let output = mirror
        .runner
        .run(GitCommand::new("read a commit", &mirror.folder, &arguments))
        .await?;
    let commit = String::from_utf8_lossy(&output);
    Ok(parse_author(&commit, mirror.committer()))
}

/// Who created a commit. Ours have the committer of the Secret, or the default.
fn parse_author(commit: &str, own: (&str, &str)) -> CommitAuthor {
    let (header, message) = commit.split_once("\n\n").unwrap_or((commit, ""));
    let committer = header
        .lines()
        .find_map(|line| line.strip_prefix("committer "))
        .unwrap_or_default();
    if committer.starts_with(WEAVE_COMMITTER) && message.trim() == "promoting version" {
        return CommitAuthor::WeaveController;
    }
    let trailer = |name: &str| {
        let prefix = format!("{name}: ");
        message
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix(&prefix))
            .map(str::to_owned)
    };
    let is_by = |(name, email): (&str, &str)| committer.starts_with(&format!("{name} <{email}> "));
    let is_by_sluice = is_by(own) || is_by((AUTHOR_NAME, AUTHOR_EMAIL));
    match (trailer(PROMOTION_TRAILER), trailer(OWNER_TRAILER)) {
        (Some(promotion), Some(owner)) if is_by_sluice => CommitAuthor::Sluice { promotion, owner },
        _ => CommitAuthor::Others,
    }
}

fn parse_id(attempted: &str, id: String) -> Result<ObjectId, mirror::Error> {
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

    fn check(committer: &str, message: &str, expected: CommitAuthor) {
        let commit =
            format!("tree x\nauthor A <a@b> 1 +0000\ncommitter {committer} 1 +0000\n\n{message}");
        let own = ("Release Bot", "bot@example.com");
        assert_eq!(parse_author(&commit, own), expected);
    }

    #[test]
    fn authors_are_recognised() {
        let ours = "Promote\n\nSluice-Promotion: 1\nSluice-Owner: a/b/c\n";
        let us = CommitAuthor::Sluice {
            promotion: "1".into(),
            owner: "a/b/c".into(),
        };
        check("Sluice <sluice@noreply.invalid>", ours, us.clone());
        check("Release Bot <bot@example.com>", ours, us);
        check("Ann <ann@example.com>", ours, CommitAuthor::Others);
        check(
            "Sluice <sluice@noreply.invalid>",
            "Promote\n",
            CommitAuthor::Others,
        );
        check(
            "Promotion Server <>",
            "promoting version",
            CommitAuthor::WeaveController,
        );
        check(
            "Promotion Server <>",
            "something else",
            CommitAuthor::Others,
        );
    }

    #[test]
    fn a_message_cannot_add_a_trailer() {
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

//! A repository of the forge, as people who work on it see it.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use tokio::io::AsyncWriteExt;

use super::pulls::{self, PullRequest};
use super::{Error, Gate, Shared};

/// One repository.
#[derive(Clone)]
pub struct Repository {
    shared: Arc<Shared>,
    project: String,
}

impl Repository {
    pub(super) async fn create(
        shared: Arc<Shared>,
        project: &str,
        files: &[(&str, &str)],
    ) -> Result<Self, Error> {
        let folder = shared.repository(project);
        std::fs::create_dir_all(&folder).map_err(|error| Error::new("make a repository", error))?;
        git(
            &folder,
            &["init", "--quiet", "--bare", "--initial-branch=main"],
            b"",
        )
        .await?;
        git(&folder, &["config", "http.receivepack", "true"], b"").await?;
        let repository = Self {
            shared,
            project: project.to_owned(),
        };
        repository.commit("main", "First commit", files).await?;
        Ok(repository)
    }

    /// `owner/name`.
    pub fn project(&self) -> &str {
        &self.project
    }

    /// Where it is on this machine's disk.
    pub fn folder(&self) -> PathBuf {
        self.shared.repository(&self.project)
    }

    /// Where to clone from.
    pub fn url(&self) -> String {
        format!("{}/{}.git", self.shared.origin(), self.project)
    }

    /// From now on every request for this repository goes through a gate.
    pub fn set_gate(&self, gate: Gate) {
        self.shared.gates.lock().insert(self.project.clone(), gate);
    }

    /// Commits files to a branch, as a person would. A branch that does not exist starts at `main`.
    pub async fn commit(
        &self,
        branch: &str,
        message: &str,
        files: &[(&str, &str)],
    ) -> Result<String, Error> {
        let folder = self.shared.repository(&self.project);
        let parent = match self.tip(branch).await {
            Some(tip) => Some(tip),
            None => self.tip("main").await,
        };
        let mut script = format!(
            "commit refs/heads/{branch}\ncommitter A Person <person@example.com> 1700000000 +0000\n{}",
            data(message.as_bytes())
        );
        if let Some(parent) = parent {
            script.push_str(&format!("from {parent}\n"));
        }
        for (path, content) in files {
            script.push_str(&format!(
                "M 100644 inline {path}\n{}",
                data(content.as_bytes())
            ));
        }
        git(
            &folder,
            &["fast-import", "--quiet", "--force"],
            script.as_bytes(),
        )
        .await?;
        self.tip(branch)
            .await
            .ok_or_else(|| Error::new("commit", "the branch is not there"))
    }

    /// The commit a branch points to.
    pub async fn tip(&self, branch: &str) -> Option<String> {
        tip(&self.shared.repository(&self.project), branch).await
    }

    /// A file on a branch.
    pub async fn read(&self, branch: &str, path: &str) -> Option<Vec<u8>> {
        let what = format!("refs/heads/{branch}:{path}");
        git(
            &self.shared.repository(&self.project),
            &["cat-file", "blob", &what],
            b"",
        )
        .await
        .ok()
    }

    /// The files below a folder of a branch.
    pub async fn files(&self, branch: &str, folder: &str) -> Result<Vec<(String, Vec<u8>)>, Error> {
        let reference = format!("refs/heads/{branch}");
        let arguments = [
            "ls-tree",
            "-r",
            "-z",
            "--name-only",
            &reference,
            "--",
            folder,
        ];
        let output = git(&self.shared.repository(&self.project), &arguments, b"").await?;
        let mut files = Vec::new();
        for path in String::from_utf8_lossy(&output).split_terminator('\0') {
            let content = self.read(branch, path).await.unwrap_or_default();
            files.push((path.to_owned(), content));
        }
        Ok(files)
    }

    /// The subjects of the commits of a branch, newest first.
    pub async fn log(&self, branch: &str) -> Result<Vec<String>, Error> {
        let reference = format!("refs/heads/{branch}");
        let arguments = ["log", "--format=%s", &reference, "--"];
        let output = git(&self.shared.repository(&self.project), &arguments, b"").await?;
        Ok(String::from_utf8_lossy(&output)
            .lines()
            .map(str::to_owned)
            .collect())
    }

    /// Makes a branch where another one is.
    pub async fn branch(&self, branch: &str, from: &str) -> Result<(), Error> {
        let [reference, from] = [branch, from].map(|name| format!("refs/heads/{name}"));
        let arguments = ["update-ref", &reference, &from];
        git(&self.shared.repository(&self.project), &arguments, b"")
            .await
            .map(drop)
    }

    /// Removes a branch.
    pub async fn delete_branch(&self, branch: &str) -> Result<(), Error> {
        let reference = format!("refs/heads/{branch}");
        let arguments = ["update-ref", "-d", &reference];
        git(&self.shared.repository(&self.project), &arguments, b"")
            .await
            .map(drop)
    }

    /// All pull requests, oldest first.
    pub async fn pull_requests(&self) -> Vec<PullRequest> {
        pulls::all(&self.shared, &self.project).await
    }

    /// Merges a pull request, as a person would.
    pub async fn merge(&self, number: u64) -> Result<(), Error> {
        let merged = pulls::merge(&self.shared, &self.project, number, false, None).await;
        merged.map_err(|(_, because)| Error::new("merge", because))
    }

    /// Gives a pull request another title, as a person would.
    pub async fn retitle(&self, number: u64, title: &str) -> Result<(), Error> {
        let retitled = pulls::retitle(&self.shared, &self.project, number, title);
        retitled.ok_or_else(|| Error::new("retitle", "no such pull request"))
    }

    /// Closes a pull request, as a person would.
    pub async fn close(&self, number: u64) -> Result<(), Error> {
        let closed = pulls::close(&self.shared, &self.project, number);
        closed.ok_or_else(|| Error::new("close", "no such pull request"))
    }
}

fn data(bytes: &[u8]) -> String {
    format!("data {}\n{}\n", bytes.len(), String::from_utf8_lossy(bytes))
}

pub(super) async fn tip(folder: &Path, branch: &str) -> Option<String> {
    let reference = format!("refs/heads/{branch}");
    let output = git(
        folder,
        &["rev-parse", "--verify", "--quiet", &reference],
        b"",
    )
    .await
    .ok()?;
    Some(String::from_utf8_lossy(&output).trim().to_owned())
}

/// Runs git in a repository and wants it to succeed.
pub(super) async fn git(folder: &Path, arguments: &[&str], input: &[u8]) -> Result<Vec<u8>, Error> {
    let attempted = || format!("run git {}", arguments.first().copied().unwrap_or_default());
    let system = |error: std::io::Error| Error::new(attempted(), error);
    let mut child = tokio::process::Command::new("git")
        .args(arguments)
        .current_dir(folder)
        .env("GIT_DIR", folder)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(system)?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input).await.map_err(system)?;
    }
    let output = child.wait_with_output().await.map_err(system)?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    Err(Error::new(
        attempted(),
        String::from_utf8_lossy(&output.stderr),
    ))
}

//! A repository of the forge, with the operations of its users.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use tokio::io::AsyncWriteExt;

use super::pulls::{self, CommitStatus, PullRequest};
use super::{Error, ForgeState, RequestInterceptor};

/// One repository.
#[derive(Clone)]
pub struct Repository {
    state: Arc<ForgeState>,
    project: String,
}

impl Repository {
    pub(super) async fn create(
        state: Arc<ForgeState>,
        project: &str,
        files: &[(&str, &str)],
    ) -> Result<Self, Error> {
        let folder = state.repository(project);
        std::fs::create_dir_all(&folder)
            .map_err(|error| Error::new("create a repository", error))?;
        git(
            &folder,
            &["init", "--quiet", "--bare", "--initial-branch=main"],
            b"",
        )
        .await?;
        git(&folder, &["config", "http.receivepack", "true"], b"").await?;
        let repository = Self {
            state,
            project: project.to_owned(),
        };
        repository.commit("main", "First commit", files).await?;
        Ok(repository)
    }

    /// `owner/name`.
    pub fn project(&self) -> &str {
        &self.project
    }

    /// The folder of the bare repository.
    pub fn folder(&self) -> PathBuf {
        self.state.repository(&self.project)
    }

    /// The clone URL.
    pub fn url(&self) -> String {
        format!("{}/{}.git", self.state.origin(), self.project)
    }

    /// Passes all further requests for this repository to an interceptor.
    pub fn intercept_requests(&self, interceptor: RequestInterceptor) {
        self.state
            .interceptors
            .lock()
            .insert(self.project.clone(), interceptor);
    }

    /// Commits files to a branch. A new branch starts at `main`.
    pub async fn commit(
        &self,
        branch: &str,
        message: &str,
        files: &[(&str, &str)],
    ) -> Result<String, Error> {
        let folder = self.state.repository(&self.project);
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
            .ok_or_else(|| Error::new("commit", "the branch does not exist"))
    }

    /// The commit of a branch.
    pub async fn tip(&self, branch: &str) -> Option<String> {
        tip(&self.state.repository(&self.project), branch).await
    }

    /// Reads a file of a branch.
    pub async fn read(&self, branch: &str, path: &str) -> Option<Vec<u8>> {
        let what = format!("refs/heads/{branch}:{path}");
        git(
            &self.state.repository(&self.project),
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
        let output = git(&self.state.repository(&self.project), &arguments, b"").await?;
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
        let output = git(&self.state.repository(&self.project), &arguments, b"").await?;
        Ok(String::from_utf8_lossy(&output)
            .lines()
            .map(str::to_owned)
            .collect())
    }

    /// Creates a branch at the commit of another one.
    pub async fn branch(&self, branch: &str, from: &str) -> Result<(), Error> {
        let [reference, from] = [branch, from].map(|name| format!("refs/heads/{name}"));
        let arguments = ["update-ref", &reference, &from];
        git(&self.state.repository(&self.project), &arguments, b"")
            .await
            .map(drop)
    }

    /// Deletes a branch.
    pub async fn delete_branch(&self, branch: &str) -> Result<(), Error> {
        let reference = format!("refs/heads/{branch}");
        let arguments = ["update-ref", "-d", &reference];
        git(&self.state.repository(&self.project), &arguments, b"")
            .await
            .map(drop)
    }

    /// All pull requests, oldest first.
    pub async fn pull_requests(&self) -> Vec<PullRequest> {
        pulls::all(&self.state, &self.project).await
    }

    /// Every commit status that was set, the oldest first.
    pub fn commit_statuses(&self) -> Vec<CommitStatus> {
        pulls::statuses(&self.state, &self.project)
    }

    /// Opens a pull request and returns its number.
    pub async fn open(&self, title: &str, head: &str, base: &str) -> Result<u64, Error> {
        let body = serde_json::json!({"title": title, "head": head, "base": base});
        let opened = pulls::open(&self.state, &self.project, &body).await;
        let opened = opened.map_err(|(_, because)| Error::new("open a pull request", because));
        opened.map(|pull| pull.number)
    }

    /// Merges a pull request.
    pub async fn merge(&self, number: u64) -> Result<(), Error> {
        let merged = pulls::merge(&self.state, &self.project, number, false, None).await;
        merged.map_err(|(_, because)| Error::new("merge", because))
    }

    /// Gives a pull request another title.
    pub async fn retitle(&self, number: u64, title: &str) -> Result<(), Error> {
        let retitled = pulls::retitle(&self.state, &self.project, number, title);
        retitled.ok_or_else(|| Error::new("retitle", "no such pull request"))
    }

    /// Gives a pull request another text.
    pub async fn rewrite(&self, number: u64, body: &str) -> Result<(), Error> {
        let rewritten = pulls::rewrite(&self.state, &self.project, number, body);
        rewritten.ok_or_else(|| Error::new("rewrite", "no such pull request"))
    }

    /// Closes a pull request.
    pub async fn close(&self, number: u64) -> Result<(), Error> {
        let closed = pulls::close(&self.state, &self.project, number);
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

/// Runs git in a repository; fails unless it exits with 0.
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

//! Carries out the git commands that Sluice runs, without a process: mirrors and the remote are in memory.
//!
//! [`crate::git_contract`] runs the same commands on the real git and compares. Commands that go to the
//! remote pass through the [`Link`] of the replica, which may delay, lose or repeat them.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use futures::{FutureExt, future::BoxFuture};
use git::runner::{GitExecutionError, GitExecutor, GitInvocation, GitOutput};
use parking_lot::Mutex;

use crate::{
    forge::Forge,
    git_objects::{Files, NewCommit},
    link::{Destination, Link},
};

/// The folders of a replica: what is in them outlives its process.
#[derive(Default)]
pub(crate) struct Disk {
    /// The references of each mirror.
    mirrors: Mutex<BTreeMap<PathBuf, BTreeMap<String, String>>>,
    indexes: Mutex<BTreeMap<PathBuf, Files>>,
}

/// Git for one process.
pub(crate) struct InProcessGit {
    pub(crate) forge: Arc<Forge>,
    pub(crate) disk: Arc<Disk>,
    pub(crate) link: Arc<Link>,
}

impl fmt::Debug for InProcessGit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("InProcessGit")
    }
}

/// A command with what it needs of its environment.
#[derive(Clone)]
struct Command {
    arguments: Vec<String>,
    environment: BTreeMap<String, String>,
    input: Vec<u8>,
}

impl Command {
    fn new(invocation: GitInvocation) -> Self {
        let text = |text: OsString| text.to_string_lossy().into_owned();
        let arguments = invocation.arguments.into_iter().skip(1).map(text);
        let environment = invocation.environment.into_iter();
        Self {
            arguments: arguments.collect(),
            environment: environment.map(|(name, it)| (name, text(it))).collect(),
            input: invocation.input,
        }
    }

    fn variable(&self, name: &str) -> &str {
        self.environment.get(name).map_or("", String::as_str)
    }

    fn mirror(&self) -> PathBuf {
        PathBuf::from(self.variable("GIT_DIR"))
    }

    /// The arguments after `--`.
    fn operands(&self) -> &[String] {
        let dashes = self.arguments.iter().position(|it| it == "--");
        dashes.map_or(&[], |at| &self.arguments[at + 1..])
    }

    fn last(&self) -> &str {
        self.arguments.last().map_or("", String::as_str)
    }

    fn person(&self, role: &str) -> String {
        let part = |name: &str| self.variable(&format!("GIT_{role}_{name}")).to_owned();
        let date = part("DATE");
        let (name, email) = (part("NAME"), part("EMAIL"));
        format!("{name} <{email}> {}", date.trim_start_matches('@'))
    }
}

impl GitExecutor for InProcessGit {
    fn execute(
        &self,
        invocation: GitInvocation,
    ) -> BoxFuture<'_, Result<GitOutput, GitExecutionError>> {
        let limit = invocation.limits.time;
        let command = Command::new(invocation);
        async move {
            let is_remote = ["ls-remote", "fetch", "push"].contains(&command.arguments[0].as_str());
            if !is_remote {
                self.link.alive().await;
                return Ok(self.run_locally(&command));
            }
            let (disk, forge) = (self.disk.clone(), self.forge.clone());
            let (who, sent) = (self.link.name().to_owned(), command.clone());
            let perform = move || {
                let (disk, forge) = (disk.clone(), forge.clone());
                let (who, sent) = (who.clone(), sent.clone());
                async move { run_remotely(&disk, &forge, &who, &sent).await }.boxed()
            };
            let lost = |_| failed("fatal: unable to access 'the remote': Recv failure");
            let what = format!("git {}", command.arguments[0]);
            let done = self.link.call(Destination::Forge, &what, perform, lost);
            let done = tokio::time::timeout(limit, done).await;
            done.map_err(|_| GitExecutionError::TimedOut(limit))
        }
        .boxed()
    }
}

impl InProcessGit {
    fn run_locally(&self, command: &Command) -> GitOutput {
        let mut mirrors = self.disk.mirrors.lock();
        let references = mirrors.entry(command.mirror()).or_default();
        match command.arguments[0].as_str() {
            "init" => init(&command.mirror(), references),
            "for-each-ref" => {
                let line = |(name, id): (&String, &String)| format!("{id} {name}\n");
                printed(references.iter().map(line).collect::<String>())
            }
            "update-ref" => {
                let [name, id] = command.operands() else {
                    return failed("usage: git update-ref");
                };
                references.insert(name.clone(), id.clone());
                printed("")
            }
            "gc" => printed(""),
            _ => self.objects(command),
        }
    }

    /// Commands on objects.
    fn objects(&self, command: &Command) -> GitOutput {
        let arguments: Vec<&str> = command.arguments.iter().map(String::as_str).collect();
        let done = match arguments.as_slice() {
            ["ls-tree", ..] => self.list_tree(command.last()),
            ["cat-file", "--batch"] => Some(self.read_batch(command)),
            ["cat-file", "commit", id] => self.forge.objects().text(id).map(printed),
            ["hash-object", .., "--stdin-paths"] => self.store_files(command),
            ["read-tree", commit] => self.forge.objects().files(commit).map(|files| {
                self.indexes().insert(index_file(command), files);
                printed("")
            }),
            ["update-index", ..] => self.update_index(command),
            ["write-tree"] => self.write_tree(command),
            ["commit-tree", ..] => Some(self.commit_tree(command)),
            _ => None,
        };
        done.unwrap_or_else(|| failed(&format!("fatal: cannot run {arguments:?}")))
    }

    fn indexes(&self) -> parking_lot::MutexGuard<'_, BTreeMap<PathBuf, Files>> {
        self.disk.indexes.lock()
    }

    fn list_tree(&self, commit: &str) -> Option<GitOutput> {
        let objects = self.forge.objects();
        let line = |(path, (mode, id)): (&String, &(String, String))| {
            let size = objects.get(id).map_or(0, |(_, content)| content.len());
            format!("{mode} blob {id} {size:>7}\t{path}\0")
        };
        let files = objects.files(commit)?;
        Some(printed(files.iter().map(line).collect::<String>()))
    }

    fn read_batch(&self, command: &Command) -> GitOutput {
        let objects = self.forge.objects();
        let mut output = Vec::new();
        for id in String::from_utf8_lossy(&command.input).lines() {
            match objects.get(id) {
                Some((kind, content)) => {
                    output.extend(format!("{id} {kind} {}\n", content.len()).into_bytes());
                    output.extend(content);
                    output.push(b'\n');
                }
                None => output.extend(format!("{id} missing\n").into_bytes()),
            }
        }
        printed(output)
    }

    fn store_files(&self, command: &Command) -> Option<GitOutput> {
        let mut output = String::new();
        for path in String::from_utf8_lossy(&command.input).lines() {
            let content = std::fs::read(path).ok()?;
            output += &self.forge.objects().put("blob", content);
            output.push('\n');
        }
        Some(printed(output))
    }

    fn update_index(&self, command: &Command) -> Option<GitOutput> {
        let mut indexes = self.indexes();
        let files = indexes.get_mut(&index_file(command))?;
        let input = String::from_utf8_lossy(&command.input);
        for line in input.split('\0').filter(|line| !line.is_empty()) {
            let (about, path) = line.split_once('\t')?;
            let (mode, id) = about.split_once(' ')?;
            files.insert(path.to_owned(), (mode.to_owned(), id.to_owned()));
        }
        Some(printed(""))
    }

    fn write_tree(&self, command: &Command) -> Option<GitOutput> {
        let files = self.indexes().remove(&index_file(command))?;
        let id = self.forge.objects().write_tree(&files);
        Some(printed(format!("{id}\n")))
    }

    fn commit_tree(&self, command: &Command) -> GitOutput {
        let parents = command.arguments.windows(2).filter(|pair| pair[0] == "-p");
        let parents: Vec<&str> = parents.map(|pair| pair[1].as_str()).collect();
        let (author, committer) = (command.person("AUTHOR"), command.person("COMMITTER"));
        let id = self.forge.objects().commit(&NewCommit {
            tree: command.last(),
            parents: &parents,
            author: &author,
            committer: &committer,
            message: &String::from_utf8_lossy(&command.input),
        });
        printed(format!("{id}\n"))
    }
}

fn index_file(command: &Command) -> PathBuf {
    PathBuf::from(command.variable("GIT_INDEX_FILE"))
}

fn init(folder: &Path, references: &mut BTreeMap<String, String>) -> GitOutput {
    references.clear();
    let created = std::fs::create_dir_all(folder);
    let created = created.and_then(|()| std::fs::write(folder.join("HEAD"), "ref: x\n"));
    match created {
        Ok(()) => printed(""),
        Err(error) => failed(&error.to_string()),
    }
}

async fn run_remotely(disk: &Disk, forge: &Forge, who: &str, command: &Command) -> GitOutput {
    let Some((_url, what)) = command.operands().split_first() else {
        return failed("usage: git");
    };
    match command.arguments[0].as_str() {
        "ls-remote" => {
            let references = forge.references();
            let found = what
                .iter()
                .filter_map(|name| references.get_key_value(name));
            printed(
                found
                    .map(|(name, id)| format!("{id}\t{name}\n"))
                    .collect::<String>(),
            )
        }
        "fetch" => fetch(disk, forge, command, what),
        _ if command.arguments.iter().any(|it| it == "--dry-run") => {
            let line = format!("-\t{}\t[deleted]", what[0]);
            printed(format!("To remote\n{line}\nDone\n"))
        }
        _ => push(forge, who, command, &what[0]).await,
    }
}

fn fetch(disk: &Disk, forge: &Forge, command: &Command, what: &[String]) -> GitOutput {
    let remote = forge.references();
    let mut fetched = Vec::new();
    for refspec in what {
        let Some((from, to)) = refspec.trim_start_matches('+').split_once(':') else {
            return failed("fatal: invalid refspec");
        };
        let Some(id) = remote.get(from) else {
            return failed(&format!("fatal: couldn't find remote ref {from}"));
        };
        fetched.push((to.to_owned(), id.clone()));
    }
    let mut mirrors = disk.mirrors.lock();
    mirrors.entry(command.mirror()).or_default().extend(fetched);
    printed("")
}

async fn push(forge: &Forge, who: &str, command: &Command, what: &str) -> GitOutput {
    let lease = command
        .arguments
        .iter()
        .find_map(|it| it.strip_prefix("--force-with-lease="));
    let (Some((commit, name)), Some((_, expected))) = (
        what.split_once(':'),
        lease.and_then(|it| it.split_once(':')),
    ) else {
        return failed("fatal: invalid refspec");
    };
    let current = forge.references().get(name).cloned().unwrap_or_default();
    // As git does: nothing is sent where the branch has the commit already.
    if current != expected && current != commit {
        return GitOutput {
            success: false,
            stdout: format!("To remote\n!\t{what}\t[rejected] (stale info)\nDone\n").into_bytes(),
            stderr: b"error: failed to push some refs".to_vec(),
        };
    }
    forge.pushed(who, name, commit).await;
    printed(format!("To remote\n \t{what}\tx..y\nDone\n"))
}

fn printed(output: impl Into<Vec<u8>>) -> GitOutput {
    GitOutput {
        success: true,
        stdout: output.into(),
        stderr: Vec::new(),
    }
}

fn failed(message: &str) -> GitOutput {
    GitOutput {
        success: false,
        stdout: Vec::new(),
        stderr: message.as_bytes().to_vec(),
    }
}

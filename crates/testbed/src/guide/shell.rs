//! Runs blocks in their own folder, with only the programs that a test provides.

use std::{
    os::unix::fs::{PermissionsExt, symlink},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use tokio::{
    io::AsyncWriteExt,
    process::{Child, Command},
};

use super::{Block, Error, first_missing, repository, system};

/// Time limit of one block; clusters are slow on a busy machine, and Kubernetes retries deletions ever more
/// slowly.
const BLOCK_TIMEOUT: Duration = Duration::from_secs(600);

/// Restores the variables and the folder of the previous block.
const RESUME: &str = r#"
set -euo pipefail
if [ -f "$STATE" ]; then . "$STATE"; fi
cd "${GUIDE_FOLDER:-$HOME}"
"#;

/// Runs a block and saves its variables and folder.
const RUN: &str = r#"
set -a
. "$BLOCK"
set +a
GUIDE_FOLDER=$PWD
export GUIDE_FOLDER
export -p >"$STATE.new"
mv "$STATE.new" "$STATE"
"#;

/// A shell with an empty environment and the usual programs. Its folder links the repository's `deploy`,
/// `docs` and `examples`, so that paths in guides work.
pub struct Shell {
    home: tempfile::TempDir,
    /// Commands that set variables, run before the next block.
    fresh: String,
    replaced: Vec<(String, String)>,
    background: Vec<Child>,
    output: String,
}

impl Shell {
    /// A shell with an empty folder.
    pub fn new() -> Result<Self, Error> {
        let home = tempfile::tempdir().map_err(system("creating the folder of a shell"))?;
        let shell = Self {
            home,
            fresh: String::new(),
            replaced: Vec::new(),
            background: Vec::new(),
            output: String::new(),
        };
        std::fs::create_dir(shell.bin()).map_err(system("creating the shell's bin"))?;
        for name in ["deploy", "docs", "examples"] {
            link(&repository().join(name), &shell.folder().join(name))?;
        }
        Ok(shell)
    }

    /// The folder in which the first command starts.
    pub fn folder(&self) -> &Path {
        self.home.path()
    }

    fn bin(&self) -> PathBuf {
        self.folder().join(".bin")
    }

    /// Makes a program available under a name.
    pub fn program(&self, name: &str, path: &Path) -> Result<(), Error> {
        link(path, &self.bin().join(name))
    }

    /// Provides a script in place of a program that tests cannot run, such as a container engine. It gets
    /// the arguments and fails if they are wrong.
    pub fn stand_in(&self, name: &str, script: &str) -> Result<(), Error> {
        let path = self.bin().join(name);
        let text = format!("#!/bin/bash\nset -euo pipefail\n{script}\n");
        let attempted = || format!("writing the stand-in {}", path.display());
        std::fs::write(&path, text).map_err(system(attempted()))?;
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, mode).map_err(system(attempted()))
    }

    /// Sets a variable for the next blocks.
    pub fn set(&mut self, variable: &str, value: impl Into<String>) {
        let value = value.into().replace('\'', r"'\''");
        self.fresh
            .push_str(&format!("export {variable}='{value}'\n"));
    }

    /// Replaces a text in all blocks, such as a host name of the guide by one of the test.
    pub fn replace(&mut self, text_in_guide: &str, replacement: impl Into<String>) {
        self.replaced
            .push((text_in_guide.to_owned(), replacement.into()));
    }

    /// The output of the last commands.
    pub fn output(&self) -> &str {
        &self.output
    }

    /// Runs all these blocks.
    pub async fn follow_all(
        &mut self,
        blocks: impl IntoIterator<Item = &Block>,
    ) -> Result<(), Error> {
        for block in blocks {
            self.follow(block).await?;
        }
        Ok(())
    }

    /// Runs commands between the blocks of a guide. Returns their output.
    pub async fn sh(&mut self, commands: &str) -> Result<&str, Error> {
        let block = Block {
            at: "between blocks".to_owned(),
            heading: String::new(),
            fence: "sh".to_owned(),
            text: format!("{commands}\n"),
        };
        self.follow(&block).await?;
        Ok(&self.output)
    }

    /// Runs a block.
    pub async fn follow(&mut self, block: &Block) -> Result<(), Error> {
        let text = self.with_replacements(&block.text);
        match block.fence.as_str() {
            "sh" => self.run(block, &text, true).await,
            "sh refused" => self.run(block, &text, false).await,
            "sh background" => self.background(&text),
            "yaml" => self.apply(block, &text, "--dry-run=server").await,
            "yaml applied" => self.apply(block, &text, "--dry-run=none").await,
            "yaml part" => yaml(block, &text),
            "json" => json(block, &text),
            "text printed" => self.printed(block, &text),
            "" | "text" | "sql" | "diff" => Ok(()),
            fence => match fence.split_once(" file=") {
                Some((_, name)) => self.write(name, &text),
                None => Err(Error::Unknown {
                    at: block.at.clone(),
                    fence: fence.to_owned(),
                }),
            },
        }
    }

    fn with_replacements(&self, text: &str) -> String {
        let replace = |text: String, (text_in_guide, replacement): &(String, String)| {
            text.replace(text_in_guide.as_str(), replacement)
        };
        self.replaced.iter().fold(text.to_owned(), replace)
    }

    async fn run(&mut self, block: &Block, text: &str, should_succeed: bool) -> Result<(), Error> {
        let file = self.folder().join(".block");
        std::fs::write(&file, text).map_err(system("writing a block"))?;
        let mut command = self.command(RUN)?;
        command.env("BLOCK", &file);
        let (succeeded, status) = self.finish(command, "").await?;
        if succeeded == should_succeed {
            return Ok(());
        }
        Err(self.unexpected_status(block, status))
    }

    async fn apply(&mut self, block: &Block, text: &str, dry_run: &str) -> Result<(), Error> {
        yaml(block, text)?;
        let script = format!("kubectl apply --server-side --force-conflicts {dry_run} -f -");
        let command = self.command(&script)?;
        match self.finish(command, text).await? {
            (true, _) => Ok(()),
            (false, status) => Err(self.unexpected_status(block, status)),
        }
    }

    /// Starts one command, which is stopped when the shell is dropped.
    pub fn background(&mut self, text: &str) -> Result<(), Error> {
        let log = self
            .folder()
            .join(format!(".background-{}", self.background.len()));
        let log = std::fs::File::create(&log).map_err(system("creating a log"))?;
        let mut command = self.command(&format!("exec {text}"))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone().map_err(system("sharing a log"))?)
            .stderr(log)
            .spawn()
            .map_err(system(format!("starting {text}")))?;
        self.background.push(child);
        Ok(())
    }

    /// The output of the commands in the background so far.
    pub fn background_output(&self) -> String {
        let logs = (0..self.background.len()).map(|number| {
            std::fs::read_to_string(self.folder().join(format!(".background-{number}")))
        });
        logs.map(Result::unwrap_or_default).collect()
    }

    fn write(&self, name: &str, text: &str) -> Result<(), Error> {
        let path = self.folder().join(name);
        std::fs::write(&path, text).map_err(system(format!("writing {}", path.display())))
    }

    fn printed(&self, block: &Block, text: &str) -> Result<(), Error> {
        match first_missing(text, &self.output) {
            None => Ok(()),
            Some(line) => Err(Error::NotPrinted {
                at: block.at.clone(),
                line: line.to_owned(),
                output: self.output.clone(),
            }),
        }
    }

    fn unexpected_status(&self, block: &Block, status: String) -> Error {
        Error::UnexpectedStatus {
            at: block.at.clone(),
            status,
            text: block.text.clone(),
            output: self.output.clone(),
        }
    }

    fn command(&mut self, script: &str) -> Result<Command, Error> {
        let state = self.folder().join(".state");
        let mut known = std::fs::read_to_string(&state).unwrap_or_default();
        known.push_str(&std::mem::take(&mut self.fresh));
        // Replaced as a whole: a command in the background may be about to read it.
        let new = self.folder().join(".state.new");
        let replaced = std::fs::write(&new, known).and_then(|()| std::fs::rename(&new, &state));
        replaced.map_err(system("keeping the shell's variables"))?;
        let mut command = Command::new("bash");
        command
            .args(["-c", &format!("{RESUME}{script}")])
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", self.bin().display()))
            .env("HOME", self.folder())
            .env("STATE", &state)
            .current_dir(self.folder())
            .stdin(Stdio::piped())
            .kill_on_drop(true);
        Ok(command)
    }

    /// Runs a command and stores its output, also if it does not finish in time. Returns whether it succeeded,
    /// and its exit status.
    async fn finish(&mut self, mut command: Command, input: &str) -> Result<(bool, String), Error> {
        let files = [".stdout", ".stderr"].map(|name| self.folder().join(name));
        let create = |path: &PathBuf| std::fs::File::create(path).map_err(system("creating a log"));
        command
            .stdout(create(&files[0])?)
            .stderr(create(&files[1])?);
        let running = async {
            let mut child = command.spawn()?;
            if let Some(mut stdin) = child.stdin.take() {
                // Fails if the command does not read its input.
                let _ = stdin.write_all(input.as_bytes()).await;
            }
            child.wait().await
        };
        let status = tokio::time::timeout(BLOCK_TIMEOUT, running).await;
        let text =
            |path| String::from_utf8_lossy(&std::fs::read(path).unwrap_or_default()).into_owned();
        self.output = files.iter().map(text).collect();
        let Ok(status) = status else {
            return Ok((false, format!("not finished after {BLOCK_TIMEOUT:?}")));
        };
        let status = status.map_err(system("running bash"))?;
        Ok((status.success(), status.to_string()))
    }
}

fn link(from: &Path, to: &Path) -> Result<(), Error> {
    let attempted = format!("linking {} to {}", to.display(), from.display());
    symlink(from, to).map_err(system(attempted))
}

fn yaml(block: &Block, text: &str) -> Result<(), Error> {
    let parsed: Result<Vec<serde_json::Value>, _> = serde_saphyr::from_multiple(text);
    malformed(block, parsed.map(drop))
}

fn json(block: &Block, text: &str) -> Result<(), Error> {
    malformed(
        block,
        serde_json::from_str(text).map(|_: serde_json::Value| ()),
    )
}

fn malformed<E: std::fmt::Display>(block: &Block, parsed: Result<(), E>) -> Result<(), Error> {
    parsed.map_err(|error| Error::Malformed {
        at: block.at.clone(),
        because: error.to_string(),
    })
}

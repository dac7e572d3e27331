//! Does what blocks say, in a folder of its own, with the programs that a test allows.

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

/// How long one block may take; clusters are slow on a machine that does something else, too.
const TIME: Duration = Duration::from_secs(300);

/// Goes to where the block before ended.
const RESUME: &str = r#"
set -euo pipefail
if [ -f "$STATE" ]; then . "$STATE"; fi
cd "${GUIDE_FOLDER:-$HOME}"
"#;

/// Runs a block and remembers where it ends.
const RUN: &str = r#"
set -a
. "$BLOCK"
set +a
GUIDE_FOLDER=$PWD
export GUIDE_FOLDER
export -p >"$STATE.new"
mv "$STATE.new" "$STATE"
"#;

/// A shell without anything of the machine but its usual programs. Its folder holds the repository's
/// `deploy`, `docs` and `examples`, so that paths in guides mean what they mean there.
pub struct Shell {
    home: tempfile::TempDir,
    /// Lines that set variables, for the next command to begin with.
    fresh: String,
    replaced: Vec<(String, String)>,
    background: Vec<Child>,
    said: String,
}

impl Shell {
    /// An empty one.
    pub fn new() -> Result<Self, Error> {
        let home = tempfile::tempdir().map_err(system("creating the folder of a shell"))?;
        let shell = Self {
            home,
            fresh: String::new(),
            replaced: Vec::new(),
            background: Vec::new(),
            said: String::new(),
        };
        std::fs::create_dir(shell.bin()).map_err(system("creating the shell's bin"))?;
        for name in ["deploy", "docs", "examples"] {
            link(&repository().join(name), &shell.folder().join(name))?;
        }
        Ok(shell)
    }

    /// The folder that commands begin in.
    pub fn folder(&self) -> &Path {
        self.home.path()
    }

    fn bin(&self) -> PathBuf {
        self.folder().join(".bin")
    }

    /// Lets guides use a program under a name.
    pub fn program(&self, name: &str, path: &Path) -> Result<(), Error> {
        link(path, &self.bin().join(name))
    }

    /// Puts a script in the place of a program that tests cannot have, such as a container engine. It
    /// gets the arguments and decides whether they are right.
    pub fn stand_in(&self, name: &str, script: &str) -> Result<(), Error> {
        let path = self.bin().join(name);
        let text = format!("#!/bin/bash\nset -euo pipefail\n{script}\n");
        let attempted = || format!("writing the stand-in {}", path.display());
        std::fs::write(&path, text).map_err(system(attempted()))?;
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&path, mode).map_err(system(attempted()))
    }

    /// Sets a variable, from the next block on and until a block sets it.
    pub fn set(&mut self, variable: &str, value: impl Into<String>) {
        let value = value.into().replace('\'', r"'\''");
        self.fresh
            .push_str(&format!("export {variable}='{value}'\n"));
    }

    /// Reads a text in all blocks as another one: a host of the guide as one of the test.
    pub fn replace(&mut self, written: &str, meant: impl Into<String>) {
        self.replaced.push((written.to_owned(), meant.into()));
    }

    /// What the last commands printed.
    pub fn said(&self) -> &str {
        &self.said
    }

    /// Does what all these blocks say.
    pub async fn follow_all(
        &mut self,
        blocks: impl IntoIterator<Item = &Block>,
    ) -> Result<(), Error> {
        for block in blocks {
            self.follow(block).await?;
        }
        Ok(())
    }

    /// Runs commands that are in no guide but belong between its blocks; gives what they printed.
    pub async fn sh(&mut self, commands: &str) -> Result<&str, Error> {
        let block = Block {
            at: "between blocks".to_owned(),
            heading: String::new(),
            fence: "sh".to_owned(),
            text: format!("{commands}\n"),
        };
        self.follow(&block).await?;
        Ok(&self.said)
    }

    /// Does what a block says.
    pub async fn follow(&mut self, block: &Block) -> Result<(), Error> {
        let text = self.meant(&block.text);
        match block.fence.as_str() {
            "sh" => self.run(block, &text, true).await,
            "sh refused" => self.run(block, &text, false).await,
            "sh background" => self.background(&text),
            "yaml" => self.apply(block, &text, "--dry-run=server").await,
            "yaml applied" => self.apply(block, &text, "--dry-run=none").await,
            "yaml part" => yaml(block, &text),
            "json" => json(block, &text),
            "text printed" => self.printed(block, &text),
            "" | "text" | "sql" => Ok(()),
            fence => match fence.split_once(" file=") {
                Some((_, name)) => self.write(name, &text),
                None => Err(Error::Unknown {
                    at: block.at.clone(),
                    fence: fence.to_owned(),
                }),
            },
        }
    }

    fn meant(&self, text: &str) -> String {
        let replace = |text: String, (written, meant): &(String, String)| {
            text.replace(written.as_str(), meant)
        };
        self.replaced.iter().fold(text.to_owned(), replace)
    }

    async fn run(&mut self, block: &Block, text: &str, should_succeed: bool) -> Result<(), Error> {
        let file = self.folder().join(".block");
        std::fs::write(&file, text).map_err(system("writing a block"))?;
        let mut command = self.command(RUN)?;
        command.env("BLOCK", &file);
        let (succeeded, outcome) = self.finish(command, "").await?;
        if succeeded == should_succeed {
            return Ok(());
        }
        Err(self.outcome(block, outcome))
    }

    async fn apply(&mut self, block: &Block, text: &str, dry_run: &str) -> Result<(), Error> {
        yaml(block, text)?;
        let script = format!("kubectl apply --server-side --force-conflicts {dry_run} -f -");
        let command = self.command(&script)?;
        match self.finish(command, text).await? {
            (true, _) => Ok(()),
            (false, outcome) => Err(self.outcome(block, outcome)),
        }
    }

    /// Starts one command that goes on until the shell is dropped.
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

    /// What the commands in the background said so far.
    pub fn background_said(&self) -> String {
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
        match first_missing(text, &self.said) {
            None => Ok(()),
            Some(line) => Err(Error::NotPrinted {
                at: block.at.clone(),
                line: line.to_owned(),
                said: self.said.clone(),
            }),
        }
    }

    fn outcome(&self, block: &Block, outcome: String) -> Error {
        Error::Outcome {
            at: block.at.clone(),
            outcome,
            text: block.text.clone(),
            said: self.said.clone(),
        }
    }

    fn command(&mut self, script: &str) -> Result<Command, Error> {
        let state = self.folder().join(".state");
        let mut known = std::fs::read_to_string(&state).unwrap_or_default();
        known.push_str(&std::mem::take(&mut self.fresh));
        std::fs::write(&state, known).map_err(system("keeping the shell's variables"))?;
        let mut command = Command::new("bash");
        command
            .args(["-c", &format!("{RESUME}{script}")])
            .env_clear()
            .env("PATH", format!("{}:/usr/bin:/bin", self.bin().display()))
            .env("HOME", self.folder())
            .env("STATE", &state)
            .current_dir(self.folder())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        Ok(command)
    }

    /// Whether it succeeded, and how it ended in words. What it said is kept.
    async fn finish(&mut self, mut command: Command, input: &str) -> Result<(bool, String), Error> {
        let running = async {
            let mut child = command.spawn()?;
            if let Some(mut stdin) = child.stdin.take() {
                // Who does not read it closes it.
                let _ = stdin.write_all(input.as_bytes()).await;
            }
            child.wait_with_output().await
        };
        let Ok(output) = tokio::time::timeout(TIME, running).await else {
            return Ok((false, format!("not done after {TIME:?}")));
        };
        let output = output.map_err(system("running bash"))?;
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        self.said = text(&output.stdout) + &text(&output.stderr);
        Ok((output.status.success(), output.status.to_string()))
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

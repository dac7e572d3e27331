//! Runs the fenced blocks of a Markdown file as a test.
//!
//! Readers see only the language of a fence; the words after it tell the test what to do:
//!
//! | fence | what [`Shell::follow`] does |
//! | --- | --- |
//! | `sh` | runs it; it must succeed. Variables and the current folder carry over to the next one |
//! | `sh refused` | runs it; it must fail |
//! | `sh background` | starts one command, which is stopped when the shell is dropped |
//! | `yaml` | objects that the API must accept in a dry run |
//! | `yaml applied` | objects that are applied |
//! | `yaml file=NAME`, `sh file=NAME` | written to that file in the shell's folder |
//! | `yaml part`, `json`, `sql`, `diff` | must be well-formed (`sql` and `diff` are not checked) |
//! | `text printed` | lines that the previous commands must have printed; `…` matches any text |
//! | `text`, none | nothing |
//!
//! Any other fence is an error, so that no block of a guide is untested.

mod shell;

use std::path::{Path, PathBuf};

pub use shell::Shell;

/// Why a block of a guide failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused something.
    #[error("{attempted}")]
    System {
        /// What was attempted.
        attempted: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A fence that has no end.
    #[error("{at}: the block has no end")]
    Unclosed {
        /// File and line.
        at: String,
    },
    /// A fence with unknown words.
    #[error("{at}: a block with the unknown fence {fence:?}; see testbed::guide")]
    Unknown {
        /// File and line.
        at: String,
        /// The words after the backticks.
        fence: String,
    },
    /// A block that is not valid in its language.
    #[error("{at}: {because}")]
    Malformed {
        /// File and line.
        at: String,
        /// What is wrong with it.
        because: String,
    },
    /// Commands that succeeded or failed contrary to the guide.
    #[error("{at}: {status}\n--- block\n{text}--- output\n{output}")]
    UnexpectedStatus {
        /// File and line.
        at: String,
        /// Their exit status.
        status: String,
        /// The commands.
        text: String,
        /// What they printed.
        output: String,
    },
    /// A line in the guide that the commands did not print.
    #[error("{at}: {line:?} was not printed\n--- output\n{output}")]
    NotPrinted {
        /// File and line.
        at: String,
        /// The line.
        line: String,
        /// What was printed instead.
        output: String,
    },
}

/// One fenced block.
#[derive(Clone, Debug)]
pub struct Block {
    /// File and line, for errors.
    pub at: String,
    /// The heading above it.
    pub heading: String,
    /// The words after the backticks.
    pub fence: String,
    /// The content, without the indentation of the fence.
    pub text: String,
}

/// The blocks of a Markdown file.
#[derive(Clone, Debug)]
pub struct Guide {
    blocks: Vec<Block>,
}

impl Guide {
    /// Reads a file of the repository, such as `docs/install.md`.
    pub fn read(path: &str) -> Result<Self, Error> {
        let file = repository().join(path);
        let text = std::fs::read_to_string(&file)
            .map_err(system(format!("reading the guide {}", file.display())))?;
        Self::parse(path, &text)
    }

    fn parse(path: &str, text: &str) -> Result<Self, Error> {
        let (mut blocks, mut heading) = (Vec::new(), String::new());
        let mut lines = text.lines().enumerate();
        while let Some((number, line)) = lines.next() {
            if let Some((_, title)) = line.split_once(' ').filter(|_| line.starts_with('#')) {
                heading = title.to_owned();
            }
            let Some(fence) = line.trim_start().strip_prefix("```") else {
                continue;
            };
            let indent = line.len() - line.trim_start().len();
            let at = format!("{path}:{}", number + 1);
            let mut inside = String::new();
            loop {
                let (_, line) = lines.next().ok_or(Error::Unclosed { at: at.clone() })?;
                if line.trim_start().starts_with("```") {
                    break;
                }
                inside.push_str(line.get(indent..).unwrap_or_default());
                inside.push('\n');
            }
            blocks.push(Block {
                at,
                heading: heading.clone(),
                fence: fence.trim().to_owned(),
                text: inside,
            });
        }
        Ok(Self { blocks })
    }

    /// All blocks in order.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The blocks under one heading.
    pub fn under<'a>(&'a self, heading: &'a str) -> impl Iterator<Item = &'a Block> {
        self.blocks
            .iter()
            .filter(move |block| block.heading == heading)
    }
}

/// The folder of the repository.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The first line of a text that matches no line of `output`.
fn first_missing<'a>(text: &'a str, output: &str) -> Option<&'a str> {
    let is_printed = |line: &str| output.lines().any(|printed| matches(line, printed));
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.find(|line| !is_printed(line))
}

/// Whether a line matches: the number of spaces is ignored, `…` matches any text.
fn matches(expected: &str, line: &str) -> bool {
    let join = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let (expected, line) = (join(expected), join(line));
    let mut parts = expected.split('…');
    let Some(mut rest) = parts.next().and_then(|first| line.strip_prefix(first)) else {
        return false;
    };
    let mut parts = parts.peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.is_empty()
}

fn system(attempted: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
    let attempted = attempted.into();
    move |source| Error::System { attempted, source }
}

#[cfg(test)]
mod tests;

//! Guides as tests: the fenced blocks of a Markdown file, done one after the other.
//!
//! A reader sees only the language of a fence; the word behind it says what a test does:
//!
//! | fence | what [`Shell::follow`] does |
//! | --- | --- |
//! | `sh` | runs it; it must succeed. Variables and the folder carry over to the next one |
//! | `sh refused` | runs it; it must fail |
//! | `sh background` | starts one command and leaves it running until the shell is dropped |
//! | `yaml` | whole objects, which the API must accept; nothing is stored |
//! | `yaml applied` | whole objects, which are stored |
//! | `yaml file=NAME`, `sh file=NAME` | written to that file in the shell's folder |
//! | `yaml part`, `json`, `sql` | must be well-formed, as far as that can be told |
//! | `text printed` | the lines, among others, that the commands before it printed; `…` is any text |
//! | `text`, none | nothing |
//!
//! Any other fence is an error: what nobody tries has no place in a guide.

mod shell;

use std::path::{Path, PathBuf};

pub use shell::Shell;

/// Why a guide does not do what it says.
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
    /// A fence of which nobody knows how to try it.
    #[error("{at}: nobody knows how to try a block of {fence:?}; see testbed::guide")]
    Unknown {
        /// File and line.
        at: String,
        /// What stands behind the backticks.
        fence: String,
    },
    /// A block that is not what its language says.
    #[error("{at}: {because}")]
    Malformed {
        /// File and line.
        at: String,
        /// What is wrong with it.
        because: String,
    },
    /// Commands that ended otherwise than the guide says.
    #[error("{at}: {outcome}\n--- block\n{text}--- said\n{said}")]
    Outcome {
        /// File and line.
        at: String,
        /// How they ended.
        outcome: String,
        /// The commands.
        text: String,
        /// What they printed.
        said: String,
    },
    /// A line that the guide shows and nothing printed.
    #[error("{at}: nothing printed {line:?}\n--- said\n{said}")]
    NotPrinted {
        /// File and line.
        at: String,
        /// The line.
        line: String,
        /// What was printed instead.
        said: String,
    },
}

/// One fenced block.
#[derive(Clone, Debug)]
pub struct Block {
    /// File and line, for errors.
    pub at: String,
    /// The heading that it stands under.
    pub heading: String,
    /// What stands behind the backticks.
    pub fence: String,
    /// What is inside, indented as if it stood at the margin.
    pub text: String,
}

/// A Markdown file's blocks.
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

    /// All blocks, in their order.
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

/// The first line of a text that no line of `said` matches, word by word.
fn first_missing<'a>(text: &'a str, said: &str) -> Option<&'a str> {
    let is_said = |line: &str| said.lines().any(|said| matches(line, said));
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.find(|line| !is_said(line))
}

/// Whether a line says what is expected: spaces do not count, `…` is any text.
fn matches(expected: &str, said: &str) -> bool {
    let join = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let (expected, said) = (join(expected), join(said));
    let mut parts = expected.split('…');
    let Some(mut rest) = parts.next().and_then(|first| said.strip_prefix(first)) else {
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

//! The seam between git commands and the processes that carry them out.
//!
//! [`GitExecutor`] gets everything that a command depends on. Production code starts the `git` program;
//! a simulation answers without a process.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use futures::future::BoxFuture;

use super::{Error, process};

/// Carries out git commands.
pub trait GitExecutor: fmt::Debug + Send + Sync {
    /// Carries out one command. Dropping the future must end it.
    fn execute(
        &self,
        invocation: GitInvocation,
    ) -> BoxFuture<'_, Result<GitOutput, GitExecutionError>>;
}

/// A git command with everything it depends on. Has no `Debug`: the environment contains credentials.
pub struct GitInvocation {
    /// A program that prepares what git needs, instead of git.
    pub program: Option<&'static str>,
    /// The arguments after the name of the program.
    pub arguments: Vec<OsString>,
    /// The whole environment; of two entries with one name the last counts.
    pub environment: Vec<(String, OsString)>,
    /// The directory it runs in.
    pub working_directory: PathBuf,
    /// What it reads from its standard input.
    pub input: Vec<u8>,
    /// When it is killed.
    pub limits: ProcessLimits,
}

/// Limits beyond which a process is killed.
#[derive(Clone, Debug)]
pub struct ProcessLimits {
    /// How long it may run.
    pub time: Duration,
    /// How many bytes it may print.
    pub output: u64,
    /// A directory that it fills, and the size in bytes that this may reach.
    pub directory: Option<(PathBuf, u64)>,
}

/// The result of a command that exited by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GitOutput {
    /// Whether the exit code is zero.
    pub success: bool,
    /// The standard output.
    pub stdout: Vec<u8>,
    /// The start of the error output. May contain credentials.
    pub stderr: Vec<u8>,
}

/// Why a command did not run to its end.
#[derive(Debug)]
pub enum GitExecutionError {
    /// It could not be started, or the connection to it broke.
    Io(std::io::Error),
    /// It ran longer than its limit.
    TimedOut(Duration),
    /// It printed or stored more bytes than its limit.
    TooLarge(u64),
}

impl GitExecutionError {
    /// The error with what was attempted.
    pub(super) fn during(self, attempted: String) -> Error {
        match self {
            Self::Io(source) => Error::Start { attempted, source },
            Self::TimedOut(limit) => Error::TimedOut { attempted, limit },
            Self::TooLarge(limit) => Error::TooLarge { attempted, limit },
        }
    }
}

impl From<std::io::Error> for GitExecutionError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(error)
    }
}

/// Starts the `git` program of this machine.
#[derive(Debug)]
pub(super) struct SystemGit {
    program: PathBuf,
}

impl SystemGit {
    pub(super) fn new(program: impl Into<PathBuf>) -> Self {
        Self {
            program: program.into(),
        }
    }
}

impl GitExecutor for SystemGit {
    fn execute(
        &self,
        invocation: GitInvocation,
    ) -> BoxFuture<'_, Result<GitOutput, GitExecutionError>> {
        let other = invocation.program.map(Path::new);
        let program = other.unwrap_or(&self.program);
        let mut command = tokio::process::Command::new(program);
        command.env_clear().envs(invocation.environment);
        command.args(invocation.arguments);
        command.current_dir(invocation.working_directory);
        Box::pin(process::run(command, invocation.input, invocation.limits))
    }
}

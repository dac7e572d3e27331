//! Runs git without a shell, hooks, prompts or the settings of the machine.
//!
//! Every command is bounded in time and output and is killed together with its child processes.
//! Credentials are passed in the environment of the one process that needs them, ssh keys in files that
//! are removed when that process ends. Secrets are redacted from the output before it becomes an error.
//! Processes are started by a [`GitExecutor`], which a simulation replaces.

mod access;
mod error;
mod executor;
mod process;
mod signing;

pub use access::RemoteAccess;
pub use error::Error;
pub use executor::{GitExecutionError, GitExecutor, GitInvocation, GitOutput, ProcessLimits};
pub(crate) use process::directory_size;

use std::ffi::OsString;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use net::{AddressPolicy, Proxy, SecretValue, redact};

use crate::repository_url::{RepositoryUrl, Scheme};
use executor::SystemGit;

/// Time and size limits of git commands.
#[derive(Clone, Copy, Debug)]
pub struct GitLimits {
    /// Time of a command that does not connect to a remote.
    pub local: Duration,
    /// Time of a command that reads from a remote.
    pub remote: Duration,
    /// Time of a push. Short, because the permission to push must be valid for that long.
    pub push: Duration,
    /// Bytes that a command may print.
    pub output: u64,
    /// Bytes of one mirror on disk.
    pub mirror: u64,
}

impl Default for GitLimits {
    fn default() -> Self {
        Self {
            local: Duration::from_secs(60),
            remote: Duration::from_secs(300),
            push: Duration::from_secs(60),
            output: 64 << 20,
            mirror: 4 << 30,
        }
    }
}

/// Runs git commands under the same settings, limits and address policy.
#[derive(Clone, Debug)]
pub struct GitRunner {
    executor: Arc<dyn GitExecutor>,
    home: PathBuf,
    limits: GitLimits,
    policy: AddressPolicy,
    proxy: Option<Proxy>,
}

/// A git command to be run.
pub(crate) struct GitCommand<'a> {
    /// Completes "cannot …".
    pub(crate) attempted: String,
    pub(crate) arguments: Vec<OsString>,
    /// The bare repository.
    pub(crate) repository: &'a Path,
    pub(crate) input: Vec<u8>,
    pub(crate) environment: Vec<(String, OsString)>,
    /// Credentials, if it connects to a remote.
    pub(crate) access: Option<&'a RemoteAccess>,
    /// A time limit other than the default.
    pub(crate) time_limit: Option<Duration>,
}

impl<'a> GitCommand<'a> {
    pub(crate) fn new(
        attempted: impl Into<String>,
        repository: &'a Path,
        arguments: &[&str],
    ) -> Self {
        Self {
            attempted: attempted.into(),
            arguments: arguments.iter().map(OsString::from).collect(),
            repository,
            input: Vec::new(),
            environment: Vec::new(),
            access: None,
            time_limit: None,
        }
    }

    pub(crate) fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    pub(crate) fn env(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    pub(crate) fn access(mut self, access: &'a RemoteAccess) -> Self {
        self.access = Some(access);
        self
    }

    pub(crate) fn with_time_limit(mut self, limit: Duration) -> Self {
        self.time_limit = Some(limit);
        self
    }
}

/// A command that exited by itself, successfully or not.
pub(crate) struct CompletedCommand {
    pub(crate) success: bool,
    pub(crate) output: Vec<u8>,
    /// Without secrets.
    pub(crate) stderr: String,
}

impl GitRunner {
    /// Creates an empty home directory for git below the folder.
    pub fn new(folder: &Path, limits: GitLimits, policy: AddressPolicy) -> Result<Self, Error> {
        let home = folder.join("home");
        let prepared = match std::fs::remove_dir_all(&home) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(&home),
        };
        prepared.map_err(|source| Error::Start {
            attempted: "prepare a folder for git".to_owned(),
            source,
        })?;
        Ok(Self {
            executor: Arc::new(SystemGit::new("git")),
            home,
            limits,
            policy,
            proxy: None,
        })
    }

    /// Uses another program for git than the one in `PATH`.
    pub fn with_program(self, program: impl Into<PathBuf>) -> Self {
        self.with_executor(Arc::new(SystemGit::new(program)))
    }

    /// Starts all git processes by this executor.
    pub fn with_executor(mut self, executor: Arc<dyn GitExecutor>) -> Self {
        self.executor = executor;
        self
    }

    /// Connects through a proxy, except to the hosts that it excludes.
    pub fn with_proxy(mut self, proxy: Option<Proxy>) -> Self {
        self.proxy = proxy;
        self
    }

    /// The URL of the proxy for a repository, if it is reached through one.
    pub(crate) fn proxy_for(&self, url: &RepositoryUrl) -> Option<SecretValue> {
        let is_http = matches!(url.scheme(), Scheme::Https | Scheme::Http);
        let proxy = self.proxy.as_ref().filter(|_| is_http)?;
        proxy.url_for(url.host()).cloned()
    }

    /// The limits of every command.
    pub fn limits(&self) -> GitLimits {
        self.limits
    }

    /// The address policy.
    pub fn policy(&self) -> AddressPolicy {
        self.policy
    }

    /// Runs a command and returns its output, whether it succeeded or not.
    pub(crate) async fn execute(&self, command: GitCommand<'_>) -> Result<CompletedCommand, Error> {
        let secrets = command
            .access
            .map(RemoteAccess::secrets)
            .unwrap_or_default();
        // Removed when this function is left, however it is left.
        let mut key_files = None;
        let attempted = command.attempted.clone();
        let invocation = self.invocation(command, &mut key_files);
        let invocation = match invocation {
            Ok(invocation) => invocation,
            Err(source) => return Err(Error::Start { attempted, source }),
        };
        let output = self.executor.execute(invocation).await;
        let output = output.map_err(|error| error.during(attempted))?;
        Ok(CompletedCommand {
            success: output.success,
            output: output.stdout,
            stderr: redact(&String::from_utf8_lossy(&output.stderr), &secrets),
        })
    }

    fn invocation(
        &self,
        command: GitCommand<'_>,
        key_files: &mut Option<access::KeyFiles>,
    ) -> std::io::Result<GitInvocation> {
        let limits = self.process_limits(&command);
        let mut environment = self.environment();
        environment.push(("GIT_DIR".to_owned(), command.repository.into()));
        environment.extend(command.environment);
        if let Some(access) = command.access {
            if let Some(key) = access.key() {
                *key_files = Some(access::KeyFiles::write(&self.home, key)?);
            }
            environment.extend(access.environment(&self.home, key_files.as_ref())?);
        }
        let no_pager = OsString::from("--no-pager");
        Ok(GitInvocation {
            program: None,
            arguments: std::iter::once(no_pager).chain(command.arguments).collect(),
            environment,
            working_directory: self.home.clone(),
            input: command.input,
            limits,
        })
    }

    fn process_limits(&self, command: &GitCommand<'_>) -> ProcessLimits {
        let limits = self.limits;
        let default = match command.access {
            Some(_) => limits.remote,
            None => limits.local,
        };
        let mirror = || (command.repository.to_owned(), limits.mirror);
        ProcessLimits {
            time: command.time_limit.unwrap_or(default),
            output: limits.output,
            directory: command.access.map(|_| mirror()),
        }
    }

    /// Runs a command that has to succeed, and returns its output.
    pub(crate) async fn run(&self, command: GitCommand<'_>) -> Result<Vec<u8>, Error> {
        let attempted = command.attempted.clone();
        let completed = self.execute(command).await?;
        if completed.success {
            return Ok(completed.output);
        }
        Err(Error::Failed {
            attempted,
            message: last_lines(&completed.stderr),
        })
    }

    /// Runs a command that has to succeed, and returns its output as text without the last newline.
    pub(crate) async fn run_for_text(&self, command: GitCommand<'_>) -> Result<String, Error> {
        let attempted = command.attempted.clone();
        let output = self.run(command).await?;
        match String::from_utf8(output) {
            Ok(text) => Ok(text.trim_end_matches('\n').to_owned()),
            Err(_) => Err(Error::Unreadable { attempted }),
        }
    }

    /// The environment of every command. It does not inherit that of this process.
    fn environment(&self) -> Vec<(String, OsString)> {
        let protocols = if self.policy.allow_insecure {
            "https:ssh:http:file"
        } else {
            "https:ssh"
        };
        let mut environment: Vec<(String, OsString)> = [
            ("HOME", self.home.as_os_str().to_owned()),
            (
                "PATH",
                std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into()),
            ),
            ("LC_ALL", "C".into()),
            ("TZ", "UTC".into()),
            ("GIT_CONFIG_NOSYSTEM", "1".into()),
            ("GIT_CONFIG_GLOBAL", "/dev/null".into()),
            ("GIT_ATTR_NOSYSTEM", "1".into()),
            ("GIT_TERMINAL_PROMPT", "0".into()),
            ("GIT_ALLOW_PROTOCOL", protocols.into()),
            ("GIT_OPTIONAL_LOCKS", "0".into()),
            ("GIT_NO_LAZY_FETCH", "1".into()),
            ("GIT_SSH_COMMAND", access::SSH_WITHOUT_KEY.into()),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        environment.extend(access::settings_as_environment(
            SETTINGS.iter().map(|(k, v)| ((*k).into(), (*v).into())),
        ));
        environment
    }
}

/// The git settings of every command. They are passed in the environment, so that programs which git
/// starts get them, too.
pub(crate) const SETTINGS: &[(&str, &str)] = &[
    ("core.hooksPath", "/dev/null"),
    ("core.attributesFile", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.askPass", ""),
    ("credential.helper", ""),
    ("fetch.recurseSubmodules", "false"),
    ("push.recurseSubmodules", "no"),
    ("submodule.recurse", "false"),
    ("fetch.writeCommitGraph", "false"),
    ("gc.auto", "0"),
    ("maintenance.auto", "false"),
    ("transfer.bundleURI", "false"),
    ("protocol.version", "2"),
    ("http.followRedirects", "false"),
    ("http.lowSpeedLimit", "1000"),
    ("http.lowSpeedTime", "30"),
    ("advice.detachedHead", "false"),
];

/// The last lines of git's error output, in one line and shortened.
pub(crate) fn last_lines(stderr: &str) -> String {
    let lines: Vec<&str> = stderr
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let kept = lines[lines.len().saturating_sub(4)..].join("; ");
    let mut message: String = kept.chars().filter(|c| !c.is_control()).take(600).collect();
    if message.is_empty() {
        message.push_str("git failed without a message");
    }
    message
}

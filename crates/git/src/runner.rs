//! Runs the `git` program: no shell, no hooks, no prompts, no settings of the machine.
//!
//! Every run is bounded in time and output, and takes all its children down with it. Credentials
//! travel in the environment of the one process that needs them, keys in files that live as long as
//! that process. What git prints is scrubbed before it becomes an error.

mod access;
mod process;

pub use access::Access;
pub(crate) use process::size_of;

use std::ffi::OsString;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use net::{AddressPolicy, Proxy, Remedy, SecretValue, redact};

use crate::repository_url::{RepositoryUrl, Scheme};

/// Why git did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program or its surroundings are missing.
    #[error("cannot {attempted}: git could not be run")]
    Start {
        /// What for.
        attempted: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// It was ended because it took too long.
    #[error("cannot {attempted}: git took longer than {} seconds", limit.as_secs())]
    TimedOut {
        /// What for.
        attempted: String,
        /// How long it may take.
        limit: Duration,
    },
    /// It was ended because it said or stored too much.
    #[error("cannot {attempted}: more than {limit} bytes")]
    TooLarge {
        /// What for.
        attempted: String,
        /// How much it may be.
        limit: u64,
    },
    /// It ended by itself, and not well.
    #[error("cannot {attempted}: {message}")]
    Failed {
        /// What for.
        attempted: String,
        /// The last lines it printed, without secrets.
        message: String,
    },
    /// It said something we cannot read.
    #[error("cannot {attempted}: git's answer is not understood")]
    Unreadable {
        /// What for.
        attempted: String,
    },
}

impl Error {
    /// A fixed word.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Start { .. } => "GitUnavailable",
            Self::TimedOut { .. } => "GitTimedOut",
            Self::TooLarge { .. } => "RepositoryTooLarge",
            Self::Failed { .. } => "GitFailed",
            Self::Unreadable { .. } => "GitUnreadable",
        }
    }

    /// What would help.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::TooLarge { .. } => Remedy::Edit,
            _ => Remedy::RETRY,
        }
    }
}

/// How long and how much.
#[derive(Clone, Copy, Debug)]
pub struct GitLimits {
    /// A run that talks to no one.
    pub local: Duration,
    /// A run that reads from a remote.
    pub remote: Duration,
    /// A push. Short, because whoever permits it must be able to vouch for that long.
    pub push: Duration,
    /// What a run may print.
    pub output: u64,
    /// What one mirror may take on disk.
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

/// The program, its home and its limits.
#[derive(Clone, Debug)]
pub struct GitRunner {
    program: PathBuf,
    home: PathBuf,
    limits: GitLimits,
    policy: AddressPolicy,
    proxy: Option<Proxy>,
}

/// One run, described.
pub(crate) struct Run<'a> {
    /// Completes "cannot …".
    pub(crate) attempted: String,
    pub(crate) arguments: Vec<OsString>,
    /// The bare repository.
    pub(crate) repository: &'a Path,
    pub(crate) input: Vec<u8>,
    pub(crate) environment: Vec<(String, OsString)>,
    /// Who we are, if a remote is asked.
    pub(crate) access: Option<&'a Access>,
    /// How long it may take, where that is not as usual.
    pub(crate) time: Option<Duration>,
}

impl<'a> Run<'a> {
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
            time: None,
        }
    }

    pub(crate) fn input(mut self, input: impl Into<Vec<u8>>) -> Self {
        self.input = input.into();
        self
    }

    pub(crate) fn variable(mut self, name: &str, value: impl Into<OsString>) -> Self {
        self.environment.push((name.to_owned(), value.into()));
        self
    }

    pub(crate) fn access(mut self, access: &'a Access) -> Self {
        self.access = Some(access);
        self
    }

    pub(crate) fn within(mut self, time: Duration) -> Self {
        self.time = Some(time);
        self
    }
}

/// What a run that ended by itself left behind.
pub(crate) struct Finished {
    pub(crate) success: bool,
    pub(crate) output: Vec<u8>,
    /// Scrubbed.
    pub(crate) complaint: String,
}

impl GitRunner {
    /// Prepares a home below the folder. What an earlier process left there is removed.
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
            program: PathBuf::from("git"),
            home,
            limits,
            policy,
            proxy: None,
        })
    }

    /// The same with another program for git than the one on the path.
    pub fn with_program(mut self, program: impl Into<PathBuf>) -> Self {
        self.program = program.into();
        self
    }

    /// Connects through a proxy, except to the hosts that it excludes.
    pub fn with_proxy(mut self, proxy: Option<Proxy>) -> Self {
        self.proxy = proxy;
        self
    }

    /// The proxy to a repository, if one is between it and us.
    pub(crate) fn proxy_to(&self, url: &RepositoryUrl) -> Option<SecretValue> {
        let is_http = matches!(url.scheme(), Scheme::Https | Scheme::Http);
        let proxy = self.proxy.as_ref().filter(|_| is_http)?;
        proxy.url_for(url.host()).cloned()
    }

    /// The limits it runs under.
    pub fn limits(&self) -> GitLimits {
        self.limits
    }

    /// Where it may go.
    pub fn policy(&self) -> AddressPolicy {
        self.policy
    }

    /// Runs git to its end, well or not.
    pub(crate) async fn finish(&self, run: Run<'_>) -> Result<Finished, Error> {
        let secrets = run.access.map(Access::secrets).unwrap_or_default();
        // Removed when this function is left, however it is left.
        let mut key_files = None;
        let command = self.command(&run, &mut key_files);
        let command = command.map_err(|source| Error::Start {
            attempted: run.attempted.clone(),
            source,
        })?;
        let bounds = self.bounds(&run);
        let ended = process::run(command, run.input, bounds).await;
        ended
            .map(|ended| finished(ended, &secrets))
            .map_err(|error| error.of(run.attempted))
    }

    fn command(
        &self,
        run: &Run<'_>,
        key_files: &mut Option<access::KeyFiles>,
    ) -> std::io::Result<tokio::process::Command> {
        let mut command = tokio::process::Command::new(&self.program);
        command.env_clear().envs(self.environment());
        command.arg("--no-pager").args(&run.arguments);
        command.env("GIT_DIR", run.repository);
        command.current_dir(&self.home);
        command.envs(run.environment.iter().map(|(name, value)| (name, value)));
        if let Some(access) = run.access {
            if let Some(key) = access.key() {
                *key_files = Some(access::KeyFiles::write(&self.home, key)?);
            }
            command.envs(access.environment(&self.home, key_files.as_ref())?);
        }
        Ok(command)
    }

    fn bounds(&self, run: &Run<'_>) -> process::Bounds {
        let GitLimits {
            local,
            remote,
            output,
            mirror,
            ..
        } = self.limits;
        let usual = if run.access.is_some() { remote } else { local };
        process::Bounds {
            time: run.time.unwrap_or(usual),
            output,
            folder: run.access.map(|_| (run.repository.to_owned(), mirror)),
        }
    }

    /// Runs git and wants it to succeed.
    pub(crate) async fn run(&self, run: Run<'_>) -> Result<Vec<u8>, Error> {
        let attempted = run.attempted.clone();
        let finished = self.finish(run).await?;
        if finished.success {
            return Ok(finished.output);
        }
        Err(Error::Failed {
            attempted,
            message: last_lines(&finished.complaint),
        })
    }

    /// The same, for commands that print one short line.
    pub(crate) async fn line(&self, run: Run<'_>) -> Result<String, Error> {
        let attempted = run.attempted.clone();
        let output = self.run(run).await?;
        match String::from_utf8(output) {
            Ok(text) => Ok(text.trim_end_matches('\n').to_owned()),
            Err(_) => Err(Error::Unreadable { attempted }),
        }
    }

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
        environment.extend(access::settings(
            SETTINGS.iter().map(|(k, v)| ((*k).into(), (*v).into())),
        ));
        environment
    }
}

/// Git's settings for every run. They travel in the environment, so that they also reach the
/// programs that git itself starts.
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

fn finished(ended: process::Ended, secrets: &[SecretValue]) -> Finished {
    let complaint = String::from_utf8_lossy(&ended.complaint);
    Finished {
        success: ended.success,
        output: ended.output,
        complaint: redact(&complaint, secrets),
    }
}

/// Enough of what git printed to understand it, without the noise before it.
pub(crate) fn last_lines(complaint: &str) -> String {
    let lines: Vec<&str> = complaint
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let kept = lines[lines.len().saturating_sub(4)..].join("; ");
    let mut message: String = kept.chars().filter(|c| !c.is_control()).take(600).collect();
    if message.is_empty() {
        message.push_str("git failed without a word");
    }
    message
}

//! Gives one git process the key that it signs a commit with: in files that are private to this user and
//! removed when the process ends.
//!
//! SSH keys are used by `ssh-keygen`, OpenPGP keys by `gpg` with a home folder of its own. Git starts both
//! by itself. The key is never an argument of a process and in no message.

use std::ffi::OsString;
use std::io::Write;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use net::redact;

use super::{Error, GitInvocation, GitRunner, ProcessLimits, access, last_lines};
use crate::credentials::{SigningFormat, SigningKey};

/// The settings of gpg: it never asks anybody for anything.
const GPG_SETTINGS: &str = "batch\nno-tty\npinentry-mode error\n";

/// The files of a signing key, and how git finds them.
pub(crate) struct SigningFiles {
    folder: tempfile::TempDir,
    format: SigningFormat,
    /// What git calls the key: a file, or a fingerprint.
    key: OsString,
}

impl GitRunner {
    /// Prepares a key for the git processes that use it.
    pub(crate) async fn prepare_signing(&self, key: &SigningKey) -> Result<SigningFiles, Error> {
        let mut folder = tempfile::Builder::new();
        let folder = folder.prefix("sign-").tempdir_in(&self.home);
        let folder = folder.map_err(|error| failed("make a folder for the key", &error))?;
        let key_name = match key.format {
            SigningFormat::Ssh => {
                let path = folder.path().join("key");
                let written = write_private(&path, &key.text());
                written.map_err(|error| failed("write the key", &error))?;
                path.into_os_string()
            }
            SigningFormat::OpenPgp => self.import(folder.path(), key).await?.into(),
        };
        Ok(SigningFiles {
            folder,
            format: key.format,
            key: key_name,
        })
    }

    /// Removes the key and what may still hold it in memory.
    pub(crate) async fn finish_signing(&self, files: SigningFiles) {
        if files.format == SigningFormat::OpenPgp {
            let end = ["--kill", "gpg-agent"];
            // It also ends by itself once its folder is gone.
            let _ = self
                .run_gpg("gpgconf", &files.gpg_home(), &end, Vec::new())
                .await;
        }
    }

    /// Imports an OpenPGP key and returns its fingerprint.
    async fn import(&self, folder: &Path, key: &SigningKey) -> Result<String, Error> {
        let home = folder.join("gnupg");
        let prepared = std::fs::DirBuilder::new().mode(0o700).create(&home);
        let prepared =
            prepared.and_then(|()| write_private(&home.join("gpg.conf"), GPG_SETTINGS.as_bytes()));
        prepared.map_err(|error| failed("prepare a folder for gpg", &error))?;
        let arguments = [
            "--with-colons",
            "--import-options",
            "import-show",
            "--import",
        ];
        let imported = self.run_gpg("gpg", &home, &arguments, key.text()).await?;
        let output = String::from_utf8_lossy(&imported.stdout).into_owned();
        let mut lines = output.lines();
        let fingerprint = lines.find_map(|line| line.strip_prefix("fpr:"));
        let fingerprint = fingerprint.and_then(|line| line.split(':').find(|it| !it.is_empty()));
        match fingerprint.filter(|_| imported.success) {
            Some(fingerprint) => Ok(fingerprint.to_owned()),
            None => {
                let stderr = String::from_utf8_lossy(&imported.stderr);
                let because = last_lines(&redact(&stderr, &[key.secret()]));
                let message = format!("gpg does not accept the entry \"signingKey\" ({because})");
                Err(Error::Signing { message })
            }
        }
    }

    async fn run_gpg(
        &self,
        program: &'static str,
        home: &Path,
        arguments: &[&str],
        input: Vec<u8>,
    ) -> Result<super::GitOutput, Error> {
        let mut all = vec![OsString::from("--homedir"), home.into()];
        all.extend(arguments.iter().map(OsString::from));
        let invocation = GitInvocation {
            program: Some(program),
            arguments: all,
            environment: self.environment(),
            working_directory: self.home.clone(),
            input,
            limits: ProcessLimits {
                time: self.limits.local,
                output: self.limits.output,
                directory: None,
            },
        };
        let output = self.executor.execute(invocation).await;
        output.map_err(|error| match error {
            super::GitExecutionError::Io(error) if error.kind() == std::io::ErrorKind::NotFound => {
                let message = format!(
                    "{program} is not installed; install it beside git, or use an SSH key in the entry \
                     \"signingKey\""
                );
                Error::Signing { message }
            }
            error => error.during(format!("run {program}")),
        })
    }
}

impl SigningFiles {
    fn gpg_home(&self) -> PathBuf {
        self.folder.path().join("gnupg")
    }

    /// The environment of a git process that signs with this key.
    pub(crate) fn environment(&self) -> Vec<(String, OsString)> {
        let format = match self.format {
            SigningFormat::Ssh => "ssh",
            SigningFormat::OpenPgp => "openpgp",
        };
        let settings = super::SETTINGS.iter();
        let settings = settings.map(|(name, value)| ((*name).to_owned(), (*value).into()));
        let own = [
            ("gpg.format".to_owned(), format.into()),
            ("user.signingKey".to_owned(), self.key.clone()),
        ];
        let mut environment = access::settings_as_environment(settings.chain(own));
        environment.push(("GNUPGHOME".to_owned(), self.gpg_home().into()));
        environment
    }
}

/// Writes a file that only this user can read.
fn write_private(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    let options = options.write(true).create_new(true).mode(0o600);
    options.open(path)?.write_all(content)
}

fn failed(attempted: &str, error: &std::io::Error) -> Error {
    Error::Signing {
        message: format!("cannot {attempted}: {error}"),
    }
}

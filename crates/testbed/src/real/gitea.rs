//! A real Gitea for tests, with TLS and SQLite.
//!
//! The program comes from the folder that `cargo xtask kube` prints. It listens on loopback, connects to
//! nothing, keeps everything in a temporary folder, and ends with its value. Tests administer it over its
//! API and push to it with git.

mod sign_in;

pub use sign_in::OpenIdClient;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::curl::Curl;
use super::process::SupervisedProcess;
use super::{ASK_EVERY, Assets, Error, READY_WITHIN, system, write_private};
use crate::forge::tls::IssuedCertificate;
use crate::ports::free_port;

/// The program's file name.
const PROGRAM: &str = "gitea";
/// The templates and translations that it reads, beside the program.
const FILES: &str = "gitea-files";
/// The administrator.
const ADMINISTRATOR: &str = "administrator";
/// The password of every user.
pub const PASSWORD: &str = "only-for-tests";

/// A running Gitea.
pub struct RealGitea {
    address: String,
    authority: String,
    curl: Curl,
    administrator_token: String,
    /// How many tokens were created; each needs another name.
    tokens: AtomicUsize,
    process: SupervisedProcess,
    folder: tempfile::TempDir,
}

/// A response of the API.
#[derive(Clone, Debug)]
pub struct GiteaResponse {
    /// The status.
    pub status: u16,
    /// The body; null if it is not JSON.
    pub body: Value,
}

impl RealGitea {
    /// Starts a server and waits until it answers.
    pub async fn start(assets: &Assets) -> Result<Self, Error> {
        let program = assets.program(PROGRAM);
        if !program.is_file() {
            let folder = program.parent().map(Path::to_owned).unwrap_or_default();
            return Err(Error::ProgramMissing {
                program: PROGRAM,
                folder,
            });
        }
        let folder = tempfile::Builder::new().prefix("gitea-").tempdir();
        let folder = folder.map_err(system("creating the folder of a Gitea"))?;
        let port = free_port();
        let mut process = SupervisedProcess::prepare(assets, PROGRAM, folder.path())?;
        let certificate = IssuedCertificate::new()?;
        let settings = settings(port, process.folder(), &assets.program(FILES)).await?;
        for (name, text) in [
            ("app.ini", settings),
            ("server.crt", certificate.pem()),
            ("server.key", certificate.key_pem()),
            ("authority.crt", certificate.authority_pem()),
        ] {
            write_private(&process.folder().join(name), &text)?;
        }
        let mut arguments = vec!["web".into()];
        arguments.extend(configuration(process.folder()).map(Into::into));
        process.start(arguments)?;
        let authorities = process.folder().join("authority.crt");
        let mut gitea = Self {
            address: format!("https://127.0.0.1:{port}"),
            authority: certificate.authority_pem(),
            curl: Curl { authorities },
            administrator_token: String::new(),
            tokens: AtomicUsize::new(0),
            process,
            folder,
        };
        gitea.wait_until_ready().await?;
        gitea.administrator_token = gitea.create_administrator(&program).await?;
        Ok(gitea)
    }

    /// `https://127.0.0.1:PORT`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// The certificate authority, as PEM.
    pub fn certificate_authority(&self) -> &str {
        &self.authority
    }

    /// The token of the administrator, with every scope.
    pub fn administrator_token(&self) -> &str {
        &self.administrator_token
    }

    /// Creates a user with [`PASSWORD`].
    pub async fn create_user(&self, name: &str) -> Result<(), Error> {
        let user = json!({
            "username": name, "email": format!("{name}@example.com"), "password": PASSWORD,
            "must_change_password": false,
        });
        self.administer("POST", "/admin/users", user)
            .await
            .map(drop)
    }

    /// Creates a token of a user with these scopes, such as `write:repository`.
    pub async fn create_token(&self, user: &str, scopes: &[&str]) -> Result<String, Error> {
        let login = STANDARD.encode(format!("{user}:{PASSWORD}"));
        let number = self.tokens.fetch_add(1, Ordering::Relaxed);
        let name = format!("token {number}");
        let body = json!({"name": name, "scopes": scopes});
        let path = format!("/users/{user}/tokens");
        let response = self
            .send(&format!("Basic {login}"), "POST", &path, &body)
            .await?;
        let token = response.body["sha1"].as_str().map(str::to_owned);
        token.ok_or_else(|| self.refused("POST", &path, &response))
    }

    /// Sends a request to the API; the path is the one below `/api/v1`.
    pub async fn request(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Result<GiteaResponse, Error> {
        self.send(&format!("token {token}"), method, path, body)
            .await
    }

    /// Sends a request as the administrator and expects success; the body of the response.
    pub async fn administer(&self, method: &str, path: &str, body: Value) -> Result<Value, Error> {
        let token = &self.administrator_token;
        let response = self.request(token, method, path, &body).await?;
        match response.status {
            200..=299 => Ok(response.body),
            _ => Err(self.refused(method, path, &response)),
        }
    }

    /// Pushes a stream of `git fast-import` to `owner/repository` as the administrator. It may start from
    /// the branches that are there, and replaces those that it names.
    pub async fn import(&self, repository: &str, stream: &str) -> Result<(), Error> {
        let folder = tempfile::tempdir_in(self.folder.path());
        let folder = folder.map_err(system("creating a folder for git"))?;
        let address = self.address.replacen("https://", "", 1);
        let url = format!("https://{ADMINISTRATOR}:{PASSWORD}@{address}/{repository}.git");
        let every_branch = "+refs/heads/*:refs/heads/*";
        self.git(folder.path(), &["init", "--quiet", "--bare"], "")
            .await?;
        self.git(folder.path(), &["fetch", "--quiet", &url, every_branch], "")
            .await?;
        self.git(
            folder.path(),
            &["fast-import", "--quiet", "--force"],
            stream,
        )
        .await?;
        self.git(folder.path(), &["push", "--quiet", &url, every_branch], "")
            .await
    }

    async fn git(&self, folder: &Path, arguments: &[&str], input: &str) -> Result<(), Error> {
        let attempted = || format!("running git {}", arguments.first().unwrap_or(&""));
        let mut git = Command::new("git")
            .args(arguments)
            .current_dir(folder)
            .env("GIT_SSL_CAINFO", &self.curl.authorities)
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(system(attempted()))?;
        if let Some(mut stdin) = git.stdin.take() {
            let written = stdin.write_all(input.as_bytes()).await;
            written.map_err(system(attempted()))?;
        }
        let output = git.wait_with_output().await.map_err(system(attempted()))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(system(attempted())(std::io::Error::other(said)))
    }

    async fn send(
        &self,
        authorization: &str,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Result<GiteaResponse, Error> {
        let url = format!("{}/api/v1{path}", self.address);
        let authorization = format!("Authorization: {authorization}");
        let headers = ["Content-Type: application/json", &authorization];
        let body = match body {
            Value::Null => String::new(),
            body => body.to_string(),
        };
        let response = self
            .curl
            .send(method, &url, &headers, body.as_bytes())
            .await?;
        Ok(GiteaResponse {
            status: response.status,
            body: serde_json::from_slice(&response.body).unwrap_or_default(),
        })
    }

    fn refused(&self, method: &str, path: &str, response: &GiteaResponse) -> Error {
        Error::NotReady {
            address: format!("{method} {}{path}", self.address),
            answer: format!("{} {}", response.status, response.body),
            log: self.process.log_tail(),
        }
    }

    async fn wait_until_ready(&mut self) -> Result<(), Error> {
        let give_up = Instant::now() + READY_WITHIN;
        loop {
            self.process.check_running()?;
            let response = self.send("", "GET", "/version", &Value::Null).await?;
            if response.status == 200 {
                return Ok(());
            }
            if Instant::now() > give_up {
                return Err(self.refused("GET", "/version", &response));
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
    }

    /// Creates the administrator on the command line, as Gitea demands; its token.
    async fn create_administrator(&self, program: &Path) -> Result<String, Error> {
        let output = Command::new(program)
            .args(["admin", "user", "create", "--admin"])
            .args(["--username", ADMINISTRATOR, "--password", PASSWORD])
            .args(["--email", "administrator@example.com"])
            .args(["--must-change-password=false", "--access-token"])
            .args(["--access-token-name", "tests"])
            .args(["--access-token-scopes", "all"])
            .args(configuration(self.process.folder()))
            .stdin(Stdio::null())
            .output()
            .await
            .map_err(system("creating the administrator of a Gitea"))?;
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let is_token =
            |word: &&str| word.len() == 40 && word.bytes().all(|it| it.is_ascii_hexdigit());
        let token = said.split_whitespace().rfind(is_token);
        token.map(str::to_owned).ok_or_else(|| {
            let error = String::from_utf8_lossy(&output.stderr);
            let error = std::io::Error::other(format!("no token was printed: {said} {error}"));
            system("creating the administrator of a Gitea")(error)
        })
    }
}

fn configuration(folder: &Path) -> [PathBuf; 4] {
    let config = folder.join("app.ini");
    [
        "--config".into(),
        config,
        "--work-path".into(),
        folder.to_owned(),
    ]
}

/// The configuration. Nothing in it makes the server connect to another one.
async fn settings(port: u16, folder: &Path, files: &Path) -> Result<String, Error> {
    let user = Command::new("id").arg("-un").output().await;
    let user = user.map_err(system("asking for the name of the user"))?;
    let user = String::from_utf8_lossy(&user.stdout).trim().to_owned();
    let (folder, files) = (folder.display(), files.display());
    Ok(format!(
        "RUN_USER = {user}
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true
WORK_PATH = {folder}
[server]
PROTOCOL = https
HTTP_ADDR = 127.0.0.1
HTTP_PORT = {port}
DOMAIN = 127.0.0.1
ROOT_URL = https://127.0.0.1:{port}/
LOCAL_ROOT_URL = https://127.0.0.1:{port}/
CERT_FILE = {folder}/server.crt
KEY_FILE = {folder}/server.key
STATIC_ROOT_PATH = {files}
DISABLE_SSH = true
OFFLINE_MODE = true
LFS_START_SERVER = false
[database]
DB_TYPE = sqlite3
PATH = {folder}/gitea.db
SQLITE_TIMEOUT = 60000
SQLITE_JOURNAL_MODE = WAL
[repository]
DEFAULT_BRANCH = main
[security]
INSTALL_LOCK = true
SECRET_KEY = only-for-tests
PASSWORD_COMPLEXITY = off
[service]
DISABLE_REGISTRATION = true
[indexer]
ISSUE_INDEXER_TYPE = db
[queue]
TYPE = channel
[session]
PROVIDER = memory
[actions]
ENABLED = false
[packages]
ENABLED = false
[cron]
ENABLED = false
[cron.update_checker]
ENABLED = false
[log]
MODE = console
LEVEL = Warn
"
    ))
}

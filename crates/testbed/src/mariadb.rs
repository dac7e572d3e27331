//! Starts a MariaDB server on a temporary folder and a free port, for tests of the lock between data
//! centres.
//!
//! The server and its data are gone when the value is dropped. Needs `mariadbd` and
//! `mariadb-install-db` in the path. Panics where a test could only fail anyway.

use std::{
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use mysql_async::{Conn, OptsBuilder, prelude::Queryable};

use crate::ports::free_port;

/// The database user of Sluice.
pub const USER: &str = "sluice";
/// The password of [`USER`].
pub const PASSWORD: &str = "secret of the test";

/// Many servers run at once: little memory, small files, and no kernel asynchronous I/O, which is
/// limited for the whole machine.
const SMALL_SERVER: [&str; 3] = [
    "--innodb-buffer-pool-size=16M",
    "--innodb-log-file-size=8M",
    "--skip-innodb-use-native-aio",
];

/// A running database server.
pub struct MariaDb {
    /// The port on the loopback address.
    pub port: u16,
    folder: tempfile::TempDir,
    flags: Vec<String>,
    process: Child,
}

impl MariaDb {
    /// Starts an empty database with additional flags and creates [`USER`] with all rights.
    pub async fn start(flags: &[&str]) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        install(folder.path()).await;
        let port = free_port();
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let process = launch(folder.path(), port, &flags);
        let database = Self {
            port,
            folder,
            flags,
            process,
        };
        wait_until("the database answers", async || {
            Conn::new(database.root_options()).await.is_ok()
        })
        .await;
        let create_user = format!("CREATE USER {USER} IDENTIFIED BY '{PASSWORD}'");
        let grant = format!("GRANT ALL ON *.* TO {USER}");
        database.run_as_root(&[&create_user, &grant]).await;
        database
    }

    /// Runs statements as the database's root user.
    pub async fn run_as_root(&self, statements: &[&str]) {
        let root = Conn::new(self.root_options()).await;
        let mut root = root.expect("a connection");
        for statement in statements {
            root.query_drop(*statement)
                .await
                .expect("a valid statement");
        }
    }

    fn root_options(&self) -> OptsBuilder {
        OptsBuilder::default()
            .ip_or_hostname("127.0.0.1")
            .tcp_port(self.port)
            .user(Some("root"))
            .prefer_socket(false)
    }

    /// A new connection as [`USER`].
    pub async fn connect(&self) -> Conn {
        try_connect(self.port).await.expect("a connection")
    }

    /// Kills the server and starts it again on the same data.
    pub async fn restart(&mut self) {
        self.stop();
        self.process = launch(self.folder.path(), self.port, &self.flags);
        let port = self.port;
        wait_until("the database is back", async || {
            try_connect(port).await.is_ok()
        })
        .await;
    }

    fn stop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// The first value of a query; 0 if there is none.
    pub async fn number(&self, statement: &str) -> i64 {
        let mut connection = self.connect().await;
        let number: Result<Option<Option<i64>>, _> = connection.query_first(statement).await;
        number.expect("a valid query").flatten().unwrap_or(0)
    }

    /// Waits until a session waits for a named lock.
    pub async fn wait_for_waiting_session(&self) {
        let statement =
            "SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock'";
        wait_until("a session waits", async || self.number(statement).await > 0).await;
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Creates an empty data folder. One at a time, because each needs the whole disk; without looking up
/// the host's name, which is not needed and fails where name servers are slow.
async fn install(folder: &Path) {
    static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
    let _turn = ONE_AT_A_TIME.lock().await;
    let mut command = tokio::process::Command::new("mariadb-install-db");
    command
        .args([
            "--no-defaults",
            "--skip-test-db",
            "--skip-name-resolve",
            "--auth-root-authentication-method=normal",
        ])
        .arg(format!("--datadir={}", folder.join("data").display()))
        .arg(format!("--tmpdir={}", folder.display()))
        .args(SMALL_SERVER)
        .args(user_flag());
    let installed = command.output().await;
    let installed = installed.expect("mariadb-install-db: `cargo xtask test` installs it");
    assert!(
        installed.status.success(),
        "{}\n{}",
        String::from_utf8_lossy(&installed.stdout),
        String::from_utf8_lossy(&installed.stderr)
    );
}

fn launch(folder: &Path, port: u16, flags: &[String]) -> Child {
    let at = |name: &str| folder.join(name).display().to_string();
    let process = Command::new("mariadbd")
        .arg("--no-defaults")
        .arg(format!("--datadir={}", at("data")))
        .arg(format!("--socket={}", at("socket")))
        .arg(format!("--pid-file={}", at("pid")))
        .arg(format!("--port={port}"))
        .arg(format!("--tmpdir={}", folder.display()))
        .args([
            "--bind-address=127.0.0.1",
            "--innodb-flush-log-at-trx-commit=1",
        ])
        .args(SMALL_SERVER)
        .args(user_flag())
        .args(flags)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    process.expect("mariadbd: `cargo xtask test` installs it")
}

/// MariaDB refuses to run as root without this flag.
fn user_flag() -> Option<&'static str> {
    let id = Command::new("id").arg("-u").output();
    let id = id.expect("the user's id").stdout;
    (id.trim_ascii() == b"0").then_some("--user=root")
}

/// Connects as [`USER`] to a server on this machine.
pub async fn try_connect(port: u16) -> Result<Conn, mysql_async::Error> {
    let options = OptsBuilder::default()
        .ip_or_hostname("127.0.0.1")
        .tcp_port(port)
        .user(Some(USER))
        .pass(Some(PASSWORD))
        .prefer_socket(false);
    Conn::new(options).await
}

/// Polls until a condition holds; panics after two minutes.
pub async fn wait_until(what: &str, condition: impl AsyncFn() -> bool) {
    let waiting = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let waited = tokio::time::timeout(Duration::from_secs(120), waiting).await;
    assert!(waited.is_ok(), "waited in vain until {what}");
}

//! A process that competes for the lock and acts while it leads.

use std::{
    process::{Child, Command, Stdio},
    time::Duration,
};

use controller::cross_dc::{Leadership, compete};
use mysql_async::{Conn, prelude::Queryable};

use crate::mariadb::{MariaDb, settings};

const NAME: &str = "SLUICE_TEST_ACTOR";
const LOCK_PORT: &str = "SLUICE_TEST_LOCK_PORT";
const WITNESS_PORT: &str = "SLUICE_TEST_WITNESS_PORT";

/// A running process; ends with the test.
pub(crate) struct Actor(Child);

impl Actor {
    /// Starts this test binary again. It reaches the lock at `port` and the witness table directly.
    pub(crate) fn start(name: &str, database: &MariaDb, port: u16) -> Self {
        let program = std::env::current_exe().unwrap();
        let child = Command::new(program)
            .args(["actor_process", "--exact", "--nocapture"])
            .env(NAME, name)
            .env(LOCK_PORT, port.to_string())
            .env(WITNESS_PORT, database.port.to_string())
            .stdout(Stdio::null())
            .spawn();
        Self(child.unwrap())
    }

    pub(crate) fn signal(&self, signal: &str) {
        let id = self.0.id().to_string();
        let sent = Command::new("kill")
            .args([&format!("-{signal}"), &id])
            .status();
        assert!(sent.unwrap().success());
    }

    pub(crate) async fn wait_for_exit(&mut self) {
        for _ in 0..3000 {
            if self.0.try_wait().unwrap().is_some() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the process does not end");
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the process does, if this is one.
pub(crate) fn run_if_asked() {
    let Ok(name) = std::env::var(NAME) else {
        return;
    };
    let port = |variable: &str| std::env::var(variable).unwrap().parse::<u16>().unwrap();
    let (lock, witness) = (port(LOCK_PORT), port(WITNESS_PORT));
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async move {
        let leadership = Leadership::new();
        let settings = settings(&name, lock);
        tokio::spawn(act(name, witness, leadership.clone()));
        let mut terminated =
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap();
        compete(settings, leadership, async move {
            terminated.recv().await;
        })
        .await;
    });
}

/// Acts every few milliseconds while leading.
async fn act(name: String, port: u16, leadership: Leadership) {
    let mut connection: Option<Conn> = None;
    loop {
        tokio::time::sleep(Duration::from_millis(20)).await;
        if connection.is_none() {
            connection = crate::mariadb::try_connect(port).await.ok();
        }
        let Some(witness) = &mut connection else {
            continue;
        };
        if !leadership.leads() {
            continue;
        }
        let statement = "INSERT INTO witness.acts (holder, token, is_stale) \
            SELECT ?, ?, ? < (SELECT token FROM sluice.lease)";
        let token = leadership.token();
        let written = witness.exec_drop(statement, (&name, token, token)).await;
        if written.is_err() {
            connection = None;
        }
    }
}

//! A process that does what `sluice controller` does: it competes for the lock and, below it, for the
//! Lease of its own cluster, and acts while it leads.

use std::{
    net::TcpStream,
    process::{Child, Command, Stdio},
    time::Duration,
};

use apiserver::{FaultRates, Server};
use controller::{
    Context, Metrics, Settings,
    controllers::{Controller, ControllerError},
    run::run_controllers,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, api::PostParams};
use mysql_async::{Conn, prelude::Queryable};
use runtime::leader::{LeaderElection, LeaseTiming};
use testbed::{mariadb::try_connect, ports::free_port};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use trigger::cross_dc::outer_lock;

use crate::witness::{Witness, settings};

const NAME: &str = "SLUICE_TEST_ACTOR";
const LOCK_PORT: &str = "SLUICE_TEST_LOCK_PORT";
const WITNESS_PORT: &str = "SLUICE_TEST_WITNESS_PORT";
const PROBE_PORT: &str = "SLUICE_TEST_PROBE_PORT";
/// How long an act may take.
const ACT: Duration = Duration::from_millis(500);

/// A running process; ends with the test.
pub(crate) struct Actor {
    process: Child,
    probe_port: u16,
}

impl Actor {
    /// Starts this test binary again. It reaches the lock at `port` and the witness table directly.
    pub(crate) fn start(name: &str, database: &Witness, port: u16) -> Self {
        let program = std::env::current_exe().unwrap();
        let probe_port = free_port();
        let process = Command::new(program)
            .args(["actor_process", "--exact", "--nocapture"])
            .env(NAME, name)
            .env(LOCK_PORT, port.to_string())
            .env(WITNESS_PORT, database.port.to_string())
            .env(PROBE_PORT, probe_port.to_string())
            .stdout(Stdio::null())
            .spawn();
        Self {
            process: process.unwrap(),
            probe_port,
        }
    }

    pub(crate) fn signal(&self, signal: &str) {
        let id = self.process.id().to_string();
        let sent = Command::new("kill")
            .args([&format!("-{signal}"), &id])
            .status();
        assert!(sent.unwrap().success());
    }

    pub(crate) async fn wait_for_exit(&mut self) {
        for _ in 0..3000 {
            if self.process.try_wait().unwrap().is_some() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the process does not end");
    }

    /// Whether both probes answer well.
    pub(crate) fn is_healthy(&self) -> bool {
        ["/healthz", "/readyz"]
            .iter()
            .all(|path| self.answers(path))
    }

    fn answers(&self, path: &str) -> bool {
        use std::io::{Read, Write};
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.probe_port)) else {
            return false;
        };
        let asked = write!(stream, "GET {path} HTTP/1.0\r\n\r\n");
        let mut answer = String::new();
        asked.is_ok()
            && stream.read_to_string(&mut answer).is_ok()
            && answer.starts_with("HTTP/1.0 200")
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What the process does, if this is one.
pub(crate) fn run_if_asked() {
    let Ok(name) = std::env::var(NAME) else {
        return;
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(run(name));
}

async fn run(name: String) {
    let port = |variable: &str| std::env::var(variable).unwrap().parse::<u16>().unwrap();
    let server = Server::in_memory();
    let definitions: Api<CustomResourceDefinition> = Api::all(server.client());
    for definition in api::crds() {
        let parameters = PostParams::default();
        definitions.create(&parameters, &definition).await.unwrap();
    }
    let seconds = Duration::from_secs;
    let settings = Settings {
        outer_lock: Some(outer_lock(settings(&name, port(LOCK_PORT)))),
        election: Some(LeaderElection {
            namespace: "default".to_owned(),
            name: "shard".to_owned(),
            identity: name.clone(),
            timing: LeaseTiming::new(seconds(4), seconds(3), seconds(1)).unwrap(),
        }),
        probe_address: Some(([127, 0, 0, 1], port(PROBE_PORT)).into()),
        ..Settings::default()
    };
    let witness = port(WITNESS_PORT);
    let acting = Controller::new("acting", move |context| act(name.clone(), witness, context));
    let shutdown = CancellationToken::new();
    tokio::spawn(end_when_told(shutdown.clone()));
    tokio::spawn(break_when_told(server.clone()));
    let client = server.client();
    let ended = run_controllers(client, settings, Metrics::new(), shutdown, vec![acting]).await;
    ended.unwrap();
}

async fn end_when_told(shutdown: CancellationToken) {
    signal(SignalKind::terminate()).unwrap().recv().await;
    shutdown.cancel();
}

/// From a signal on, the cluster's API answers nothing.
async fn break_when_told(server: Server) {
    signal(SignalKind::user_defined1()).unwrap().recv().await;
    server.inject_faults(FaultRates {
        server_error: 1.0,
        ..FaultRates::default()
    });
}

/// Acts every few milliseconds while leading.
async fn act(name: String, port: u16, context: Context) -> Result<(), ControllerError> {
    let mut connection: Option<Conn> = None;
    while !context.stop.is_cancelled() {
        tokio::time::sleep(Duration::from_millis(20)).await;
        if connection.is_none() {
            connection = try_connect(port).await.ok();
        }
        let Some(witness) = &mut connection else {
            continue;
        };
        if context.leader.permit(ACT).is_err() {
            continue;
        }
        // Stale is what is done while the row names somebody else.
        let statement = "INSERT INTO witness.acts (holder, token, is_stale) \
            SELECT ?, token, holder <> ? FROM sluice.lease";
        let written = witness.exec_drop(statement, (&name, &name)).await;
        if written.is_err() {
            connection = None;
        }
    }
    Ok(())
}

//! The binary as a process: started, killed and started again, and what the system knows about it.

use std::{
    fs::{self, OpenOptions},
    net::{SocketAddr, TcpListener},
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::Mutex,
};

use crate::fleet::Fleet;

/// How many ended promotions are kept: few, so that their number is the same soon.
const HISTORY_LIMIT: &str = "5";

pub(crate) struct ControllerProcess {
    command: Mutex<Command>,
    child: Mutex<Child>,
    log: PathBuf,
    pub(crate) metrics: SocketAddr,
    pub(crate) rest: SocketAddr,
}

impl Drop for ControllerProcess {
    fn drop(&mut self) {
        let mut child = self.child.lock().unwrap();
        drop(child.kill());
        drop(child.wait());
    }
}

impl ControllerProcess {
    pub(crate) fn start(fleet: &Fleet) -> Self {
        let [metrics, rest, hooks] = free_addresses();
        let log = fleet.folder.path().join("log");
        let file = OpenOptions::new().create(true).append(true).open(&log);
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice"));
        command
            .arg("controller")
            .env("SLUICE_KUBECONFIG", fleet.kubeconfig())
            .env("SLUICE_ALLOW_INTERNAL_URLS", "true")
            .env("SLUICE_CHECK_HOSTS", fleet.check_hosts())
            .env("SLUICE_FOLLOW_EVERY", "1s")
            .env("SLUICE_HISTORY_LIMIT", HISTORY_LIMIT)
            .env("SLUICE_GIT_FOLDER", fleet.folder.path().join("mirrors"))
            .env("SLUICE_LEADER_ELECTION_NAMESPACE", "default")
            .env("SLUICE_METRICS_BIND_ADDRESS", metrics.to_string())
            .env("SLUICE_REST_BIND_ADDRESS", rest.to_string())
            .env("SLUICE_PROMOTION_HOOK_BIND_ADDRESS", hooks.to_string())
            .env("SLUICE_HEALTH_PROBE_BIND_ADDRESS", "0")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file.unwrap());
        let child = command.spawn().unwrap();
        Self {
            command: Mutex::new(command),
            child: Mutex::new(child),
            log,
            metrics,
            rest,
        }
    }

    /// Kills it without notice and starts it again.
    pub(crate) fn kill_and_restart(&self) {
        let mut child = self.child.lock().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        *child = self.command.lock().unwrap().spawn().unwrap();
    }

    pub(crate) fn assert_running(&self) {
        let ended = self.child.lock().unwrap().try_wait().unwrap();
        assert!(
            ended.is_none(),
            "the binary ended: {ended:?}\n{}",
            self.log_tail()
        );
    }

    fn log_tail(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().rev().take(20).collect();
        lines.join("\n")
    }

    /// Bytes logged so far.
    pub(crate) fn logged(&self) -> f64 {
        number(fs::metadata(&self.log).map_or(0, |it| it.len()))
    }

    fn proc(&self, file: &str) -> PathBuf {
        let id = self.child.lock().unwrap().id();
        PathBuf::from(format!("/proc/{id}/{file}"))
    }

    /// Resident memory in MiB.
    pub(crate) fn resident(&self) -> Option<f64> {
        Some(self.status("VmRSS:")? / 1024.0)
    }

    pub(crate) fn threads(&self) -> Option<f64> {
        self.status("Threads:")
    }

    fn status(&self, field: &str) -> Option<f64> {
        let status = fs::read_to_string(self.proc("status")).ok()?;
        let line = status.lines().find_map(|line| line.strip_prefix(field))?;
        line.split_whitespace().next()?.parse().ok()
    }

    pub(crate) fn open_files(&self) -> Option<f64> {
        let count = fs::read_dir(self.proc("fd")).ok()?.count();
        u32::try_from(count).ok().map(f64::from)
    }
}

/// Addresses nobody listened on a moment ago.
fn free_addresses<const N: usize>() -> [SocketAddr; N] {
    let listeners = [(); N].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    listeners.map(|listener| listener.local_addr().unwrap())
}

#[expect(clippy::cast_precision_loss, reason = "byte counts are far below 2^52")]
pub(crate) fn number(count: u64) -> f64 {
    count as f64
}

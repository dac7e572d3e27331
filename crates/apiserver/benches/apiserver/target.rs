//! The servers that are measured: processes with a kubeconfig.

use std::{
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use apiserver::{Options, ServeOptions, Server};
use kube::config::Kubeconfig;
use testbed::real::{Assets, ControlPlane};

use crate::{
    client::{BenchConnector, BenchRequest},
    cpu,
};

/// Tells a child process which server to be, and where.
const ROLE: &str = "SLUICE_BENCH_ROLE";
const FOLDER: &str = "SLUICE_BENCH_FOLDER";

/// A running server.
pub(crate) struct BenchServer {
    kind: &'static str,
    pub(crate) connector: BenchConnector,
    process: Process,
}

enum Process {
    Ours {
        child: Child,
        folder: tempfile::TempDir,
    },
    Real(Box<ControlPlane>),
}

/// Whether this process is a server.
pub(crate) fn is_child() -> bool {
    std::env::var_os(ROLE).is_some()
}

/// Serves until the standard input ends, which it does with the process that measures.
pub(crate) fn be_the_server() {
    let folder = PathBuf::from(std::env::var_os(FOLDER).unwrap());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let _served = runtime.block_on(async {
        let server = match std::env::var(ROLE).unwrap().as_str() {
            "file" => Server::open(folder.join("store"), Options::default())
                .await
                .unwrap(),
            _ => Server::in_memory(),
        };
        server.serve(ServeOptions::new(&folder)).await.unwrap()
    });
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
}

impl BenchServer {
    /// Starts a server and waits until it is ready; nothing if there is no such server.
    pub(crate) async fn start(kind: &'static str) -> Option<Self> {
        if kind == "real" {
            let assets = Assets::from_env().ok()?;
            let control_plane = ControlPlane::start(&assets).await.unwrap();
            return Some(Self {
                kind,
                connector: BenchConnector::of(
                    Kubeconfig::from_yaml(control_plane.kubeconfig()).unwrap(),
                )
                .await,
                process: Process::Real(Box::new(control_plane)),
            });
        }
        let folder = tempfile::tempdir().unwrap();
        let child = spawn(kind, folder.path());
        let connector = connect(folder.path()).await;
        let process = Process::Ours { child, folder };
        Some(Self {
            kind,
            connector,
            process,
        })
    }

    /// Kills our server that keeps a file, and starts it again; gives the seconds that takes.
    pub(crate) async fn restart(&mut self) -> Option<f64> {
        let Process::Ours { child, folder } = &mut self.process else {
            return None;
        };
        if self.kind != "file" {
            return None;
        }
        child.kill().unwrap();
        child.wait().unwrap();
        std::fs::remove_file(folder.path().join("kubeconfig")).unwrap();
        let started = Instant::now();
        *child = spawn(self.kind, folder.path());
        self.connector = connect(folder.path()).await;
        Some(started.elapsed().as_secs_f64())
    }

    fn process(&self) -> u32 {
        match &self.process {
            Process::Ours { child, .. } => child.id(),
            Process::Real(control_plane) => process_of("kube-apiserver", control_plane.folder()),
        }
    }

    /// The seconds of processor time that the server, with its store, has used.
    pub(crate) fn processor_time(&self) -> f64 {
        let store = match &self.process {
            Process::Ours { .. } => 0.0,
            Process::Real(control_plane) => cpu::of(process_of("etcd", control_plane.folder())),
        };
        cpu::of(self.process()) + store
    }

    /// The number of the file that our server writes to; another one after each rewrite.
    pub(crate) fn log(&self) -> Option<u64> {
        let Process::Ours { folder, .. } = &self.process else {
            return None;
        };
        let store = std::fs::metadata(folder.path().join("store")).ok()?;
        Some(std::os::unix::fs::MetadataExt::ino(&store))
    }

    /// How much of the machine's memory the API server has.
    pub(crate) fn memory(&self) -> String {
        let process = self.process();
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let line = status
            .lines()
            .find(|line| line.starts_with("VmRSS"))
            .unwrap();
        let kilobytes: u64 = line.split_whitespace().nth(1).unwrap().parse().unwrap();
        format!("{} MB", kilobytes * 1024 / 1_000_000)
    }

    pub(crate) fn stop(self) {
        match self.process {
            Process::Ours { mut child, .. } => {
                child.kill().unwrap();
                child.wait().unwrap();
            }
            Process::Real(control_plane) => control_plane.stop(),
        }
    }
}

fn spawn(kind: &str, folder: &Path) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .env(ROLE, kind)
        .env(FOLDER, folder)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap()
}

/// The way to a server, once it has written its kubeconfig and says that it is ready.
async fn connect(folder: &Path) -> BenchConnector {
    let path = folder.join("kubeconfig");
    while !path.exists() {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    let connector = BenchConnector::of(Kubeconfig::read_from(path).unwrap()).await;
    let ready = BenchRequest::new(http::Method::GET, "/readyz".to_owned(), "");
    assert_eq!(connector.connect().await.send(ready).await, "ok");
    connector
}

/// The program whose command line names this folder.
fn process_of(wanted: &str, folder: &Path) -> u32 {
    let folder = folder.to_str().unwrap();
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let found = processes.filter_map(|entry| {
        let id: u32 = entry.file_name().to_str()?.parse().ok()?;
        let command = std::fs::read(entry.path().join("cmdline")).ok()?;
        let command = String::from_utf8_lossy(&command).into_owned();
        let program = command.split('\0').next()?;
        (program.ends_with(wanted) && command.contains(folder)).then_some(id)
    });
    found
        .last()
        .unwrap_or_else(|| panic!("no {wanted} runs in {folder}"))
}

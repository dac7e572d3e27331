//! Real Kubernetes control planes for tests: etcd, kube-apiserver and kube-controller-manager.
//!
//! Each [`ControlPlane`] has its own processes, loopback ports, certificates and temporary folder,
//! so any number can run side by side. All of it goes away with [`ControlPlane::stop`], on drop, and
//! also when the process that started it is killed. Nothing is downloaded or built here: the
//! programs come from the folder that `cargo xtask kube` prints.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use kube::config::{KubeConfigOptions, Kubeconfig};

use self::certificates::Certificates;
use self::process::SupervisedProcess;
use crate::ports::free_port;

mod certificates;
mod curl;
mod flags;
pub mod gitea;
mod process;
pub mod prometheus;
pub mod registry;

/// The environment variable with the folder of the programs, as in Kubernetes' envtest.
pub const ASSETS_VARIABLE: &str = "KUBEBUILDER_ASSETS";

/// How long a control plane may take until it is ready. Two seconds are usual; a machine that is
/// compiling something else at the same time needs far more.
const READY_WITHIN: Duration = Duration::from_secs(120);
/// How often to ask whether it is ready.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// How often to retry with other ports when one is in use.
const ATTEMPTS: usize = 3;

/// Why a control plane could not be started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The environment does not name a folder with the programs.
    #[error("{ASSETS_VARIABLE} is not set: set it to the folder that `cargo xtask kube` prints")]
    AssetsNotNamed,
    /// A program is not in the folder.
    #[error("looking for {program} in {}: it is not there; run `cargo xtask kube`", folder.display())]
    ProgramMissing {
        /// The program's file name.
        program: &'static str,
        /// Where it was expected.
        folder: PathBuf,
    },
    /// A certificate or key could not be generated.
    #[error("generating the certificates of a control plane")]
    Certificates(#[from] rcgen::Error),
    /// The operating system refused something.
    #[error("{attempted}")]
    System {
        /// What was attempted.
        attempted: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A program ended while the control plane was starting.
    #[error("starting {program}: it ended ({status}); the end of its log:\n{log}")]
    Ended {
        /// The program's file name.
        program: &'static str,
        /// How it ended.
        status: std::process::ExitStatus,
        /// The last lines it wrote.
        log: String,
    },
    /// The API did not become ready in time.
    #[error(
        "waiting for the API server on {address}: not ready after {READY_WITHIN:?} ({answer}); the end of its log:\n{log}"
    )]
    NotReady {
        /// Where it was asked.
        address: String,
        /// The last answer.
        answer: String,
        /// The last lines it wrote.
        log: String,
    },
    /// The generated kubeconfig could not be loaded.
    #[error("reading the kubeconfig of the control plane")]
    Kubeconfig(#[from] kube::config::KubeconfigError),
    /// A client could not be created from the kubeconfig.
    #[error("creating a client for the control plane")]
    Client(#[from] kube::Error),
}

/// A folder that holds etcd, kube-apiserver and kube-controller-manager.
#[derive(Clone, Debug)]
pub struct Assets {
    folder: PathBuf,
}

impl Assets {
    /// The folder named by [`ASSETS_VARIABLE`].
    pub fn from_env() -> Result<Self, Error> {
        let folder = std::env::var_os(ASSETS_VARIABLE).filter(|folder| !folder.is_empty());
        Self::at(folder.ok_or(Error::AssetsNotNamed)?)
    }

    /// The given folder.
    pub fn at(folder: impl Into<PathBuf>) -> Result<Self, Error> {
        let folder = folder.into();
        for program in ["etcd", "kube-apiserver", "kube-controller-manager"] {
            if !folder.join(program).is_file() {
                return Err(Error::ProgramMissing { program, folder });
            }
        }
        Ok(Self { folder })
    }

    /// The path of one program.
    pub fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }
}

/// One running control plane with an administrator's access to it.
///
/// Role-based access control is on. Owner references and namespace deletion work; nothing else of
/// the usual controllers runs, and there are no nodes.
pub struct ControlPlane {
    client: kube::Client,
    kubeconfig: String,
    // Fields drop in this order: clients of the other programs stop first.
    controller_manager: SupervisedProcess,
    api_server: SupervisedProcess,
    etcd: SupervisedProcess,
    folder: tempfile::TempDir,
}

impl ControlPlane {
    /// Starts a control plane and waits until its API is ready.
    pub async fn start(assets: &Assets) -> Result<Self, Error> {
        Self::start_with_both(assets, &[], &[]).await
    }

    /// The same with more of Kubernetes' controllers.
    pub async fn start_with(assets: &Assets, controllers: &[&str]) -> Result<Self, Error> {
        Self::start_with_both(assets, controllers, &[]).await
    }

    /// The same with more flags of the API server.
    pub async fn start_with_flags(assets: &Assets, flags: &[String]) -> Result<Self, Error> {
        Self::start_with_both(assets, &[], flags).await
    }

    async fn start_with_both(
        assets: &Assets,
        controllers: &[&str],
        flags: &[String],
    ) -> Result<Self, Error> {
        let mut attempt = 1;
        loop {
            match Self::start_once(assets, controllers, flags).await {
                Err(Error::Ended { log, .. })
                    if attempt < ATTEMPTS && log.contains("address already in use") =>
                {
                    attempt += 1;
                }
                outcome => return outcome,
            }
        }
    }

    async fn start_once(
        assets: &Assets,
        controllers: &[&str],
        more_flags: &[String],
    ) -> Result<Self, Error> {
        let folder = tempfile::Builder::new()
            .prefix("control-plane-")
            .tempdir()
            .map_err(system("creating the folder of a control plane"))?;
        // For the API, for etcd's clients and for etcd's peers.
        let ports = [(); 3].map(|()| free_port());
        let certificates = Certificates::new()?;
        let address = format!("https://127.0.0.1:{}", ports[0]);
        let kubeconfig = certificates.kubeconfig(&address);
        let client = client(&kubeconfig).await?;

        let mut etcd = SupervisedProcess::prepare(assets, "etcd", folder.path())?;
        etcd.start(flags::etcd(etcd.folder(), ports[1], ports[2]))?;
        let mut api_server = SupervisedProcess::prepare(assets, "kube-apiserver", folder.path())?;
        certificates.write(api_server.folder())?;
        let mut flags = flags::api_server(api_server.folder(), ports[0], ports[1]);
        flags.extend(more_flags.iter().map(Into::into));
        api_server.start(flags)?;
        wait_until_ready(&client, &address, &mut api_server, &mut etcd).await?;

        let mut controller_manager =
            SupervisedProcess::prepare(assets, "kube-controller-manager", folder.path())?;
        let path = controller_manager.folder().join("kubeconfig");
        write_private(&path, &kubeconfig)?;
        let flags = flags::controller_manager(controller_manager.folder(), controllers);
        controller_manager.start(flags)?;
        Ok(Self {
            client,
            kubeconfig,
            controller_manager,
            api_server,
            etcd,
            folder,
        })
    }

    /// A client with every right.
    pub fn client(&self) -> kube::Client {
        self.client.clone()
    }

    /// The text of a kubeconfig with every right; self-contained.
    pub fn kubeconfig(&self) -> &str {
        &self.kubeconfig
    }

    /// The folder that holds everything of this control plane while it runs.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Ends all processes and removes the folder; returns when that is done. Dropping does the same.
    pub fn stop(self) {
        drop(self);
    }

    /// The ends of the three logs, for a test that failed for an unknown reason.
    pub fn log_tails(&self) -> String {
        [&self.etcd, &self.api_server, &self.controller_manager]
            .map(|process| format!("--- {}\n{}\n", process.name(), process.log_tail()))
            .concat()
    }
}

async fn client(kubeconfig: &str) -> Result<kube::Client, Error> {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig)?;
    let options = KubeConfigOptions::default();
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await?;
    // Tests check single responses, so requests are not retried.
    config.default_retry = false;
    Ok(kube::Client::try_from(config)?)
}

async fn wait_until_ready(
    client: &kube::Client,
    address: &str,
    api_server: &mut SupervisedProcess,
    etcd: &mut SupervisedProcess,
) -> Result<(), Error> {
    let give_up = Instant::now() + READY_WITHIN;
    loop {
        etcd.check_running()?;
        api_server.check_running()?;
        let request = http::Request::get("/readyz").body(Vec::new());
        let request = request.expect("a request with a fixed path is well formed");
        let answer = match client.request_text(request).await {
            Ok(text) if text == "ok" => return Ok(()),
            Ok(text) => text,
            Err(error) => error.to_string(),
        };
        if Instant::now() > give_up {
            let (address, log) = (address.to_owned(), api_server.log_tail());
            return Err(Error::NotReady {
                address,
                answer,
                log,
            });
        }
        tokio::time::sleep(ASK_EVERY).await;
    }
}

/// Writes a file that only its owner may read.
fn write_private(path: &Path, text: &str) -> Result<(), Error> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    std::fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(system(format!("writing {}", path.display())))
}

fn system(attempted: impl Into<String>) -> impl FnOnce(std::io::Error) -> Error {
    let attempted = attempted.into();
    move |source| Error::System { attempted, source }
}

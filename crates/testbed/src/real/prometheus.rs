//! A real Prometheus for tests. It listens on loopback, keeps its data in a temporary folder, scrapes one
//! address every second, and ends with its value.
//!
//! The program comes from the folder that `cargo xtask kube` prints.

use std::path::Path;
use std::time::Instant;

use super::process::SupervisedProcess;
use super::{ASK_EVERY, Assets, Error, READY_WITHIN, system, write_private};
use crate::ports::free_port;

/// The program's file name.
const PROGRAM: &str = "prometheus";

/// A running Prometheus.
pub struct RealPrometheus {
    address: String,
    process: SupervisedProcess,
    _folder: tempfile::TempDir,
}

impl RealPrometheus {
    /// Starts it and waits until it has scraped `origin`, such as `http://127.0.0.1:8080`.
    pub async fn start(assets: &Assets, origin: &str) -> Result<Self, Error> {
        let program = assets.program(PROGRAM);
        if !program.is_file() {
            let folder = program.parent().map(Path::to_owned).unwrap_or_default();
            return Err(Error::ProgramMissing {
                program: PROGRAM,
                folder,
            });
        }
        let folder = tempfile::Builder::new().prefix("prometheus-").tempdir();
        let folder = folder.map_err(system("creating the folder of a Prometheus"))?;
        let address = format!("127.0.0.1:{}", free_port());
        let mut process = SupervisedProcess::prepare(assets, PROGRAM, folder.path())?;
        let target = origin.trim_start_matches("http://");
        let config = format!(
            "global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: app\n  \
             fallback_scrape_protocol: PrometheusText0.0.4\n  \
             static_configs: [{{targets: ['{target}']}}]\n"
        );
        let path = process.folder().join("prometheus.yml");
        write_private(&path, &config)?;
        let flag = |name: &str, value: &Path| format!("--{name}={}", value.display());
        let flags = [
            flag("config.file", &path),
            flag("storage.tsdb.path", &process.folder().join("data")),
            format!("--web.listen-address={address}"),
        ];
        process.start(flags.map(Into::into).to_vec())?;
        let mut server = Self {
            address,
            process,
            _folder: folder,
        };
        server.wait_until_scraped().await?;
        Ok(server)
    }

    /// `http://127.0.0.1:PORT`.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    async fn wait_until_scraped(&mut self) -> Result<(), Error> {
        let give_up = Instant::now() + READY_WITHIN;
        let url = format!("{}/api/v1/query?query=up==1", self.url());
        loop {
            self.process.check_running()?;
            let asked = tokio::process::Command::new("curl")
                .args(["-sS", &url])
                .output()
                .await
                .map_err(system("running curl"))?;
            let answer = String::from_utf8_lossy(&asked.stdout).into_owned();
            if answer.contains("\"metric\":") {
                return Ok(());
            }
            if Instant::now() > give_up {
                return Err(Error::NotReady {
                    address: self.address.clone(),
                    answer,
                    log: self.process.log_tail(),
                });
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
    }
}

//! Selects the demo that `sluice demo env` and `sluice demo push` use: that of `--demo`, that of
//! `$KUBECONFIG`, or the only one. Of several it takes none: a push into another demo surprises its user.

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
};

use anyhow::{anyhow, bail};

use super::{running_demos::RunningDemos, setup};
use crate::{commands::UsageError, kubeconfig};

/// A running demo.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Demo {
    folder: PathBuf,
    /// The port of its dashboard.
    port: Option<u16>,
}

/// The file with the port of the dashboard, by which people choose a demo.
pub(super) fn port_file(folder: &Path) -> PathBuf {
    folder.join("dashboard-port")
}

/// The folder of the selected demo. With `follow`, a `$KUBECONFIG` whose demo has ended is an error.
pub(super) fn select(port: Option<u16>, follow: bool) -> anyhow::Result<PathBuf> {
    let running = RunningDemos::of_this_user()?.running()?;
    let running: Vec<Demo> = running.into_iter().map(Demo::read).collect();
    let kubeconfig = std::env::var_os("KUBECONFIG").unwrap_or_default();
    if let Some(port) = port {
        return with_port(&running, port);
    }
    if let Some(own) = of_kubeconfig(&running, &kubeconfig) {
        return Ok(own.folder.clone());
    }
    let ended = std::env::split_paths(&kubeconfig).find(|it| kubeconfig::is_of_ended_demo(it));
    if let Some(file) = ended.filter(|_| follow) {
        bail!("{}", kubeconfig::ended_demo(&file));
    }
    only(&running)
}

impl Demo {
    fn read(folder: PathBuf) -> Self {
        let port = std::fs::read_to_string(port_file(&folder)).ok();
        let port = port.and_then(|text| text.trim().parse().ok());
        Self { folder, port }
    }

    /// `--demo 8083, in /tmp/sluice-demo-x`
    fn choice(&self) -> String {
        let folder = self.folder.display();
        match self.port {
            Some(port) => {
                format!("--demo {port}  (dashboard http://127.0.0.1:{port}, in {folder})")
            }
            None => format!("KUBECONFIG={}", setup::kubeconfig(&self.folder).display()),
        }
    }
}

fn with_port(running: &[Demo], port: u16) -> anyhow::Result<PathBuf> {
    match running.iter().find(|demo| demo.port == Some(port)) {
        Some(demo) => Ok(demo.folder.clone()),
        None => Err(anyhow!(
            "no demo with its dashboard at port {port} is running{}",
            list("; running are", running)
        )),
    }
}

/// The demo whose kubeconfig is in use.
fn of_kubeconfig<'a>(running: &'a [Demo], kubeconfig: &OsStr) -> Option<&'a Demo> {
    let is_in_use = |demo: &&Demo| {
        let own = setup::kubeconfig(&demo.folder);
        std::env::split_paths(kubeconfig).any(|file| file == own)
    };
    running.iter().find(is_in_use)
}

fn only(running: &[Demo]) -> anyhow::Result<PathBuf> {
    match running {
        [] => bail!("no demo is running; start one with `sluice demo` in another terminal"),
        [demo] => Ok(demo.folder.clone()),
        several => Err(UsageError(format!(
            "{} demos are running, and $KUBECONFIG is of none of them{}",
            several.len(),
            list("; choose one", several)
        ))
        .into()),
    }
}

fn list(heading: &str, running: &[Demo]) -> String {
    if running.is_empty() {
        return String::new();
    }
    let lines = running.iter().map(|demo| format!("\n  {}", demo.choice()));
    format!("{heading}:{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demos(ports: &[u16]) -> Vec<Demo> {
        let demo = |port: &u16| Demo {
            folder: format!("/tmp/sluice-demo-{port}").into(),
            port: Some(*port),
        };
        ports.iter().map(demo).collect()
    }

    #[test]
    fn the_demo_of_the_kubeconfig_is_used() {
        let running = demos(&[8083, 9000]);
        let of = |value: &str| of_kubeconfig(&running, OsStr::new(value)).and_then(|it| it.port);
        assert_eq!(of("/tmp/sluice-demo-8083/sluice/kubeconfig"), Some(8083));
        let list = "/home/ann/.kube/config:/tmp/sluice-demo-9000/sluice/kubeconfig";
        assert_eq!(of(list), Some(9000));
        assert_eq!(of("/home/ann/.kube/config"), None);
        assert_eq!(of(""), None);
    }

    #[test]
    fn of_several_demos_none_is_used_unasked() {
        let error = only(&demos(&[8083, 9000])).unwrap_err();
        assert!(error.is::<UsageError>());
        let text = error.to_string();
        for choice in ["2 demos are running", "--demo 8083", "--demo 9000"] {
            assert!(text.contains(choice), "{text}");
        }
        assert_eq!(
            only(&demos(&[8083])).unwrap(),
            Path::new("/tmp/sluice-demo-8083")
        );
    }

    #[test]
    fn a_port_selects_a_demo() {
        let running = demos(&[8083, 9000]);
        let found = with_port(&running, 9000).unwrap();
        assert_eq!(found, Path::new("/tmp/sluice-demo-9000"));
        let text = with_port(&running, 1).unwrap_err().to_string();
        assert!(text.contains("port 1 is running; running are:"), "{text}");
        assert!(text.contains("--demo 8083"), "{text}");
    }
}

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
pub(super) struct RunningDemo {
    pub(super) folder: PathBuf,
    /// The port of its dashboard; none while it starts.
    port: Option<u16>,
    /// Whether `$KUBECONFIG` is of it, so that kubectl and sluice use it.
    pub(super) is_in_use: bool,
}

/// The file with the port of the dashboard, by which people choose a demo; it is there once the demo has started.
pub(super) fn port_file(folder: &Path) -> PathBuf {
    folder.join("dashboard-port")
}

/// The selected demo. With `follow`, a `$KUBECONFIG` whose demo has ended is an error.
pub(super) fn select(port: Option<u16>, follow: bool) -> anyhow::Result<RunningDemo> {
    let running = RunningDemos::of_this_user()?.running()?;
    let kubeconfig = std::env::var_os("KUBECONFIG").unwrap_or_default();
    let read = |folder| RunningDemo::read(folder, &kubeconfig);
    let running: Vec<_> = running.into_iter().map(read).collect();
    if let Some(port) = port {
        return with_port(&running, port);
    }
    if let Some(own) = running.iter().find(|demo| demo.is_in_use) {
        return Ok(own.clone());
    }
    let ended = std::env::split_paths(&kubeconfig).find(|it| kubeconfig::is_of_ended_demo(it));
    if let Some(file) = ended.filter(|_| follow) {
        bail!("{}", kubeconfig::ended_demo(&file));
    }
    only(&running)
}

impl RunningDemo {
    fn read(folder: PathBuf, kubeconfig: &OsStr) -> Self {
        let port = std::fs::read_to_string(port_file(&folder)).ok();
        let port = port.and_then(|text| text.trim().parse().ok());
        Self {
            is_in_use: is_of(kubeconfig, &folder),
            folder,
            port,
        }
    }

    /// Which one it is: `the demo http://127.0.0.1:8083 (--demo 8083)`.
    pub(super) fn name(&self) -> String {
        match self.port {
            Some(port) => format!("the demo http://127.0.0.1:{port} (--demo {port})"),
            None => format!("the demo in {}", self.folder.display()),
        }
    }

    /// The command whose output makes a shell use it.
    pub(super) fn env_command(&self) -> String {
        let choice = self.port.map(|port| format!(" --demo {port}"));
        format!("sluice demo env{}", choice.unwrap_or_default())
    }

    /// `--demo 8083, in /tmp/sluice-demo-x`
    fn choice(&self) -> String {
        let folder = self.folder.display();
        match self.port {
            Some(port) => {
                format!("--demo {port}  (dashboard http://127.0.0.1:{port}, in {folder})")
            }
            None => format!("the demo in {folder} is still starting"),
        }
    }
}

fn with_port(running: &[RunningDemo], port: u16) -> anyhow::Result<RunningDemo> {
    match running.iter().find(|demo| demo.port == Some(port)) {
        Some(demo) => Ok(demo.clone()),
        None => Err(anyhow!(
            "no demo with its dashboard at port {port} is running{}",
            list("; running are", running)
        )),
    }
}

/// Whether the value of `$KUBECONFIG` has the file of the demo in a folder.
fn is_of(kubeconfig: &OsStr, folder: &Path) -> bool {
    let own = setup::kubeconfig(folder);
    std::env::split_paths(kubeconfig).any(|file| file == own)
}

fn only(running: &[RunningDemo]) -> anyhow::Result<RunningDemo> {
    match running {
        [] => bail!("no demo is running; start one with `sluice demo` in another terminal"),
        [demo] if demo.port.is_none() => {
            bail!(
                "{} is still starting; try again in a few seconds",
                demo.name()
            )
        }
        [demo] => Ok(demo.clone()),
        several => Err(UsageError(format!(
            "{} demos are running, and $KUBECONFIG is of none of them{}",
            several.len(),
            list("; choose one", several)
        ))
        .into()),
    }
}

fn list(heading: &str, running: &[RunningDemo]) -> String {
    if running.is_empty() {
        return String::new();
    }
    let lines = running.iter().map(|demo| format!("\n  {}", demo.choice()));
    format!("{heading}:{}", lines.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn demos(ports: &[u16]) -> Vec<RunningDemo> {
        let demo = |port: &u16| RunningDemo {
            folder: format!("/tmp/sluice-demo-{port}").into(),
            port: Some(*port),
            is_in_use: false,
        };
        ports.iter().map(demo).collect()
    }

    #[test]
    fn the_demo_of_the_kubeconfig_is_used() {
        let running = demos(&[8083, 9000]);
        let of = |value: &str| {
            let mut demos = running.iter();
            let own = demos.find(|demo| is_of(OsStr::new(value), &demo.folder));
            own.and_then(|demo| demo.port)
        };
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
        let one = only(&demos(&[8083])).unwrap();
        assert_eq!(one.folder, Path::new("/tmp/sluice-demo-8083"));
        assert_eq!(one.name(), "the demo http://127.0.0.1:8083 (--demo 8083)");
        assert_eq!(one.env_command(), "sluice demo env --demo 8083");
    }

    /// Its user would else push into the demo of another terminal, which has started.
    #[test]
    fn a_demo_that_is_starting_counts_and_is_not_used() {
        let mut running = demos(&[8083, 9000]);
        running[1].port = None;
        let text = only(&running).unwrap_err().to_string();
        for line in ["2 demos are running", "sluice-demo-9000 is still starting"] {
            assert!(text.contains(line), "{text}");
        }
        let text = only(&running[1..]).unwrap_err().to_string();
        assert!(text.contains("is still starting; try again"), "{text}");
    }

    #[test]
    fn a_port_selects_a_demo() {
        let running = demos(&[8083, 9000]);
        let found = with_port(&running, 9000).unwrap();
        assert_eq!(found.folder, Path::new("/tmp/sluice-demo-9000"));
        let text = with_port(&running, 1).unwrap_err().to_string();
        assert!(text.contains("port 1 is running; running are:"), "{text}");
        assert!(text.contains("--demo 8083"), "{text}");
    }
}

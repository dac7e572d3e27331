//! `cargo xtask test`: what a newcomer can run, and the same suites on a real server.

use std::process::Command;

use anyhow::bail;

use crate::{
    command::{cargo, is_installed, run},
    kube,
};

/// Programs that tests run, and the Debian package of each.
const NEEDED: &[(&str, &str)] = &[("git", "git")];

/// Every test.
pub(crate) fn test() -> anyhow::Result<()> {
    install_missing()?;
    run(&mut cargo(&["test", "--workspace", "--locked"]))?;
    // The same suite once more, on the store that keeps everything in a file.
    run(suite("sluice-apiserver", "conformance").env("SLUICE_TEST_API", "file"))
}

/// The suites that judge the embedded API, on a real kube-apiserver.
pub(crate) fn test_real() -> anyhow::Result<()> {
    let assets = kube::kube()?;
    for (package, name) in [
        ("sluice-apiserver", "conformance"),
        ("sluice-testbed", "kinds"),
    ] {
        let mut command = suite(package, name);
        command
            .env("SLUICE_TEST_API", "real")
            .env("KUBEBUILDER_ASSETS", &assets);
        run(&mut command)?;
    }
    Ok(())
}

fn suite(package: &str, name: &str) -> Command {
    cargo(&["test", "--locked", "--package", package, "--test", name])
}

fn install_missing() -> anyhow::Result<()> {
    let missing: Vec<&str> = NEEDED
        .iter()
        .filter(|(program, _)| !is_installed(program))
        .map(|(_, package)| *package)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let packages = missing.join(" ");
    if !is_root() || !is_installed("apt-get") {
        bail!(
            "the tests need: {packages}. Install them (on Debian: `apt-get install {packages}`) and run this again"
        );
    }
    run(Command::new("apt-get").arg("update"))?;
    run(Command::new("apt-get")
        .args(["install", "--yes", "--no-install-recommends"])
        .args(&missing)
        .env("DEBIAN_FRONTEND", "noninteractive"))
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

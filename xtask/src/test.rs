//! `cargo xtask test`: what a newcomer can run, and the same suites on a real server.

use std::{env, process::Command};

use anyhow::bail;

use crate::{
    command::{cargo, is_installed, run},
    kube,
};

/// Programs that tests run, and the Debian package of each.
const NEEDED: &[(&str, &str)] = &[
    ("git", "git"),
    ("mariadbd", "mariadb-server"),
    ("curl", "curl"),
    ("openssl", "openssl"),
];

/// The same, where tests are skipped, and say so, if it cannot be installed.
const BROWSER: &[(&str, &str)] = &[("chromium", "chromium")];

/// Suites that run on a real server too, and which of their tests; all without a name.
const REAL_SUITES: &[(&str, &str)] = &[
    ("conformance", ""),
    ("kinds", ""),
    ("real", ""),
    ("policy", ""),
    ("process", ""),
    ("two_servers", ""),
    ("promote", "skeleton"),
    ("promote", "early"),
    ("trigger", ""),
    ("guides", ""),
];

/// The seed of property tests. The same tree gives the same result; other seeds are tried by setting it.
const SEED: (&str, &str) = ("PROPTEST_RNG_SEED", "20261115");

/// Every test.
pub(crate) fn test() -> anyhow::Result<()> {
    install_missing(NEEDED)?;
    if let Err(error) = install_missing(BROWSER) {
        eprintln!("WARNING: the dashboard will NOT be tested in a browser: {error:#}");
    }
    let mut all = cargo(&["test", "--workspace", "--locked"]);
    if env::var_os(SEED.0).is_none() {
        all.env(SEED.0, SEED.1);
    }
    run(&mut all)?;
    // The same suite once more, on the store that keeps everything in a file.
    run(suite("conformance").env("SLUICE_TEST_API", "file"))
}

/// The suites that also run on a real kube-apiserver, and the real kubectl on both.
pub(crate) fn test_real() -> anyhow::Result<()> {
    install_missing(NEEDED)?;
    let assets = kube::kube()?;
    let real = REAL_SUITES
        .iter()
        .map(|(name, tests)| (*name, *tests, "real"));
    let kubectl = ["real", "embedded"].map(|api| ("kubectl", "", api));
    for (name, tests, api) in real.chain(kubectl) {
        let mut command = suite(name);
        command.args(["--", "--include-ignored", tests]);
        command
            .env("SLUICE_TEST_API", api)
            .env("KUBEBUILDER_ASSETS", &assets);
        run(&mut command)?;
    }
    Ok(())
}

/// One suite. Chosen from the whole workspace: choosing a package would build its dependencies once
/// more, with fewer features.
fn suite(name: &str) -> Command {
    cargo(&["test", "--locked", "--workspace", "--test", name])
}

fn install_missing(programs: &[(&str, &'static str)]) -> anyhow::Result<()> {
    let missing: Vec<&str> = programs
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

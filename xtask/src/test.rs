//! `cargo xtask test`: runs all tests; with `--real`, some suites against a real kube-apiserver.

use std::{env, process::Command};

use anyhow::bail;

use crate::{
    command::{cargo, is_installed, run},
    counts, kube, suites,
};

/// Programs that tests need, and their Debian packages.
const NEEDED: &[(&str, &str)] = &[
    ("git", "git"),
    ("mariadbd", "mariadb-server"),
    ("curl", "curl"),
    ("openssl", "openssl"),
    ("script", "bsdutils"),
];

/// Optional: tests that need it are skipped with a message.
const BROWSER: &[(&str, &str)] = &[("chromium", "chromium")];

/// Optional: instructions are not counted without it.
const COUNTER: &[(&str, &str)] = &[("valgrind", "valgrind")];

/// Suites that also run against a real server, with a filter for their tests.
const REAL_SUITES: &[(&str, &str)] = &[
    ("conformance", ""),
    ("kinds", ""),
    ("real", ""),
    ("policy", ""),
    ("process", ""),
    ("two_servers", ""),
    ("promote", "shortest_path"),
    ("promote", "rfc_listings"),
    ("promote", "real_registry"),
    ("promote", "real_gitea"),
    ("contract", "gitea"),
    ("checks", "real"),
    ("trigger", ""),
    ("http", "real_api_server"),
    ("http", "real_gitea"),
    ("guides", ""),
];

/// The default seed of property tests, so that results are reproducible.
const SEED: (&str, &str) = ("PROPTEST_RNG_SEED", "20261115");

/// Runs all tests.
pub(crate) fn test() -> anyhow::Result<()> {
    install_missing(NEEDED)?;
    if let Err(error) = install_missing(BROWSER) {
        eprintln!("WARNING: the dashboard will not be tested in a browser: {error:#}");
    }
    if let Err(error) = install_missing(COUNTER) {
        eprintln!("WARNING: instructions will not be counted: {error:#}");
    }
    let mut all = suites::build()?;
    // The same suite again, with the file store.
    let conformance = all.iter().find(|it| it.name == "apiserver conformance");
    let with_file_store = conformance.map(|it| it.with("SLUICE_TEST_API", "file"));
    all.extend(with_file_store);
    let seed = env::var(SEED.0).unwrap_or_else(|_| SEED.1.to_owned());
    suites::run(all, (SEED.0, &seed))?;
    counts::counts(false)
}

/// Runs the suites that support it against a real kube-apiserver, and kubectl against both servers.
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

/// Selects one suite. With `--package`, dependencies would be built again with other features.
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

//! `cargo xtask mutants --changed [BASE]`: every mutation that `cargo mutants` knows of the lines that changed
//! since a commit.

use std::{fs, process::Command};

use anyhow::{Context, Result, bail};

use crate::command::{cargo, output, root, run};

/// The crates whose tests are fast enough to run for each mutation.
const PACKAGES: [&str; 5] = [
    "sluice-planner",
    "sluice-expression",
    "sluice-net",
    "sluice-registry",
    "sluice-runtime",
];
/// A test that takes longer than this with a mutation counts as failed.
const TIMEOUT_SECONDS: &str = "300";

/// Mutates the lines that changed since the merge base with a commit; fails if a mutation survives.
pub(crate) fn changed(base: &str) -> Result<()> {
    let installed = cargo(&["mutants", "--version"]).output();
    if !installed.is_ok_and(|it| it.status.success()) {
        bail!(
            "cargo mutants is not installed; install it with `cargo install --locked cargo-mutants`"
        );
    }
    let range = format!("{base}...HEAD");
    let diff = output(
        Command::new("git")
            .args(["diff", &range, "--", "crates"])
            .current_dir(root()),
    )?;
    if diff.is_empty() {
        eprintln!("nothing in crates/ differs from {base}");
        return Ok(());
    }
    let folder = root().join("target/mutants");
    fs::create_dir_all(&folder).context("creating target/mutants")?;
    let file = folder.join("changed.diff");
    fs::write(&file, diff).context("writing the changed lines")?;
    let mut command = cargo(&["mutants", "--no-shuffle", "--timeout", TIMEOUT_SECONDS]);
    command.arg("--in-diff").arg(&file);
    command.arg("--output").arg(&folder);
    for package in PACKAGES {
        command.args(["--package", package]);
    }
    // Kept, so that dependencies are built once.
    command.env("CARGO_TARGET_DIR", folder.join("build"));
    run(command.env("PROPTEST_RNG_SEED", "20261116"))
}

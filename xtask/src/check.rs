//! `cargo xtask check`: all static checks.

use crate::{
    advisories,
    command::{cargo, run},
    crate_dependencies, licences,
};

/// Checks formatting, lints, cargo features, documentation, crate dependencies, licences and advisories.
pub(crate) fn check() -> anyhow::Result<()> {
    run(&mut cargo(&["fmt", "--all", "--check"]))?;
    run(&mut cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--locked",
        "--",
        "-D",
        "warnings",
    ]))?;
    check_without_features()?;
    run(cargo(&["doc", "--workspace", "--no-deps", "--locked"]).env("RUSTDOCFLAGS", "-D warnings"))?;
    crate_dependencies::check()?;
    licences::check()?;
    advisories::check()
}

/// Type-checks the workspace without cargo features: less than what the container image is built with,
/// and the combination in which most code is left out.
fn check_without_features() -> anyhow::Result<()> {
    run(&mut cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--no-default-features",
        "--locked",
        "--",
        "-D",
        "warnings",
    ]))
}

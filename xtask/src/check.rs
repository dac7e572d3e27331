//! `cargo xtask check`: everything that can be said about the code without running it.

use crate::{
    advisories,
    command::{cargo, run},
    fences, licences,
};

/// Formatting, lints, fences, licences, advisories.
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
    fences::check()?;
    licences::check()?;
    advisories::check()
}

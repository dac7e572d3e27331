//! `cargo xtask soak [MINUTES]`: a fleet under continuous releases, faults and approvals.
//!
//! Fails if memory, open files, tasks, log volume or API writes grow, and draws them.

use std::path::Path;

use crate::command::{cargo, root, run};

/// Runs it for some minutes and writes the plot.
pub(crate) fn soak(minutes: f64, svg: &Path) -> anyhow::Result<()> {
    let mut command = cargo(&["test", "--locked", "--workspace", "--test", "soak", "--"]);
    command
        .args(["--ignored", "--nocapture", "everything_stays_flat"])
        .env("SLUICE_SOAK_MINUTES", minutes.to_string())
        .env("SLUICE_SOAK_SVG", root().join(svg));
    run(&mut command)
}

//! `cargo xtask simulate [SEEDS]`: runs the simulation of the whole system with many seeds, on all cores.

use crate::command::{cargo, run};

/// Runs the seeds from `first` on, in an optimized build.
pub(crate) fn simulate(seeds: u64, first: u64) -> anyhow::Result<()> {
    let mut command = cargo(&["test", "--locked", "--profile", "simulate"]);
    command
        .args(["--package", "sluice-controller", "--test", "simulation"])
        .args(["every_seed", "--", "--nocapture"])
        .env("SLUICE_SEEDS", seeds.to_string())
        .env("SLUICE_FIRST_SEED", first.to_string());
    run(&mut command)
}

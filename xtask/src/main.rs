//! `cargo xtask`: the developer commands of the project.

mod advisories;
mod bench;
mod check;
mod command;
mod counts;
mod crate_dependencies;
mod fuzz;
mod generate;
mod kube;
mod licences;
mod mutants;
mod sbom;
mod simulate;
mod soak;
mod suites;
mod test;

use std::io::Write;

use clap::{Parser, Subcommand};

/// Developer commands of Sluice.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Check formatting, lints, cargo features, documentation, crate dependencies, licences and advisories
    Check,
    /// Run all tests; installs missing programs when run as root on Debian
    Test {
        /// Run the suites that support it against a real kube-apiserver (built by `kube`, needs Go)
        #[arg(long)]
        real: bool,
    },
    /// Regenerate CRDs and templates of deploy/chart, docs/reference.md and docs/cli.md
    Generate,
    /// Run a benchmark and print its results
    Bench {
        /// Name, or `all` to write docs/benchmarks.md; without it, the available names are listed
        name: Option<String>,
        /// Also measure against real kube-apiservers, if the benchmark supports it
        #[arg(long)]
        real: bool,
        /// Arguments for the benchmark itself
        #[arg(last = true)]
        further: Vec<String>,
    },
    /// Run a randomized test with different seeds for some time
    Fuzz {
        /// Name, or `all`; without it, the available names are listed
        name: Option<String>,
        /// Duration, of all together
        #[arg(default_value_t = 60)]
        seconds: u64,
    },
    /// Count instructions of the planner and the embedded API under callgrind, and compare with
    /// xtask/counts.toml
    Counts {
        /// Store what was counted instead
        #[arg(long)]
        write: bool,
    },
    /// Break one guard at a time in a copy of the workspace, and expect the named test to fail; with `--all` or
    /// `--changed`, try everything that `cargo mutants` can change, and fail for survivors that
    /// xtask/survivors.toml does not explain
    Mutants {
        /// Part of the name of a mutation, or of its guard or package, before any flag; without it, all are tried
        filter: Option<String>,
        #[command(flatten)]
        every: EveryMutation,
    },
    /// Run a fleet under continuous releases, faults and approvals; fails if memory, open files, tasks, log
    /// volume or API writes grow
    Soak {
        /// Duration
        #[arg(default_value_t = 60.0)]
        minutes: f64,
        /// The plot
        #[arg(long, default_value = "target/soak.svg")]
        svg: std::path::PathBuf,
    },
    /// Run the simulation of the whole system with many seeds, in a release build on all cores
    Simulate {
        /// How many seeds
        #[arg(default_value_t = 10_000)]
        seeds: u64,
        /// The first of them
        #[arg(long, default_value_t = 1)]
        first: u64,
    },
    /// Write the software bill of materials of the binary (CycloneDX, JSON)
    Sbom {
        /// File to write
        file: std::path::PathBuf,
    },
    /// Build a real control plane (etcd, kube-apiserver, kube-controller-manager, kubectl), helm, an OCI
    /// registry and Gitea from Go modules into a cache folder, and print that folder
    Kube,
}

/// Which mutations of `cargo mutants` are tried, with which tests, and how long.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("every").args(["all", "changed"]).multiple(true)))]
struct EveryMutation {
    /// Try every mutation of these packages, such as `planner`, with one build
    #[arg(long, value_name = "PACKAGE", num_args = 1..)]
    all: Vec<String>,
    /// Try the mutations of the lines that differ from the merge base with a commit; with --all, of these
    /// packages only
    #[arg(long, value_name = "COMMIT", num_args = 0..=1, default_missing_value = "main")]
    changed: Option<String>,
    /// Further packages whose tests run; the tests of mutated packages always do
    #[arg(long, value_name = "PACKAGE", num_args = 1.., requires = "every")]
    tests: Vec<String>,
    /// How long the tests of one mutation may take until it counts as a survivor
    #[arg(long, default_value_t = 30, requires = "every")]
    seconds: u64,
    /// Limit of the time after the build, half of it to find which tests reach which mutations; what does not
    /// fit is listed
    #[arg(long, requires = "every")]
    minutes: Option<u64>,
    /// How many mutations are tried at the same time
    #[arg(long, default_value_t = 1, requires = "every")]
    workers: usize,
}

fn mutants(filter: Option<String>, every: EveryMutation) -> anyhow::Result<()> {
    if every.all.is_empty() && every.changed.is_none() {
        return mutants::mutants(filter.as_deref());
    }
    mutants::every(&mutants::Options {
        filter,
        packages: every.all,
        changed: every.changed,
        tests: every.tests,
        seconds: every.seconds,
        minutes: every.minutes,
        workers: every.workers,
    })
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().task {
        Task::Check => check::check(),
        Task::Test { real: false } => test::test(),
        Task::Test { real: true } => test::test_real(),
        Task::Generate => generate::generate(),
        Task::Fuzz { name, seconds } => fuzz::fuzz(name.as_deref(), seconds),
        Task::Bench {
            name,
            real,
            further,
        } => bench::bench(name.as_deref(), real, &further),
        Task::Counts { write } => counts::counts(write),
        Task::Mutants { filter, every } => mutants(filter, every),
        Task::Simulate { seeds, first } => simulate::simulate(seeds, first),
        Task::Soak { minutes, svg } => soak::soak(minutes, &svg),
        Task::Sbom { file } => sbom::sbom(&file),
        Task::Kube => {
            let folder = kube::kube()?;
            writeln!(std::io::stdout(), "{}", folder.display())?;
            Ok(())
        }
    }
}

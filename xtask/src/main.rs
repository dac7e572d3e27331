//! The one front door for developer commands: `cargo xtask`.

mod advisories;
mod bench;
mod check;
mod command;
mod fences;
mod fuzz;
mod generate;
mod kube;
mod licences;
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
    /// Formatting, lints, the fences between crates, licences
    Check,
    /// All tests; installs what they need when run as root on Debian
    Test {
        /// Run the parity suites against a real kube-apiserver (built by `kube`, needs Go)
        #[arg(long)]
        real: bool,
    },
    /// Rewrites generated files: definitions and templates of deploy/chart
    Generate,
    /// Runs a benchmark and prints its figures
    Bench {
        /// Which one; without a name, lists them
        name: Option<String>,
        /// Measure on real kube-apiservers too, where the benchmark can
        #[arg(long)]
        real: bool,
    },
    /// Tries one thing with other dice each time, for a while
    Fuzz {
        /// Which one; without a name, lists them
        name: Option<String>,
        /// For how long
        #[arg(default_value_t = 60)]
        seconds: u64,
    },
    /// Builds a real control plane (etcd, kube-apiserver, kube-controller-manager, kubectl) and helm
    /// from Go modules into a cache folder and prints that folder
    Kube,
}

fn main() -> anyhow::Result<()> {
    match Arguments::parse().task {
        Task::Check => check::check(),
        Task::Test { real: false } => test::test(),
        Task::Test { real: true } => test::test_real(),
        Task::Generate => generate::generate(),
        Task::Fuzz { name, seconds } => fuzz::fuzz(name.as_deref(), seconds),
        Task::Bench { name, real } => bench::bench(name.as_deref(), real),
        Task::Kube => {
            let folder = kube::kube()?;
            writeln!(std::io::stdout(), "{}", folder.display())?;
            Ok(())
        }
    }
}

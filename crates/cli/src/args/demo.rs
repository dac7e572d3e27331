//! Flags and subcommands of `sluice demo`.

use clap::{Args, Subcommand};

use super::controller::{LogEncoding, LogLevel};
use crate::controller::logs::Logging;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    /// Run unattended, including the approvals: exit when prod runs a new version and staging has rolled back
    /// one that failed its check
    #[arg(long)]
    pub(crate) script: bool,
    /// Promote by tags of an OCI registry instead of pull requests
    #[arg(long)]
    pub(crate) gitless: bool,
    /// Port of the REST API and the dashboard on this machine; 0 selects a free port
    #[arg(long, default_value_t = 8083, value_name = "PORT")]
    pub(crate) port: u16,
    /// Print the log of the controller
    #[arg(long)]
    verbose: bool,
    #[command(subcommand)]
    pub(crate) command: Option<DemoCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DemoCommand {
    /// Push a new version to dev of the demo that runs in another terminal
    Push {
        /// Version to push, such as 6.3.0; one that contains `broken` fails in dev, one that contains
        /// `faulty` fails its check in staging
        version: String,
        #[command(flatten)]
        choice: DemoChoice,
    },
    /// Print the shell commands that make `kubectl` and `sluice` use the running demo, and add the folder of
    /// this binary to `PATH` if it is not there: `eval "$(sluice demo env)"`
    Env {
        #[command(flatten)]
        choice: DemoChoice,
    },
}

/// Which of several running demos is meant.
#[derive(Debug, Args)]
pub(crate) struct DemoChoice {
    /// The demo whose dashboard has this port, if several are running [default: the demo of $KUBECONFIG, or
    /// the only one]
    #[arg(long, value_name = "PORT")]
    pub(crate) demo: Option<u16>,
}

impl Arguments {
    /// How to log; `None` without `--verbose`.
    pub(crate) fn logs(&self) -> Option<Logging> {
        self.verbose.then_some(Logging {
            encoding: LogEncoding::Text,
            level: LogLevel::Info,
        })
    }
}

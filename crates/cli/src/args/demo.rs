//! What can be typed after `sluice demo`.

use clap::{Args, Subcommand};

use super::controller::{Encoding, Level};
use crate::controller::logs::Logging;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Arguments {
    /// Plays the whole story in the terminal, approval included, and ends when prod runs the release
    #[arg(long)]
    pub(crate) script: bool,
    /// The port of REST and the dashboard on this machine; 0 takes a free one
    #[arg(long, default_value_t = 8083, value_name = "PORT")]
    pub(crate) port: u16,
    /// Shows what Sluice logs
    #[arg(long)]
    verbose: bool,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Pushes the next release to the demo that runs in another terminal
    Push {
        /// Its version, such as 6.3.0; one with `broken` in it fails in dev
        version: String,
    },
    /// Prints what lets `kubectl` and `sluice` speak to the demo that runs: `eval "$(sluice demo env)"`
    Env,
}

impl Arguments {
    /// How to log, if at all.
    pub(crate) fn logs(&self) -> Option<Logging> {
        self.verbose.then_some(Logging {
            encoding: Encoding::Text,
            level: Level::Info,
        })
    }
}

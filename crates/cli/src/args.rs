//! What can be typed.

use clap::{Parser, Subcommand};

/// Moves releases through environments for teams on Flux
#[derive(Debug, Parser)]
#[command(name = "sluice", version, arg_required_else_help = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Prints the CustomResourceDefinitions as YAML, for `kubectl apply -f -`
    Crds,
    /// Shows what works so far: the kinds, on the embedded Kubernetes API, without a cluster
    Demo,
}

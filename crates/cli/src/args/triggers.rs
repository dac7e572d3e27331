//! Flags of `sluice triggers`.

use clap::{Args, ValueEnum};

use crate::commands::ClusterFlags;

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Pipeline, as NAME or NAMESPACE/NAME
    pub(crate) pipeline: String,

    /// Output format
    #[arg(long, short, value_enum, default_value = "table")]
    pub(crate) output: TriggersOutput,

    /// Base URL of Sluice's webhooks; it is prepended to their paths
    #[arg(long, value_name = "URL", default_value = "")]
    pub(crate) hook_url: String,

    #[command(flatten)]
    pub(crate) connection: ClusterFlags,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TriggersOutput {
    Table,
    Json,
    Yaml,
}

//! Flags of `sluice triggers`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// Name of the pipeline
    pub(crate) pipeline: String,

    /// Namespace of the pipeline [default: that of the kubeconfig context]
    #[arg(long, short, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,

    /// Output format
    #[arg(long, short, value_enum, default_value = "table")]
    pub(crate) output: TriggersOutput,

    /// Base URL of Sluice's webhooks; it is prepended to their paths
    #[arg(long, value_name = "URL", default_value = "")]
    pub(crate) hook_url: String,

    /// Kubeconfig to use [default: $KUBECONFIG or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum TriggersOutput {
    Table,
    Json,
}

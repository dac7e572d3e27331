//! What can be typed after `sluice triggers`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

#[derive(Debug, Args)]
pub(crate) struct Arguments {
    /// The pipeline
    pub(crate) pipeline: String,

    /// Its namespace [default: the kubeconfig's]
    #[arg(long, short, value_name = "NAMESPACE")]
    pub(crate) namespace: Option<String>,

    /// How it is written
    #[arg(long, short, value_enum, default_value = "table")]
    pub(crate) output: Output,

    /// Where Sluice's hooks are reached, to be put before their paths
    #[arg(long, value_name = "URL", default_value = "")]
    pub(crate) hook_url: String,

    /// The kubeconfig to use [default: $KUBECONFIG or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    Table,
    Json,
}

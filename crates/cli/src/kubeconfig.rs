//! Which cluster to talk to.

use std::path::Path;

use anyhow::Context;
use kube::{
    Config,
    config::{KubeConfigOptions, Kubeconfig},
};

/// The cluster of a kubeconfig; without one the usual places are tried.
pub(crate) async fn load(file: Option<&Path>) -> anyhow::Result<Config> {
    let Some(file) = file else {
        return Config::infer()
            .await
            .context("found neither a kubeconfig nor a cluster to run in");
    };
    let kubeconfig = Kubeconfig::read_from(file)
        .with_context(|| format!("cannot read the kubeconfig {}", file.display()))?;
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .with_context(|| format!("cannot use the kubeconfig {}", file.display()))
}

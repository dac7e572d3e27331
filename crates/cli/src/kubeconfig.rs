//! Loads the kubeconfig of the cluster to connect to.

use std::path::Path;

use anyhow::Context;
use kube::{
    Config,
    config::{KubeConfigOptions, Kubeconfig},
};

/// Loads a kubeconfig file; without one, the default locations and then the in-cluster config.
pub(crate) async fn load(file: Option<&Path>) -> anyhow::Result<Config> {
    let Some(file) = file else {
        return Config::infer().await.context(
            "found no kubeconfig, and not running in a cluster; set --kubeconfig or $KUBECONFIG",
        );
    };
    let kubeconfig = Kubeconfig::read_from(file)
        .with_context(|| format!("cannot read the kubeconfig {}", file.display()))?;
    Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default())
        .await
        .with_context(|| format!("cannot use the kubeconfig {}", file.display()))
}

//! How the door reaches leaf clusters: by the kubeconfigs that GitopsClusters name.

use std::sync::Arc;

use controller::{KubeconfigPolicy, Leaves};
use kube::Client;
use server::leaf::Reach;

/// Reads kubeconfigs with the rights of `hub`.
pub(crate) fn reach(hub: &Client, policy: KubeconfigPolicy) -> Reach {
    let leaves = Leaves::new(hub.clone(), controller::network_connector(policy));
    let leaves = Arc::new(leaves);
    Reach::new(move |cluster| {
        let leaves = leaves.clone();
        Box::pin(async move { leaves.client(&cluster).await })
    })
}

//! Connects the HTTP server to leaf clusters with the kubeconfigs of GitopsClusters.

use std::sync::Arc;

use controller::{KubeconfigPolicy, LeafClients};
use kube::Client;
use server::leaf::LeafConnector;

/// A connector that reads kubeconfigs with the permissions of `hub`.
pub(crate) fn leaf_connector(hub: &Client, policy: KubeconfigPolicy) -> LeafConnector {
    let leaves = LeafClients::new(hub.clone(), controller::network_connector(policy));
    let leaves = Arc::new(leaves);
    LeafConnector::new(move |cluster| {
        let leaves = leaves.clone();
        Box::pin(async move { leaves.client(&cluster).await })
    })
}

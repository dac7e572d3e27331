//! Reads the objects of a pipeline's apps from leaf clusters, with the kubeconfigs that the caller may
//! read.

use std::time::Duration;

use api::{GitopsCluster, pipeline::TargetStatus};
use controller::{KubeconfigPolicy, LeafClients, network_connector};
use futures::future::join_all;
use kube::{Client, ResourceExt};
use planner::SummaryState;
use serde_json::json;
use server::leaf::tree::{self, AppOnCluster, Node, ObjectState};
use tokio::time::timeout;

use super::TreeNode;
use crate::commands::{
    cluster::Cluster,
    cluster_error::cluster_error,
    error_text,
    terminal::{DIM, clean, paint, painted_glyph},
};

/// Time limit for reading the objects of one app.
const READ_TIMEOUT: Duration = Duration::from_secs(20);

/// The clusters of the targets of a pipeline.
pub(super) struct LeafObjects {
    hub: Client,
    leaves: LeafClients,
    /// The namespace of the pipeline.
    namespace: String,
}

impl LeafObjects {
    pub(super) fn new(cluster: &Cluster, namespace: &str) -> Self {
        let hub = cluster.client.clone();
        Self {
            // Only the caller sees the result, and their clusters may be on this machine.
            leaves: LeafClients::new(hub.clone(), network_connector(KubeconfigPolicy::LOCAL)),
            hub,
            namespace: namespace.to_owned(),
        }
    }

    /// The objects of the apps of a target.
    pub(super) async fn of_target(&self, target: &TargetStatus) -> Vec<TreeNode> {
        let client = match self.client(target).await {
            Ok(client) => client,
            Err(because) => return vec![TreeNode::remark(&because)],
        };
        let apps = AppOnCluster::in_target(target).into_iter();
        let nodes = apps.map(|app| read_app(client.clone(), app));
        join_all(nodes).await
    }

    async fn client(&self, target: &TargetStatus) -> Result<Client, String> {
        let app = target.cluster_app_ref.as_ref();
        let Some(reference) = app.and_then(|app| app.cluster_ref.as_ref()) else {
            return Ok(self.hub.clone());
        };
        let namespace = reference.namespace.as_deref().filter(|it| !it.is_empty());
        let namespace = namespace.unwrap_or(&self.namespace);
        let clusters: kube::Api<GitopsCluster> = kube::Api::namespaced(self.hub.clone(), namespace);
        let cluster = clusters.get(&reference.name).await;
        let name = format!("{namespace}/{}", reference.name);
        let cluster = cluster.map_err(|error| {
            let attempted = format!("read the GitopsCluster {name}");
            error_text(&cluster_error(&attempted, error))
        })?;
        let client = self.leaves.client(&cluster).await;
        client.map_err(|because| format!("cannot reach {}: {because}", cluster.name_any()))
    }
}

async fn read_app(client: Client, app: AppOnCluster) -> TreeNode {
    match timeout(READ_TIMEOUT, tree::read(&client, &app)).await {
        Ok(node) => tree_node(&node),
        Err(_) => {
            let text = format!("{}/{}", app.kind, app.name);
            TreeNode {
                text: clean(&text),
                document: json!({"kind": app.kind, "name": app.name, "state": SummaryState::Unknown.id()}),
                children: vec![TreeNode::remark("the cluster did not respond in time")],
            }
        }
    }
}

fn tree_node(node: &Node) -> TreeNode {
    let (state, word) = match node.state {
        ObjectState::Ready => (SummaryState::Ready, ""),
        ObjectState::NotReady => (SummaryState::NotReady, "not ready"),
        ObjectState::Failed => (SummaryState::Failed, "failed"),
        ObjectState::Suspended => (SummaryState::Suspended, "suspended"),
        ObjectState::Missing => (SummaryState::Unreadable, "missing"),
        ObjectState::Unknown => (SummaryState::Unknown, ""),
    };
    let mut text = format!("{} {}", painted_glyph(state), clean(&node.kind));
    text += &clean(&format!("/{}", node.name));
    if let Some(revision) = &node.revision {
        text += &clean(&format!(" {revision}"));
    }
    if !word.is_empty() {
        text += &format!(" {}", paint(DIM, &format!("({word})")));
    }
    let images = node.images.iter().map(|image| TreeNode::image(image));
    let message = node
        .message
        .iter()
        .filter(|_| node.state != ObjectState::Ready);
    let remarks = message.chain(&node.note).map(|it| TreeNode::remark(it));
    let children = node.below.iter().map(tree_node);
    TreeNode {
        text,
        document: json!({
            "kind": node.kind, "name": node.name, "state": state.id(), "runs": node.revision,
        }),
        children: images.chain(remarks).chain(children).collect(),
    }
}

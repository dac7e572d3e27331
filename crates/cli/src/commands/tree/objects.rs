//! What the clusters say about the apps of a pipeline, with the caller's own rights: whoever may read
//! the kubeconfig of a cluster may look at it.

use std::time::Duration;

use api::{GitopsCluster, pipeline::TargetStatus};
use controller::{KubeconfigPolicy, Leaves, network_connector};
use futures::future::join_all;
use kube::{Client, ResourceExt};
use planner::SummaryState;
use server::leaf::tree::{self, App, Node};
use tokio::time::timeout;

use super::Branch;
use crate::commands::{
    cluster::Cluster,
    terminal::{DIM, clean, paint, painted_sign},
};

/// How long a look at an app may take.
const WITHIN: Duration = Duration::from_secs(20);

/// The clusters behind the targets of a pipeline.
pub(super) struct Objects {
    hub: Client,
    leaves: Leaves,
    /// Of the pipeline.
    namespace: String,
}

impl Objects {
    pub(super) fn new(cluster: &Cluster, namespace: &str) -> Self {
        let hub = cluster.client.clone();
        Self {
            // What is read is shown to the caller alone, whose clusters may be on their own machine.
            leaves: Leaves::new(hub.clone(), network_connector(KubeconfigPolicy::LOCAL)),
            hub,
            namespace: namespace.to_owned(),
        }
    }

    /// What is behind a target.
    pub(super) async fn behind(&self, target: &TargetStatus) -> Vec<Branch> {
        let client = match self.client(target).await {
            Ok(client) => client,
            Err(because) => return vec![Branch::remark(&because)],
        };
        let apps = App::in_target(target).into_iter();
        let looks = apps.map(|app| look(client.clone(), app));
        join_all(looks).await
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
        let cluster =
            cluster.map_err(|error| format!("cannot read the GitopsCluster {name}: {error}"))?;
        let client = self.leaves.client(&cluster).await;
        client.map_err(|because| format!("cannot reach {}: {because}", cluster.name_any()))
    }
}

async fn look(client: Client, app: App) -> Branch {
    match timeout(WITHIN, tree::read(&client, &app)).await {
        Ok(node) => branch(&node),
        Err(_) => {
            let text = format!("{}/{}", app.kind, app.name);
            Branch {
                text: clean(&text),
                below: vec![Branch::remark("the cluster does not answer in time")],
            }
        }
    }
}

fn branch(node: &Node) -> Branch {
    let (state, word) = match node.state {
        tree::State::Ready => (SummaryState::Ready, ""),
        tree::State::NotReady => (SummaryState::NotReady, "not ready"),
        tree::State::Failed => (SummaryState::Failed, "failed"),
        tree::State::Suspended => (SummaryState::Suspended, "suspended"),
        tree::State::Missing => (SummaryState::Unreadable, "missing"),
        tree::State::Unknown => (SummaryState::Unknown, ""),
    };
    let mut text = format!("{} {}", painted_sign(state), clean(&node.kind));
    text += &clean(&format!("/{}", node.name));
    if let Some(revision) = &node.revision {
        text += &clean(&format!(" {revision}"));
    }
    if !word.is_empty() {
        text += &format!(" {}", paint(DIM, &format!("({word})")));
    }
    let images = node.images.iter().map(|image| Branch::leaf(clean(image)));
    let message = node
        .message
        .iter()
        .filter(|_| node.state != tree::State::Ready);
    let remarks = message.chain(&node.note).map(|it| Branch::remark(it));
    let below = node.below.iter().map(branch);
    Branch {
        text,
        below: images.chain(remarks).chain(below).collect(),
    }
}

//! Clients for leaf clusters, made when somebody asks and kept for a while.
//!
//! Apart from the loops, so that a replica that does not lead can answer too. Kubeconfigs are read
//! and checked as for the loops; a rotated Secret counts within half a minute.

use std::{collections::HashMap, time::Duration};

use api::GitopsCluster;
use kube::Client;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Connector, kubeconfig};
use runtime::ObjectKey;

/// How long a client is used without looking at its Secret.
const TRUSTED: Duration = Duration::from_secs(30);
/// How long a client is kept that nobody asks for.
const KEPT: Duration = Duration::from_secs(600);

/// Clients for leaf clusters.
pub struct Leaves {
    hub: Client,
    connector: Connector,
    known: Mutex<HashMap<ObjectKey, Known>>,
}

#[derive(Clone)]
struct Known {
    client: Client,
    /// The cluster object and the version of its Secret that the client was made from.
    of: (Option<String>, String),
    looked_at: Instant,
}

impl Leaves {
    /// Reads Secrets with the rights of `hub`.
    pub fn new(hub: Client, connector: Connector) -> Self {
        Self {
            hub,
            connector,
            known: Mutex::default(),
        }
    }

    /// A client for a cluster, or why there is none. Nothing is asked of the cluster itself.
    pub async fn client(&self, cluster: &GitopsCluster) -> Result<Client, String> {
        let key = ObjectKey::of(&cluster.metadata);
        let uid = cluster.metadata.uid.clone();
        let known = self.known.lock().get(&key).cloned();
        let known = known.filter(|known| known.of.0 == uid);
        if let Some(known) = known.as_ref()
            && known.looked_at.elapsed() < TRUSTED
        {
            return Ok(known.client.clone());
        }
        let found = kubeconfig::read(&self.hub, cluster).await?;
        let client = match known.filter(|known| known.of.1 == found.version) {
            Some(known) => known.client,
            None => (self.connector)(found.kubeconfig).await?,
        };
        let fresh = Known {
            client: client.clone(),
            of: (uid, found.version),
            looked_at: Instant::now(),
        };
        let mut all = self.known.lock();
        all.retain(|_, known| known.looked_at.elapsed() < KEPT);
        all.insert(key, fresh);
        Ok(client)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use apiserver::Server;
    use k8s_openapi::api::core::v1::Secret;
    use kube::{
        Api,
        api::{Patch, PatchParams},
    };
    use serde_json::json;

    use super::*;

    async fn set_token(hub: &Server, token: &str) {
        let kubeconfig = format!(
            "clusters: [{{name: c, cluster: {{server: 'https://leaf.example'}}}}]\n\
             users: [{{name: u, user: {{token: {token}}}}}]\n\
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\n"
        );
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "eu"},
            "stringData": {"value": kubeconfig},
        });
        let secrets: Api<Secret> = Api::namespaced(hub.client(), "default");
        let parameters = PatchParams::apply("test").force();
        let patched = secrets
            .patch("eu", &parameters, &Patch::Apply(&secret))
            .await;
        patched.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_is_kept_until_its_secret_is_rotated() {
        let hub = Server::in_memory();
        let made = Arc::new(AtomicUsize::new(0));
        let (counted, leaf) = (made.clone(), Server::in_memory());
        let connector: Connector = Arc::new(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            let client = leaf.client();
            Box::pin(async move { Ok(client) })
        });
        let leaves = Leaves::new(hub.client(), connector);
        let cluster: GitopsCluster = serde_json::from_value(json!({
            "metadata": {"name": "eu", "namespace": "default"}, "spec": {"secretRef": {"name": "eu"}},
        }))
        .unwrap();
        let refused = leaves.client(&cluster).await.err().unwrap();
        assert_eq!(refused, "Secret default/eu does not exist");
        set_token(&hub, "one").await;
        for _ in 0..3 {
            leaves.client(&cluster).await.unwrap();
            tokio::time::advance(TRUSTED).await;
        }
        assert_eq!(made.load(Ordering::Relaxed), 1);
        set_token(&hub, "two").await;
        leaves.client(&cluster).await.unwrap();
        assert_eq!(made.load(Ordering::Relaxed), 2);
    }
}

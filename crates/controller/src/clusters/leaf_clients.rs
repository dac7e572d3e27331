//! TTL cache of clients for leaf clusters, created on demand.
//!
//! Independent of the reconcilers, so that a replica that does not lead can use leaf clusters too.
//! Kubeconfigs are read and checked in the same way; a rotated Secret takes effect within 30 seconds.

use std::{collections::HashMap, time::Duration};

use api::GitopsCluster;
use kube::Client;
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{Connector, kubeconfig};
use runtime::ObjectKey;

/// How long a client is used before its Secret is read again.
const SECRET_RECHECK: Duration = Duration::from_secs(30);
/// How long an unused client is kept.
const IDLE: Duration = Duration::from_secs(600);

/// Clients for leaf clusters.
pub struct LeafClients {
    hub: Client,
    connector: Connector,
    cache: Mutex<HashMap<ObjectKey, CachedClient>>,
}

#[derive(Clone)]
struct CachedClient {
    client: Client,
    /// The uid of the GitopsCluster and the resourceVersion of its Secret.
    created_from: (Option<String>, String),
    checked_at: Instant,
}

impl LeafClients {
    /// Reads Secrets with the rights of `hub`.
    pub fn new(hub: Client, connector: Connector) -> Self {
        Self {
            hub,
            connector,
            cache: Mutex::default(),
        }
    }

    /// A client for a cluster, or why there is none. Sends no request to the cluster.
    pub async fn client(&self, cluster: &GitopsCluster) -> Result<Client, String> {
        let key = ObjectKey::of(&cluster.metadata);
        let uid = cluster.metadata.uid.clone();
        let cached = self.cache.lock().get(&key).cloned();
        let cached = cached.filter(|cached| cached.created_from.0 == uid);
        if let Some(cached) = cached.as_ref()
            && cached.checked_at.elapsed() < SECRET_RECHECK
        {
            return Ok(cached.client.clone());
        }
        let loaded = kubeconfig::read(&self.hub, cluster).await?;
        let client = match cached.filter(|cached| cached.created_from.1 == loaded.version) {
            Some(cached) => cached.client,
            None => (self.connector)(loaded.kubeconfig).await?,
        };
        let checked = CachedClient {
            client: client.clone(),
            created_from: (uid, loaded.version),
            checked_at: Instant::now(),
        };
        let mut cache = self.cache.lock();
        cache.retain(|_, cached| cached.checked_at.elapsed() < IDLE);
        cache.insert(key, checked);
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
        let leaf_clients = LeafClients::new(hub.client(), connector);
        let cluster: GitopsCluster = serde_json::from_value(json!({
            "metadata": {"name": "eu", "namespace": "default"}, "spec": {"secretRef": {"name": "eu"}},
        }))
        .unwrap();
        let refused = leaf_clients.client(&cluster).await.err().unwrap();
        assert_eq!(refused, "Secret default/eu does not exist");
        set_token(&hub, "one").await;
        for _ in 0..3 {
            leaf_clients.client(&cluster).await.unwrap();
            tokio::time::advance(SECRET_RECHECK).await;
        }
        assert_eq!(made.load(Ordering::Relaxed), 1);
        set_token(&hub, "two").await;
        leaf_clients.client(&cluster).await.unwrap();
        assert_eq!(made.load(Ordering::Relaxed), 2);
    }
}

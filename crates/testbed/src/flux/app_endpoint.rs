//! Answers HTTP requests as the app would that the stand-in deployed: with the version that its Deployment
//! runs, and an error if that version contains `faulty`.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use axum::{
    Json, Router,
    extract::{Path, State},
    routing::get,
};
use http::StatusCode;
use kube::Client;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::{ClusterObjects, Error};
use crate::forge::listen;

/// The app in several environments, at `/ENVIRONMENT/healthz`. Stopped on drop.
pub struct AppEndpoint {
    address: SocketAddr,
    server: JoinHandle<()>,
}

impl Drop for AppEndpoint {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// The name of the app, which is also that of its namespace, and the cluster of each environment.
struct DeployedApp {
    name: String,
    clusters: BTreeMap<String, ClusterObjects>,
}

impl AppEndpoint {
    /// Serves an app on a free port of this machine.
    pub async fn start(
        app: &str,
        clusters: impl IntoIterator<Item = (String, Client)>,
    ) -> Result<Self, crate::forge::Error> {
        let listener = listen().await?;
        let address = listener.local_addr();
        let address = address.map_err(|error| crate::forge::Error::new("listen", error))?;
        let clusters = clusters.into_iter();
        let app = DeployedApp {
            name: app.to_owned(),
            clusters: clusters
                .map(|(name, it)| (name, ClusterObjects(it)))
                .collect(),
        };
        let router = Router::new()
            .route("/{environment}/healthz", get(healthz))
            .with_state(Arc::new(app));
        let server = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        Ok(Self { address, server })
    }

    /// `127.0.0.1:PORT`.
    pub fn host(&self) -> String {
        self.address.to_string()
    }
}

async fn healthz(
    State(app): State<Arc<DeployedApp>>,
    Path(environment): Path<String>,
) -> (StatusCode, Json<Value>) {
    match app.version(&environment).await {
        Ok(Some(version)) if version.contains("faulty") => (
            StatusCode::INTERNAL_SERVER_ERROR,
            Json(json!({"version": version, "healthy": false})),
        ),
        Ok(Some(version)) => (
            StatusCode::OK,
            Json(json!({"version": version, "healthy": true})),
        ),
        Ok(None) => (StatusCode::NOT_FOUND, Json(json!({}))),
        Err(_) => (StatusCode::BAD_GATEWAY, Json(json!({}))),
    }
}

impl DeployedApp {
    /// The version that runs in an environment.
    async fn version(&self, environment: &str) -> Result<Option<String>, Error> {
        let Some(cluster) = self.clusters.get(environment) else {
            return Ok(None);
        };
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": self.name, "namespace": self.name},
        });
        let (deployments, name) = cluster.api(&deployment)?;
        let found = deployments.get_opt(name).await?;
        Ok(found.and_then(|it| {
            let image = it.data["spec"]["template"]["spec"]["containers"][0]["image"].as_str()?;
            let (_, version) = image.rsplit_once(':')?;
            Some(version.to_owned())
        }))
    }
}

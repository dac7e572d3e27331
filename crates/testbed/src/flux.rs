//! A stand-in for Flux: deploys a folder of a repository, or what a tag of a registry points to, to a
//! cluster.
//!
//! It creates only the objects that Flux and Kubernetes would create: a GitRepository and a Kustomization
//! for the folder, the objects in the folder, and for each HelmRelease its HelmChart and a Deployment with
//! a pod that runs the chart's version. Statuses progress as in Flux. A version that contains `broken`
//! fails; one that contains `faulty` is deployed, but [`AppEndpoint`] answers with errors.

mod app_endpoint;
mod artifact;
mod cluster_objects;
mod kinds;
mod release;
mod workload;

use std::time::Duration;

use kube::Client;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::forge::Repository;

pub use app_endpoint::AppEndpoint;
pub use artifact::FollowedTag;
pub use kinds::definitions;

use cluster_objects::ClusterObjects;

/// The namespace of Flux.
const NAMESPACE: &str = "flux-system";

/// How fast the stand-in works.
#[derive(Clone, Copy, Debug)]
pub struct FluxTiming {
    /// How often it reads the repository.
    pub poll_interval: Duration,
    /// How long a release takes.
    pub release_duration: Duration,
}

/// Why a folder could not be deployed.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Forge(#[from] crate::forge::Error),
    #[error("{path} is not YAML: {because}")]
    Yaml { path: String, because: String },
    #[error("an object without apiVersion, kind and name")]
    NotAnObject,
    #[error(transparent)]
    Cluster(#[from] kube::Error),
}

/// A running stand-in, stopped on drop.
pub struct Flux {
    task: JoinHandle<()>,
}

impl Drop for Flux {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Deploys one folder to one cluster.
struct FolderDeployment {
    repository: Repository,
    folder: String,
    cluster: ClusterObjects,
    timing: FluxTiming,
}

impl Flux {
    /// Starts to deploy a folder of the branch `main` to a cluster that has Flux's CRDs.
    pub fn start(
        repository: Repository,
        folder: &str,
        cluster: Client,
        timing: FluxTiming,
    ) -> Self {
        let deployment = FolderDeployment {
            repository,
            folder: folder.to_owned(),
            cluster: ClusterObjects(cluster),
            timing,
        };
        Self {
            task: tokio::spawn(deployment.run()),
        }
    }

    /// Starts to deploy what a tag points to, whenever it moves.
    pub fn follow_tag(tag: FollowedTag, cluster: Client, timing: FluxTiming) -> Self {
        let deployment = tag.deployment(ClusterObjects(cluster), timing);
        Self {
            task: tokio::spawn(deployment.run()),
        }
    }
}

impl FolderDeployment {
    async fn run(self) {
        let mut applied = None;
        loop {
            let tip = self.repository.tip("main").await;
            if let Some(commit) = tip.filter(|tip| Some(tip) != applied.as_ref()) {
                match self.apply(&commit).await {
                    Ok(()) => applied = Some(commit),
                    Err(error) => {
                        tracing::warn!(folder = self.folder, %error, "could not deploy the folder")
                    }
                }
            }
            tokio::time::sleep(self.timing.poll_interval).await;
        }
    }

    /// Applies the folder at a commit.
    async fn apply(&self, commit: &str) -> Result<(), Error> {
        let revision = format!("main@sha1:{commit}");
        let objects = self.objects().await?;
        self.source(&revision).await?;
        for object in &objects {
            self.cluster.apply_object(object).await?;
        }
        let repositories = objects.iter().filter(|it| it["kind"] == "HelmRepository");
        for repository in repositories {
            let fetched = json!({"conditions": [ready("True", "Succeeded", "stored artifact")]});
            self.cluster.set_status(repository, &fetched).await?;
        }
        let releases = objects.iter().filter(|it| it["kind"] == "HelmRelease");
        let releases = releases.map(|release| self.release(release));
        futures::future::try_join_all(releases).await?;
        self.kustomization(&revision, &objects).await
    }

    /// The objects in the folder, with the labels of Flux.
    async fn objects(&self) -> Result<Vec<Value>, Error> {
        let mut objects = Vec::new();
        for (path, content) in self.repository.files("main", &self.folder).await? {
            if !path.ends_with(".yaml") || path.ends_with("kustomization.yaml") {
                continue;
            }
            let text = String::from_utf8_lossy(&content);
            let documents: Vec<Value> =
                serde_saphyr::from_multiple(&text).map_err(|error| Error::Yaml {
                    path,
                    because: error.to_string(),
                })?;
            objects.extend(documents);
        }
        for object in &mut objects {
            let labels = &mut object["metadata"]["labels"];
            labels["kustomize.toolkit.fluxcd.io/name"] = json!(self.name());
            labels["kustomize.toolkit.fluxcd.io/namespace"] = json!(NAMESPACE);
        }
        // Namespaces first, as in Flux.
        objects.sort_by_key(|object| object["kind"] != "Namespace");
        Ok(objects)
    }

    fn name(&self) -> &str {
        self.folder.rsplit('/').next().unwrap_or(&self.folder)
    }

    async fn source(&self, revision: &str) -> Result<(), Error> {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
        self.cluster.apply_object(&namespace).await?;
        let source = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "GitRepository",
            "metadata": {"name": "fleet", "namespace": NAMESPACE},
            "spec": {"url": self.repository.url(), "ref": {"branch": "main"}, "interval": "1m"},
        });
        self.cluster.apply_object(&source).await?;
        let status = json!({
            "observedGeneration": 1,
            "artifact": {"revision": revision},
            "conditions": [ready("True", "Succeeded", &format!("stored artifact for revision '{revision}'"))],
        });
        self.cluster.set_status(&source, &status).await
    }

    async fn kustomization(&self, revision: &str, objects: &[Value]) -> Result<(), Error> {
        let kustomization = json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": {"name": self.name(), "namespace": NAMESPACE},
            "spec": {
                "path": format!("./{}", self.folder), "prune": true, "interval": "1m",
                "sourceRef": {"kind": "GitRepository", "name": "fleet"},
            },
        });
        self.cluster.apply_object(&kustomization).await?;
        let entries: Vec<Value> = objects.iter().map(inventory_entry).collect();
        let status = json!({
            "observedGeneration": 1,
            "lastAppliedRevision": revision, "lastAttemptedRevision": revision,
            "inventory": {"entries": entries},
            "conditions": [ready("True", "ReconciliationSucceeded", &format!("Applied revision: {revision}"))],
        });
        self.cluster.set_status(&kustomization, &status).await
    }
}

fn inventory_entry(object: &Value) -> Value {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let api_version = text(&object["apiVersion"]);
    let (group, version) = api_version.split_once('/').unwrap_or(("", &api_version));
    let metadata = &object["metadata"];
    let id = format!(
        "{}_{}_{group}_{}",
        text(&metadata["namespace"]),
        text(&metadata["name"]),
        text(&object["kind"])
    );
    json!({"id": id, "v": version})
}

/// A Ready condition.
fn ready(status: &str, reason: &str, message: &str) -> Value {
    json!({
        "type": "Ready", "status": status, "reason": reason, "message": message,
        "lastTransitionTime": "2026-01-01T00:00:00Z", "observedGeneration": 1,
    })
}

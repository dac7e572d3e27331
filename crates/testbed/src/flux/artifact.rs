//! Follows a tag of a registry like Flux's source-controller and kustomize-controller.

use std::sync::Arc;

use serde_json::{Value, json};

use super::{ClusterObjects, Error, FluxTiming, inventory_entry, ready};
use crate::registry::{Registry, StoredManifest};

/// The annotation with the version of an artifact.
const VERSION: &str = "org.opencontainers.image.version";

/// A tag, and the app that it is the source of.
pub struct FollowedTag {
    /// The registry.
    pub registry: Arc<Registry>,
    /// The repository in it.
    pub repository: String,
    /// The tag.
    pub tag: String,
    /// The name of the app, of its namespace, its OCIRepository and its Kustomization.
    pub app: String,
}

/// Deploys what a tag points to.
pub(super) struct TagDeployment {
    tag: FollowedTag,
    cluster: ClusterObjects,
    timing: FluxTiming,
}

impl FollowedTag {
    pub(super) fn deployment(self, cluster: ClusterObjects, timing: FluxTiming) -> TagDeployment {
        TagDeployment {
            tag: self,
            cluster,
            timing,
        }
    }
}

impl TagDeployment {
    pub(super) async fn run(self) {
        let mut applied = None;
        loop {
            let tag = &self.tag;
            let manifest = tag.registry.manifest(&tag.repository, &tag.tag);
            let digest = manifest.as_ref().map(|manifest| manifest.digest.clone());
            if let Some(manifest) = manifest.filter(|_| digest != applied) {
                match self.apply(&manifest).await {
                    Ok(()) => applied = digest,
                    Err(error) => tracing::warn!(tag = tag.tag, %error, "could not deploy the tag"),
                }
            }
            tokio::time::sleep(self.timing.poll_interval).await;
        }
    }

    /// Applies an artifact. A version that contains `broken` fails.
    async fn apply(&self, manifest: &StoredManifest) -> Result<(), Error> {
        let revision = format!("{}@{}", self.tag.tag, manifest.digest);
        let parsed: Value = serde_json::from_slice(&manifest.bytes).unwrap_or_default();
        let annotations = &parsed["annotations"];
        let version = annotations[VERSION].as_str().unwrap_or(&self.tag.tag);
        self.source(&revision, annotations).await?;
        let kustomization = self.kustomization().await?;
        let progress = json!({
            "observedGeneration": 1, "lastAttemptedRevision": revision,
            "conditions": [ready("Unknown", "Progressing", "Reconciliation in progress")],
        });
        self.cluster.set_status(&kustomization, &progress).await?;
        tokio::time::sleep(self.timing.release_duration).await;
        if version.contains("broken") {
            let message = format!("health check failed: {} {version} is broken", self.tag.app);
            let failed = json!({"conditions": [ready("False", "HealthCheckFailed", &message)]});
            return self.cluster.set_status(&kustomization, &failed).await;
        }
        self.cluster.deploy(&kustomization, version).await?;
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": kustomization["metadata"],
        });
        let message = format!("Applied revision: {revision}");
        let status = json!({
            "observedGeneration": 1,
            "lastAppliedRevision": revision, "lastAttemptedRevision": revision,
            "inventory": {"entries": [inventory_entry(&deployment)]},
            "conditions": [ready("True", "ReconciliationSucceeded", &message)],
        });
        self.cluster.set_status(&kustomization, &status).await
    }

    async fn source(&self, revision: &str, annotations: &Value) -> Result<(), Error> {
        let (app, tag) = (&self.tag.app, &self.tag.tag);
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": app}});
        self.cluster.apply_object(&namespace).await?;
        let url = format!("oci://{}/{}", self.tag.registry.host(), self.tag.repository);
        let source = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "OCIRepository",
            "metadata": {"name": app, "namespace": app},
            "spec": {"url": url, "ref": {"tag": tag}, "interval": "1m"},
        });
        self.cluster.apply_object(&source).await?;
        let message = format!("stored artifact for digest '{revision}'");
        let status = json!({
            "observedGeneration": 1,
            "artifact": {"revision": revision, "metadata": annotations},
            "conditions": [ready("True", "Succeeded", &message)],
        });
        self.cluster.set_status(&source, &status).await
    }

    async fn kustomization(&self) -> Result<Value, Error> {
        let app = &self.tag.app;
        let kustomization = json!({
            "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
            "metadata": {"name": app, "namespace": app},
            "spec": {
                "path": "./", "prune": true, "interval": "1m",
                "sourceRef": {"kind": "OCIRepository", "name": app},
            },
        });
        self.cluster.apply_object(&kustomization).await?;
        Ok(kustomization)
    }
}

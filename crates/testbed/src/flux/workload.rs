//! What a chart makes, and what Kubernetes makes of that: a Deployment that runs, with its ReplicaSet
//! and its pod.

use std::hash::{DefaultHasher, Hash, Hasher};

use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams},
};
use serde_json::{Value, json};

use super::{Error, Sync};

impl Sync {
    /// Brings a release's Deployment to a version, until it runs.
    pub(super) async fn deploy(&self, release: &Value, version: &str) -> Result<(), Error> {
        let deployment = deployment(release, version);
        let (generation, owner) = self.put_for(&deployment).await?;
        let set = replica_set(&deployment, &owner, version);
        let (_, owner) = self.put_for(&set).await?;
        let pod = pod(&set, &owner);
        self.put(&pod).await?;
        let ready = json!({"type": "Ready", "status": "True"});
        let status = json!({"phase": "Running", "conditions": [ready]});
        self.set_status(&pod, &status).await?;
        self.remove_others(&set).await?;
        let status = json!({
            "observedGeneration": generation,
            "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
        });
        self.set_status(&deployment, &status).await
    }

    /// Applies an object; gives its generation and how what it owns refers to it.
    async fn put_for(&self, object: &Value) -> Result<(i64, Value), Error> {
        self.put(object).await?;
        let (api, name) = self.api(object)?;
        let metadata = api.get(name).await?.metadata;
        let owner = json!({
            "apiVersion": object["apiVersion"], "kind": object["kind"], "name": name,
            "uid": metadata.uid, "controller": true,
        });
        Ok((metadata.generation.unwrap_or_default(), owner))
    }

    /// Removes the sets of earlier versions. Their pods go with them.
    async fn remove_others(&self, set: &Value) -> Result<(), Error> {
        let (sets, own) = self.api(set)?;
        let labels = &set["spec"]["selector"]["matchLabels"];
        let name = labels["app.kubernetes.io/name"].as_str();
        let selector = format!("app.kubernetes.io/name={}", name.unwrap_or_default());
        for other in sets.list(&ListParams::default().labels(&selector)).await? {
            if own != other.name_any() {
                let parameters = DeleteParams::background();
                sets.delete(&other.name_any(), &parameters).await?;
            }
        }
        Ok(())
    }
}

fn deployment(release: &Value, version: &str) -> Value {
    let metadata = &release["metadata"];
    let (name, namespace) = (&metadata["name"], &metadata["namespace"]);
    let own = json!({"app.kubernetes.io/name": name});
    let labels = json!({
        "app.kubernetes.io/name": name,
        "helm.toolkit.fluxcd.io/name": name, "helm.toolkit.fluxcd.io/namespace": namespace,
    });
    let image = name.as_str().unwrap_or_default();
    let image = format!("registry.example.com/{image}:{version}");
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": own},
            "template": {
                "metadata": {"labels": own},
                "spec": {"containers": [{"name": name, "image": image}]},
            },
        },
    })
}

fn replica_set(deployment: &Value, owner: &Value, version: &str) -> Value {
    let mut hasher = DefaultHasher::new();
    version.hash(&mut hasher);
    let name = deployment["metadata"]["name"].as_str().unwrap_or_default();
    let name = format!("{name}-{:08x}", hasher.finish() as u32);
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": name, "namespace": deployment["metadata"]["namespace"],
            "labels": deployment["spec"]["selector"]["matchLabels"], "ownerReferences": [owner],
        },
        "spec": deployment["spec"],
    })
}

fn pod(set: &Value, owner: &Value) -> Value {
    let name = set["metadata"]["name"].as_str().unwrap_or_default();
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("{name}-0"), "namespace": set["metadata"]["namespace"],
            "labels": set["metadata"]["labels"], "ownerReferences": [owner],
        },
        "spec": set["spec"]["template"]["spec"],
    })
}

//! The workload of a release: a Deployment with its ReplicaSet and pod.

use std::hash::{DefaultHasher, Hash, Hasher};

use kube::{
    ResourceExt,
    api::{DeleteParams, ListParams},
};
use serde_json::{Value, json};

use super::{ClusterObjects, Error};

impl ClusterObjects {
    /// Deploys a version of a release and reports it as available.
    pub(super) async fn deploy(&self, release: &Value, version: &str) -> Result<(), Error> {
        let deployment = deployment(release, version);
        let (generation, owner) = self.apply_owner(&deployment).await?;
        let set = replica_set(&deployment, &owner, version);
        let (_, owner) = self.apply_owner(&set).await?;
        let pod = pod(&set, &owner);
        self.apply_object(&pod).await?;
        let ready = json!({"type": "Ready", "status": "True"});
        let status = json!({"phase": "Running", "conditions": [ready]});
        self.set_status(&pod, &status).await?;
        self.delete_other_replica_sets(&set).await?;
        let status = json!({
            "observedGeneration": generation,
            "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1, "availableReplicas": 1,
        });
        self.set_status(&deployment, &status).await
    }

    /// Applies an object. Returns its generation and its owner reference.
    async fn apply_owner(&self, object: &Value) -> Result<(i64, Value), Error> {
        self.apply_object(object).await?;
        let (api, name) = self.api(object)?;
        let metadata = api.get(name).await?.metadata;
        let owner = json!({
            "apiVersion": object["apiVersion"], "kind": object["kind"], "name": name,
            "uid": metadata.uid, "controller": true,
        });
        Ok((metadata.generation.unwrap_or_default(), owner))
    }

    /// Deletes the ReplicaSets of earlier versions with their pods.
    async fn delete_other_replica_sets(&self, set: &Value) -> Result<(), Error> {
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

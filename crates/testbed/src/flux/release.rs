//! Releases: what Flux's helm-controller does with a HelmRelease.

use serde_json::{Value, json};

use super::{Error, Sync, ready};

impl Sync {
    /// Releases what a HelmRelease asks for, unless it runs already.
    pub(super) async fn release(&self, release: &Value) -> Result<(), Error> {
        let (api, name) = self.api(release)?;
        let stored = api.get(name).await?;
        let generation = stored.metadata.generation.unwrap_or_default();
        let version = release["spec"]["chart"]["spec"]["version"]
            .as_str()
            .unwrap_or("*");
        let status = &stored.data["status"];
        if status["observedGeneration"] == generation && status["conditions"][0]["status"] == "True"
        {
            return Ok(());
        }
        let chart = release["spec"]["chart"]["spec"]["chart"]
            .as_str()
            .unwrap_or(name);
        let what = format!("{chart}@{version}");
        let before = status["history"].as_array().cloned().unwrap_or_default();
        let under_way = json!({
            "observedGeneration": generation, "lastAttemptedRevision": version,
            "conditions": [ready("Unknown", "Progressing", &format!("Running 'upgrade' action for {what}"))],
        });
        self.set_status(release, &under_way).await?;
        tokio::time::sleep(self.pace.release).await;
        let works = !version.contains("broken");
        if works {
            self.put(&workload(release, name, version)).await?;
        }
        self.set_status(
            release,
            &finished(&before, generation, &what, version, works),
        )
        .await
    }
}

/// The status after a release that worked, or did not.
fn finished(before: &[Value], generation: i64, what: &str, version: &str, works: bool) -> Value {
    let number = before
        .first()
        .and_then(|last| last["version"].as_i64())
        .unwrap_or_default()
        + 1;
    let mut history = vec![json!({
        "version": number, "chartVersion": version,
        "status": if works { "deployed" } else { "failed" },
    })];
    let earlier = before.iter().take(4).cloned().map(|mut earlier| {
        if earlier["status"] == "deployed" && works {
            earlier["status"] = json!("superseded");
        }
        earlier
    });
    history.extend(earlier);
    let condition = match works {
        true => ready(
            "True",
            "UpgradeSucceeded",
            &format!("Helm upgrade succeeded for release {what}"),
        ),
        false => ready(
            "False",
            "UpgradeFailed",
            &format!("Helm upgrade failed for release {what}: it is broken"),
        ),
    };
    json!({
        "observedGeneration": generation, "lastAttemptedRevision": version,
        "conditions": [condition], "history": history,
    })
}

/// What the chart makes.
fn workload(release: &Value, name: &str, version: &str) -> Value {
    let namespace = &release["metadata"]["namespace"];
    let labels = json!({
        "app.kubernetes.io/name": name,
        "helm.toolkit.fluxcd.io/name": name, "helm.toolkit.fluxcd.io/namespace": namespace,
    });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app.kubernetes.io/name": name}},
            "template": {
                "metadata": {"labels": {"app.kubernetes.io/name": name}},
                "spec": {"containers": [{
                    "name": name, "image": format!("registry.example.com/{name}:{version}"),
                }]},
            },
        },
    })
}

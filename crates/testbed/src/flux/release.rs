//! Reconciles a HelmRelease like Flux's helm-controller.

use serde_json::{Value, json};

use super::{Error, FolderDeployment, inventory_entry, ready};

impl FolderDeployment {
    /// Deploys a HelmRelease, unless it is already deployed.
    pub(super) async fn release(&self, release: &Value) -> Result<(), Error> {
        let (api, name) = self.cluster.api(release)?;
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
        let in_progress = json!({
            "observedGeneration": generation, "lastAttemptedRevision": version,
            "conditions": [ready("Unknown", "Progressing", &format!("Running 'upgrade' action for {what}"))],
        });
        self.cluster.set_status(release, &in_progress).await?;
        tokio::time::sleep(self.timing.release_duration).await;
        let succeeds = !version.contains("broken");
        if succeeds {
            self.chart(release, version).await?;
            self.cluster.deploy(release, version).await?;
        }
        let mut status = finished(&before, generation, &what, version, succeeds);
        let deployment = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": release["metadata"],
        });
        status["inventory"] = json!({"entries": [inventory_entry(&deployment)]});
        status["helmChart"] = json!(format!("{}/{}", chart_key(release).0, chart_key(release).1));
        self.cluster.set_status(release, &status).await
    }

    /// Creates the HelmChart of a release.
    async fn chart(&self, release: &Value, version: &str) -> Result<(), Error> {
        let (namespace, name) = chart_key(release);
        let chart = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1", "kind": "HelmChart",
            "metadata": {"name": name, "namespace": namespace}, "spec": release["spec"]["chart"]["spec"],
        });
        self.cluster.apply_object(&chart).await?;
        let message = format!("pulled chart with version '{version}'");
        let status = json!({
            "artifact": {"revision": version},
            "conditions": [ready("True", "ChartPullSucceeded", &message)],
        });
        self.cluster.set_status(&chart, &status).await
    }
}

/// The namespace and name of the HelmChart of a release.
fn chart_key(release: &Value) -> (&str, String) {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &release["metadata"];
    let namespace = metadata["namespace"].as_str().unwrap_or_default();
    (
        namespace,
        format!("{namespace}-{}", text(&metadata["name"])),
    )
}

/// The status after a release that succeeded or failed.
fn finished(before: &[Value], generation: i64, what: &str, version: &str, succeeds: bool) -> Value {
    let number = before
        .first()
        .and_then(|last| last["version"].as_i64())
        .unwrap_or_default()
        + 1;
    let mut history = vec![json!({
        "version": number, "chartVersion": version,
        "status": if succeeds { "deployed" } else { "failed" },
    })];
    let earlier = before.iter().take(4).cloned().map(|mut earlier| {
        if earlier["status"] == "deployed" && succeeds {
            earlier["status"] = json!("superseded");
        }
        earlier
    });
    history.extend(earlier);
    let condition = match succeeds {
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

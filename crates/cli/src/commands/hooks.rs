//! `sluice hooks`: prints the Flux objects that report deployments to Sluice, for each cluster.
//!
//! It prints no keys: the printed Secrets contain a placeholder that names the source of the value.

use std::{collections::BTreeMap, io::Write};

use anyhow::bail;
use api::{Pipeline, names::slug};
use serde_json::{Value, json};

use super::{
    cluster::{ClusterFlags, key, require_environment},
    hook_address::{AddressFlag, escaped},
    plan, yaml,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name of the pipeline on the cluster, or a file with its manifest
    pipeline: String,
    /// Only this environment
    environment: Option<String>,
    #[command(flatten)]
    address: AddressFlag,
    #[command(flatten)]
    connection: ClusterFlags,
}

/// Stands above a Provider whose reports have no signature.
const UNSIGNED: &str = "\
# The pipeline has no key, so these reports are not signed, and Sluice does not count them.
# Set spec.promotion.strategy.secretRef to a Secret with the key hmac-key, and print this again.";

/// The notification objects for one target.
struct ClusterHook<'a> {
    pipeline: &'a Pipeline,
    environment: &'a str,
    cluster: Option<&'a str>,
    namespace: &'a str,
    address: &'a str,
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let (pipeline, _) = plan::find(&arguments.pipeline, &arguments.connection).await?;
    let only = arguments.environment.as_deref();
    if let Some(only) = only {
        require_environment(&pipeline, only)?;
    }
    if pipeline.spec.app_ref.is_none() {
        bail!("a pipeline without appRef accepts no reports: a report is about one app");
    }
    let clusters = clusters(&pipeline, only);
    let address = &arguments.address;
    let address = address.resolve(&arguments.pipeline, &arguments.connection);
    let address = address.await?;
    for (cluster, targets) in &clusters {
        address.write_heading(cluster.as_deref(), out)?;
        for (environment, namespace) in targets {
            let hook = ClusterHook {
                pipeline: &pipeline,
                environment,
                cluster: cluster.as_deref(),
                namespace,
                address: address.url.trim_end_matches('/'),
            };
            if hook.secret().is_none() {
                writeln!(out, "{UNSIGNED}")?;
            }
            for object in hook.objects() {
                yaml::write(out, &object)?;
            }
        }
    }
    Ok(())
}

/// The environment and namespace of each target, by cluster.
pub(super) fn clusters(
    pipeline: &Pipeline,
    only: Option<&str>,
) -> BTreeMap<Option<String>, Vec<(String, String)>> {
    let mut clusters: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for environment in &pipeline.spec.environments {
        let name = environment.name.as_str();
        if only.is_some_and(|only| only != name) {
            continue;
        }
        for (cluster, namespace) in planner::targets_of(pipeline, name) {
            let target = (name.to_owned(), namespace);
            clusters.entry(cluster).or_default().push(target);
        }
    }
    clusters
}

impl ClusterHook<'_> {
    fn objects(&self) -> Vec<Value> {
        let secret = self.secret();
        let is_signed = secret.is_some();
        let mut objects = vec![self.provider(is_signed), self.alert()];
        objects.extend(secret);
        objects
    }

    fn name(&self) -> String {
        let (_, pipeline) = key(self.pipeline);
        slug(&format!("{pipeline}-{}", self.environment), 50, "promotion")
    }

    fn metadata(&self) -> Value {
        json!({"name": self.name(), "namespace": self.namespace})
    }

    fn provider(&self, is_signed: bool) -> Value {
        let (namespace, name) = key(self.pipeline);
        let environment = escaped(self.environment);
        let address = format!(
            "{}/promotion/{namespace}/{name}/{environment}",
            self.address
        );
        let mut spec = json!({"type": "generic", "address": address});
        if is_signed {
            spec["type"] = "generic-hmac".into();
            spec["secretRef"] = json!({"name": self.name()});
        }
        json!({
            "apiVersion": "notification.toolkit.fluxcd.io/v1beta3",
            "kind": "Provider",
            "metadata": self.metadata(),
            "spec": spec,
        })
    }

    fn alert(&self) -> Value {
        let app = self.pipeline.spec.app_ref.clone().unwrap_or_default();
        let mut spec = json!({
            "providerRef": {"name": self.name()},
            "eventSeverity": "info",
            "eventSources": [{"kind": app.kind, "name": app.name, "namespace": self.namespace}],
        });
        if let Some(cluster) = self.cluster {
            spec["eventMetadata"] = json!({"cluster": cluster});
        }
        json!({
            "apiVersion": "notification.toolkit.fluxcd.io/v1beta3",
            "kind": "Alert",
            "metadata": self.metadata(),
            "spec": spec,
        })
    }

    fn secret(&self) -> Option<Value> {
        let secret = planner::hook::report_secret(&self.pipeline.spec, self.environment)?;
        let (namespace, _) = key(self.pipeline);
        let from = format!(
            "<the value of hmac-key in the Secret {namespace}/{}>",
            secret.name
        );
        Some(json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": self.metadata(),
            "stringData": {"token": from},
        }))
    }
}

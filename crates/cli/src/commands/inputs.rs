//! `sluice inputs`: prints the Flux Operator objects with which each cluster asks Sluice what to run.
//!
//! It prints no tokens: the printed Secrets contain a placeholder that names the source of the value. The
//! ResourceSet never deletes the app when there are no inputs, as after its provider was created anew.

use std::io::Write;

use anyhow::bail;
use api::{Pipeline, app::AppType, names::INPUTS_TOKEN, names::slug, pipeline::Scope};
use serde_json::{Value, json};

use super::{
    cluster::{ClusterFlags, key, require_environment},
    hook_address::{AddressFlag, escaped},
    hooks::clusters,
    plan, yaml,
};

const API_VERSION: &str = "fluxcd.controlplane.io/v1";
/// How often a cluster asks.
const INTERVAL: &str = "1m";
/// How long the name of the printed objects may be.
pub(super) const LONGEST_NAME: usize = 50;

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

/// The objects for one target.
struct ClusterInputs<'a> {
    pipeline: &'a Pipeline,
    environment: &'a str,
    cluster: Option<&'a str>,
    namespace: &'a str,
    /// The Secret with the token, on the cluster of the pipeline.
    secret: &'a str,
    address: &'a str,
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let (pipeline, _) = plan::find(&arguments.pipeline, &arguments.connection).await?;
    let only = arguments.environment.as_deref();
    if let Some(only) = only {
        require_environment(&pipeline, only)?;
    }
    let secret = |environment: &str| planner::inputs_secret(&pipeline.spec, environment);
    let promoted = planner::strategies_in_use(&pipeline.spec);
    // Nothing is published for an environment that nothing is promoted into, unless somebody requests it.
    let is_meant = |environment: &str| {
        let is_promoted = promoted.iter().any(|(name, _)| *name == environment);
        secret(environment).is_some() && (is_promoted || only.is_some())
    };
    let mut clusters = clusters(&pipeline, only);
    for targets in clusters.values_mut() {
        targets.retain(|(environment, _)| is_meant(environment));
    }
    clusters.retain(|_, targets| !targets.is_empty());
    if clusters.is_empty() {
        bail!(
            "no target asks for inputs: set strategy.resourceSetInputs in the promotion settings of an \
             environment with targets"
        );
    }
    let address = &arguments.address;
    let address = address.resolve(&arguments.pipeline, &arguments.connection);
    let address = address.await?;
    for (cluster, targets) in &clusters {
        address.write_heading(cluster.as_deref(), out)?;
        for (environment, namespace) in targets {
            let inputs = ClusterInputs {
                pipeline: &pipeline,
                environment,
                cluster: cluster.as_deref(),
                namespace,
                secret: secret(environment).unwrap_or_default(),
                address: address.url.trim_end_matches('/'),
            };
            for object in [inputs.provider(), inputs.token(), inputs.resource_set()] {
                yaml::write(out, &object)?;
            }
        }
    }
    Ok(())
}

impl ClusterInputs<'_> {
    /// The name of the provider and of its Secret.
    fn name(&self) -> String {
        let (_, pipeline) = key(self.pipeline);
        let name = format!("{pipeline}-{}", self.environment);
        slug(&name, LONGEST_NAME, "inputs")
    }

    fn metadata(&self) -> Value {
        json!({"name": self.name(), "namespace": self.namespace})
    }

    /// Where the cluster asks. The namespace tells several targets of a cluster apart, where promotions
    /// cover one each.
    fn url(&self) -> String {
        let (namespace, name) = key(self.pipeline);
        let environment = escaped(self.environment);
        let cluster = escaped(self.cluster.unwrap_or("-"));
        let url = format!(
            "{}/inputs/{namespace}/{name}/{environment}?cluster={cluster}",
            self.address
        );
        let settings = self.pipeline.spec.promotion_into(self.environment);
        match settings.and_then(|settings| settings.scope) {
            Some(Scope::Target) => format!("{url}&namespace={}", escaped(self.namespace)),
            _ => url,
        }
    }

    fn provider(&self) -> Value {
        let mut metadata = self.metadata();
        metadata["annotations"] = json!({"fluxcd.controlplane.io/reconcileEvery": INTERVAL});
        let mut spec = json!({
            "type": "ExternalService",
            "url": self.url(),
            "secretRef": {"name": self.name()},
        });
        if self.address.starts_with("http://") {
            spec["insecure"] = true.into();
        }
        json!({
            "apiVersion": API_VERSION,
            "kind": "ResourceSetInputProvider",
            "metadata": metadata,
            "spec": spec,
        })
    }

    fn token(&self) -> Value {
        let (namespace, _) = key(self.pipeline);
        let from = format!(
            "<the value of {INPUTS_TOKEN} in the Secret {namespace}/{}>",
            self.secret
        );
        json!({
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": self.metadata(),
            "stringData": {"token": from},
        })
    }

    fn resource_set(&self) -> Value {
        let app = self.pipeline.spec.app_ref.clone().unwrap_or_default();
        let name = match app.kind.as_str() {
            "ResourceSet" => app.name,
            _ => self.name(),
        };
        json!({
            "apiVersion": API_VERSION,
            "kind": "ResourceSet",
            "metadata": {"name": name, "namespace": self.namespace},
            "spec": {
                "inputsFrom": [{"kind": "ResourceSetInputProvider", "name": self.name()}],
                "dependsOn": [{
                    "apiVersion": API_VERSION,
                    "kind": "ResourceSetInputProvider",
                    "name": self.name(),
                    "namespace": self.namespace,
                    "ready": true,
                    "readyExpr": "size(status.exportedInputs) > 0",
                }],
                "commonMetadata": {"annotations": {"fluxcd.controlplane.io/prune": "disabled"}},
                "wait": true,
                "resources": self.resources(),
            },
        })
    }

    /// The app, to be completed: its source at the published revision, and what applies it.
    fn resources(&self) -> Vec<Value> {
        let app = self.pipeline.spec.app_ref.clone().unwrap_or_default();
        let is_kustomization = AppType::of(&app.api_version, &app.kind) == AppType::Kustomization;
        let metadata = json!({"name": app.name, "namespace": self.namespace});
        let reference = match is_kustomization {
            true => json!({"digest": "<< inputs.revision | quote >>"}),
            false => json!({"tag": "<< inputs.version | quote >>"}),
        };
        let source = json!({
            "apiVersion": "source.toolkit.fluxcd.io/v1",
            "kind": "OCIRepository",
            "metadata": metadata,
            "spec": {
                "interval": "10m",
                "url": "<oci:// and the repository of the app>",
                "ref": reference,
            },
        });
        let source_ref = json!({"kind": "OCIRepository", "name": app.name});
        let applied = match is_kustomization {
            true => json!({
                "apiVersion": "kustomize.toolkit.fluxcd.io/v1",
                "kind": "Kustomization",
                "metadata": metadata,
                "spec": {"interval": "10m", "prune": true, "sourceRef": source_ref},
            }),
            false => json!({
                "apiVersion": "helm.toolkit.fluxcd.io/v2",
                "kind": "HelmRelease",
                "metadata": metadata,
                "spec": {"interval": "10m", "chartRef": source_ref},
            }),
        };
        vec![source, applied]
    }
}

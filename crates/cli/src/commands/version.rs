//! `sluice version`: prints the version of this binary, of the controllers on the cluster and of Kubernetes.

use std::io::Write;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

use super::{
    cluster::ClusterFlags,
    cluster_error::cluster_error,
    installed::{self, InstalledController},
    output::OutputFormat,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only the version of this binary; do not connect to a cluster
    #[arg(long)]
    client: bool,
    /// Output format
    #[arg(long, short, value_enum, default_value = "text")]
    output: OutputFormat,
    #[command(flatten)]
    connection: ClusterFlags,
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The versions on a cluster.
#[derive(Default)]
struct ClusterVersions {
    kubernetes: Option<String>,
    controllers: Vec<InstalledController>,
    /// Why something is missing.
    problem: Option<anyhow::Error>,
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let found = match arguments.client {
        true => ClusterVersions::default(),
        false => ask(&arguments.connection).await?,
    };
    arguments
        .output
        .write(out, || document(&found), |out| write_text(&found, out))?;
    found.problem.map_or(Ok(()), Err)
}

/// The versions on the cluster. Without a kubeconfig there is nothing to ask.
async fn ask(connection: &ClusterFlags) -> anyhow::Result<ClusterVersions> {
    if !connection.is_configured().await {
        return Ok(ClusterVersions::default());
    }
    let cluster = connection.connect().await?;
    Ok(match installed::controllers(&cluster.client).await {
        Ok((kubernetes, Ok(controllers))) => ClusterVersions {
            kubernetes: Some(kubernetes),
            controllers,
            problem: None,
        },
        Ok((kubernetes, Err(error))) => ClusterVersions {
            kubernetes: Some(kubernetes),
            problem: Some(cluster_error("list the Deployments", error)),
            ..ClusterVersions::default()
        },
        Err(error) => ClusterVersions {
            problem: Some(cluster_error("read the version of the cluster", error)),
            ..ClusterVersions::default()
        },
    })
}

fn write_text(found: &ClusterVersions, out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out, "sluice {VERSION}")?;
    for controller in &found.controllers {
        let place = controller.deployment.as_deref().unwrap_or("embedded");
        writeln!(out, "controller {} ({place})", controller.version)?;
    }
    if let Some(kubernetes) = &found.kubernetes {
        if found.controllers.is_empty() && found.problem.is_none() {
            writeln!(out, "controller not installed")?;
        }
        writeln!(out, "kubernetes {kubernetes}")?;
    }
    Ok(())
}

fn document(found: &ClusterVersions) -> Value {
    let kinds: Vec<String> = api::crds().iter().map(served).collect();
    let controllers = found.controllers.iter().map(|it| {
        json!({"version": it.version, "deployment": it.deployment, "available": it.is_available})
    });
    json!({
        "version": VERSION,
        "kinds": kinds,
        "controllers": controllers.collect::<Vec<_>>(),
        "kubernetes": found.kubernetes,
    })
}

/// `Pipeline.pipelines.weave.works/v1alpha1`
fn served(crd: &CustomResourceDefinition) -> String {
    let versions = crd.spec.versions.iter().map(|it| it.name.as_str());
    let versions: Vec<&str> = versions.collect();
    let (kind, group) = (&crd.spec.names.kind, &crd.spec.group);
    format!("{kind}.{group}/{}", versions.join(","))
}

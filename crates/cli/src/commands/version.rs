//! `sluice version`: prints the version, and as JSON also the served kinds.

use std::io::Write;

use anyhow::Context;
use clap::ValueEnum;
use serde_json::json;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Output format
    #[arg(long, short, value_enum, default_value = "text")]
    output: VersionOutput,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum VersionOutput {
    Text,
    Json,
}

pub(super) fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let version = env!("CARGO_PKG_VERSION");
    match arguments.output {
        VersionOutput::Text => writeln!(out, "sluice {version}")?,
        VersionOutput::Json => {
            let kinds: Vec<String> = api::crds().iter().map(served).collect();
            let all = json!({"version": version, "kinds": kinds});
            let text = serde_json::to_string_pretty(&all).context("cannot write JSON")?;
            writeln!(out, "{text}")?;
        }
    }
    Ok(())
}

/// `Pipeline.pipelines.weave.works/v1alpha1`
fn served(
    crd: &k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
) -> String {
    let versions = crd
        .spec
        .versions
        .iter()
        .map(|version| version.name.as_str());
    let versions: Vec<&str> = versions.collect();
    format!(
        "{}.{}/{}",
        crd.spec.names.kind,
        crd.spec.group,
        versions.join(",")
    )
}

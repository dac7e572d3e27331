//! `sluice forecast`: prints when each environment gets its next revision, as the planner computes it from
//! the stored objects, or from an edited Pipeline and the stored status.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use api::Pipeline;
use jiff::Timestamp;
use serde_json::json;

use super::{cluster::ClusterFlags, output::OutputFormat, terminal::clean, yaml};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Pipeline, as NAME or NAMESPACE/NAME
    pipeline: String,
    /// Forecast as of this time instead of now, such as 2027-01-04T08:00:00Z
    #[arg(long, value_name = "TIME")]
    at: Option<Timestamp>,
    /// Use the spec of the Pipeline in this file, or - for stdin, with the stored status
    #[arg(long, short, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Output format
    #[arg(long, short, value_enum, default_value = "text")]
    output: OutputFormat,
    #[command(flatten)]
    connection: ClusterFlags,
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let cluster = arguments.connection.connect().await?;
    let mut pipeline = cluster.pipeline(&arguments.pipeline).await?;
    let promotions = cluster.promotions(&pipeline).await?;
    if let Some(file) = &arguments.file {
        pipeline.spec = edited(file, &pipeline)?.spec;
    }
    let model = pipeline.status.clone().unwrap_or_default();
    let at = arguments.at.unwrap_or_else(Timestamp::now);
    let all = planner::forecast(&pipeline, &model, &promotions, at);
    arguments.output.write(
        out,
        || json!({"items": all}),
        |out| {
            for forecast in &all {
                writeln!(out, "{}", clean(&forecast.text()))?;
            }
            Ok(())
        },
    )
}

/// The Pipeline of that name in a file.
fn edited(file: &Path, stored: &Pipeline) -> anyhow::Result<Pipeline> {
    let name = stored.metadata.name.as_deref().unwrap_or_default();
    for document in yaml::documents(&yaml::read_text(file)?) {
        let value = match document.value {
            Ok(value) => value,
            Err(error) => bail!("{}:{}: {}", file.display(), error.line, error.text),
        };
        if value["kind"] == "Pipeline" && value["metadata"]["name"] == name {
            let pipeline = serde_json::from_value(value);
            return pipeline.with_context(|| format!("cannot read {}", file.display()));
        }
    }
    bail!(
        "{} has no Pipeline {name}; name the file with the edited Pipeline",
        file.display()
    )
}

//! `sluice explain`: prints the explanation that the planner computes from the stored objects.

use std::io::Write;

use super::{
    cluster::{ClusterFlags, require_environment},
    terminal::clean,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Pipeline, as NAME or NAMESPACE/NAME
    pipeline: String,
    /// Only this environment
    environment: Option<String>,
    #[command(flatten)]
    connection: ClusterFlags,
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let cluster = arguments.connection.connect().await?;
    let pipeline = cluster.pipeline(&arguments.pipeline).await?;
    let promotions = cluster.promotions(&pipeline).await?;
    let model = pipeline.status.clone().unwrap_or_default();
    let plan = planner::plan(&pipeline, &model, &promotions, jiff::Timestamp::now());
    let text = match &arguments.environment {
        None => planner::explain(&pipeline, &model, &plan),
        Some(name) => {
            require_environment(&pipeline, name)?;
            let text = planner::explain_environment(&pipeline, name, &model, &plan);
            text.unwrap_or_default()
        }
    };
    for line in text.lines() {
        writeln!(out, "{}", clean(line))?;
    }
    Ok(())
}

//! `sluice explain`: the planner's own words, from what is stored.

use std::io::Write;

use super::{
    cluster::{Connection, must_have},
    terminal::clean,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The pipeline, or namespace/pipeline
    pipeline: String,
    /// Only this environment
    environment: Option<String>,
    #[command(flatten)]
    connection: Connection,
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
            must_have(&pipeline, name)?;
            let text = planner::explain_environment(&pipeline, name, &model, &plan);
            text.unwrap_or_default()
        }
    };
    for line in text.lines() {
        writeln!(out, "{}", clean(line))?;
    }
    Ok(())
}

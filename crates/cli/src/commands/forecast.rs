//! `sluice forecast`: prints when each environment of a pipeline, or of all, gets its next revision, as the
//! planner computes it from the stored objects, or from an edited Pipeline and the stored status.

use std::{
    collections::BTreeMap,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::{Context, bail};
use api::{Pipeline, Promotion};
use jiff::Timestamp;
use kube::ResourceExt;
use planner::EnvironmentForecast;
use serde_json::json;

use super::{
    cluster::{Cluster, ClusterFlags, key, require_environment},
    output::OutputFormat,
    point_in_time::PointInTime,
    terminal::shown,
    yaml,
};

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Pipeline, as NAME or NAMESPACE/NAME [default: all of the namespace]
    pipeline: Option<String>,
    /// Only this environment
    environment: Option<String>,
    /// All namespaces
    #[arg(long, short = 'A', conflicts_with_all = ["pipeline", "namespace"])]
    all_namespaces: bool,
    /// Forecast as of this time instead of now: a time such as 2027-01-04T08:00:00Z, or a duration from now on such
    /// as 2h
    #[arg(long, value_name = "TIME")]
    at: Option<PointInTime>,
    /// Use the spec of the Pipeline in this file, or - for stdin, with the stored status
    #[arg(long, short, value_name = "FILE", requires = "pipeline")]
    file: Option<PathBuf>,
    /// Output format
    #[arg(long, short, value_enum, default_value = "text")]
    output: OutputFormat,
    #[command(flatten)]
    connection: ClusterFlags,
}

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let cluster = arguments.connection.connect().await?;
    let now = Timestamp::now();
    let at = arguments.at.map_or(Some(now), |it| it.time(now));
    let at = at.context("--at is too far away")?;
    let Some(name) = &arguments.pipeline else {
        return overview(arguments, &cluster, at, out).await;
    };
    let mut pipeline = cluster.pipeline(name).await?;
    let promotions = cluster.promotions(&pipeline).await?;
    if let Some(file) = &arguments.file {
        pipeline.spec = edited(file, &pipeline)?.spec;
    }
    let only = arguments.environment.as_deref();
    if let Some(only) = only {
        require_environment(&pipeline, only)?;
    }
    let mut all = forecast(&pipeline, &promotions, at);
    all.retain(|it| only.is_none_or(|only| only == it.environment));
    arguments.output.write(
        out,
        || json!({"items": all}),
        |out| {
            for forecast in &all {
                writeln!(out, "{}", shown(&forecast.text()))?;
            }
            if let Some(only) = only.filter(|_| all.is_empty()) {
                writeln!(out, "nothing is promoted into {only}")?;
            }
            Ok(())
        },
    )
}

fn forecast(
    pipeline: &Pipeline,
    promotions: &[Promotion],
    at: Timestamp,
) -> Vec<EnvironmentForecast> {
    let model = pipeline.status.clone().unwrap_or_default();
    planner::forecast(pipeline, &model, promotions, at)
}

/// The forecasts of all pipelines of the namespace, or of all: what comes by itself or needs somebody.
async fn overview(
    arguments: &Arguments,
    cluster: &Cluster,
    at: Timestamp,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let pipelines = cluster.pipelines(arguments.all_namespaces).await?;
    let mut promotions: BTreeMap<_, Vec<Promotion>> = BTreeMap::new();
    for promotion in cluster.all_promotions(arguments.all_namespaces).await? {
        let of = (promotion.namespace(), promotion.spec.pipeline.clone());
        promotions.entry(of).or_default().push(promotion);
    }
    let all = pipelines.iter().map(|pipeline| {
        let (namespace, name) = key(pipeline);
        let of = (pipeline.namespace(), name.to_owned());
        let promotions = promotions.get(&of).map(Vec::as_slice);
        let title = match arguments.all_namespaces {
            true => format!("{namespace}/{name}"),
            false => name.to_owned(),
        };
        (
            pipeline,
            title,
            forecast(pipeline, promotions.unwrap_or_default(), at),
        )
    });
    let all: Vec<_> = all.collect();
    let document = || {
        let items = all.iter().map(|(pipeline, _, forecasts)| {
            let (namespace, name) = key(pipeline);
            json!({"namespace": namespace, "pipeline": name, "environments": forecasts})
        });
        json!({"items": items.collect::<Vec<_>>()})
    };
    arguments.output.write(out, document, |out| {
        for (_, title, forecasts) in &all {
            for forecast in forecasts.iter().filter(|it| !it.is_settled()) {
                writeln!(out, "{}", shown(&format!("{title} {}", forecast.text())))?;
            }
        }
        Ok(())
    })
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

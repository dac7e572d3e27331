//! `sluice history`: the promotions of a pipeline, newest first.

use std::io::Write;

use api::{Promotion, Time, pipeline::FailedRelease};
use jiff::Timestamp;

use super::{
    cluster::{Connection, must_have},
    get,
    table::{self, Cell},
    terminal::clean,
    words::{age, length},
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

const HEADER: [&str; 8] = [
    "AGE",
    "ENVIRONMENT",
    "REVISION",
    "INSTEAD OF",
    "PHASE",
    "TOOK",
    "BY",
    "URL",
];

pub(super) async fn run(arguments: &Arguments, out: &mut dyn Write) -> anyhow::Result<()> {
    let cluster = arguments.connection.connect().await?;
    let pipeline = cluster.pipeline(&arguments.pipeline).await?;
    let only = arguments.environment.as_deref();
    if let Some(only) = only {
        must_have(&pipeline, only)?;
    }
    let mut promotions = cluster.promotions(&pipeline).await?;
    promotions.retain(|promotion| only.is_none_or(|only| only == promotion.spec.environment));
    promotions.reverse();
    let now = Timestamp::now();
    let rows: Vec<_> = promotions
        .iter()
        .map(|promotion| row(promotion, now))
        .collect();
    // Never cut: half a URL is of no use.
    match rows.is_empty() {
        true => anstream::eprintln!("nothing has been promoted yet"),
        false => table::write(out, &HEADER, &rows, None)?,
    }
    let environments = pipeline.status.unwrap_or_default().environments;
    for (name, status) in environments {
        if only.is_none_or(|only| only == name) && !status.ran.is_empty() {
            writeln!(
                out,
                "{}",
                clean(&format!("{name} ran {}", status.ran.join(", ")))
            )?;
        }
        if only.is_none_or(|only| only == name) && !status.rejected.is_empty() {
            let text = format!("{name} rejected {}", status.rejected.join(", "));
            writeln!(out, "{}", clean(&text))?;
        }
        if only.is_none_or(|only| only == name) {
            for failure in &status.failures {
                writeln!(out, "{}", clean(&failed(&name, failure, now)))?;
            }
        }
    }
    Ok(())
}

fn row(promotion: &Promotion, now: Timestamp) -> Vec<Cell> {
    let status = promotion.status.clone().unwrap_or_default();
    let metadata = &promotion.metadata;
    let spec = &promotion.spec;
    let namespace = metadata.namespace.as_deref().unwrap_or_default();
    vec![
        Cell::from(age(metadata.creation_timestamp.as_ref(), now)),
        Cell::from(planner::site_of(spec, namespace).key()),
        Cell::from(&spec.shown_revision()),
        Cell::from(spec.replaces.as_deref().unwrap_or_default()),
        get::phase(status.phase),
        Cell::from(took(
            metadata.creation_timestamp.as_ref(),
            status.finished_at.as_ref(),
        )),
        Cell::from(get::people(promotion)),
        Cell::from(status.url.as_deref().unwrap_or_default()),
    ]
}

/// `dev failed 1.2.0 3h ago in c1/web: the app's message`
fn failed(environment: &str, failure: &FailedRelease, now: Timestamp) -> String {
    let (revision, target) = (&failure.revision, &failure.target);
    let age = age(failure.at.as_ref(), now);
    let message = failure.message.as_deref();
    let because = message.map(|text| format!(": {text}")).unwrap_or_default();
    format!("{environment} failed {revision} {age} ago in {target}{because}")
}

fn took(from: Option<&Time>, to: Option<&Time>) -> String {
    let both = from.zip(to);
    let took = both.map(|(from, to)| length(to.0.as_second() - from.0.as_second()));
    took.unwrap_or_default()
}
